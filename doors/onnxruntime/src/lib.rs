//! bb as a replacement of ONNX Runtime's library: programs in C, C++, Rust, JavaScript and others that load `libonnxruntime` run on bb.
//!
//! The library exports `OrtGetApiBase`, whose table of functions has the functions for opening and running models. A function that is not
//! implemented returns the status "not implemented" with its name. `bb/docs/drop-in.md` describes the use of the library.
//!
//! A Rust program on the crate `ort` names this crate instead, in one line:
//!
//! ```ignore
//! ort::set_api(bb_onnxruntime::api());
//! ```
//!
//! The feature `ort` has that function, for one version of `ort`; [`api_as`] is for any. The crate implements the public C interface of
//! ONNX Runtime 1.31.
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

/// The newest version of the table of functions.
pub const API_VERSION: u32 = 31;

/// `OrtApiBase`.
#[repr(C)]
#[derive(Debug)]
pub struct OrtApiBase {
    get_api: extern "system" fn(version: u32) -> *const c_void,
    get_version: extern "system" fn() -> *const c_char,
}

/// Returns the table of a version; null for one that is newer than [`API_VERSION`].
extern "system" fn get_api(version: u32) -> *const c_void {
    match version {
        1..=API_VERSION => table::first(),
        _ => std::ptr::null(),
    }
}

/// Returns the version of ONNX Runtime that has the same functions.
extern "system" fn get_version() -> *const c_char {
    c"1.31.0".as_ptr()
}

/// Returns the base table, which gives programs all other functions.
#[unsafe(no_mangle)]
pub extern "system" fn OrtGetApiBase() -> *const OrtApiBase {
    static BASE: OrtApiBase = OrtApiBase { get_api, get_version };
    // Only programs that load the library call this; those in Rust name the crate.
    let advice = bb_core::error::DoorAdvice {
        backend: "the variable `BB_BACKEND_PATH` names libraries of others",
        left_out: "this library was built without it",
        remove: None,
    };
    advice.give();
    &raw const BASE
}

/// Returns the functions as `set_api` of the crate `ort` takes them.
#[cfg(feature = "ort")]
pub fn api() -> ort_sys::OrtApi {
    // SAFETY: the structure has pointers to functions in the order of the header, as the table has.
    unsafe { api_as() }
}

/// Returns the functions as the structure `OrtApi` of any version of the crate `ort-sys`.
///
/// # Panics
///
/// If the structure is larger than the table of version [`API_VERSION`].
///
/// # Safety
///
/// `T` is `ort_sys::OrtApi`, of any version of the crate: pointers to functions in the order of the header of ONNX Runtime.
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
    // SAFETY: the caller says that `T` is the beginning of the table, and it is no longer.
    unsafe { table::first().cast::<T>().read() }
}
