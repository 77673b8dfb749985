//! Loom models of blocks that threads share and return.

use super::{Block, Kept, Pool, class_size};
use crate::sync::{Ordering, thread};
use loom::cell::UnsafeCell;
use std::sync::{Arc, PoisonError};

/// A `u32` in the bytes of a block; `loom` reports concurrent accesses to it.
struct Number(Block);

impl Number {
    /// Writes 0 into a block that was never used.
    fn new(block: Block) -> Number {
        // SAFETY: the block has room for it, and this is its only owner.
        unsafe { block.ptr().cast::<UnsafeCell<u32>>().write(UnsafeCell::new(0)) };
        Number(block)
    }

    fn cell(&self) -> &UnsafeCell<u32> {
        // SAFETY: the bytes of a block stay as they are when it is given back and taken again.
        unsafe { &*self.0.ptr().cast::<UnsafeCell<u32>>() }
    }

    fn read(&self) -> u32 {
        // SAFETY: `loom` reports a write at the same time.
        self.cell().with(|number| unsafe { *number })
    }

    fn write(&self, value: u32) {
        // SAFETY: `loom` reports another access at the same time.
        self.cell().with_mut(|number| unsafe { *number = value });
    }
}

/// Asserts that the number of unused bytes that a pool reports equals the size of its unused blocks. Returns
/// that number.
fn check_idle(pool: &Pool) -> usize {
    let mut kept = 0;
    for (class, list) in pool.kept.iter().enumerate().take(4) {
        let list = list.lock().unwrap_or_else(PoisonError::into_inner);
        let blocks = list.blocks();
        kept += blocks.len() * class_size(class);
        let mut places: Vec<_> = blocks.iter().map(|Kept(header)| *header).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), blocks.len(), "a block is kept twice");
    }
    assert_eq!(pool.idle.load(Ordering::Relaxed), kept);
    kept
}

#[test]
fn a_block_is_taken_again_after_its_last_reader() {
    loom::model(|| {
        let pool = Pool::new(1 << 20, None);
        let number = Number::new(pool.take(64).expect("memory"));
        number.write(7);
        let (share, used) = (Number(number.0.clone()), number.0.ptr().addr());
        let reader = thread::spawn(move || assert_eq!(share.read(), 7));
        assert_eq!(number.read(), 7);
        drop(number);
        let next = Number(pool.take(64).expect("memory"));
        // If the reader has already dropped the block, the pool returns the same block again, and no other
        // thread may access it.
        if next.0.ptr().addr() == used {
            next.write(8);
        }
        reader.join().expect("no panic");
        drop(next);
        check_idle(&pool);
    });
}

#[test]
fn threads_that_take_and_give_back_have_blocks_of_their_own() {
    loom::model(|| {
        let pool = Pool::new(1 << 20, None);
        let blocks = [pool.take(64), pool.take(64)].map(|block| Number::new(block.expect("memory")));
        drop(blocks);
        let worker = |value| {
            let pool: Arc<Pool> = pool.clone();
            thread::spawn(move || {
                let number = Number(pool.take(64).expect("memory"));
                number.write(value);
                assert_eq!(number.read(), value);
            })
        };
        let workers = [worker(1), worker(2)];
        workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
        // If both threads used the same block in turn, the other block was not needed and is freed.
        assert!(matches!(check_idle(&pool), 64 | 128));
    });
}

#[test]
fn a_pool_keeps_no_more_than_its_limit() {
    loom::model(|| {
        let pool = Pool::new(64, None);
        let blocks = [pool.take(64), pool.take(64)];
        let dropped = blocks.map(|block| {
            let block = block.expect("memory");
            thread::spawn(move || drop(block))
        });
        dropped.into_iter().for_each(|dropped| dropped.join().expect("no panic"));
        assert!(check_idle(&pool) <= 64);
    });
}
