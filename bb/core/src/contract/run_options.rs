//! Options that end a run: deadlines and cancellation.

use crate::Error;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The conditions that end a run early.
///
/// A run that is stopped returns [`Error::DeadlineExceeded`] or [`Error::Cancelled`] and, like a failed run, leaves no
/// partial results. The conditions are checked at each node and step while a model is checked, compiled and planned,
/// between the operations of a plan or of a body, between the iterations of a loop, during waits for a backend, and
/// inside kernels that call [`RunOptions::check_current`].
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
pub struct RunOptions(Option<Arc<Ends>>);

/// The conditions that end a run.
#[derive(Clone, Default)]
struct Ends {
    deadline: Option<Instant>,
    tokens: Vec<CancelToken>,
    watches: Vec<Watch>,
}

/// A caller's function that returns whether a run must end.
type Watch = Arc<dyn Fn() -> bool + Send + Sync>;

impl std::fmt::Debug for Ends {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Ends { deadline, tokens, watches } = self;
        f.debug_struct("Ends")
            .field("deadline", deadline)
            .field("tokens", tokens)
            .field("watches", &watches.len())
            .finish()
    }
}

/// A token that stops the runs that it was passed to, from any thread. Clones stop the same runs.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Creates a token.
    pub fn new() -> CancelToken {
        CancelToken::default()
    }

    /// Stops all runs with this token, including runs that have not begun.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether [`cancel`](Self::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

thread_local! {
    /// The combined options of all nested runs on this thread.
    static CURRENT: Cell<RunOptions> = const { Cell::new(RunOptions(None)) };
}

impl RunOptions {
    /// Returns the same options with a deadline. If there are several deadlines, the earliest applies.
    pub fn with_deadline(mut self, deadline: Instant) -> RunOptions {
        let ends = self.ends();
        ends.deadline = Some(ends.deadline.map_or(deadline, |known| known.min(deadline)));
        self
    }

    /// Returns the same options with a token that stops the run. If there are several tokens, each of them stops the
    /// run.
    pub fn with_cancel(mut self, token: &CancelToken) -> RunOptions {
        self.ends().tokens.push(token.clone());
        self
    }

    /// Returns the same options with a function that stops the run with [`Error::Cancelled`] once it returns true.
    ///
    /// The function is called wherever a run checks whether it must end, on the thread of the run and on the threads of
    /// its kernels. So it must be quick, and it must not wait for the run. A binding for another language can poll the
    /// signals of its interpreter here.
    ///
    /// # Examples
    ///
    /// ```
    /// use bb::{Error, RunOptions};
    /// let options = RunOptions::default().with_watch(|| std::path::Path::new("stop").exists());
    /// assert!(options.within(RunOptions::check_current).is_ok());
    /// ```
    pub fn with_watch(mut self, watch: impl Fn() -> bool + Send + Sync + 'static) -> RunOptions {
        self.ends().watches.push(Arc::new(watch));
        self
    }

    fn ends(&mut self) -> &mut Ends {
        Arc::make_mut(self.0.get_or_insert_default())
    }

    /// Returns the combined options of the runs on this thread; if there is no run, returns options that never end a
    /// run.
    ///
    /// The options apply to one thread. A backend with its own threads passes the options to them.
    ///
    /// # Examples
    ///
    /// ```
    /// let options = bb::RunOptions::current();
    /// let other = std::thread::spawn(move || options.within(|| 1 + 1));
    /// assert_eq!(other.join().ok(), Some(2));
    /// ```
    pub fn current() -> RunOptions {
        let current = CURRENT.take();
        CURRENT.set(current.clone());
        current
    }

    /// Calls `f`. Every run that `f` starts on this thread ends when these options, or the surrounding options, end it.
    pub fn within<R>(&self, f: impl FnOnce() -> R) -> R {
        /// Restores the previous options, also after a panic.
        struct OptionsGuard(RunOptions);
        impl Drop for OptionsGuard {
            fn drop(&mut self) {
                CURRENT.set(std::mem::take(&mut self.0));
            }
        }
        let Some(ends) = &self.0 else { return f() };
        let outer = RunOptions::current();
        let mut both = self.clone();
        if let Some(outer) = &outer.0
            && !Arc::ptr_eq(outer, ends)
        {
            let inner = both.ends();
            inner.deadline = inner.deadline.into_iter().chain(outer.deadline).min();
            inner.tokens.extend_from_slice(&outer.tokens);
            inner.watches.extend_from_slice(&outer.watches);
        }
        CURRENT.set(both);
        let _before = OptionsGuard(outer);
        f()
    }

    /// Polls a future. Its runs end when these options end them, on whichever thread it is polled.
    ///
    /// A deadline does not wake a future that waits for a backend, so combine it with a timer of the executor. Dropping
    /// the future also ends the run.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn search(model: &bb::Deployment, query: &bb::Value) -> Result<Vec<bb::Value>, bb::Error> {
    /// let token = bb::CancelToken::new();
    /// let options = bb::RunOptions::default().with_cancel(&token);
    /// options.within_async(model.run_async(&[Some(query)])).await
    /// # }
    /// ```
    pub async fn within_async<F: Future>(&self, future: F) -> F::Output {
        let mut future = std::pin::pin!(future);
        std::future::poll_fn(|cx| self.within(|| future.as_mut().poll(cx))).await
    }

    /// Returns an error if the current run of this thread must end.
    ///
    /// A kernel that may take longer than 10 ms calls this regularly, and returns the error. Each call takes a few
    /// nanoseconds without options, and about 50 ns with a deadline.
    ///
    /// # Errors
    ///
    /// [`Error::DeadlineExceeded`] and [`Error::Cancelled`].
    #[inline]
    pub fn check_current() -> Result<(), Error> {
        let current = CURRENT.take();
        if current.0.is_none() {
            return Ok(());
        }
        let checked = current.check();
        CURRENT.set(current);
        checked
    }

    /// Returns whether these options contain a condition that can end a run.
    #[inline]
    pub(crate) fn bounds(&self) -> bool {
        self.0.is_some()
    }

    /// Returns an error if a run with these options must end.
    ///
    /// # Errors
    ///
    /// [`Error::DeadlineExceeded`] and [`Error::Cancelled`].
    #[inline]
    pub(crate) fn check(&self) -> Result<(), Error> {
        match &self.0 {
            None => Ok(()),
            Some(ends) => ends.check(),
        }
    }
}

impl Ends {
    fn check(&self) -> Result<(), Error> {
        if self.tokens.iter().any(CancelToken::is_cancelled) {
            return Err(Error::Cancelled);
        }
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(Error::DeadlineExceeded);
        }
        if self.watches.iter().any(|watch| watch()) {
            return Err(Error::Cancelled);
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
        let both = past.with_deadline(later);
        assert!(
            matches!(both.within(RunOptions::check_current), Err(Error::DeadlineExceeded)),
            "the earliest"
        );
    }

    #[test]
    fn a_watch_ends_a_run_inside_others_and_elsewhere() {
        let (asked, end) = (Arc::new(AtomicBool::new(false)), CancelToken::new());
        let watch = {
            let (asked, end) = (asked.clone(), end.clone());
            move || {
                asked.store(true, Ordering::Relaxed);
                end.is_cancelled()
            }
        };
        let later = Instant::now() + Duration::from_secs(3600);
        RunOptions::default().with_watch(watch).within(|| {
            RunOptions::default().with_deadline(later).within(|| {
                assert!(RunOptions::check_current().is_ok());
                assert!(asked.load(Ordering::Relaxed));
                end.cancel();
                assert!(matches!(RunOptions::check_current(), Err(Error::Cancelled)));
                let options = RunOptions::current();
                let there = std::thread::spawn(move || options.within(RunOptions::check_current)).join();
                assert!(matches!(there, Ok(Err(Error::Cancelled))));
            });
        });
        assert!(RunOptions::check_current().is_ok());
    }

    #[test]
    fn another_thread_takes_the_options_over() {
        let token = CancelToken::new();
        let there = RunOptions::default().with_cancel(&token).within(|| {
            let options = RunOptions::current();
            token.cancel();
            std::thread::spawn(move || options.within(RunOptions::check_current)).join()
        });
        assert!(matches!(there, Ok(Err(Error::Cancelled))));
        assert!(!RunOptions::current().bounds());
    }
}
