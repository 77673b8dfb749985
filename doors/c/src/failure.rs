//! Why a function of the interface failed, on the side that implements it.

use crate::abi::{Failure, Status, status};
use bb_ir::ErrorKind;

/// A status and a text.
#[derive(Debug, Clone)]
pub struct Failed {
    status: Status,
    text: String,
}

impl Failed {
    /// Makes a failure of a kind.
    pub fn new(kind: ErrorKind, text: impl Into<String>) -> Failed {
        Failed { status: status::of(kind), text: text.into() }
    }

    /// Adds the subject of the failure: `input`, and its name.
    #[must_use]
    pub fn about(self, what: &str, name: &str) -> Failed {
        Failed { text: format!("{what} `{}`: {}", bb_ir::text::shown(name), self.text), ..self }
    }

    /// Makes a failure of an error of `bb`, with its causes.
    pub fn of(error: &bb_core::Error) -> Failed {
        Failed::caused(error.kind(), error)
    }

    /// Makes a failure of an error of any type, with its causes.
    pub fn caused(kind: ErrorKind, error: &(dyn std::error::Error + 'static)) -> Failed {
        Failed::new(kind, bb_core::error::causes(error))
    }
}

/// Runs code for a caller in C: a panic does not leave it, and an error becomes a status and a text.
///
/// # Safety
///
/// `error` is null, or points to a structure whose `text` holds `capacity` bytes.
pub unsafe fn guarded(error: *mut Failure, body: impl FnOnce() -> Result<(), Failed>) -> Status {
    let failed = match bb_core::runtime::catch(body) {
        Ok(Ok(())) => return status::OK,
        Ok(Err(failed)) => failed,
        Err(message) => Failed { status: status::PANICKED, text: message },
    };
    // SAFETY: what the caller promises.
    unsafe { write(error, &failed.text) };
    failed.status
}

/// Writes the text of an error, cut to what there is room for between two characters.
///
/// # Safety
///
/// As [`guarded`].
unsafe fn write(error: *mut Failure, text: &str) {
    // SAFETY: null, or a structure that the caller lends for the call.
    let Some(error) = (unsafe { error.as_mut() }) else { return };
    if error.text.is_null() {
        return;
    }
    let length = text.floor_char_boundary(error.capacity);
    // SAFETY: `text` holds `capacity` bytes, of which `length` are written, and is no memory of ours.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), error.text.cast(), length) };
    error.length = length;
}
