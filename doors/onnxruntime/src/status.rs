//! The result of a call: null for success, or an object with a code and a message. Panics are caught and become a status.
#![expect(non_snake_case, reason = "the names of ONNX Runtime")]

use crate::error::CallError;
use crate::release::releases;
use bb_core::runtime::catch;
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::{null, null_mut};

pub(crate) type Result<T> = std::result::Result<T, CallError>;

/// `OrtStatus`: an error.
#[derive(Debug)]
pub(crate) struct OrtStatus {
    code: c_int,
    message: CString,
}

/// The result of a function.
pub(crate) type RawStatus = *mut OrtStatus;

/// Creates the status of an error.
pub(crate) fn failed(error: &CallError) -> RawStatus {
    made(error.code() as c_int, &bb_core::error::causes(error))
}

fn made(code: c_int, message: &str) -> RawStatus {
    let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
    Box::into_raw(Box::new(OrtStatus { code, message }))
}

/// Runs `f`, and converts its error or panic to a status.
pub(crate) fn guarded(f: impl FnOnce() -> Result<()>) -> RawStatus {
    match catch(f).unwrap_or_else(|message| Err(CallError::Panicked { message })) {
        Ok(()) => null_mut(),
        Err(error) => failed(&error),
    }
}

/// Defines functions of the table.
///
/// The body of a function runs inside `guarded`, in one unsafe block. Its use of the arguments is sound if the caller conforms to ONNX
/// Runtime's header: pointers are null or point to objects that this library created and that were not released; strings are
/// zero-terminated; lists have the length of their count argument.
macro_rules! functions {
    ($( $(#[$doc:meta])* $name:ident($($argument:ident: $ty:ty),* $(,)?) $body:block )*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// The pointers are null, or conform to the header of ONNX Runtime for the function of this name.
        #[allow(clippy::too_many_arguments, reason = "the function of the header has as many")]
        pub(crate) unsafe extern "system" fn $name($($argument: $ty),*) -> $crate::status::RawStatus {
            $crate::status::guarded(|| {
                // SAFETY: the caller guarantees that the arguments conform to the header. The functions that read them report null as an
                // error.
                #[allow(unused_unsafe, reason = "some functions use no pointer")]
                unsafe { $body }
            })
        }
    )*};
}
pub(crate) use functions;

/// Creates a status.
///
/// # Safety
///
/// The message is null or a zero-terminated string.
pub(crate) unsafe extern "system" fn CreateStatus(code: c_int, message: *const c_char) -> RawStatus {
    let message = match message.is_null() {
        true => CString::default(),
        // SAFETY: the caller upholds the safety contract of this function.
        false => unsafe { CStr::from_ptr(message) }.to_owned(),
    };
    Box::into_raw(Box::new(OrtStatus { code, message }))
}

/// Returns the code of a status, or 0 (success) for null.
///
/// # Safety
///
/// The pointer is null or a status.
pub(crate) unsafe extern "system" fn GetErrorCode(status: *const OrtStatus) -> c_int {
    // SAFETY: the caller upholds the safety contract of this function.
    unsafe { status.as_ref() }.map_or(0, |status| status.code)
}

/// Returns the message of a status, which lives as long as the status. Returns null for null.
///
/// # Safety
///
/// The pointer is null or a status.
pub(crate) unsafe extern "system" fn GetErrorMessage(status: *const OrtStatus) -> *const c_char {
    // SAFETY: the caller upholds the safety contract of this function.
    unsafe { status.as_ref() }.map_or(null(), |status| status.message.as_ptr())
}

releases! {
    ReleaseStatus(OrtStatus);
}

/// Returns the status for a function that this library does not implement.
pub(crate) fn absent(function: &'static str) -> RawStatus {
    failed(&CallError::Absent { function })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    #[test]
    fn a_panic_is_a_status() {
        let status = guarded(|| panic!("of a test"));
        // SAFETY: the status was just made.
        let (code, message) = unsafe { (GetErrorCode(status), CStr::from_ptr(GetErrorMessage(status))) };
        assert_eq!((code, message.to_str()), (Code::RuntimeException as c_int, Ok("panicked: of a test")));
        // SAFETY: the status was not released.
        unsafe { ReleaseStatus(status) };
    }
}
