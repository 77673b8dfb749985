//! Counts the calls of all threads, and reports whether any call is running.
//!
//! Threads that write the same memory slow each other down. So each thread has its own slot and writes only there.
//! If there are more threads than slots, the remaining threads share the last slot.

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::thread_local;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;

/// The number of slots. Each has a bit in [`TAKEN`]; the last slot is the shared one.
const SLOTS: usize = if cfg!(all(test, bb_model)) { 2 } else { 64 };

/// The slots that living threads use, one bit each.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// The slot of a thread, released when the thread ends.
struct ThreadSlot(Cell<usize>);

impl ThreadSlot {
    /// Takes a free slot, or the shared slot if none is free.
    fn take() -> ThreadSlot {
        let mut taken = TAKEN.load(Ordering::Relaxed);
        loop {
            let free = taken.trailing_ones() as usize;
            if free >= SLOTS - 1 {
                return ThreadSlot(Cell::new(SLOTS - 1));
            }
            // Acquire: the new owner of the slot must see what its previous owner counted.
            match TAKEN.compare_exchange_weak(taken, taken | 1 << free, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return ThreadSlot(Cell::new(free)),
                Err(now) => taken = now,
            }
        }
    }
}

impl Drop for ThreadSlot {
    fn drop(&mut self) {
        let slot = self.0.replace(SLOTS - 1);
        if slot < SLOTS - 1 {
            TAKEN.fetch_and(!(1 << slot), Ordering::Release);
        }
    }
}

thread_local! {
    static SLOT: ThreadSlot = ThreadSlot::take();
}

/// The counts of a slot, on their own cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Count {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// An exact counter of calls, for any number of threads. It also reports whether any calls are running.
#[derive(Debug)]
pub(super) struct Counter([Count; SLOTS]);

/// A running call. Dropping it ends the call. It stays in the thread that began it.
#[derive(Debug)]
pub(super) struct Call<'a> {
    counter: &'a Counter,
    slot: usize,
    not_send: PhantomData<*const ()>,
}

thread_local! {
    /// The counters of this thread's running calls that are counted in the shared slot. A thread with its own slot
    /// finds its calls in the slot.
    static SHARED: RefCell<Vec<*const Counter>> = const { RefCell::new(Vec::new()) };
}

impl Default for Counter {
    fn default() -> Self {
        Counter([const { Count { begun: AtomicU64::new(0), ended: AtomicU64::new(0) } }; SLOTS])
    }
}

/// Returns this thread's slot. During the destruction of thread-local storage, the slot is already released, so this
/// returns the shared slot.
fn slot() -> usize {
    SLOT.try_with(|slot| slot.0.get()).unwrap_or(SLOTS - 1)
}

impl Counter {
    /// Counts a call as begun.
    ///
    /// The addition is sequentially consistent. If one thread begins a call and then reads a flag, and another thread
    /// sets the flag and then queries [`is_running`](Self::is_running), at least one of them sees the other's write.
    #[inline]
    pub(super) fn begin(&self) -> Call<'_> {
        let slot = slot();
        if let Some(count) = self.0.get(slot) {
            count.begun.fetch_add(1, Ordering::SeqCst);
        }
        if slot == SLOTS - 1 {
            self.note_shared();
        }
        Call { counter: self, slot, not_send: PhantomData }
    }

    #[cold]
    fn note_shared(&self) {
        let _destroyed = SHARED.try_with(|calls| calls.borrow_mut().push(self));
    }

    #[cold]
    fn forget_shared(&self) {
        let _destroyed = SHARED.try_with(|calls| {
            let mut calls = calls.borrow_mut();
            if let Some(at) = calls.iter().rposition(|counter| std::ptr::eq(*counter, self)) {
                calls.remove(at);
            }
        });
    }

    /// Returns the number of calls that have begun.
    pub(super) fn begun(&self) -> u64 {
        self.0.iter().map(|count| count.begun.load(Ordering::Relaxed)).sum()
    }

    /// Returns whether a call is running in any thread.
    pub(super) fn is_running(&self) -> bool {
        self.0.iter().any(Count::is_running)
    }

    /// Returns whether this thread is inside a call. The thread must not wait for that call.
    pub(super) fn is_running_here(&self) -> bool {
        match slot() {
            own if own < SLOTS - 1 => self.0.get(own).is_some_and(Count::is_running),
            _ => SHARED
                .try_with(|calls| calls.borrow().iter().any(|counter| std::ptr::eq(*counter, self)))
                .unwrap_or(false),
        }
    }
}

impl Count {
    fn is_running(&self) -> bool {
        // The number of ended calls is read first. So if the two numbers are equal, all calls that had begun before the
        // second read had also ended.
        let ended = self.ended.load(Ordering::Acquire);
        self.begun.load(Ordering::SeqCst) != ended
    }
}

impl Drop for Call<'_> {
    #[inline]
    fn drop(&mut self) {
        let Some(Count { ended, .. }) = self.counter.0.get(self.slot) else { return };
        if self.slot < SLOTS - 1 {
            ended.store(ended.load(Ordering::Relaxed) + 1, Ordering::Release);
        } else {
            self.counter.forget_shared();
            ended.fetch_add(1, Ordering::Release);
        }
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
                scope.spawn(|| (0..1000).for_each(|_| drop(counter.begin())));
            }
        });
        assert_eq!(counter.begun(), (SLOTS as u64 + 16) * 1000);
        assert!(!counter.is_running());
    }

    #[test]
    fn a_running_call_is_noticed_in_every_slot() {
        let (counter, other) = (Counter::default(), Counter::default());
        let threads = SLOTS + 2;
        let here = std::sync::Barrier::new(threads);
        let noticed = |_| {
            here.wait();
            let call = counter.begin();
            let noticed = counter.is_running() && counter.is_running_here() && !other.is_running_here();
            drop(call);
            noticed && !counter.is_running_here()
        };
        let noticed: Vec<bool> = std::thread::scope(|scope| {
            let started: Vec<_> = (0..threads).map(|i| scope.spawn(move || noticed(i))).collect();
            started.into_iter().map(|thread| thread.join().unwrap_or(false)).collect()
        });
        assert_eq!(noticed, vec![true; threads]);
        assert!(!counter.is_running() && !other.is_running());
    }
}
