//! The bytes that all requests and answers hold together.

use crate::refusal::Refusal;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many bytes requests may hold, and how many they hold.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: usize,
    held: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Arc<Budget> {
        Arc::new(Budget { limit, held: AtomicUsize::new(0) })
    }

    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    pub(crate) fn lease(self: &Arc<Budget>) -> Lease {
        Lease { budget: self.clone(), bytes: AtomicUsize::new(0) }
    }
}

/// The bytes that one request holds; dropping it gives them back.
#[derive(Debug)]
pub(crate) struct Lease {
    budget: Arc<Budget>,
    bytes: AtomicUsize,
}

impl Lease {
    /// Holds more bytes, or refuses the request because others hold too many.
    pub(crate) fn grow(&self, bytes: usize) -> Result<(), Refusal> {
        let limit = self.budget.limit;
        let add = |held: usize| held.checked_add(bytes).filter(|sum| *sum <= limit);
        let grown = self.budget.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        grown.map_err(|held| Refusal::NoRoom { held, limit })?;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Gives back what is held beyond a number of bytes.
    pub(crate) fn keep(&mut self, bytes: usize) {
        let held = self.bytes.get_mut();
        let over = held.saturating_sub(bytes);
        *held -= over;
        self.budget.held.fetch_sub(over, Ordering::Relaxed);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn what_exceeds_the_limit_is_refused_and_comes_back() {
        let budget = Budget::new(10);
        let first = budget.lease();
        first.grow(6).unwrap();
        let second = budget.lease();
        assert!(second.grow(5).is_err());
        assert!(second.grow(usize::MAX).is_err());
        second.grow(4).unwrap();
        drop(first);
        assert_eq!(budget.held(), 4);
        let mut second = second;
        second.keep(9);
        assert_eq!(budget.held(), 4);
        second.keep(1);
        assert_eq!(budget.held(), 1);
        drop(second);
        assert_eq!(budget.held(), 0);
    }
}
