//! Loads backends from libraries.
//!
//! A library's interface version and description are checked before its other functions are called, and the results of its functions are
//! checked against the interface. Nothing protects the program during a call: an access to foreign memory, an `abort` or an endless loop
//! ends or stops the program, as in linked code.

mod backend;
mod calls;
mod error;
mod file;
mod graphs;
mod instance;
mod library;
mod path;
mod register;

pub use backend::{LoadedBackend, LoadedTensor};
pub use error::{LibraryKind, LoadError, LoadedError};
pub use library::BackendLibrary;
pub use path::{PATH_VARIABLE, load_path};

use bb_core::OpenOptions;
use std::path::Path;

/// Opens the backend of a library, without options.
///
/// The library stays loaded as long as the backend, one of its tensors or one of its graphs exists. [`BackendLibrary`] opens with
/// options, and registers the backend by its name.
///
/// Loading runs code of the file, so load only files that you would also link.
///
/// # Errors
///
/// [`LoadError`] if the file is not a library of a backend or has another interface version, or if the backend cannot be opened.
pub fn load_backend(path: impl AsRef<Path>) -> Result<LoadedBackend, LoadError> {
    BackendLibrary::load(path)?.open(&OpenOptions::default())
}
