//! Real models, whole, on every backend.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::conformance::onnx;
use bb_tests::backends;
use std::path::PathBuf;

/// Runs the model in `tests/data/models` on every backend and compares with ONNX Runtime's outputs.
fn passes_everywhere(model: &str) {
    let case = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/models").join(model);
    for name in backends::NAMES {
        let on = backends::start(name).unwrap();
        onnx::run(&case, &on).unwrap_or_else(|failure| panic!("{model} on {name}: {failure:?}"));
    }
}

#[test]
fn tiny_llama_of_primitives() {
    passes_everywhere("tiny_llama_primitives_op17");
}

#[test]
fn magika() {
    passes_everywhere("magika");
}

#[test]
fn tiny_llama_of_fused_operators() {
    passes_everywhere("tiny_llama_fused_op23");
}

#[test]
fn attacut() {
    passes_everywhere("attacut_sc");
}

#[test]
fn surfaces_gbr() {
    passes_everywhere("surfaces_gbr");
}

#[test]
fn basic_pitch() {
    passes_everywhere("basic_pitch");
}

#[test]
fn silero_vad() {
    passes_everywhere("silero_vad_op16");
}

#[test]
fn random_forest() {
    passes_everywhere("skl_random_forest");
}

#[test]
fn every_committed_model_is_tested() {
    let cases = onnx::find(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/models")).unwrap();
    let names: Vec<_> = cases.iter().map(|case| case.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "attacut_sc",
            "basic_pitch",
            "magika",
            "silero_vad_op16",
            "skl_random_forest",
            "surfaces_gbr",
            "tiny_llama_fused_op23",
            "tiny_llama_primitives_op17"
        ]
    );
}
