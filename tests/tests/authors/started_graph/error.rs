//! Why an operation failed.

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operands or parameters are not what the operation takes.
    #[error(transparent)]
    Bb(#[from] bb::Error),

    /// The operation is not written yet.
    #[error("`{0}` is not written yet: write it in `src/lib.rs`")]
    NotWritten(&'static str),
}

impl From<bb::ir::Error> for Error {
    fn from(error: bb::ir::Error) -> Error {
        Error::Bb(error.into())
    }
}
