//! Finds the missing element type that caused an error.

use crate::ext::ErasedError;
use crate::{Error, NarrowError};

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
        causes.find_map(|cause| {
            let cause = cause.downcast_ref().map_or(cause, ErasedError::inner);
            match cause.downcast_ref() {
                Some(Error::Narrow(narrow)) => Some(narrow),
                _ => cause.downcast_ref(),
            }
        })
    }
}
