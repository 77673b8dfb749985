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
    #[error("`{engine}` cannot run node `{node}` ({op})", node = shown(.node), op = shown(operator(.unsupported)))]
    Refused {
        /// The engine.
        engine: &'static str,
        /// The node's name, or the name of its first result.
        node: Box<str>,
        /// The error of `bb` for an operator that a backend does not support. It determines the kind of the error.
        unsupported: Box<bb::Error>,
        /// The reason.
        #[source]
        source: Refusal,
    },

    /// The engine cannot run the model, its error names no node, and there is no other backend to run the model.
    #[error("`{engine}` cannot run the model")]
    RefusedModel {
        /// The engine.
        engine: &'static str,
        /// The error of `bb` for the model's first operator. It determines the kind of the error.
        unsupported: Box<bb::Error>,
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

/// Returns the operator of an error for an operator that a backend does not support.
fn operator(unsupported: &bb::Error) -> &str {
    match unsupported {
        bb::Error::UnsupportedOperator { op, .. } => op,
        _ => "",
    }
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
            EngineError::Refused { unsupported, source, .. }
            | EngineError::RefusedModel { unsupported, source, .. } => {
                (!source.is_fault()).then_some(&**unsupported)
            }
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

    /// An input or output is not known to be a tensor, and the engine accepts no other known type.
    #[error("value `{value}` is not known to be a tensor", value = shown(.value))]
    NotTensor {
        /// The value.
        value: String,
    },

    /// No opset that the engine supports defines the nodes in the same way as the model's opset.
    #[error(
        "no opset of `{domain}` up to {newest} has `{op}` and the model's other operators in the versions of the model",
        domain = shown(.domain), op = shown(.op)
    )]
    Opset {
        /// The domain, as in `ai.onnx`.
        domain: String,
        /// The operator of the newest version.
        op: String,
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

impl Refusal {
    /// Returns whether the engine or the model has a fault, so that the refusal does not mean that something is not supported.
    fn is_fault(&self) -> bool {
        match self {
            Refusal::Weight(_) => true,
            Refusal::Load(error) => error.is::<Panicked>() || error.is::<Fault>(),
            Refusal::Gap { .. }
            | Refusal::Type { .. }
            | Refusal::NotTensor { .. }
            | Refusal::Opset { .. } => false,
        }
    }
}

/// A fault of an engine that cannot load a model, although the model is supported.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Fault(pub BoxError);

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
