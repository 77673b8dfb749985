//! Why tracing a function stopped before its end.

use super::steps::TraceValue;
use crate::Error;

/// Why tracing a function stopped before its end: the [`Tracer`](super::Tracer)'s error.
///
/// A function that runs on the tracer returns it with `?` like any error. The planner continues after
/// [`Needs`](TraceStop::Needs): it ends the segment before the node, and begins the next one with the value read.
#[derive(Debug, thiserror::Error)]
pub enum TraceStop {
    /// The function reads elements that only running the graph gives.
    #[error("`to_host` needs the value of `{0}`, which is not constant")]
    Needs(NeededValue),

    /// Something is wrong.
    #[error(transparent)]
    Error(#[from] Error),
}

/// The value whose elements a traced function reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeededValue(TraceValue);

impl NeededValue {
    pub(super) fn new(value: TraceValue) -> NeededValue {
        NeededValue(value)
    }

    pub(crate) fn value(self) -> TraceValue {
        self.0
    }
}

impl std::fmt::Display for NeededValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "%{}", self.0)
    }
}

/// For callers that cannot run a part of the graph first.
impl From<TraceStop> for Error {
    fn from(stop: TraceStop) -> Error {
        match stop {
            TraceStop::Needs(value) => {
                Error::NotConstant { op: "to_host".to_owned(), value: value.to_string() }
            }
            TraceStop::Error(error) => error,
        }
    }
}

impl From<bb_ir::Error> for TraceStop {
    fn from(error: bb_ir::Error) -> TraceStop {
        TraceStop::Error(error.into())
    }
}
