//! Builds small models in a few words.

use bb_ir::check::{CheckOptions, CheckedModel, check};
use bb_ir::graph::{Graph, ValueType};
use bb_ir::proto::attribute_proto::AttributeType as Kind;
use bb_ir::proto::tensor_shape_proto::{Dimension, dimension::Value as DimValue};
use bb_ir::proto::type_proto::{Tensor, Value};
use bb_ir::proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorShapeProto,
    TypeProto, ValueInfoProto,
};
use bb_ir::{Error, TensorData};

pub(crate) fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|s| (*s).to_owned()).collect()
}

/// Makes a node without attributes, named after its first result.
pub(crate) fn node(op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    NodeProto {
        name: outputs.first().map(|o| format!("make_{o}")),
        op_type: Some(op.to_owned()),
        input: names(inputs),
        output: names(outputs),
        ..NodeProto::default()
    }
}

impl With for NodeProto {
    fn with(mut self, attribute: AttributeProto) -> Self {
        self.attribute.push(attribute);
        self
    }
}

pub(crate) trait With {
    fn with(self, attribute: AttributeProto) -> Self;
}

pub(crate) fn int(name: &str, i: i64) -> AttributeProto {
    let kind = Some(Kind::Int as i32);
    AttributeProto { name: Some(name.to_owned()), r#type: kind, i: Some(i), ..Default::default() }
}

pub(crate) fn ints(name: &str, ints: &[i64]) -> AttributeProto {
    let kind = Some(Kind::Ints as i32);
    AttributeProto { name: Some(name.to_owned()), r#type: kind, ints: ints.to_vec(), ..Default::default() }
}

pub(crate) fn text(name: &str, s: &str) -> AttributeProto {
    let kind = Some(Kind::String as i32);
    let s = Some(s.as_bytes().to_vec());
    AttributeProto { name: Some(name.to_owned()), r#type: kind, s, ..Default::default() }
}

pub(crate) fn floats(name: &str, floats: &[f32]) -> AttributeProto {
    let kind = Some(Kind::Floats as i32);
    AttributeProto {
        name: Some(name.to_owned()),
        r#type: kind,
        floats: floats.to_vec(),
        ..Default::default()
    }
}

pub(crate) fn subgraph(name: &str, g: GraphProto) -> AttributeProto {
    let kind = Some(Kind::Graph as i32);
    AttributeProto { name: Some(name.to_owned()), r#type: kind, g: Some(g), ..Default::default() }
}

/// Makes an attribute that refers to the function's attribute `outer`.
pub(crate) fn reference(name: &str, outer: &str, kind: Kind) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_owned()),
        ref_attr_name: Some(outer.to_owned()),
        r#type: Some(kind as i32),
        ..Default::default()
    }
}

/// Declares a value. An extent is a number, a name, or `?`.
pub(crate) fn value(name: &str, dtype: i32, dims: &[&str]) -> ValueInfoProto {
    let dim = |d: &&str| Dimension {
        value: match (d.parse(), *d) {
            (Ok(n), _) => Some(DimValue::DimValue(n)),
            (_, "?") => None,
            (_, name) => Some(DimValue::DimParam(name.to_owned())),
        },
        denotation: None,
    };
    let shape = Some(TensorShapeProto { dim: dims.iter().map(dim).collect() });
    let tensor = Value::TensorType(Tensor { elem_type: Some(dtype), shape });
    ValueInfoProto {
        name: Some(name.to_owned()),
        r#type: Some(TypeProto { value: Some(tensor), denotation: None }),
        ..Default::default()
    }
}

/// Declares a value with only a name.
pub(crate) fn untyped(name: &str) -> ValueInfoProto {
    ValueInfoProto { name: Some(name.to_owned()), ..Default::default() }
}

/// Makes a graph with `f32` inputs of shape `[n]` and outputs without types.
pub(crate) fn graph(inputs: &[&str], nodes: Vec<NodeProto>, outputs: &[&str]) -> GraphProto {
    GraphProto {
        name: Some("g".to_owned()),
        input: inputs.iter().map(|i| value(i, 1, &["n"])).collect(),
        node: nodes,
        output: outputs.iter().map(|o| untyped(o)).collect(),
        ..Default::default()
    }
}

pub(crate) fn initializer(mut graph: GraphProto, name: &str, data: &TensorData) -> GraphProto {
    graph.initializer.push(data.to_proto(name));
    graph
}

pub(crate) fn opset(domain: &str, version: i64) -> OperatorSetIdProto {
    OperatorSetIdProto { domain: Some(domain.to_owned()), version: Some(version) }
}

pub(crate) fn model(graph: GraphProto) -> ModelProto {
    ModelProto {
        ir_version: Some(10),
        opset_import: vec![opset("", 20)],
        graph: Some(graph),
        ..Default::default()
    }
}

/// Makes a function of domain `f` in opset 18.
pub(crate) fn function(
    name: &str,
    inputs: &[&str],
    nodes: Vec<NodeProto>,
    outputs: &[&str],
) -> FunctionProto {
    FunctionProto {
        name: Some(name.to_owned()),
        domain: Some("f".to_owned()),
        input: names(inputs),
        output: names(outputs),
        node: nodes,
        opset_import: vec![opset("ai.onnx", 18)],
        ..Default::default()
    }
}

/// Makes a call of a function of domain `f`.
pub(crate) fn call(name: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    NodeProto { domain: Some("f".to_owned()), ..node(name, inputs, outputs) }
}

pub(crate) fn run(model: &ModelProto) -> Result<CheckedModel, Error> {
    check(model, &CheckOptions { operators: bb::onnx::OPERATORS, ..CheckOptions::default() })
}

/// Checks a graph in a model that contains nothing else.
pub(crate) fn checked(graph: GraphProto) -> Result<Graph, Error> {
    run(&model(graph)).map(|m| m.graph)
}

/// Returns the innermost cause.
pub(crate) fn cause(error: Error) -> Error {
    match error {
        Error::Node { source, .. } | Error::Value { source, .. } | Error::InTensor { source, .. } => {
            cause(*source)
        }
        other => other,
    }
}

/// Returns the type of the value called `name`, as text: `f32[2, n, ?]`.
pub(crate) fn ty(graph: &Graph, name: &str) -> String {
    let found = graph.values.iter().find(|v| v.name == name).map(|v| &v.ty);
    match found {
        Some(ValueType::Tensor { dtype, shape: Some(dims) }) => {
            let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
            format!("{dtype}[{}]", dims.join(", "))
        }
        other => format!("{other:?}"),
    }
}

pub(crate) fn ops(graph: &Graph) -> Vec<&str> {
    graph.nodes.iter().map(|n| n.op_type.as_str()).collect()
}
