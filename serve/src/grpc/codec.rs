//! Decodes messages whose parts were counted first.
//!
//! An empty tensor takes two bytes of a message, but two hundred of memory when it is decoded. So the fields of a message, and
//! those of its messages, are counted before anything is decoded.

use crate::refusal::Refusal;
use bytes::{Buf, Bytes};
use prost::Message;
use prost::encoding::{WireType, decode_key, decode_varint};
use std::marker::PhantomData;
use tonic::Status;
use tonic::codec::{DecodeBuf, Decoder, EncodeBuf, Encoder};

/// The most fields of a message: inputs, outputs, their raw bytes and parameters.
const FIELDS: usize = 2048;

/// The most fields of all messages in a message together.
const INNER: usize = 8192;

/// The most bytes of what is not raw, because lists of elements take up to sixteen times as much when they are decoded.
const LISTS: usize = 16 << 20;

/// Encodes and decodes messages of gRPC.
pub(crate) struct Codec<E, D>(PhantomData<(E, D)>);

impl<E, D> Default for Codec<E, D> {
    fn default() -> Codec<E, D> {
        Codec(PhantomData)
    }
}

impl<E, D> tonic::codec::Codec for Codec<E, D>
where
    E: Message + Send + 'static,
    D: Message + Default + Send + 'static,
{
    type Encode = E;
    type Decode = D;
    type Encoder = Protobuf<E>;
    type Decoder = Protobuf<D>;

    fn encoder(&mut self) -> Protobuf<E> {
        Protobuf { decoded: false, of: PhantomData }
    }

    fn decoder(&mut self) -> Protobuf<D> {
        Protobuf { decoded: false, of: PhantomData }
    }
}

/// One direction of a [`Codec`], of one call.
pub(crate) struct Protobuf<T> {
    /// Whether a message was decoded. All methods are unary, so that a call has no other.
    decoded: bool,
    of: PhantomData<T>,
}

impl<T: Message> Encoder for Protobuf<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, item: T, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        // A buffer that grows while it is written ends with up to twice the room, for as long as the client takes to read.
        to.reserve(item.encoded_len());
        item.encode(to).map_err(|_| Refusal::Internal { what: "a buffer of gRPC did not grow" }.into())
    }
}

impl<T: Message + Default> Decoder for Protobuf<T> {
    type Item = T;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<T>, Status> {
        // The code is that of gRPC's table of status codes, for a violation of the number of requests.
        if std::mem::replace(&mut self.decoded, true) {
            return Err(Refusal::Messages { got: "several" }.into());
        }
        let bytes = from.copy_to_bytes(from.remaining());
        count(&bytes)?;
        let decoded = T::decode(bytes).map_err(|error| Refusal::Protobuf(Some(error)))?;
        Ok(Some(decoded))
    }
}

/// Counts the fields of a message without decoding it.
fn count(message: &Bytes) -> Result<(), Refusal> {
    let broken = || Refusal::Protobuf(None);
    let (mut fields, mut inner, mut lists) = (0, 0, 0);
    let mut rest: &[u8] = message;
    while !rest.is_empty() {
        fields += 1;
        let field = next(&mut rest).ok_or_else(broken)?;
        if field.number == RAW {
            continue;
        }
        lists += field.bytes.len();
        let mut part = field.bytes;
        // What is a text or bytes may not look like a message, and then is one field.
        while !part.is_empty() && inner <= INNER {
            inner += 1;
            if next(&mut part).is_none() {
                break;
            }
        }
    }
    let bounds = [
        ("fields", fields, FIELDS),
        ("fields of messages", inner, INNER),
        ("bytes that are not raw", lists, LISTS),
    ];
    match bounds.into_iter().find(|(_, got, limit)| got > limit) {
        Some((what, got, limit)) => Err(Refusal::Parts { what, got, limit }),
        None => Ok(()),
    }
}

/// The number of `raw_input_contents`, whose bytes are not decoded.
const RAW: u32 = 7;

struct Field<'a> {
    number: u32,
    bytes: &'a [u8],
}

fn next<'a>(rest: &mut &'a [u8]) -> Option<Field<'a>> {
    let (number, kind) = decode_key(rest).ok()?;
    let length = match kind {
        WireType::Varint => {
            decode_varint(rest).ok()?;
            0
        }
        WireType::SixtyFourBit => 8,
        WireType::ThirtyTwoBit => 4,
        WireType::LengthDelimited => usize::try_from(decode_varint(rest).ok()?).ok()?,
        WireType::StartGroup | WireType::EndGroup => return None,
    };
    let (bytes, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(Field { number, bytes })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::grpc::inference::ModelInferRequest;
    use crate::grpc::inference::model_infer_request::InferInputTensor;

    #[test]
    fn many_empty_tensors_are_refused_before_they_are_decoded() {
        let inputs = vec![InferInputTensor::default(); FIELDS + 1];
        let request = ModelInferRequest { inputs, ..Default::default() };
        let refusal = count(&request.encode_to_vec().into()).unwrap_err();
        assert!(matches!(refusal, Refusal::Parts { got: 2049, .. }), "{refusal}");
    }

    #[test]
    fn many_extents_one_by_one_are_refused() {
        // Field 3, the shape, as single numbers, in an input, field 5.
        let shape = [0x18, 1].repeat(INNER + 1);
        let mut message = vec![0x2a];
        prost::encoding::encode_varint(shape.len() as u64, &mut message);
        message.extend(shape);
        assert!(matches!(count(&message.into()), Err(Refusal::Parts { .. })));
    }

    #[test]
    fn raw_bytes_are_not_counted() {
        let raw_input_contents = vec![vec![0u8; LISTS + 1].into()];
        let request = ModelInferRequest { raw_input_contents, ..Default::default() };
        count(&request.encode_to_vec().into()).unwrap();
    }

    #[test]
    fn broken_messages_are_refused() {
        assert!(count(&Bytes::from_static(&[0x2a, 0xff])).is_err());
        assert!(count(&Bytes::from_static(&[0x2b])).is_err());
        count(&Bytes::new()).unwrap();
    }
}
