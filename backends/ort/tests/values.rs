//! Tests that strings, sequences and optionals are passed to ONNX Runtime and back.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::DataType::{F32, I64, String as Text};
use bb::TensorData;
use bb::ir::proto::{
    GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TypeProto, ValueInfoProto, type_proto,
};
use bb::onnx::OnnxValue;
use bb_engines::{Engine, PortType, Signature};
use bb_ort::OrtEngine;
use prost::Message;

fn sequence(of: PortType) -> PortType {
    PortType::Sequence(Box::new(of))
}

fn optional(of: PortType) -> PortType {
    PortType::Optional(Box::new(of))
}

fn proto(ty: &PortType) -> TypeProto {
    let value = match ty {
        PortType::Tensor(dtype) => type_proto::Value::TensorType(type_proto::Tensor {
            elem_type: Some(dtype.to_onnx()),
            ..type_proto::Tensor::default()
        }),
        PortType::Sequence(of) => type_proto::Value::SequenceType(Box::new(type_proto::Sequence {
            elem_type: Some(Box::new(proto(of))),
        })),
        PortType::Optional(of) => type_proto::Value::OptionalType(Box::new(type_proto::Optional {
            elem_type: Some(Box::new(proto(of))),
        })),
    };
    TypeProto { value: Some(value), ..TypeProto::default() }
}

/// Runs a node of the operator `op` from a value of type `takes` to a value of type `returns`.
fn run(op: &str, takes: PortType, returns: PortType, x: &OnnxValue<&TensorData>) -> OnnxValue<TensorData> {
    let port = |name: &str, ty: &PortType| ValueInfoProto {
        name: Some(name.to_owned()),
        r#type: Some(proto(ty)),
        ..ValueInfoProto::default()
    };
    let node = NodeProto {
        op_type: Some(op.to_owned()),
        input: vec!["x".to_owned()],
        output: vec!["y".to_owned()],
        ..NodeProto::default()
    };
    let graph = GraphProto {
        name: Some("graph".to_owned()),
        node: vec![node],
        input: vec![port("x", &takes)],
        output: vec![port("y", &returns)],
        ..GraphProto::default()
    };
    let model = ModelProto {
        ir_version: Some(10),
        opset_import: vec![OperatorSetIdProto { domain: Some(String::new()), version: Some(18) }],
        graph: Some(graph),
        ..ModelProto::default()
    };
    let signature =
        Signature { inputs: vec![("x".to_owned(), takes)], outputs: vec![("y".to_owned(), returns)] };
    let engine = OrtEngine::new().unwrap();
    let session = engine.load(model.encode_to_vec(), &signature).unwrap();
    engine.run(&session, &signature, std::slice::from_ref(x)).unwrap().remove(0)
}

/// Runs `Identity`, and checks that the result is the input.
fn same(ty: &PortType, x: &OnnxValue<TensorData>) {
    assert_eq!(run("Identity", ty.clone(), ty.clone(), &x.map(&mut |x| x)), *x);
}

fn floats(elements: &[f32]) -> OnnxValue<TensorData> {
    OnnxValue::Tensor(TensorData::new(&[elements.len()], elements).unwrap())
}

#[test]
fn strings_pass() {
    let texts = TensorData::strings(&[2, 2], &["", "a", "ä", "long text"]).unwrap();
    same(&PortType::Tensor(Text), &OnnxValue::Tensor(texts.clone()));
    let items = vec![OnnxValue::Tensor(texts.clone()), OnnxValue::Tensor(texts)];
    same(&sequence(PortType::Tensor(Text)), &OnnxValue::Sequence(items));
}

#[test]
fn sequences_pass() {
    let ty = sequence(PortType::Tensor(F32));
    let two = OnnxValue::Sequence(vec![floats(&[1.0, 2.0]), floats(&[3.0])]);
    same(&ty, &two);
    let length = run("SequenceLength", ty, PortType::Tensor(I64), &two.map(&mut |x| x));
    assert_eq!(length, OnnxValue::Tensor(TensorData::scalar(2i64)));
}

#[test]
fn empty_sequences_pass() {
    for dtype in [F32, Text] {
        same(&sequence(PortType::Tensor(dtype)), &OnnxValue::Sequence(Vec::new()));
    }
}

#[test]
fn optionals_pass_with_and_without_a_value() {
    let (tensor, list) = (PortType::Tensor(F32), sequence(PortType::Tensor(F32)));
    same(&optional(tensor.clone()), &floats(&[1.0]));
    same(&optional(tensor), &OnnxValue::Absent);
    same(&optional(list.clone()), &OnnxValue::Sequence(vec![floats(&[1.0])]));
    same(&optional(list), &OnnxValue::Absent);
}
