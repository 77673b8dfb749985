//! Tests `bb conformance`: each case fails alone, and the last line counts the cases.

use crate::process::{bb, folder, write};
use bb::{DataType, TensorData};
use bb_tests::model::{model, node, typed};
use prost::Message;
use std::path::Path;

/// Writes a case of one input and one output.
fn case(folder: &Path, name: &str, model: &[u8], input: &TensorData, output: &TensorData) {
    write(folder, &format!("{name}/model.onnx"), model);
    write(folder, &format!("{name}/test_data_set_0/input_0.pb"), &input.to_proto("x").encode_to_vec());
    write(folder, &format!("{name}/test_data_set_0/output_0.pb"), &output.to_proto("y").encode_to_vec());
}

fn floats(elements: &[f32]) -> TensorData {
    TensorData::new(&[elements.len()], elements).unwrap()
}

/// Writes a case that negates two numbers and expects `expected`; `name` may contain subfolders.
fn negation(folder: &Path, name: &str, expected: [f32; 2]) {
    let bytes = model(&[("x", &[2])], vec![node("Neg", &["x"], &["y"])], &[("y", &[2])]);
    case(folder, name, &bytes, &floats(&[1.0, 2.0]), &floats(&expected));
}

fn records(folder: &Path) -> Vec<(String, String, String)> {
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.join("report.json")).unwrap()).unwrap();
    let text = |v: &serde_json::Value| v.as_str().unwrap_or_default().to_owned();
    json.as_array()
        .unwrap()
        .iter()
        .map(|r| (text(&r["case"]), text(&r["status"]), text(&r["reason"])))
        .collect()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn all_passed_is_success() {
    let folder = folder("conformance-passes");
    negation(&folder, "cases/right", [-1.0, -2.0]);
    negation(&folder, "cases/deep/below/right", [-1.0, -2.0]);
    let ended = bb(&["conformance", text(&folder.join("cases"))]);
    assert_eq!((ended.code(), &*ended.out), (0, "2 passed, 0 failed, 0 skipped\n"), "{}", ended.err);
}

#[test]
fn a_failed_case_is_reported_with_its_reason() {
    let folder = folder("conformance-fails");
    negation(&folder, "cases/right", [-1.0, -2.0]);
    negation(&folder, "cases/wrong", [-1.0, 5.0]);
    negation(&folder, "cases/left_out", [0.0, 0.0]);
    let exclude = write(&folder, "exclude.txt", b"left_out # expects nonsense\n");
    let report = folder.join("report.json");
    let ended =
        bb(&["conformance", text(&folder.join("cases")), "--exclude", &exclude, "--json", text(&report)]);
    assert_eq!(ended.code(), 1);
    assert_eq!(ended.out.lines().last(), Some("1 passed, 1 failed, 1 skipped"), "{}", ended.out);
    let records = records(&folder);
    assert_eq!(records.len(), 3);
    let (_, status, reason) = records.iter().find(|r| r.0 == "wrong").unwrap();
    assert_eq!(status, "failed");
    assert!(reason.contains("expected 5, got -2"), "{reason}");
}

#[test]
fn support_is_counted_by_operator_version_and_types() {
    let folder = folder("conformance-support");
    negation(&folder, "cases/right", [-1.0, -2.0]);
    negation(&folder, "cases/wrong", [-1.0, 5.0]);
    let ints = TensorData::new(&[2], &[1_i32, 2]).unwrap();
    let bytes = model(&[("x", &[2])], vec![node("Neg", &["x"], &["y"])], &[("y", &[2])]);
    let bytes = typed(bytes, &[("x", DataType::I32), ("y", DataType::I32)]);
    case(&folder, "cases/of_ints", &bytes, &ints, &TensorData::new(&[2], &[-1_i32, -2]).unwrap());
    let both = vec![node("Neg", &["x"], &["a"]), node("Exp", &["a"], &["y"])];
    let bytes = model(&[("x", &[2])], both, &[("y", &[2])]);
    case(&folder, "cases/both", &bytes, &floats(&[0.0, 0.0]), &floats(&[1.0, 1.0]));
    let table = folder.join("support.csv");
    let ended = bb(&["conformance", text(&folder.join("cases")), "--support", text(&table)]);
    assert_eq!(ended.code(), 1, "{}", ended.err);
    let expected = "domain,operator,since,types,passed,declined,failed,skipped\n,Neg,13,f32,1,0,1,0\n,Neg,13,i32,1,0,0,0\n";
    assert_eq!(std::fs::read_to_string(table).unwrap(), expected);
}

/// Only cases that passed are measured, and each of them on both backends.
#[test]
fn cases_are_measured_beside_another_backend() {
    let folder = folder("conformance-perf");
    negation(&folder, "cases/right", [-1.0, -2.0]);
    negation(&folder, "cases/wrong", [-1.0, 5.0]);
    let (cases, table) = (folder.join("cases"), folder.join("support.csv"));
    let ended = bb(&["conformance", text(&cases), "--perf", "reference", "--support", text(&table)]);
    assert_eq!(ended.code(), 1, "{}", ended.err);
    assert!(ended.out.contains("the geometric mean of 1 cases"), "{}", ended.out);
    let rows = std::fs::read_to_string(table).unwrap();
    let (header, row) = rows.trim_end().split_once('\n').unwrap();
    assert!(header.ends_with("skipped,microseconds,other,ratio"), "{header}");
    let cells: Vec<f64> = row.rsplit(',').take(3).map(|cell| cell.parse().unwrap()).collect();
    let [ratio, other, own] = cells[..] else { panic!("{row}") };
    assert!(own > 0.0 && (ratio - own / other).abs() < 0.02 * ratio + 0.01, "{row}");

    let ended = bb(&["conformance", text(&cases), "--perf", "referense"]);
    assert_eq!(ended.code(), 1);
    assert!(ended.err.contains("did you mean `reference`?"), "{}", ended.err);
}

#[test]
#[cfg(not(feature = "ort"))]
fn a_provider_of_onnx_runtime_needs_the_feature() {
    let folder = folder("conformance-library");
    let ended = bb(&["conformance", text(&folder), "--library", "libprovider.so"]);
    assert_eq!(ended.code(), 1);
    assert!(ended.err.contains("need the feature `ort`"), "{}", ended.err);
}

#[test]
fn cases_in_this_process_have_the_same_outcomes() {
    let folder = folder("conformance-in-process");
    negation(&folder, "cases/right", [-1.0, -2.0]);
    negation(&folder, "cases/wrong", [-1.0, 5.0]);
    write(&folder, "cases/unreadable/model.onnx", b"no model");
    let ended = bb(&["conformance", text(&folder.join("cases")), "--in-process"]);
    assert_eq!(ended.code(), 1);
    assert_eq!(ended.out.lines().last(), Some("1 passed, 2 failed, 0 skipped"), "{}", ended.out);
    assert!(
        ended.out.contains("failed wrong (Neg 13): ") && ended.out.contains("expected 5, got -2"),
        "{}",
        ended.out
    );
    assert!(ended.out.contains("failed unreadable: "), "{}", ended.out);
}

#[test]
fn a_case_in_this_process_ends_when_its_time_is_over() {
    let folder = folder("conformance-in-process-time");
    negation(&folder, "cases/right", [-1.0, -2.0]);
    // These products of matrices take minutes.
    let nodes =
        (0..2000).map(|i| node("MatMul", &[&format!("v{i}"), "v0"], &[&format!("v{}", i + 1)])).collect();
    let slow = model(&[("v0", &[512, 512])], nodes, &[("v2000", &[512, 512])]);
    let matrix = TensorData::new(&[512, 512], &vec![0f32; 512 * 512]).unwrap();
    case(&folder, "cases/slow", &slow, &matrix, &matrix);
    let cases = folder.join("cases");
    let ended =
        bb(&["conformance", text(&cases), "--in-process", "--timeout", "2", "--backend", "reference"]);
    assert_eq!(ended.code(), 1);
    assert!(ended.out.contains("failed slow (MatMul 13): timed out after 2 s"), "{}", ended.out);
    assert_eq!(ended.out.lines().last(), Some("1 passed, 1 failed, 0 skipped"), "{}", ended.out);
}

#[test]
fn a_filter_chooses_cases_by_their_path() {
    let folder = folder("conformance-filter");
    negation(&folder, "cases/right", [-1.0, -2.0]);
    negation(&folder, "cases/wrong", [-1.0, 5.0]);
    let ended =
        bb(&["conformance", text(&folder.join("cases")), "--filter", "igh", "--backend", "reference"]);
    assert_eq!((ended.code(), &*ended.out), (0, "1 passed, 0 failed, 0 skipped\n"), "{}", ended.err);
}

#[test]
fn a_hanging_case_fails_alone() {
    let folder = folder("conformance-hangs");
    negation(&folder, "cases/right", [-1.0, -2.0]);
    negation(&folder, "cases/zz_right", [-1.0, -2.0]);
    // These products of matrices take minutes.
    let nodes =
        (0..2000).map(|i| node("MatMul", &[&format!("v{i}"), "v0"], &[&format!("v{}", i + 1)])).collect();
    let slow = model(&[("v0", &[512, 512])], nodes, &[("v2000", &[512, 512])]);
    let matrix = TensorData::new(&[512, 512], &vec![0f32; 512 * 512]).unwrap();
    case(&folder, "cases/slow", &slow, &matrix, &matrix);
    let report = folder.join("report.json");
    let cases = folder.join("cases");
    let ended = bb(&[
        "conformance",
        text(&cases),
        "--backend",
        "reference",
        "--timeout",
        "2",
        "--json",
        text(&report),
    ]);
    assert_eq!(ended.code(), 1);
    assert_eq!(ended.out.lines().last(), Some("2 passed, 1 failed, 0 skipped"), "{}{}", ended.out, ended.err);
    let (_, _, reason) = records(&folder).into_iter().find(|r| r.0 == "slow").unwrap();
    assert_eq!(reason, "timed out after 2 s");
}

#[cfg(unix)]
#[test]
fn a_folder_without_cases_is_an_error() {
    let folder = folder("conformance-empty");
    let ended = bb(&["conformance", text(&folder)]);
    assert_eq!(ended.code(), 1);
    assert!(ended.err.contains("no folder below it has a model.onnx"), "{}", ended.err);
}

#[test]
fn json_on_standard_output_is_alone_there() {
    let folder = folder("conformance-json");
    negation(&folder, "cases/right", [-1.0, -2.0]);
    negation(&folder, "cases/wrong", [-1.0, 5.0]);
    let ended = bb(&["conformance", text(&folder.join("cases")), "--json", "-"]);
    assert_eq!(ended.code(), 1);
    assert_eq!(ended.json().as_array().unwrap().len(), 2);
    assert!(
        ended.err.contains("failed wrong (Neg 13):") && ended.err.contains("1 passed, 1 failed"),
        "{}",
        ended.err
    );
}

#[test]
fn a_filter_that_matches_nothing_is_an_error() {
    let folder = folder("conformance-no-match");
    negation(&folder, "cases/right", [-1.0, -2.0]);
    let ended = bb(&["conformance", text(&folder.join("cases")), "--filter", "rihgt"]);
    assert_eq!(ended.code(), 1);
    assert!(ended.err.contains("has `rihgt` in its path"), "{}", ended.err);
}

#[test]
fn an_excluded_name_that_is_no_case_is_warned_of() {
    let folder = folder("conformance-no-exclude");
    negation(&folder, "cases/right", [-1.0, -2.0]);
    negation(&folder, "cases/left", [-1.0, 5.0]);
    let exclude = write(&folder, "exclude.txt", b"lefft\nkind/left\n");
    let ended = bb(&["conformance", text(&folder.join("cases")), "--exclude", &exclude]);
    assert_eq!(
        (ended.code(), &*ended.out),
        (0, "skipped 1: excluded\n1 passed, 0 failed, 1 skipped\n"),
        "{}",
        ended.err
    );
    assert!(ended.err.contains("warning: ") && ended.err.contains("`lefft`"), "{}", ended.err);
    assert!(!ended.err.contains("`kind/left`"), "{}", ended.err);
}

#[cfg(unix)]
#[test]
fn a_case_whose_path_is_not_unicode_runs() {
    use std::os::unix::ffi::OsStrExt;
    let folder = folder("conformance-bytes");
    negation(&folder, "cases/right", [-1.0, -2.0]);
    let odd = folder.join("cases").join(std::ffi::OsStr::from_bytes(b"odd\n\xFF"));
    std::fs::rename(folder.join("cases/right"), odd).unwrap();
    let ended = bb(&["conformance", text(&folder.join("cases"))]);
    assert_eq!((ended.code(), &*ended.out), (0, "1 passed, 0 failed, 0 skipped\n"), "{}", ended.err);
}

/// Runs the case `it` of a folder, which has failed, and returns the reason.
fn reason(folder: &Path) -> String {
    let (cases, report) = (folder.join("cases"), folder.join("report.json"));
    let ended = bb(&["conformance", text(&cases), "--json", text(&report)]);
    assert_eq!(ended.out.lines().last(), Some("0 passed, 1 failed, 0 skipped"), "{}", ended.out);
    records(folder).remove(0).2
}

/// Without an expected file there is nothing to compare, so that the case would pass with any output.
#[test]
fn an_output_without_an_expected_file_fails() {
    let folder = folder("conformance-no-expected");
    negation(&folder, "cases/it", [-1.0, -2.0]);
    let set = folder.join("cases/it/test_data_set_0");
    let file = |name: &str| set.join(name);
    std::fs::rename(file("output_0.pb"), file("output_1.pb")).unwrap();
    let expected = format!("`{}` has `output_1.pb`, but no `output_0.pb`", text(&set));
    assert_eq!(reason(&folder), expected);
    std::fs::remove_file(file("output_1.pb")).unwrap();
    assert_eq!(reason(&folder), "output `y` (0 of 1) has no expected file `output_0.pb`");
}

#[test]
fn a_missing_data_set_fails() {
    let folder = folder("conformance-set-gap");
    negation(&folder, "cases/it", [-1.0, -2.0]);
    std::fs::create_dir(folder.join("cases/it/test_data_set_2")).unwrap();
    let case = folder.join("cases/it");
    let expected = format!("`{}` has `test_data_set_2`, but no `test_data_set_1`", text(&case));
    assert_eq!(reason(&folder), expected);
}

#[test]
fn wrong_settings_of_a_case_fail_it() {
    let folder = folder("conformance-settings");
    negation(&folder, "cases/it", [-1.0, -2.0]);
    let settings = write(&folder, "cases/it/data.json", br#"{ "rtol": -0.5 }"#);
    let expected = format!(
        "`{settings}` is no description of a case: expected a number from 0 to 1 as `rtol`, got -0.5"
    );
    assert_eq!(reason(&folder), expected);
}

/// Skipped cases say nothing of the backend, so that a run without a passed case is no success.
#[test]
fn fewer_passed_cases_than_required_are_an_error() {
    let folder = folder("conformance-require");
    negation(&folder, "cases/right", [-1.0, -2.0]);
    let cases = folder.join("cases");
    let ended = bb(&["conformance", text(&cases), "--require", "2"]);
    assert_eq!((ended.code(), &*ended.out), (1, "1 passed, 0 failed, 0 skipped\n"), "{}", ended.err);
    assert!(ended.err.contains("expected at least 2 cases to pass, got 1"), "{}", ended.err);
    let ended = bb(&["conformance", text(&cases), "--require", "1"]);
    assert_eq!(ended.code(), 0, "{}", ended.err);
}

#[test]
fn a_surplus_input_is_a_failure() {
    let folder = folder("conformance-surplus");
    negation(&folder, "cases/more", [-1.0, -2.0]);
    let set = folder.join("cases/more/test_data_set_0");
    std::fs::copy(set.join("input_0.pb"), set.join("input_1.pb")).unwrap();
    let ended = bb(&["conformance", text(&folder.join("cases"))]);
    assert!(ended.out.contains("got 2 inputs, and the model has 1"), "{}", ended.out);
    assert_eq!(ended.code(), 1);
}

/// With a baseline, only what became worse is a failure.
#[test]
fn a_baseline_finds_cases_that_became_worse() {
    let folder = folder("conformance-baseline");
    negation(&folder, "cases/known", [5.0, -2.0]);
    negation(&folder, "cases/right", [-1.0, -2.0]);
    let (cases, earlier) = (folder.join("cases"), folder.join("earlier.json"));
    assert_eq!(bb(&["conformance", text(&cases), "--json", text(&earlier)]).code(), 1);
    let compared = ["conformance", text(&cases), "--baseline", text(&earlier)];
    let ended = bb(&compared);
    assert!(ended.out.contains("compared with the baseline: 0 worse, 0 better"), "{}", ended.out);
    assert_eq!(ended.code(), 0, "{}", ended.err);

    negation(&folder, "cases/known", [-1.0, -2.0]);
    negation(&folder, "cases/right", [-1.0, 5.0]);
    let ended = bb(&compared);
    assert!(ended.out.contains("worse right: passed before, failed now"), "{}", ended.out);
    assert!(ended.out.contains("1 worse, 1 better"), "{}", ended.out);
    assert_eq!(ended.code(), 1, "{}", ended.err);

    negation(&folder, "cases/new", [5.0, -2.0]);
    assert!(bb(&compared).out.contains("worse new: not run before, failed now"));
    std::fs::remove_dir_all(cases.join("new")).unwrap();

    std::fs::remove_dir_all(cases.join("right")).unwrap();
    let ended = bb(&compared);
    assert!(ended.out.contains("worse right: passed before, not run now"), "{}", ended.out);
    assert_eq!(ended.code(), 1, "{}", ended.err);
    // Cases that are not chosen are not compared.
    assert_eq!(bb(&[&compared[..], &["--filter", "known"]].concat()).code(), 0);

    let wrong = write(&folder, "wrong.json", b"{}");
    let ended = bb(&["conformance", text(&cases), "--baseline", &wrong]);
    assert!(ended.err.contains("is no list of cases that `bb conformance --json` wrote"), "{}", ended.err);
    assert_eq!(ended.code(), 1);
}

#[test]
fn failures_name_operators_and_inputs_in_order() {
    let folder = folder("conformance-failures");
    negation(&folder, "cases/b", [-1.0, 5.0]);
    negation(&folder, "cases/a", [5.0, -2.0]);
    let ended = bb(&["conformance", text(&folder.join("cases"))]);
    let lines: Vec<&str> = ended.out.lines().filter(|line| line.starts_with("failed ")).collect();
    let expected = [
        "failed a (Neg 13): output `y` (0 of 1): element 0: expected 5, got -1; 1 of 2 elements differ by more than 1e-7 + 0.001 * |expected|; input `x`: f32[2] {1.0, 2.0}",
        "failed b (Neg 13): output `y` (0 of 1): element 1: expected 5, got -2; 1 of 2 elements differ by more than 1e-7 + 0.001 * |expected|; input `x`: f32[2] {1.0, 2.0}",
    ];
    assert_eq!(lines, expected, "{}", ended.out);
    assert!(ended.out.contains("Neg 13"), "{}", ended.out);
}

#[test]
fn a_file_instead_of_a_folder_is_an_error() {
    let folder = folder("conformance-file");
    let archive = write(&folder, "cases.tar.gz", b"cases");
    let ended = bb(&["conformance", &archive]);
    assert_eq!(ended.code(), 1);
    assert!(
        ended.err.contains("is a file; expected a folder with cases: unpack an archive"),
        "{}",
        ended.err
    );
}

#[test]
fn a_negative_device_is_an_error_of_the_option() {
    let ended = bb(&["conformance", "cases", "--library", "libmine.so", "--device", "-1"]);
    assert_eq!(ended.code(), 2);
    assert!(ended.err.contains("invalid value '-1' for '--device <N>'"), "{}", ended.err);
}

/// Builds with the feature `ort` have the backend.
#[test]
#[cfg(not(feature = "ort"))]
fn a_backend_of_another_build_names_its_feature() {
    let ended = bb(&["conformance", "cases", "--backend", "ort-strict"]);
    assert_eq!(ended.code(), 1);
    let expected = "this build has no backend `ort-strict`: build with `--features ort`";
    assert!(ended.err.contains(expected), "{}", ended.err);
}
