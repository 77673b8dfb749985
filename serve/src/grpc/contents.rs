//! Tensors of gRPC messages: raw bytes, or lists by type.

use super::inference::model_infer_request::InferInputTensor;
use super::inference::model_infer_response::InferOutputTensor;
use super::inference::{InferTensorContents, ModelInferRequest, ModelInferResponse};
use crate::budget::Lease;
use crate::elements::{self, from_elements, from_texts, from_wider};
use crate::labels;
use crate::model::{Announced, Inputs, Model};
use crate::parameters;
use crate::refusal::Refusal;
use bb::{DataType, TensorData};
use bytes::Bytes;
use std::collections::HashMap;

/// Returns about how many bytes the elements of an input take.
pub(super) fn size(input: &InferInputTensor) -> usize {
    let Some(x) = &input.contents else { return 0 };
    let texts = x.bytes_contents.iter().map(|text| size_of::<Bytes>() + text.len()).sum::<usize>();
    texts
        + x.bool_contents.len()
        + 4 * (x.int_contents.len() + x.uint_contents.len() + x.fp32_contents.len())
        + 8 * (x.int64_contents.len() + x.uint64_contents.len() + x.fp64_contents.len())
}

/// Compares a request with its model and reads the elements.
pub(super) fn read(
    model: &Model,
    request: &ModelInferRequest,
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
            (Some(bytes), None) => elements::from_bytes(&announced, bytes.clone())?,
            (None, Some(contents)) => {
                lease.grow(2 * size(input))?;
                from_contents(&announced, contents)?
            }
        };
        inputs.put(&announced, tensor);
    }
    inputs.finish()
}

fn from_contents(of: &Announced, x: &InferTensorContents) -> Result<TensorData, Refusal> {
    let lists = [
        (x.bool_contents.len(), of.dtype == DataType::Bool),
        (x.int_contents.len(), matches!(of.dtype, DataType::I8 | DataType::I16 | DataType::I32)),
        (x.int64_contents.len(), of.dtype == DataType::I64),
        (x.uint_contents.len(), matches!(of.dtype, DataType::U8 | DataType::U16 | DataType::U32)),
        (x.uint64_contents.len(), of.dtype == DataType::U64),
        (x.fp32_contents.len(), of.dtype == DataType::F32),
        (x.fp64_contents.len(), of.dtype == DataType::F64),
        (x.bytes_contents.len(), of.dtype == DataType::String),
    ];
    if lists.iter().any(|(length, own)| *length != 0 && !own) {
        let expected = format!("in the list of `contents` for {}", of.datatype);
        return Err(Refusal::Elements { name: of.name.clone(), expected, source: None });
    }
    match of.dtype {
        DataType::Bool if x.bool_contents.len() == of.elements => {
            TensorData::bools(&of.shape, &x.bool_contents)
                .map_err(|source| Refusal::Tensor { name: of.name.clone(), source })
        }
        // A list of another length, which `from_elements` reports.
        DataType::Bool => from_elements(of, &vec![0u8; x.bool_contents.len()]),
        DataType::I8 => from_wider::<i32, i8>(of, &x.int_contents),
        DataType::I16 => from_wider::<i32, i16>(of, &x.int_contents),
        DataType::I32 => from_elements(of, &x.int_contents),
        DataType::I64 => from_elements(of, &x.int64_contents),
        DataType::U8 => from_wider::<u32, u8>(of, &x.uint_contents),
        DataType::U16 => from_wider::<u32, u16>(of, &x.uint_contents),
        DataType::U32 => from_elements(of, &x.uint_contents),
        DataType::U64 => from_elements(of, &x.uint64_contents),
        DataType::F32 => from_elements(of, &x.fp32_contents),
        DataType::F64 => from_elements(of, &x.fp64_contents),
        DataType::String => from_texts(of, &x.bytes_contents),
        _ => Err(Refusal::NoData {
            name: of.name.clone(),
            expected: "`raw_input_contents`, because `contents` has no list for 16-bit floats",
        }),
    }
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
