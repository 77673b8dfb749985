//! Wraps ONNX Runtime's functions: they return results instead of statuses, and lists and strings instead of pointers.

mod graphs;
mod tensors;

pub(crate) use graphs::{Extent, TensorType};
pub(crate) use tensors::Elements;

use crate::error::PluginError;
use crate::raw::{API_VERSION, OrtApi, OrtApiBase, OrtEpApi, Status};
use std::ffi::{CStr, CString, c_char};
use std::ptr::{null, null_mut};

pub(crate) type Result<T> = std::result::Result<T, PluginError>;

/// The functions of the library that loaded this plugin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Api {
    table: &'static OrtApi,
    ep: &'static OrtEpApi,
    /// The minor version of the library, as in 1.23.
    pub(crate) minor: u32,
}

/// Creates the status of an error. Uses only functions of the first table of the interface, which every version of the library has.
///
/// # Safety
///
/// `table` is a table of any version of ONNX Runtime.
unsafe fn status_of(table: &OrtApi, error: &PluginError) -> Status {
    let text = crate::error::line(error).replace('\0', " ");
    let text = CString::new(text).unwrap_or_default();
    // SAFETY: the string is NUL-terminated, and ONNX Runtime copies it.
    unsafe { table.create_status(error.code(), text.as_ptr()) }
}

impl Api {
    /// Gets the library's function tables. Returns an error status if the library is too old or returns no table.
    ///
    /// # Safety
    ///
    /// `base` is null or was passed by ONNX Runtime.
    pub(crate) unsafe fn of(base: *const OrtApiBase) -> std::result::Result<Api, Status> {
        // SAFETY: the caller upholds the safety contract of this function.
        let Some(base) = (unsafe { base.as_ref() }) else { return Err(null_mut()) };
        // SAFETY: both functions may be called at any time, and return null or an object that lives as long as the library.
        let (table, version) = unsafe { ((base.get_api)(API_VERSION), (base.get_version_string)()) };
        // SAFETY: the version is null or a zero-terminated string.
        let version = unsafe { text(version) }.unwrap_or_default();
        let minor = version.split('.').nth(1).and_then(|minor| minor.parse().ok()).unwrap_or(API_VERSION);
        let refused = PluginError::Version { needed: API_VERSION, found: version };
        // SAFETY: the pointer is null or a table of version 23, which lives as long as the library.
        if let Some(table) = unsafe { table.as_ref() } {
            // SAFETY: the function has no arguments, and its table lives as long as the library.
            return match unsafe { table.ep_api().as_ref() } {
                Some(ep) => Ok(Api { table, ep, minor }),
                // SAFETY: the table belongs to ONNX Runtime.
                None => Err(unsafe { status_of(table, &refused) }),
            };
        }
        // SAFETY: every library supports version 1, and its table has the function that creates a status.
        match unsafe { (base.get_api)(1).as_ref() } {
            // SAFETY: the table belongs to ONNX Runtime.
            Some(first) => Err(unsafe { status_of(first, &refused) }),
            None => Err(null_mut()),
        }
    }

    /// Returns the main function table.
    pub(crate) fn table(&self) -> &'static OrtApi {
        self.table
    }

    /// Returns the function table for providers.
    pub(crate) fn ep(&self) -> &'static OrtEpApi {
        self.ep
    }

    /// Converts a result to a status, which is null for success.
    pub(crate) fn status(&self, result: Result<()>) -> Status {
        match result {
            Ok(()) => null_mut(),
            // SAFETY: the table belongs to ONNX Runtime.
            Err(error) => unsafe { status_of(self.table, &error) },
        }
    }

    /// Converts a status to a result, and releases the status.
    pub(crate) fn checked(&self, status: Status) -> Result<()> {
        if status.is_null() {
            return Ok(());
        }
        // SAFETY: the status is an error of ONNX Runtime; its message is zero-terminated and lives as long as the status.
        let message = unsafe { text(self.table.error_message(status)) }.unwrap_or_default();
        // SAFETY: this is the only release, and the message was copied.
        unsafe { self.table.release_status(status) };
        Err(PluginError::Runtime { message })
    }

    /// Returns the value that a function writes to its out pointer.
    fn got<T>(&self, empty: T, call: impl FnOnce(*mut T) -> Status) -> Result<T> {
        let mut place = empty;
        self.checked(call(&raw mut place))?;
        Ok(place)
    }

    /// Returns a list, from a function that writes its length and a function that writes its items.
    fn list<T>(
        &self,
        count: impl FnOnce(*mut usize) -> Status,
        fill: impl FnOnce(*mut *const T, usize) -> Status,
    ) -> Result<Vec<*const T>> {
        let count = self.got(0usize, count)?;
        let mut pointers = vec![null(); count];
        if count > 0 {
            self.checked(fill(pointers.as_mut_ptr(), count))?;
        }
        Ok(pointers)
    }

    /// Returns a string, from a function that writes a pointer to it.
    fn text(&self, call: impl FnOnce(*mut *const c_char) -> Status) -> Result<String> {
        let pointer = self.got(null(), call)?;
        // SAFETY: ONNX Runtime returns null or a zero-terminated string that lives as long as the object it belongs to.
        Ok(unsafe { text(pointer) }.unwrap_or_default())
    }
}

/// Copies a string.
///
/// # Safety
///
/// The pointer is null or points to a zero-terminated string.
pub(crate) unsafe fn text(pointer: *const c_char) -> Option<String> {
    // SAFETY: the caller upholds the safety contract of this function.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::ffi::{c_int, c_void};

    thread_local! {
        static MESSAGE: RefCell<String> = const { RefCell::new(String::new()) };
        static TABLE: OrtApi = OrtApi::with(0, create_status as *const c_void);
    }

    /// Stores the message, and returns a pointer that is never dereferenced.
    unsafe extern "system" fn create_status(_code: c_int, message: *const c_char) -> Status {
        // SAFETY: the message is a string of `status_of`.
        MESSAGE.set(unsafe { text(message) }.unwrap_or_default());
        std::ptr::dangling_mut()
    }

    unsafe extern "system" fn only_the_first(version: u32) -> *const OrtApi {
        if version == 1 { TABLE.with(std::ptr::from_ref) } else { null() }
    }

    unsafe extern "system" fn old() -> *const c_char {
        c"1.22.1".as_ptr()
    }

    #[test]
    fn a_library_that_is_too_old_gets_an_error_of_its_own() {
        let base = OrtApiBase { get_api: only_the_first, get_version_string: old };
        // SAFETY: the base has both functions, and they behave like ONNX Runtime's.
        let status = unsafe { Api::of(&raw const base) };
        assert!(matches!(status, Err(status) if !status.is_null()));
        let message = MESSAGE.with_borrow(Clone::clone);
        assert_eq!(message, "expected ONNX Runtime 1.23 or newer, got 1.22.1");
    }

    #[test]
    fn no_base_is_no_crash() {
        // SAFETY: null is allowed.
        assert!(matches!(unsafe { Api::of(null()) }, Err(status) if status.is_null()));
    }
}
