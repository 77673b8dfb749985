//! Backends from libraries: from the variable `BB_BACKEND_PATH`, and from `bb backends --load`.

use crate::error::Result;

/// Loads the libraries that the variable names.
#[cfg(feature = "loaded")]
pub(crate) fn obey_path() -> Result<()> {
    if let Some(list) = std::env::var_os("BB_BACKEND_PATH") {
        bb_c::load_path(&list).map_err(crate::error::Error::BackendPath)?;
    }
    Ok(())
}

/// Refuses the variable, which this build would ignore.
#[cfg(not(feature = "loaded"))]
pub(crate) fn obey_path() -> Result<()> {
    match std::env::var_os("BB_BACKEND_PATH").filter(|list| !list.is_empty()) {
        Some(_) => Err(crate::error::Error::LoadsNothing),
        None => Ok(()),
    }
}

/// Loads libraries.
#[cfg(feature = "loaded")]
pub(crate) fn load(files: &[std::path::PathBuf]) -> Result<()> {
    files.iter().try_for_each(|file| Ok(bb_c::BackendLibrary::load(file)?.register()?))
}
