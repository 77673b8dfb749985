//! Lets other threads join work that is borrowed from the thread that shares it.

use crate::sync::{AtomicUsize, Mutex, Ordering, Thread, thread};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, PoisonError};

/// The bit of [`Gate::inside`] that is set when no more threads may enter.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// The number of times that the owner polls for threads inside the gate before it sleeps.
const LOOKS: usize = if cfg!(all(test, bb_model)) { 0 } else { 10_000 };

/// Calls `work` on this thread, and on each thread that [`enters`](GateEntry::enter) the gate before this thread has finished. `spawn`
/// is called `calls` times, each time with a new entry.
///
/// When this function returns or unwinds, no call of `work` is running. If `work` panicked on another thread, the panic resumes here.
pub(crate) fn share(
    calls: usize,
    waiting: &Arc<AtomicUsize>,
    work: &(dyn Fn() + Sync),
    spawn: impl Fn(GateEntry),
) {
    let gate = Arc::new(Gate {
        // SAFETY: the types differ only in a lifetime, and a raw pointer guarantees nothing about lifetimes.
        work: unsafe { std::mem::transmute::<*const (dyn Fn() + Sync), *const (dyn Fn() + Sync)>(work) },
        inside: AtomicUsize::new(0),
        panic: Mutex::new(None),
        owner: thread::current(),
        waiting: waiting.clone(),
    });
    // Create this guard before any thread may enter: if the code below panics, its drop still waits for the threads inside.
    let closed = Closed(&gate);
    for _ in 0..calls {
        gate.waiting.fetch_add(1, Ordering::Relaxed);
        spawn(GateEntry(gate.clone()));
    }
    work();
    drop(closed);
    if let Some(panic) = gate.panic.lock().unwrap_or_else(PoisonError::into_inner).take() {
        resume_unwind(panic);
    }
}

/// A ticket that lets one thread join the work once.
pub(crate) struct GateEntry(Arc<Gate>);

impl GateEntry {
    /// Runs the work, unless the gate is closed.
    pub(crate) fn enter(self) {
        self.0.enter();
    }
}

/// The state that lets threads join work until the thread that shares the work is done.
struct Gate {
    /// Valid until the gate is closed and no thread is inside.
    work: *const (dyn Fn() + Sync),
    /// The number of threads inside, and the bit [`CLOSED`].
    inside: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    owner: Thread,
    /// The number of calls that the owner has requested and that have not begun.
    waiting: Arc<AtomicUsize>,
}

// SAFETY: the function behind the pointer is `Sync`, so any thread may call it; the other fields are `Send`.
unsafe impl Send for Gate {}
// SAFETY: the function behind the pointer is `Sync`, so any thread may call it; the other fields are `Sync`.
unsafe impl Sync for Gate {}

impl Gate {
    /// Runs the work, unless the gate is closed.
    fn enter(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        let open = |inside: usize| (inside & CLOSED == 0).then_some(inside + 1);
        if self.inside.fetch_update(Ordering::Acquire, Ordering::Relaxed, open).is_err() {
            return;
        }
        // SAFETY: this thread is inside the gate. `share` neither returns nor unwinds before all threads have left, so the
        // function still exists.
        let work = unsafe { &*self.work };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            *self.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
        }
        // `Release`, so that the owner sees this thread's writes when it sees that this thread has left.
        if self.inside.fetch_sub(1, Ordering::Release) == CLOSED + 1 {
            self.owner.unpark();
        }
    }
}

/// Closes a gate on drop, also during a panic, and waits for the threads inside.
struct Closed<'a>(&'a Gate);

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_or(CLOSED, Ordering::Relaxed);
        let mut waited = 0;
        while self.0.inside.load(Ordering::Acquire) != CLOSED {
            waited += 1;
            // The threads inside finish soon, because work is shared in small parts.
            if waited < LOOKS {
                std::hint::spin_loop();
            } else {
                thread::park();
            }
        }
    }
}

#[cfg(all(test, bb_model))]
mod model;
