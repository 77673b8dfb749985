//! The failure of an interface function, as the implementing side builds it.

use crate::abi::{Failure, Status, status};
use bb_ir::ErrorKind;
use std::borrow::Cow;

/// A status and a message.
#[derive(Debug, Clone)]
pub struct Failed {
    status: Status,
    text: String,
}

impl Failed {
    /// Creates a failure of a kind.
    pub fn new(kind: ErrorKind, text: impl Into<String>) -> Failed {
        Failed { status: status::of(kind), text: text.into() }
    }

    /// Prepends the subject of the failure to the message, for example `input` and its name.
    #[must_use]
    pub fn about(self, what: &str, name: &str) -> Failed {
        Failed { text: format!("{what} `{}`: {}", bb_ir::text::shown(name), self.text), ..self }
    }

    /// Creates a failure from an error of `bb`, with its causes.
    pub fn of(error: &bb_core::Error) -> Failed {
        Failed::caused(error.kind(), error)
    }

    /// Creates a failure from an error of any type, with its causes.
    pub fn caused(kind: ErrorKind, error: &(dyn std::error::Error + 'static)) -> Failed {
        Failed::new(kind, bb_core::error::causes(error))
    }
}

/// Runs `body` for a caller in C. An error becomes a status and a message; a panic becomes a status, too, and does not reach the caller.
///
/// # Safety
///
/// `error` is null, or points to a structure whose `text` has room for `capacity` bytes.
pub unsafe fn guarded(error: *mut Failure, body: impl FnOnce() -> Result<(), Failed>) -> Status {
    let failed = match bb_core::runtime::catch(body) {
        Ok(Ok(())) => return status::OK,
        Ok(Err(failed)) => failed,
        Err(message) => Failed { status: status::PANICKED, text: message },
    };
    // SAFETY: the caller upholds the safety contract of this function.
    unsafe { write(error, &failed.text) };
    failed.status
}

/// The last character of a message that is cut.
const CUT: &str = "…";

/// Returns the part of a message that fits in `capacity` bytes, at a character boundary. A message that is cut ends with `…`, if the
/// capacity allows it.
pub(crate) fn fitting(text: &str, capacity: usize) -> Cow<'_, str> {
    if text.len() <= capacity {
        return text.into();
    }
    let mark = if capacity < CUT.len() { "" } else { CUT };
    let end = text.floor_char_boundary(capacity - mark.len());
    format!("{}{mark}", text.get(..end).unwrap_or_default()).into()
}

/// Writes the message of an error, cut to the caller's buffer.
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
    let text = fitting(text, error.capacity);
    // SAFETY: `text` is not longer than the `capacity` of the buffer, and the caller's buffer does not overlap our string.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), error.text.cast(), text.len()) };
    error.length = text.len();
}
