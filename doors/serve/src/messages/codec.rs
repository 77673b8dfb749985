//! Decodes the small messages of all methods except `ModelInfer`. Their fields are counted before they are decoded.

use crate::messages::wire::count;
use crate::refusal::Refusal;
use bytes::Buf;
use prost::Message;
use std::marker::PhantomData;
use tonic::Status;
use tonic::codec::{DecodeBuf, Decoder, EncodeBuf, Encoder};

/// A codec that encodes and decodes gRPC messages.
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

/// One direction of a [`Codec`], for one call.
pub(crate) struct Protobuf<T> {
    /// Whether a message was decoded. All methods are unary, so a second message is an error.
    decoded: bool,
    of: PhantomData<T>,
}

impl<T: Message> Encoder for Protobuf<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, item: T, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        // Reserves the exact size, because a buffer that grows while it is written ends with up to twice the size, and stays allocated
        // until the client has read it.
        to.reserve(item.encoded_len());
        item.encode(to).map_err(|_| Refusal::Internal { what: "a buffer of gRPC did not grow" }.into())
    }
}

impl<T: Message + Default> Decoder for Protobuf<T> {
    type Item = T;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<T>, Status> {
        // gRPC's table of status codes assigns this code to a wrong number of requests.
        if std::mem::replace(&mut self.decoded, true) {
            return Err(Refusal::Messages { got: "several" }.into());
        }
        let bytes = from.copy_to_bytes(from.remaining());
        count(&bytes)?;
        let decoded = T::decode(bytes).map_err(|error| Refusal::Protobuf(Some(error)))?;
        Ok(Some(decoded))
    }
}
