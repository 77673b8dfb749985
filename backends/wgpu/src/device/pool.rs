//! Buffers of the device, which return to a pool when the last tensor that reads them is dropped.
//!
//! Commands run in the order of recording, so a buffer can be handed out again while commands that read it are not yet finished. The one
//! exception is an upload, which runs before the commands that are recorded but not yet submitted: see [`Pool::storage`].

use crate::{Result, WgpuError};
use bb::services::{OutOfMemory, Pressure, PressureCallback};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The usages of a bound buffer: storage, and a source and a target of copies.
const USAGES: wgpu::BufferUsages =
    wgpu::BufferUsages::STORAGE.union(wgpu::BufferUsages::COPY_SRC).union(wgpu::BufferUsages::COPY_DST);

/// Statistics of a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// The buffers that tensors hold.
    pub live_buffers: usize,
    /// Their bytes, rounded up to the sizes of the pool.
    pub live_bytes: u64,
    /// The buffers that wait for their next use.
    pub free_buffers: usize,
    /// Their bytes.
    pub free_bytes: u64,
    /// The most bytes, live and free, that the pool held at once.
    pub peak_bytes: u64,
    /// The greatest number of bytes, live and free, that the pool may hold.
    pub limit: Option<u64>,
}

/// A buffer that waits for its next use.
struct Free {
    buffer: wgpu::Buffer,
    /// The last batch of commands that used it.
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
    /// The greatest size of a buffer.
    greatest: u64,
    shelves: Mutex<Shelves>,
    callback: Mutex<Option<PressureCallback>>,
}

thread_local! {
    /// Whether this thread is in a callback.
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// A buffer that tensors share.
pub(crate) struct Storage {
    buffer: Option<wgpu::Buffer>,
    size: u64,
    /// The last batch of commands that used it.
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
    /// The buffer. Only dropping takes it.
    pub(crate) fn buffer(&self) -> Option<&wgpu::Buffer> {
        self.buffer.as_ref()
    }

    /// The size of the buffer in bytes.
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

/// Rounds a number of bytes up to a size that the pool has: powers of two and the quarters between them.
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

    /// Sets the function that is called before a limit fails an allocation.
    pub(crate) fn set_callback(&self, callback: Option<PressureCallback>) {
        *self.callback.lock().unwrap_or_else(PoisonError::into_inner) = callback;
    }

    /// Wraps a buffer that was created elsewhere. It does not count, and does not return to the pool.
    pub(crate) fn foreign(buffer: wgpu::Buffer) -> Arc<Storage> {
        let size = buffer.size();
        Arc::new(Storage { buffer: Some(buffer), size, batch: AtomicU64::new(0), pool: None })
    }

    /// Sets the greatest number of bytes that the pool may hold.
    pub(crate) fn set_limit(&self, limit: Option<u64>) {
        self.lock().stats.limit = limit;
    }

    /// Releases buffers that wait for their next use, the largest first, until at most `keep` bytes of them are left. Returns
    /// the bytes that were released.
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

    /// Hands out a buffer of at least that many bytes.
    ///
    /// An upload runs before the commands of the batch that is being recorded. A buffer for one must not be in use by that
    /// batch, whose number is `upload`.
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

    /// Takes a buffer of this size that waits for its next use.
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

    /// Counts a new buffer, if the limit has room for it.
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

    /// Calls the callback for memory pressure; returns whether there was one to call.
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

    /// Allocates a buffer; `None` if the device has no memory for it.
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
