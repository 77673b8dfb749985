//! Loads backends from libraries, which the variable `BB_BACKEND_PATH` or `bb backends --load` names.

use crate::error::Result;

/// Loads the libraries that the variable names.
#[cfg(feature = "loaded")]
pub(crate) fn obey_path() -> Result<()> {
    if let Some(list) = std::env::var_os("BB_BACKEND_PATH") {
        bb_c::load_path(&list).map_err(crate::error::Error::BackendPath)?;
    }
    Ok(())
}

/// Returns an error if the variable is set, because this build cannot load libraries.
#[cfg(not(feature = "loaded"))]
pub(crate) fn obey_path() -> Result<()> {
    match std::env::var_os("BB_BACKEND_PATH").filter(|list| !list.is_empty()) {
        Some(_) => Err(crate::error::Error::LoadsNothing),
        None => Ok(()),
    }
}

/// Loads and registers libraries.
#[cfg(feature = "loaded")]
pub(crate) fn load(files: &[std::path::PathBuf]) -> Result<()> {
    files.iter().try_for_each(|file| Ok(bb_c::BackendLibrary::load(file)?.register()?))
}
