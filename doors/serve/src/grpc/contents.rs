//! Reads and writes the tensors of gRPC messages, which are raw bytes or typed lists.

use super::lists::{List, count_elements, each_number, each_text};
use crate::elements;
use crate::held_bytes::Lease;
use crate::labels;
use crate::messages::wire::{InferRequest, InferResponse, Output};
use crate::model::{Announced, Inputs, Model};
use crate::parameters;
use crate::refusal::Refusal;
use bb::{DataType, TensorData};
use bytes::Bytes;

/// Checks a request against its model and reads the elements.
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

/// A function that appends an element to the bytes of a tensor. It returns false if the tensor's element type cannot represent the element.
type Push = fn(u64, &mut Vec<u8>) -> bool;

/// Creates a [`Push`] for a type that may be narrower than the 32-bit integers of the message. Protobuf truncates longer varints to 32
/// bits.
macro_rules! narrow {
    ($wide:ty => $narrow:ty) => {
        |x, to| {
            let narrow = <$narrow>::try_from(x as $wide);
            narrow.map(|x| to.extend_from_slice(&x.to_le_bytes())).is_ok()
        }
    };
}

#[expect(clippy::cast_possible_truncation, reason = "protobuf cuts varints")]
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
    let counted = count_elements(contents, list)?;
    let counted = counted.ok_or_else(|| {
        let expected = format!("in the list of `contents` for {}", of.datatype);
        Refusal::Elements { name: of.name.clone(), expected, source: None }
    })?;
    if counted != of.elements {
        return Err(elements::count(of, counted));
    }
    if list == List::BYTES {
        return elements::from_texts(of, contents.len(), lease, |take| each_text(contents, take));
    }
    let size = of.dtype.bytes_for(of.elements).unwrap_or(usize::MAX);
    lease.grow(size)?;
    let mut bytes = Vec::with_capacity(size);
    each_number(contents, list, |x| match push(x, &mut bytes) {
        true => Ok(()),
        false => Err(Refusal::elements(&of.name, of.dtype, None)),
    })?;
    elements::from_bytes(of, bytes.into(), lease)
}

/// Writes an answer. Its elements are raw if the request's elements were, or if `contents` has no list for the type of an output.
pub(super) fn write(
    model: &Model,
    id: String,
    raw: bool,
    wanted: &[usize],
    results: &[TensorData],
    classes: &[Option<usize>],
    lease: &Lease,
) -> Result<InferResponse, Refusal> {
    let raw = raw || results.iter().any(|x| matches!(x.dtype(), DataType::F16 | DataType::BF16));
    let mut answer = InferResponse {
        model_name: model.name.clone(),
        model_version: model.version.clone(),
        id,
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
            contents = Some(written(result, &model.name, &port.name, lease)?);
        }
        answer.outputs.push(Output {
            name: port.name.clone(),
            datatype: datatype.to_owned(),
            shape: result.shape().iter().map(extent).collect(),
            contents,
        });
    }
    Ok(answer)
}

/// Encodes elements as the bytes of an `InferTensorContents`.
fn written(x: &TensorData, model: &str, name: &str, lease: &Lease) -> Result<Bytes, Refusal> {
    let wrong = |_| Refusal::Output { model: model.to_owned(), name: name.to_owned(), got: x.dtype() };
    // Protobuf sign-extends 32-bit integers to 64 bits.
    macro_rules! integers {
        ($list:expr, $t:ty) => {
            $list.numbers(
                x.as_slice::<$t>().map_err(wrong)?.iter().map(|x| i64::from(*x).cast_unsigned()),
                lease,
            )
        };
    }
    match x.dtype() {
        DataType::Bool => {
            List::BOOL.numbers(x.to_bools().map_err(wrong)?.iter().map(|x| u64::from(*x)), lease)
        }
        DataType::I8 => integers!(List::INT, i8),
        DataType::I16 => integers!(List::INT, i16),
        DataType::I32 => integers!(List::INT, i32),
        DataType::I64 => integers!(List::INT64, i64),
        DataType::U8 => integers!(List::UINT, u8),
        DataType::U16 => integers!(List::UINT, u16),
        DataType::U32 => integers!(List::UINT, u32),
        DataType::U64 => List::UINT64.numbers(x.as_slice::<u64>().map_err(wrong)?.iter().copied(), lease),
        DataType::F32 | DataType::F64 => {
            let list = if x.dtype() == DataType::F32 { List::FP32 } else { List::FP64 };
            list.bytes(x.unaligned_bytes().map_err(wrong)?, lease)
        }
        DataType::String => List::BYTES.texts(|| x.iter_bytes(), lease),
        // Models with other types are refused when they are loaded, and 16-bit floats are sent raw.
        got => Err(Refusal::Output { model: model.to_owned(), name: name.to_owned(), got }),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::held_bytes::HeldBytes;
    use crate::messages::inference::InferTensorContents;
    use prost::Message;

    #[test]
    fn elements_are_written_as_prost_writes_them() {
        let lease = HeldBytes::new(1 << 20).lease();
        let check = |x: TensorData, expected: InferTensorContents| {
            assert_eq!(written(&x, "m", "y", &lease).unwrap(), expected.encode_to_vec(), "{:?}", x.dtype());
        };
        let none = InferTensorContents::default;
        check(
            TensorData::bools(&[2], &[true, false]).unwrap(),
            InferTensorContents { bool_contents: vec![true, false], ..none() },
        );
        let int_contents = vec![-1, 127, 0];
        check(
            TensorData::new(&[3], &[-1i8, 127, 0]).unwrap(),
            InferTensorContents { int_contents: int_contents.clone(), ..none() },
        );
        check(
            TensorData::new(&[3], &[-1i32, 127, 0]).unwrap(),
            InferTensorContents { int_contents, ..none() },
        );
        let int64_contents = vec![i64::MIN, -1, 300];
        check(
            TensorData::new(&[3], &int64_contents).unwrap(),
            InferTensorContents { int64_contents, ..none() },
        );
        check(
            TensorData::new(&[2], &[65535u16, 1]).unwrap(),
            InferTensorContents { uint_contents: vec![65535, 1], ..none() },
        );
        let uint64_contents = vec![u64::MAX, 0];
        check(
            TensorData::new(&[2], &uint64_contents).unwrap(),
            InferTensorContents { uint64_contents, ..none() },
        );
        let fp32_contents = vec![1.5, -2.0];
        check(
            TensorData::new(&[2], &fp32_contents).unwrap(),
            InferTensorContents { fp32_contents, ..none() },
        );
        let fp64_contents = vec![1.5, f64::INFINITY];
        check(
            TensorData::new(&[2], &fp64_contents).unwrap(),
            InferTensorContents { fp64_contents, ..none() },
        );
        check(TensorData::new(&[0], &[0f32; 0]).unwrap(), none());
        let texts = TensorData::strings(&[3], &["é", "", "ab"]).unwrap();
        let bytes_contents = ["é", "", "ab"].map(|text| Bytes::from_static(text.as_bytes())).to_vec();
        check(texts, InferTensorContents { bytes_contents, ..none() });
    }
}
