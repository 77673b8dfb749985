//! Backends from libraries.
//!
//! A library is checked against this version before any of its functions is called, and the results of its functions are checked against
//! the interface. Nothing protects the program within a call: an access to foreign memory, an `abort` or an endless loop ends or stops the
//! program, as in linked code.

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
pub use error::{LoadError, LoadedError};
pub use library::BackendLibrary;
pub use path::{PATH_VARIABLE, load_path};

use bb_core::OpenOptions;
use std::path::Path;

/// Opens the backend of a library, without options.
///
/// The library stays loaded as long as the backend, one of its tensors or one of its graphs exists. [`BackendLibrary`] opens with
/// options, and registers the backend by its name.
///
/// Loading runs code of the file: load only what you would link.
///
/// # Errors
///
/// [`LoadError`]: the file is not a library of a backend, or is of another version; the backend cannot be opened.
pub fn load_backend(path: impl AsRef<Path>) -> Result<LoadedBackend, LoadError> {
    BackendLibrary::load(path)?.open(&OpenOptions::default())
}
