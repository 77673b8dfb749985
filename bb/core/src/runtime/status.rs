//! The capabilities, counters and state of a running backend.
//!
//! The runtime does all of this. Authors of backends need not do anything for it.

use super::BackendId;
use super::counter::{Call, Counter};
use crate::ext::{LlmOp, OpSet};
use crate::service::{DeviceInfo, MemoryStatistics};
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex, sleep};
use bb_ir::DataTypes;
use bb_ir::op::Family;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

/// The operations that a backend declared as native.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// The families that the backend implements, and the native operations of each.
    pub families: Vec<(Family, OpSet)>,
    /// The element types that the backend supports.
    pub types: DataTypes,
    /// The backend's description of its device: its kind, the maximum rank, the alignment, and further entries of the
    /// author.
    pub device: DeviceInfo,
}

impl Capabilities {
    /// Returns whether the operation is native. If it is not, its body of primitives runs.
    pub fn is_native(&self, family: Family, index: u16) -> bool {
        family == Family::Primitive
            || self.families.iter().any(|(f, set)| *f == family && set.contains(index))
    }

    /// Returns whether the backend has a kernel for attention ([`Llm::attention`](crate::ext::Llm::attention)).
    pub fn has_native_attention(&self) -> bool {
        self.is_native(Family::Llm, LlmOp::Attention as u16)
    }
}

/// Counters and state of a backend since it was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// The state.
    pub state: State,
    /// The number of calls of operations and graphs that the backend accepted.
    pub calls: u64,
    /// The number of these calls that failed, including panics.
    pub failures: u64,
    /// The number of calls that panicked.
    pub panics: u64,
    /// The number of dispatched graphs that the backend has neither completed nor abandoned. It does not matter whether
    /// their results were read.
    pub pending: u64,
    /// The number of submissions that the device has not finished; `None` if the backend does not report it.
    pub queued: Option<u64>,
    /// The last error of a call, with its causes; `None` if no call failed. Later successful calls do not clear it.
    pub last_error: Option<Arc<str>>,
    /// The memory in use; `None` if the backend does not offer the service.
    pub memory: Option<MemoryStatistics>,
}

/// The state of a running backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// Constructed, but not called yet.
    Created,
    /// Ready for calls.
    Ready,
    /// Shut down; every call returns an error.
    ShutDown,
    /// The device is lost; every call returns an error.
    Lost,
}

/// The counters and the state that [`Status`] reports.
#[derive(Debug, Default)]
pub(super) struct Counters {
    lifecycle: AtomicU8,
    calls: Counter,
    /// The number of calls in `calls` that [`Status::calls`] excludes.
    uncounted: AtomicU64,
    failures: AtomicU64,
    panics: AtomicU64,
    pending: Mutex<u64>,
    idle: Condvar,
    /// The reason that the device is lost.
    reason: OnceLock<String>,
    last_error: Mutex<Option<Arc<str>>>,
    /// Whether `shut_down` has waited for the running calls and pending graphs.
    drained: AtomicBool,
}

const CREATED: u8 = 0;
const READY: u8 = 1;
const SHUT_DOWN: u8 = 2;
const LOST: u8 = 3;

impl Counters {
    /// Begins a call, which runs until the returned value is dropped.
    ///
    /// # Errors
    ///
    /// [`Error::ShutDown`](crate::Error::ShutDown) if the backend is shut down;
    /// [`Error::DeviceLost`](crate::Error::DeviceLost) if its device is lost.
    #[inline]
    pub(super) fn begin(&self, owner: BackendId) -> Result<Call<'_>, crate::Error> {
        let call = self.calls.begin();
        match self.lifecycle.load(Ordering::SeqCst) {
            READY => {}
            SHUT_DOWN => {
                self.leave_out();
                return Err(crate::Error::ShutDown { backend: owner });
            }
            LOST => {
                self.leave_out();
                let reason = self.reason.get().cloned().unwrap_or_default();
                return Err(crate::Error::DeviceLost { backend: owner, reason, source: None });
            }
            _ => self.initialize(),
        }
        Ok(call)
    }

    /// Excludes one call from [`Status::calls`].
    #[cold]
    pub(super) fn leave_out(&self) {
        self.uncounted.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a failed call, and stores its error message.
    #[cold]
    pub(super) fn failed(&self, error: &crate::Error) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let text: Arc<str> = crate::error::causes(error).into();
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }

    /// Counts a panic.
    pub(super) fn panicked(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    /// Changes the state from `Created` to `Ready`; does nothing in other states.
    pub(super) fn initialize(&self) {
        let _was_later =
            self.lifecycle.compare_exchange(CREATED, READY, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Refuses all later calls, then waits for running calls and pending graphs.
    ///
    /// Inside a call it does not wait, because it would wait for itself. Returns true for the first call that waited.
    pub(super) fn shut_down(&self) -> bool {
        /// The time between two checks of the running calls. A call does not wake this thread when it ends, because
        /// then every call would have to check for waiting threads.
        const LOOK: Duration = Duration::from_micros(200);
        self.lifecycle.store(SHUT_DOWN, Ordering::SeqCst);
        if self.calls.is_running_here() {
            return false;
        }
        while self.calls.is_running() {
            sleep(LOOK);
        }
        self.wait_idle();
        !self.drained.swap(true, Ordering::SeqCst)
    }

    /// Refuses all later calls, because the device is lost. A backend that is shut down stays shut down.
    #[cold]
    pub(super) fn lose(&self, reason: &str) {
        self.reason.get_or_init(|| reason.to_owned());
        for before in [CREATED, READY] {
            let _other = self.lifecycle.compare_exchange(before, LOST, Ordering::SeqCst, Ordering::SeqCst);
        }
    }

    /// Waits until no graph is pending.
    pub(super) fn wait_idle(&self) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        while *pending > 0 {
            pending = self.idle.wait(pending).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns the state.
    pub(super) fn state(&self) -> State {
        match self.lifecycle.load(Ordering::Relaxed) {
            CREATED => State::Created,
            READY => State::Ready,
            LOST => State::Lost,
            _ => State::ShutDown,
        }
    }

    /// Returns counters and state.
    pub(super) fn status(&self) -> Status {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Status {
            state: self.state(),
            calls: self.calls.begun().saturating_sub(read(&self.uncounted)),
            failures: read(&self.failures),
            panics: read(&self.panics),
            pending: *self.pending.lock().unwrap_or_else(PoisonError::into_inner),
            queued: None,
            last_error: self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            memory: None,
        }
    }
}

/// A pending graph. It is counted until this is dropped.
///
/// It does not keep the runtime alive, because the backend's own thread drops it. If that thread dropped the backend,
/// the drop might wait for the thread itself.
#[derive(Debug)]
pub(super) struct Pending(Arc<Counters>);

impl Pending {
    pub(super) fn new(counters: Arc<Counters>) -> Pending {
        *counters.pending.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Pending(counters)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let mut pending = self.0.pending.lock().unwrap_or_else(PoisonError::into_inner);
        *pending = pending.saturating_sub(1);
        if *pending == 0 {
            self.0.idle.notify_all();
        }
    }
}
