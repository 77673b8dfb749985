//! The blocks of one size that have no owner.
//!
//! A list that only grew would hold, for ever, as many blocks as were ever in use at once: on many threads that number rises
//! for hours, and one large input would cost its memory until the backend ends. So a list knows the fewest blocks that it held
//! since it was last looked at. So many were not needed, and half of them are freed.

use super::Header;
use std::ptr::NonNull;

/// After how many returned blocks a list is looked at.
///
/// A block that is needed once in so many is kept, so an allocation is at most as frequent as this. The test of the models is
/// small, because each step is tried in every order.
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
    /// The fewest blocks since the list was looked at.
    fewest: usize,
    /// How many blocks have returned since the list was looked at.
    given: u32,
    /// Whether so many blocks return that the list is looked at for that reason.
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

    /// Adds a block, and returns whether it is time to look at the list.
    pub(super) fn give(&mut self, block: Kept) -> bool {
        self.blocks.push(block);
        self.given += 1;
        self.given >= GIVEN
    }

    /// Takes out half of the blocks that were not needed since the last call, those that returned first: because so many
    /// blocks returned, or because it is the turn of this list.
    pub(super) fn unneeded(&mut self, by_turn: bool) -> Vec<Kept> {
        if by_turn && std::mem::take(&mut self.busy) {
            // It may just have been looked at.
            return Vec::new();
        }
        self.busy = !by_turn;
        let unneeded = self.blocks.drain(..self.fewest.div_ceil(2)).collect();
        (self.fewest, self.given) = (self.blocks.len(), 0);
        unneeded
    }

    /// Takes out all blocks.
    pub(super) fn all(&mut self) -> impl Iterator<Item = Kept> {
        self.blocks.drain(..)
    }

    #[cfg(all(test, bb_model))]
    pub(super) fn blocks(&self) -> &[Kept] {
        &self.blocks
    }
}
