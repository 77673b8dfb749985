//! Ends loops on the host when their run must end.

use super::RunOptions;
use crate::Error;
use bb_ir::pace;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The panic payload of a loop that is stopped because its run must end.
pub(super) struct Ended(Error);

/// Unwinds the surrounding work if its run must end.
fn look() {
    if let Err(error) = RunOptions::check_current() {
        // Unlike `panic!`, `resume_unwind` does not call the panic hook.
        resume_unwind(Box::new(Ended(error)));
    }
}

impl RunOptions {
    /// Calls `work`, and stops its loops early if the current run of this thread must end. This covers the loops of
    /// [`bb::ir`](crate::ir), for example casts and [`memory::collected`](crate::ir::memory::collected), and loops that
    /// count their work with a [`Pace`](crate::ir::pace::Pace).
    ///
    /// A loop that stops early unwinds. So, as with a panic, `work` must not leave data half updated that is used
    /// afterwards. In a program that is compiled with `panic = "abort"`, loops are not stopped early.
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
            // Outside `paced`, nothing unwinds.
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
