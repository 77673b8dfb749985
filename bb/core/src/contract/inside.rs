//! Whether a call is made inside the body of an operation, and how many calls are inside each other.

use crate::Error;
use std::cell::Cell;
use std::thread::LocalKey;

thread_local! {
    /// Whether this thread runs the body of an operation. Operations are methods that only take operands and parameters, so that a layer
    /// reads it here.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs calls that the body of an operation makes.
pub(crate) fn inside<R>(body: impl FnOnce() -> R) -> R {
    /// Restores the former value, after a panic too.
    struct Restore(bool);

    impl Drop for Restore {
        fn drop(&mut self) {
            INSIDE.set(self.0);
        }
    }

    let _restored = Restore(INSIDE.replace(true));
    body()
}

/// Returns true if the body of an operation makes the call.
pub(crate) fn is_inside() -> bool {
    INSIDE.get()
}

/// A thread's count of calls that are inside each other.
pub(crate) type Depth = LocalKey<Cell<usize>>;

/// Runs a call, unless `most` of its kind are inside each other on this thread. Without the bound, a function that calls itself would
/// end the process.
///
/// # Errors
///
/// `endless`; the errors of the call.
pub(crate) fn nested<R, E: From<Error>>(
    depth: &'static Depth,
    most: usize,
    endless: impl FnOnce() -> Error,
    call: impl FnOnce() -> Result<R, E>,
) -> Result<R, E> {
    /// Restores the former depth, after a panic too.
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
