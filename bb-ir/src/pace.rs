//! Cancellation of loops on the host.
//!
//! Runs and deadlines are outside of this crate. A caller that starts long work passes a function for that time ([`asked`]).
//! Loops whose length depends on a model or its data call the function after each [`STRETCH`] of work: a [`Pace`] counts the
//! work, and [`ask`] calls the function. The function returns if the work may continue. Otherwise it unwinds, so that a loop
//! needs no error path of its own: comparisons of a sort and iterators have none.

use std::cell::Cell;

/// The units of work between two calls of the function. A unit takes some nanoseconds: a comparison, a step of an automaton,
/// an element that is looked up. So the function is called about every millisecond.
pub const STRETCH: usize = 1 << 16;

/// The bytes that are copied between two calls of the function. Copying them takes about a millisecond.
pub(crate) const BYTES: usize = 1 << 22;

thread_local! {
    /// The function for the current work of this thread.
    static ASK: Cell<Option<fn()>> = const { Cell::new(None) };
}

/// Calls `work`; loops in it regularly call `ask` on this thread, which may unwind through them.
pub fn asked<R>(ask: fn(), work: impl FnOnce() -> R) -> R {
    /// Restores the previous function, also after unwinding.
    struct AskGuard(Option<fn()>);
    impl Drop for AskGuard {
        fn drop(&mut self) {
            ASK.set(self.0);
        }
    }
    let _before = AskGuard(ASK.replace(Some(ask)));
    work()
}

/// Calls the function for the current work of this thread, if there is one.
#[inline(never)]
pub fn ask() {
    if let Some(ask) = ASK.get() {
        ask();
    }
}

/// Counts the work of a loop, and calls the function after each [`STRETCH`] of it.
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
    /// The units until the function is called.
    left: usize,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace::new()
    }
}

impl Pace {
    /// Begins to count.
    pub const fn new() -> Pace {
        Pace { left: STRETCH }
    }

    /// Counts a step of `units` units.
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
