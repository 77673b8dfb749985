//! Locks, atomics and threads for the parts of `bb` that several threads use.
//!
//! These types come from `std`. In tests that are compiled with `--cfg bb_model`, they come from `shuttle`, which runs
//! a test under many orders of its threads. `shuttle` was chosen over `loom`, because these parts are larger than
//! `loom` can search exhaustively, and because they rely on the total order of `SeqCst`, which `loom` does not model.
//!
//! Only tests with `model::` in their names can run in such a build; `CONTRIBUTING.md` has the command.

#[cfg(all(test, bb_model))]
pub(crate) use shuttle::{
    sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic},
    thread, thread_local,
};
#[cfg(not(all(test, bb_model)))]
pub(crate) use std::thread::sleep;
#[cfg(not(all(test, bb_model)))]
pub(crate) use std::{
    sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic},
    thread, thread_local,
};

/// Lets other threads run.
///
/// A model has no clock. Without this yield, the scheduler could run a thread that polls for a condition for ever.
#[cfg(all(test, bb_model))]
pub(crate) fn sleep(_: std::time::Duration) {
    thread::yield_now();
}

/// Runs a model under random orders of its threads. Half of the runs choose each step at random. The other half
/// interrupts few threads, which finds rare orders sooner.
///
/// # Panics
///
/// If an assertion of the model fails, or if all threads are blocked. The message contains the schedule, which
/// `shuttle::replay` repeats.
#[cfg(all(test, bb_model))]
pub(crate) fn check(model: impl Fn() + Send + Sync + 'static) {
    use shuttle::scheduler::{PctScheduler, RandomScheduler};
    /// The number of runs with each scheduler.
    const RUNS: usize = 2000;
    /// Held while a model runs: models share statics, so only one model may run at a time.
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 20;
    // `shuttle` warns of relaxed atomic accesses, because it runs them as `SeqCst`.
    config.silence_warnings = true;
    let model = std::sync::Arc::new(model);
    let again = model.clone();
    shuttle::Runner::new(RandomScheduler::new_from_seed(1, RUNS), config.clone()).run(move || again());
    shuttle::Runner::new(PctScheduler::new_from_seed(2, 3, RUNS), config).run(move || model());
}
