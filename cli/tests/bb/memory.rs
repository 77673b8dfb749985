//! Tests that missing memory is an error which names the operation and the bytes, and never ends a process by
//! a signal.

use crate::process::{capped, folder, write};
use bb::TensorData;
use bb_ir::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, ValueInfoProto,
};
use bb_tests::model::{model, node, with_int};
use prost::Message;

const BACKENDS: [&str; 3] = ["cpu", "reference", "whole-graph"];

/// The address space of a process, in KiB: more than the program needs, less than any result of these tests.
const MEMORY: usize = 1 << 20;

fn value(name: &str) -> ValueInfoProto {
    ValueInfoProto { name: Some(name.into()), ..ValueInfoProto::default() }
}

/// Serializes a model without inputs, with constants.
fn of_constants(constants: &[(&str, TensorData)], nodes: Vec<NodeProto>, output: &str) -> Vec<u8> {
    let graph = GraphProto {
        name: Some("g".into()),
        node: nodes,
        initializer: constants.iter().map(|(name, x)| x.to_proto(name)).collect(),
        output: vec![value(output)],
        ..GraphProto::default()
    };
    let opset = OperatorSetIdProto { domain: None, version: Some(21) };
    let model = ModelProto {
        ir_version: Some(9),
        opset_import: vec![opset],
        graph: Some(graph),
        ..Default::default()
    };
    model.encode_to_vec()
}

fn ints(values: &[i64]) -> TensorData {
    TensorData::new(&[values.len()], values).unwrap()
}

/// Runs a model whose only fault is that it needs more memory than there is.
fn refused(name: &str, model: &[u8]) {
    let path = write(&folder(&format!("memory-{}", name.replace(' ', "-"))), "model.onnx", model);
    for backend in BACKENDS {
        let limits =
            ["value_bytes", "tensor_bytes", "total_tensor_bytes"].map(|name| format!("{name}=900GiB"));
        let mut arguments = vec!["run", &path, "--random", "1", "--backend", backend];
        limits.iter().for_each(|limit| arguments.extend(["--limit", limit]));
        let ended = capped(MEMORY, &arguments);
        let said = format!("{name} on {backend}: {}{}", ended.status, ended.err);
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(ended.err.starts_with("error: "), "{said}");
        assert!(ended.err.contains("no memory for") && ended.err.contains(" bytes"), "{said}");
        assert!(!ended.err.contains("panicked"), "{said}");
        // If `name` is an operator, it is a node of the model, and the error must name it.
        let operator = name.starts_with(char::is_uppercase);
        assert!(!operator || ended.err.contains(name), "{said}");
    }
}

#[test]
fn primitives_that_ask_for_too_much() {
    let row: (&str, &[i64]) = ("x", &[1, 65536]);
    let column: (&str, &[i64]) = ("y", &[65536, 1]);
    let square: &[i64] = &[65536, 65536];
    for op in ["Add", "Pow"] {
        refused(op, &model(&[row, column], vec![node(op, &["x", "y"], &["z"])], &[("z", square)]));
    }
    refused("MatMul", &model(&[row, column], vec![node("MatMul", &["y", "x"], &["z"])], &[("z", square)]));
    let squared = || node("MatMul", &["y", "x"], &["s"]);
    refused(
        "exp of too much",
        &model(&[row, column], vec![squared(), node("Exp", &["s"], &["z"])], &[("z", square)]),
    );
    let sum = with_int(node("ReduceSum", &["s"], &["z"]), "keepdims", 1);
    refused("sum of too much", &model(&[row, column], vec![squared(), sum], &[("z", &[1, 1])]));
}

#[test]
fn operators_that_ask_for_too_much() {
    let one = || TensorData::new(&[1], &[1f32]).unwrap();
    let expand = || node("Expand", &["one", "shape"], &["y"]);
    refused(
        "expand of constants",
        &of_constants(&[("one", one()), ("shape", ints(&[1 << 32]))], vec![expand()], "y"),
    );
    let fill = node("ConstantOfShape", &["shape"], &["y"]);
    refused("constantofshape of constants", &of_constants(&[("shape", ints(&[1 << 30]))], vec![fill], "y"));
    let tile = node("Tile", &["one", "shape"], &["y"]);
    refused(
        "tile of constants",
        &of_constants(&[("one", one()), ("shape", ints(&[1 << 30]))], vec![tile], "y"),
    );
    let pads = ints(&[1 << 30, 0]);
    refused(
        "Pad",
        &of_constants(&[("one", one()), ("pads", pads)], vec![node("Pad", &["one", "pads"], &["y"])], "y"),
    );
    let range = [0i64, 1 << 28, 1].map(TensorData::scalar);
    let [from, to, step] = range;
    let constants = [("from", from), ("to", to), ("step", step)];
    refused(
        "range of constants",
        &of_constants(&constants, vec![node("Range", &["from", "to", "step"], &["y"])], "y"),
    );
    let shape = AttributeProto {
        name: Some("shape".into()),
        r#type: Some(7),
        ints: vec![1 << 28],
        ..AttributeProto::default()
    };
    let random = NodeProto { attribute: vec![shape], ..node("RandomNormal", &[], &["y"]) };
    refused("randomnormal of constants", &of_constants(&[], vec![random], "y"));
    // 32 doublings of four bytes make 16 GiB.
    let doubled = (0..32).map(|i| {
        let x = if i == 0 { "one".to_owned() } else { format!("y{i}") };
        with_int(node("Concat", &[&x, &x], &[&format!("y{}", i + 1)]), "axis", 0)
    });
    refused("concat of constants", &of_constants(&[("one", one())], doubled.collect(), "y32"));
}

#[test]
fn random_inputs_that_are_too_large() {
    let nodes = vec![node("Neg", &["x"], &["y"])];
    refused("random", &model(&[("x", &[1 << 29])], nodes, &[("y", &[1 << 29])]));
}

#[test]
fn a_model_that_decodes_to_too_much_is_not_decoded() {
    // Each of two million tensors takes two bytes in the file and hundreds of bytes when decoded.
    let graph = GraphProto { initializer: vec![TensorProto::default(); 2_000_000], ..GraphProto::default() };
    let bytes = ModelProto { graph: Some(graph), ..ModelProto::default() }.encode_to_vec();
    refused("decode", &bytes);
}
