//! Models that are large in one dimension: many nodes of a kind, many inputs, many extents, many subgraphs.
//!
//! [`dimensions`] lists them. A test makes each with `n` and with `2 n` of whatever the dimension counts, and compares what
//! checking and planning take.

mod control;
mod extents;
mod folded;
mod operands;
mod parts;
mod patterns;
mod sequences;

use crate::model::value;
use bb::ir::proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    ValueInfoProto, attribute_proto::AttributeType,
};
use prost::Message;

/// A family of models.
#[derive(Clone, Copy)]
pub struct Dimension {
    /// The name, as in `ifs`.
    pub name: &'static str,
    /// How many there are of whatever the dimension counts, for models that take some hundredths of a second.
    pub count: usize,
    /// Makes a serialized model.
    pub model: fn(usize) -> Vec<u8>,
}

/// Returns all dimensions.
pub fn dimensions() -> Vec<Dimension> {
    [
        parts::DIMENSIONS,
        control::DIMENSIONS,
        operands::DIMENSIONS,
        extents::DIMENSIONS,
        folded::DIMENSIONS,
        patterns::DIMENSIONS,
        sequences::DIMENSIONS,
    ]
    .concat()
}

/// Lists dimensions: a name, a count, and the function that makes the model.
macro_rules! listed {
    ($($name:ident: $count:literal),* $(,)?) => {
        /// The dimensions of this file.
        pub(super) const DIMENSIONS: &[super::Dimension] =
            &[$( super::Dimension { name: stringify!($name), count: $count, model: $name } ),*];
    };
}

use listed;

/// Makes a node without a name.
fn node(op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    nodes_of(op, inputs.iter().copied(), outputs.iter().copied())
}

/// Makes a node without a name of many operands or results.
fn nodes_of<A: Into<String>, B: Into<String>>(
    op: &str,
    inputs: impl IntoIterator<Item = A>,
    outputs: impl IntoIterator<Item = B>,
) -> NodeProto {
    NodeProto {
        op_type: Some(op.to_owned()),
        input: inputs.into_iter().map(Into::into).collect(),
        output: outputs.into_iter().map(Into::into).collect(),
        ..NodeProto::default()
    }
}

/// Makes names: `v0`, `v1` and so on.
fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|i| format!("{prefix}{i}")).collect()
}

/// The name of the value behind `i` links of a chain that begins with `x`.
fn link(i: usize) -> String {
    if i == 0 { "x".to_owned() } else { format!("v{i}") }
}

/// Makes a chain from `x` to `y`: `one` makes the nodes of a link from a value to the next.
fn chain(count: usize, one: impl Fn(usize, &str, &str) -> Vec<NodeProto>) -> Vec<NodeProto> {
    let mut nodes: Vec<NodeProto> = (0..count).flat_map(|i| one(i, &link(i), &link(i + 1))).collect();
    nodes.push(node("Identity", &[&link(count)], &["y"]));
    nodes
}

/// Makes a fan from `x` to `y`: `one` makes the nodes from `x` to each of many values, which `Sum` adds.
fn fan(count: usize, one: impl Fn(usize, &str) -> Vec<NodeProto>) -> Vec<NodeProto> {
    let values = names("f", count);
    let mut nodes: Vec<NodeProto> = values.iter().enumerate().flat_map(|(i, value)| one(i, value)).collect();
    nodes.push(nodes_of("Sum", values, ["y"]));
    nodes
}

fn attribute(name: &str, ty: AttributeType) -> AttributeProto {
    AttributeProto { name: Some(name.to_owned()), r#type: Some(ty as i32), ..AttributeProto::default() }
}

fn with(mut node: NodeProto, attribute: AttributeProto) -> NodeProto {
    node.attribute.push(attribute);
    node
}

fn with_tensor(node: NodeProto, name: &str, tensor: TensorProto) -> NodeProto {
    with(node, AttributeProto { t: Some(tensor), ..attribute(name, AttributeType::Tensor) })
}

fn with_graph(node: NodeProto, name: &str, graph: GraphProto) -> NodeProto {
    with(node, AttributeProto { g: Some(graph), ..attribute(name, AttributeType::Graph) })
}

fn floats(name: &str, dims: &[i64], values: &[f32]) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        dims: dims.to_vec(),
        data_type: Some(1),
        float_data: values.to_vec(),
        ..TensorProto::default()
    }
}

fn ints(name: &str, dims: &[i64], values: &[i64]) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        dims: dims.to_vec(),
        data_type: Some(7),
        int64_data: values.to_vec(),
        ..TensorProto::default()
    }
}

fn bytes(name: &str, dtype: i32, dims: &[i64], values: &[i32]) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        dims: dims.to_vec(),
        data_type: Some(dtype),
        int32_data: values.to_vec(),
        ..TensorProto::default()
    }
}

fn texts(name: &str, values: &[String]) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        dims: vec![values.len() as i64],
        data_type: Some(8),
        string_data: values.iter().map(|text| text.clone().into_bytes()).collect(),
        ..TensorProto::default()
    }
}

/// A vector of two floats.
fn vector(name: &str) -> ValueInfoProto {
    value(name, 1, &["2"])
}

/// Makes a graph.
fn graph(
    nodes: Vec<NodeProto>,
    inputs: Vec<ValueInfoProto>,
    outputs: Vec<ValueInfoProto>,
    initializers: Vec<TensorProto>,
) -> GraphProto {
    GraphProto {
        name: Some("large".to_owned()),
        node: nodes,
        input: inputs,
        output: outputs,
        initializer: initializers,
        ..GraphProto::default()
    }
}

/// Makes a model from the vector `x` to the vector `y`.
fn of_vector(nodes: Vec<NodeProto>, initializers: Vec<TensorProto>) -> Vec<u8> {
    serialized(graph(nodes, vec![vector("x")], vec![vector("y")], initializers))
}

/// Makes a model from `x` with these extents to `y`, whose extents are open.
fn of_extents(
    nodes: Vec<NodeProto>,
    extents: &[&str],
    open: &[&str],
    initializers: Vec<TensorProto>,
) -> Vec<u8> {
    serialized(graph(nodes, vec![value("x", 1, extents)], vec![value("y", 1, open)], initializers))
}

fn serialized(graph: GraphProto) -> Vec<u8> {
    model(graph).encode_to_vec()
}

fn opset(domain: &str, version: i64) -> OperatorSetIdProto {
    OperatorSetIdProto { domain: Some(domain.to_owned()), version: Some(version) }
}

fn model(graph: GraphProto) -> ModelProto {
    ModelProto {
        ir_version: Some(10),
        opset_import: vec![opset("", 21), opset("own", 1), opset("ai.onnx.ml", 3), opset("com.microsoft", 1)],
        graph: Some(graph),
        ..ModelProto::default()
    }
}

/// Makes a function of the domain `own` from `x` to `y`.
fn function(name: &str, nodes: Vec<NodeProto>) -> FunctionProto {
    FunctionProto {
        name: Some(name.to_owned()),
        domain: Some("own".to_owned()),
        input: vec!["x".to_owned()],
        output: vec!["y".to_owned()],
        node: nodes,
        opset_import: vec![opset("", 21), opset("own", 1)],
        ..FunctionProto::default()
    }
}

/// Makes a call of a function of the domain `own`.
fn call(name: &str, input: &str, output: &str) -> NodeProto {
    NodeProto { domain: Some("own".to_owned()), ..node(name, &[input], &[output]) }
}

fn int(name: &str, value: i64) -> AttributeProto {
    AttributeProto { i: Some(value), ..attribute(name, AttributeType::Int) }
}

fn float(name: &str, value: f32) -> AttributeProto {
    AttributeProto { f: Some(value), ..attribute(name, AttributeType::Float) }
}

fn list(name: &str, values: &[i64]) -> AttributeProto {
    AttributeProto { ints: values.to_vec(), ..attribute(name, AttributeType::Ints) }
}

fn text(name: &str, value: &str) -> AttributeProto {
    AttributeProto { s: Some(value.as_bytes().to_vec()), ..attribute(name, AttributeType::String) }
}
