//! What happens to threads that are in methods when the interpreter ends.
//!
//! A thread that takes the interpreter's lock after the end crashes the program. So from the end on, other threads than the one that
//! ends the interpreter wait forever where they would take it; the end of the process ends them.

use pyo3::prelude::*;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

/// How long the interpreter waits for methods that are running. A method that takes longer may still crash the program.
const PATIENCE: Duration = Duration::from_secs(2);

/// The thread that ends the interpreter, once it does.
static ENDED_BY: OnceLock<ThreadId> = OnceLock::new();

/// How many calls take the lock or have it.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// A call that takes the lock, until it is dropped.
pub(super) struct Entered;

impl Entered {
    /// Begins a call. If the interpreter ends, this does not return.
    pub(super) fn begin() -> Entered {
        INSIDE.fetch_add(1, Ordering::SeqCst);
        let entered = Entered;
        if ENDED_BY.get().is_some_and(|by| *by != thread::current().id()) {
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

/// Ends calls of methods from other threads, and waits for those that are running. The interpreter calls this when it ends.
#[pyfunction]
pub(crate) fn end(py: Python<'_>) {
    ENDED_BY.get_or_init(|| thread::current().id());
    py.detach(|| {
        let last = Instant::now() + PATIENCE;
        while INSIDE.load(Ordering::SeqCst) > 0 && Instant::now() < last {
            thread::sleep(Duration::from_millis(1));
        }
    });
}
