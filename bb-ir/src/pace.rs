//! Cancellation of loops on the host.
//!
//! Runs and deadlines are defined outside of this crate. A caller that starts long work passes a function that decides
//! whether the work continues ([`asked`]). Loops whose length depends on a model or its data call this function after each
//! [`STRETCH`] units of work: a [`Pace`] counts the units, and [`ask`] calls the function. The function returns if the work
//! may continue. Otherwise it unwinds, so that loops need no error path of their own: iterators and the comparisons of a
//! sort have none.

use std::cell::Cell;

/// The units of work between two calls of the function. A unit takes some nanoseconds: for example a comparison, a step of
/// an automaton, or the lookup of an element. So the function is called about every millisecond.
pub const STRETCH: usize = 1 << 16;

/// The number of bytes that are copied between two calls of the function. Copying them takes about a millisecond.
pub(crate) const BYTES: usize = 1 << 22;

thread_local! {
    /// The cancellation function of this thread's current work.
    static ASK: Cell<Option<fn()>> = const { Cell::new(None) };
}

/// Calls `work`. Loops in `work` regularly call `ask` on this thread, which may unwind through them.
pub fn asked<R>(ask: fn(), work: impl FnOnce() -> R) -> R {
    /// A guard that restores the previous function, also after unwinding.
    struct AskGuard(Option<fn()>);
    impl Drop for AskGuard {
        fn drop(&mut self) {
            ASK.set(self.0);
        }
    }
    let _before = AskGuard(ASK.replace(Some(ask)));
    work()
}

/// Calls the function that the current work of this thread was started with ([`asked`]), if there is one.
#[inline(never)]
pub fn ask() {
    if let Some(ask) = ASK.get() {
        ask();
    }
}

/// A counter of a loop's work, which calls the function after each [`STRETCH`] units.
///
/// # Examples
///
/// ```
/// use bb_ir::pace::{Pace, STRETCH, asked};
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// static CALLS: AtomicUsize = AtomicUsize::new(0);
/// asked(|| drop(CALLS.fetch_add(1, Ordering::Relaxed)), || {
///     let mut pace = Pace::new();
///     (0..3 * STRETCH).for_each(|_| pace.step(1));
/// });
/// assert_eq!(CALLS.load(Ordering::Relaxed), 3);
/// ```
#[derive(Debug)]
pub struct Pace {
    /// The units of work that remain until the next call of the function.
    left: usize,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace::new()
    }
}

impl Pace {
    /// Creates a counter at zero.
    pub const fn new() -> Pace {
        Pace { left: STRETCH }
    }

    /// Counts `units` units of work.
    #[inline]
    pub fn step(&mut self, units: usize) {
        if units < self.left {
            self.left -= units;
        } else {
            self.left = STRETCH;
            ask();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{catch_unwind, resume_unwind};

    thread_local! {
        static CALLS: Cell<usize> = const { Cell::new(0) };
    }

    fn count() {
        CALLS.set(CALLS.get() + 1);
    }

    #[test]
    fn the_function_holds_for_the_work_alone_and_the_innermost_counts() {
        fn end() {
            resume_unwind(Box::new("end"));
        }
        assert!(catch_unwind(|| asked(end, ask)).is_err());
        ask();
        asked(end, || {
            asked(count, ask);
            assert_eq!(CALLS.get(), 1);
        });
    }

    #[test]
    fn long_steps_and_short_ones_count() {
        CALLS.set(0);
        asked(count, || {
            let mut pace = Pace::new();
            pace.step(STRETCH - 1);
            assert_eq!(CALLS.get(), 0);
            pace.step(1);
            assert_eq!(CALLS.get(), 1);
            pace.step(usize::MAX);
            assert_eq!(CALLS.get(), 2);
        });
    }
}
