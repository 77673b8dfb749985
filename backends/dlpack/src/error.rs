//! The error type of tensor exchange.

use crate::DLDataType;
use bb_ir::DataType;

/// The reason why a tensor cannot be exchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DlpackError {
    /// A required pointer is null.
    #[error("the pointer to {0} is null")]
    Null(&'static str),

    /// The elements are not in host memory.
    #[error("the elements are on a device of type {0}; expected 1, the host")]
    Device(i32),

    /// No element type of `bb` has this code, bit width and number of lanes.
    #[error("no element type has the code {}, {} bits and {} lanes", .0.code, .0.bits, .0.lanes)]
    Type(DLDataType),

    /// DLPack has no matching element type with whole bytes.
    #[error("elements of type {0} cannot be exported")]
    Export(DataType),

    /// The number of dimensions is negative.
    #[error("the number of dimensions is {0}")]
    Rank(i32),

    /// An extent is negative.
    #[error("extent {axis} is {extent}")]
    Extent {
        /// The dimension.
        axis: usize,
        /// The extent.
        extent: i64,
    },

    /// The tensor is larger than the address space, or its strides lead outside it.
    #[error("extents, strides or offset are too large")]
    TooLarge,

    /// The elements are not valid for their type.
    #[error(transparent)]
    Elements(#[from] bb_ir::Error),
}
