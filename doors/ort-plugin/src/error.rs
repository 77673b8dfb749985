//! The errors of the plugin.

use bb::{BackendHandle, ErrorKind};
use bb_core::ir::text::shown;
use std::ffi::c_int;
use std::fmt::Display;

/// The options of the plugin itself.
pub(crate) const OPTIONS: &[&str] = &["backend", "host", "native_only", "report", "limits.NAME"];

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

    /// ONNX Runtime has registered the library already. It refuses a session with devices of two registrations.
    #[error("this library is already registered as `{name}`: use the devices of that registration, or unregister it first", name = shown(.name))]
    Registered {
        /// The name of the registration.
        name: String,
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

    /// An option has no name.
    #[error("an option of the session is called `{key}`; expected the name of an option after `{key}`")]
    Unnamed {
        /// The entry of the session's configuration.
        key: String,
    },

    /// Neither the plugin nor the backend has an option.
    #[error("the provider has no option `{option}`{}; it takes {}, and {backend}", perhaps(.nearest), own_options(), option = shown(.option))]
    UnknownOption {
        /// The name of the option.
        option: String,
        /// The most similar option of the plugin or of the backend.
        nearest: Option<String>,
        /// The list of the backend's options.
        backend: String,
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

    /// A claimed part cannot be compiled, or its run failed.
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

    /// A run gets no value for an input that is not optional.
    #[error("input `{name}` is missing: expected a tensor, got no value")]
    NoValue {
        /// The input.
        name: String,
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
            PluginError::Registered { .. }
            | PluginError::Option { .. }
            | PluginError::Unnamed { .. }
            | PluginError::UnknownOption { .. }
            | PluginError::Report { .. } => ErrorKind::Configuration,
            PluginError::NoValue { .. } => ErrorKind::WrongInput,
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

impl PluginError {
    /// Returns the error of a backend, with the kind that the backend reports for it.
    pub(crate) fn of(on: &BackendHandle, source: bb::Error) -> PluginError {
        PluginError::Run { kind: on.error_kind(&source), source }
    }
}

fn perhaps(nearest: &Option<String>) -> String {
    nearest.as_ref().map_or_else(String::new, |nearest| format!(" (did you mean `{nearest}`?)"))
}

fn own_options() -> String {
    quoted(OPTIONS)
}

/// Lists the options that a backend takes. `narrow_floats` comes last, and is absent if it cannot be set.
pub(crate) fn backend_takes(backend: &str, takes: &[String]) -> String {
    let names: Vec<&str> = takes.iter().map(String::as_str).collect();
    format!("the backend `{}` takes {}", shown(backend), bb_core::error::option_list(&names))
}

/// Lists names in backquotes.
pub(crate) fn quoted<S: Display>(names: &[S]) -> String {
    names.iter().map(|name| format!("`{}`", shown(name))).collect::<Vec<_>>().join(", ")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_option_lists_those_of_the_plugin_and_of_the_backend() {
        let error = PluginError::UnknownOption {
            option: "hosts".to_owned(),
            nearest: Some("host".to_owned()),
            backend: "the backend `chip` takes `tile`".to_owned(),
        };
        assert_eq!(
            error.to_string(),
            "the provider has no option `hosts` (did you mean `host`?); it takes `backend`, `host`, `native_only`, `report`, `limits.NAME`, and \
             the backend `chip` takes `tile`"
        );
        assert_eq!(error.code(), code::INVALID_ARGUMENT);
    }

    #[test]
    fn narrow_floats_is_listed_with_its_condition() {
        let takes = |names: &[&str]| {
            backend_takes("chip", &names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(takes(&[]), "the backend `chip` takes none");
        assert_eq!(takes(&["tile"]), "the backend `chip` takes `tile`");
        assert_eq!(
            takes(&["narrow_floats"]),
            "the backend `chip` takes only `narrow_floats`, if it lacks a float type"
        );
        assert_eq!(
            takes(&["tile", "broken", "narrow_floats"]),
            "the backend `chip` takes `tile`, `broken`, and `narrow_floats` if it lacks a float type"
        );
    }

    #[test]
    fn an_error_has_the_code_of_its_kind() {
        assert_eq!(PluginError::NoValue { name: "x".to_owned() }.code(), code::INVALID_ARGUMENT);
        let refused = bb::Error::OptionRefused {
            option: "level".to_owned(),
            got: "avx512".to_owned(),
            source: "the processor lacks it".into(),
        };
        assert_eq!(PluginError::from(refused).code(), code::INVALID_ARGUMENT);
        let source = bb::Error::layer("limit", "constant", ErrorKind::Limit, "too large");
        assert_eq!(PluginError::Run { kind: ErrorKind::Limit, source }.code(), code::FAIL);
    }
}
