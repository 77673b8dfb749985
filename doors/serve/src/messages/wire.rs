//! Counts the fields of encoded gRPC messages, before anything is decoded.
//!
//! An empty tensor takes two bytes of a message, but two hundred bytes of memory once it is decoded. So the fields of a message, and of the
//! messages in it, are counted first. The contents of inputs, which may have millions of elements, stay encoded until the input is known to
//! fit the model.

use crate::messages::inference::InferParameter;
use crate::refusal::Refusal;
use bytes::Bytes;
use prost::encoding::{WireType, decode_key, decode_varint};
use std::collections::HashMap;

/// The maximum number of fields of a message: inputs, outputs, their raw bytes and parameters.
const FIELDS: usize = 2048;

/// The maximum number of fields of all nested messages together.
const INNER: usize = 8192;

/// The maximum number of bytes of a message outside of tensor data (`raw_input_contents` and `contents`): names, types, shapes and
/// parameters.
const TEXTS: usize = 16 << 20;

/// The maximum rank of a tensor whose shape is packed.
const RANK: usize = 64;

/// The estimated bytes of a decoded field in addition to its text, for an input, an output or an entry of a map.
const ENTRY: usize = 512;

/// `ModelInferRequest` whose inputs keep their contents encoded.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct InferRequest {
    #[prost(string, tag = "1")]
    pub(crate) model_name: String,
    #[prost(string, tag = "2")]
    pub(crate) model_version: String,
    #[prost(string, tag = "3")]
    pub(crate) id: String,
    #[prost(map = "string, message", tag = "4")]
    pub(crate) parameters: HashMap<String, InferParameter>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) inputs: Vec<Input>,
    #[prost(message, repeated, tag = "6")]
    pub(crate) outputs: Vec<crate::messages::inference::model_infer_request::InferRequestedOutputTensor>,
    #[prost(bytes = "bytes", repeated, tag = "7")]
    pub(crate) raw_input_contents: Vec<Bytes>,
}

/// `InferInputTensor` with encoded contents.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Input {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) datatype: String,
    #[prost(int64, repeated, tag = "3")]
    pub(crate) shape: Vec<i64>,
    #[prost(map = "string, message", tag = "4")]
    pub(crate) parameters: HashMap<String, InferParameter>,
    /// The bytes of an encoded `InferTensorContents`.
    #[prost(bytes = "bytes", optional, tag = "5")]
    pub(crate) contents: Option<Bytes>,
}

/// `ModelInferResponse` whose outputs have encoded contents. It has no parameters.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct InferResponse {
    #[prost(string, tag = "1")]
    pub(crate) model_name: String,
    #[prost(string, tag = "2")]
    pub(crate) model_version: String,
    #[prost(string, tag = "3")]
    pub(crate) id: String,
    #[prost(message, repeated, tag = "5")]
    pub(crate) outputs: Vec<Output>,
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub(crate) raw_output_contents: Vec<Bytes>,
}

/// `InferOutputTensor` with encoded contents.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Output {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) datatype: String,
    #[prost(int64, repeated, tag = "3")]
    pub(crate) shape: Vec<i64>,
    #[prost(bytes = "bytes", optional, tag = "5")]
    pub(crate) contents: Option<Bytes>,
}

/// The field numbers of `inputs`, `outputs` and `raw_input_contents` in a request.
const INPUTS: u32 = 5;
const OUTPUTS: u32 = 6;
const RAW: u32 = 7;

/// The field numbers of `shape` and `contents` in an input.
const SHAPE: u32 = 3;
const CONTENTS: u32 = 5;

/// Counts the fields of a request without decoding it, and estimates the bytes that decoding takes.
pub(crate) fn count_request(message: &[u8]) -> Result<usize, Refusal> {
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
                        // A second field would be merged with the first, which no client needs, so it is refused.
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

/// Counts the fields of a message of another method, and of the messages in it.
pub(crate) fn count(message: &[u8]) -> Result<(), Refusal> {
    let (mut fields, mut inner) = (0, 0);
    for field in Fields(message) {
        bound("fields", &mut fields, 1, FIELDS)?;
        // Strings and bytes that cannot be parsed as a message count as one field.
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
pub(crate) fn varints(packed: &[u8]) -> usize {
    packed.iter().filter(|byte| **byte < 0x80).count()
}

/// A field of a message: its bytes if it has a length or a fixed size, else only its number.
pub(crate) struct Field<'a> {
    pub(crate) number: u32,
    pub(crate) kind: WireType,
    pub(crate) bytes: &'a [u8],
    pub(crate) value: u64,
}

/// An iterator over the fields of a message. It ends with an error at the first field that is malformed.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::messages::inference::model_infer_request::InferInputTensor;
    use crate::messages::inference::{InferTensorContents, ModelInferRequest};
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
        // An input (field 5) with a shape (field 3), first as single numbers, then packed.
        for shape in [[0x18, 1].repeat(INNER + 1), [vec![0x1a, 65], vec![1; 65]].concat()] {
            let mut message = vec![0x2a];
            prost::encoding::encode_varint(shape.len() as u64, &mut message);
            message.extend(shape);
            assert!(matches!(count_request(&message), Err(Refusal::Parts { .. })));
        }
    }

    #[test]
    fn raw_bytes_and_contents_are_not_decoded_and_do_not_count() {
        let contents =
            InferTensorContents { bytes_contents: vec![Bytes::new(); 1 << 20], ..Default::default() };
        let input = InferInputTensor { contents: Some(contents), ..Default::default() };
        let raw_input_contents = vec![vec![0u8; TEXTS + 1].into()];
        let request = ModelInferRequest { inputs: vec![input], raw_input_contents, ..Default::default() };
        let message = Bytes::from(request.encode_to_vec());
        assert!(count_request(&message).unwrap() < 10 << 10);
        let decoded = InferRequest::decode(message.clone()).unwrap();
        let contents = decoded.inputs.first().unwrap().contents.clone().unwrap();
        assert!(message.as_ptr_range().contains(&contents.as_ptr()), "the bytes are shared");
        assert_eq!(contents.len(), 2 << 20);
    }

    #[test]
    fn contents_that_are_given_twice_are_refused() {
        let message = [0x2a, 4, 0x2a, 0, 0x2a, 0];
        assert!(matches!(count_request(&message), Err(Refusal::Parts { got: 2, limit: 1, .. })));
    }

    #[test]
    fn broken_messages_are_refused() {
        for broken in [[0x2a, 0xff].as_slice(), &[0x2b], &[0x2a, 1, 0x2b]] {
            assert!(count_request(broken).is_err());
        }
        assert!(count(&[0x2a, 0xff]).is_err());
        count_request(&[]).unwrap();
    }
}
