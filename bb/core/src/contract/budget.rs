//! Limits on the memory, work and time that one untrusted input may take.

use super::RunOptions;
use crate::Error;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of steps between two checks of the deadline.
const STRIDE: u64 = 1 << 10;

/// The bytes, steps and time that reading or running one untrusted input may take.
///
/// A reader, parser, template, tokenizer, grammar or planner receives a budget. It takes bytes from the budget before
/// it allocates them, and takes steps while it works. Bytes are never returned: a budget limits the sum of all
/// allocations, and therefore the memory in use at any time. The deadline and the cancel tokens come from the thread
/// that created the budget ([`RunOptions::current`]).
///
/// # Examples
///
/// ```
/// use bb::{Budget, Error};
/// let budget = Budget::new("the list", 1000, 10);
/// budget.take_bytes(600)?;
/// assert!(matches!(budget.take_bytes(600), Err(Error::Budget { most: 1000, .. })));
/// assert!(matches!(budget.take_steps(11), Err(Error::Budget { most: 10, .. })));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct Budget {
    what: &'static str,
    bytes: Allowance,
    steps: Allowance,
    options: RunOptions,
}

/// An upper bound and the amount taken so far, which only grows.
#[derive(Debug)]
struct Allowance {
    most: u64,
    taken: AtomicU64,
}

impl Allowance {
    /// Takes an amount, and returns the amount that was taken before; `None` if the sum exceeds the bound.
    fn take(&self, amount: u64) -> Option<u64> {
        let add = |taken: u64| Some(taken.saturating_add(amount));
        let before = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        (before.saturating_add(amount) <= self.most).then_some(before)
    }
}

impl Budget {
    /// Returns a budget for one input, with the deadline of this thread. `what` names the input in errors.
    ///
    /// Units: bytes that are allocated, and steps of about 10 to 100 nanoseconds.
    pub fn new(what: &'static str, bytes: u64, steps: u64) -> Budget {
        // `take` saturates at `u64::MAX`, so a smaller bound guarantees that a saturated sum is refused.
        let allowance = |most: u64| Allowance { most: most.min(u64::MAX - 1), taken: AtomicU64::new(0) };
        Budget { what, bytes: allowance(bytes), steps: allowance(steps), options: RunOptions::current() }
    }

    /// Returns a budget proportional to the size of an input: `base + factor * size` bytes.
    pub fn for_input(what: &'static str, size: usize, factor: u64, base: u64, steps: u64) -> Budget {
        Budget::new(what, (size as u64).saturating_mul(factor).saturating_add(base), steps)
    }

    /// Takes bytes that are about to be allocated.
    ///
    /// # Errors
    ///
    /// [`Error::Budget`] if the sum exceeds the bound.
    pub fn take_bytes(&self, bytes: usize) -> Result<(), Error> {
        let Budget { what, bytes: allowance, .. } = self;
        let taken = allowance.take(bytes as u64);
        taken.map(|_| ()).ok_or(Error::Budget { what, most: allowance.most, unit: "bytes" })
    }

    /// Takes steps of work. About every thousand steps, it also checks the deadline.
    ///
    /// # Errors
    ///
    /// [`Error::Budget`] if the sum exceeds the bound; the errors of [`check`](Self::check).
    pub fn take_steps(&self, steps: u64) -> Result<(), Error> {
        let Budget { what, steps: allowance, .. } = self;
        let refused = Error::Budget { what, most: allowance.most, unit: "steps" };
        let before = allowance.take(steps).ok_or(refused)?;
        if before / STRIDE == before.saturating_add(steps) / STRIDE { Ok(()) } else { self.check() }
    }

    /// Returns the bytes that are left.
    pub fn bytes_left(&self) -> u64 {
        self.bytes.most.saturating_sub(self.bytes.taken.load(Ordering::Relaxed))
    }

    /// Checks the deadline and the cancel tokens.
    ///
    /// # Errors
    ///
    /// [`Error::DeadlineExceeded`] and [`Error::Cancelled`].
    pub fn check(&self) -> Result<(), Error> {
        self.options.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn an_amount_of_any_size_is_counted_once_and_never_wraps() {
        let budget = Budget::new("x", 10, u64::MAX);
        assert!(budget.take_bytes(10).is_ok());
        assert_eq!(budget.bytes_left(), 0);
        for _ in 0..3 {
            assert!(matches!(
                budget.take_bytes(usize::MAX),
                Err(Error::Budget { unit: "bytes", most: 10, .. })
            ));
            assert!(matches!(budget.take_bytes(1), Err(Error::Budget { .. })));
        }
        assert!(budget.take_steps(1 << 40).is_ok());
        assert!(budget.take_steps(u64::MAX).is_err());
    }

    #[test]
    fn steps_meet_the_deadline_of_the_thread_that_made_the_budget() {
        let late = RunOptions::default().with_deadline(Instant::now());
        let budget = late.within(|| Budget::new("x", 0, u64::MAX));
        assert!(budget.take_steps(1).is_ok());
        let ended = (0..2 * STRIDE).find_map(|_| budget.take_steps(1).err());
        assert!(matches!(ended, Some(Error::DeadlineExceeded)));
        assert!(matches!(budget.check(), Err(Error::DeadlineExceeded)));
    }
}
