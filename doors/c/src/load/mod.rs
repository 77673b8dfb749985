//! Backends out of libraries.
//!
//! A library is compared with this version before anything of it is called, and what its functions return is compared with what they
//! promise. What a library does within a call is its own: an access to memory that is not its own, an `abort` or an endless loop end or
//! stop the program, as they would in code that is linked.

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
/// The library stays loaded as long as the backend, one of its tensors or one of its graphs is there. [`BackendLibrary`] opens with options,
/// and makes the name of the backend known to all that opens backends by name.
///
/// Loading runs code of the file: load only what you would link.
///
/// # Errors
///
/// [`LoadError`]: the file is no library of a backend, or of another version; the backend cannot be opened.
pub fn load_backend(path: impl AsRef<Path>) -> Result<LoadedBackend, LoadError> {
    BackendLibrary::load(path)?.open(&OpenOptions::default())
}
