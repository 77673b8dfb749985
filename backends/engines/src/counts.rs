//! Counts of an engine's work.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The work that an engine did for a backend so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Sessions that were made.
    pub loaded: usize,
    /// Sessions that exist.
    pub alive: usize,
    /// Runs of a session.
    pub runs: usize,
    /// Runs of a part that the engine does not run.
    pub rest: usize,
    /// Runs of a part that the engine failed to run, so that the rest ran it.
    pub failed: usize,
}

/// Counters that threads share.
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

/// A session that is counted for as long as it exists.
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
