//! The blocks of one size that have no owner.
//!
//! A list that only grew would hold, forever, the greatest number of blocks that were ever in use at once: with many threads that number
//! rises for hours, and the memory of one large input would be held until the backend ends. So a list records the fewest blocks that it
//! held since the last check. That number of blocks was not needed, and half of them are freed.

use super::Header;
use std::ptr::NonNull;

/// The number of returned blocks after which a list is checked.
///
/// A block that is needed once in this number of returns is kept, so allocations are no more frequent than that. The value in model tests
/// is small, because they try each step in every order.
pub(super) const GIVEN: u32 = if cfg!(all(test, bb_model)) { 2 } else { 1024 };

/// A block without owner.
#[derive(Debug)]
pub(super) struct Kept(pub(super) NonNull<Header>);

// SAFETY: only the pool has the address of a block that it keeps.
unsafe impl Send for Kept {}

/// Blocks of one size.
#[derive(Debug, Default)]
pub(super) struct List {
    /// The block that returned last is at the end, and is taken first: the processor may still hold its bytes.
    blocks: Vec<Kept>,
    /// The fewest blocks since the last check.
    fewest: usize,
    /// The number of blocks that have returned since the last check.
    given: u32,
    /// Whether enough blocks return that the list is checked for that reason.
    busy: bool,
}

impl List {
    /// Returns the number of blocks.
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    pub(super) fn take(&mut self) -> Option<Kept> {
        let block = self.blocks.pop()?;
        self.fewest = self.fewest.min(self.blocks.len());
        Some(block)
    }

    /// Adds a block, and returns whether it is time to check the list.
    pub(super) fn give(&mut self, block: Kept) -> bool {
        self.blocks.push(block);
        self.given += 1;
        self.given >= GIVEN
    }

    /// Removes half of the blocks that were not needed since the last call, oldest first. The check happens because enough blocks
    /// returned, or because it is the turn of this list.
    pub(super) fn unneeded(&mut self, by_turn: bool) -> Vec<Kept> {
        if by_turn && std::mem::take(&mut self.busy) {
            // The list may have been checked a moment ago.
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
