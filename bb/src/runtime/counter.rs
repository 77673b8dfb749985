//! A counter that every call in every thread increments.
//!
//! An atomic addition takes a third of the time that a small call spends in the bridge. So each thread has
//! its own slot, which only it writes with a load and a store. If there are more threads than slots, the
//! others share the last slot.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of slots. Each has a bit in [`TAKEN`]; the last slot is the shared one.
const SLOTS: usize = 64;

/// The slots that living threads use, one bit each.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// The slot of a thread, released when the thread ends.
struct Slot(Cell<usize>);

impl Slot {
    /// Takes a free slot, or the shared slot if none is free.
    fn take() -> Slot {
        let mut taken = TAKEN.load(Ordering::Relaxed);
        loop {
            let free = taken.trailing_ones() as usize;
            if free >= SLOTS - 1 {
                return Slot(Cell::new(SLOTS - 1));
            }
            // Acquire: the new owner of the slot must see what its previous owner counted.
            match TAKEN.compare_exchange_weak(taken, taken | 1 << free, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return Slot(Cell::new(free)),
                Err(now) => taken = now,
            }
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let slot = self.0.replace(SLOTS - 1);
        if slot < SLOTS - 1 {
            TAKEN.fetch_and(!(1 << slot), Ordering::Release);
        }
    }
}

thread_local! {
    static SLOT: Slot = Slot::take();
}

/// The count of a slot, on its own cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Count(AtomicU64);

/// Counts exactly for any number of threads.
#[derive(Debug)]
pub(super) struct Counter(Box<[Count; SLOTS]>);

impl Default for Counter {
    fn default() -> Self {
        Counter(Box::new([const { Count(AtomicU64::new(0)) }; SLOTS]))
    }
}

impl Counter {
    /// Adds one.
    #[inline]
    pub(super) fn increment(&self) {
        // While a thread's storage is destroyed, its slot has been released already.
        let slot = SLOT.try_with(|slot| slot.0.get()).unwrap_or(SLOTS - 1);
        match self.0.get(slot) {
            Some(Count(count)) if slot < SLOTS - 1 => {
                count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
            Some(Count(count)) => {
                count.fetch_add(1, Ordering::Relaxed);
            }
            None => {}
        }
    }

    /// Returns the sum.
    pub(super) fn sum(&self) -> u64 {
        self.0.iter().map(|count| count.0.load(Ordering::Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_exact_with_more_threads_than_slots() {
        let counter = Counter::default();
        std::thread::scope(|scope| {
            for _ in 0..SLOTS + 16 {
                scope.spawn(|| (0..1000).for_each(|_| counter.increment()));
            }
        });
        assert_eq!(counter.sum(), (SLOTS as u64 + 16) * 1000);
    }
}
