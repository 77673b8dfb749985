//! Why a command failed.

use std::path::PathBuf;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    #[error(transparent)]
    Bb(#[from] bb::Error),

    #[error(transparent)]
    Case(#[from] bb::conformance::onnx::Failure),

    #[error("cannot read `{}`", .path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },

    #[error("cannot write `{}`", .path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },

    #[error("`{}` holds no tensor", .path.display())]
    Tensor {
        path: PathBuf,
        #[source]
        source: bb_ir::BoxError,
    },

    #[error("`{text}` is not of the form {expected}")]
    Form { text: String, expected: &'static str },

    #[error("the model has no input `{name}`; its inputs are {expected}")]
    UnknownInput { name: String, expected: String },

    #[error("the model needs {needed}\ngive each with --input NAME=FILE, or all with --random SEED")]
    InputsNeeded { needed: String },

    #[error("`{name}`: --random makes tensors of numbers, not {ty}")]
    NotRandom { name: String, ty: String },

    #[error("`{}` holds no case: no folder below it has a model.onnx", .dir.display())]
    NoCases { dir: PathBuf },

    #[error("expected two backends, each by --backend NAME; got {got}")]
    TwoBackends { got: usize },

    #[error("the worker process could not be started or talked to")]
    Worker(#[source] std::io::Error),

    #[error("cannot print JSON")]
    Json(#[from] serde_json::Error),
}

pub(crate) type Result<T> = std::result::Result<T, Error>;

impl From<bb_ir::Error> for Error {
    fn from(error: bb_ir::Error) -> Error {
        Error::Bb(error.into())
    }
}
