//! The errors of the plugin.

use bb::ErrorKind;
use std::ffi::c_int;

/// The reason why the plugin refuses a request of ONNX Runtime.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PluginError {
    /// The library is older than the interface for plugins that compile graphs.
    #[error("expected ONNX Runtime 1.{needed} or newer, got {found}")]
    Version {
        /// The minimum minor version.
        needed: u32,
        /// The version that the library reports.
        found: String,
    },

    /// A pointer is null although the interface does not allow it.
    #[error("{what} is a null pointer")]
    Null {
        /// The name of the argument.
        what: &'static str,
    },

    /// A function of ONNX Runtime failed.
    #[error("ONNX Runtime says: {message}")]
    Runtime {
        /// The message of ONNX Runtime.
        message: String,
    },

    /// An option has an invalid value.
    #[error("option `{option}`: expected {expected}, got `{got}`")]
    Option {
        /// The name of the option.
        option: String,
        /// The valid values.
        expected: &'static str,
        /// The value.
        got: String,
    },

    /// The report cannot be written.
    #[error("cannot write the report `{}`", .path.display())]
    Report {
        /// The file.
        path: std::path::PathBuf,
        /// The reason.
        #[source]
        source: std::io::Error,
    },

    /// A value is of a kind that cannot be passed between ONNX Runtime and a backend.
    #[error("expected a tensor, got a value of the type {number} of ONNX Runtime")]
    Kind {
        /// The number of the kind in ONNX Runtime's header.
        number: i32,
    },

    /// `bb` does not have the element type of a tensor.
    #[error("expected a tensor of an element type of `bb`, got the element type {number} of ONNX Runtime")]
    Element {
        /// The number of the element type in ONNX Runtime's header.
        number: i32,
    },

    /// The interface does not support the type of an attribute.
    #[error("attribute `{name}` of node `{node}` is of a type that ONNX Runtime does not pass on")]
    Attribute {
        /// The node.
        node: String,
        /// The attribute.
        name: String,
    },

    /// A string is not UTF-8.
    #[error("a text of the model is not UTF-8")]
    Text(#[from] std::str::Utf8Error),

    /// An error of the backend or of the graph.
    #[error(transparent)]
    Backend(#[from] bb::Error),

    /// A run of a claimed part failed.
    #[error("{source}")]
    Run {
        /// The kind of the error.
        kind: ErrorKind,
        /// The error.
        source: bb::Error,
    },

    /// The code of the plugin or the backend panicked.
    #[error("panicked: {message}")]
    Panicked {
        /// The message of the panic.
        message: String,
    },

    /// A claimed part does not receive a value that its nodes read.
    #[error("the claimed part gets no value `{name}`, which its nodes read")]
    Missing {
        /// The name of the value.
        name: String,
    },
}

/// The used codes of `OrtErrorCode`.
mod code {
    use std::ffi::c_int;

    pub(super) const FAIL: c_int = 1;
    pub(super) const INVALID_ARGUMENT: c_int = 2;
    pub(super) const INVALID_GRAPH: c_int = 10;
    pub(super) const EP_FAIL: c_int = 11;
}

impl PluginError {
    /// Returns ONNX Runtime's code for the error.
    ///
    /// After `EP_FAIL`, ONNX Runtime's Python package moves the session to another provider permanently. So this code is used only for
    /// failures that another provider may avoid (a failed backend or a missing operation), but not for mistakes of the program or the
    /// model.
    pub(crate) fn code(&self) -> c_int {
        let kind = match self {
            PluginError::Run { kind, .. } => *kind,
            PluginError::Backend(error) => error.kind(),
            PluginError::Option { .. } | PluginError::Report { .. } => ErrorKind::Configuration,
            PluginError::Version { .. }
            | PluginError::Null { .. }
            | PluginError::Runtime { .. }
            | PluginError::Kind { .. }
            | PluginError::Element { .. }
            | PluginError::Attribute { .. }
            | PluginError::Text(_)
            | PluginError::Panicked { .. }
            | PluginError::Missing { .. } => return code::EP_FAIL,
        };
        match kind {
            ErrorKind::WrongInput | ErrorKind::Configuration => code::INVALID_ARGUMENT,
            ErrorKind::InvalidModel => code::INVALID_GRAPH,
            ErrorKind::Limit | ErrorKind::Cancelled => code::FAIL,
            ErrorKind::Unsupported | ErrorKind::Device | ErrorKind::Internal => code::EP_FAIL,
        }
    }
}

impl From<bb::ir::Error> for PluginError {
    fn from(source: bb::ir::Error) -> PluginError {
        PluginError::Backend(source.into())
    }
}

/// Formats an error and its causes on one line.
pub(crate) fn line(error: &(dyn std::error::Error + 'static)) -> String {
    bb_core::error::causes(error)
}
