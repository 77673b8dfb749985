//! Caches of keys and values of one sequence, which stay where they are.

use crate::Error;
use crate::blocks::{BLOCK, Blocks, Placed};
use bb::Value;

/// The least number of positions that caches have room for.
const LEAST: usize = 256;
/// The size above which caches have no least number of positions, in bytes.
const BYTES: usize = 16 << 20;

/// Keys and values of all positions so far, one behind another, with room for more. What is new is written behind them; where there is
/// no more room, it doubles.
#[derive(Debug)]
pub(crate) struct Cache {
    blocks: Blocks,
    length: usize,
    most: usize,
}

impl Cache {
    /// Makes caches without positions, for at most `most` of them.
    pub(crate) fn new(blocks: Blocks, most: usize) -> Cache {
        Cache { blocks, length: 0, most }
    }

    /// Returns the number of positions.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Returns the bytes that the caches take.
    pub(crate) fn bytes(&self) -> usize {
        self.blocks.bytes_of(self.blocks.room())
    }

    /// Forgets all positions from this one on.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// Makes room for more positions.
    pub(crate) fn reserve(&mut self, more: usize) -> Result<(), Error> {
        let needed = self.length + more;
        if needed > self.most {
            return Err(Error::Context { needed, most: self.most });
        }
        if needed <= self.blocks.room() * BLOCK {
            return Ok(());
        }
        let small = self.blocks.bytes_of(LEAST / BLOCK) <= BYTES;
        let room = needed.next_power_of_two().max(if small { LEAST } else { BLOCK }).min(self.most);
        self.blocks.grow(room.div_ceil(BLOCK))
    }

    /// Returns the blocks of each cache.
    pub(crate) fn views(&self) -> Result<Vec<Value>, Error> {
        self.blocks.views()
    }

    /// Appends positions to each cache. The cache must have room for them.
    pub(crate) fn append(&mut self, new: &[Value], positions: usize) -> Result<(), Error> {
        self.blocks.write(new, &[Placed { from: 0, to: self.length, count: positions }])?;
        self.length += positions;
        Ok(())
    }
}
