//! Shares the work of kernels with other threads.
//!
//! The thread that calls a kernel works too, and other threads join when they become free. No thread waits for a sleeping thread, because
//! on common cloud machines waking a thread takes as long as a kernel runs.

use crate::gate::{self, GateEntry};
use crate::level::Forced;
use crate::sync::{AtomicUsize, Ordering};
use crate::team::{self, Team};
use bb::RunOptions;
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

thread_local! {
    /// The threads that belong to the backend that this thread computes for; `None` if that backend shares the team of the process.
    static OWN: Cell<Option<Arc<Team>>> = const { Cell::new(None) };

    /// The time at which the last work ended, and the number of recent pieces of work that followed each other closely. Work shared with
    /// other threads counts as several pieces.
    static RECENT: Cell<(Option<Instant>, u32)> = const { Cell::new((None, 0)) };

    /// Whether kernels on this thread do not share their work.
    static ALONE: Cell<bool> = const { Cell::new(false) };

    /// The number of calls that this thread has requested and that no thread has begun yet.
    static WAITING: Arc<AtomicUsize> = Arc::default();
}

/// Runs `f`, whose kernels share their work with these threads.
pub(crate) fn within<R>(threads: &Arc<Team>, f: impl FnOnce() -> R) -> R {
    /// Restores the previous threads, also after a panic.
    struct TeamGuard(Option<Arc<Team>>);
    impl Drop for TeamGuard {
        fn drop(&mut self) {
            OWN.set(self.0.take());
        }
    }
    let _before = TeamGuard(OWN.replace(Some(threads.clone())));
    f()
}

/// Runs `f`, whose kernels do all their work on this thread. For code that is itself a part of shared work.
pub(crate) fn alone<R>(f: impl FnOnce() -> R) -> R {
    /// Restores the previous value, also after a panic.
    struct AloneGuard(bool);
    impl Drop for AloneGuard {
        fn drop(&mut self) {
            ALONE.set(self.0);
        }
    }
    let _before = AloneGuard(ALONE.replace(true));
    f()
}

/// Returns the threads that belong to the backend that this thread computes for; `None` if that backend shares the team of the process.
fn own() -> Option<Arc<Team>> {
    let threads = OWN.take();
    OWN.set(threads.clone());
    threads
}

/// Calls `f` with the team that kernels called on this thread share their work with. `None` means rayon's threads, if this is one of
/// them: in a program that computes on rayon's threads, further threads would only compete with them.
fn with_team<R>(f: impl FnOnce(Option<&Team>) -> R) -> R {
    let own = OWN.take();
    let result = match &own {
        Some(own) => f(Some(own)),
        None if rayon::current_thread_index().is_some() => f(None),
        None => f(Some(Team::of_process())),
    };
    OWN.set(own);
    result
}

#[cfg(test)]
thread_local! {
    /// The number of threads that [`as_if`] sets.
    static FORCED: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Runs `f`, whose kernels divide even short work as they do for `threads` threads. This thread computes all parts.
#[cfg(test)]
pub(crate) fn as_if<R>(threads: usize, f: impl FnOnce() -> R) -> R {
    let before = FORCED.replace(Some(threads));
    let result = f();
    FORCED.set(before);
    result
}

/// Returns the number of threads that a test forces.
#[cfg(test)]
pub(crate) fn forced() -> Option<usize> {
    FORCED.get()
}

#[cfg(not(test))]
pub(crate) const fn forced() -> Option<usize> {
    None
}

/// Returns the number of threads that a kernel may use.
pub(crate) fn count() -> usize {
    if let Some(threads) = forced() {
        return threads;
    }
    // A WebAssembly module without threads has no clock either, and sharing work requires a clock.
    if ALONE.get() || cfg!(all(target_family = "wasm", not(target_feature = "atomics"))) {
        return 1;
    }
    with_team(|team| team.map_or_else(rayon::current_num_threads, Team::count))
}

/// The time that rayon's threads usually stay awake after their last work. If the next work follows within this time, more work is likely.
const SOON: Duration = Duration::from_micros(20);

/// The number of consecutive pieces of work after which more work is likely.
const ROW: u32 = 4;

/// Returns whether other threads are awake, or worth waking because more work is likely.
///
/// Waking a thread takes as long as adding several hundred thousand numbers.
pub(crate) fn warm() -> bool {
    let (last, row) = RECENT.get();
    let soon = last.is_some_and(|last| last.elapsed() < SOON);
    RECENT.set((None, if soon { row } else { 0 }));
    (soon && row >= ROW) || with_team(|team| team.is_some_and(Team::is_looking))
}

/// Records that this thread has just done work that is worth sharing with awake threads.
pub(crate) fn worked() {
    let (_, row) = RECENT.get();
    RECENT.set((Some(Instant::now()), row.saturating_add(1)));
}

/// Calls `work` on this thread, and on other threads that become free before this thread has finished: on at most `threads` threads in
/// total.
///
/// Each call must take remaining parts of the work until none are left. When this function returns, no call is running.
pub(crate) fn share(threads: usize, work: &(dyn Fn() + Sync)) {
    let waiting = WAITING.with(Arc::clone);
    // Limit the requested calls, which otherwise accumulate while all threads are busy.
    let room = threads.saturating_mul(2).saturating_sub(waiting.load(Ordering::Relaxed));
    let calls = room.min(threads.saturating_sub(1));
    if calls == 0 || forced().is_some() {
        return work();
    }
    let (own, options, level) = (own(), RunOptions::current(), Forced::here());
    let spawn = |entry: GateEntry| {
        // Pass the run's options on, so that a cancellation also ends the work of the other threads.
        let options = options.clone();
        let call = move || options.within(|| level.within(|| entry.enter()));
        match &own {
            Some(own) => {
                let team = own.clone();
                own.ask(move || within(&team, call));
            }
            None if rayon::current_thread_index().is_some() => rayon::spawn(call),
            None => Team::of_process().ask(call),
        }
    };
    gate::share(calls, &waiting, work, spawn);
    RECENT.set((None, ROW));
}

/// Returns the first unit of the part with index `part`, if `n` units are divided into `parts` parts of nearly equal length.
pub(crate) fn edge(n: usize, parts: usize, part: usize) -> usize {
    let (whole, rest) = (n / parts, n % parts);
    whole * part + rest * part / parts
}

/// Units of work, divided into parts. Each thread begins with the same part every time, so that in successive work it finds the results
/// that it wrote in its caches. A thread that has finished its part helps with the other parts.
pub(crate) struct Units {
    n: usize,
    parts: usize,
    begun: [Begun; MOST_PARTS],
}

/// The number of units of a part that threads have begun, on its own cache line.
#[derive(Default)]
#[repr(align(64))]
struct Begun(AtomicUsize);

/// The maximum number of parts; with more threads, several threads share a part.
const MOST_PARTS: usize = 16;

impl Units {
    pub(crate) fn new(n: usize, threads: usize) -> Units {
        Units { n, parts: threads.clamp(1, MOST_PARTS), begun: std::array::from_fn(|_| Begun::default()) }
    }

    /// Calls `f` with the indices of units that no thread has begun, until none are left.
    pub(crate) fn each(&self, mut f: impl FnMut(usize)) {
        let home = team::place().or_else(rayon::current_thread_index).unwrap_or(0) % self.parts;
        let parts = self.begun.iter().enumerate().take(self.parts);
        for (part, Begun(begun)) in parts.clone().skip(home).chain(parts.take(home)) {
            let [from, end] = [part, part + 1].map(|part| edge(self.n, self.parts, part));
            loop {
                let unit = from + begun.fetch_add(1, Ordering::Relaxed);
                if unit >= end {
                    break;
                }
                f(unit);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::{at, instructions, levels};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicUsize;
    use std::sync::{Barrier, Mutex, mpsc};

    /// Blocks until a thread of the team has run a call. If the team has only one thread besides the caller, that thread has also run
    /// all earlier calls.
    fn make_a_call(team: &Team) {
        let (made, wait) = mpsc::channel();
        team.ask(move || made.send(()).expect("somebody waits"));
        wait.recv().expect("the call is made");
    }

    #[test]
    fn others_join_and_what_they_wrote_is_seen() {
        let threads = Arc::new(Team::new(3).expect("threads"));
        within(&threads, || {
            assert_eq!(count(), 3);
            for _ in 0..100 {
                let (met, sum) = (Barrier::new(3), AtomicUsize::new(0));
                share(3, &|| {
                    // The barrier requires three threads, so the test ends only if three threads work.
                    met.wait();
                    sum.fetch_add(1, Ordering::Relaxed);
                });
                assert_eq!(sum.into_inner(), 3);
            }
        });
    }

    /// Data that one thread lays out for the vectors of a level must be read by threads with the same level.
    #[test]
    fn others_use_the_level_that_a_test_forces() {
        let threads = Arc::new(Team::new(2).expect("threads"));
        for forced in levels() {
            let met = Barrier::new(2);
            let used = Mutex::new(Vec::new());
            at(forced, || {
                within(&threads, || {
                    share(2, &|| {
                        met.wait();
                        used.lock().expect("no thread panics").push(instructions());
                    });
                });
            });
            assert_eq!(used.into_inner().expect("no thread panics"), [forced; 2]);
        }
    }

    #[test]
    fn nobody_waits_for_threads_that_are_busy() {
        let threads = Arc::new(Team::new(2).expect("a thread"));
        let (busy, done) = (Arc::new(Barrier::new(2)), AtomicUsize::new(0));
        let held = busy.clone();
        threads.ask(move || {
            held.wait();
        });
        within(&threads, || {
            for _ in 0..100 {
                share(2, &|| {
                    done.fetch_add(1, Ordering::Relaxed);
                });
            }
        });
        assert_eq!(done.into_inner(), 100);
        let waiting = || WAITING.with(|waiting| waiting.load(Ordering::Relaxed));
        assert_eq!(waiting(), 4, "calls do not pile up");
        // The thread becomes free only now, and finds the gate closed.
        busy.wait();
        make_a_call(&threads);
        assert_eq!(waiting(), 0);
    }

    #[test]
    fn every_unit_is_done_once() {
        for (n, parts) in [(0, 1), (1, 1), (5, 2), (3, 7), (100, 3), (1000, 64)] {
            let (units, done) = (Units::new(n, parts), Mutex::new(Vec::new()));
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| units.each(|unit| done.lock().expect("no panic").push(unit)));
                }
            });
            let mut done = done.into_inner().expect("no panic");
            done.sort_unstable();
            assert!(done.into_iter().eq(0..n), "{n} units in {parts} parts");
        }
    }

    /// In a program that computes on rayon's threads, kernels share their work with these threads.
    #[test]
    fn kernels_that_rayons_threads_call_share_with_rayon() {
        let rayon = rayon::ThreadPoolBuilder::new().num_threads(3).build().expect("threads");
        rayon.install(|| {
            assert_eq!(count(), 3);
            let met = Barrier::new(3);
            share(3, &|| {
                assert!(rayon::current_thread_index().is_some());
                met.wait();
            });
        });
    }

    /// Work inside other shared work uses the threads of the same backend, also if another thread runs it.
    #[test]
    fn work_in_work_is_shared_with_the_same_threads() {
        let threads = Arc::new(Team::new(3).expect("threads"));
        within(&threads, || {
            let met = Barrier::new(3);
            share(3, &|| {
                met.wait();
                assert_eq!(count(), 3);
            });
        });
    }

    #[test]
    fn a_panic_elsewhere_comes_here_and_threads_go_on() {
        let threads = Arc::new(Team::new(2).expect("threads"));
        let here = std::thread::current().id();
        let met = Barrier::new(2);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            within(&threads, || {
                share(2, &|| {
                    met.wait();
                    assert_eq!(std::thread::current().id(), here, "elsewhere");
                });
            });
        }));
        assert!(panicked.is_err());
        make_a_call(&threads);
        assert!(own().is_none());
    }
}
