//! Marks trials: calls that only find out which element types a backend supports.

use std::cell::Cell;

thread_local! {
    static TRIAL: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether this thread runs a trial, a call that only finds out whether a backend supports an operation on operands of some
/// element types. A layer that counts or limits operations leaves trials out.
pub fn is_trial() -> bool {
    TRIAL.get()
}

/// Runs a function as a trial.
pub(super) fn as_trial<R>(call: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            TRIAL.set(self.0);
        }
    }
    let _restore = Restore(TRIAL.replace(true));
    call()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_ends_with_its_call_even_after_a_panic() {
        assert!(as_trial(is_trial));
        assert!(std::panic::catch_unwind(|| as_trial(|| panic!("a panic of the test"))).is_err());
        assert!(!is_trial());
    }
}
