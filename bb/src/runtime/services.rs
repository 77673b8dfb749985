//! What a running backend can tell of itself: what it can do, how it fares, which state it is in.
//!
//! Nothing here is needed to write a backend; the runtime keeps it all.

use super::BackendId;
use super::counter::Counter;
use crate::ext::OpSet;
use bb_ir::op::Family;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// What a backend can do, as it declared.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// The families that the backend adopted, and the operations of each that are its own.
    pub families: Vec<(Family, OpSet)>,
}

impl Capabilities {
    /// Tells whether the backend has an operation of its own, rather than a body of primitives.
    pub fn is_native(&self, family: Family, index: u16) -> bool {
        family == Family::Primitive
            || self.families.iter().any(|(f, set)| *f == family && set.contains(index))
    }
}

/// What happened on a backend since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The state.
    pub lifecycle: Lifecycle,
    /// Calls of operations and graphs.
    pub calls: u64,
    /// Calls that ended in an error, panics among them.
    pub failures: u64,
    /// Calls that panicked.
    pub panics: u64,
    /// Graphs handed over whose result is not here yet.
    pub pending: u64,
}

/// The state of a running backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lifecycle {
    /// Made, and not called yet.
    Created,
    /// At work.
    Ready,
    /// Shut down; calls are refused.
    ShutDown,
}

/// The counters and the state behind [`Status`].
#[derive(Debug, Default)]
pub(super) struct Counters {
    lifecycle: AtomicU8,
    calls: Counter,
    failures: AtomicU64,
    panics: AtomicU64,
    pending: Mutex<u64>,
    idle: Condvar,
}

const CREATED: u8 = 0;
const READY: u8 = 1;
const SHUT_DOWN: u8 = 2;

impl Counters {
    /// Counts a call, unless the backend is shut down.
    #[inline]
    pub(super) fn begin(&self, owner: BackendId) -> Result<(), crate::Error> {
        match self.lifecycle.load(Ordering::Relaxed) {
            READY => {}
            SHUT_DOWN => return Err(crate::Error::ShutDown { backend: owner }),
            _ => self.initialize(),
        }
        self.calls.increment();
        Ok(())
    }

    /// Counts a failed call.
    pub(super) fn failed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a call that panicked.
    pub(super) fn panicked(&self) {
        self.failed();
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    /// Leaves the first state, if it is in it.
    pub(super) fn initialize(&self) {
        let _was_later =
            self.lifecycle.compare_exchange(CREATED, READY, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Refuses calls from now on, and waits for what is pending.
    pub(super) fn shut_down(&self) {
        self.lifecycle.store(SHUT_DOWN, Ordering::Relaxed);
        self.wait_idle();
    }

    /// Waits until nothing is pending.
    pub(super) fn wait_idle(&self) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        while *pending > 0 {
            pending = self.idle.wait(pending).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Notes that one more result is pending.
    pub(super) fn add_pending(&self) {
        *self.pending.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }

    /// Notes that a pending result came, or that nobody waits for it any more.
    pub(super) fn end_pending(&self) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        *pending = pending.saturating_sub(1);
        if *pending == 0 {
            self.idle.notify_all();
        }
    }

    /// Returns the counts.
    pub(super) fn status(&self) -> Status {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Status {
            lifecycle: match self.lifecycle.load(Ordering::Relaxed) {
                CREATED => Lifecycle::Created,
                READY => Lifecycle::Ready,
                _ => Lifecycle::ShutDown,
            },
            calls: self.calls.sum(),
            failures: read(&self.failures),
            panics: read(&self.panics),
            pending: *self.pending.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }
}
