//! Caches of the keys and values of one sequence, which are never moved.

use crate::Error;
use crate::blocks::{BLOCK, Blocks, Placed};
use bb::Value;

/// The minimum number of positions that caches have room for.
const LEAST: usize = 256;
/// If the minimum number of positions takes more than this number of bytes, caches start smaller.
const BYTES: usize = 16 << 20;

/// The keys and values of all positions so far, one after another, with room for more. New positions are written after them. If there
/// is no room, it doubles.
#[derive(Debug)]
pub(crate) struct Cache {
    blocks: Blocks,
    length: usize,
    most: usize,
}

impl Cache {
    /// Creates caches without positions, for at most `most` positions.
    pub(crate) fn new(blocks: Blocks, most: usize) -> Cache {
        Cache { blocks, length: 0, most }
    }

    /// Returns the number of positions.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Returns the size of the caches, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.blocks.bytes_of(self.blocks.room())
    }

    /// Removes all positions from the index `length` on.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// Ensures room for more positions.
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

    /// Returns each cache as a tensor of all blocks.
    pub(crate) fn views(&self) -> Result<Vec<Value>, Error> {
        self.blocks.views()
    }

    /// Appends positions to each cache, which must have room for them.
    pub(crate) fn append(&mut self, new: &[Value], positions: usize) -> Result<(), Error> {
        self.blocks.write(new, &[Placed { from: 0, to: self.length, count: positions }])?;
        self.length += positions;
        Ok(())
    }
}
