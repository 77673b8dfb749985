//! Tests libraries that violate the interface: invalid files, false descriptions, and functions that return garbage.

mod files;
mod results;
mod tables;

use crate::built;
use bb::BackendLibrary;
use bb_c::abi::{Library, Primitives, SYMBOL};
use std::sync::{Mutex, OnceLock};

/// Returns the tables of the backend written in C, which tests modify.
pub(crate) fn good() -> (Library, Primitives) {
    static LOADED: OnceLock<libloading::Library> = OnceLock::new();
    let library = LOADED.get_or_init(|| {
        // SAFETY: the library has no initialisers.
        unsafe { libloading::Library::new(built::plain()) }.unwrap()
    });
    // SAFETY: the symbol is a table of this type, which stays loaded, and so do its primitives.
    unsafe {
        let table = **library.get::<*const Library>(SYMBOL).unwrap();
        (table, *table.primitives)
    }
}

/// Keeps a value until the program ends. It stays reachable, so that leak checkers do not report it.
pub(crate) fn kept<T>(value: T) -> &'static T {
    static ALL: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    let value: &T = Box::leak(Box::new(value));
    ALL.lock().unwrap().push(std::ptr::from_ref(value).expose_provenance());
    value
}

/// Loads a backend from a table with these primitives.
pub(crate) fn linked(table: Library, primitives: Primitives) -> Result<BackendLibrary, bb::LoadError> {
    let table = kept(Library { primitives: kept(primitives), ..table });
    // SAFETY: the table and its primitives stay alive, and every error in them is detected before it does harm.
    unsafe { BackendLibrary::linked(table, "wrong") }
}
