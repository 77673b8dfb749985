//! Detects calls from inside the body of an operation, and limits the depth of nested calls.

use crate::Error;
use std::cell::Cell;
use std::thread::LocalKey;

thread_local! {
    /// Whether this thread runs the body of an operation. Layers must read this, but operations are methods that only
    /// take operands and parameters, so it is a thread-local.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs the body of an operation, or a part of the body. During `body`, [`is_inside`] returns true on this thread.
pub(crate) fn inside<R>(body: impl FnOnce() -> R) -> R {
    /// A guard that restores the previous value, also after a panic.
    struct Restore(bool);

    impl Drop for Restore {
        fn drop(&mut self) {
            INSIDE.set(self.0);
        }
    }

    let _restored = Restore(INSIDE.replace(true));
    body()
}

/// Returns true if the current call comes from the body of an operation.
pub(crate) fn is_inside() -> bool {
    INSIDE.get()
}

/// A thread's depth of nested calls.
pub(crate) type Depth = LocalKey<Cell<usize>>;

/// Runs a call, unless `most` calls of its kind are already nested on this thread. Without this limit, a function that
/// calls itself would overflow the stack and abort the process.
///
/// # Errors
///
/// The error of `endless` if the limit is reached; the errors of the call.
pub(crate) fn nested<R, E: From<Error>>(
    depth: &'static Depth,
    most: usize,
    endless: impl FnOnce() -> Error,
    call: impl FnOnce() -> Result<R, E>,
) -> Result<R, E> {
    /// A guard that restores the previous depth, also after a panic.
    struct Leave(&'static Depth, usize);

    impl Drop for Leave {
        fn drop(&mut self) {
            self.0.set(self.1);
        }
    }

    let before = depth.get();
    if before >= most {
        return Err(endless().into());
    }
    let _leave = Leave(depth, before);
    depth.set(before + 1);
    call()
}
