//! Maps from strings to strings: `OrtKeyValuePairs`. The functions cannot report errors, so they ignore null and strings that are not
//! UTF-8.
#![expect(non_snake_case, reason = "the names of ONNX Runtime")]

use crate::arguments::OutPlace;
use crate::release::{quiet, releases};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};
use std::ptr::null;

/// `OrtKeyValuePairs`.
#[derive(Debug, Default)]
pub(crate) struct OrtKeyValuePairs {
    pairs: BTreeMap<CString, CString>,
    keys: Vec<*const c_char>,
    values: Vec<*const c_char>,
}

impl OrtKeyValuePairs {
    /// Creates pairs.
    pub(crate) fn of(pairs: BTreeMap<CString, CString>) -> OrtKeyValuePairs {
        let mut made = OrtKeyValuePairs { pairs, ..OrtKeyValuePairs::default() };
        made.point();
        made
    }

    /// Updates the pointers to the strings after a change.
    fn point(&mut self) {
        self.keys = self.pairs.keys().map(|key| key.as_ptr()).collect();
        self.values = self.pairs.values().map(|value| value.as_ptr()).collect();
    }
}

/// Creates an empty list of pairs.
///
/// # Safety
///
/// The pointer is null or points to memory for a pointer.
pub(crate) unsafe extern "system" fn CreateKeyValuePairs(out: *mut *mut OrtKeyValuePairs) {
    // SAFETY: the caller upholds the safety contract of this function.
    if let Ok(out) = unsafe { OutPlace::at(out, "a place for pairs") } {
        out.give(OrtKeyValuePairs::default());
    }
}

/// Adds a pair, or replaces the value of a key.
///
/// # Safety
///
/// The pointers are null, or point to pairs that no other code uses and to zero-terminated strings.
pub(crate) unsafe extern "system" fn AddKeyValuePair(
    pairs: *mut OrtKeyValuePairs,
    key: *const c_char,
    value: *const c_char,
) {
    // SAFETY: the caller upholds the safety contract of this function.
    let Some(pairs) = (unsafe { pairs.as_mut() }) else { return };
    if key.is_null() || value.is_null() {
        return;
    }
    // SAFETY: the caller upholds the safety contract of this function, and no pointer is null.
    let (key, value) = unsafe { (CStr::from_ptr(key), CStr::from_ptr(value)) };
    quiet((), || {
        if !key.is_empty() {
            pairs.pairs.insert(key.to_owned(), value.to_owned());
            pairs.point();
        }
    });
}

/// Returns the value of a key, or null if the key does not exist. The value lives until the pairs are changed.
///
/// # Safety
///
/// The pointers are null, or point to pairs and to a zero-terminated string.
pub(crate) unsafe extern "system" fn GetKeyValue(
    pairs: *const OrtKeyValuePairs,
    key: *const c_char,
) -> *const c_char {
    // SAFETY: the caller upholds the safety contract of this function.
    let Some(pairs) = (unsafe { pairs.as_ref() }) else { return null() };
    if key.is_null() {
        return null();
    }
    // SAFETY: the caller upholds the safety contract of this function, and no pointer is null.
    let key = unsafe { CStr::from_ptr(key) };
    pairs.pairs.get(key).map_or(null(), |value| value.as_ptr())
}

/// Returns pointers to all keys and values, which live until the pairs are changed.
///
/// # Safety
///
/// The pointers are null, or point to pairs and to memory for the results.
pub(crate) unsafe extern "system" fn GetKeyValuePairs(
    pairs: *const OrtKeyValuePairs,
    keys: *mut *const *const c_char,
    values: *mut *const *const c_char,
    count: *mut usize,
) {
    // SAFETY: the caller upholds the safety contract of this function.
    let Some(pairs) = (unsafe { pairs.as_ref() }) else { return };
    // SAFETY: the caller upholds the safety contract of this function.
    let places = unsafe {
        (OutPlace::at(keys, "keys"), OutPlace::at(values, "values"), OutPlace::at(count, "a count"))
    };
    if let (Ok(keys), Ok(values), Ok(count)) = places {
        keys.put(pairs.keys.as_ptr());
        values.put(pairs.values.as_ptr());
        count.put(pairs.keys.len());
    }
}

/// Removes a pair.
///
/// # Safety
///
/// The pointers are null, or point to pairs that no other code uses and to a zero-terminated string.
pub(crate) unsafe extern "system" fn RemoveKeyValuePair(pairs: *mut OrtKeyValuePairs, key: *const c_char) {
    // SAFETY: the caller upholds the safety contract of this function.
    let Some(pairs) = (unsafe { pairs.as_mut() }) else { return };
    if !key.is_null() {
        // SAFETY: the caller upholds the safety contract of this function, and no pointer is null.
        let key = unsafe { CStr::from_ptr(key) };
        quiet((), || {
            pairs.pairs.remove(key);
            pairs.point();
        });
    }
}

releases! {
    ReleaseKeyValuePairs(OrtKeyValuePairs);
}
