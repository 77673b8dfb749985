//! Errors of operations that need an element type that the backend lacks.

use bb_ir::DataType;

/// The reason why neither a backend nor the host can compute an operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NarrowError {
    /// The backend lacks a type, and has no other type that represents the elements exactly.
    #[error("`{op}` needs {dtype}, which the backend does not have{}", if dtype.is_float() {
        "; the option `narrow_floats` accepts that it is held in another float"
    } else {
        ""
    })]
    Lacks {
        /// The operation.
        op: &'static str,
        /// The type.
        dtype: DataType,
    },

    /// A result may exceed the range of the type that the backend stores it in.
    #[error(
        "`{op}` of {dtype} may exceed {held}, in which the backend holds {dtype}, and has too many elements for the host"
    )]
    Exceeds {
        /// The operation.
        op: &'static str,
        /// The type of the elements.
        dtype: DataType,
        /// The type that the backend stores them in.
        held: DataType,
    },
}
