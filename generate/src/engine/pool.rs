//! The pool of blocks that sequences share. It tracks the users and the content of each block, and which blocks are free.
//!
//! A full block is identified by its content: its tokens, and the block before it. A later prompt that begins with the same tokens shares
//! the block. A block without users is kept until its memory is needed.

use crate::Error;
use crate::blocks::{BLOCK, Blocks};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The minimum number of blocks to allocate memory for.
const LEAST: usize = 8;
/// If the minimum number of blocks takes more than this number of bytes, blocks are allocated one by one.
const BYTES: usize = 16 << 20;
/// While the memory of all blocks is at most this number of bytes, an allocation doubles it. Larger memory grows by a quarter.
const DOUBLED: usize = 64 << 20;

/// The content of a full block: its tokens and the block before it. Equal contents mean equal beginnings of sequences, because serial
/// numbers are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Content {
    /// The serial number of the block before it; 0 for the first block of a sequence.
    behind: u64,
    tokens: [u32; BLOCK],
}

#[derive(Debug, Default)]
struct Used {
    users: usize,
    content: Option<Content>,
    /// The block's key in `kept`, if it has no users.
    kept: u64,
}

/// A block of a sequence, and the serial number of its content after it is full and recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HeldBlock {
    pub(crate) block: u32,
    pub(crate) serial: Option<u64>,
}

/// A pool of blocks that sequences share.
#[derive(Debug)]
pub(crate) struct BlockPool {
    memory: Blocks,
    most: usize,
    used: Vec<Used>,
    free: BTreeSet<u32>,
    /// The blocks that have content but no users, in the order of eviction.
    kept: BTreeMap<u64, u32>,
    /// The block and the serial number of each content.
    known: HashMap<Content, (u32, u64)>,
    serial: u64,
    age: u64,
}

impl BlockPool {
    /// Creates a pool of at most `most` blocks.
    pub(crate) fn new(memory: Blocks, most: usize) -> BlockPool {
        BlockPool {
            memory,
            most: most.min(u32::MAX as usize),
            used: Vec::new(),
            free: BTreeSet::new(),
            kept: BTreeMap::new(),
            known: HashMap::new(),
            serial: 0,
            age: 0,
        }
    }

    /// Returns the memory of the blocks.
    pub(crate) fn memory(&self) -> &Blocks {
        &self.memory
    }

    /// Returns the maximum number of blocks.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Returns the number of blocks that sequences use.
    pub(crate) fn in_use(&self) -> usize {
        self.used.len() - self.free.len() - self.kept.len()
    }

    /// Returns the number of blocks that [`take`](Self::take) can still return.
    pub(crate) fn available(&self) -> usize {
        self.most - self.in_use()
    }

    /// Allocates a block for new positions; `None` if sequences use all blocks.
    pub(crate) fn take(&mut self) -> Result<Option<u32>, Error> {
        let block = match self.free.pop_first() {
            Some(block) => block,
            None if self.used.len() < self.most => {
                if self.used.len() == self.memory.room() {
                    let least = if self.memory.bytes_of(LEAST) <= BYTES { LEAST } else { 1 };
                    let used = self.used.len();
                    let more = if self.memory.bytes_of(used) <= DOUBLED { used } else { used.div_ceil(4) };
                    self.memory.grow((used + more).clamp(least.min(self.most), self.most))?;
                }
                self.used.push(Used::default());
                (self.used.len() - 1) as u32
            }
            None => match self.kept.pop_first() {
                Some((_, block)) => block,
                None => return Ok(None),
            },
        };
        let used = self.used.get_mut(block as usize);
        let used = used.ok_or(Error::Internal { what: "a free block does not exist" })?;
        used.users = 1;
        if let Some(content) = used.content.take() {
            self.known.remove(&content);
        }
        Ok(Some(block))
    }

    /// Finds the block with these tokens that follows the block `behind`, and adds a user to it.
    pub(crate) fn find(&mut self, behind: u64, tokens: &[u32]) -> Option<HeldBlock> {
        let content = Content { behind, tokens: tokens.try_into().ok()? };
        let &(block, serial) = self.known.get(&content)?;
        let used = self.used.get_mut(block as usize)?;
        if used.users == 0 {
            self.kept.remove(&used.kept);
        }
        used.users += 1;
        Some(HeldBlock { block, serial: Some(serial) })
    }

    /// Records the content of a block that has become full. Returns the serial number of the content.
    pub(crate) fn fill(&mut self, block: u32, behind: u64, tokens: &[u32]) -> Option<u64> {
        let content = Content { behind, tokens: tokens.try_into().ok()? };
        if let Some(&(_, serial)) = self.known.get(&content) {
            // Another sequence computed the same content first. The blocks before both are the same.
            return Some(serial);
        }
        self.serial += 1;
        self.used.get_mut(block as usize)?.content = Some(content);
        self.known.insert(content, (block, self.serial));
        Some(self.serial)
    }

    /// Releases blocks of a sequence. Its last blocks are evicted first.
    pub(crate) fn release(&mut self, blocks: &[HeldBlock]) {
        for held in blocks.iter().rev() {
            let Some(used) = self.used.get_mut(held.block as usize) else { continue };
            used.users = used.users.saturating_sub(1);
            if used.users > 0 {
                continue;
            }
            if used.content.is_some() {
                self.age += 1;
                used.kept = self.age;
                self.kept.insert(self.age, held.block);
            } else {
                self.free.insert(held.block);
            }
        }
    }
}
