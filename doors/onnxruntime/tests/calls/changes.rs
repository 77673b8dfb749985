//! Tests session options that change a model: constants, and extents of symbolic dimensions.

use crate::raw::*;
use bb::TensorData;
use bb::ir::proto::{
    GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorShapeProto, TypeProto, ValueInfoProto,
    tensor_shape_proto, type_proto,
};
use ort_sys::ONNXTensorElementDataType::{
    ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT as F32, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 as I64,
};
use ort_sys::OrtErrorCode::ORT_INVALID_ARGUMENT;
use prost::Message;
use std::ptr::null_mut;

/// Creates the model `y = x + w`, where `w` is the constant 1, 2, and `x` has the dimension `n`.
fn model() -> Vec<u8> {
    let port = |name: &str| {
        let dim = tensor_shape_proto::Dimension {
            value: Some(tensor_shape_proto::dimension::Value::DimParam("n".to_owned())),
            ..Default::default()
        };
        let tensor =
            type_proto::Tensor { elem_type: Some(1), shape: Some(TensorShapeProto { dim: vec![dim] }) };
        let value = Some(type_proto::Value::TensorType(tensor));
        let ty = TypeProto { value, ..Default::default() };
        ValueInfoProto { name: Some(name.to_owned()), r#type: Some(ty), ..Default::default() }
    };
    let add = NodeProto {
        op_type: Some("Add".to_owned()),
        input: vec!["x".to_owned(), "w".to_owned()],
        output: vec!["y".to_owned()],
        ..Default::default()
    };
    let graph = GraphProto {
        name: Some("g".to_owned()),
        node: vec![add],
        input: vec![port("x")],
        output: vec![port("y")],
        initializer: vec![TensorData::new(&[2], &[1f32, 2.0]).unwrap().to_proto("w")],
        ..Default::default()
    };
    let opset = OperatorSetIdProto { version: Some(20), ..Default::default() };
    let model = ModelProto {
        ir_version: Some(9),
        graph: Some(graph),
        opset_import: vec![opset],
        ..Default::default()
    };
    model.encode_to_vec()
}

/// Opens the model with options that `set` changes.
fn open(
    set: impl FnOnce(*mut ort_sys::OrtSessionOptions),
) -> Result<Opened, (ort_sys::OrtErrorCode, String)> {
    let (mut options, mut session, model) = (null_mut(), null_mut(), model());
    // SAFETY: the arguments conform to the header.
    unsafe {
        ok((api().CreateSessionOptions)(&mut options));
        set(options);
        let (first, length) = (model.as_ptr().cast(), model.len());
        let status = (api().CreateSessionFromArray)(environment(), first, length, options, &mut session);
        (api().ReleaseSessionOptions)(options);
        error(status).map_or(Ok(Opened(session)), Err)
    }
}

fn replaced(name: &std::ffi::CStr, value: &OwnedValue) -> Result<Opened, (ort_sys::OrtErrorCode, String)> {
    // SAFETY: the arguments conform to the header.
    open(|options| ok(unsafe { (api().AddInitializer)(options, name.as_ptr(), value.0) }))
}

fn sum(session: &Opened) -> Vec<f32> {
    let mut numbers = [10f32, 20.0];
    let x = over(&mut numbers, &[2], F32);
    elements::<f32>(&run(session, (c"x", &x), c"y", std::ptr::null()).unwrap()).to_vec()
}

#[test]
fn a_tensor_takes_the_place_of_a_constant_of_its_type_and_shape() {
    assert_eq!(sum(&open(|_| ()).unwrap()), [11.0, 22.0]);
    let (mut two, mut three, mut whole) = ([5f32, 7.0], [5f32, 7.0, 9.0], [5i64, 7]);
    let other = over(&mut two, &[2], F32);
    assert_eq!(sum(&replaced(c"w", &other).unwrap()), [15.0, 27.0]);
    assert_eq!(sum(&replaced(c"absent", &other).unwrap()), [11.0, 22.0]);
    let longer = over(&mut three, &[3], F32);
    let integers = over(&mut whole, &[2], I64);
    for (wrong, given) in [(longer, "f32[3]"), (integers, "i64[2]")] {
        let (code, message) = replaced(c"w", &wrong).unwrap_err();
        assert_eq!(code, ORT_INVALID_ARGUMENT, "{message}");
        assert!(message.contains("`w` is f32[2]") && message.contains(given), "{message}");
    }
}

#[test]
fn a_symbolic_dimension_takes_the_extent_that_is_set() {
    // SAFETY: the arguments conform to the header.
    let set = |name: &std::ffi::CStr, extent: i64| {
        let name = name.as_ptr();
        open(|options| ok(unsafe { (api().AddFreeDimensionOverrideByName)(options, name, extent) }))
    };
    let extent = |session: &Opened| {
        let (mut ty, mut tensor, mut extents) = (null_mut(), std::ptr::null(), [0i64]);
        // SAFETY: the arguments conform to the header.
        unsafe {
            ok((api().SessionGetInputTypeInfo)(session.0, 0, &mut ty));
            ok((api().CastTypeInfoToTensorInfo)(ty, &mut tensor));
            ok((api().GetDimensions)(tensor, extents.as_mut_ptr(), 1));
            (api().ReleaseTypeInfo)(ty);
        }
        extents[0]
    };
    assert_eq!(extent(&open(|_| ()).unwrap()), -1);
    assert_eq!(extent(&set(c"n", 2).unwrap()), 2);
    assert_eq!(extent(&set(c"absent", 2).unwrap()), -1);
    // The extent must match the constant, which has two elements.
    assert!(set(c"n", 3).is_err());
}
