//! The error for a backend that violates the interface through which it is called.

use crate::Error;

/// A backend violated the interface through which it is called, for example with a result that is null.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "backend `{backend}` broke a promise of the interface in `{op}`: {what}: expected {expected}, got {got}"
)]
#[non_exhaustive]
pub struct BrokenPromise {
    /// The name of the backend.
    pub backend: &'static str,
    /// The operation.
    pub op: &'static str,
    /// The item with an unexpected value.
    pub what: String,
    /// The expected value.
    pub expected: String,
    /// The value that the backend returned.
    pub got: String,
}

impl BrokenPromise {
    /// Returns the error for an item of a call, with its expected and its actual value.
    #[cold]
    pub fn new(
        backend: &'static str,
        op: &'static str,
        what: String,
        (expected, got): (String, String),
    ) -> BrokenPromise {
        BrokenPromise { backend, op, what, expected, got }
    }
}

impl From<BrokenPromise> for Error {
    fn from(broken: BrokenPromise) -> Error {
        Error::BrokenPromise(Box::new(broken))
    }
}
