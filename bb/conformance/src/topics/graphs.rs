//! Tests how a backend runs a whole graph.

use crate::check::checked;
use crate::show::shown;
use crate::watch::CurrentCall;
use crate::{Call, Subject};
use bb_core::ext::ErasedTensor;
use bb_core::{BackendAttrs, DataType, GraphIdentity, Primitive, TensorData};
use bb_ir::proto::{
    GraphProto, NodeProto, TensorShapeProto, TypeProto, ValueInfoProto, tensor_shape_proto, type_proto,
};
use std::collections::HashMap;
use std::sync::Arc;

/// Tests that `execute` and `dispatch` return the outputs of a graph by their names, with the declared type and shape.
///
/// # Panics
///
/// If an output is missing or differs.
pub fn graphs(on: &Subject<'_>) {
    if ![Primitive::Add, Primitive::Mul].iter().all(|op| on.runs(*op)) {
        return;
    }
    let made = |elements: [f32; 4]| TensorData::new(&[2, 2], &elements).expect("four elements");
    let (a, b) = (made([1.0f32, 2.0, 3.0, 4.0]), made([0.5f32, -1.0, 2.0, 0.0]));
    let (sum, product) = (made([1.5f32, 1.0, 5.0, 4.0]), made([0.75f32, -1.0, 10.0, 0.0]));
    let expected = [("sum", &sum), ("product", &product)];
    let graph = Arc::new(GraphProto {
        name: Some("graph of the conformance suite".to_owned()),
        node: vec![node("Add", ["a", "b"], "sum"), node("Mul", ["sum", "b"], "product")],
        input: vec![declared("a"), declared("b")],
        output: vec![declared("sum"), declared("product")],
        ..GraphProto::default()
    });
    let identity = GraphIdentity::fresh();
    let last = Call { op: Primitive::Mul, inputs: vec![sum.clone(), b.clone()], params: Vec::new() };
    for (prefix, dispatched) in [
        ("`execute` of a graph that adds, and ends with ", false),
        ("`dispatch` of a graph that adds, and ends with ", true),
        ("`execute` of the same graph again, which ends with ", false),
        ("`dispatch` of the same graph again, which ends with ", true),
    ] {
        let inputs = [("a", &a), ("b", &b)].map(|(name, x)| (name.to_owned(), on.bring(x)));
        let attrs = BackendAttrs::default().with_identity(identity);
        let call = CurrentCall { prefix, ..CurrentCall::of(&last) };
        let ran = on.called(call, || on.run_graph(&graph, inputs.into(), attrs, dispatched));
        let what = format!("{prefix}{last}");
        let outputs = ran.unwrap_or_else(|error| on.failed(&what, &error));
        compare(on, &what, &outputs, &expected);
    }
}

fn compare(
    on: &Subject<'_>,
    what: &str,
    outputs: &HashMap<String, ErasedTensor>,
    expected: &[(&str, &TensorData)],
) {
    let mut names: Vec<&str> = outputs.keys().map(String::as_str).collect();
    names.sort_unstable();
    for (name, expected) in expected {
        let Some(output) = outputs.get(*name) else {
            panic!(
                "{what}: returned no output `{name}`\n  got      {names:?}\n  expected [\"sum\", \"product\"]"
            );
        };
        let got = checked(on, output, what);
        assert!(
            got == **expected,
            "{what}: the output `{name}` differs\n  got      {}\n  expected {}",
            shown(&got),
            shown(expected)
        );
    }
}

fn node(op: &str, inputs: [&str; 2], output: &str) -> NodeProto {
    NodeProto {
        op_type: Some(op.to_owned()),
        input: inputs.map(str::to_owned).to_vec(),
        output: vec![output.to_owned()],
        ..NodeProto::default()
    }
}

/// Declares a value as `f32[2, 2]`.
fn declared(name: &str) -> ValueInfoProto {
    let dim = tensor_shape_proto::Dimension {
        value: Some(tensor_shape_proto::dimension::Value::DimValue(2)),
        ..Default::default()
    };
    let tensor = type_proto::Tensor {
        elem_type: Some(DataType::F32.to_onnx()),
        shape: Some(TensorShapeProto { dim: vec![dim.clone(), dim] }),
    };
    let ty = TypeProto { value: Some(type_proto::Value::TensorType(tensor)), ..TypeProto::default() };
    ValueInfoProto { name: Some(name.to_owned()), r#type: Some(ty), ..ValueInfoProto::default() }
}
