//! Messages of gRPC as their bytes, which are counted before anything is decoded.
//!
//! An empty tensor takes two bytes of a message, and two hundred bytes of memory when it is decoded. So the fields of a message, and
//! of the messages in it, are counted first. The contents of inputs, which may be millions of elements, stay bytes until the input is
//! known to fit the model.

use super::inference::InferParameter;
use crate::infer;
use crate::refusal::Refusal;
use bytes::Bytes;
use prost::encoding::{WireType, decode_key, decode_varint};
use std::collections::HashMap;

/// The most fields of a message: inputs, outputs, their raw bytes and parameters.
const FIELDS: usize = 2048;

/// The most fields of all messages in a message together.
const INNER: usize = 8192;

/// The most bytes that are neither raw nor contents: names, types, extents and parameters.
const TEXTS: usize = 16 << 20;

/// The most extents of a tensor in packed form.
const RANK: usize = 64;

/// The bytes that a decoded field takes in addition to its text: an input, an output or an entry of a map.
const ENTRY: usize = 512;

/// The number of elements between two checks of the deadline.
const CHECKED: usize = 1 << 16;

/// `ModelInferRequest` without decoded contents of inputs.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct InferRequest {
    #[prost(string, tag = "1")]
    pub(super) model_name: String,
    #[prost(string, tag = "2")]
    pub(super) model_version: String,
    #[prost(string, tag = "3")]
    pub(super) id: String,
    #[prost(map = "string, message", tag = "4")]
    pub(super) parameters: HashMap<String, InferParameter>,
    #[prost(message, repeated, tag = "5")]
    pub(super) inputs: Vec<Input>,
    #[prost(message, repeated, tag = "6")]
    pub(super) outputs: Vec<super::inference::model_infer_request::InferRequestedOutputTensor>,
    #[prost(bytes = "bytes", repeated, tag = "7")]
    pub(super) raw_input_contents: Vec<Bytes>,
}

/// `InferInputTensor`, whose contents are not decoded.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Input {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) datatype: String,
    #[prost(int64, repeated, tag = "3")]
    pub(super) shape: Vec<i64>,
    #[prost(map = "string, message", tag = "4")]
    pub(super) parameters: HashMap<String, InferParameter>,
    /// The bytes of an `InferTensorContents`.
    #[prost(bytes = "bytes", optional, tag = "5")]
    pub(super) contents: Option<Bytes>,
}

/// The number of `inputs`, `outputs` and `raw_input_contents` in a request.
const INPUTS: u32 = 5;
const OUTPUTS: u32 = 6;
const RAW: u32 = 7;

/// The number of `shape` and `contents` in an input.
const SHAPE: u32 = 3;
const CONTENTS: u32 = 5;

/// Counts the fields of a request without decoding it, and returns about how many bytes decoding takes.
pub(super) fn count_request(message: &[u8]) -> Result<usize, Refusal> {
    let (mut fields, mut inner, mut texts, mut decoded) = (0, 0, 0, 0usize);
    for field in Fields(message) {
        let field = field?;
        bound("fields", &mut fields, 1, FIELDS)?;
        decoded = decoded.saturating_add(ENTRY);
        match field.number {
            RAW => {}
            INPUTS | OUTPUTS => {
                let mut contents = 0;
                for part in Fields(field.bytes) {
                    let part = part?;
                    bound("fields of messages", &mut inner, 1, INNER)?;
                    decoded = decoded.saturating_add(ENTRY);
                    match (field.number, part.number) {
                        // Another one would be merged with the first, which no client needs.
                        (INPUTS, CONTENTS) => bound("contents of one input", &mut contents, 1, 1)?,
                        (INPUTS, SHAPE) => bound("extents", &mut 0, varints(part.bytes), RANK)?,
                        _ => bound("bytes that are not raw", &mut texts, part.bytes.len(), TEXTS)?,
                    }
                }
            }
            _ => bound("bytes that are not raw", &mut texts, field.bytes.len(), TEXTS)?,
        }
    }
    Ok(decoded.saturating_add(texts))
}

/// Counts the fields of any other message, and of the messages in it.
pub(super) fn count(message: &[u8]) -> Result<(), Refusal> {
    let (mut fields, mut inner) = (0, 0);
    for field in Fields(message) {
        bound("fields", &mut fields, 1, FIELDS)?;
        // A text or bytes may not look like a message, and then is one field.
        for _ in Fields(field?.bytes).map_while(Result::ok) {
            bound("fields of messages", &mut inner, 1, INNER)?;
        }
    }
    Ok(())
}

fn bound(what: &'static str, count: &mut usize, more: usize, limit: usize) -> Result<(), Refusal> {
    *count = count.saturating_add(more);
    if *count <= limit { Ok(()) } else { Err(Refusal::Parts { what, got: *count, limit }) }
}

/// Returns the number of packed varints.
fn varints(packed: &[u8]) -> usize {
    packed.iter().filter(|byte| **byte < 0x80).count()
}

/// A field of a message: its bytes if it has a length or a fixed size, else its number.
struct Field<'a> {
    number: u32,
    kind: WireType,
    bytes: &'a [u8],
    value: u64,
}

/// The fields of a message in their order. A field that is broken is the last one.
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Refusal>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = next(&mut self.0);
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.ok_or(Refusal::Protobuf(None)))
    }
}

fn next<'a>(rest: &mut &'a [u8]) -> Option<Field<'a>> {
    let (number, kind) = decode_key(rest).ok()?;
    let mut value = 0;
    let length = match kind {
        WireType::Varint => {
            value = decode_varint(rest).ok()?;
            0
        }
        WireType::SixtyFourBit => 8,
        WireType::ThirtyTwoBit => 4,
        WireType::LengthDelimited => usize::try_from(decode_varint(rest).ok()?).ok()?,
        WireType::StartGroup | WireType::EndGroup => return None,
    };
    let (bytes, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(Field { number, kind, bytes, value })
}

/// A list of an `InferTensorContents`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct List {
    pub(super) number: u32,
    form: Form,
}

/// The form of an element of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Varint,
    Four,
    Eight,
    Text,
}

impl List {
    pub(super) const BOOL: List = List { number: 1, form: Form::Varint };
    pub(super) const INT: List = List { number: 2, form: Form::Varint };
    pub(super) const INT64: List = List { number: 3, form: Form::Varint };
    pub(super) const UINT: List = List { number: 4, form: Form::Varint };
    pub(super) const UINT64: List = List { number: 5, form: Form::Varint };
    pub(super) const FP32: List = List { number: 6, form: Form::Four };
    pub(super) const FP64: List = List { number: 7, form: Form::Eight };
    pub(super) const BYTES: List = List { number: 8, form: Form::Text };

    const ALL: [List; 8] = [
        List::BOOL,
        List::INT,
        List::INT64,
        List::UINT,
        List::UINT64,
        List::FP32,
        List::FP64,
        List::BYTES,
    ];

    /// Returns the number of elements that a field adds to this list.
    fn elements(self, field: &Field<'_>) -> Result<usize, Refusal> {
        let broken = Refusal::Protobuf(None);
        let size = match (self.form, field.kind) {
            (Form::Varint, WireType::Varint)
            | (Form::Four, WireType::ThirtyTwoBit)
            | (Form::Eight, WireType::SixtyFourBit)
            | (Form::Text, WireType::LengthDelimited) => return Ok(1),
            (Form::Varint, WireType::LengthDelimited) => match field.bytes.last() {
                Some(0x80..) => return Err(broken),
                _ => return Ok(varints(field.bytes)),
            },
            (Form::Four, WireType::LengthDelimited) => 4,
            (Form::Eight, WireType::LengthDelimited) => 8,
            _ => return Err(broken),
        };
        match field.bytes.len() % size {
            0 => Ok(field.bytes.len() / size),
            _ => Err(broken),
        }
    }
}

/// Counts the elements of a list of contents, without decoding them; `None` if another list has elements.
pub(super) fn count_elements(contents: &[u8], own: List) -> Result<Option<usize>, Refusal> {
    let (mut count, mut others) = (0usize, false);
    for (at, field) in Fields(contents).enumerate() {
        if at % CHECKED == 0 {
            infer::check()?;
        }
        let field = field?;
        let Some(list) = List::ALL.into_iter().find(|list| list.number == field.number) else { continue };
        let elements = list.elements(&field)?;
        if list == own {
            count = count.saturating_add(elements);
        } else {
            others |= elements > 0;
        }
    }
    Ok((!others).then_some(count))
}

/// Calls `take` with each number of a list of contents: a varint, or the bits of a float.
pub(super) fn each_number(
    contents: &[u8],
    own: List,
    mut take: impl FnMut(u64) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let mut number = 0usize;
    let mut take = |bits: u64| {
        if number % CHECKED == 0 {
            infer::check()?;
        }
        number += 1;
        take(bits)
    };
    for field in Fields(contents) {
        let field = field?;
        if field.number != own.number {
            continue;
        }
        let mut rest = field.bytes;
        match (own.form, field.kind) {
            (Form::Varint, WireType::Varint) => take(field.value)?,
            (Form::Varint, _) => {
                while !rest.is_empty() {
                    take(decode_varint(&mut rest).map_err(|error| Refusal::Protobuf(Some(error)))?)?;
                }
            }
            (Form::Four, _) => {
                for bits in rest.as_chunks::<4>().0 {
                    take(u32::from_le_bytes(*bits).into())?;
                }
            }
            (Form::Eight, _) => {
                for bits in rest.as_chunks::<8>().0 {
                    take(u64::from_le_bytes(*bits))?;
                }
            }
            (Form::Text, _) => {}
        }
    }
    Ok(())
}

/// Calls `take` with each text of contents.
pub(super) fn each_text(
    contents: &[u8],
    mut take: impl FnMut(usize, &[u8]) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let mut index = 0;
    for field in Fields(contents) {
        let field = field?;
        if field.number == List::BYTES.number {
            if index % CHECKED == 0 {
                infer::check()?;
            }
            take(index, field.bytes)?;
            index += 1;
        }
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::grpc::inference::model_infer_request::InferInputTensor;
    use crate::grpc::inference::{InferTensorContents, ModelInferRequest};
    use prost::Message;

    #[test]
    fn many_empty_tensors_are_refused_before_they_are_decoded() {
        let inputs = vec![InferInputTensor::default(); FIELDS + 1];
        let request = ModelInferRequest { inputs, ..Default::default() };
        let refusal = count_request(&request.encode_to_vec()).unwrap_err();
        assert!(matches!(refusal, Refusal::Parts { got: 2049, .. }), "{refusal}");
        assert!(matches!(count(&request.encode_to_vec()), Err(Refusal::Parts { .. })));
    }

    #[test]
    fn many_extents_are_refused_one_by_one_and_packed() {
        // Field 3, the shape, as single numbers, in an input, field 5.
        for shape in [[0x18, 1].repeat(INNER + 1), [vec![0x1a, 65], vec![1; 65]].concat()] {
            let mut message = vec![0x2a];
            prost::encoding::encode_varint(shape.len() as u64, &mut message);
            message.extend(shape);
            assert!(matches!(count_request(&message), Err(Refusal::Parts { .. })));
        }
    }

    #[test]
    fn raw_bytes_and_contents_are_not_decoded_and_do_not_count() {
        let contents = InferTensorContents { bytes_contents: vec![Bytes::new(); 1 << 20], ..Default::default() };
        let input = InferInputTensor { contents: Some(contents), ..Default::default() };
        let raw_input_contents = vec![vec![0u8; TEXTS + 1].into()];
        let request = ModelInferRequest { inputs: vec![input], raw_input_contents, ..Default::default() };
        let message = Bytes::from(request.encode_to_vec());
        assert!(count_request(&message).unwrap() < 10 << 10);
        let decoded = InferRequest::decode(message.clone()).unwrap();
        let contents = decoded.inputs.first().unwrap().contents.clone().unwrap();
        assert!(message.as_ptr_range().contains(&contents.as_ptr()), "the bytes are shared");
        assert_eq!(count_elements(&contents, List::BYTES).unwrap(), Some(1 << 20));
        assert_eq!(count_elements(&contents, List::INT64).unwrap(), None);
    }

    #[test]
    fn contents_that_are_given_twice_are_refused() {
        let message = [0x2a, 4, 0x2a, 0, 0x2a, 0];
        assert!(matches!(count_request(&message), Err(Refusal::Parts { got: 2, limit: 1, .. })));
    }

    #[test]
    fn elements_are_those_that_prost_decodes_packed_and_one_by_one() {
        let x = InferTensorContents {
            int64_contents: vec![-1, 0, 300, i64::MIN],
            fp32_contents: vec![1.5, -2.0],
            ..Default::default()
        };
        let mut bytes = x.encode_to_vec();
        // Field 3 as a single varint, and field 6 as a single float.
        bytes.extend([0x18, 0x96, 0x01, 0x35]);
        bytes.extend(7f32.to_le_bytes());
        let x = InferTensorContents::decode(bytes.as_slice()).unwrap();
        let (mut longs, mut floats) = (Vec::new(), Vec::new());
        each_number(&bytes, List::INT64, |x| Ok(longs.push(x.cast_signed()))).unwrap();
        each_number(&bytes, List::FP32, |x| Ok(floats.push(f32::from_bits(u32::try_from(x).unwrap())))).unwrap();
        assert_eq!((longs, floats), (x.int64_contents, x.fp32_contents));
    }

    #[test]
    fn broken_messages_are_refused() {
        for broken in [[0x2a, 0xff].as_slice(), &[0x2b], &[0x2a, 1, 0x2b]] {
            assert!(count_request(broken).is_err());
        }
        assert!(count(&[0x2a, 0xff]).is_err());
        count_request(&[]).unwrap();
        // A varint that does not end, in field 3; three bytes of floats, in field 6.
        assert!(count_elements(&[0x1a, 1, 0x80], List::INT64).is_err());
        assert!(count_elements(&[0x32, 3, 0, 0, 0], List::FP32).is_err());
    }
}
