//! Handling of threads that run methods when the interpreter ends.
//!
//! A thread that takes the interpreter's lock after the end crashes the program. So after the end, all threads except the one that ends
//! the interpreter block forever where they would take the lock; the end of the process ends them.

use pyo3::prelude::*;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long the interpreter waits for calls that are running. One that takes longer may still crash the program.
const PATIENCE: Duration = Duration::from_secs(2);

/// Whether the interpreter ends.
static ENDS: AtomicBool = AtomicBool::new(false);

/// How many calls take the lock or have it.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether this thread ends the interpreter.
    static ENDS_IT: Cell<bool> = const { Cell::new(false) };
}

/// A call that takes the lock, until it is dropped.
struct Entered;

impl Entered {
    /// Begins a call. If another thread ends the interpreter, this does not return.
    fn begin() -> Entered {
        // Counted before it looks, while `end` looks at the count after it says that it ends: one of the two sees the other.
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

/// Runs with the interpreter's lock; `None` if the interpreter ended.
pub(super) fn attached<R>(run: impl FnOnce(Python<'_>) -> R) -> Option<R> {
    let _entered = Entered::begin();
    Python::try_attach(run)
}

/// Ends calls of methods from other threads, and waits for those that are running. The interpreter calls this when it ends.
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
