//! Walks down packed nodes.
//!
//! The rows of a block go down one tree before the next tree. Each walk first leaves the tree's top. Walks that are not
//! at a leaf then take some steps, one walk after another, so that the processor overlaps several walks. Walks that
//! have reached a leaf are removed from the list. Single rows go down several trees in the same way.

use super::packed::{Key, Node, Packed, Tree};
use super::top::{Keys, Leave};
use super::{Aggregate, Forest, ROWS, Real, TILE};
use crate::kernels::dispatch::dispatch;
use crate::pace::Pace;
use bb::ir::memory;

/// The number of steps before walks that have reached a leaf are removed, and this number for the last steps.
const STEPS: usize = 4;
pub(super) const LAST_STEPS: usize = 2;

/// The minimum number of rows that are tested with the tops of trees.
const SEVERAL: usize = 6;

impl<K: Key> Packed<K> {
    /// Adds the weights of a block of up to `ROWS` rows to their sums. Returns `None` if a walk did not reach a leaf,
    /// if rows lack a column, or if there is no memory.
    pub(super) fn block<T: Real<Key = K>>(
        &self,
        forest: &Forest<'_, T>,
        x: &[T],
        columns: usize,
        sums: &mut [f64],
        pace: &mut Pace,
    ) -> Option<()> {
        if !self.fits(columns) {
            return None;
        }
        let tile = self.width().max(1) * TILE;
        let rows = x.chunks(columns * TILE);
        let mut tiles = memory::filled("tree_ensemble", K::default(), rows.len() * tile).ok()?;
        for (tile, rows) in tiles.chunks_exact_mut(tile).zip(rows) {
            self.fill(tile, rows, columns)?;
        }
        if x.len() / columns < SEVERAL {
            self.by_rows(forest, &tiles, sums, pace)
        } else {
            self.by_trees(forest, &tiles, tile, sums, pace)
        }
    }

    /// Writes the keys of up to `TILE` rows to a tile. The keys of a column are contiguous for all rows.
    fn fill<T: Real<Key = K>>(&self, tile: &mut [K], x: &[T], columns: usize) -> Option<()> {
        let (greatest, least) = tile.split_at_mut_checked(self.columns.len() * TILE)?;
        for (lane, row) in x.chunks_exact(columns).enumerate() {
            let keys = greatest.as_chunks_mut::<TILE>().0.iter_mut();
            for (keys, &column) in keys.zip(&self.columns) {
                *keys.get_mut(lane)? = row.get(column as usize)?.bits();
            }
        }
        let least = if self.both { least } else { &mut [] };
        dispatch(Keys::<T> { greatest, least });
        Some(())
    }

    /// Adds the weights of several rows to their sums, one tree after another.
    fn by_trees<T: Real<Key = K>>(
        &self,
        forest: &Forest<'_, T>,
        tiles: &[K],
        tile: usize,
        sums: &mut [f64],
        pace: &mut Pace,
    ) -> Option<()> {
        let rows = sums.len() / forest.targets;
        let mut bases = [0usize; ROWS];
        for (row, base) in bases.iter_mut().enumerate() {
            *base = row / TILE * tile + row % TILE;
        }
        let (bases, mut at) = (bases.get(..rows)?, [0u32; ROWS]);
        let at = at.get_mut(..rows.next_multiple_of(TILE))?;
        for tree in &self.trees {
            pace.step(rows * (tree.steps[1] + 1));
            let nodes = self.tops.get(tree.top.clone())?;
            let ends = self.ends.get(tree.ends.clone())?;
            dispatch(Leave { nodes, ends, tiles, tile, at })?;
            let at = at.get_mut(..rows)?;
            if tree.steps[1] > 0 {
                // SAFETY: `bases` are the indices of rows in the tiles, and tops end at nodes.
                unsafe { self.walk(tiles, bases, at, tree.steps[1]) };
            }
            if let (Some(target), Aggregate::Sum | Aggregate::Average) = (tree.target, forest.aggregate) {
                for (sums, &mut at) in sums.chunks_exact_mut(forest.targets).zip(at) {
                    // SAFETY: walks end at nodes, and in a tree with one target at leaves.
                    let leaf =
                        unsafe { &*self.nodes.as_ptr().cast::<u8>().add(at as usize).cast::<Node<K>>() };
                    *sums.get_mut(target)? += T::of_bits(leaf.key).wide();
                }
                continue;
            }
            let sums = sums.chunks_exact_mut(forest.targets);
            sums.zip(at).try_for_each(|(sums, &mut at)| self.add(forest, tree, at, sums))?;
        }
        Some(())
    }

    /// Adds the weights of a few rows to their sums, one row after another.
    fn by_rows<T: Real<Key = K>>(
        &self,
        forest: &Forest<'_, T>,
        tiles: &[K],
        sums: &mut [f64],
        pace: &mut Pace,
    ) -> Option<()> {
        for (row, sums) in sums.chunks_exact_mut(forest.targets).enumerate() {
            for trees in self.trees.chunks(ROWS) {
                let steps = trees.iter().map(|tree| tree.steps[0]).max().unwrap_or(0);
                pace.step(trees.len() * (steps + 1));
                let (bases, mut at) = ([row; ROWS], [0u32; ROWS]);
                let at = at.get_mut(..trees.len())?;
                at.iter_mut().zip(trees).for_each(|(at, tree)| *at = tree.root);
                // SAFETY: there are fewer rows than a tile has, so a row's index is its base, and roots are nodes.
                unsafe { self.walk(tiles, bases.get(..trees.len())?, at, steps) };
                trees.iter().zip(at).try_for_each(|(tree, &mut at)| self.add(forest, tree, at, sums))?;
            }
        }
        Some(())
    }

    /// Takes up to `steps` steps of each walk, until all walks are at a leaf.
    ///
    /// # Safety
    ///
    /// `at` are distances of nodes. `bases` are the indices of the walks' rows in the tiles: a row's key of column `i`
    /// is at index `base + TILE * i`.
    unsafe fn walk(&self, tiles: &[K], bases: &[usize], at: &mut [u32], steps: usize) {
        let mut under_way = [0u16; ROWS];
        let mut left = 0;
        for (walk, &at) in at.iter().enumerate() {
            under_way.get_mut(left).into_iter().for_each(|slot| *slot = walk as u16);
            left += usize::from(at < self.leaves);
        }
        let mut steps = steps;
        while left > 0 && steps > 0 {
            let under_way = under_way.get_mut(..left).unwrap_or_default();
            // SAFETY: this function's contract, and the list has indices of walks.
            let taken;
            (taken, left) = unsafe {
                match steps {
                    STEPS.. => (STEPS, self.go_on::<STEPS>(tiles, bases, at, under_way)),
                    LAST_STEPS.. => (LAST_STEPS, self.go_on::<LAST_STEPS>(tiles, bases, at, under_way)),
                    _ => (1, self.go_on::<1>(tiles, bases, at, under_way)),
                }
            };
            steps -= taken;
        }
    }

    /// Takes `STEPS` steps of each walk in the list. Returns the number of walks that are not at a leaf, and moves
    /// their indices to the beginning of the list.
    ///
    /// # Safety
    ///
    /// As for [`walk`](Packed::walk). The list has indices of walks.
    #[inline(always)]
    unsafe fn go_on<const STEPS: usize>(
        &self,
        tiles: &[K],
        bases: &[usize],
        at: &mut [u32],
        under_way: &mut [u16],
    ) -> usize {
        let (nodes, mut left) = (self.nodes.as_ptr().cast::<u8>(), 0);
        for i in 0..under_way.len() {
            // SAFETY: `left` is at most `i`, and the list has indices of walks. `new` computed the distances of nodes
            // and of columns, and the tiles have all columns.
            unsafe {
                let walk = *under_way.get_unchecked(i);
                let row = tiles.as_ptr().add(*bases.get_unchecked(walk as usize)).cast::<u8>();
                let place = at.get_unchecked_mut(walk as usize);
                let mut here = *place;
                for _ in 0..STEPS {
                    let node = &*nodes.add(here as usize).cast::<Node<K>>();
                    let x = *row.add(node.column as usize).cast::<K>();
                    here = (if x <= node.key { node.next } else { node.next >> 32 }) as u32;
                }
                *place = here;
                *under_way.get_unchecked_mut(left) = walk;
                left += usize::from(here < self.leaves);
            }
        }
        left
    }

    /// Adds the weights of a leaf to the sums. Returns `None` if `at` is not a leaf.
    #[inline(always)]
    fn add<T: Real<Key = K>>(
        &self,
        forest: &Forest<'_, T>,
        tree: &Tree,
        at: u32,
        sums: &mut [f64],
    ) -> Option<()> {
        if at < self.leaves {
            return None;
        }
        let node = at as usize / size_of::<Node<K>>();
        if let Some(target) = tree.target {
            let weight = T::of_bits(self.nodes.get(node)?.key);
            forest.aggregate.add(std::slice::from_mut(sums.get_mut(target)?), &[weight]);
            return Some(());
        }
        let first = (node - self.leaves as usize / size_of::<Node<K>>()) * forest.targets;
        forest.aggregate.add(sums, forest.weights.get(first..first + forest.targets)?);
        Some(())
    }
}
