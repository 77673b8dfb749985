//! Reads the arguments of calls: pointers to objects, strings, lists, and output pointers.

use crate::error::CallError;
use crate::status::Result;
use std::ffi::{CStr, c_char};
use std::ptr::NonNull;

/// Returns the object behind a pointer.
///
/// # Errors
///
/// [`CallError::Null`].
///
/// # Safety
///
/// The pointer is null or points to an object that lives for `'a` and is changed only through its locks.
pub(crate) unsafe fn object<'a, T>(pointer: *const T, what: &'static str) -> Result<&'a T> {
    // SAFETY: the caller upholds the safety contract of this function.
    unsafe { pointer.as_ref() }.ok_or(CallError::Null { what })
}

/// Returns a zero-terminated string.
///
/// # Errors
///
/// [`CallError::Null`] and [`CallError::Utf8`].
///
/// # Safety
///
/// The pointer is null or points to zero-terminated bytes that live for `'a`.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, what: &'static str) -> Result<&'a str> {
    // SAFETY: the caller upholds the safety contract of this function.
    unsafe { bytes(pointer, what) }?.to_str().map_err(|_| CallError::Utf8 { what })
}

/// Returns the bytes of a zero-terminated string.
///
/// # Errors
///
/// [`CallError::Null`].
///
/// # Safety
///
/// As [`text`].
pub(crate) unsafe fn bytes<'a>(pointer: *const c_char, what: &'static str) -> Result<&'a CStr> {
    if pointer.is_null() {
        return Err(CallError::Null { what });
    }
    // SAFETY: the caller upholds the safety contract of this function.
    Ok(unsafe { CStr::from_ptr(pointer) })
}

/// Returns a list. The pointer may be null if the list is empty.
///
/// # Errors
///
/// [`CallError::Null`].
///
/// # Safety
///
/// The pointer is null or points to `count` items that live for `'a` and are not modified during that time.
pub(crate) unsafe fn list<'a, T>(first: *const T, count: usize, what: &'static str) -> Result<&'a [T]> {
    match (first.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(CallError::Null { what }),
        // SAFETY: the caller upholds the safety contract of this function.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(first, count) }),
    }
}

/// An output pointer of a call. The memory behind it may be uninitialized.
#[derive(Debug)]
pub(crate) struct OutPlace<T>(NonNull<T>);

impl<T> OutPlace<T> {
    /// Checks an output pointer.
    ///
    /// # Errors
    ///
    /// [`CallError::Null`].
    ///
    /// # Safety
    ///
    /// The pointer is null or points to memory for a `T` that no other code uses during the call.
    pub(crate) unsafe fn at(pointer: *mut T, what: &'static str) -> Result<OutPlace<T>> {
        NonNull::new(pointer).map(OutPlace).ok_or(CallError::Null { what })
    }

    /// Writes the result.
    pub(crate) fn put(&self, value: T) {
        // SAFETY: the caller of `at` guarantees memory for the value.
        unsafe { self.0.as_ptr().write(value) };
    }
}

impl<T> OutPlace<*mut T> {
    /// Writes a pointer to a new object, which the program releases.
    pub(crate) fn give(&self, object: T) {
        self.put(Box::into_raw(Box::new(object)));
    }
}

/// Reads a shape. Its extents must not be negative.
///
/// # Errors
///
/// [`CallError::Null`] and [`CallError::Extent`].
///
/// # Safety
///
/// As [`list`].
pub(crate) unsafe fn shape(first: *const i64, rank: usize) -> Result<Vec<usize>> {
    // SAFETY: the caller upholds the safety contract of this function.
    let extents = unsafe { list(first, rank, "extents") }?;
    let extent = |&extent: &i64| usize::try_from(extent).map_err(|_| CallError::Extent { extent });
    extents.iter().map(extent).collect()
}
