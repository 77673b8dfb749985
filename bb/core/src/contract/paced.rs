//! How loops on the host end with the run that they belong to.

use super::RunOptions;
use crate::Error;
use bb_ir::pace;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The panic payload of a loop that ends with its run.
pub(super) struct Ended(Error);

/// Ends the work around it if its run must end.
fn look() {
    if let Err(error) = RunOptions::check_current() {
        // This calls no panic hook.
        resume_unwind(Box::new(Ended(error)));
    }
}

impl RunOptions {
    /// Calls `work`, whose loops end early if the run that this thread is in must end: the loops of
    /// [`bb::ir`](crate::ir), for example casts and [`memory::collected`](crate::ir::memory::collected), and loops that count their
    /// work with a [`Pace`](crate::ir::pace::Pace).
    ///
    /// A loop that ends early unwinds. So, as with a panic, `work` must leave nothing half done that is used afterwards. In a program
    /// that is compiled with `panic = "abort"`, loops run to their ends.
    ///
    /// # Errors
    ///
    /// [`Error::DeadlineExceeded`] and [`Error::Cancelled`].
    ///
    /// # Examples
    ///
    /// ```
    /// use bb::ir::pace::Pace;
    /// use bb::{CancelToken, Error, RunOptions};
    /// let token = CancelToken::new();
    /// token.cancel();
    /// let endless = || {
    ///     let mut pace = Pace::new();
    ///     loop {
    ///         pace.step(1);
    ///     }
    /// };
    /// let ran: Result<(), Error> = RunOptions::default().with_cancel(&token).within(|| RunOptions::paced(endless));
    /// assert!(matches!(ran, Err(Error::Cancelled)));
    /// ```
    pub fn paced<R>(work: impl FnOnce() -> R) -> Result<R, Error> {
        if !cfg!(panic = "unwind") || !RunOptions::current().bounds() {
            return Ok(work());
        }
        let caught = pace::asked(look, || catch_unwind(AssertUnwindSafe(work)));
        caught.or_else(|panic| match panic.downcast::<Ended>() {
            Ok(ended) => Err(ended.0),
            Err(panic) => resume_unwind(panic),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CancelToken;

    #[test]
    fn only_runs_that_must_end_do() {
        assert!(matches!(RunOptions::paced(pace::ask), Ok(())));
        let token = CancelToken::new();
        let options = RunOptions::default().with_cancel(&token);
        assert!(matches!(options.within(|| RunOptions::paced(pace::ask)), Ok(())));
        token.cancel();
        options.within(|| {
            assert!(matches!(RunOptions::paced(pace::ask), Err(Error::Cancelled)));
            // Outside of it, nothing unwinds.
            pace::ask();
        });
    }

    #[test]
    fn a_panic_goes_on() {
        let options = RunOptions::default().with_cancel(&CancelToken::new());
        let work = || options.within(|| RunOptions::paced(|| resume_unwind(Box::new(7))));
        let panicked = catch_unwind(AssertUnwindSafe(work));
        assert_eq!(panicked.err().and_then(|panic| panic.downcast::<i32>().ok()), Some(Box::new(7)));
    }
}
