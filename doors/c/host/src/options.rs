//! Options of sessions and of runs.

use bb::{CancelToken, ErrorKind, Limits, OpenOptions, RunOptions};
use bb_c::abi::{Items, Named, Text};
use bb_c::export::open::{options, text};
use bb_c::failure::Failed;
use std::time::{Duration, Instant};

use crate::{dropped, given};

/// The prefix of options that are limits on untrusted models.
const LIMITS: &str = "limits.";

/// Parses the options of a session: options of the backend, and limits.
///
/// # Errors
///
/// If a number cannot be parsed, or a limit does not exist.
pub(crate) fn of_session(pairs: &[Named]) -> Result<(OpenOptions, Limits), Failed> {
    let (mut limits, mut rest) = (Limits::default(), Vec::new());
    for pair in pairs {
        let (name, value) = (text(pair.name)?, text(pair.value)?);
        if let Some(limit) = name.strip_prefix(LIMITS) {
            limits.set(limit, value).map_err(|error| Failed::of(&error.into()))?;
        } else if let Some(limit) = name.strip_prefix("limit.") {
            let message = format!("there is no option `{name}`; did you mean `{LIMITS}{limit}`?");
            return Err(Failed::new(ErrorKind::Configuration, message));
        } else {
            rest.push(Named { name: pair.name, value: pair.value });
        }
    }
    Ok((options(&rest)?, limits))
}

/// `bb_cancel`: a token that cancels runs.
#[derive(Debug, Default)]
pub struct Cancel(CancelToken);

/// `bb_run_options`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct HostRunOptions {
    size: usize,
    timeout_ms: u64,
    cancel: *const Cancel,
    values: Items<Text>,
}

impl HostRunOptions {
    /// Reads the caller's structure, which may be shorter; missing fields are empty.
    ///
    /// # Errors
    ///
    /// A wrong input if the size of the structure is not set.
    ///
    /// # Safety
    ///
    /// The pointer is null, or points to a structure whose first field is its size in bytes.
    pub(crate) unsafe fn read(options: *const HostRunOptions) -> Result<HostRunOptions, Failed> {
        let none = Items { items: std::ptr::null(), count: 0 };
        let mut all = HostRunOptions { size: 0, timeout_ms: 0, cancel: std::ptr::null(), values: none };
        if !options.is_null() {
            // SAFETY: the structure begins with its size in bytes, and does not overlap `all`.
            unsafe {
                let size = options.cast::<usize>().read();
                if size < size_of::<usize>() {
                    let text = format!(
                        "`bb_run_options` has the size {size}: set `size` to `sizeof(bb_run_options)`"
                    );
                    return Err(Failed::new(ErrorKind::WrongInput, text));
                }
                let length = size.min(size_of::<HostRunOptions>());
                let to = (&raw mut all).cast::<u8>();
                std::ptr::copy_nonoverlapping(options.cast::<u8>(), to, length);
            }
        }
        Ok(all)
    }

    /// Returns the options that can end the run early: the deadline and the cancellation token.
    ///
    /// # Safety
    ///
    /// `cancel` is null, or was created and not freed.
    pub(crate) unsafe fn ends(&self) -> Option<RunOptions> {
        let mut ends = None;
        if self.timeout_ms > 0 {
            // A timeout that exceeds the range of the clock is no limit.
            let deadline = Instant::now().checked_add(Duration::from_millis(self.timeout_ms));
            ends = deadline.map(|deadline| RunOptions::default().with_deadline(deadline));
        }
        // SAFETY: the caller guarantees valid pointers.
        match unsafe { self.cancel.as_ref() } {
            Some(Cancel(token)) => Some(ends.unwrap_or_default().with_cancel(token)),
            None => ends,
        }
    }

    /// Returns the names of the values that the run returns. An empty list means all outputs.
    ///
    /// # Errors
    ///
    /// If a name is not UTF-8.
    ///
    /// # Safety
    ///
    /// The list is valid as described in the header.
    pub(crate) unsafe fn values<'a>(&self) -> Result<Vec<&'a str>, Failed> {
        // SAFETY: the caller guarantees valid pointers.
        unsafe { given(self.values, "the list of values") }?.iter().map(|name| text(*name)).collect()
    }
}

/// `bb_cancel_new`.
#[unsafe(no_mangle)]
pub extern "C" fn bb_cancel_new() -> *mut Cancel {
    Box::into_raw(Box::default())
}

/// `bb_cancel_runs`: cancels the runs that use the token.
///
/// # Safety
///
/// `cancel` is null, or was created and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bb_cancel_runs(cancel: *const Cancel) {
    // SAFETY: the caller guarantees valid pointers.
    if let Some(Cancel(token)) = unsafe { cancel.as_ref() } {
        token.cancel();
    }
}

/// `bb_cancel_free`.
///
/// # Safety
///
/// `cancel` is null, or was created and not freed; no run uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bb_cancel_free(cancel: *mut Cancel) {
    // SAFETY: the caller guarantees valid pointers.
    unsafe { dropped(cancel) }
}
