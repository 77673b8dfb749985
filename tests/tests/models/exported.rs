//! Runs models of exporters and quantisers on every backend; `tests/data/exported/NOTICE` states how they
//! were made.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::conformance::onnx;
use bb_tests::backends;
use std::path::PathBuf;

/// Runs every case whose name contains `part` on every backend.
fn pass(part: &str, at_least: usize) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/exported");
    let mut cases = onnx::find(&folder).unwrap();
    cases.retain(|case| case.file_name().unwrap().to_str().unwrap().contains(part));
    assert!(cases.len() >= at_least, "{} cases have `{part}` in their names", cases.len());
    let mut failed = Vec::new();
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        for case in &cases {
            if let Err(failure) = onnx::run(case, &on) {
                failed.push(format!("{} on {name}: {failure:?}", case.display()));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn estimators_predict_what_their_libraries_do_and_quantised_models_what_onnx_runtime_does() {
    pass("", 30);
}

#[test]
fn texts_are_tokenized_as_their_vectorizers_do() {
    pass("text_", 4);
}

#[test]
fn quantised_forms_give_what_onnx_runtime_gives() {
    pass("surfaces_gbr.", 5);
}
