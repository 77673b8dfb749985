//! Models with one text that is not UTF-8, at every place.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bb::ir::proto::attribute_proto::AttributeType;
use bb::ir::proto::tensor_shape_proto::{Dimension, dimension::Value as Extent};
use bb::ir::proto::type_proto::{Tensor, Value as Type};
use bb::ir::proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    StringStringEntryProto, TensorAnnotation, TensorProto, TensorShapeProto, TypeProto, ValueInfoProto,
};
use bb::onnx::OnnxValue;
use bb::{CompileOptions, DataType, Module, TensorData};
use bb_tests::backends;
use bb_tests::model::{node, with_graph};
use prost::Message as _;

/// A text that marks its place. Texts of one number are the same name, or have one reason to change together.
fn at(place: usize) -> String {
    format!("@#{place:02}")
}

fn text(place: usize) -> Option<String> {
    Some(at(place))
}

fn metadata(place: usize) -> Vec<StringStringEntryProto> {
    vec![StringStringEntryProto { key: text(place), value: text(place + 1) }]
}

/// A value with a named extent.
fn value(name: usize, doc: usize) -> ValueInfoProto {
    let dim = Dimension { value: Some(Extent::DimParam(at(doc + 1))), denotation: text(doc + 2) };
    let shape = Some(TensorShapeProto { dim: vec![dim] });
    let tensor = Type::TensorType(Tensor { elem_type: Some(DataType::F32.to_onnx()), shape });
    ValueInfoProto {
        name: text(name),
        r#type: Some(TypeProto { value: Some(tensor), denotation: text(doc + 3) }),
        doc_string: text(doc),
        metadata_props: metadata(doc + 4),
    }
}

/// The number of places that [`model`] marks.
const PLACES: usize = 60;

/// `y = if true { -(x + w) } else { x }`, where a function of the model negates.
fn model() -> Vec<u8> {
    let (x, y, w, sum, negated, result) = (at(0), at(1), at(2), at(3), at(4), at(5));
    let (function, domain, operand, output, branch) = (at(6), at(7), at(8), at(9), at(10));
    let weight = TensorProto {
        name: Some(w.clone()),
        dims: vec![1],
        data_type: Some(DataType::F32.to_onnx()),
        float_data: vec![1.0],
        doc_string: text(11),
        metadata_props: metadata(12),
        ..Default::default()
    };
    let add = NodeProto {
        name: text(14),
        doc_string: text(15),
        metadata_props: metadata(16),
        attribute: vec![AttributeProto {
            name: text(18),
            r#type: Some(AttributeType::Int as i32),
            i: Some(1),
            doc_string: text(19),
            ..Default::default()
        }],
        ..node("Add", &[&x, &w], &[&sum])
    };
    // Unknown attributes of operators are refused, so the attribute is the function's.
    let attribute = add.attribute.clone();
    let add = NodeProto { attribute: Vec::new(), ..add };
    let call = NodeProto {
        domain: Some(domain.clone()),
        overload: text(20),
        attribute,
        ..node(&function, &[&sum], &[&negated])
    };
    let branch = |inner: NodeProto| (vec![inner], branch.clone());
    let condition = node("Constant", &[], &[&at(21)]);
    let condition = NodeProto {
        attribute: vec![AttributeProto {
            name: Some("value".to_owned()),
            r#type: Some(AttributeType::Tensor as i32),
            t: Some(TensorData::bools(&[], &[true]).unwrap().to_proto(&at(22))),
            ..Default::default()
        }],
        ..condition
    };
    let (then, out) = branch(node("Identity", &[&negated], &[&at(10)]));
    let holder = with_graph(node("If", &[&at(21)], &[&result]), "then_branch", &[], then, &[&out]);
    let (other, out) = branch(node("Identity", &[&x], &[&at(10)]));
    let holder = with_graph(holder, "else_branch", &[], other, &[&out]);
    let graph = GraphProto {
        name: text(23),
        doc_string: text(24),
        node: vec![add, call, condition, holder, node("Identity", &[&result], &[&y])],
        input: vec![value(0, 25)],
        output: vec![value(1, 31)],
        value_info: vec![value(3, 37)],
        initializer: vec![weight],
        quantization_annotation: vec![TensorAnnotation {
            tensor_name: Some(w),
            quant_parameter_tensor_names: metadata(43),
        }],
        metadata_props: metadata(45),
        ..Default::default()
    };
    let opset = |domain: &str, version| OperatorSetIdProto {
        domain: Some(domain.to_owned()),
        version: Some(version),
    };
    let body = FunctionProto {
        name: Some(function),
        domain: Some(domain.clone()),
        overload: text(20),
        input: vec![operand.clone()],
        output: vec![output.clone()],
        attribute: vec![at(18)],
        doc_string: text(47),
        metadata_props: metadata(48),
        node: vec![node("Neg", &[&operand], &[&output])],
        opset_import: vec![opset("", 23)],
        ..Default::default()
    };
    let model = ModelProto {
        ir_version: Some(10),
        opset_import: vec![opset("", 23), opset(&domain, 1)],
        producer_name: text(50),
        producer_version: text(51),
        domain: text(52),
        doc_string: text(53),
        metadata_props: metadata(54),
        graph: Some(graph),
        functions: vec![body],
        ..Default::default()
    };
    model.encode_to_vec()
}

/// Returns the model with other bytes of the same length at a place, and how often it stands there.
fn with_bytes_at(mut model: Vec<u8>, place: usize, bytes: [u8; 4]) -> (Vec<u8>, usize) {
    let mark = at(place).into_bytes();
    let found: Vec<usize> =
        model.windows(4).enumerate().filter(|(_, own)| *own == mark).map(|(at, _)| at).collect();
    for at in &found {
        model[*at..*at + 4].copy_from_slice(&bytes);
    }
    (model, found.len())
}

fn run(on: &str, model: Vec<u8>) -> Result<TensorData, bb::Error> {
    let on = backends::start(on).unwrap();
    let compiled = on.clone().compile(Module::from_bytes(model)?, &CompileOptions::default())?;
    let x = on.constant(&TensorData::new(&[2], &[1f32, 2.0]).unwrap())?;
    let ran = compiled.run_items(&[Some(OnnxValue::Tensor(x))])?;
    let OnnxValue::Tensor(y) = &ran[0] else { panic!("a tensor") };
    on.to_host(y)
}

#[test]
fn every_text_of_a_model_may_be_other_bytes() {
    let model = model();
    let mut marked = 0;
    for place in 0..PLACES {
        // Latin 1, half a character of UTF-8, and a surrogate.
        for bytes in [*b"caf\xE9", *b"ab\xC3a", *b"\xED\xA0\x80a"] {
            let (changed, count) = with_bytes_at(model.clone(), place, bytes);
            marked += usize::from(count > 0);
            for backend in backends::NAMES {
                let y =
                    run(backend, changed.clone()).unwrap_or_else(|e| panic!("{place} on {backend}: {e:?}"));
                assert_eq!(y.as_slice::<f32>().unwrap(), [-2.0, -3.0], "{place} on {backend}");
            }
        }
    }
    assert_eq!(marked, 3 * 56);
}

/// The two names differ only in a byte that is not UTF-8.
#[test]
fn names_of_other_bytes_stay_different() {
    let (model, _) = with_bytes_at(model(), 3, *b"caf\xE9");
    let (model, _) = with_bytes_at(model, 4, *b"caf\xEA");
    assert_eq!(run("cpu", model).unwrap().as_slice::<f32>().unwrap(), [-2.0, -3.0]);
}

#[test]
fn the_names_of_ports_show_what_stands_there() {
    let (model, _) = with_bytes_at(model(), 0, *b"caf\xE9");
    let on = backends::start("cpu").unwrap();
    let compiled = on.compile(Module::from_bytes(model).unwrap(), &CompileOptions::default()).unwrap();
    let names: Vec<&str> = compiled.inputs().iter().map(|port| port.name.as_str()).collect();
    assert_eq!(names, ["caf\u{FFFD}e9"]);
}
