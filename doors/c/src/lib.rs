//! Backends as libraries with a C interface. [`export_backend!`] exports a Rust backend as a library, [`load_backend`] loads a backend from
//! a library in any language, and [`header()`] returns the C declarations of the interface (`include/bb.h`).
//!
//! Users enable this with the feature `loaded` of `bb`. The page `c.md` of the guide explains how to write a backend in C.
#![allow(unsafe_code, reason = "the interface is of pointers; each block says why it is sound")]

pub mod abi;
#[doc(hidden)]
pub mod export;
#[doc(hidden)]
pub mod failure;
mod header;
mod load;

pub use header::header;
pub use load::{
    BackendLibrary, LibraryKind, LoadError, LoadedBackend, LoadedError, LoadedTensor, PATH_VARIABLE,
    load_backend, load_path,
};
