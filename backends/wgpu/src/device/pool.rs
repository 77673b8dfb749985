//! A pool of device buffers. A buffer returns to the pool when the last tensor that refers to it is dropped.
//!
//! Commands run in the order of recording, so a buffer can be reused although commands that read it have not finished. The exception is
//! an upload, which runs before the commands that are recorded but not yet submitted: see [`Pool::storage`].

use crate::{Result, WgpuError};
use bb::services::{OutOfMemory, Pressure, PressureCallback};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The usages of all buffers: storage, and a source and a destination of copies.
const USAGES: wgpu::BufferUsages =
    wgpu::BufferUsages::STORAGE.union(wgpu::BufferUsages::COPY_SRC).union(wgpu::BufferUsages::COPY_DST);

/// Statistics of a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// The number of buffers that tensors use.
    pub live_buffers: usize,
    /// The total size of those buffers in bytes. Sizes are rounded up to the size classes of the pool.
    pub live_bytes: u64,
    /// The number of unused buffers.
    pub free_buffers: usize,
    /// The total size of the unused buffers in bytes.
    pub free_bytes: u64,
    /// The maximum total size in bytes so far, of used and unused buffers together.
    pub peak_bytes: u64,
    /// The limit of the total size in bytes, of used and unused buffers together.
    pub limit: Option<u64>,
}

/// An unused buffer.
struct Free {
    buffer: wgpu::Buffer,
    /// The index of the last batch of commands that used the buffer.
    batch: u64,
}

#[derive(Default)]
struct Shelves {
    free: HashMap<u64, Vec<Free>>,
    stats: MemoryStats,
}

/// The buffers of one device.
pub(crate) struct Pool {
    device: wgpu::Device,
    /// The maximum size of a buffer in bytes.
    greatest: u64,
    shelves: Mutex<Shelves>,
    callback: Mutex<Option<PressureCallback>>,
}

thread_local! {
    /// Whether this thread is in a callback, which must not be called recursively.
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// A buffer that tensors share.
pub(crate) struct Storage {
    buffer: Option<wgpu::Buffer>,
    size: u64,
    /// The index of the last batch of commands that used the buffer.
    pub(crate) batch: AtomicU64,
    /// The pool that the buffer returns to; `None` for a buffer that was created elsewhere.
    pool: Option<Arc<Pool>>,
}

impl std::fmt::Debug for Storage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Storage").field("bytes", &self.size).finish_non_exhaustive()
    }
}

impl Storage {
    /// Returns the buffer. It is `None` only while this value is dropped.
    pub(crate) fn buffer(&self) -> Option<&wgpu::Buffer> {
        self.buffer.as_ref()
    }

    /// Returns the size of the buffer in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if let (Some(buffer), Some(pool)) = (self.buffer.take(), &self.pool) {
            pool.put(self.size, Free { buffer, batch: self.batch.load(Ordering::Relaxed) });
        }
    }
}

/// Rounds a number of bytes up to a size class of the pool. There are four classes for each power of two.
fn rounded(bytes: u64) -> u64 {
    let bytes = bytes.max(256);
    let step = (bytes.next_power_of_two() / 8).max(256);
    bytes.div_ceil(step) * step
}

impl Pool {
    pub(crate) fn new(device: wgpu::Device, greatest: u64, limit: Option<u64>) -> Arc<Pool> {
        let stats = MemoryStats { limit, ..MemoryStats::default() };
        let shelves = Mutex::new(Shelves { free: HashMap::new(), stats });
        Arc::new(Pool { device, greatest, shelves, callback: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Shelves> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the statistics of the pool.
    pub(crate) fn stats(&self) -> MemoryStats {
        self.lock().stats
    }

    /// Sets the function that is called before an allocation fails because of the limit.
    pub(crate) fn set_callback(&self, callback: Option<PressureCallback>) {
        *self.callback.lock().unwrap_or_else(PoisonError::into_inner) = callback;
    }

    /// Wraps a buffer that was created elsewhere. It is not counted, and does not return to the pool.
    pub(crate) fn foreign(buffer: wgpu::Buffer) -> Arc<Storage> {
        let size = buffer.size();
        Arc::new(Storage { buffer: Some(buffer), size, batch: AtomicU64::new(0), pool: None })
    }

    /// Sets the maximum total size of the pool's buffers, in bytes.
    pub(crate) fn set_limit(&self, limit: Option<u64>) {
        self.lock().stats.limit = limit;
    }

    /// Releases unused buffers, the largest first, until at most `keep` bytes of them remain. Returns the number of released bytes.
    pub(crate) fn trim(&self, keep: u64) -> u64 {
        let mut released = Vec::new();
        let mut shelves = self.lock();
        let before = shelves.stats.free_bytes;
        let Shelves { free, stats } = &mut *shelves;
        let mut sizes: Vec<u64> = free.keys().copied().collect();
        sizes.sort_unstable();
        for size in sizes.into_iter().rev() {
            let shelf = free.entry(size).or_default();
            while stats.free_bytes > keep
                && let Some(buffer) = shelf.pop()
            {
                released.push(buffer);
                stats.free_bytes -= size;
                stats.free_buffers -= 1;
            }
        }
        let after = stats.free_bytes;
        drop(shelves);
        before - after
    }

    /// Returns a buffer of at least `bytes` bytes.
    ///
    /// If the host uploads to the buffer, `upload` is the index of the current batch. An upload runs before the commands of the current
    /// batch, so the buffer must not be one that this batch uses.
    ///
    /// # Errors
    ///
    /// [`WgpuError::Memory`] if the limit or the device's memory is used up.
    pub(crate) fn storage(self: &Arc<Pool>, bytes: u64, upload: Option<u64>) -> Result<Arc<Storage>> {
        let size = rounded(bytes);
        if size > self.greatest {
            return Err(WgpuError::Memory { used: self.stats().live_bytes, source: OutOfMemory::new(bytes) });
        }
        let reused = self.take(size, upload);
        let buffer = match reused {
            Some(buffer) => buffer,
            None => self.create(size, bytes)?,
        };
        let batch = AtomicU64::new(0);
        Ok(Arc::new(Storage { buffer: Some(buffer), size, batch, pool: Some(self.clone()) }))
    }

    /// Takes an unused buffer of exactly this size, if there is one.
    fn take(&self, size: u64, upload: Option<u64>) -> Option<wgpu::Buffer> {
        let mut shelves = self.lock();
        let shelf = shelves.free.get_mut(&size)?;
        let usable = |free: &Free| upload.is_none_or(|batch| free.batch < batch);
        let at = shelf.iter().rposition(usable)?;
        let free = shelf.swap_remove(at);
        let stats = &mut shelves.stats;
        stats.free_buffers -= 1;
        stats.free_bytes -= size;
        stats.live_buffers += 1;
        stats.live_bytes += size;
        Some(free.buffer)
    }

    /// Counts a new buffer, if the limit allows it.
    fn reserve(&self, size: u64) -> std::result::Result<(), Pressure> {
        let mut shelves = self.lock();
        let stats = &mut shelves.stats;
        let held = stats.live_bytes.saturating_add(stats.free_bytes).saturating_add(size);
        if let Some(limit) = stats.limit.filter(|&limit| held > limit) {
            return Err(Pressure::new(size, stats.live_bytes, limit));
        }
        stats.live_buffers += 1;
        stats.live_bytes += size;
        stats.peak_bytes = stats.peak_bytes.max(held);
        Ok(())
    }

    /// Calls the callback for memory pressure. Returns false if there is none, or if this thread is already in it.
    fn relieve(&self, pressure: &Pressure) -> bool {
        let callback = self.callback.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(callback) = callback.filter(|_| !IN_CALLBACK.replace(true)) else { return false };
        callback(pressure);
        IN_CALLBACK.set(false);
        true
    }

    fn create(&self, size: u64, bytes: u64) -> Result<wgpu::Buffer> {
        let mut room = self.reserve(size);
        if room.is_err() {
            self.trim(0);
            room = self.reserve(size);
        }
        if let Err(pressure) = &room
            && self.relieve(pressure)
        {
            self.trim(0);
            room = self.reserve(size);
        }
        room.map_err(WgpuError::MemoryLimit)?;
        let made = self.try_create(size).or_else(|| {
            self.trim(0);
            self.try_create(size)
        });
        made.ok_or_else(|| {
            let mut shelves = self.lock();
            let stats = &mut shelves.stats;
            stats.live_buffers -= 1;
            stats.live_bytes -= size;
            WgpuError::Memory { used: stats.live_bytes, source: OutOfMemory::new(bytes) }
        })
    }

    /// Allocates a buffer. Returns `None` if the device has no memory for it.
    fn try_create(&self, size: u64) -> Option<wgpu::Buffer> {
        let scope = crate::device::Scope::new(&self.device);
        let descriptor =
            wgpu::BufferDescriptor { label: None, size, usage: USAGES, mapped_at_creation: false };
        let buffer = self.device.create_buffer(&descriptor);
        scope.end().is_none().then_some(buffer)
    }

    fn put(&self, size: u64, free: Free) {
        let mut shelves = self.lock();
        shelves.stats.live_buffers -= 1;
        shelves.stats.live_bytes -= size;
        shelves.stats.free_buffers += 1;
        shelves.stats.free_bytes += size;
        shelves.free.entry(size).or_default().push(free);
    }
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn sizes_are_at_most_a_quarter_too_large_or_256_bytes() {
        for bytes in [1, 255, 256, 257, 1000, 4096, 4097, 1 << 20, (1 << 20) + 1, 123_456_789] {
            let size = rounded(bytes);
            assert!(size >= bytes && size.is_multiple_of(256), "{bytes}: {size}");
            assert!(size - bytes <= (bytes / 4).max(256), "{bytes}: {size}");
        }
    }
}
