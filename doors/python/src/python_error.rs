//! Errors of calls of an author's methods.

use crate::convert::Problem;
use pyo3::PyErr;

/// An error of calling an author's method. `method` is the class and the method, as in `MyBackend.add`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PythonError {
    /// `bb` refused the operands, or the author did not write the method.
    #[error(transparent)]
    Bb(#[from] bb::Error),

    /// The method raised an exception, which has its traceback.
    #[error("`{method}` raised an exception")]
    Raised {
        method: String,
        #[source]
        source: PyErr,
    },

    /// The method raised NumPy's exception for writing to a read-only array.
    #[error(
        "`{method}` wrote to a read-only array; operands and returned arrays are read-only: copy first, as in `x = x.copy()`"
    )]
    ReadOnly {
        method: String,
        #[source]
        source: PyErr,
    },

    /// The method returned a result of a wrong type or shape.
    #[error("`{method}` returned {got}, expected {expected}{advice}")]
    Returned {
        method: String,
        expected: String,
        got: String,
        /// How to correct the method, after a semicolon; empty if the cause is unknown.
        advice: String,
    },

    /// Elements cannot be converted for the method, or its result cannot be read.
    #[error("the elements of a tensor cannot pass through `{method}`")]
    Elements {
        method: String,
        #[source]
        source: Problem,
    },

    /// The interpreter is ending and runs no more code of this thread.
    #[error("`{method}` is called while the interpreter ends")]
    Ended { method: String },

    /// Methods and sessions called each other more deeply than allowed.
    #[error("`{method}` is called within {most} methods that sessions call within each other")]
    Nested { method: String, most: usize },
}

impl From<bb_ir::Error> for PythonError {
    fn from(error: bb_ir::Error) -> PythonError {
        PythonError::Bb(error.into())
    }
}
