//! Counters of an engine's work.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The work that an engine has done for a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// The number of sessions that were created.
    pub loaded: usize,
    /// The number of sessions that exist.
    pub alive: usize,
    /// The number of session runs.
    pub runs: usize,
    /// The number of runs of model parts that the engine cannot run.
    pub rest: usize,
    /// The number of runs of model parts that the engine failed to run, so that the other backend
    /// ran them.
    pub failed: usize,
}

/// Counters shared by threads.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    loaded: AtomicUsize,
    alive: AtomicUsize,
    runs: AtomicUsize,
}

impl Counters {
    pub(crate) fn read(&self) -> Counts {
        Counts {
            loaded: self.loaded.load(Relaxed),
            alive: self.alive.load(Relaxed),
            runs: self.runs.load(Relaxed),
            rest: 0,
            failed: 0,
        }
    }

    pub(crate) fn ran(&self) {
        self.runs.fetch_add(1, Relaxed);
    }
}

/// A session that counts as alive until it is dropped.
#[derive(Debug)]
pub(crate) struct CountedSession<S> {
    session: S,
    counters: Arc<Counters>,
}

impl<S> CountedSession<S> {
    pub(crate) fn new(session: S, counters: &Arc<Counters>) -> CountedSession<S> {
        counters.loaded.fetch_add(1, Relaxed);
        counters.alive.fetch_add(1, Relaxed);
        CountedSession { session, counters: counters.clone() }
    }
}

impl<S> std::ops::Deref for CountedSession<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.session
    }
}

impl<S> Drop for CountedSession<S> {
    fn drop(&mut self) {
        self.counters.alive.fetch_sub(1, Relaxed);
    }
}
