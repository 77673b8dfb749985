//! What a running backend reports about itself: capabilities, counters and state.
//!
//! An author of a backend need not know this; the runtime does all of it.

use super::BackendId;
use super::counter::Counter;
use crate::ext::OpSet;
use bb_ir::op::Family;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// The operations that a backend declared as native.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// The families that the backend implements, and the native operations of each.
    pub families: Vec<(Family, OpSet)>,
}

impl Capabilities {
    /// Tells whether the operation is native; otherwise its body of primitives runs.
    pub fn is_native(&self, family: Family, index: u16) -> bool {
        family == Family::Primitive
            || self.families.iter().any(|(f, set)| *f == family && set.contains(index))
    }
}

/// Counters and state of a backend since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The state.
    pub lifecycle: Lifecycle,
    /// The number of calls of operations and graphs.
    pub calls: u64,
    /// The number of calls that failed, including panics.
    pub failures: u64,
    /// The number of calls that panicked.
    pub panics: u64,
    /// The number of dispatched graphs whose result is pending.
    pub pending: u64,
}

/// The state of a running backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lifecycle {
    /// Constructed, but not called yet.
    Created,
    /// Ready for calls.
    Ready,
    /// Shut down; every call returns an error.
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
    /// Counts a call; returns an error if the backend is shut down.
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

    /// Changes the state from `Created` to `Ready`; does nothing in other states.
    pub(super) fn initialize(&self) {
        let _was_later =
            self.lifecycle.compare_exchange(CREATED, READY, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Refuses all later calls and waits for pending results.
    pub(super) fn shut_down(&self) {
        self.lifecycle.store(SHUT_DOWN, Ordering::Relaxed);
        self.wait_idle();
    }

    /// Waits until no result is pending.
    pub(super) fn wait_idle(&self) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        while *pending > 0 {
            pending = self.idle.wait(pending).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Counts one more pending result.
    pub(super) fn add_pending(&self) {
        *self.pending.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }

    /// Counts one pending result less, because it arrived or its caller gave up.
    pub(super) fn end_pending(&self) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        *pending = pending.saturating_sub(1);
        if *pending == 0 {
            self.idle.notify_all();
        }
    }

    /// Returns counters and state.
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
