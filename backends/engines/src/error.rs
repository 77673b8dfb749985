//! Errors of backends that wrap an engine.

use crate::Reason;
use bb::{BackendHandle, BoxError, DataType, FirstOfError};
use bb_ir::text::shown;

/// An error of loading or running a graph.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The graph is not valid, or a part that runs outside the engine failed.
    #[error(transparent)]
    Graph(#[from] bb::Error),

    /// The engine cannot run a node, and there is no other backend to run it.
    #[error("`{engine}` cannot run node `{node}` ({op})", node = shown(.node), op = shown(.op))]
    Refused {
        /// The engine.
        engine: &'static str,
        /// The node's name, or the name of its first result.
        node: String,
        /// The node's operator.
        op: String,
        /// The reason.
        #[source]
        source: Refusal,
    },

    /// The engine returned a wrong number of results.
    #[error("expected {expected} results from `{engine}`, got {got}")]
    Results {
        /// The engine.
        engine: &'static str,
        /// The number of outputs of the model.
        expected: usize,
        /// The number of results.
        got: usize,
    },

    /// An internal invariant of this crate is violated.
    #[error("expected {expected}")]
    State {
        /// The state that was expected.
        expected: &'static str,
    },

    /// The combination of the engine and another backend failed.
    #[error(transparent)]
    Several(FirstOfError),

    /// The engine failed while it ran.
    #[error("`{engine}` failed")]
    Run {
        /// The engine.
        engine: &'static str,
        /// The engine's own error.
        #[source]
        source: BoxError,
    },

    /// The engine's library cannot be used.
    #[error("`{engine}` cannot be opened")]
    Open {
        /// The engine.
        engine: &'static str,
        /// The reason.
        #[source]
        source: BoxError,
    },
}

impl EngineError {
    /// Wraps the error of a backend.
    pub(crate) fn of(error: bb::Error, on: &BackendHandle) -> EngineError {
        EngineError::Several(FirstOfError::of(on, error))
    }

    /// Returns the wrapped error of `bb`, if there is one.
    pub fn wrapped(&self) -> Option<&bb::Error> {
        match self {
            EngineError::Graph(error) => Some(error),
            EngineError::Several(error) => Some(error.cause()),
            _ => None,
        }
    }
}

/// The reason why an engine does not run a node.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The engine's table of gaps lists the call.
    #[error("{reason}, as `{case}` shows")]
    Gap {
        /// The reason in the table.
        reason: Reason,
        /// The test case that shows the gap.
        case: &'static str,
    },

    /// A value has an element type that the engine does not support.
    #[error("value `{value}` is of element type {dtype}, which the engine does not have", value = shown(.value))]
    Type {
        /// The value.
        value: String,
        /// Its element type.
        dtype: DataType,
    },

    /// An input or output is not known to be a tensor.
    #[error("value `{value}` is not known to be a tensor", value = shown(.value))]
    NotTensor {
        /// The value.
        value: String,
    },

    /// No opset that the engine supports defines the nodes in the same way as the model's opset.
    #[error("no opset of `{domain}` up to {newest} has the nodes as the model means them", domain = shown(.domain))]
    Opset {
        /// The domain.
        domain: String,
        /// The newest opset that the engine supports.
        newest: i64,
    },

    /// A weight is damaged or cannot be read.
    #[error("a weight cannot be read")]
    Weight(#[source] Box<bb_ir::Error>),

    /// The engine refused to load the node.
    #[error("the engine does not load it")]
    Load(#[source] BoxError),
}

/// The engine panicked.
#[derive(Debug, thiserror::Error)]
#[error("the engine panicked: {0}")]
pub(crate) struct Panicked(String);

/// Calls into an engine, and converts a panic to an error.
pub(crate) fn contained<R>(call: impl FnOnce() -> Result<R, BoxError>) -> Result<R, BoxError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(Panicked(text.unwrap_or_else(|| "no message".to_owned())).into())
    })
}
