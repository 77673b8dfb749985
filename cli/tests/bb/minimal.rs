//! Tests `bb minimal`: the features that models need, and what it says of operators that nobody has.

use crate::process::{bb, folder, write};
use bb::ir::proto::{ModelProto, NodeProto, OperatorSetIdProto};
use bb_tests::model::{custom, model, node, with_function, with_graph};
use prost::Message;

/// A node of a domain, from `x` to `y`.
fn of(domain: &str, op: &str) -> NodeProto {
    NodeProto { domain: Some(domain.into()), ..node(op, &["x"], &["y"]) }
}

/// A model of the nodes.
fn from(nodes: Vec<NodeProto>) -> Vec<u8> {
    model(&[("x", &[2])], nodes, &[("y", &[2])])
}

/// Adds the import of a domain.
fn importing(domain: &str, model: &[u8]) -> Vec<u8> {
    let mut model = ModelProto::decode(model).unwrap();
    model.opset_import.push(OperatorSetIdProto { domain: Some(domain.into()), version: Some(1) });
    model.encode_to_vec()
}

#[test]
fn the_features_are_those_of_the_operators() {
    let folder = folder("minimal");
    let plain = write(&folder, "plain.onnx", &from(vec![node("Neg", &["x"], &["y"])]));
    let gelu = write(&folder, "gelu.onnx", &from(vec![of("com.microsoft", "QuickGelu")]));
    let scaler =
        write(&folder, "scaler.onnx", &importing("ai.onnx.ml", &from(vec![of("ai.onnx.ml", "Scaler")])));
    let ended = bb(&["minimal", &plain]);
    assert_eq!(ended.code(), 0, "{}", ended.err);
    let lines =
        "[dependencies]\nbb = { path = \"…\", default-features = false }\nbb-cpu = { path = \"…\" }\n";
    assert!(ended.out.ends_with(lines), "{}", ended.out);
    let ended = bb(&["minimal", &plain, &gelu, &scaler]);
    assert_eq!(ended.code(), 0, "{}", ended.err);
    assert!(ended.out.contains("com.microsoft.QuickGelu"), "{}", ended.out);
    assert!(ended.out.contains("features = [\"microsoft\", \"ml\"]"), "{}", ended.out);
    let json = bb(&["minimal", &gelu, &scaler, "--json"]).json();
    assert_eq!(json["features"], serde_json::json!(["microsoft", "ml"]));
    assert_eq!(json["models"][1]["features"], serde_json::json!({ "ml": ["ai.onnx.ml.Scaler"] }));
}

#[test]
fn graphs_and_functions_in_models_count() {
    let folder = folder("minimal-nested");
    let captured = NodeProto { output: vec!["z".into()], ..of("com.microsoft", "QuickGelu") };
    let branch = |holder, name| with_graph(holder, name, &[], vec![captured.clone()], &["z"]);
    let choice = branch(branch(node("If", &["c"], &["y"]), "then_branch"), "else_branch");
    let condition =
        model(&[("x", &[2]), ("n", &[])], vec![node("Greater", &["n", "n"], &["c"]), choice], &[("y", &[2])]);
    let called = from(vec![custom("Twice", &["x"], &["y"])]);
    let called = with_function(called, "Twice", &["x"], vec![of("com.microsoft", "QuickGelu")], &["y"]);
    for (name, model) in [("branches.onnx", condition), ("function.onnx", called)] {
        let ended = bb(&["minimal", &write(&folder, name, &model), "--json"]);
        assert_eq!(ended.code(), 0, "{name}: {}", ended.err);
        assert_eq!(ended.json()["features"], serde_json::json!(["microsoft"]), "{name}");
    }
}

#[test]
fn an_operator_that_no_crate_has_is_named() {
    let folder = folder("minimal-unknown");
    let path = write(&folder, "unknown.onnx", &from(vec![custom("Thing", &["x"], &["y"])]));
    let ended = bb(&["minimal", &path]);
    assert_eq!(ended.code(), 1, "{}", ended.out);
    assert!(ended.err.contains("`test.Thing`, which no crate of operators has"), "{}", ended.err);
}

/// The example depends on what its model needs, and on no more.
#[test]
fn the_smallest_program_has_the_features_of_its_model() {
    let root = format!("{}/..", env!("CARGO_MANIFEST_DIR"));
    let model = format!("{root}/tests/data/models/surfaces_gbr/model.onnx");
    let json = bb(&["minimal", &model, "--json"]).json();
    let manifest = std::fs::read_to_string(format!("{root}/cli/examples/smallest/Cargo.toml")).unwrap();
    let features = format!("default-features = false, features = {}", json["features"]);
    assert!(manifest.contains(&features), "{features}");
}
