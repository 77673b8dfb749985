//! Counts of transfers from one backend to another.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The transfers between backends so far.
///
/// A tensor that comes from the host is not counted, because every backend that reads it needs a copy in
/// any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Transfers {
    /// The number of transferred tensors.
    pub values: u64,
    /// The total size of these tensors in bytes, as stored on the host.
    pub bytes: u64,
}

/// Counters that threads share.
#[derive(Debug)]
pub(super) struct Counters {
    values: AtomicU64,
    bytes: AtomicU64,
    fallbacks: AtomicU64,
    /// The number of parts that each backend ran.
    parts: Box<[AtomicU64]>,
}

impl Counters {
    pub(super) fn of(backends: usize) -> Counters {
        let [values, bytes, fallbacks] = Default::default();
        Counters { values, bytes, fallbacks, parts: (0..backends).map(|_| AtomicU64::new(0)).collect() }
    }

    pub(super) fn ran(&self, backend: usize) {
        if let Some(count) = self.parts.get(backend) {
            count.fetch_add(1, Relaxed);
        }
    }

    pub(super) fn parts(&self) -> Vec<u64> {
        self.parts.iter().map(|count| count.load(Relaxed)).collect()
    }

    pub(super) fn fell_back(&self) {
        self.fallbacks.fetch_add(1, Relaxed);
    }

    pub(super) fn fallbacks(&self) -> u64 {
        self.fallbacks.load(Relaxed)
    }

    pub(super) fn moved(&self, bytes: usize) {
        self.values.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn read(&self) -> Transfers {
        Transfers { values: self.values.load(Relaxed), bytes: self.bytes.load(Relaxed) }
    }
}
