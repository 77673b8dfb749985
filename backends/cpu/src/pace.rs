//! How kernels end when the run that they belong to must end.
//!
//! A long kernel periodically checks whether its run must end ([`bb::RunOptions`]). It then unwinds through its loops, so that no code
//! reads an unfinished result, and [`caught`] converts the unwinding to an error.

use crate::error::Result;
use bb::RunOptions;
use bb::ir::pace::asked;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The number of elements after which a loop over cheap operations checks. They take a few milliseconds.
pub(crate) const STRETCH: usize = 1 << 22;

/// The payload that a kernel unwinds with.
struct Ended(bb::Error);

#[cfg(test)]
thread_local! {
    /// The number of checks by kernels on this thread.
    pub(crate) static LOOKS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Ends the kernel if its run must end. A program that aborts on panics cannot unwind, so there the kernel continues.
///
/// It may be called only inside [`caught`].
#[inline(never)]
pub(crate) fn look() {
    #[cfg(test)]
    LOOKS.set(LOOKS.get() + 1);
    if cfg!(panic = "unwind")
        && let Err(error) = RunOptions::check_current()
    {
        resume_unwind(Box::new(Ended(error)));
    }
}

/// Runs a kernel; if it ended because of [`look`], the result is the reason.
///
/// # Errors
///
/// [`bb::Error::DeadlineExceeded`] and [`bb::Error::Cancelled`].
#[inline]
pub(crate) fn caught<R>(kernel: impl FnOnce() -> R) -> Result<R> {
    // Nothing that the kernel wrote is used afterwards.
    // The loops of `bb::ir`, for example those that parse numbers from text, check in the same way.
    catch_unwind(AssertUnwindSafe(|| asked(look, kernel))).or_else(|panic| match panic.downcast::<Ended>() {
        Ok(ended) => Err(ended.0.into()),
        Err(panic) => resume_unwind(panic),
    })
}

/// Checks after each stretch of a loop whose steps differ in length.
#[derive(Debug)]
pub(crate) struct Pace(usize);

impl Pace {
    pub(crate) const fn new() -> Pace {
        Pace(STRETCH)
    }

    /// Counts a step over this number of elements.
    #[inline]
    pub(crate) fn step(&mut self, elements: usize) {
        self.0 = self.0.checked_sub(elements).unwrap_or_else(|| {
            look();
            STRETCH
        });
    }
}
