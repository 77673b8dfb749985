//! Reference-counted memory blocks with 64-byte alignment. When the last owner drops a block, the pool keeps the block for a
//! later result.
//!
//! On common machines, the first access to a page costs more than the arithmetic on its elements; the pages of a reused block
//! have already been accessed. Sizes are rounded up to a quarter of a power of two, so that a block fits many results and at
//! most a fifth of it is unused. A large result may take a block of up to twice its size: of these blocks it takes the last one that
//! was returned, because the processor's caches probably contain it. So networks whose layers differ in size need fewer blocks.
//! If there is a memory limit, each result takes a block of its own size, so that the limit is not reached early.
//! A block's header precedes its bytes, so reusing a block allocates nothing.
//!
//! Blocks that were needed only for a short peak are freed later: see [`kept`].

mod kept;
mod limit;
mod memory;

use crate::error::{CpuError, Result};
use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering, fence};
use crate::team::Team;
use crate::{pace, threads};
use kept::{Kept, List};
use limit::PoolBytes;
use memmap2::MmapMut;
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError};

/// The alignment of a block's bytes, and the size of its header.
pub(crate) const ALIGNMENT: usize = 64;

/// The number of size classes. There are four for each doubling, from 64 bytes to [`MOST`].
///
/// Model tests use only small blocks, so they need few classes.
const CLASSES: usize = if cfg!(all(test, bb_model)) { 4 } else { 4 * (usize::BITS as usize - 10) };

/// The maximum size of a block in bytes.
const MOST: usize = isize::MAX as usize / 4;

/// The minimum size in bytes of results that may take larger blocks. Small blocks seldom leave the caches.
const LARGE: usize = 1 << 15;

/// The number of larger size classes that a large result may take a block of. Four classes double the size.
const LARGER_CLASSES: usize = 4;

/// A pool of blocks, and the threads of its backend.
#[derive(Debug)]
pub(crate) struct Pool {
    kept: [Mutex<List>; CLASSES],
    /// The backend's own threads; `None` if it uses the shared team.
    threads: Option<Arc<Team>>,
    /// The total size in bytes of the blocks in `kept`.
    idle: AtomicUsize,
    /// The number of large blocks that have returned so far.
    returns: AtomicUsize,
    /// The size class to trim next, in round-robin order. A class is also trimmed after many blocks have returned to it.
    turn: AtomicUsize,
    /// The maximum number of unused bytes to keep.
    limit: usize,
    /// The total size of all blocks, and its limit.
    counted: PoolBytes,
}

#[repr(C, align(64))]
#[derive(Debug)]
struct Header {
    owners: AtomicUsize,
    class: usize,
    /// The memory pages of the block; `None` if the allocator allocated it.
    pages: Option<MmapMut>,
    /// The pool that the block returns to; `None` while the block is unused.
    home: Option<Arc<Pool>>,
}

const _: () = assert!(size_of::<Header>() == ALIGNMENT);

/// Returns the smallest size class that fits `bytes` bytes, and its block size in bytes.
fn class(bytes: usize) -> (usize, usize) {
    let units = bytes.div_ceil(ALIGNMENT).max(1);
    if units <= 4 {
        return (units - 1, units * ALIGNMENT);
    }
    // `units - 1` is at least 4, so the two bits below its highest bit select the quarter.
    let shift = (units - 1).ilog2() - 2;
    let quarter = (units - 1) >> shift;
    let class = shift as usize * 4 + quarter;
    (class, ((quarter + 1) << shift) * ALIGNMENT)
}

impl Pool {
    /// Creates a pool that keeps at most `limit` unused bytes.
    pub(crate) fn new(limit: usize, threads: Option<Arc<Team>>) -> Arc<Pool> {
        let kept = std::array::from_fn(|_| Mutex::default());
        Arc::new(Pool {
            kept,
            threads,
            idle: AtomicUsize::new(0),
            returns: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
            limit,
            counted: PoolBytes::default(),
        })
    }

    /// Runs `f`, which fills a block. Its kernels share their work with this pool's threads.
    ///
    /// # Errors
    ///
    /// [`bb::Error::DeadlineExceeded`] and [`bb::Error::Cancelled`], if the run must end.
    #[inline]
    pub(crate) fn run<R>(&self, f: impl FnOnce() -> R) -> Result<R> {
        pace::caught(|| match &self.threads {
            None => f(),
            Some(threads) => threads::within(threads, f),
        })
    }

    /// Returns the number of threads that a kernel may use.
    pub(crate) fn threads(&self) -> usize {
        self.threads.as_ref().map_or_else(threads::count, |own| own.count())
    }

    /// Returns a block of at least `bytes` bytes. Its contents are arbitrary.
    ///
    /// # Errors
    ///
    /// [`CpuError::Memory`] if the system has no memory; [`CpuError::Limit`] if the pool's limit is reached.
    pub(crate) fn take(self: &Arc<Pool>, bytes: usize) -> Result<Block> {
        if bytes > MOST {
            return Err(CpuError::no_memory(bytes));
        }
        let (class, size) = class(bytes);
        let mut header = match self.take_kept(class, size) {
            Some(Kept(header)) => {
                // SAFETY: the block has a header, and no owner that changes it.
                let class = unsafe { header.as_ref() }.class;
                self.idle.fetch_sub(class_size(class), Ordering::Relaxed);
                header
            }
            None => {
                self.reserve(size)?;
                memory::allocate(size, class).ok_or_else(|| {
                    self.counted.remove(size);
                    CpuError::no_memory(bytes)
                })?
            }
        };
        // SAFETY: the block has a header and no other owner.
        let Header { owners, home, .. } = unsafe { header.as_mut() };
        *owners = AtomicUsize::new(1);
        *home = Some(self.clone());
        Ok(Block(header))
    }

    /// Takes the unused block of this class that was returned last. If the class is large and there is no memory limit, takes the block
    /// that was returned last among the blocks of this class and of the next larger classes.
    fn take_kept(&self, class: usize, size: usize) -> Option<Kept> {
        let lists = self.kept.get(class..)?;
        let list = if size < LARGE || self.counted.is_limited() {
            lists.first()
        } else {
            let lists = lists.get(..=LARGER_CLASSES).unwrap_or(lists);
            lists.iter().max_by_key(|list| locked(list).last_return())
        };
        locked(list?).take()
    }

    /// Adds a block without an owner to the unused blocks, or frees it if the pool already keeps enough.
    fn give(&self, header: NonNull<Header>, class: usize) {
        let size = class_size(class);
        if self.idle.fetch_add(size, Ordering::Relaxed) + size <= self.limit
            && let Some(list) = self.kept.get(class)
        {
            let time = if size < LARGE { 0 } else { self.returns.fetch_add(1, Ordering::Relaxed) };
            let is_time = locked(list).give(Kept(header), time);
            if is_time {
                self.free_unneeded(class, false);
                self.free_unneeded(self.turn.fetch_add(1, Ordering::Relaxed) % CLASSES, true);
            }
        } else {
            self.idle.fetch_sub(size, Ordering::Relaxed);
            self.release(Kept(header), size);
        }
    }

    /// Frees a block that has no owner and is not in a list.
    fn release(&self, Kept(header): Kept, size: usize) {
        self.counted.remove(size);
        // SAFETY: the block has no owner, and the pool does not keep it.
        unsafe { memory::free(header, size) };
    }

    /// Frees half of the blocks of a class that no result needed since the last check. `by_turn` says that the round-robin
    /// order selected the class.
    #[cold]
    fn free_unneeded(&self, class: usize, by_turn: bool) {
        let Some(list) = self.kept.get(class) else { return };
        let unneeded = locked(list).unneeded(by_turn);
        let size = class_size(class);
        self.idle.fetch_sub(unneeded.len() * size, Ordering::Relaxed);
        for kept in unneeded {
            self.release(kept, size);
        }
    }
}

fn locked(list: &Mutex<List>) -> MutexGuard<'_, List> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the block size of a class in bytes.
fn class_size(class: usize) -> usize {
    if class < 4 {
        return (class + 1) * ALIGNMENT;
    }
    let shift = class / 4 - 1;
    ((class - shift * 4 + 1) << shift) * ALIGNMENT
}

impl Drop for Pool {
    fn drop(&mut self) {
        for (class, list) in self.kept.iter_mut().enumerate() {
            for Kept(header) in list.get_mut().unwrap_or_else(PoisonError::into_inner).all() {
                // SAFETY: the block has no owner, and the pool has let it go.
                unsafe { memory::free(header, class_size(class)) };
            }
        }
    }
}

/// A reference to a block. When the last reference is dropped, the block returns to its pool.
#[derive(Debug)]
pub(crate) struct Block(NonNull<Header>);

// SAFETY: the count is atomic, and only the code that took the block writes its bytes, before it shares the block.
unsafe impl Send for Block {}
// SAFETY: the count is atomic, and only the code that took the block writes its bytes, before it shares the block.
unsafe impl Sync for Block {}

impl Block {
    /// Returns a pointer to the first byte.
    #[inline]
    pub(crate) fn ptr(&self) -> *mut u8 {
        // SAFETY: the bytes follow the header in the same allocation.
        unsafe { self.0.as_ptr().cast::<u8>().add(ALIGNMENT) }
    }

    /// Returns whether this is the only reference to the block, so that its owner may write to the block again.
    pub(crate) fn is_sole(&self) -> bool {
        // SAFETY: this owner keeps the block alive. The order is that of the last owner's drop: the owners that held the block
        // before have read it.
        unsafe { self.0.as_ref() }.owners.load(Ordering::Acquire) == 1
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
        // SAFETY: this owner still holds its reference, so the block is alive.
        if unsafe { self.0.as_ref() }.owners.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        fence(Ordering::Acquire);
        // SAFETY: this was the last owner, so no other code reads the header.
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
    fn every_size_has_a_class() {
        assert_eq!(class(MOST).0, CLASSES - 1);
        assert!(class_size(CLASSES - 1) >= MOST);
    }

    #[test]
    fn a_returned_block_is_the_next_one_taken() {
        let pool = Pool::new(1 << 20, None);
        let first = pool.take(1000).map(|b| b.ptr());
        let second = pool.take(1020).map(|b| b.ptr());
        assert_eq!(first.ok(), second.ok());
    }

    /// The test uses the classes of 64 KiB to 160 KiB. A block of 160 KiB is more than twice as large as 64 KiB.
    #[test]
    fn a_large_result_takes_the_latest_block_of_up_to_twice_its_size() {
        let pool = Pool::new(1 << 20, None);
        let take = |kib: usize| pool.take(kib << 10).expect("memory");
        let [small, double, larger] = [64, 128, 160].map(take);
        let [at_small, at_double, at_larger] = [&small, &double, &larger].map(Block::ptr);
        drop((small, double, larger));
        // The larger block was returned last.
        let first = take(64);
        let second = take(60);
        assert_eq!([first.ptr(), second.ptr()], [at_double, at_small]);
        drop((second, first));
        let held = take(64);
        assert_eq!([held.ptr(), take(112).ptr()], [at_double, at_larger]);
        drop(held);
        let idle: usize = [64, 128, 160].iter().sum::<usize>() << 10;
        assert_eq!(pool.idle.load(Ordering::Relaxed), idle);
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

    #[test]
    fn blocks_of_a_burst_are_freed_while_others_are_used() {
        let pool = Pool::new(1 << 30, None);
        let burst: Vec<Block> = (0..100).map(|_| pool.take(1 << 16).expect("memory")).collect();
        drop(burst);
        let kept = pool.idle.load(Ordering::Relaxed);
        let again = pool.take(1 << 16).expect("memory");
        drop(again);
        assert_eq!(pool.idle.load(Ordering::Relaxed), kept, "too early");
        for _ in 0..CLASSES * kept::GIVEN as usize * 10 {
            drop(pool.take(64));
        }
        // One small block.
        assert_eq!(pool.idle.load(Ordering::Relaxed), 64);
    }
}

#[cfg(all(test, bb_model))]
mod model;
