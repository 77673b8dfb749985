//! The errors of calls, and their ONNX Runtime codes.

use bb::{DataType, ErrorKind};
use std::ffi::c_int;

/// `OrtErrorCode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Code {
    Fail = 1,
    InvalidArgument = 2,
    NoSuchFile = 3,
    RuntimeException = 6,
    InvalidProtobuf = 7,
    NotImplemented = 9,
    InvalidGraph = 10,
    ModelLoadCanceled = 12,
}

/// The reason why the library refuses a call.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// A pointer is null although the header does not allow it.
    #[error("expected {what}, got null")]
    Null {
        /// The name of the argument.
        what: &'static str,
    },

    /// A string is not UTF-8.
    #[error("expected {what} in UTF-8, got other bytes")]
    Utf8 {
        /// The name of the argument.
        what: &'static str,
    },

    /// The library does not implement a function.
    #[error("`{function}` is not implemented: this is bb, in the place of ONNX Runtime")]
    Absent {
        /// The function.
        function: &'static str,
    },

    /// The library does not implement a part of a function.
    #[error("{what} is not implemented: this is bb, in the place of ONNX Runtime")]
    Unsupported {
        /// The part.
        what: &'static str,
    },

    /// A program selects an execution provider that does not exist.
    #[error(
        "there is no execution provider `{name}`; expected `CPUExecutionProvider`; `bb.backend` names a backend of bb"
    )]
    Provider {
        /// The provider.
        name: String,
    },

    /// A number does not identify an element type.
    #[error("there is no element type {number} in ONNX Runtime")]
    Element {
        /// The number.
        number: c_int,
    },

    /// ONNX Runtime has no number for the element type.
    #[error("ONNX Runtime has no element type {dtype}")]
    NoNumber {
        /// The type.
        dtype: DataType,
    },

    /// An extent is negative.
    #[error("extent {extent} is negative")]
    Extent {
        /// The extent.
        extent: i64,
    },

    /// A number is not in the range of an argument.
    #[error("expected {expected}, got {got}")]
    Number {
        /// The name of the expected argument.
        expected: &'static str,
        /// The number that was passed.
        got: i64,
    },

    /// A buffer of the program is too small.
    #[error("{what} needs {needed} bytes, got {got}")]
    Room {
        /// The contents of the memory.
        what: &'static str,
        /// The required size in bytes.
        needed: usize,
        /// The size of the buffer in bytes.
        got: usize,
    },

    /// A list has a wrong length.
    #[error("expected {expected} {what}, got {got}")]
    Count {
        /// The items of the list.
        what: &'static str,
        /// The expected length.
        expected: usize,
        /// The actual length.
        got: usize,
    },

    /// An index is out of range.
    #[error("index {index} is out of range for {count} {what}")]
    Index {
        /// The counted items.
        what: &'static str,
        /// The index.
        index: usize,
        /// The number of items.
        count: usize,
    },

    /// A value is of a wrong kind.
    #[error("expected {expected}, got {got}")]
    Kind {
        /// The expected kind.
        expected: &'static str,
        /// The actual kind.
        got: &'static str,
    },

    /// The memory is on a device.
    #[error("the memory `{name}` is not the host's, where bb reads and writes")]
    Device {
        /// The name of the memory.
        name: String,
    },

    /// An allocator returned no memory.
    #[error("no memory for {bytes} bytes")]
    Memory {
        /// The requested number of bytes.
        bytes: usize,
    },

    /// A model has no output with this name.
    #[error("the model has no output `{name}`; its outputs are {known:?}")]
    UnknownOutput {
        /// The name.
        name: String,
        /// The names of the model's outputs.
        known: Vec<String>,
    },

    /// A result does not fit the value that the program passed for it.
    #[error("output `{name}` is {result}; the value for it is {given}")]
    Output {
        /// The output.
        name: String,
        /// The type of the result.
        result: String,
        /// The type of the value.
        given: String,
    },

    /// A setting has an invalid value.
    #[error("`{setting}`: expected {expected}, got `{got}`")]
    Setting {
        /// The setting.
        setting: String,
        /// The valid values.
        expected: &'static str,
        /// The value.
        got: String,
    },

    /// A tensor or a setting of the program is not valid for the model.
    #[error(transparent)]
    Argument(#[from] bb::ir::Error),

    /// The system cannot create a thread for a run.
    #[error("there is no thread for the run")]
    Thread(#[source] std::io::Error),

    /// A model cannot be loaded.
    #[error(transparent)]
    Load(bb::Error),

    /// Loading was stopped.
    #[error("loading the model was stopped")]
    LoadStopped,

    /// A run failed.
    #[error("{source}")]
    Run {
        /// The kind of the error, as the backend reports it.
        kind: ErrorKind,
        /// The error.
        source: bb::Error,
    },

    /// A library of `BB_BACKEND_PATH` cannot be loaded.
    #[error("{message}")]
    Libraries {
        /// The error and its causes.
        message: String,
    },

    /// The code of the library or of a backend panicked.
    #[error("panicked: {message}")]
    Panicked {
        /// The message of the panic.
        message: String,
    },
}

impl CallError {
    /// Returns the ONNX Runtime code of the error.
    pub(crate) fn code(&self) -> Code {
        match self {
            CallError::Null { .. }
            | CallError::Utf8 { .. }
            | CallError::Provider { .. }
            | CallError::Element { .. }
            | CallError::Extent { .. }
            | CallError::Number { .. }
            | CallError::Room { .. }
            | CallError::Count { .. }
            | CallError::Index { .. }
            | CallError::Kind { .. }
            | CallError::Device { .. }
            | CallError::UnknownOutput { .. }
            | CallError::Output { .. }
            | CallError::Argument(_)
            | CallError::Setting { .. } => Code::InvalidArgument,
            CallError::Absent { .. } | CallError::Unsupported { .. } | CallError::NoNumber { .. } => {
                Code::NotImplemented
            }
            CallError::Memory { .. } | CallError::Libraries { .. } | CallError::Thread(_) => Code::Fail,
            CallError::LoadStopped => Code::ModelLoadCanceled,
            CallError::Panicked { .. } => Code::RuntimeException,
            CallError::Load(error) => of_load(error),
            CallError::Run { kind, .. } => of_kind(*kind),
        }
    }
}

/// Returns the code of a loading error. A missing file and invalid protobuf bytes have codes of their own.
fn of_load(error: &bb::Error) -> Code {
    // `bb::Error::Ir` is transparent: its source skips the inner error, so the search starts there.
    let mut cause: Option<&(dyn std::error::Error + 'static)> = match error {
        bb::Error::Ir(error) => Some(error),
        other => Some(other),
    };
    while let Some(error) = cause {
        // Errors of loading a file contain the inner error in a box.
        let boxed = || error.downcast_ref::<Box<bb::ir::Error>>().map(|error| &**error);
        if let Some(error) = error.downcast_ref::<bb::ir::Error>().or_else(boxed) {
            match error {
                bb::ir::Error::NoFile { .. } | bb::ir::Error::NotFile { .. } => return Code::NoSuchFile,
                bb::ir::Error::Decode { .. } | bb::ir::Error::Format { .. } => return Code::InvalidProtobuf,
                _ => {}
            }
        }
        cause = error.source();
    }
    of_kind(error.kind())
}

fn of_kind(kind: ErrorKind) -> Code {
    match kind {
        ErrorKind::InvalidModel => Code::InvalidGraph,
        ErrorKind::WrongInput | ErrorKind::Configuration => Code::InvalidArgument,
        ErrorKind::Unsupported => Code::NotImplemented,
        ErrorKind::Limit | ErrorKind::Cancelled => Code::Fail,
        _ => Code::RuntimeException,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// Tests bytes in memory and in a file.
    #[test]
    fn bytes_that_are_no_model_have_a_code_of_their_own() {
        let path = std::env::temp_dir().join(format!("no-model-{}.onnx", std::process::id()));
        for bytes in [&b"no model at all, but text"[..], &[0x1f, 0x8b, 8, 0, 1, 2, 3]] {
            std::fs::write(&path, bytes).unwrap();
            for error in [bb::Module::load(&path).unwrap_err(), bb::Module::from_bytes(bytes).unwrap_err()] {
                assert!(matches!(of_load(&error), Code::InvalidProtobuf), "{error:?}");
            }
        }
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(of_load(&bb::Module::load(&path).unwrap_err()), Code::NoSuchFile));
    }
}
