//! The errors of loading a library and of a loaded backend.

use bb_core::{Error, ErrorKind};
use bb_ir::text::sentence;
use std::path::PathBuf;

/// An error of loading or opening a library.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read the library `{}`", sentence(.path.display()))]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The system cannot load the file.
    #[error(
        "the system cannot load the library `{}`: compile it for this system, and link all libraries that it uses",
        sentence(.path.display())
    )]
    Open {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: libloading::Error,
    },
    /// The library does not export a backend of `bb`.
    #[error(
        "the library `{}` exports no `bb_backend_library`, so that it has no backend of bb; {}",
        sentence(.path.display()), instead(*.kind)
    )]
    NoBackend {
        /// The file.
        path: PathBuf,
        /// The kind of the library, if it is known.
        kind: Option<LibraryKind>,
        /// The error of the system.
        #[source]
        source: libloading::Error,
    },
    /// A part of the library's description differs from what this version expects.
    #[error("the library `{}` has a wrong {what}: expected {expected}, got {got}", sentence(.path.display()), got = sentence(.got))]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// The name of the part that differs.
        what: &'static str,
        /// The value that this version expects.
        expected: String,
        /// The value in the library.
        got: String,
    },
    /// The library lacks functions that every backend must have.
    #[error("the library `{}` lacks {}: write it, and name it in `bb_backend_library`", sentence(.path.display()), sentence(.missing.join(", ")))]
    Lacks {
        /// The file.
        path: PathBuf,
        /// The names of the functions.
        missing: Vec<String>,
    },
    /// The library has no option of this name.
    #[error("the backend `{backend}` of the library `{}` has no option `{option}`; {}", sentence(.path.display()), options(.takes), backend = sentence(.backend), option = sentence(.option))]
    Option {
        /// The file.
        path: PathBuf,
        /// The name of the backend.
        backend: String,
        /// The name of the option.
        option: String,
        /// The names of the options that the backend has.
        takes: Vec<String>,
    },
    /// A function of the library failed.
    #[error("`{function}` of the library `{}` failed: {message}", sentence(.path.display()), message = sentence(.message))]
    Failed {
        /// The file.
        path: PathBuf,
        /// The function.
        function: &'static str,
        /// The kind of the error, which determines how a caller can react.
        kind: ErrorKind,
        /// The message of the library.
        message: String,
    },
    /// Another library has registered a backend of the same name.
    #[error(
        "the backend `{name}` of the library `{}` cannot be registered, because the library `{}` has registered a backend of this name: \
         load only one of them, or give one of the backends another name",
        sentence(.path.display()), sentence(.holder.display()), name = sentence(.name)
    )]
    NameTaken {
        /// The file.
        path: PathBuf,
        /// The name of the backend.
        name: String,
        /// The file of the library that has the name.
        holder: PathBuf,
    },
    /// The backend cannot be registered under its name.
    #[error("the backend of the library `{}` cannot be registered", sentence(.path.display()))]
    Register {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Box<Error>,
    },
}

/// A library without a backend that `bb` recognizes by a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LibraryKind {
    /// The library of `bb` for programs in C.
    Host,
    /// A provider of ONNX Runtime.
    Provider,
    /// ONNX Runtime, or the library of `bb` that replaces it.
    OnnxRuntime,
}

/// Returns the advice for a library without a backend.
fn instead(kind: Option<LibraryKind>) -> &'static str {
    match kind {
        None => "in C, write `BB_EXPORT const bb_library bb_backend_library = {…};`",
        Some(LibraryKind::Host) => {
            "it is bb's own library for programs in C, which they link; expected the library of a backend"
        }
        Some(LibraryKind::Provider) => {
            "it is a provider of ONNX Runtime, which `bb conformance --library` tests; expected the library of a backend"
        }
        Some(LibraryKind::OnnxRuntime) => {
            "it is a library of ONNX Runtime; expected the library of a backend"
        }
    }
}

/// Lists the options of a backend.
fn options(takes: &[String]) -> String {
    match takes {
        [] => "it has none".to_owned(),
        _ => format!("its options are: {}", sentence(takes.join(", "))),
    }
}

impl LoadError {
    /// Returns the kind of the error, which determines how a caller can react.
    pub fn kind(&self) -> ErrorKind {
        match self {
            LoadError::Read { .. }
            | LoadError::Open { .. }
            | LoadError::NoBackend { .. }
            | LoadError::Mismatch { .. }
            | LoadError::Lacks { .. }
            | LoadError::NameTaken { .. }
            | LoadError::Option { .. } => ErrorKind::Configuration,
            LoadError::Failed { kind, .. } => *kind,
            LoadError::Register { source, .. } => source.kind(),
        }
    }
}

/// An error of a loaded backend.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadedError {
    /// An error that `bb` detects in a call, a violation of the interface ([`Error::BrokenPromise`]), or an error that the backend reports
    /// ([`Error::Loaded`]).
    #[error(transparent)]
    Bb(#[from] Error),
    /// The code of the backend panicked. The library caught the panic.
    #[error("backend `{backend}` panicked in `{op}`: {message}", message = sentence(.message))]
    Panicked {
        /// The name of the backend.
        backend: &'static str,
        /// The operation.
        op: &'static str,
        /// The message of the panic.
        message: String,
    },
}

impl From<bb_ir::Error> for LoadedError {
    fn from(error: bb_ir::Error) -> LoadedError {
        LoadedError::Bb(error.into())
    }
}
