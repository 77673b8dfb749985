//! Tensors that arrive as frames.

use crate::Error;
use bb_ir::TensorData;

/// Decodes a frame whose type must hash to `type_hash`.
pub(crate) fn decode(_type_hash: u64, _bytes: Vec<u8>) -> Result<TensorData, Error> {
    Err(Error::Abandoned)
}
