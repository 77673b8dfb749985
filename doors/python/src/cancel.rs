//! Cancellation of runs from another thread.

use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};

/// Stops the runs that it was passed to.
#[pyclass(frozen, module = "bb")]
#[derive(Debug, Default)]
pub(crate) struct CancelToken(Mutex<bb::CancelToken>);

impl CancelToken {
    /// Returns the token for runs that begin now.
    pub(crate) fn current(&self) -> bb::CancelToken {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[pymethods]
impl CancelToken {
    #[new]
    fn new() -> CancelToken {
        CancelToken::default()
    }

    /// Stops all runs that use this token, including runs that have not begun.
    fn cancel(&self) {
        self.current().cancel();
    }

    /// Makes the token usable again: runs that begin from now on are not stopped. Runs that were stopped stay stopped.
    fn reset(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = bb::CancelToken::new();
    }

    /// Whether the runs were stopped.
    #[getter]
    fn cancelled(&self) -> bool {
        self.current().is_cancelled()
    }
}
