//! Errors of opening a model and of generating text.

use crate::gguf::GgufError;
use bb::ErrorKind;
use std::path::PathBuf;

/// The supported decoder architectures, as in `general.architecture` of a GGUF file.
pub const ARCHITECTURES: [&str; 6] = ["gemma", "llama", "phi3", "qwen2", "qwen3", "smollm3"];

/// The reason why a model cannot be opened, or text cannot be generated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read.
    #[error("`{}` cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: bb_ir::BoxError,
    },

    /// A path is neither a GGUF file nor a folder with a model.
    #[error("`{}` is {found}, expected a GGUF file, or a folder with `model.onnx` and `tokenizer.json`", path.display())]
    Form {
        /// The path.
        path: PathBuf,
        /// The kind of file that was found.
        found: &'static str,
    },

    /// A GGUF file does not conform to the format.
    #[error("the GGUF file is refused")]
    Gguf {
        /// The error of the file.
        #[source]
        source: GgufError,
    },

    /// The architecture of a model is unknown.
    #[error("models of the kind `{found}` are not read, expected one of `{}`", ARCHITECTURES.join("`, `"))]
    Architecture {
        /// The architecture in the file.
        found: String,
    },

    /// A size in the metadata is out of range.
    #[error("`{key}` is {found}, expected 1 to {most}")]
    Size {
        /// The key.
        key: String,
        /// The size.
        found: u64,
        /// The maximum.
        most: u64,
    },

    /// A model requires a computation that this crate does not implement.
    #[error("`{key}` is {value}, which is not computed")]
    Unserved {
        /// The key of the metadata.
        key: String,
        /// Its value.
        value: String,
    },

    /// A file has a tensor that the network of its architecture does not use, for example one that scales angles.
    #[error("the file has a tensor `{name}`, which models of its kind are not computed with")]
    Tensor {
        /// The tensor.
        name: String,
    },

    /// A JSON file lacks required content.
    #[error("`{file}` has no {expected}")]
    Json {
        /// The name of the file.
        file: &'static str,
        /// The missing content.
        expected: &'static str,
        /// The error of the parser, if the text is not JSON.
        #[source]
        source: Option<serde_json::Error>,
    },

    /// A model in ONNX's format has an input that the generation loop cannot provide.
    #[error(
        "the model has the input `{name}`, expected tokens, a mask, positions, and pairs of past and present"
    )]
    Input {
        /// The input.
        name: String,
    },

    /// A source for the model's encoder is of another kind than the model reads.
    #[error("the model got {found}, expected {expected}")]
    Source {
        /// The kind of source that was passed.
        found: &'static str,
        /// The kind of source that the model reads.
        expected: &'static str,
    },

    /// A model in ONNX's format lacks an input or an output.
    #[error("the model has no {what}")]
    Lacks {
        /// The name of the missing part, for messages.
        what: &'static str,
    },

    /// An input or output of a model in ONNX's format does not have the shape of a cache, or of logits.
    #[error("`{name}` has {found}, expected {expected}")]
    Port {
        /// The input or output.
        name: String,
        /// The expected shape.
        expected: &'static str,
        /// The shape in the model.
        found: String,
    },

    /// The tokenizer of a model is of an unknown kind.
    #[error("the tokenizer is of the kind `{found}`, expected one of {expected:?}")]
    TokenizerKind {
        /// The kind.
        found: String,
        /// The known kinds.
        expected: &'static [&'static str],
    },

    /// The tokenizer of a model is refused.
    #[error("the tokenizer is refused")]
    Tokenizer {
        /// The error of the tokenizer.
        #[source]
        source: bb_ir::BoxError,
    },

    /// The model has no token with this id.
    #[error("token {token} does not exist, expected 0 to {most}")]
    Token {
        /// The token.
        token: u32,
        /// The greatest token id.
        most: usize,
    },

    /// The model has no template for messages.
    #[error("the model has no template for messages; give a prompt instead")]
    NoTemplate,

    /// The template of a model fails.
    #[error("the template for messages fails")]
    Template {
        /// The cause.
        #[source]
        source: minijinja::Error,
    },

    /// The template of a model, or the text that it produces, is too long.
    #[error("the template for messages, or the text that it writes, has more than {most} bytes")]
    LongTemplate {
        /// The maximum size, in bytes.
        most: usize,
    },

    /// The messages contain the name of a control token, and use all characters that could mark it.
    #[error("the messages have all characters that could mark the names of control tokens")]
    Characters,

    /// The prompt is empty.
    #[error("the prompt has no tokens, expected one at least")]
    NoTokens,

    /// A sequence is longer than the model supports.
    #[error("the sequence would have {needed} tokens, expected at most {most}")]
    Context {
        /// The number of tokens.
        needed: usize,
        /// The maximum number.
        most: usize,
    },

    /// Too many requests are waiting.
    #[error("{most} requests wait, which is the limit; try again later")]
    Busy {
        /// The maximum number.
        most: usize,
    },

    /// The model does not return states of tokens.
    #[error("the model gives logits alone, and no states of tokens; states come from GGUF files")]
    NoStates,

    /// An option is out of range.
    #[error("`{option}` is {found}, expected {expected}")]
    Option {
        /// The option.
        option: &'static str,
        /// Its value.
        found: f64,
        /// The allowed values.
        expected: &'static str,
    },

    /// A constraint is invalid, has an unknown part, or requires too much work.
    #[error("the {constraint} is refused")]
    Grammar {
        /// The kind of constraint, for messages.
        constraint: &'static str,
        /// The cause.
        #[source]
        source: bb_ir::BoxError,
    },

    /// A constraint is too long.
    #[error("the {constraint} has {found} bytes, expected at most {most}")]
    GrammarSize {
        /// The kind of constraint, for messages.
        constraint: &'static str,
        /// Its size.
        found: usize,
        /// The maximum size.
        most: usize,
    },

    /// A grammar was compiled for the tokens of another model.
    #[error("the grammar was compiled for another model; compile it for this one")]
    GrammarModel,

    /// A grammar requires too much work in the middle of an answer.
    #[error("the grammar fails at the next token")]
    GrammarFailed {
        /// The cause.
        #[source]
        source: bb_ir::BoxError,
    },

    /// A grammar needs the bytes of each token, but they are unknown for this model's tokenizer.
    #[error(
        "the tokenizer has the decoder `{found}`, expected `ByteLevel`, `ByteFallback`, `Metaspace` or `Replace` for a grammar"
    )]
    Vocabulary {
        /// The decoder.
        found: &'static str,
    },

    /// The model computed a logit that is NaN or infinity.
    #[error("the logit of token {token} is {found}, expected a number")]
    Logit {
        /// The token.
        token: usize,
        /// The logit.
        found: f32,
    },

    /// No token is possible: all have a logit of minus infinity, or the model has no token that the grammar allows next.
    #[error("no token is possible: all have a logit of minus infinity")]
    NoneLeft,

    /// The model failed, or the backend that runs it.
    #[error("the model fails")]
    Model {
        /// The cause.
        #[source]
        source: bb::Error,
    },

    /// Internal error: an invariant that no input can break does not hold.
    #[error("internal error: {what}")]
    Internal {
        /// The invariant that is broken.
        what: &'static str,
    },
}

impl Error {
    /// Returns the kind of the error, which determines how a caller should react.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Read { .. } => ErrorKind::Configuration,
            Error::Architecture { .. }
            | Error::Unserved { .. }
            | Error::TokenizerKind { .. }
            | Error::Vocabulary { .. } => ErrorKind::Unsupported,
            Error::Form { .. }
            | Error::Gguf { .. }
            | Error::Size { .. }
            | Error::Tensor { .. }
            | Error::Json { .. }
            | Error::Input { .. }
            | Error::Lacks { .. }
            | Error::Port { .. }
            | Error::Tokenizer { .. }
            | Error::Logit { .. }
            | Error::NoneLeft => ErrorKind::InvalidModel,
            Error::Source { .. }
            | Error::Token { .. }
            | Error::NoTemplate
            | Error::Template { .. }
            | Error::Characters
            | Error::NoTokens
            | Error::Context { .. }
            | Error::NoStates
            | Error::Option { .. }
            | Error::Grammar { .. }
            | Error::GrammarModel => ErrorKind::WrongInput,
            Error::LongTemplate { .. }
            | Error::GrammarSize { .. }
            | Error::GrammarFailed { .. }
            | Error::Busy { .. } => ErrorKind::Limit,
            Error::Model { source } => source.kind(),
            Error::Internal { .. } => ErrorKind::Internal,
        }
    }
}

impl From<GgufError> for Error {
    fn from(source: GgufError) -> Error {
        Error::Gguf { source }
    }
}

impl From<bb::Error> for Error {
    fn from(source: bb::Error) -> Error {
        Error::Model { source }
    }
}

impl From<bb_ir::Error> for Error {
    fn from(source: bb_ir::Error) -> Error {
        Error::Model { source: source.into() }
    }
}
