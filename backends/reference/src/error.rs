//! The error type of this backend.

/// An error of an operation of this backend.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operation does not accept the operands or parameters.
    #[error(transparent)]
    Bb(#[from] bb::Error),

    /// An ndarray array cannot have this shape.
    #[error("extents {shape:?} are more than an array can have")]
    Extents {
        /// The shape.
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
