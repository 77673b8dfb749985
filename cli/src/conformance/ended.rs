//! Reports the cases of `--in-process` if a backend ends the process, for example with `exit(0)`.
//!
//! C's `atexit` runs the report. A process that ends in another way (`_exit`, `abort`, a signal) ends without it;
//! [`crash`](super::crash) names the case that ran when a signal came.

use std::sync::Mutex;

/// The report of the process that is running cases.
static REPORT: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);

/// While it exists, a process that ends runs a report first, and then has the exit status 1.
pub(super) struct Guard(());

impl Guard {
    /// Creates the guard. `report` runs if the process ends before the guard is dropped.
    #[expect(unsafe_code, reason = "the standard library has no `atexit`")]
    pub(super) fn new(report: impl FnOnce() + Send + 'static) -> Guard {
        static REGISTERED: std::sync::Once = std::sync::Once::new();
        set(Some(Box::new(report)));
        REGISTERED.call_once(|| {
            // SAFETY: the function has the signature that `atexit` expects, and exists until the process ends, because it is
            // in the program itself. It does not unwind: a panic in a function of the C ABI ends the process. If it cannot be
            // registered, the process ends without a report.
            let _registered = unsafe { libc::atexit(ended) };
        });
        Guard(())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        set(None);
    }
}

fn set(report: Option<Box<dyn FnOnce() + Send>>) {
    *REPORT.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = report;
}

#[expect(unsafe_code, reason = "a function of `atexit` must not call `exit`")]
extern "C" fn ended() {
    // If the lock is held, the guard is being created or dropped, so that no case is running.
    let report = REPORT.try_lock().ok().and_then(|mut report| report.take());
    if let Some(report) = report {
        report();
        // SAFETY: `_exit` ends the process at once, and needs no state of it.
        unsafe { libc::_exit(1) }
    }
}
