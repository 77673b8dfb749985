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
            false => files.push(one_file(entry)?),
        }
    }
    let load = |file: PathBuf| {
        let library = BackendLibrary::load(file)?;
        library.register()?;
        Ok(library)
    };
    files.into_iter().map(load).collect()
}

/// Refuses an entry that does not exist and contains the separator of another system or list.
fn one_file(entry: PathBuf) -> Result<PathBuf, LoadError> {
    let (separator, others) = if cfg!(windows) { (';', ",") } else { (':', ",;") };
    let text = entry.to_string_lossy();
    let Some(other) = text.chars().find(|c| others.contains(*c) && !entry.exists()) else {
        return Ok(entry);
    };
    let problem = format!("there is no such file: separate files with `{separator}` instead of `{other}`");
    let source = std::io::Error::new(std::io::ErrorKind::NotFound, problem);
    Err(LoadError::Read { path: entry, source })
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
