//! Providers of ONNX Runtime from libraries, on which cases run alone.

use crate::error::{Error, Result};
use std::path::Path;

/// The reason for which a case is skipped whose nodes a provider leaves to others.
pub(super) const DECLINED: &str = "the provider declines nodes of the case";

/// Returns the name of the backend that runs models on a device of the provider in a library, and on nothing else.
///
/// # Errors
///
/// [`Error::NoOrt`] without the feature `ort`; [`Error::LibraryName`] for a path that the name of a backend cannot hold.
pub(super) fn backend_name(library: &Path, device: u64) -> Result<String> {
    if cfg!(not(feature = "ort")) {
        return Err(Error::NoOrt);
    }
    let path = library.canonicalize().map_err(|source| Error::Read { path: library.to_owned(), source })?;
    match path.to_str() {
        Some(text) if !text.contains([',', '(', ')']) => {
            Ok(format!("ort-provider(library={text}, number={device})"))
        }
        _ => Err(Error::LibraryName { path }),
    }
}

/// Tells whether a case failed because the provider leaves nodes of it to others.
#[cfg(feature = "ort")]
pub(super) fn declines(failure: &(dyn std::error::Error + 'static)) -> bool {
    bb_ort::plugin::Declined::is_cause_of(failure)
}

/// Tells whether a case failed because a provider leaves nodes of it to others.
#[cfg(not(feature = "ort"))]
pub(super) fn declines(_failure: &(dyn std::error::Error + 'static)) -> bool {
    false
}
