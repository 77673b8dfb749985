//! Tests `bb compile`: what it saves runs like the model.

use crate::process::{bb, folder, write};
use bb_tests::model::{model, node};

#[test]
fn a_compiled_model_is_a_model_for_every_command() {
    let folder = folder("compile");
    let softmax = model(&[("x", &[-1, 3])], vec![node("Softmax", &["x"], &["y"])], &[("y", &[-1, 3])]);
    let input = write(&folder, "model.onnx", &softmax);
    let output = folder.join("model.bb");
    let output = output.to_str().unwrap();
    let compiled = bb(&["compile", &input, "-o", output, "--shape", "x=2,3", "--json"]);
    assert_eq!(compiled.code(), 0, "{}", compiled.err);
    let bytes = std::fs::metadata(output).unwrap().len();
    assert_eq!((&compiled.json()["file"], &compiled.json()["bytes"]), (&output.into(), &bytes.into()));
    for rows in ["x=2,3", "x=5,3"] {
        let outputs = |model: &str| {
            let ended = bb(&["run", model, "--shape", rows, "--random", "7", "--json"]);
            assert_eq!(ended.code(), 0, "{}", ended.err);
            ended.json()["outputs"].clone()
        };
        assert_eq!(outputs(output), outputs(&input));
    }
    let inspected = bb(&["inspect", output]);
    assert_eq!(inspected.code(), 0, "{}", inspected.err);
    assert!(inspected.out.contains("Softmax"), "{}", inspected.out);
    let exported = folder.join("exported.onnx");
    let exported = exported.to_str().unwrap();
    let ended = bb(&["export", output, "--output", exported]);
    assert_eq!(ended.code(), 0, "{}", ended.err);
}

#[test]
fn what_cannot_be_compiled_or_loaded_says_why() {
    let folder = folder("compile-refused");
    let negated = model(&[("x", &[2])], vec![node("Neg", &["x"], &["y"])], &[("y", &[2])]);
    let input = write(&folder, "model.onnx", &negated);
    let over = bb(&["compile", &input, "-o", &input]);
    assert!(over.code() != 0 && over.err.contains("belongs to the model that is read"), "{}", over.err);
    let output = folder.join("model.bb");
    let output = output.to_str().unwrap();
    assert_eq!(bb(&["compile", &input, "-o", output]).code(), 0);
    let other = bb(&["run", output, "--random", "--backend", "reference"]);
    let expected = "the compiled model is for another backend: expected `reference`, got `cpu`";
    assert!(other.code() != 0 && other.err.contains(expected), "{}", other.err);
    let mut bytes = std::fs::read(output).unwrap();
    bytes[40] ^= 1;
    std::fs::write(output, bytes).unwrap();
    let damaged = bb(&["run", output, "--random"]);
    assert!(damaged.code() != 0 && damaged.err.contains("checksum"), "{}", damaged.err);
}

#[test]
fn a_model_is_compiled_with_the_options_that_change_last_digits() {
    let folder = folder("compile-rewritten");
    let softmax = model(&[("x", &[-1, 3])], vec![node("Softmax", &["x"], &["y"])], &[("y", &[-1, 3])]);
    let input = write(&folder, "model.onnx", &softmax);
    let output = folder.join("model.bb");
    let output = output.to_str().unwrap();
    let compiled = bb(&["compile", &input, "-o", output, "--recognize", "--no-fold-scales"]);
    assert_eq!(compiled.code(), 0, "{}", compiled.err);
    for options in [&["--recognize", "--no-fold-scales"][..], &[]] {
        let ended = bb(&[&["run", output, "--random"], options].concat());
        assert_eq!(ended.code(), 0, "{}", ended.err);
    }
    // Two backends are compared node by node, where nothing is rewritten.
    let ended = bb(&["compare", &input, "--backend", "cpu", "--backend", "reference", "--recognize"]);
    assert_eq!(ended.code(), 2, "{}", ended.err);
}
