//! Limits the bytes that all requests and answers use together.

use crate::refusal::Refusal;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The maximum number of bytes that requests may use, and the number that they use now.
///
/// Unlike a [`bb::Budget`], which limits one input, bytes are returned here.
#[derive(Debug)]
pub(crate) struct HeldBytes {
    limit: usize,
    held: AtomicUsize,
    /// The sum of all bytes that requests have used since the start, modulo 2^64.
    taken: AtomicUsize,
}

impl HeldBytes {
    pub(crate) fn new(limit: usize) -> Arc<HeldBytes> {
        Arc::new(HeldBytes { limit, held: AtomicUsize::new(0), taken: AtomicUsize::new(0) })
    }

    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Returns the sum of all bytes that requests have used since the start, modulo 2^64.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    pub(crate) fn lease(self: &Arc<HeldBytes>) -> Lease {
        Lease { all: self.clone(), bytes: AtomicUsize::new(0) }
    }
}

/// The number of bytes that one request uses. Dropping it returns them.
#[derive(Debug)]
pub(crate) struct Lease {
    all: Arc<HeldBytes>,
    bytes: AtomicUsize,
}

impl Lease {
    /// Adds bytes to those that the request uses, or refuses the request if the limit would be exceeded.
    pub(crate) fn grow(&self, bytes: usize) -> Result<(), Refusal> {
        let limit = self.all.limit;
        let add = |held: usize| held.checked_add(bytes).filter(|sum| *sum <= limit);
        let grown = self.all.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        grown.map_err(|held| Refusal::NoRoom { held, limit })?;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.all.taken.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Returns some of the request's bytes.
    pub(crate) fn give_back(&self, bytes: usize) {
        let subtract = |held: usize| Some(held.saturating_sub(bytes));
        // The closure always returns a value, so the default is never used.
        let before =
            self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, subtract).unwrap_or_default();
        self.all.held.fetch_sub(before.min(bytes), Ordering::Relaxed);
    }

    /// Returns all of the request's bytes except `bytes`.
    pub(crate) fn keep(&mut self, bytes: usize) {
        let held = self.bytes.get_mut();
        let over = held.saturating_sub(bytes);
        *held -= over;
        self.all.held.fetch_sub(over, Ordering::Relaxed);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.all.held.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}

/// The lease of an answer's bytes, and their number. An answer carries it among its extensions.
#[derive(Clone)]
pub(crate) struct HeldAnswer {
    lease: Arc<Lease>,
    pub(crate) bytes: usize,
}

impl HeldAnswer {
    pub(crate) fn new(lease: Lease, bytes: usize) -> HeldAnswer {
        HeldAnswer::shared(Arc::new(lease), bytes)
    }

    /// Creates the value from a lease that is also stored elsewhere.
    pub(crate) fn shared(lease: Arc<Lease>, bytes: usize) -> HeldAnswer {
        HeldAnswer { lease, bytes }
    }

    /// Adds bytes for another encoding of the answer.
    pub(crate) fn grow(&self, bytes: usize) -> Result<(), Refusal> {
        self.lease.grow(bytes)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn what_exceeds_the_limit_is_refused_and_comes_back() {
        let all = HeldBytes::new(10);
        let first = all.lease();
        first.grow(6).unwrap();
        let second = all.lease();
        assert!(second.grow(5).is_err());
        assert!(second.grow(usize::MAX).is_err());
        second.grow(4).unwrap();
        drop(first);
        assert_eq!(all.held(), 4);
        let mut second = second;
        second.keep(9);
        assert_eq!(all.held(), 4);
        second.keep(1);
        assert_eq!(all.held(), 1);
        second.grow(4).unwrap();
        second.give_back(3);
        assert_eq!(all.held(), 2);
        second.give_back(usize::MAX);
        assert_eq!(all.held(), 0);
        drop(second);
        assert_eq!(all.held(), 0);
    }
}
