//! Handles signals that arrive while a run has released the interpreter's lock.
//!
//! The interpreter handles signals only on its main thread. A run on this thread reads the clock at its cancellation checks, and lets
//! the interpreter handle signals at intervals. So no other thread is needed, and a short run only reads the clock a few times.

use bb::RunOptions;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::cell::{Cell, RefCell};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The interval between two times that a run lets the interpreter handle signals.
const PATIENCE: Duration = Duration::from_millis(20);

/// The number of cancellation checks per reading of the clock, which takes about as long as a small operation.
const LOOKS: u32 = 4;

thread_local! {
    /// Whether this is the interpreter's main thread; `None` before the first query.
    static IS_MAIN: Cell<Option<bool>> = const { Cell::new(None) };

    /// The time when the interpreter next handles signals. `None` unless the main thread is in a run.
    static NEXT: Cell<Option<Instant>> = const { Cell::new(None) };

    /// The number of cancellation checks so far.
    static LOOKED: Cell<u32> = const { Cell::new(0) };

    /// Whether the interpreter is handling a signal during a run.
    static HANDLES: Cell<bool> = const { Cell::new(false) };

    /// The exception that a signal handler raised.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Whether a signal handler raised an exception, which ends the main thread's run. Other threads that run kernels for it read this, too.
static ENDED: AtomicBool = AtomicBool::new(false);

/// The options of a run of the main thread.
static WATCHED: LazyLock<RunOptions> = LazyLock::new(|| RunOptions::default().with_watch(ended));

/// Returns whether the main thread's run must end.
fn ended() -> bool {
    if ENDED.load(Ordering::Relaxed) {
        return true;
    }
    let Some(next) = NEXT.get() else { return false };
    let looked = LOOKED.get().wrapping_add(1);
    LOOKED.set(looked);
    if !looked.is_multiple_of(LOOKS) || Instant::now() < next {
        return false;
    }
    HANDLES.set(true);
    let raised = Python::attach(|py| py.check_signals()).err();
    HANDLES.set(false);
    NEXT.set(Some(Instant::now() + PATIENCE));
    let ends = raised.is_some();
    if ends {
        RAISED.set(raised);
        ENDED.store(true, Ordering::Relaxed);
    }
    ends
}

/// Ends this thread's run with the exception that a backend's method raised. Has no effect unless this is the main thread.
pub(crate) fn end(py: Python<'_>, raised: &PyErr) {
    if NEXT.get().is_some() {
        RAISED.set(Some(raised.clone_ref(py)));
        ENDED.store(true, Ordering::Relaxed);
    }
}

/// Returns whether the interpreter is handling a signal during this thread's run.
pub(crate) fn handles() -> bool {
    HANDLES.get()
}

/// Returns whether this is the interpreter's main thread.
fn is_main(py: Python<'_>) -> bool {
    if let Some(known) = IS_MAIN.get() {
        return known;
    }
    let ask = || -> PyResult<bool> {
        let threading = py.import("threading")?;
        threading.call_method0("current_thread")?.eq(threading.call_method0("main_thread")?)
    };
    let main = ask().unwrap_or(false);
    IS_MAIN.set(Some(main));
    main
}

/// Calls `run` with the interpreter's lock released, within `options`.
///
/// # Errors
///
/// The exception that a signal handler raised during the call, for example `KeyboardInterrupt`. `RuntimeError` if a signal handler calls
/// this, because the interrupted run may hold a resource that the call waits for.
pub(crate) fn detached<R: Send>(
    py: Python<'_>,
    options: Option<&RunOptions>,
    run: impl FnOnce() -> R + Send,
) -> PyResult<R> {
    let run = || match options {
        Some(options) => options.within(run),
        None => run(),
    };
    if !is_main(py) {
        return Ok(py.detach(run));
    }
    if HANDLES.get() {
        return Err(PyRuntimeError::new_err(
            "the handler of a signal cannot use a session while it interrupts a run",
        ));
    }
    // The previous value is restored afterwards, because this run may be nested: a method of a backend may be called by another run.
    let around = NEXT.replace(Some(Instant::now() + PATIENCE));
    let result = py.detach(|| WATCHED.within(run));
    NEXT.set(around);
    match RAISED.take() {
        Some(raised) => {
            ENDED.store(false, Ordering::Relaxed);
            Err(raised)
        }
        None => Ok(result),
    }
}
