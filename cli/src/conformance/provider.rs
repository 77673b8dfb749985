//! Tests execution providers of ONNX Runtime from libraries. A provider must run whole cases.

use crate::error::{Error, Result};
use std::path::Path;

/// The reason for skipping a case if the provider declines some of its nodes.
pub(super) const DECLINED: &str = "the provider declines nodes of the case";

/// The name of the backend that runs models on a provider.
const BACKEND: &str = "ort-provider";

/// Returns the name of a backend that runs models only on a device of the provider in a library.
///
/// # Errors
///
/// [`Error::NoOrt`] without the feature `ort`; [`Error::LibraryName`] if the path has characters that a backend name cannot contain.
pub(super) fn backend_name(library: &Path, device: u64) -> Result<String> {
    if cfg!(not(feature = "ort")) {
        return Err(Error::NoOrt);
    }
    let path = library.canonicalize().map_err(|source| Error::Read { path: library.to_owned(), source })?;
    match path.to_str() {
        Some(text) if !text.contains([',', '(', ')']) => {
            Ok(format!("{BACKEND}(library={text}, number={device})"))
        }
        _ => Err(Error::LibraryName { path }),
    }
}

/// Returns the reason for skipping a case that a provider does not run, if that is not an error of the provider. Returns `None` for other
/// backends.
#[cfg(feature = "ort")]
pub(super) fn skips(backend: &str, failure: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    use bb_ort::plugin::{NotRun, Without};
    let found = if backend == BACKEND { NotRun::among(failure) } else { None };
    found.map(|without| match without {
        Without::Provider => DECLINED,
        Without::Engine => "ONNX Runtime does not run the case",
    })
}

/// Returns `None`, because there are no providers without the feature `ort`.
#[cfg(not(feature = "ort"))]
pub(super) fn skips(_backend: &str, _failure: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    None
}
