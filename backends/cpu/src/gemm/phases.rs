//! Parallel work in two phases. The second phase begins when the first phase is complete.

use crate::threads::Units;
use crate::{pace, threads};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Signals on drop that this thread unwinds, so that other threads do not wait for its unfinished units.
struct Failing<'a>(&'a AtomicBool);

impl Drop for Failing<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Calls `first` for each of `m` units and, when all calls have returned, `second` for each of `n` units. Uses up to
/// `threads` threads; a free thread takes the next unit.
pub(super) fn share(
    threads: usize,
    m: usize,
    first: impl Fn(usize) + Sync,
    n: usize,
    second: impl Fn(usize) + Sync,
) {
    if threads < 2 {
        (0..m).for_each(first);
        return (0..n).for_each(|i| {
            pace::look();
            second(i);
        });
    }
    let [begun, done] = [const { AtomicUsize::new(0) }; 2];
    let units = Units::new(n, threads);
    let failed = AtomicBool::new(false);
    let work = || {
        let unless_unwinding = Failing(&failed);
        loop {
            let i = begun.fetch_add(1, Ordering::Relaxed);
            if i >= m {
                break;
            }
            first(i);
            // `Release`, so that a thread that sees that all units are done also sees the memory writes of the units.
            done.fetch_add(1, Ordering::Release);
        }
        // Waiting cannot deadlock: a running thread has started each unit that is not done, and it does not wait before
        // that unit is done.
        let mut waited = 0;
        while done.load(Ordering::Acquire) < m {
            if failed.load(Ordering::Relaxed) {
                return;
            }
            waited += 1;
            if waited < 1000 {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        units.each(|i| {
            pace::look();
            second(i);
        });
        std::mem::forget(unless_unwinding);
    };
    threads::share(threads.min(m.max(n)), &work);
}
