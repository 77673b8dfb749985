//! Catches panics, which must not reach ONNX Runtime, because it is not Rust.

use crate::api::{Api, Result};
use crate::error::PluginError;
use crate::raw::Status;
use bb_core::runtime::catch;

/// Runs `f`, and converts its error or panic to a status.
pub(crate) fn guarded(api: &Api, f: impl FnOnce() -> Result<()>) -> Status {
    api.status(catch(f).unwrap_or_else(|message| Err(PluginError::Panicked { message })))
}

/// Runs `f`, and ignores a panic, because it cannot be reported.
pub(crate) fn quiet(f: impl FnOnce()) {
    let _panicked = catch(f);
}
