//! The unused blocks of one size class.
//!
//! A list that only grew would keep the largest number of blocks that were ever in use together: with many threads that number rises for
//! hours, and the memory of one large input would be kept until the backend ends. So a list records the minimum number of blocks that it
//! contained since the last check. That number of blocks was not needed, and the check frees half of them.

use super::Header;
use std::ptr::NonNull;

/// The number of returned blocks after which a list is checked.
///
/// A block that is needed once in this number of returns is kept, so allocations are no more frequent than that. The value in model tests
/// is small, because they run every order of the steps.
pub(super) const GIVEN: u32 = if cfg!(all(test, bb_model)) { 2 } else { 1024 };

/// A block without an owner.
#[derive(Debug)]
pub(super) struct Kept(pub(super) NonNull<Header>);

// SAFETY: only the pool has the address of a block that it keeps.
unsafe impl Send for Kept {}

/// The unused blocks of one size.
#[derive(Debug, Default)]
pub(super) struct List {
    /// The block that returned last is at the end. It is reused first, because its bytes may still be in the processor's caches.
    blocks: Vec<Kept>,
    /// The minimum length of `blocks` since the last check.
    fewest: usize,
    /// The time of the last return, in returns of large blocks.
    last_return: usize,
    /// The number of blocks that have returned since the last check.
    given: u32,
    /// Whether blocks return so often that the returns trigger the checks.
    busy: bool,
}

impl List {
    /// Returns the number of blocks.
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Returns the time at which a block last returned; `None` if there is no block.
    pub(super) fn last_return(&self) -> Option<usize> {
        (!self.blocks.is_empty()).then_some(self.last_return)
    }

    pub(super) fn take(&mut self) -> Option<Kept> {
        let block = self.blocks.pop()?;
        self.fewest = self.fewest.min(self.blocks.len());
        Some(block)
    }

    /// Adds a block that returned at a time. Returns whether enough blocks have returned that the list should be checked.
    pub(super) fn give(&mut self, block: Kept, time: usize) -> bool {
        self.last_return = time;
        self.blocks.push(block);
        self.given += 1;
        self.given >= GIVEN
    }

    /// Removes half of the blocks that were not needed since the last check, oldest first. `by_turn` says that the round-robin order
    /// triggered this check; otherwise enough blocks have returned.
    pub(super) fn unneeded(&mut self, by_turn: bool) -> Vec<Kept> {
        if by_turn && std::mem::take(&mut self.busy) {
            // The other kind of check may have just happened, so the minimum is not meaningful yet.
            return Vec::new();
        }
        self.busy = !by_turn;
        let unneeded = self.blocks.drain(..self.fewest.div_ceil(2)).collect();
        (self.fewest, self.given) = (self.blocks.len(), 0);
        unneeded
    }

    /// Removes all blocks.
    pub(super) fn all(&mut self) -> impl Iterator<Item = Kept> {
        self.blocks.drain(..)
    }

    #[cfg(all(test, bb_model))]
    pub(super) fn blocks(&self) -> &[Kept] {
        &self.blocks
    }
}
