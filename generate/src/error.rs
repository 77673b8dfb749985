//! Why text cannot be generated.

use crate::gguf::GgufError;
use bb::ErrorKind;
use std::path::PathBuf;

/// The kinds of decoders that are read, by `general.architecture` of a GGUF file.
pub const ARCHITECTURES: [&str; 6] = ["gemma", "llama", "phi3", "qwen2", "qwen3", "smollm3"];

/// Why a model cannot be opened, or text cannot be generated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read.
    #[error("`{}` cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
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

    /// The kind of a model is not known.
    #[error("models of the kind `{found}` are not read, expected one of `{}`", ARCHITECTURES.join("`, `"))]
    Architecture {
        /// The kind that the file names.
        found: String,
    },

    /// A size in the metadata is out of range.
    #[error("`{key}` is {found}, expected 1 to {most}")]
    Size {
        /// The key.
        key: String,
        /// The size.
        found: u64,
        /// The greatest one.
        most: u64,
    },

    /// A model needs what this crate does not compute.
    #[error("`{key}` is {value}, which is not computed")]
    Unserved {
        /// The key of the metadata.
        key: String,
        /// Its value.
        value: String,
    },

    /// A file has a tensor that the network of its kind does not have, as one that scales angles.
    #[error("the file has a tensor `{name}`, which models of its kind are not computed with")]
    Tensor {
        /// The tensor.
        name: String,
    },

    /// A file of JSON has other content than is needed.
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

    /// An input of a model in ONNX's format is not one that the generation loop can fill.
    #[error(
        "the model has the input `{name}`, expected tokens, a mask, positions, and pairs of past and present"
    )]
    Input {
        /// The input.
        name: String,
    },

    /// A model got another source for its encoder than it reads.
    #[error("the model got {found}, expected {expected}")]
    Source {
        /// The kind of source that was given.
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

    /// An input or output of a model in ONNX's format has other extents than a cache, or logits.
    #[error("`{name}` has {found}, expected {expected}")]
    Port {
        /// The input or output.
        name: String,
        /// The expected extents.
        expected: &'static str,
        /// The extents that were found.
        found: String,
    },

    /// The tokenizer of a model is of a kind that is not known.
    #[error("the tokenizer is of the kind `{found}`, expected one of {expected:?}")]
    TokenizerKind {
        /// The kind.
        found: String,
        /// The known ones.
        expected: &'static [&'static str],
    },

    /// The tokenizer of a model is refused.
    #[error("the tokenizer is refused")]
    Tokenizer {
        /// The error of the tokenizer.
        #[source]
        source: bb_ir::BoxError,
    },

    /// The model has no token of this number.
    #[error("token {token} does not exist, expected 0 to {most}")]
    Token {
        /// The token.
        token: u32,
        /// The greatest token.
        most: usize,
    },

    /// The model has no template for messages.
    #[error("the model has no template for messages; give a prompt instead")]
    NoTemplate,

    /// The template of a model fails.
    #[error("the template for messages fails")]
    Template {
        /// Why.
        #[source]
        source: minijinja::Error,
    },

    /// The template of a model makes more text than is allowed.
    #[error("the template for messages, or the text that it writes, has more than {most} bytes")]
    LongTemplate {
        /// The greatest size.
        most: usize,
    },

    /// Messages have a control token's name in them, and leave no character to mark it with.
    #[error("the messages have all characters that could mark the names of control tokens")]
    Characters,

    /// There is nothing to continue.
    #[error("the prompt has no tokens, expected one at least")]
    NoTokens,

    /// A sequence is longer than the model takes.
    #[error("the sequence would have {needed} tokens, expected at most {most}")]
    Context {
        /// The number of tokens.
        needed: usize,
        /// The greatest number.
        most: usize,
    },

    /// Too many requests wait.
    #[error("{most} requests wait, which is the limit; try again later")]
    Busy {
        /// The greatest number.
        most: usize,
    },

    /// The model gives no states of tokens.
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

    /// A constraint is wrong, has a part that is not known, or takes too much work.
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
        /// The greatest one.
        most: usize,
    },

    /// A grammar was compiled for the tokens of another model.
    #[error("the grammar was compiled for another model; compile it for this one")]
    GrammarModel,

    /// A grammar takes too much work in the middle of an answer.
    #[error("the grammar fails at the next token")]
    GrammarFailed {
        /// Why.
        #[source]
        source: bb_ir::BoxError,
    },

    /// It is not known which bytes the tokens of the model are, which grammars need.
    #[error(
        "the tokenizer has the decoder `{found}`, expected `ByteLevel`, `ByteFallback`, `Metaspace` or `Replace` for a grammar"
    )]
    Vocabulary {
        /// The decoder.
        found: &'static str,
    },

    /// The model gave a logit that is NaN or infinity.
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

    /// The model, or the backend that runs it, fails.
    #[error("the model fails")]
    Model {
        /// Why.
        #[source]
        source: bb::Error,
    },

    /// Internal error: something holds that no input can cause.
    #[error("internal error: {what}")]
    Internal {
        /// The invariant that does not hold.
        what: &'static str,
    },
}

impl Error {
    /// Returns the kind of the error, which tells a caller how to react.
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
