//! Loads libraries from a list of folders and files.

use super::{BackendLibrary, LoadError};
use std::ffi::OsStr;
use std::path::PathBuf;

/// The environment variable with folders and files of libraries, separated like `PATH`. The command line and the Python package read it.
pub const PATH_VARIABLE: &str = "BB_BACKEND_PATH";

/// Loads and registers all libraries of a list of folders and files, which are separated like `PATH`. In a folder, these are all files with
/// the system's extension of shared libraries, sorted by name.
///
/// # Errors
///
/// The error of the first library that cannot be loaded or registered. The libraries before it stay registered.
pub fn load_path(list: &OsStr) -> Result<Vec<BackendLibrary>, LoadError> {
    let mut files = Vec::new();
    for entry in std::env::split_paths(list).filter(|entry| !entry.as_os_str().is_empty()) {
        match entry.is_dir() {
            true => files.extend(libraries(entry)?),
            false => files.push(entry),
        }
    }
    let load = |file: PathBuf| {
        let library = BackendLibrary::load(file)?;
        library.register()?;
        Ok(library)
    };
    files.into_iter().map(load).collect()
}

/// Lists the libraries in a folder.
fn libraries(folder: PathBuf) -> Result<Vec<PathBuf>, LoadError> {
    let read = |source| LoadError::Read { path: folder.clone(), source };
    let ending = OsStr::new(std::env::consts::DLL_EXTENSION);
    let entries = std::fs::read_dir(&folder).map_err(read)?;
    let paths =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>().map_err(read)?;
    let mut found: Vec<PathBuf> = paths.into_iter().filter(|path| path.extension() == Some(ending)).collect();
    found.sort();
    Ok(found)
}
