//! The tops of trees, which are tested without walking.
//!
//! A top consists of a tree's first nodes, on the highest levels. It has at most one end for each bit of a key. Each
//! row has a set of ends that it may reach, in the order of the tree from the children for true to the children for
//! false. A test that fails removes the ends below the child for true. When all nodes of the top have been tested, in
//! any order, the first end of the set is the end that the row reaches. Each earlier end was removed by the node where
//! its path leaves the row's path, and no node on the row's path removes the row's own end. So vectors test one node
//! for several rows, without waiting for memory.
//!
//! Source: Lucchese and others: QuickScorer, 2015.

use super::TILE;
use super::packed::{Key, Node};
use crate::error::Result;
use crate::kernels::dispatch::VectorLoop;
use bb::ir::memory;
use std::ops::Range;

/// A node of a top.
#[derive(Debug, Clone, Copy)]
pub(super) struct TopNode<K> {
    pub(super) key: K,
    /// The index of its column's keys in a tile.
    pub(super) column: u32,
    /// All ends except the ends below the child for true.
    mask: K,
}

/// The top of a tree.
pub(super) struct Top<K> {
    pub(super) nodes: Vec<TopNode<K>>,
    /// The ends of the top, as distances of nodes.
    pub(super) ends: Vec<u32>,
}

impl<K: Key> Top<K> {
    /// Builds the top of a tree. The range has the inner nodes of the tree, each before the nodes that it leads to.
    pub(super) fn of(all: &[Node<K>], tree: Range<usize>, root: u32) -> Result<Top<K>> {
        let first = tree.start;
        let nodes = all.get(tree).unwrap_or_default();
        let nodes = nodes.get(..nodes.len().min(K::BITS - 1)).unwrap_or_default();
        // Returns the index of a child in the top, or `None` if the child is an end.
        let inside = |next: u32| {
            (next as usize / size_of::<Node<K>>()).checked_sub(first).filter(|&at| at < nodes.len())
        };
        let children = |node: &Node<K>| [node.next as u32, (node.next >> 32) as u32];
        let mut counts = memory::filled("tree_ensemble", 0usize, nodes.len())?;
        let count =
            |counts: &[usize], next| inside(next).map_or(1, |at| counts.get(at).copied().unwrap_or(0));
        for (at, node) in nodes.iter().enumerate().rev() {
            let [yes, no] = children(node).map(|next| count(&counts, next));
            counts.get_mut(at).into_iter().for_each(|slot| *slot = yes + no);
        }
        let mut top = Top {
            nodes: memory::room("tree_ensemble", nodes.len())?,
            ends: memory::filled("tree_ensemble", root, nodes.len() + 1)?,
        };
        let mut starts = memory::filled("tree_ensemble", 0usize, nodes.len())?;
        for (at, node) in nodes.iter().enumerate() {
            let start = starts.get(at).copied().unwrap_or(0);
            let [yes, no] = children(node);
            let middle = start + count(&counts, yes);
            for (next, start) in [(yes, start), (no, middle)] {
                let slot = match inside(next) {
                    Some(child) => starts.get_mut(child).map(|slot| *slot = start),
                    None => top.ends.get_mut(start).map(|slot| *slot = next),
                };
                debug_assert!(slot.is_some(), "each node has its ends");
            }
            let column = node.column / size_of::<K>() as u32;
            top.nodes.push(TopNode { key: node.key, column, mask: K::without(start..middle) });
        }
        Ok(top)
    }
}

/// A loop that finds the end of a tree's top for each row.
pub(super) struct Leave<'a, K> {
    pub(super) nodes: &'a [TopNode<K>],
    pub(super) ends: &'a [u32],
    /// Tiles of keys, and the number of keys of a tile.
    pub(super) tiles: &'a [K],
    pub(super) tile: usize,
    /// The distance of the node where each row continues.
    pub(super) at: &'a mut [u32],
}

impl<K: Key> VectorLoop for Leave<'_, K> {
    type Output = Option<()>;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> Option<()> {
        let Leave { nodes, ends, tiles, tile, at } = self;
        for (tile, at) in tiles.chunks_exact(tile).zip(at.as_chunks_mut::<TILE>().0) {
            let mut open = [K::ALL; TILE];
            for node in nodes {
                let x = tile.get(node.column as usize..)?.first_chunk::<TILE>()?;
                for (open, &x) in open.iter_mut().zip(x) {
                    *open = *open & K::all_if(x <= node.key, node.mask);
                }
            }
            for (at, open) in at.iter_mut().zip(open) {
                *at = *ends.get(open.first_bit())?;
            }
        }
        Some(())
    }
}

/// A loop that converts the bits of elements in tiles to keys. If `least` is not empty, it receives a second copy of
/// the columns.
pub(super) struct Keys<'a, T: super::Real> {
    pub(super) greatest: &'a mut [T::Key],
    pub(super) least: &'a mut [T::Key],
}

impl<T: super::Real> VectorLoop for Keys<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for (least, &bits) in self.least.iter_mut().zip(&*self.greatest) {
            *least = T::of_bits(bits).key(T::Key::LEAST);
        }
        for bits in self.greatest {
            *bits = T::of_bits(*bits).key(T::Key::GREATEST);
        }
    }
}
