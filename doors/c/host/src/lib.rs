//! The library for C programs: the functions of `bb.h` that open models and run them. The library contains the CPU backend and layers;
//! `bb_load_backend` and the variable `BB_BACKEND_PATH` add further backends.
#![allow(unsafe_code, reason = "the interface is of pointers; each block says why it is sound")]

pub mod model;
pub mod options;
pub mod run;
pub mod session;

use bb_c::abi::{Failure, Items, Status};
use bb_c::failure::{Failed, guarded};
use bb_cpu as _;
use bb_layers as _;
use bb_operators as _;
use std::ffi::{CStr, c_char};

/// Sets the advice in error messages for C programs.
fn speak() {
    let advice = bb_core::error::DoorAdvice {
        backend: "`bb_load_backend` loads one of a library, and so does the variable `BB_BACKEND_PATH`",
        left_out: "this library was built without it, or `libbb_host.a` is linked without `-Wl,--whole-archive`",
        remove: None,
        limits: "limits.",
    };
    advice.give();
}

/// Reads a NUL-terminated string.
///
/// # Safety
///
/// `text` is null, or points to a NUL-terminated string.
unsafe fn ended<'a>(text: *const c_char, what: &str) -> Result<&'a str, Failed> {
    let wrong =
        |got: &str| Failed::new(bb::ErrorKind::WrongInput, format!("expected {what} in UTF-8, got {got}"));
    if text.is_null() {
        return Err(wrong("null"));
    }
    // SAFETY: the caller upholds the safety contract of this function.
    unsafe { CStr::from_ptr(text) }.to_str().map_err(|_| wrong("other bytes"))
}

/// Returns the failure for an argument that is null.
fn null(what: &str) -> Failed {
    Failed::new(bb::ErrorKind::WrongInput, format!("expected {what}, got null"))
}

/// Returns the caller's place for a pointer, and sets the pointer to null, so that it is null if the function fails.
///
/// # Safety
///
/// `into` is null, or points to memory for a pointer.
unsafe fn cleared<'a, T>(into: *mut *mut T) -> Option<&'a mut *mut T> {
    if !into.is_null() {
        // SAFETY: the caller upholds the safety contract of this function. The memory may not be initialised, so it is only written.
        unsafe { into.write(std::ptr::null_mut()) }
    }
    // SAFETY: as above.
    unsafe { into.as_mut() }
}

/// Returns a list that the caller lends.
///
/// # Safety
///
/// As [`Items::slice`](bb_c::abi::Items::slice).
unsafe fn given<'a, T>(list: Items<T>, what: &str) -> Result<&'a [T], Failed> {
    if list.items.is_null() && list.count > 0 {
        let text = format!("{what} has {} entries, but its pointer is null", list.count);
        return Err(Failed::new(bb::ErrorKind::WrongInput, text));
    }
    // SAFETY: the caller guarantees a valid list.
    Ok(unsafe { list.slice() })
}

fn failed_to_load(error: bb_c::LoadError) -> Failed {
    Failed::caused(error.kind(), &error)
}

/// `bb_version`: returns the version of the interface.
#[unsafe(no_mangle)]
pub extern "C" fn bb_version() -> u32 {
    bb_c::abi::VERSION
}

/// `bb_load_backend`: registers the backends of a library by name.
///
/// # Safety
///
/// `path` is null or NUL-terminated; `error` is null or a structure of the interface.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bb_load_backend(path: *const c_char, error: *mut Failure) -> Status {
    let body = || {
        speak();
        // SAFETY: the caller upholds the safety contract of this function.
        let path = unsafe { ended(path, "a path") }?;
        bb_c::BackendLibrary::load(path).and_then(|library| library.register()).map_err(failed_to_load)
    };
    // SAFETY: the caller upholds the safety contract of this function.
    unsafe { guarded(error, body) }
}

/// Drops an object that the caller of the interface owned. A panic during the drop, for example in a backend, does not reach the caller.
///
/// # Safety
///
/// `held` is null, or came from [`Box::into_raw`] and was not dropped.
unsafe fn dropped<T>(held: *mut T) {
    let body = || {
        if !held.is_null() {
            // SAFETY: the caller upholds the safety contract of this function.
            drop(unsafe { Box::from_raw(held) });
        }
        Ok(())
    };
    // SAFETY: `error` is null, because there is no buffer for a message.
    let _panicked = unsafe { guarded(std::ptr::null_mut(), body) };
}
