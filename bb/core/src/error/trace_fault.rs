//! Violated invariants of a trace.

use super::{Error, Internal};
use crate::DataType;
use bb_ir::text::{sentence, shown};

/// A violated invariant of a trace. It is a bug of a pass or of the tracer, because no input can cause it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceFault {
    /// A step reads, or the trace returns, a value that no earlier step computes.
    #[error("{reader} reads `{value}`, which nothing before it makes", reader = sentence(.reader), value = shown(.value))]
    NotMade {
        /// The step, or `return`.
        reader: String,
        /// The value.
        value: String,
    },

    /// Two steps compute the same value, or a step computes a value that has another source.
    #[error("{step} makes `{value}`, which is made already", step = sentence(.step), value = shown(.value))]
    MadeTwice {
        /// The step.
        step: String,
        /// The value.
        value: String,
    },

    /// The number of values that a step computes differs from the number of results of its operation.
    #[error("{step} makes {got} values, expected {expected}", step = sentence(.step))]
    Results {
        /// The step.
        step: String,
        /// The number of results of the operation.
        expected: usize,
        /// The number of values that the step computes.
        got: usize,
    },

    /// The element type or the extents of a value differ from its operation's result or from its constant.
    #[error("`{value}` is {}{:?}, expected {}{:?}", .got.0, .got.1, .expected.0, .expected.1, value = shown(.value))]
    Type {
        /// The value.
        value: String,
        /// The element type and extents of the operation or the constant.
        expected: (DataType, Vec<usize>),
        /// The element type and extents in the trace.
        got: (DataType, Vec<usize>),
    },

    /// An operation refuses its operands.
    #[error("{step} is refused: {reason}", step = sentence(.step), reason = sentence(.reason))]
    Refused {
        /// The step.
        step: String,
        /// The reason.
        reason: String,
    },

    /// A step that runs once reads a value that differs between runs.
    #[error("{step} runs once, but reads `{value}`, which differs between runs", step = sentence(.step), value = shown(.value))]
    Varies {
        /// The step.
        step: String,
        /// The value.
        value: String,
    },
}

impl From<TraceFault> for Error {
    fn from(fault: TraceFault) -> Error {
        Error::Internal(Internal::Trace(fault))
    }
}
