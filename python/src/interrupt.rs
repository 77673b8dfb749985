//! Signals that arrive while a run has the interpreter's lock released.
//!
//! The interpreter handles signals on its main thread alone. A run there looks at a clock wherever it looks whether it must end, and
//! asks the interpreter every now and then; so no other thread is needed, and a short run pays for a few looks at the clock.

use bb::RunOptions;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::cell::{Cell, RefCell};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a run goes on before the interpreter is asked.
const PATIENCE: Duration = Duration::from_millis(20);

/// How many looks it takes for one look at the clock, which costs as much as a small operation.
const LOOKS: u32 = 4;

thread_local! {
    /// Whether this is the interpreter's main thread; `None` before anybody asked.
    static IS_MAIN: Cell<Option<bool>> = const { Cell::new(None) };

    /// When to ask the interpreter next; `None` where no run of the main thread is.
    static NEXT: Cell<Option<Instant>> = const { Cell::new(None) };

    /// How many looks there were.
    static LOOKED: Cell<u32> = const { Cell::new(0) };

    /// Whether the interpreter handles a signal in the midst of a run.
    static HANDLES: Cell<bool> = const { Cell::new(false) };

    /// What the handler of a signal raised.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Whether a handler of a signal raised an exception, which ends the main thread's run. Other threads that share its kernels read
/// this.
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

/// Ends the run of this thread, if it is the main thread's, with what a method of a backend raised.
pub(crate) fn end(py: Python<'_>, raised: &PyErr) {
    if NEXT.get().is_some() {
        RAISED.set(Some(raised.clone_ref(py)));
        ENDED.store(true, Ordering::Relaxed);
    }
}

/// Returns whether the interpreter handles a signal in the midst of this thread's run.
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
/// What the handler of a signal raised meanwhile, as `KeyboardInterrupt`. `RuntimeError` if this is called by such a handler, because
/// the run that it interrupts may hold what the call waits for.
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
    // A run may be within a method of a backend, which another run calls.
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
