//! Why an operation cannot be computed for want of an element type.

use super::Error;
use crate::ext::ErasedError;
use bb_ir::DataType;

/// Why neither a backend nor the host computes an operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NarrowError {
    /// The backend lacks a type, and has no type that holds the elements exactly.
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

    /// A result may be out of range of the type in which the backend holds it.
    #[error(
        "`{op}` of {dtype} may exceed {held}, in which the backend holds {dtype}, and has too many elements for the host"
    )]
    Exceeds {
        /// The operation.
        op: &'static str,
        /// The type of the elements.
        dtype: DataType,
        /// The type in which the backend holds them.
        held: DataType,
    },
}

impl NarrowError {
    /// Returns the `NarrowError` among an error and its causes, if there is one.
    ///
    /// # Examples
    ///
    /// ```
    /// use bb::{DataType, Error, NarrowError};
    /// let error = Error::from(NarrowError::Lacks { op: "exp", dtype: DataType::F64 });
    /// assert!(matches!(NarrowError::cause_of(&error), Some(NarrowError::Lacks { op: "exp", .. })));
    /// ```
    pub fn cause_of<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a NarrowError> {
        let mut causes = std::iter::successors(Some(error), |e| (*e).source());
        causes.find_map(|cause| match (cause.downcast_ref(), cause.downcast_ref()) {
            (Some(Error::Narrow(narrow)), _) | (_, Some(ErasedError::Bb(Error::Narrow(narrow)))) => {
                Some(narrow)
            }
            _ => cause.downcast_ref(),
        })
    }
}
