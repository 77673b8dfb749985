//! The difference between a result and the caller's buffer for it.

use bb_ir::DataType;
use bb_ir::graph::ValueType;
use bb_ir::text::{sentence, shown};

/// A buffer that does not fit its result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("the buffer for output `{name}` is {buffer}, but the output is {output}: {problem}", name = shown(.name), output = sentence(.output), buffer = sentence(.buffer))]
#[non_exhaustive]
pub struct BufferMismatch {
    /// The name of the output.
    pub name: String,
    /// The type of the output: the type of the result, or the type known in advance if the run has not begun.
    pub output: ValueType,
    /// The type of the buffer. It has no shape if the buffer accepts any shape.
    pub buffer: ValueType,
    /// The difference.
    pub problem: BufferProblem,
}

/// The difference between a result and a buffer.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum BufferProblem {
    /// The output is a sequence or a map.
    Kind,
    /// The output or the buffer has string elements, whose size is not fixed.
    Text,
    /// The element types differ.
    DataType {
        /// The element type of the output.
        expected: DataType,
        /// The element type of the buffer.
        got: DataType,
    },
    /// The ranks differ.
    Rank {
        /// The rank of the output.
        expected: usize,
        /// The rank of the buffer.
        got: usize,
    },
    /// An extent differs.
    Extent {
        /// The axis.
        axis: usize,
        /// The extent of the output.
        expected: usize,
        /// The extent of the buffer.
        got: usize,
    },
    /// The buffer accepts any shape, but is too small.
    Bytes {
        /// The number of bytes of the output.
        expected: usize,
        /// The number of bytes of the buffer.
        got: usize,
    },
}

impl std::fmt::Display for BufferProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BufferProblem::Kind => f.write_str("only tensors go into buffers"),
            BufferProblem::Text => f.write_str("strings do not go into buffers"),
            BufferProblem::DataType { expected, got } => write!(f, "element type {got} must be {expected}"),
            BufferProblem::Rank { expected, got } => write!(f, "rank {got} must be {expected}"),
            BufferProblem::Extent { axis, expected, got } => {
                write!(f, "extent {got} of axis {axis} must be {expected}")
            }
            BufferProblem::Bytes { expected, got } => {
                write!(f, "it has {got} bytes, and the output takes {expected}")
            }
        }
    }
}
