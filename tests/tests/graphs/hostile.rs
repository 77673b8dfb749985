//! Tests that malformed and malicious models are refused before anything runs, quickly and with little
//! memory.

#![expect(clippy::unwrap_used, reason = "tests")]

use bb_ir::check::{CheckOptions, check, parse_model};
use bb_ir::proto::ExternalData;
use bb_ir::{Error, Limits};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/hostile")
}

fn outcome(file: &str, external_data: Option<&Path>) -> Result<(), Error> {
    let bytes = std::fs::read(folder().join(file)).unwrap();
    let data = external_data.map(|folder| ExternalData::in_folder(folder, &Limits::default()));
    let options = CheckOptions {
        external_data: data.as_ref(),
        operators: bb::onnx::OPERATORS,
        ..CheckOptions::default()
    };
    let model = parse_model(bytes.into(), &options.limits)?;
    check(&model, &options).map(drop)
}

/// Formats an error and its causes on one line.
fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[test]
fn every_file_is_refused() {
    let list = std::fs::read_to_string(folder().join("list.tsv")).unwrap();
    let mut count = 0;
    for line in list.lines().skip(1) {
        let file = line.split('\t').next().unwrap();
        let start = Instant::now();
        let result = outcome(file, Some(&folder()));
        // Whether a backend supports the operator is checked only when the model is compiled.
        assert_eq!(result.is_ok(), file == "14_unknown_op.onnx", "{file}: {result:?}");
        assert!(start.elapsed() < Duration::from_secs(10), "{file} took {:?}", start.elapsed());
        count += 1;
    }
    assert_eq!(count, 30);
}

#[test]
fn messages_say_where_and_what() {
    let cases = [
        ("06_cyclic_graph.onnx", "needs its own result `a`"),
        ("08_missing_initializer.onnx", "reads `w_missing`, which nothing provides"),
        ("12_huge_dims.onnx", "cannot read tensor `w`"),
        ("15_unknown_domain.onnx", "domain `com.evil`"),
        ("17_duplicate_output_names.onnx", "`y`, which is already provided"),
        ("22_external_absolute_path.onnx", "`/etc/passwd`"),
        ("24_wrong_attr_type.onnx", "attribute `perm`: expected integers, got a float"),
        ("25_bad_perm.onnx", "not a permutation"),
        ("29_gather_oob.onnx", "index 4 is out of range for extent 4"),
        ("37_split_sum_mismatch.onnx", "does not sum to the extent"),
        ("39_matmul_shape_mismatch.onnx", "[2, 3] and [4, 2]"),
        ("40_add_dtype_mismatch.onnx", "`b` has elements of i64, expected f32 like `a`; cast one of them"),
        ("42_opset_future.onnx", "version 9999"),
    ];
    for (file, part) in cases {
        let text = chain(&outcome(file, Some(&folder())).unwrap_err());
        assert!(text.contains(part), "{file}: {text}");
    }
}

#[test]
fn external_data_is_refused_where_no_folder_is_allowed() {
    assert!(outcome("21_external_path_traversal.onnx", None).is_err());
}

#[test]
fn a_model_longer_than_the_limit_is_not_decoded() {
    let limits = Limits { model_bytes: 10, ..Limits::default() };
    let result = parse_model(vec![0; 11].into(), &limits);
    assert!(matches!(result, Err(Error::Limit { limit: 10, got: 11, .. })));
}

/// Every truncation, and every file with one changed byte, must be refused or read.
#[test]
fn truncated_and_flipped_models_do_not_panic() {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder()).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "onnx") && f.metadata().unwrap().len() < 1024);
    assert!(files.len() > 20);
    let options = CheckOptions { operators: bb::onnx::OPERATORS, ..CheckOptions::default() };
    let run = |bytes: Vec<u8>| {
        if let Ok(model) = parse_model(bytes.into(), &options.limits) {
            let _ = check(&model, &options);
        }
    };
    for file in files {
        let bytes = std::fs::read(file).unwrap();
        for at in 0..bytes.len() {
            run(bytes.iter().copied().take(at).collect());
            for flip in [1, 0x80, 0xFF] {
                let mut flipped = bytes.clone();
                if let Some(byte) = flipped.get_mut(at) {
                    *byte ^= flip;
                }
                run(flipped);
            }
        }
    }
}
