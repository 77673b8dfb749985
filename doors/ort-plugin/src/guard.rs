//! No panic leaves this library, because the other side is not Rust.

use crate::api::{Api, Result};
use crate::error::panicked;
use crate::raw::Status;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `f`, and turns its error or its panic into a status.
pub(crate) fn guarded(api: &Api, f: impl FnOnce() -> Result<()>) -> Status {
    let result = catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|payload| {
        let error = panicked(&*payload);
        // What a payload does when it is dropped may panic, too.
        std::mem::forget(payload);
        Err(error)
    });
    api.status(result)
}

/// Runs `f`, which has no way to report; a panic ends it.
pub(crate) fn quiet(f: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        std::mem::forget(payload);
    }
}
