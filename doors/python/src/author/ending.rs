//! Stops threads that run authors' methods when the interpreter ends.
//!
//! A thread that takes the interpreter's lock after the interpreter has ended crashes the program. When the interpreter ends, all
//! threads except the one that ends it therefore block forever instead of taking the lock. They end with the process.

use pyo3::prelude::*;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The maximum time that the interpreter waits for running calls when it ends. A call that takes longer may still crash the program.
const PATIENCE: Duration = Duration::from_secs(2);

/// Whether the interpreter is ending.
static ENDS: AtomicBool = AtomicBool::new(false);

/// The number of calls that have the lock or are taking it.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether this thread is ending the interpreter.
    static ENDS_IT: Cell<bool> = const { Cell::new(false) };
}

/// A guard of a call that takes the lock.
struct Entered;

impl Entered {
    /// Begins a call. Blocks for ever if another thread is ending the interpreter.
    fn begin() -> Entered {
        // The count is increased before `ENDS` is read, while `end` sets `ENDS` before it reads the count. So at least one of the two
        // threads sees the other.
        INSIDE.fetch_add(1, Ordering::SeqCst);
        let entered = Entered;
        if ENDS.load(Ordering::SeqCst) && !ENDS_IT.get() {
            drop(entered);
            loop {
                thread::park();
            }
        }
        entered
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Calls `run` with the interpreter's lock. Returns `None` if the interpreter has ended.
pub(super) fn attached<R>(run: impl FnOnce(Python<'_>) -> R) -> Option<R> {
    let _entered = Entered::begin();
    Python::try_attach(run)
}

/// Prevents further calls of methods from other threads, and waits for running calls. The interpreter calls this when it ends.
#[pyfunction]
pub(crate) fn end(py: Python<'_>) {
    ENDS_IT.set(true);
    ENDS.store(true, Ordering::SeqCst);
    py.detach(|| {
        let last = Instant::now() + PATIENCE;
        while INSIDE.load(Ordering::SeqCst) > 0 && Instant::now() < last {
            thread::sleep(Duration::from_millis(1));
        }
    });
}
