//! Tests the command in one process: tables, files, and refused input.
#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use common::committed;
use std::path::Path;
use std::process::{Command, Output};

fn local(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bb-ballista")).arg("local").args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns a query for ten points of a grid and their class, according to the model.
fn points() -> String {
    format!(
        "SELECT id, bb_run('{}', arrow_cast(array_repeat(id, 12), 'List(Float32)'))['label'] AS label
         FROM generate_series(0, 9) AS t(id) ORDER BY id",
        committed("skl_random_forest")
    )
}

#[test]
fn a_result_is_printed_as_a_table_with_at_most_some_rows() {
    let done = local(&[&points(), "--most-rows", "3"]);
    let (out, err) = (text(&done.stdout), text(&done.stderr));
    assert!(done.status.success(), "{err}");
    assert!(out.contains("| id | label |") && out.contains("| 2  |") && !out.contains("| 3  |"), "{out}");
    assert!(out.contains("7 more rows"), "{out}");
}

#[test]
fn an_empty_result_has_its_columns() {
    let done = local(&["SELECT id, id + 1 AS next FROM generate_series(0, 9) AS t(id) WHERE id > 100"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(text(&done.stdout).contains("| id | next |"), "{}", text(&done.stdout));
}

#[test]
fn an_error_is_its_cause_alone() {
    let model = common::made("null", &common::identity(bb::DataType::F32, &["n"]));
    let sql = format!(
        "SELECT bb_run('{model}', CASE WHEN id = 7 THEN NULL ELSE arrow_cast(id, 'Float32') END) AS y
                       FROM generate_series(0, 9) AS t(id)"
    );
    let done = local(&[&sql]);
    let expected = "error: the column for the input `x` is null in row 7 of a batch; filter nulls or write coalesce(…)\n";
    assert_eq!((done.status.code(), text(&done.stderr).as_str()), (Some(1), expected));
}

#[test]
fn a_result_is_written_as_csv_and_parquet_and_read_again() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for name in ["labels.csv", "labels.parquet"] {
        let done = local(&[&points(), "--output", &file(name)]);
        assert!(done.status.success(), "{}", text(&done.stderr));
        assert!(text(&done.stdout).contains("10 rows in"), "{}", text(&done.stdout));
    }
    let csv = std::fs::read_to_string(file("labels.csv")).unwrap();
    assert_eq!((csv.lines().next(), csv.lines().count()), (Some("id,label"), 11));
    let table = format!("labels={}", file("labels.parquet"));
    let done = local(&["SELECT count(*) AS n, min(id) AS a, max(id) AS b FROM labels", "--table", &table]);
    assert!(text(&done.stdout).contains("| 10 | 0 | 9 |"), "{}", text(&done.stdout));
}

#[test]
fn what_is_wrong_is_said_and_leaves_no_file() {
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-none.parquet", std::process::id()));
    let output = output.to_str().unwrap();
    for (args, words) in [
        (vec!["SELECT bb_run('none.onnx', 1)", "--output", output], "cannot read the model `none.onnx`"),
        (vec!["SELECT 1", "--output", "result.json"], "expected a file that ends in .parquet or .csv"),
        (vec!["SELECT", "--set", "no.such.setting=1"], "config namespace"),
        (vec!["SELECT 1", "--table", "points"], "expected NAME=PATH"),
        (vec!["SELECT * FROM t", "--table", "t=/no/such/folder"], "cannot read `/no/such/folder`"),
    ] {
        let done = local(&args);
        assert!(!done.status.success(), "{args:?}");
        assert!(text(&done.stderr).contains(words), "{}", text(&done.stderr));
    }
    assert!(!Path::new(output).exists());
}

#[test]
fn files_that_are_no_tables_are_refused_without_a_trace() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("t.parquet");
    let table = format!("t={}", path.to_str().unwrap());
    // The last file has the structure of a Parquet file, but invalid metadata.
    let nonsense = [b"PAR1".as_slice(), &[0xff; 40], &40u32.to_le_bytes(), b"PAR1"].concat();
    for bytes in [vec![], b"no table".to_vec(), vec![7; 4096], nonsense] {
        std::fs::write(&path, &bytes).unwrap();
        let done = local(&["SELECT count(*) FROM t", "--table", &table]);
        let err = text(&done.stderr);
        assert_eq!(done.status.code(), Some(1), "{err}");
        assert!(err.lines().any(|line| line.starts_with("error: ")) && !err.contains("backtrace"), "{err}");
        assert!(err.lines().count() < 8, "{err}");
    }
}
