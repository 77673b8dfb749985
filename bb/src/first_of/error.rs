//! Errors of a backend that combines several backends.

use crate::{BackendHandle, Error};
use std::fmt;

/// An error of [`FirstOf`](crate::FirstOf), from one of its backends or from `bb`. It has the message and the causes of the inner error.
#[derive(Debug)]
pub struct FirstOfError(Box<ErrorOrigin>);

#[derive(Debug)]
struct ErrorOrigin {
    error: Error,
    /// The backend that failed; it can unwrap its own errors.
    on: Option<BackendHandle>,
}

impl FirstOfError {
    /// Wraps the error of a backend, which can unwrap its own errors.
    pub fn of(on: &BackendHandle, error: Error) -> FirstOfError {
        FirstOfError(Box::new(ErrorOrigin { error, on: Some(on.clone()) }))
    }

    /// Returns the error.
    pub fn error(&self) -> &Error {
        &self.0.error
    }

    /// Returns the innermost error of `bb`; for an error about operands this is the error that the backend's error wraps, if it wraps one.
    pub fn cause(&self) -> &Error {
        let wrapped = |error| self.0.on.as_ref().and_then(|on| on.runtime().wrapped(error));
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&self.0.error);
        let mut innermost = &self.0.error;
        while let Some(error) = cause {
            innermost = error.downcast_ref().or_else(|| wrapped(error)).unwrap_or(innermost);
            cause = error.source();
        }
        innermost
    }
}

impl fmt::Display for FirstOfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.error, f)
    }
}

impl std::error::Error for FirstOfError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.0.error)
    }
}

impl From<Error> for FirstOfError {
    fn from(error: Error) -> FirstOfError {
        FirstOfError(Box::new(ErrorOrigin { error, on: None }))
    }
}
