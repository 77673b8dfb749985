//! A replacement for ONNX Runtime's library: programs in C, C++, Rust, JavaScript and other languages that load `libonnxruntime` run on bb.
//!
//! The library exports `OrtGetApiBase`, which leads to a table with the functions for opening and running models. A function that is not
//! implemented returns the status "not implemented" with its name. `bb/docs/drop-in.md` explains how to use the library.
//!
//! A Rust program that uses the crate `ort` needs one line instead:
//!
//! ```ignore
//! ort::set_api(bb_onnxruntime::api());
//! ```
//!
//! The feature `ort` adds `api`, for one version of `ort`; [`api_as`] works for any version. The crate implements the public C interface
//! of ONNX Runtime 1.31.
#![expect(unsafe_code, reason = "the interface is of pointers; each block says why it is sound")]

mod allocator;
mod arguments;
mod binding;
mod elements;
mod environment;
mod error;
mod log;
mod memory;
mod metadata;
mod options;
mod pairs;
mod release;
mod run_options;
mod session;
mod status;
mod table;
mod threads;
mod types;
mod value;

pub use options::OrtSessionOptionsAppendExecutionProvider_CPU;

use bb_cpu as _;
use bb_layers as _;
use bb_operators as _;
use std::ffi::{c_char, c_void};

/// The newest supported version of the function table.
pub const API_VERSION: u32 = 31;

/// `OrtApiBase`.
#[repr(C)]
#[derive(Debug)]
pub struct OrtApiBase {
    get_api: extern "system" fn(version: u32) -> *const c_void,
    get_version: extern "system" fn() -> *const c_char,
}

/// Returns the function table of a version, or null if the version is newer than [`API_VERSION`].
extern "system" fn get_api(version: u32) -> *const c_void {
    match version {
        1..=API_VERSION => table::first(),
        _ => std::ptr::null(),
    }
}

/// Returns the version of ONNX Runtime with the same functions.
extern "system" fn get_version() -> *const c_char {
    c"1.31.0".as_ptr()
}

/// Returns the base table. Programs get all other functions through it.
#[unsafe(no_mangle)]
pub extern "system" fn OrtGetApiBase() -> *const OrtApiBase {
    static BASE: OrtApiBase = OrtApiBase { get_api, get_version };
    // Sets the advice of errors here, because only programs that load the library call this function. Rust programs depend on the crate.
    let advice = bb_core::error::DoorAdvice {
        backend: "the variable `BB_BACKEND_PATH` names libraries of others",
        left_out: "this library was built without it",
        remove: None,
        limits: "bb.limits.",
    };
    advice.give();
    &raw const BASE
}

/// Returns the function table in the type that `set_api` of the crate `ort` expects.
#[cfg(feature = "ort")]
pub fn api() -> ort_sys::OrtApi {
    // SAFETY: like the table, the structure has function pointers in the order of the header.
    unsafe { api_as() }
}

/// Returns the function table as the structure `OrtApi` of any version of the crate `ort-sys`.
///
/// # Panics
///
/// If the structure is larger than the table of version [`API_VERSION`].
///
/// # Safety
///
/// `T` is `ort_sys::OrtApi` of any version of the crate: function pointers in the order of ONNX Runtime's header.
///
/// # Examples
///
/// ```ignore
/// // The type is known from the function that takes it.
/// ort::set_api(unsafe { bb_onnxruntime::api_as() });
/// ```
pub unsafe fn api_as<T>() -> T {
    assert!(
        size_of::<T>() <= table::SIZE,
        "the crate `ort` asks for functions that are newer than version {API_VERSION}"
    );
    // SAFETY: the caller guarantees that `T` is a prefix of the table, and the assertion above checks its size.
    unsafe { table::first().cast::<T>().read() }
}
