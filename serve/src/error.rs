//! Why a server does not start.

use bb_ir::graph::ValueType;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is nothing to serve.
    #[error("no model is given; expected at least one")]
    NoModel,

    /// Two models have the same name.
    #[error("two models are called `{name}`: `{}` and `{}`", .first.display(), .second.display())]
    RepeatedModel {
        /// The name.
        name: String,
        /// The file of the first.
        first: PathBuf,
        /// The file of the second.
        second: PathBuf,
    },

    /// A name cannot be part of a URL.
    #[error(
        "a model cannot be called `{name}`: expected letters, digits, `.`, `-` and `_`, and at most 255 of them"
    )]
    Name {
        /// The name.
        name: String,
    },

    /// A bound is zero.
    #[error("`{name}` is 0; expected at least 1")]
    Zero {
        /// The field of [`Config`](crate::Config).
        name: &'static str,
    },

    /// A request of the greatest size would never be accepted.
    #[error("requests of {request} bytes are allowed, but only {held} bytes for all requests together")]
    Bytes {
        /// [`Config::request_bytes`](crate::Config::request_bytes).
        request: usize,
        /// [`Config::held_bytes`](crate::Config::held_bytes).
        held: usize,
    },

    /// A backend is not linked or does not open.
    #[error("model `{model}` has no backend")]
    Backend {
        /// The name of the model.
        model: String,
        /// Why.
        #[source]
        source: Box<bb::Error>,
    },

    /// A file is no model, or exceeds a limit.
    #[error("model `{model}` cannot be loaded from `{}`", .path.display())]
    Load {
        /// The name of the model.
        model: String,
        /// Its file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<bb::Error>,
    },

    /// The backend does not compile a model.
    #[error("model `{model}` cannot be compiled for `{backend}`")]
    Compile {
        /// The name of the model.
        model: String,
        /// The name of the backend.
        backend: String,
        /// Why.
        #[source]
        source: Box<bb::Error>,
    },

    /// The protocol has no form for an input or an output.
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
        /// What the protocol lacks.
        fault: PortFault,
    },

    /// Requests for a model cannot be joined.
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
        /// What its first extent is.
        got: String,
    },

    /// An address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },

    /// The system starts no threads or does not hand over signals.
    #[error("the system does not give what the server needs: {what}")]
    System {
        /// What.
        what: &'static str,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// What the protocol lacks for a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PortFault {
    /// It is no tensor.
    Kind,
    /// Its elements are of a type without a name in the protocol.
    DataType,
    /// An input has no known rank.
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
