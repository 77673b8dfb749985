//! The memory limit of a pool.
//!
//! The counters change only if a block is allocated or freed, so reusing an unused block has no extra cost.

use super::Pool;
use crate::error::{CpuError, Result};
use crate::sync::{AtomicUsize, Mutex, Ordering};
use bb::services::{MemoryStatistics, Pressure, PressureCallback};
use std::cell::Cell;
use std::sync::PoisonError;

/// Counts the bytes of a pool's blocks, used and unused.
pub(super) struct PoolBytes {
    /// The current number of bytes.
    bytes: AtomicUsize,
    /// The largest value of `bytes` so far.
    peak: AtomicUsize,
    /// The maximum value of `bytes`; `usize::MAX` means no limit.
    limit: AtomicUsize,
    callback: Mutex<Option<PressureCallback>>,
}

impl Default for PoolBytes {
    fn default() -> PoolBytes {
        PoolBytes {
            bytes: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            limit: AtomicUsize::new(usize::MAX),
            callback: Mutex::new(None),
        }
    }
}

impl std::fmt::Debug for PoolBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.bytes.load(Ordering::Relaxed))
    }
}

thread_local! {
    /// Whether this thread is in a callback. An allocation that fails inside a callback does not call the callback
    /// again.
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

impl PoolBytes {
    /// Adds `size` bytes and returns true if the limit allows them.
    fn add(&self, size: usize) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        let more = |bytes: usize| bytes.checked_add(size).filter(|&bytes| bytes <= limit);
        match self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(before) => {
                self.peak.fetch_max(before + size, Ordering::Relaxed);
                true
            }
            Err(_) => false,
        }
    }

    /// Returns whether there is a limit.
    pub(super) fn is_limited(&self) -> bool {
        self.limit.load(Ordering::Relaxed) != usize::MAX
    }

    /// Subtracts `size` bytes.
    pub(super) fn remove(&self, size: usize) {
        self.bytes.fetch_sub(size, Ordering::Relaxed);
    }
}

impl Pool {
    /// Counts the `size` bytes of a new block. If the limit does not allow them, this frees unused blocks first, and
    /// then calls the callback.
    ///
    /// # Errors
    ///
    /// [`CpuError::Limit`].
    pub(super) fn reserve(&self, size: usize) -> Result<()> {
        if self.counted.add(size) { Ok(()) } else { self.reserve_under_pressure(size) }
    }

    #[cold]
    fn reserve_under_pressure(&self, size: usize) -> Result<()> {
        self.trim(0);
        if self.counted.add(size) {
            return Ok(());
        }
        let callback = self.counted.callback.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(callback) = callback
            && !IN_CALLBACK.replace(true)
        {
            let _leaves = Leaves;
            callback(&self.pressure(size));
            self.trim(0);
            if self.counted.add(size) {
                return Ok(());
            }
        }
        Err(CpuError::Limit(self.pressure(size)))
    }

    fn pressure(&self, size: usize) -> Pressure {
        let MemoryStatistics { live, limit, .. } = self.statistics();
        Pressure::new(size as u64, live, limit.unwrap_or(u64::MAX))
    }

    /// Returns the statistics. If other threads take blocks concurrently, `live` and `pooled` may not match each other.
    pub(crate) fn statistics(&self) -> MemoryStatistics {
        let read = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        let (bytes, pooled) = (read(&self.counted.bytes), read(&self.idle));
        let limit = Some(read(&self.counted.limit)).filter(|&limit| limit != usize::MAX);
        MemoryStatistics::new(
            bytes.saturating_sub(pooled) as u64,
            pooled as u64,
            read(&self.counted.peak) as u64,
            limit.map(|limit| limit as u64),
        )
    }

    /// Returns the block sizes that have unused blocks, each with the total size of its unused blocks. Both are in
    /// bytes.
    pub(crate) fn kept_by_size(&self) -> Vec<(u64, u64)> {
        let count = |(class, list): (usize, &Mutex<super::List>)| {
            let blocks = list.lock().unwrap_or_else(PoisonError::into_inner).len() as u64;
            let size = super::class_size(class) as u64;
            (blocks > 0).then_some((size, blocks * size))
        };
        self.kept.iter().enumerate().filter_map(count).collect()
    }

    /// Sets the maximum total size of all blocks, in bytes.
    pub(crate) fn set_limit(&self, bytes: Option<u64>) {
        let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(usize::MAX);
        self.counted.limit.store(bytes, Ordering::Relaxed);
    }

    /// Sets the function that is called before an allocation fails because of the limit.
    pub(crate) fn set_callback(&self, callback: Option<PressureCallback>) {
        let old = {
            let mut place = self.counted.callback.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *place, callback)
        };
        drop(old);
    }

    /// Frees unused blocks, large ones first, until at most `keep` unused bytes remain. Returns the number of freed
    /// bytes.
    pub(crate) fn trim(&self, keep: usize) -> usize {
        let mut freed = 0;
        for (class, list) in self.kept.iter().enumerate().rev() {
            if self.idle.load(Ordering::Relaxed) <= keep {
                break;
            }
            let size = super::class_size(class);
            loop {
                if self.idle.load(Ordering::Relaxed) <= keep {
                    break;
                }
                let Some(kept) = list.lock().unwrap_or_else(PoisonError::into_inner).take() else { break };
                self.idle.fetch_sub(size, Ordering::Relaxed);
                self.release(kept, size);
                freed += size;
            }
        }
        freed
    }
}

/// Marks the end of a callback on drop, also during a panic.
struct Leaves;

impl Drop for Leaves {
    fn drop(&mut self) {
        IN_CALLBACK.set(false);
    }
}
