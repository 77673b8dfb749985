//! Whether a call is made inside the body of an operation.

use std::cell::Cell;

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
