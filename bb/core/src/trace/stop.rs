//! The reasons why tracing a function can stop early.

use super::steps::TraceValue;
use crate::Error;

/// The [`Tracer`](super::Tracer)'s error: why tracing a function stopped early.
///
/// A function that runs on the tracer returns it with `?` like any error. After [`Needs`](TraceStop::Needs) the
/// planner continues: it ends the segment before the node that needs the value, and begins the next segment after
/// reading the value.
#[derive(Debug, thiserror::Error)]
pub enum TraceStop {
    /// The function reads elements that are known only when the graph runs.
    #[error("`to_host` needs the value of `{0}`, which is not constant")]
    Needs(NeededValue),

    /// The function or one of its operations failed.
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

/// Converts the error for callers that cannot run a part of the graph to obtain a value.
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
