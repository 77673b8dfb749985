//! Blocks of memory, 64-byte aligned, that count their owners and are kept for the next result when the
//! last owner drops them.
//!
//! On common machines the first touch of a page costs more than the arithmetic on it, and the pages of a returned block have
//! been touched. Sizes are rounded up to a quarter of a power of two, so that a block
//! fits many results and wastes at most a fifth of itself. A block's header lies before its bytes, so that
//! taking a kept block allocates nothing.

use crate::error::{CpuError, Result};
use crate::threads;
use rayon::ThreadPool;
use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

/// The alignment of a block's bytes, and the size of its header.
pub(crate) const ALIGNMENT: usize = 64;

/// Four sizes per doubling, from 64 bytes to what an address space holds.
const CLASSES: usize = 4 * 58;

/// The place that blocks come from and return to, and the threads that fill them.
#[derive(Debug)]
pub(crate) struct Pool {
    kept: [Mutex<Vec<Kept>>; CLASSES],
    /// The backend's own threads; none if kernels run on rayon's.
    threads: Option<Arc<ThreadPool>>,
    /// Bytes in `kept`.
    idle: AtomicUsize,
    /// The most bytes to keep.
    limit: usize,
}

/// A block that nobody owns.
#[derive(Debug)]
struct Kept(NonNull<Header>);

// SAFETY: the pool alone has the address of a block that it keeps.
unsafe impl Send for Kept {}

#[repr(C, align(64))]
struct Header {
    owners: AtomicUsize,
    class: usize,
    /// The pool to return to; `None` while it is there.
    home: Option<Arc<Pool>>,
}

const _: () = assert!(size_of::<Header>() == ALIGNMENT);

/// Returns the class whose blocks hold `bytes`, and the size of its blocks.
fn class(bytes: usize) -> (usize, usize) {
    let units = bytes.div_ceil(ALIGNMENT).max(1);
    if units <= 4 {
        return (units - 1, units * ALIGNMENT);
    }
    // units - 1 is at least 4: two bits below its highest select the quarter.
    let shift = (units - 1).ilog2() - 2;
    let quarter = (units - 1) >> shift;
    let class = shift as usize * 4 + quarter;
    (class, ((quarter + 1) << shift) * ALIGNMENT)
}

impl Pool {
    /// Makes a pool that keeps at most `limit` bytes that nobody uses.
    pub(crate) fn new(limit: usize, threads: Option<Arc<ThreadPool>>) -> Arc<Pool> {
        let kept = std::array::from_fn(|_| Mutex::default());
        Arc::new(Pool { kept, threads, idle: AtomicUsize::new(0), limit })
    }

    /// Runs `f`, which fills a block; its kernels share their work with this pool's threads.
    #[inline]
    pub(crate) fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        match &self.threads {
            None => f(),
            Some(threads) => threads::within(threads, f),
        }
    }

    /// Returns a block of at least `bytes` bytes, which hold anything.
    ///
    /// # Errors
    ///
    /// [`CpuError::Memory`] if the system has none.
    pub(crate) fn take(self: &Arc<Pool>, bytes: usize) -> Result<Block> {
        if bytes > isize::MAX as usize / 4 {
            return Err(CpuError::Memory { bytes });
        }
        let (class, size) = class(bytes);
        let kept =
            self.kept.get(class).and_then(|list| list.lock().unwrap_or_else(PoisonError::into_inner).pop());
        let header = match kept {
            Some(Kept(header)) => {
                self.idle.fetch_sub(size, Ordering::Relaxed);
                header
            }
            None => {
                let layout = block_layout(size).ok_or(CpuError::Memory { bytes })?;
                // SAFETY: the layout has at least the size of a header, which is not zero.
                let raw = NonNull::new(unsafe { alloc(layout) }).ok_or(CpuError::Memory { bytes })?;
                ask_for_large_pages(raw, size);
                raw.cast::<Header>()
            }
        };
        // SAFETY: the memory is aligned for a header and has no other owner. A header that was kept holds no pool, so that
        // overwriting it drops nothing.
        unsafe {
            header.write(Header { owners: AtomicUsize::new(1), class, home: Some(self.clone()) });
        }
        Ok(Block(header))
    }

    /// Takes back a block whose last owner is gone, or frees it if the pool keeps enough.
    fn give(&self, header: NonNull<Header>, class: usize) {
        let size = class_size(class);
        if self.idle.fetch_add(size, Ordering::Relaxed) + size <= self.limit
            && let Some(list) = self.kept.get(class)
        {
            list.lock().unwrap_or_else(PoisonError::into_inner).push(Kept(header));
        } else {
            self.idle.fetch_sub(size, Ordering::Relaxed);
            free(header, size);
        }
    }
}

/// Returns the size of the blocks of a class.
fn class_size(class: usize) -> usize {
    if class < 4 {
        return (class + 1) * ALIGNMENT;
    }
    let shift = class / 4 - 1;
    ((class - shift * 4 + 1) << shift) * ALIGNMENT
}

fn block_layout(size: usize) -> Option<Layout> {
    let alignment = if size < LARGE_PAGE { ALIGNMENT } else { LARGE_PAGE };
    Layout::from_size_align(size.checked_add(ALIGNMENT)?, alignment).ok()
}

/// Bytes of the pages that large blocks lie on, where the system has such pages. A block needs few of them, so that
/// touching them first and finding them again costs little.
const LARGE_PAGE: usize = if cfg!(target_os = "linux") { 2 << 20 } else { usize::MAX };

/// Asks the system for large pages, as many as fit `size` bytes.
#[cfg(target_os = "linux")]
fn ask_for_large_pages(start: NonNull<u8>, size: usize) {
    use std::ffi::{c_int, c_void};
    unsafe extern "C" {
        fn madvise(start: *mut c_void, size: usize, advice: c_int) -> c_int;
    }
    const HUGEPAGE: c_int = 14;
    if size >= LARGE_PAGE {
        // SAFETY: the pages belong to this block alone, and this advice does not change what they hold. A system without
        // large pages refuses it, which changes nothing.
        unsafe { madvise(start.as_ptr().cast(), size - size % LARGE_PAGE, HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn ask_for_large_pages(_: NonNull<u8>, _: usize) {}

fn free(header: NonNull<Header>, size: usize) {
    if let Some(layout) = block_layout(size) {
        // SAFETY: the block was allocated with this layout and has no owner.
        unsafe { dealloc(header.as_ptr().cast(), layout) }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for (class, list) in self.kept.iter_mut().enumerate() {
            for Kept(header) in list.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
                free(header, class_size(class));
            }
        }
    }
}

/// A share of a block. The last share that is dropped returns the block to its pool.
#[derive(Debug)]
pub(crate) struct Block(NonNull<Header>);

// SAFETY: the count is atomic, and only the code that took the block writes its bytes, before it shares the block.
unsafe impl Send for Block {}
// SAFETY: the count is atomic, and only the code that took the block writes its bytes, before it shares the block.
unsafe impl Sync for Block {}

impl Block {
    /// Points at the first byte.
    #[inline]
    pub(crate) fn ptr(&self) -> *mut u8 {
        // SAFETY: the bytes follow the header in one allocation.
        unsafe { self.0.as_ptr().cast::<u8>().add(ALIGNMENT) }
    }
}

impl Clone for Block {
    #[inline]
    fn clone(&self) -> Block {
        // SAFETY: this owner keeps the block alive.
        unsafe { self.0.as_ref() }.owners.fetch_add(1, Ordering::Relaxed);
        Block(self.0)
    }
}

impl Drop for Block {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this owner has not given up its share yet, so that the block is alive.
        if unsafe { self.0.as_ref() }.owners.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        fence(Ordering::Acquire);
        // SAFETY: this was the last owner, so that no other code reads the header.
        let header = unsafe { self.0.as_mut() };
        let class = header.class;
        if let Some(pool) = header.home.take() {
            pool.give(self.0, class);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_they_are_asked_for() {
        for bytes in (0..10_000).chain([1 << 20, (1 << 20) + 1, 5 << 30]) {
            let (class, size) = class(bytes);
            assert!(size >= bytes, "{bytes}");
            assert_eq!(class_size(class), size, "{bytes}");
            assert!(bytes < 320 || size <= bytes + bytes / 4 + 64, "{bytes} in {size}");
        }
    }

    #[test]
    fn a_returned_block_is_the_next_one_taken() {
        let pool = Pool::new(1 << 20, None);
        let first = pool.take(1000).map(|b| b.ptr());
        let second = pool.take(1020).map(|b| b.ptr());
        assert_eq!(first.ok(), second.ok());
    }

    #[test]
    fn shared_blocks_stay_taken_and_full_pools_free() {
        let pool = Pool::new(100, None);
        let block = pool.take(64).expect("memory");
        let share = block.clone();
        drop(block);
        let other = pool.take(64).expect("memory");
        assert_ne!(share.ptr(), other.ptr());
        drop((share, other));
        assert_eq!(pool.idle.load(Ordering::Relaxed), 64);
    }
}
