//! Errors that prevent a server from starting.

use bb_ir::graph::ValueType;
use std::net::SocketAddr;
use std::path::PathBuf;

/// An error that prevents a server from starting.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration names no model.
    #[error("no model is given; expected at least one")]
    NoModel,

    /// Two models have the same name.
    #[error("two models are called `{name}`: `{}` and `{}`", .first.display(), .second.display())]
    RepeatedModel {
        /// The name.
        name: String,
        /// The file of the first model.
        first: PathBuf,
        /// The file of the second model.
        second: PathBuf,
    },

    /// A name cannot be part of a URL.
    #[error(
        "a model cannot be called `{name}`: expected letters, digits, `.`, `-` and `_`, at most 255 of them, and not `.` or `..`"
    )]
    Name {
        /// The name.
        name: String,
    },

    /// The folder of models cannot be opened.
    #[error("the repository `{}` cannot be opened", .path.display())]
    Repository {
        /// The folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },

    /// A model is configured to be loaded from the repository, but there is no repository.
    #[error("model `{name}` is to be loaded from the repository, but there is no repository")]
    NoRepository {
        /// The name of the model.
        name: String,
    },

    /// The repository has no model of this name.
    #[error("the repository has no model `{name}`; expected a folder of this name, or `{name}.onnx`")]
    NoSuchModel {
        /// The name of the model.
        name: String,
    },

    /// A folder contains no model file.
    #[error(
        "`{}` has no file of model `{model}`; expected `model.onnx` or `model.bb`, in it or in a folder of it whose name is the \
         number of a version", .path.display()
    )]
    NoVersion {
        /// The name of the model.
        model: String,
        /// Its folder.
        path: PathBuf,
    },

    /// The folder of a model cannot be read.
    #[error("`{}` of model `{model}` cannot be read", .path.display())]
    Folder {
        /// The name of the model.
        model: String,
        /// Its folder, or a file in it.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },

    /// A file of a model is outside of the repository.
    #[error("`{}` of model `{model}` leads out of the repository", .path.display())]
    Outside {
        /// The name of the model.
        model: String,
        /// The file.
        path: PathBuf,
    },

    /// A language model cannot be opened.
    #[cfg(feature = "generate")]
    #[error("language model `{model}` cannot be opened from `{}`", .path.display())]
    Language {
        /// The name of the model.
        model: String,
        /// Its file or folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Box<bb_generate::Error>,
    },

    /// The file is a language model, but the program was built without the feature `generate`.
    #[error(
        "`{}` of model `{model}` is a language model, which a program serves that was built with the feature `generate`", .path.display()
    )]
    NoLanguages {
        /// The name of the model.
        model: String,
        /// Its file.
        path: PathBuf,
    },

    /// The labels of a model cannot be read.
    #[error("the labels of model `{model}` cannot be read from `{}`", .path.display())]
    Labels {
        /// The name of the model.
        model: String,
        /// The file of the labels.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },

    /// A limit of the configuration is larger than the server allows.
    #[error("`{name}` is {got}; expected at most {most}")]
    TooMany {
        /// The field of [`Config`](crate::Config).
        name: &'static str,
        /// The value.
        got: usize,
        /// The maximum allowed value.
        most: usize,
    },

    /// The token is empty, too long, or contains characters that a header cannot have.
    #[error("the token is empty, longer than 4096 characters, or has others than visible ASCII")]
    Token,

    /// The certificate or its key cannot be used.
    #[error("connections cannot be encrypted with `{}`", .path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: bb_ir::BoxError,
    },

    /// The program was built without encryption.
    #[error("connections cannot be encrypted, because the program was built without the feature `tls`")]
    NoTls,

    /// A limit of the configuration is zero.
    #[error("`{name}` is 0; expected at least 1")]
    Zero {
        /// The field of [`Config`](crate::Config).
        name: &'static str,
    },

    /// A single request may be larger than all requests together, so it would never be accepted.
    #[error("requests of {request} bytes are allowed, but only {held} bytes for all requests together")]
    Bytes {
        /// [`Config::request_bytes`](crate::Config::request_bytes).
        request: usize,
        /// [`Config::held_bytes`](crate::Config::held_bytes).
        held: usize,
    },

    /// A backend is not linked or cannot be opened.
    #[error("model `{model}` has no backend")]
    Backend {
        /// The name of the model.
        model: String,
        /// The cause.
        #[source]
        source: Box<bb::Error>,
    },

    /// A file is not a model, or exceeds a limit.
    #[error("model `{model}` cannot be loaded from `{}`", .path.display())]
    Load {
        /// The name of the model.
        model: String,
        /// Its file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Box<bb::Error>,
    },

    /// The backend cannot compile a model.
    #[error("model `{model}` cannot be compiled for `{backend}`")]
    Compile {
        /// The name of the model.
        model: String,
        /// The name of the backend.
        backend: String,
        /// The cause.
        #[source]
        source: Box<bb::Error>,
    },

    /// The protocol cannot represent an input or an output of a model.
    #[error("model `{model}` cannot be served: its {side} `{port}` is {ty}, and {fault}")]
    Port {
        /// The name of the model.
        model: String,
        /// `input` or `output`.
        side: &'static str,
        /// The name of the port.
        port: String,
        /// Its type.
        ty: Box<ValueType>,
        /// The reason why the port does not fit the protocol.
        fault: PortFault,
    },

    /// The requests of a model cannot be joined into batches.
    #[error(
        "requests for model `{model}` cannot be joined to batches: the first extent of its {side} `{port}` is {got}, \
         expected the same open extent as of the first input; serve it without batches"
    )]
    NotBatched {
        /// The name of the model.
        model: String,
        /// `input` or `output`.
        side: &'static str,
        /// The name of the port.
        port: String,
        /// Its first extent.
        got: String,
    },

    /// The server cannot listen on an address.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: std::io::Error,
    },

    /// The system does not start threads or does not deliver signals.
    #[error("the system does not give what the server needs: {what}")]
    System {
        /// The missing resource.
        what: &'static str,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}

/// The reason why the protocol cannot represent a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PortFault {
    /// The port is not a tensor.
    Kind,
    /// The protocol has no name for the element type.
    DataType,
    /// The rank of an input is unknown.
    Rank,
}

impl std::fmt::Display for PortFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            PortFault::Kind => "the protocol has only tensors",
            PortFault::DataType => "the protocol has no such element type",
            PortFault::Rank => "the protocol describes inputs by their extents, whose number must be known",
        })
    }
}
