//! The header of a frame. Only this module uses bincode.
//!
//! The fields are encoded in order. Integers have a fixed width and are little-endian; a sequence is its length as `u64`,
//! followed by its items. `wincode` writes the same bytes, and could replace bincode.

use super::{DataType, Error, TensorData, element_type, type_hash};
use crate::Shape;
use bincode::config::{Configuration, Fixint, Limit, LittleEndian};
use serde::{Deserialize, Serialize};

/// The maximum size of a header in bytes, which is enough for two thousand extents.
pub(super) const LIMIT: usize = 1 << 14;

const CONFIG: Configuration<LittleEndian, Fixint, Limit<LIMIT>> =
    bincode::config::standard().with_fixed_int_encoding().with_limit::<LIMIT>();

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) type_hash: u64,
    /// ONNX's number for the element type.
    dtype: u32,
    shape: Vec<u64>,
    /// The number of bytes of the elements.
    pub(super) length: u64,
}

impl Header {
    pub(super) fn of(x: &TensorData) -> Header {
        Header {
            type_hash: type_hash(x.dtype()),
            dtype: x.dtype().to_onnx() as u32,
            shape: x.shape().iter().map(|&d| d as u64).collect(),
            length: x.byte_len() as u64,
        }
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>, Error> {
        let bytes = bincode::serde::encode_to_vec(self, CONFIG)
            .map_err(|e| Error::FrameHeader { source: Box::new(e) })?;
        if bytes.len() > LIMIT {
            return Err(Error::FrameHeaderLength { limit: LIMIT, got: bytes.len() });
        }
        Ok(bytes)
    }

    /// Decodes a header, which must take all of `bytes`. The limit in `CONFIG` restricts the allocation for a forged length.
    pub(super) fn decode(bytes: &[u8]) -> Result<Header, Error> {
        let (header, read): (Header, usize) = bincode::serde::decode_from_slice(bytes, CONFIG)
            .map_err(|e| Error::FrameHeader { source: Box::new(e) })?;
        if read != bytes.len() {
            return Err(Error::FrameHeaderLength { limit: read, got: bytes.len() });
        }
        Ok(header)
    }

    /// Returns the element type. The element type and the type hash in the header must match.
    pub(super) fn dtype(&self) -> Result<DataType, Error> {
        let number = i32::try_from(self.dtype).unwrap_or(i32::MAX);
        let dtype = DataType::from_onnx(number).ok_or(Error::UnknownDataType { number })?;
        if element_type(self.type_hash) != Some(dtype) {
            return Err(Error::FrameType { expected: type_hash(dtype), got: self.type_hash });
        }
        Ok(dtype)
    }

    pub(super) fn shape(&self) -> Result<Shape, Error> {
        let extent = |&d: &u64| usize::try_from(d).map_err(|_| Error::FrameExtent { got: d });
        self.shape.iter().map(extent).collect()
    }
}
