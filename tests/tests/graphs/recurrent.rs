//! Tests that a recurrent layer is one operation for each direction in a plan of the CPU backend, whatever its options are.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::ir::proto::{GraphProto, NodeProto};
use bb::{DataType, Module, TensorData};
use bb_tests::backends;
use bb_tests::model::{node, serialized, untyped, value, with_floats, with_int, with_texts};
use std::collections::HashMap;

const HIDDEN: usize = 6;

/// Returns the instructions for a layer over this many steps.
fn instructions(
    layer: &NodeProto,
    gates: usize,
    directions: usize,
    dtype: DataType,
    steps: usize,
) -> Vec<String> {
    let weights =
        |name: &str, shape: &[usize]| TensorData::zeros(dtype, shape, 1 << 20).unwrap().to_proto(name);
    let rows = gates * HIDDEN;
    let graph = GraphProto {
        name: Some("layer".to_owned()),
        node: vec![layer.clone()],
        input: vec![value("x", dtype.to_onnx(), &["s", "n", "4"])],
        output: vec![untyped("y")],
        initializer: vec![
            weights("w", &[directions, rows, 4]),
            weights("r", &[directions, rows, HIDDEN]),
            weights("b", &[directions, 2 * rows]),
            weights("p", &[directions, 3 * HIDDEN]),
        ],
        ..GraphProto::default()
    };
    let on = backends::start("cpu").unwrap();
    let shapes = HashMap::from([("x".to_owned(), vec![steps, 2, 4])]);
    let module = Module::from_bytes(serialized(graph)).unwrap();
    let text = module.print_lir(&shapes, &on.capabilities().families).unwrap();
    // The reports of the passes follow an empty line.
    text.split("\n\n").next().unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn every_layer_is_one_operation_for_each_direction() {
    let layer = |op: &str, inputs: &[&str]| with_int(node(op, inputs, &["y"]), "hidden_size", HIDDEN as i64);
    let seen = ["x", "w", "r", "b", "", "", "", "p"];
    let clipped = |layer| with_floats_as_one(layer, "clip", 0.5);
    let functions = [
        "Affine",
        "Elu",
        "HardSigmoid",
        "LeakyRelu",
        "Relu",
        "ScaledTanh",
        "Sigmoid",
        "Softplus",
        "Softsign",
        "Tanh",
        "ThresholdedRelu",
    ];
    let mut layers = vec![
        (layer("LSTM", &seen), 4),
        (with_int(layer("LSTM", &seen), "input_forget", 1), 4),
        (clipped(with_int(layer("LSTM", &seen[..4]), "input_forget", 1)), 4),
        (clipped(with_int(layer("GRU", &seen[..4]), "linear_before_reset", 1)), 3),
        (clipped(layer("RNN", &seen[..4])), 1),
    ];
    for (i, name) in functions.iter().enumerate() {
        let next = functions.get((i + 4) % functions.len()).unwrap();
        layers.push((with_texts(layer("LSTM", &seen), "activations", &[name, next, name]), 4));
        layers.push((with_texts(layer("GRU", &seen[..4]), "activations", &[name, next]), 3));
        layers.push((with_texts(layer("RNN", &seen[..4]), "activations", &[name]), 1));
    }
    for (at, (layer, gates)) in layers.into_iter().enumerate() {
        // The functions do not depend on the type.
        let types: &[DataType] =
            if at < 5 { &[DataType::F32, DataType::F64, DataType::F16] } else { &[DataType::F32] };
        for &dtype in types {
            for directions in [1, 2] {
                let mut layer = layer.clone();
                if directions == 2 {
                    for attribute in layer.attribute.iter_mut().filter(|a| a.name() == "activations") {
                        attribute.strings.extend_from_within(..);
                    }
                    layer = with_text(layer, "direction", "bidirectional");
                }
                // Bodies of all steps are traced, which takes long for many.
                let many = if at < 5 && dtype == DataType::F32 { 301 } else { 11 };
                let [few, many] =
                    [3, many].map(|steps| instructions(&layer, gates, directions, dtype, steps));
                assert_eq!(few.len(), many.len(), "{layer:?}");
                let operation = layer.op_type().to_ascii_lowercase();
                let calls = many.iter().filter(|line| line.contains(&format!("{operation}("))).count();
                assert_eq!(calls, directions, "{many:#?}");
            }
        }
    }
}

/// Adds an attribute that is one number.
fn with_floats_as_one(layer: NodeProto, name: &str, number: f32) -> NodeProto {
    let mut layer = with_floats(layer, name, &[]);
    if let Some(attribute) = layer.attribute.last_mut() {
        attribute.r#type = Some(bb::ir::proto::attribute_proto::AttributeType::Float as i32);
        attribute.f = Some(number);
    }
    layer
}

/// Adds an attribute that is one text.
fn with_text(layer: NodeProto, name: &str, text: &str) -> NodeProto {
    let mut layer = with_texts(layer, name, &[]);
    if let Some(attribute) = layer.attribute.last_mut() {
        attribute.r#type = Some(bb::ir::proto::attribute_proto::AttributeType::String as i32);
        attribute.s = Some(text.as_bytes().to_vec());
    }
    layer
}
