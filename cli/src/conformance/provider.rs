//! Tests execution providers of ONNX Runtime from libraries. A provider must run whole cases.

use super::pool::Verdict;
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

/// Replaces the error of opening the backend by an error that names the user's library.
pub(super) fn of_library(error: Error, library: Option<&Path>) -> Error {
    match (error, library) {
        (Error::Bb(bb::Error::Unavailable { source, .. }), Some(path)) => {
            Error::Provider { path: path.to_owned(), source }
        }
        (error, _) => error,
    }
}

/// Returns the verdict for a case that a provider does not run, if that is not an error of the provider. Returns `None` for other
/// backends.
#[cfg(feature = "ort")]
pub(super) fn skips(
    case: &Path,
    backend: &str,
    failure: &(dyn std::error::Error + 'static),
) -> Option<Verdict> {
    use bb_conformance::onnx::Contents;
    use bb_ort::plugin::{NotRun, Without};
    let found = if backend == BACKEND { NotRun::among(failure) } else { None };
    found.map(|(without, error)| {
        let cause = crate::render::chain(error);
        match without {
            Without::Provider if names_nodes(error) => Verdict::skipped(DECLINED, cause),
            Without::Provider => {
                let operators = Contents::read(case).unwrap_or_default().operators;
                let operators: Vec<String> = operators.iter().map(ToString::to_string).collect();
                Verdict::skipped(DECLINED, format!("its operators are {}; {cause}", operators.join(", ")))
            }
            Without::Engine => {
                Verdict::skipped("ONNX Runtime does not load the case on its own provider", cause)
            }
            Without::Caller => Verdict::skipped("bb does not pass the case to ONNX Runtime", cause),
        }
    })
}

/// Returns whether an error names the nodes that the provider declines.
#[cfg(feature = "ort")]
fn names_nodes(error: &(dyn std::error::Error + 'static)) -> bool {
    use bb_ort::plugin::NotRun;
    matches!(error.downcast_ref(), Some(NotRun::Declined { nodes, .. }) if !nodes.is_empty())
}

/// Returns `None`, because there are no providers without the feature `ort`.
#[cfg(not(feature = "ort"))]
pub(super) fn skips(
    _case: &Path,
    _backend: &str,
    _failure: &(dyn std::error::Error + 'static),
) -> Option<Verdict> {
    None
}
