//! Loads backends from the libraries that the variable `BB_BACKEND_PATH` lists.

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use std::error::Error;

/// Loads the listed libraries, so that sessions find their backends by name.
pub(crate) fn obey_path() -> PyResult<()> {
    let Some(list) = std::env::var_os("BB_BACKEND_PATH") else { return Ok(()) };
    let failed = |error: bb_c::LoadError| {
        let causes = std::iter::successors(error.source(), |cause| (*cause).source());
        let text = format!("the variable `BB_BACKEND_PATH`: {error}");
        let text = causes.fold(text, |text, cause| format!("{text}: {cause}"));
        PyImportError::new_err(text)
    };
    bb_c::load_path(&list).map(drop).map_err(failed)
}
