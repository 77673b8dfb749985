//! Tensors of gRPC messages: raw bytes, or lists by type.

use super::inference::model_infer_response::InferOutputTensor;
use super::inference::{InferTensorContents, ModelInferResponse};
use super::wire::{self, InferRequest, List};
use crate::elements;
use crate::held_bytes::Lease;
use crate::labels;
use crate::model::{Announced, Inputs, Model};
use crate::parameters;
use crate::refusal::Refusal;
use bb::{DataType, TensorData};
use bytes::Bytes;
use std::collections::HashMap;

/// Compares a request with its model and reads the elements.
pub(super) fn read(
    model: &Model,
    request: &InferRequest,
    lease: &Lease,
) -> Result<Vec<Option<TensorData>>, Refusal> {
    let raw = &request.raw_input_contents;
    if !raw.is_empty() && raw.len() != request.inputs.len() {
        return Err(Refusal::RawCount { expected: request.inputs.len(), got: raw.len() });
    }
    let mut raw = raw.iter();
    let mut inputs = Inputs::of(model);
    for input in &request.inputs {
        input.parameters.keys().try_for_each(|name| parameters::of_input(&input.name, name))?;
        let announced = inputs.announce(&input.name, &input.datatype, &input.shape)?;
        let tensor = match (raw.next(), &input.contents) {
            (Some(_), Some(_)) => {
                let ways = "in `contents` and in `raw_input_contents`";
                return Err(Refusal::TwoData { name: announced.name, ways });
            }
            (None, None) => {
                let expected = "`contents`, or `raw_input_contents` for all inputs";
                return Err(Refusal::NoData { name: announced.name, expected });
            }
            (Some(bytes), None) => elements::from_bytes(&announced, bytes.clone(), lease)?,
            (None, Some(contents)) => from_contents(&announced, contents, lease)?,
        };
        inputs.put(&announced, tensor);
    }
    inputs.finish()
}

/// Appends the bytes of an element to a tensor; returns false if the type of the tensor cannot hold it.
type Push = fn(u64, &mut Vec<u8>) -> bool;

/// Adds an integer of 32 bits to a tensor of a type that may be narrower. Protobuf cuts longer varints.
macro_rules! narrow {
    ($wide:ty => $narrow:ty) => {
        |x, to| {
            let narrow = <$narrow>::try_from(x as $wide);
            narrow.map(|x| to.extend_from_slice(&x.to_le_bytes())).is_ok()
        }
    };
}

#[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "protobuf cuts varints")]
fn from_contents(of: &Announced, contents: &[u8], lease: &Lease) -> Result<TensorData, Refusal> {
    let eight: Push = |x, to| {
        to.extend_from_slice(&x.to_le_bytes());
        true
    };
    let (list, push): (List, Push) = match of.dtype {
        DataType::Bool => (List::BOOL, |x, to| {
            to.push((x != 0).into());
            true
        }),
        DataType::I8 => (List::INT, narrow!(i32 => i8)),
        DataType::I16 => (List::INT, narrow!(i32 => i16)),
        DataType::I32 => (List::INT, narrow!(i32 => i32)),
        DataType::I64 => (List::INT64, eight),
        DataType::U8 => (List::UINT, narrow!(u32 => u8)),
        DataType::U16 => (List::UINT, narrow!(u32 => u16)),
        DataType::U32 => (List::UINT, narrow!(u32 => u32)),
        DataType::U64 => (List::UINT64, eight),
        DataType::F32 => (List::FP32, narrow!(u32 => u32)),
        DataType::F64 => (List::FP64, eight),
        DataType::String => (List::BYTES, |_, _| false),
        _ => {
            let expected = "`raw_input_contents`, because `contents` has no list for 16-bit floats";
            return Err(Refusal::NoData { name: of.name.clone(), expected });
        }
    };
    let counted = wire::count_elements(contents, list)?;
    let counted = counted.ok_or_else(|| {
        let expected = format!("in the list of `contents` for {}", of.datatype);
        Refusal::Elements { name: of.name.clone(), expected, source: None }
    })?;
    if counted != of.elements {
        return Err(elements::count(of, counted));
    }
    if list == List::BYTES {
        return elements::from_texts(of, contents.len(), lease, |take| wire::each_text(contents, take));
    }
    let size = of.dtype.bytes_for(of.elements).unwrap_or(usize::MAX);
    lease.grow(size)?;
    let mut bytes = Vec::with_capacity(size);
    wire::each_number(contents, list, |x| match push(x, &mut bytes) {
        true => Ok(()),
        false => Err(Refusal::elements(&of.name, of.dtype, None)),
    })?;
    elements::from_bytes(of, bytes.into(), lease)
}

/// Writes an answer, raw if the request was or if an output has no list in `contents`.
pub(super) fn write(
    model: &Model,
    id: String,
    raw: bool,
    wanted: &[usize],
    results: &[TensorData],
    classes: &[Option<usize>],
    lease: &Lease,
) -> Result<ModelInferResponse, Refusal> {
    let raw = raw || results.iter().any(|x| matches!(x.dtype(), DataType::F16 | DataType::BF16));
    let mut answer = ModelInferResponse {
        model_name: model.name.clone(),
        model_version: model.version.clone(),
        id,
        parameters: HashMap::new(),
        outputs: Vec::with_capacity(results.len()),
        raw_output_contents: Vec::new(),
    };
    for ((index, result), most) in wanted.iter().zip(results).zip(classes) {
        let port = model.outputs.get(*index).ok_or(Refusal::Internal { what: "an output has no port" })?;
        let classified = most.map(|most| {
            let (rows, labels) = (model.batching.is_some(), model.labels.as_ref());
            labels::classified(&port.name, result, most, rows, labels, lease)
        });
        let classified = classified.transpose()?;
        let result = classified.as_ref().unwrap_or(result);
        let datatype = if classified.is_some() { "BYTES" } else { port.datatype };
        let extent = |n: &usize| i64::try_from(*n).unwrap_or(i64::MAX);
        let mut contents = None;
        if raw {
            answer.raw_output_contents.push(elements::to_bytes(result)?);
        } else {
            lease.grow(list_bytes(result))?;
            contents = Some(to_contents(result).map_err(|_| Refusal::Output {
                model: model.name.clone(),
                name: port.name.clone(),
                got: result.dtype(),
            })?);
        }
        answer.outputs.push(InferOutputTensor {
            name: port.name.clone(),
            datatype: datatype.to_owned(),
            shape: result.shape().iter().map(extent).collect(),
            parameters: HashMap::new(),
            contents,
        });
    }
    Ok(answer)
}

/// Returns the size in bytes of a list of `contents`, which may have wider elements than the tensor.
fn list_bytes(x: &TensorData) -> usize {
    let width = match x.dtype() {
        DataType::Bool => 1,
        DataType::I64 | DataType::U64 | DataType::F64 => 8,
        DataType::String => size_of::<Bytes>(),
        _ => 4,
    };
    let texts = if x.dtype() == DataType::String { x.byte_len() } else { 0 };
    x.len().saturating_mul(width).saturating_add(texts)
}

fn to_contents(x: &TensorData) -> Result<InferTensorContents, bb_ir::Error> {
    let mut to = InferTensorContents::default();
    match x.dtype() {
        DataType::Bool => to.bool_contents = x.to_bools()?,
        DataType::I8 => to.int_contents = x.as_slice::<i8>()?.iter().map(|x| (*x).into()).collect(),
        DataType::I16 => to.int_contents = x.as_slice::<i16>()?.iter().map(|x| (*x).into()).collect(),
        DataType::I32 => to.int_contents = x.as_slice()?.to_vec(),
        DataType::I64 => to.int64_contents = x.as_slice()?.to_vec(),
        DataType::U8 => to.uint_contents = x.as_slice::<u8>()?.iter().map(|x| (*x).into()).collect(),
        DataType::U16 => to.uint_contents = x.as_slice::<u16>()?.iter().map(|x| (*x).into()).collect(),
        DataType::U32 => to.uint_contents = x.as_slice()?.to_vec(),
        DataType::U64 => to.uint64_contents = x.as_slice()?.to_vec(),
        DataType::F64 => to.fp64_contents = x.as_slice()?.to_vec(),
        DataType::String => {
            to.bytes_contents = x.iter_str().map(|text| Bytes::copy_from_slice(text.as_bytes())).collect();
        }
        // Other types are refused when a model is loaded, but for 16-bit floats, which are raw; `as_slice` refuses them here.
        _ => to.fp32_contents = x.as_slice()?.to_vec(),
    }
    Ok(to)
}
