//! Backends as libraries with a C interface: [`export_backend!`] makes a library from a backend in Rust, [`load_backend`] makes a backend
//! from a library in any language, and [`header()`] is the interface for C (`include/bb.h`).
//!
//! Users reach this by the feature `loaded` of `bb`. The page `c.md` of its guide says how a backend is written in C.
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
    BackendLibrary, LoadError, LoadedBackend, LoadedError, LoadedTensor, PATH_VARIABLE, load_backend,
    load_path,
};
