//! Locks, atomic numbers and threads for the parts of `bb` where several threads meet.
//!
//! They come from `std`. In tests that are compiled with `--cfg bb_model`, they come from `shuttle`, which runs a test
//! under many orders of its threads. `shuttle` was chosen over `loom` here, because these parts are larger than what
//! `loom` can search in full, and because they rely on the total order of `SeqCst`, which `loom` does not know.
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
/// A model has no time: a thread that sleeps until something happens would otherwise be scheduled for ever.
#[cfg(all(test, bb_model))]
pub(crate) fn sleep(_: std::time::Duration) {
    thread::yield_now();
}

/// Runs a model under orders of its threads that are drawn at random: in half of the runs each step is drawn, in the other
/// half few threads are interrupted, which finds rare orders sooner.
///
/// # Panics
///
/// If an assertion of the model fails, or if all threads wait. The message contains the order, which `shuttle::replay` runs
/// again.
#[cfg(all(test, bb_model))]
pub(crate) fn check(model: impl Fn() + Send + Sync + 'static) {
    use shuttle::scheduler::{PctScheduler, RandomScheduler};
    /// The number of runs of each half.
    const RUNS: usize = 2000;
    /// Statics belong to one model at a time.
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 20;
    // It warns of relaxed atomic accesses, which it runs as if they were ordered.
    config.silence_warnings = true;
    let model = std::sync::Arc::new(model);
    let again = model.clone();
    shuttle::Runner::new(RandomScheduler::new_from_seed(1, RUNS), config.clone()).run(move || again());
    shuttle::Runner::new(PctScheduler::new_from_seed(2, 3, RUNS), config).run(move || model());
}
