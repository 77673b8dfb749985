//! The reasons why a request gets an error instead of an answer.

mod text;

use crate::datatype;
use bb::DataType;

/// Shortens a string from a client for an error message, and puts it on one line.
pub(crate) fn shown(text: &str) -> String {
    bb_ir::text::shown(text).to_string()
}

/// The reason why a request gets an error instead of an answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the server has no model `{name}`; its models are {known}")]
    UnknownModel { name: String, known: String },

    #[error("model `{model}` has {known}, got `{version}`")]
    UnknownVersion { model: String, version: String, known: String },

    #[error("there is nothing at `{path}`")]
    UnknownPath { path: String },

    #[error("`{path}` does not take {method}; expected {expected}")]
    Method { path: String, method: String, expected: &'static str },

    #[error("the request body is no inference request")]
    Json(#[source] serde_json::Error),

    #[error("the gRPC message has {got} {what}; expected at most {limit}")]
    Parts { what: &'static str, got: usize, limit: usize },

    #[error("the gRPC message is compressed, but `grpc-encoding` names no coding")]
    Packing,

    #[error("the gRPC message cannot be decoded")]
    Protobuf(#[source] Option<prost::DecodeError>),

    #[error("header `{name}` is `{value}`; expected {expected}")]
    Header { name: &'static str, value: String, expected: &'static str },

    #[error("the JSON part of the body ends at byte {length}, but the body has only {body} bytes")]
    JsonLength { length: usize, body: usize },

    #[error("the content encoding `{encoding}` is not supported; expected gzip, deflate or none")]
    Encoding { encoding: String },

    #[error("the request has more than {limit} bytes")]
    TooLarge { limit: usize },

    #[error("the request body ended early")]
    Body,

    #[error("the body is not {coding}, as its encoding says")]
    Packed {
        coding: &'static str,
        #[source]
        source: std::io::Error,
    },

    #[error("{what} is in shared memory, which this server does not have; send its elements in the request")]
    SharedMemory { what: String },

    #[error("this server has no {what}")]
    Absent { what: &'static str },

    #[error(
        "the request has not the token of this server; expected the header `authorization: Bearer TOKEN`"
    )]
    NoToken,

    #[error(
        "the request is for the host `{host}`, expected a name or an address of this machine; `--allow-host {host}` allows it"
    )]
    Host { host: String },

    #[error(
        "the request comes from a page of a browser, `{origin}`; `--allow-host NAME` allows the pages of a host, and `--token-file` those \
         that have the token"
    )]
    Page { origin: String },

    #[error("browsers cannot send requests as `{kind}`, expected `application/json`")]
    Form { kind: String },

    #[error("this server loads and unloads no models on request; it was started without a repository")]
    NoRepository,

    #[error("the repository has no model `{name}`")]
    NotInRepository { name: String },

    #[error("model `{name}` was named when the server started, and can neither be loaded again nor unloaded")]
    Stays { name: String },

    #[error(
        "loading a model takes no parameter `{name}`; models and their configuration come from the repository alone"
    )]
    LoadParameter { name: String },

    #[error("the model cannot be loaded")]
    NotLoaded {
        #[source]
        source: Box<crate::error::Error>,
    },

    #[error("another model is being loaded; try again later")]
    OtherLoads,

    #[error("more than {limit} models that were replaced or unloaded still answer requests; try again later")]
    ModelsLeave { limit: usize },

    #[error(
        "loading model `{model}` takes longer than a request may, and goes on; the index of models tells when it is ready"
    )]
    StillLoads { model: String },

    #[error("model `{model}` was replaced or unloaded; try again")]
    Replaced { model: String },

    #[error("output `{output}` has elements of {got}, which are no values of classes")]
    NotClassified { output: String, got: DataType },

    #[error("output `{output}` cannot be answered as classes")]
    Classes {
        output: String,
        #[source]
        source: bb_ir::Error,
    },

    #[error("parameter `{name}` of {what}: expected {expected}")]
    ParameterValue { what: String, name: String, expected: &'static str },

    #[error("model `{model}` has no input `{name}`; its inputs are {known}")]
    UnknownInput { model: String, name: String, known: String },

    #[error("input `{name}` is given twice")]
    RepeatedInput { name: String },

    #[error("model `{model}` needs the input `{name}`, {datatype} with the extents {shape}")]
    MissingInput { model: String, name: String, datatype: &'static str, shape: String },

    #[error("model `{model}` has no output `{name}`; its outputs are {known}")]
    UnknownOutput { model: String, name: String, known: String },

    #[error("output `{name}` is asked for twice")]
    RepeatedOutput { name: String },

    #[error("input `{name}` has elements of {expected}, got `{got}`")]
    DataType { name: String, expected: &'static str, got: String },

    #[error("input `{name}` has the extents {expected}, got {got:?}")]
    Shape { name: String, expected: String, got: Vec<i64> },

    #[error("input `{name}`: the extent `{symbol}` is {got}, but {first} in input `{other}`")]
    Symbol { name: String, symbol: String, other: String, first: usize, got: usize },

    #[error("input `{name}` has the extents {shape:?}, which are {expected} elements; got {got}")]
    Count { name: String, shape: Vec<usize>, expected: usize, got: String },

    #[error("input `{name}` has the extents {shape:?} of {datatype}, which are {expected} bytes; got {got}")]
    ByteCount { name: String, shape: Vec<usize>, datatype: &'static str, expected: usize, got: usize },

    #[error("input `{name}` has data that is not {expected}")]
    Elements {
        name: String,
        expected: String,
        #[source]
        source: Option<serde_json::Error>,
    },

    #[error("input `{name}`: text {index} is cut off, or its length is false")]
    TextLength { name: String, index: usize },

    #[error("input `{name}` has elements that a tensor cannot hold")]
    Tensor {
        name: String,
        #[source]
        source: bb_ir::Error,
    },

    #[error("input `{name}` has no data; expected {expected}")]
    NoData { name: String, expected: &'static str },

    #[error("input `{name}` has data twice: {ways}")]
    TwoData { name: String, ways: &'static str },

    #[error("the binary part of the body has {got} bytes, but the inputs have {expected}")]
    BinaryLength { expected: usize, got: usize },

    #[error("{got} inputs are raw, of {expected}; expected all or none")]
    RawCount { expected: usize, got: usize },

    #[error("output `{name}` has the element {index}, {value}, which JSON cannot hold; ask for binary data")]
    NotJson { name: String, index: usize, value: f64 },

    #[error("{} requests wait for model `{model}`, which is the limit; try again later", .limit)]
    QueueFull { model: String, limit: usize },

    #[error("requests and answers hold {held} bytes of {limit}; try again later")]
    NoRoom { held: usize, limit: usize },

    #[error("the server has as many connections as it may; try again later")]
    Connections,

    #[error("the call has {got} messages; expected exactly one")]
    Messages { got: &'static str },

    #[error("the request took longer than it may")]
    Deadline,

    #[error("the client went away")]
    Cancelled,

    #[error("the server is shutting down")]
    ShuttingDown,

    #[error("the inputs do not fit model `{model}`")]
    Inputs {
        model: String,
        #[source]
        source: Box<bb::Error>,
    },

    #[error("backend `{backend}` lacks what model `{model}` needs for these inputs")]
    Unsupported {
        model: String,
        backend: String,
        #[source]
        source: Box<bb::Error>,
    },

    #[error("model `{model}` failed")]
    Failed {
        model: String,
        #[source]
        source: Box<bb::Error>,
    },

    #[error("model `{model}` gave the output `{name}` as {got}, which the protocol has no form for")]
    Output { model: String, name: String, got: DataType },

    #[cfg(feature = "generate")]
    #[error("the server has no language model `{name}`; its language models are {known}")]
    UnknownLanguage { name: String, known: String },

    #[cfg(feature = "generate")]
    #[error("`{name}` is not served as it is; expected {expected}")]
    Field { name: &'static str, expected: &'static str },

    #[cfg(feature = "generate")]
    #[error("model `{model}` does not take the request")]
    Prompt {
        model: String,
        #[source]
        source: Box<bb_generate::Error>,
    },

    #[cfg(feature = "generate")]
    #[error("model `{model}` failed")]
    Generation {
        model: String,
        #[source]
        source: std::sync::Arc<bb_generate::Error>,
    },

    #[error("the program has a mistake: {what}")]
    Internal { what: &'static str },
}

/// The kind of a refusal. Each protocol maps it to a status code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalKind {
    Invalid,
    NotFound,
    Method,
    TooLarge,
    Encoding,
    /// The client lacks the permission for the request.
    Forbidden,
    NoToken,
    /// The server does not offer the feature to any client.
    Absent,
    /// The backend of the model does not support the inputs.
    Unsupported,
    Busy,
    Deadline,
    Cancelled,
    Unavailable,
    Failed,
}

impl Refusal {
    pub(crate) fn kind(&self) -> RefusalKind {
        match self {
            Refusal::UnknownModel { .. }
            | Refusal::UnknownVersion { .. }
            | Refusal::UnknownPath { .. }
            | Refusal::NotInRepository { .. } => RefusalKind::NotFound,
            #[cfg(feature = "generate")]
            Refusal::UnknownLanguage { .. } => RefusalKind::NotFound,
            #[cfg(feature = "generate")]
            Refusal::Field { .. } | Refusal::Prompt { .. } => RefusalKind::Invalid,
            #[cfg(feature = "generate")]
            Refusal::Generation { source, .. } if is_of_request(source) => RefusalKind::Invalid,
            #[cfg(feature = "generate")]
            Refusal::Generation { .. } => RefusalKind::Failed,
            Refusal::NoToken => RefusalKind::NoToken,
            Refusal::Absent { .. } => RefusalKind::Absent,
            Refusal::Unsupported { .. } => RefusalKind::Unsupported,
            Refusal::NoRepository
            | Refusal::Stays { .. }
            | Refusal::Host { .. }
            | Refusal::Page { .. }
            | Refusal::Form { .. } => RefusalKind::Forbidden,
            Refusal::Method { .. } | Refusal::Messages { .. } => RefusalKind::Method,
            Refusal::TooLarge { .. } => RefusalKind::TooLarge,
            Refusal::Encoding { .. } => RefusalKind::Encoding,
            Refusal::QueueFull { .. }
            | Refusal::NoRoom { .. }
            | Refusal::OtherLoads
            | Refusal::ModelsLeave { .. } => RefusalKind::Busy,
            Refusal::Deadline | Refusal::StillLoads { .. } => RefusalKind::Deadline,
            Refusal::Cancelled => RefusalKind::Cancelled,
            Refusal::ShuttingDown | Refusal::Connections | Refusal::Replaced { .. } => {
                RefusalKind::Unavailable
            }
            Refusal::Failed { .. } | Refusal::Output { .. } | Refusal::Internal { .. } => RefusalKind::Failed,
            Refusal::Json(_)
            | Refusal::Parts { .. }
            | Refusal::Packing
            | Refusal::Protobuf(_)
            | Refusal::Header { .. }
            | Refusal::JsonLength { .. }
            | Refusal::Body
            | Refusal::Packed { .. }
            | Refusal::SharedMemory { .. }
            | Refusal::LoadParameter { .. }
            | Refusal::NotLoaded { .. }
            | Refusal::NotClassified { .. }
            | Refusal::Classes { .. }
            | Refusal::ParameterValue { .. }
            | Refusal::UnknownInput { .. }
            | Refusal::RepeatedInput { .. }
            | Refusal::MissingInput { .. }
            | Refusal::UnknownOutput { .. }
            | Refusal::RepeatedOutput { .. }
            | Refusal::DataType { .. }
            | Refusal::Shape { .. }
            | Refusal::Symbol { .. }
            | Refusal::Count { .. }
            | Refusal::ByteCount { .. }
            | Refusal::Elements { .. }
            | Refusal::TextLength { .. }
            | Refusal::Tensor { .. }
            | Refusal::NoData { .. }
            | Refusal::TwoData { .. }
            | Refusal::BinaryLength { .. }
            | Refusal::RawCount { .. }
            | Refusal::NotJson { .. }
            | Refusal::Inputs { .. } => RefusalKind::Invalid,
        }
    }

    pub(crate) fn elements(name: &str, dtype: DataType, source: Option<serde_json::Error>) -> Refusal {
        let datatype = datatype::name(dtype).unwrap_or_else(|| dtype.name());
        Refusal::Elements { name: name.to_owned(), expected: format!("a list of {datatype}"), source }
    }
}

/// Returns whether an error is caused by the request, so that other requests would not fail with it.
#[cfg(feature = "generate")]
pub(crate) fn is_of_request(error: &bb_generate::Error) -> bool {
    use bb_generate::Error;
    match error {
        Error::Tokenizer { .. } | Error::Vocabulary { .. } => true,
        Error::Model { source } => matches!(source, bb::Error::Budget { .. }),
        error => matches!(error.kind(), bb::ErrorKind::WrongInput | bb::ErrorKind::Limit),
    }
}
