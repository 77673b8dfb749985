//! Why an operation of this backend failed.

/// Why an operation of this backend failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operation does not accept the operands or parameters.
    #[error(transparent)]
    Bb(#[from] bb::Error),

    /// An array of ndarray cannot have these extents.
    #[error("extents {shape:?} are more than an array can have")]
    Extents {
        /// The extents.
        shape: Box<[usize]>,
        /// The error of ndarray.
        #[source]
        source: ndarray::ShapeError,
    },
}

impl From<bb::ir::Error> for Error {
    fn from(error: bb::ir::Error) -> Error {
        Error::Bb(error.into())
    }
}
