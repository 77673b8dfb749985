//! No panic leaves this library, because the other side is not Rust.

use crate::api::{Api, Result};
use crate::error::PluginError;
use crate::raw::Status;
use bb_core::runtime::catch;

/// Runs `f`, and turns its error or its panic into a status.
pub(crate) fn guarded(api: &Api, f: impl FnOnce() -> Result<()>) -> Status {
    api.status(catch(f).unwrap_or_else(|message| Err(PluginError::Panicked { message })))
}

/// Runs `f`, which has no way to report; a panic ends it.
pub(crate) fn quiet(f: impl FnOnce()) {
    let _panicked = catch(f);
}
