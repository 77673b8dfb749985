//! Decodes tensors that are received as frames.

use crate::Error;
use bb_ir::TensorData;

/// Decodes a frame, and checks that the hash of its type is `type_hash`.
pub(crate) fn decode(type_hash: u64, bytes: Vec<u8>) -> Result<TensorData, Error> {
    Ok(bb_ir::wire::decode_as(type_hash, bytes.into())?)
}
