//! The model that creates an empty sequence.

use bb::DataType;
use bb::ir::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TypeProto, ValueInfoProto,
    attribute_proto, type_proto,
};
use prost::Message;

/// The name of the model's output.
pub(crate) const RESULT: &str = "empty";

/// Returns the serialized model that creates an empty sequence of tensors of an element type.
pub(crate) fn model(dtype: DataType) -> Vec<u8> {
    let attribute = AttributeProto {
        name: Some("dtype".to_owned()),
        r#type: Some(attribute_proto::AttributeType::Int as i32),
        i: Some(dtype.to_onnx().into()),
        ..AttributeProto::default()
    };
    let node = NodeProto {
        op_type: Some("SequenceEmpty".to_owned()),
        output: vec![RESULT.to_owned()],
        attribute: vec![attribute],
        ..NodeProto::default()
    };
    let tensor = type_proto::Tensor { elem_type: Some(dtype.to_onnx()), ..type_proto::Tensor::default() };
    let element = wrapped(type_proto::Value::TensorType(tensor));
    let sequence = type_proto::Sequence { elem_type: Some(Box::new(element)) };
    let output = ValueInfoProto {
        name: Some(RESULT.to_owned()),
        r#type: Some(wrapped(type_proto::Value::SequenceType(Box::new(sequence)))),
        ..ValueInfoProto::default()
    };
    let graph = GraphProto {
        name: Some("graph".to_owned()),
        node: vec![node],
        output: vec![output],
        ..GraphProto::default()
    };
    let model = ModelProto {
        ir_version: Some(10),
        opset_import: vec![OperatorSetIdProto { domain: Some(String::new()), version: Some(11) }],
        graph: Some(graph),
        ..ModelProto::default()
    };
    model.encode_to_vec()
}

fn wrapped(value: type_proto::Value) -> TypeProto {
    TypeProto { value: Some(value), ..TypeProto::default() }
}
