//! Ends a kernel early if the run that it belongs to is cancelled or passes its deadline.
//!
//! A long kernel periodically checks whether its run must end ([`bb::RunOptions`]). If so, it unwinds through its loops, so that no
//! code reads an unfinished result, and [`caught`] converts the panic to an error.

use crate::error::Result;
use bb::RunOptions;
use bb::ir::pace::asked;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The number of elements between two checks of a loop over cheap operations. Processing them takes a few milliseconds.
pub(crate) const STRETCH: usize = 1 << 22;

/// The panic payload of a kernel that ends early.
struct Ended(bb::Error);

#[cfg(test)]
thread_local! {
    /// The number of checks that kernels made on this thread.
    pub(crate) static LOOKS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Checks whether the run must end, and if so unwinds from the kernel. If panics abort the program, the kernel continues.
///
/// Call it only inside [`caught`].
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

/// Runs a kernel. If [`look`] ended it, returns the reason as an error.
///
/// # Errors
///
/// [`bb::Error::DeadlineExceeded`] and [`bb::Error::Cancelled`].
#[inline]
pub(crate) fn caught<R>(kernel: impl FnOnce() -> R) -> Result<R> {
    // `AssertUnwindSafe` is sound because nothing uses the kernel's writes after it unwinds.
    // The loops of `bb::ir`, for example those that parse numbers from strings, also call `look`.
    catch_unwind(AssertUnwindSafe(|| asked(look, kernel))).or_else(|panic| match panic.downcast::<Ended>() {
        Ok(ended) => Err(ended.0.into()),
        Err(panic) => resume_unwind(panic),
    })
}

/// Counts elements, and checks after each [`STRETCH`] of them. For loops whose steps differ in length.
#[derive(Debug)]
pub(crate) struct Pace(usize);

impl Pace {
    pub(crate) const fn new() -> Pace {
        Pace(STRETCH)
    }

    /// Counts a step of `elements` elements, and checks if it completes a stretch.
    #[inline]
    pub(crate) fn step(&mut self, elements: usize) {
        self.0 = self.0.checked_sub(elements).unwrap_or_else(|| {
            look();
            STRETCH
        });
    }
}
