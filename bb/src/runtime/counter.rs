//! A counter that every call of every thread increments.
//!
//! An atomic addition costs as much as a third of a small call's way through the bridge. So each thread has a
//! place that it alone writes, where a load and a store are enough; threads beyond the places share one.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of places; one bit each in [`TAKEN`], the last being the shared one.
const PLACES: usize = 64;

/// Which places a living thread has.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// A place, given back when its thread ends.
struct Place(Cell<usize>);

impl Place {
    /// Takes a free place, or the shared one.
    fn take() -> Place {
        let mut taken = TAKEN.load(Ordering::Relaxed);
        loop {
            let free = taken.trailing_ones() as usize;
            if free >= PLACES - 1 {
                return Place(Cell::new(PLACES - 1));
            }
            // Acquire: what the place's last thread counted is seen by its next.
            match TAKEN.compare_exchange_weak(taken, taken | 1 << free, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return Place(Cell::new(free)),
                Err(now) => taken = now,
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let place = self.0.replace(PLACES - 1);
        if place < PLACES - 1 {
            TAKEN.fetch_and(!(1 << place), Ordering::Release);
        }
    }
}

thread_local! {
    static PLACE: Place = Place::take();
}

/// A place's count, alone on its cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Count(AtomicU64);

/// Counts exactly, whatever the number of threads.
#[derive(Debug)]
pub(super) struct Counter(Box<[Count; PLACES]>);

impl Default for Counter {
    fn default() -> Self {
        Counter(Box::new([const { Count(AtomicU64::new(0)) }; PLACES]))
    }
}

impl Counter {
    /// Adds one.
    #[inline]
    pub(super) fn increment(&self) {
        // A thread whose storage is being torn down has given its place back.
        let place = PLACE.try_with(|place| place.0.get()).unwrap_or(PLACES - 1);
        match self.0.get(place) {
            Some(Count(count)) if place < PLACES - 1 => {
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
    fn nothing_is_lost_among_more_threads_than_places() {
        let counter = Counter::default();
        std::thread::scope(|scope| {
            for _ in 0..PLACES + 16 {
                scope.spawn(|| (0..1000).for_each(|_| counter.increment()));
            }
        });
        assert_eq!(counter.sum(), (PLACES as u64 + 16) * 1000);
    }
}
