//! Builds models as serialized bytes.

use bb::DataType;
use bb::ir::proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorShapeProto,
    TypeProto, ValueInfoProto,
    tensor_shape_proto::{Dimension, dimension::Value as Extent},
    type_proto::{Tensor, Value},
};
use prost::Message;

/// Makes a node: `node("MatMul", &["a", "b"], &["c"])`.
pub fn node(op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    NodeProto {
        op_type: Some(op.to_owned()),
        name: Some(format!("{op}_{}", outputs.join("_"))),
        input: inputs.iter().map(|&s| s.to_owned()).collect(),
        output: outputs.iter().map(|&s| s.to_owned()).collect(),
        ..NodeProto::default()
    }
}

/// Creates a node of the domain `test`. The models of this module import version 1 of it.
pub fn custom(op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    NodeProto { domain: Some("test".to_owned()), ..node(op, inputs, outputs) }
}

/// Adds an integer attribute.
pub fn with_int(mut node: NodeProto, name: &str, value: i64) -> NodeProto {
    let kind = bb::ir::proto::attribute_proto::AttributeType::Int as i32;
    let attribute = AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(kind),
        i: Some(value),
        ..Default::default()
    };
    node.attribute.push(attribute);
    node
}

/// Adds an attribute that is a list of integers.
pub fn with_ints(mut node: NodeProto, name: &str, values: &[i64]) -> NodeProto {
    node.attribute.push(AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(bb::ir::proto::attribute_proto::AttributeType::Ints as i32),
        ints: values.to_vec(),
        ..AttributeProto::default()
    });
    node
}

/// Adds an attribute that is a list of floats.
pub fn with_floats(mut node: NodeProto, name: &str, values: &[f32]) -> NodeProto {
    node.attribute.push(AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(bb::ir::proto::attribute_proto::AttributeType::Floats as i32),
        floats: values.to_vec(),
        ..AttributeProto::default()
    });
    node
}

/// Adds an attribute that is a string.
pub fn with_text(mut node: NodeProto, name: &str, value: &str) -> NodeProto {
    node.attribute.push(AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(bb::ir::proto::attribute_proto::AttributeType::String as i32),
        s: Some(value.as_bytes().to_vec()),
        ..AttributeProto::default()
    });
    node
}

/// Adds an attribute that is a list of strings.
pub fn with_texts(mut node: NodeProto, name: &str, values: &[&str]) -> NodeProto {
    node.attribute.push(AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(bb::ir::proto::attribute_proto::AttributeType::Strings as i32),
        strings: values.iter().map(|text| text.as_bytes().to_vec()).collect(),
        ..AttributeProto::default()
    });
    node
}

/// Makes a constant list of `i64`.
pub fn ints(output: &str, values: &[i64]) -> NodeProto {
    with_ints(node("Constant", &[], &[output]), "value_ints", values)
}

/// Adds a graph as an attribute; its inputs and outputs have no declared types.
pub fn with_graph(
    mut holder: NodeProto,
    name: &str,
    inputs: &[&str],
    nodes: Vec<NodeProto>,
    outputs: &[&str],
) -> NodeProto {
    let info = |name: &&str| ValueInfoProto { name: Some((*name).to_owned()), ..ValueInfoProto::default() };
    let graph = GraphProto {
        name: Some(name.to_owned()),
        node: nodes,
        input: inputs.iter().map(info).collect(),
        output: outputs.iter().map(info).collect(),
        ..GraphProto::default()
    };
    holder.attribute.push(AttributeProto {
        name: Some(name.to_owned()),
        r#type: Some(bb::ir::proto::attribute_proto::AttributeType::Graph as i32),
        g: Some(graph),
        ..AttributeProto::default()
    });
    holder
}

/// Sets the name of a node.
pub fn named(name: &str, mut node: NodeProto) -> NodeProto {
    node.name = Some(name.to_owned());
    node
}

/// Sets the element types of a serialized model's inputs and outputs.
pub fn typed(model: Vec<u8>, types: &[(&str, DataType)]) -> Vec<u8> {
    let mut model = ModelProto::decode(&*model).expect("a model");
    let graph = model.graph.as_mut().expect("a graph");
    for info in graph.input.iter_mut().chain(&mut graph.output) {
        let dtype = types.iter().find(|(name, _)| *name == info.name()).map(|(_, dtype)| *dtype);
        if let (Some(dtype), Some(Value::TensorType(ty))) =
            (dtype, info.r#type.as_mut().and_then(|ty| ty.value.as_mut()))
        {
            ty.elem_type = Some(dtype.to_onnx());
        }
    }
    model.encode_to_vec()
}

/// Adds the function `name` of the domain `test` to a serialized model. Its nodes may be of any domain.
pub fn with_function(
    model: Vec<u8>,
    name: &str,
    inputs: &[&str],
    nodes: Vec<NodeProto>,
    outputs: &[&str],
) -> Vec<u8> {
    let mut model = ModelProto::decode(&*model).expect("a model");
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    model.functions.push(FunctionProto {
        name: Some(name.to_owned()),
        domain: Some("test".to_owned()),
        input: names(inputs),
        output: names(outputs),
        node: nodes,
        opset_import: model.opset_import.clone(),
        ..FunctionProto::default()
    });
    model.encode_to_vec()
}

/// Serializes a model of f32 tensors at opset 23. Inputs and outputs are given with their extents; a negative
/// extent is unknown.
pub fn model(inputs: &[(&str, &[i64])], nodes: Vec<NodeProto>, outputs: &[(&str, &[i64])]) -> Vec<u8> {
    let info = |(name, extents): &(&str, &[i64])| {
        let dim = |extent: &i64| Dimension {
            value: (*extent >= 0).then_some(Extent::DimValue(*extent)),
            ..Default::default()
        };
        let shape = Some(TensorShapeProto { dim: extents.iter().map(dim).collect() });
        let value = Some(Value::TensorType(Tensor { elem_type: Some(1), shape }));
        ValueInfoProto {
            name: Some((*name).to_owned()),
            r#type: Some(TypeProto { value, ..Default::default() }),
            ..Default::default()
        }
    };
    let graph = GraphProto {
        name: Some("test".to_owned()),
        node: nodes,
        input: inputs.iter().map(info).collect(),
        output: outputs.iter().map(info).collect(),
        ..GraphProto::default()
    };
    serialized(graph)
}

/// Declares a value by ONNX's number of its element type, and by extents that are numbers, names or `?`.
pub fn value(name: &str, dtype: i32, extents: &[&str]) -> ValueInfoProto {
    let dim = |extent: &&str| Dimension {
        value: match (extent.parse(), *extent) {
            (Ok(number), _) => Some(Extent::DimValue(number)),
            (_, "?") => None,
            (_, name) => Some(Extent::DimParam(name.to_owned())),
        },
        ..Default::default()
    };
    let shape = Some(TensorShapeProto { dim: extents.iter().map(dim).collect() });
    of_type(name, Value::TensorType(Tensor { elem_type: Some(dtype), shape }))
}

/// Declares a value of any type.
pub fn of_type(name: &str, ty: Value) -> ValueInfoProto {
    ValueInfoProto {
        name: Some(name.to_owned()),
        r#type: Some(TypeProto { value: Some(ty), ..Default::default() }),
        ..Default::default()
    }
}

/// Declares a value with only a name.
pub fn untyped(name: &str) -> ValueInfoProto {
    ValueInfoProto { name: Some(name.to_owned()), ..Default::default() }
}

/// Serializes a graph as a model at opset 23.
pub fn serialized(graph: GraphProto) -> Vec<u8> {
    let opset = |(domain, version): (&str, i64)| OperatorSetIdProto {
        domain: Some(domain.to_owned()),
        version: Some(version),
    };
    ModelProto {
        ir_version: Some(10),
        opset_import: [("", 23), ("test", 1), ("com.microsoft", 1)].map(opset).to_vec(),
        graph: Some(graph),
        ..ModelProto::default()
    }
    .encode_to_vec()
}
