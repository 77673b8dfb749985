//! How long a run may take, and how somebody else stops it.

use crate::Error;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// When a run must end.
///
/// A run that is stopped gives [`Error::DeadlineExceeded`] or [`Error::Cancelled`] and leaves behind what a failed run does:
/// nothing. It looks between the operations of a plan or of a body, between the iterations of a loop, while it waits for a backend,
/// and inside the kernels that check [`RunOptions::check_current`].
///
/// # Examples
///
/// ```
/// use bb::{CancelToken, Error, RunOptions};
/// use std::time::{Duration, Instant};
///
/// let token = CancelToken::new();
/// let options = RunOptions::default()
///     .with_deadline(Instant::now() + Duration::from_secs(5))
///     .with_cancel(&token);
/// token.cancel(); // from any thread
/// let ran = options.within(RunOptions::check_current);
/// assert!(matches!(ran, Err(Error::Cancelled)));
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "options do nothing until something runs within them"]
pub struct RunOptions {
    deadline: Option<Instant>,
    cancel: Option<CancelToken>,
}

/// Stops the runs that were given it, from any thread. Clones stop the same runs.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Makes a token.
    pub fn new() -> CancelToken {
        CancelToken::default()
    }

    /// Stops the runs, also those that have not begun.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Tells whether somebody stopped the runs.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The options of the runs that a thread is in, the innermost first.
#[derive(Debug)]
pub(crate) struct Running {
    options: RunOptions,
    outer: Option<Arc<Running>>,
}

thread_local! {
    static RUNNING: Cell<Option<Arc<Running>>> = const { Cell::new(None) };
}

impl RunOptions {
    /// Returns the same options with a deadline.
    pub fn with_deadline(self, deadline: Instant) -> RunOptions {
        RunOptions { deadline: Some(deadline), ..self }
    }

    /// Returns the same options with a token that stops the run.
    pub fn with_cancel(self, token: &CancelToken) -> RunOptions {
        RunOptions { cancel: Some(token.clone()), ..self }
    }

    /// Calls `f`; every run that it starts on this thread ends as these options say, and as those around them say.
    pub fn within<R>(&self, f: impl FnOnce() -> R) -> R {
        if self.deadline.is_none() && self.cancel.is_none() {
            return f();
        }
        Running::within(Some(Arc::new(Running { options: self.clone(), outer: Running::current() })), f)
    }

    /// Tells whether the run that this thread is in must end.
    ///
    /// A kernel that may take longer than 10 ms calls it every now and then, and returns the error. Each call takes some
    /// nanoseconds without options, and about 50 with a deadline.
    ///
    /// # Errors
    ///
    /// [`Error::DeadlineExceeded`] and [`Error::Cancelled`].
    pub fn check_current() -> Result<(), Error> {
        Running::check(Running::current().as_deref())
    }
}

impl Running {
    /// Returns the options of the runs that this thread is in.
    pub(crate) fn current() -> Option<Arc<Running>> {
        let running = RUNNING.take();
        RUNNING.set(running.clone());
        running
    }

    /// Calls `f` in these runs.
    pub(crate) fn within<R>(running: Option<Arc<Running>>, f: impl FnOnce() -> R) -> R {
        /// Restores the runs from before, also after a panic.
        struct Before(Option<Arc<Running>>);
        impl Drop for Before {
            fn drop(&mut self) {
                RUNNING.set(self.0.take());
            }
        }
        let _before = Before(RUNNING.replace(running));
        f()
    }

    /// Tells whether a run must end.
    ///
    /// # Errors
    ///
    /// [`Error::DeadlineExceeded`] and [`Error::Cancelled`].
    #[inline]
    pub(crate) fn check(mut running: Option<&Running>) -> Result<(), Error> {
        while let Some(Running { options, outer }) = running {
            if options.cancel.as_ref().is_some_and(CancelToken::is_cancelled) {
                return Err(Error::Cancelled);
            }
            if options.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(Error::DeadlineExceeded);
            }
            running = outer.as_deref();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn runs_end_as_the_options_around_them_say() {
        assert!(RunOptions::check_current().is_ok());
        let (outer, inner) = (CancelToken::new(), CancelToken::new());
        let later = Instant::now() + Duration::from_secs(3600);
        RunOptions::default().with_cancel(&outer).within(|| {
            RunOptions::default().with_cancel(&inner).with_deadline(later).within(|| {
                assert!(RunOptions::check_current().is_ok());
                inner.cancel();
                assert!(matches!(RunOptions::check_current(), Err(Error::Cancelled)));
            });
            assert!(RunOptions::check_current().is_ok());
            outer.cancel();
            RunOptions::default()
                .within(|| assert!(matches!(RunOptions::check_current(), Err(Error::Cancelled))));
        });
        assert!(RunOptions::check_current().is_ok());
        let past = RunOptions::default().with_deadline(Instant::now());
        assert!(matches!(past.within(RunOptions::check_current), Err(Error::DeadlineExceeded)));
    }
}
