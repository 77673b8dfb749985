//! Forests whose nodes were checked and packed into 16 bytes each for `f32`. Leaves lead to themselves.
//!
//! Elements and thresholds are converted to integers with the same order, their *keys*, so that each test is
//! `key(x) <= key`. A node for `>` or `>=` has its children swapped. NaN has no place in the order: its key is the
//! maximum in one copy of the columns and the minimum in another copy. Each node reads the copy that leads NaN to the
//! right child.
//!
//! The nodes of a tree are contiguous, level by level. The first of them are the tree's [`top`](super::top).

use super::order::Order;
use super::top::{Top, TopNode};
use super::{Aggregate, Forest, ModeBits, Real, TILE};
use crate::error::Result;
use bb::ir::memory;
use std::ops::{BitAnd, Range};

/// An integer that has the order of floats.
pub(crate) trait Key: Copy + Ord + Sync + Send + Default + BitAnd<Output = Self> {
    const LEAST: Self;
    const GREATEST: Self;
    /// The key with all bits set.
    const ALL: Self;
    /// The number of bits.
    const BITS: usize;

    /// Returns the next lower key.
    fn below(self) -> Self;
    /// Returns a key with all bits set except the bits of the range, which does not contain the last bit.
    fn without(range: Range<usize>) -> Self;
    /// Returns a key with all bits set if a condition holds, else `others`. There is no branch, so that loops over it
    /// are vectorised.
    fn all_if(holds: bool, others: Self) -> Self;
    /// Returns the index of the lowest bit that is set.
    fn first_bit(self) -> usize;
}

macro_rules! keys {
    ($($t:ident)*) => {$(
        impl Key for $t {
            const LEAST: $t = $t::MIN;
            const GREATEST: $t = $t::MAX;
            const ALL: $t = -1;
            const BITS: usize = $t::BITS as usize;

            #[inline(always)]
            fn below(self) -> $t {
                self.wrapping_sub(1)
            }

            #[inline(always)]
            fn without(range: Range<usize>) -> $t {
                range.fold(-1, |bits, bit| bits & !(1 << bit))
            }

            #[inline(always)]
            fn all_if(holds: bool, others: $t) -> $t {
                others | -$t::from(holds)
            }

            #[inline(always)]
            fn first_bit(self) -> usize {
                self.trailing_zeros() as usize
            }
        }
    )*};
}

keys! { i32 i64 }

/// A node. Distances are in bytes: `column` is the distance of the element in a tile of rows, and `next` has the
/// distances of the next nodes from the first node.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Node<K> {
    /// The key that an element is compared with. At a leaf, it has the bits of a weight, see [`Tree::target`].
    pub(super) key: K,
    pub(super) column: u32,
    /// The lower half is the next node if the test holds, the upper half is the next node otherwise. Both are in one
    /// integer, so that a walk selects between two registers and does not wait for another load.
    pub(super) next: u64,
}

/// A tree.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) root: u32,
    /// The maximum number of steps of a walk from the root, and of a walk from an end of the top.
    pub(super) steps: [usize; 2],
    /// The ranges of the tree's top in [`Packed::tops`], and of the top's ends in [`Packed::ends`].
    pub(super) top: Range<usize>,
    pub(super) ends: Range<usize>,
    /// The only target whose sum the leaves of the tree change, if there is only one. The leaves then have its weights.
    pub(super) target: Option<usize>,
}

/// Nodes whose distances are valid: each leads to an existing element or node.
#[derive(Debug)]
pub(crate) struct Packed<K> {
    pub(super) nodes: Vec<Node<K>>,
    /// The distance of the first leaf in bytes.
    pub(super) leaves: u32,
    pub(super) trees: Vec<Tree>,
    pub(super) tops: Vec<TopNode<K>>,
    /// The ends of the tops, as distances of nodes.
    pub(super) ends: Vec<u32>,
    /// The columns that nodes test, in ascending order.
    pub(super) columns: Vec<u32>,
    /// Whether there are nodes that read the copy of the columns with NaN as the minimum.
    pub(super) both: bool,
}

/// A comparison of keys, which replaces a mode and a flag for NaN.
struct Comparison<K> {
    key: K,
    /// Whether the children are swapped.
    swapped: bool,
    /// Whether the copy with NaN as the minimum is read.
    least: bool,
}

impl<K: Key> Comparison<K> {
    /// Returns the comparison, or `None` if the test does not compare by order.
    #[inline(always)]
    fn of<T: Real<Key = K>>(bits: u8, missing: bool, threshold: T) -> Option<Comparison<K>> {
        let (key, unordered) = (threshold.key(K::GREATEST), threshold.is_nan());
        let (key, swapped) = match bits {
            ModeBits::LESS_OR_EQUAL => (if unordered { K::LEAST } else { key }, false),
            ModeBits::LESS => (if unordered { K::LEAST } else { key.below() }, false),
            ModeBits::GREATER_OR_EQUAL => (key.below(), true),
            ModeBits::GREATER => (if unordered { key.below() } else { key }, true),
            _ => return None,
        };
        Some(Comparison { key, swapped, least: missing != swapped })
    }
}

/// Combines the distances of two next nodes into one integer.
fn both_next(yes: u32, no: u32) -> u64 {
    u64::from(yes) | u64::from(no) << 32
}

/// The targets whose sums some weights change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Targets {
    None,
    One(usize),
    Several,
}

impl Targets {
    /// Returns the targets whose sums a leaf changes.
    fn of<T: Real>(aggregate: Aggregate, weights: &[T]) -> Targets {
        match (aggregate, weights) {
            (_, [_]) => Targets::One(0),
            // Adding zero changes no sum, because no sum is a negative zero.
            (Aggregate::Sum | Aggregate::Average, _) => {
                let mut others = weights.iter().enumerate().filter(|(_, w)| w.wide() != 0.0);
                match (others.next(), others.next()) {
                    (None, _) => Targets::None,
                    (Some((target, _)), None) => Targets::One(target),
                    (Some(_), Some(_)) => Targets::Several,
                }
            }
            (Aggregate::Min | Aggregate::Max, _) => Targets::Several,
        }
    }

    fn and(self, other: Targets) -> Targets {
        match (self, other) {
            (Targets::None, targets) | (targets, Targets::None) => targets,
            (a, b) if a == b => a,
            _ => Targets::Several,
        }
    }
}

impl<K: Key> Packed<K> {
    /// Packs a forest. Returns `None` if it has a test that does not compare by order, or an index that is out of
    /// range.
    pub(super) fn new<T: Real<Key = K>>(forest: &Forest<'_, T>) -> Result<Option<Packed<K>>> {
        let leaves = forest.weights.len() / forest.targets;
        let (Some(order), Some(bits)) = (Order::new(forest, leaves)?, ModeBits::of(&forest.tests)) else {
            return Ok(None);
        };
        let (inner, size) = (order.nodes.len(), size_of::<Node<K>>());
        let columns = order.columns(forest)?;
        let fits =
            |count: usize, size: usize| count.checked_mul(size).is_some_and(|n| u32::try_from(n).is_ok());
        let stride = TILE * size_of::<K>();
        if !fits(inner + leaves, size) || !fits(columns.len(), 2 * stride) {
            return Ok(None);
        }
        let mut packed = Packed {
            nodes: memory::room("tree_ensemble", inner + leaves)?,
            leaves: (inner * size) as u32,
            trees: memory::room("tree_ensemble", order.trees.len())?,
            tops: Vec::new(),
            ends: Vec::new(),
            columns,
            both: false,
        };
        for &node in &order.nodes {
            let Some(node) = packed.inner(forest, &order, bits, node as usize) else { return Ok(None) };
            packed.nodes.push(node);
        }
        let mut targets = memory::room("tree_ensemble", leaves)?;
        for (leaf, weights) in forest.weights.chunks_exact(forest.targets).enumerate() {
            let own = ((inner + leaf) * size) as u32;
            let of_leaf = Targets::of(forest.aggregate, weights);
            let weight = weights.get(if let Targets::One(target) = of_leaf { target } else { 0 });
            let key = weight.map_or(K::default(), |weight| weight.bits());
            packed.nodes.push(Node { key, column: 0, next: both_next(own, own) });
            targets.push(of_leaf);
        }
        packed.plant(&order, forest.depth, &targets)?;
        Ok(Some(packed))
    }

    /// Packs an inner node. Returns `None` if its test does not compare by order.
    fn inner<T: Real<Key = K>>(
        &mut self,
        forest: &Forest<'_, T>,
        order: &Order,
        bits: ModeBits,
        node: usize,
    ) -> Option<Node<K>> {
        let &[column, test, yes, no] = forest.nodes.get(node)?;
        let missing = forest.tests.missing && test & 8 != 0;
        let comparison = Comparison::of(bits.get(test)?, missing, *forest.thresholds.get(node)?)?;
        let Comparison { key, swapped, least } = comparison;
        self.both |= least;
        let place = self.columns.binary_search(&(column as u32)).ok()?;
        let column = (place + if least { self.columns.len() } else { 0 }) * TILE * size_of::<K>();
        let next = |node: i32| Some(order.place(node)? * size_of::<Node<K>>() as u32);
        let [yes, no] = if swapped { [no, yes] } else { [yes, no] };
        Some(Node { key, column: column as u32, next: both_next(next(yes)?, next(no)?) })
    }

    /// Packs the trees and their tops.
    fn plant(&mut self, order: &Order, depth: usize, targets: &[Targets]) -> Result<()> {
        let size = size_of::<Node<K>>();
        let inner = order.nodes.len();
        let heights = if order.alone { self.heights(inner)? } else { Vec::new() };
        let height = |node: usize| heights.get(node).map_or(0, |&height| height as usize);
        // In a regular forest, each node is reached in only one way, and all walks end within `depth` steps.
        let regular = order.alone && order.trees.iter().all(|tree| height(tree.root as usize) <= depth);
        for tree in &order.trees {
            let root = tree.root * size as u32;
            let [top, ends] = [self.tops.len(), self.ends.len()];
            let nodes = if regular { tree.nodes.clone() } else { 0..0 };
            let Top { nodes, ends: places } = Top::of(&self.nodes, nodes, root)?;
            let rest = places.iter().map(|&end| height(end as usize / size)).max().unwrap_or(0);
            // Steps are taken several at a time. Extra steps do no harm, because leaves lead to themselves.
            let whole = |steps: usize| steps.next_multiple_of(super::walks::LAST_STEPS);
            let steps =
                if regular { [height(tree.root as usize), rest].map(whole) } else { [depth.min(inner); 2] };
            memory::reserve("tree_ensemble", &mut self.tops, nodes.len())?;
            self.tops.extend(nodes);
            memory::reserve("tree_ensemble", &mut self.ends, places.len())?;
            self.ends.extend(places);
            let of_tree = if regular { self.targets(tree, inner, targets) } else { Targets::Several };
            let target = match of_tree {
                Targets::None => Some(0),
                Targets::One(target) => Some(target),
                Targets::Several => None,
            };
            let (top, ends) = (top..self.tops.len(), ends..self.ends.len());
            self.trees.push(Tree { root, steps, top, ends, target });
        }
        Ok(())
    }

    /// Returns the maximum number of steps from each inner node to a leaf. The nodes that a node leads to have larger
    /// indices.
    fn heights(&self, inner: usize) -> Result<Vec<u32>> {
        let mut heights = memory::filled("tree_ensemble", 0u32, inner)?;
        for at in (0..inner).rev() {
            let next = self.nodes.get(at).map_or([0; 2], |node| [node.next as u32, (node.next >> 32) as u32]);
            let height = |next: u32| heights.get(next as usize / size_of::<Node<K>>()).copied().unwrap_or(0);
            let [yes, no] = next.map(height);
            if let Some(slot) = heights.get_mut(at) {
                *slot = 1 + yes.max(no);
            }
        }
        Ok(heights)
    }

    /// Returns the targets whose sums the leaves of a tree change.
    fn targets(&self, tree: &super::order::Tree, inner: usize, of_leaves: &[Targets]) -> Targets {
        let of = |node: usize| {
            node.checked_sub(inner).and_then(|leaf| of_leaves.get(leaf)).copied().unwrap_or(Targets::None)
        };
        let nodes = self.nodes.get(tree.nodes.clone()).unwrap_or_default();
        let next = nodes.iter().flat_map(|node| [node.next as u32, (node.next >> 32) as u32]);
        next.map(|next| next as usize / size_of::<Node<K>>())
            .chain([tree.root as usize])
            .map(of)
            .fold(Targets::None, Targets::and)
    }

    /// Returns the number of keys of a row.
    pub(super) fn width(&self) -> usize {
        if self.both { 2 * self.columns.len() } else { self.columns.len() }
    }

    /// Returns the number of rows whose keys fit into the cache.
    pub(super) fn rows(&self) -> usize {
        const CACHE: usize = 1 << 18;
        (CACHE / (self.width().max(1) * size_of::<K>())).next_multiple_of(TILE)
    }

    /// Returns whether rows of `columns` elements have all columns that nodes test.
    pub(super) fn fits(&self, columns: usize) -> bool {
        self.columns.last().is_none_or(|&last| (last as usize) < columns)
    }

    /// Returns the size of the packed forest in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.nodes.len() * size_of::<Node<K>>()
            + self.trees.len() * size_of::<Tree>()
            + self.tops.len() * size_of::<TopNode<K>>()
            + (self.ends.len() + self.columns.len()) * size_of::<u32>()
    }
}
