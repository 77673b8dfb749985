//! The order of the packed nodes of a forest: tree by tree, each level by level.

use super::{Forest, Real};
use crate::error::Result;
use bb::ir::memory;
use std::ops::Range;

/// The inner nodes that walks can reach, in a new order. The leaves follow them.
pub(super) struct Order {
    /// The old index of each node.
    pub(super) nodes: Vec<u32>,
    /// The new index of each node, by its old index. It is [`NOWHERE`] for nodes that no walk reaches.
    places: Vec<u32>,
    pub(super) trees: Vec<Tree>,
    /// Whether each inner node can be reached in only one way.
    pub(super) alone: bool,
    /// The number of inner nodes in the old order.
    inner: usize,
}

/// A tree, with new indices.
pub(super) struct Tree {
    pub(super) root: u32,
    /// The range of its inner nodes.
    pub(super) nodes: Range<usize>,
}

/// The new index of a node that no walk reaches.
const NOWHERE: u32 = u32::MAX;

impl Order {
    /// Orders the nodes. Returns `None` if an index is out of range.
    pub(super) fn new<T: Real>(forest: &Forest<'_, T>, leaves: usize) -> Result<Option<Order>> {
        let inner = forest.nodes.len();
        if inner.checked_add(leaves).is_none_or(|all| all >= NOWHERE as usize) {
            return Ok(None);
        }
        let mut order = Order {
            nodes: memory::room("tree_ensemble", inner)?,
            places: memory::filled("tree_ensemble", NOWHERE, inner)?,
            trees: memory::room("tree_ensemble", forest.roots.len())?,
            alone: true,
            inner,
        };
        for &root in forest.roots {
            let first = order.nodes.len();
            if order.meet(root, leaves).is_none() {
                return Ok(None);
            }
            let mut at = first;
            while let Some(&node) = order.nodes.get(at) {
                let next = forest.nodes.get(node as usize).map(|&[column, _, yes, no]| (column, [yes, no]));
                let met = next.filter(|(column, _)| *column >= 0).and_then(|(_, [yes, no])| {
                    order.meet(yes, leaves)?;
                    order.meet(no, leaves)
                });
                if met.is_none() {
                    return Ok(None);
                }
                at += 1;
            }
            order.trees.push(Tree { root: root as u32, nodes: first..order.nodes.len() });
        }
        for at in 0..order.trees.len() {
            let root = order.trees.get(at).and_then(|tree| order.place(tree.root as i32));
            if let (Some(root), Some(tree)) = (root, order.trees.get_mut(at)) {
                tree.root = root;
            }
        }
        Ok(Some(order))
    }

    /// Visits a node that is a root or that another node leads to. Returns `None` if it does not exist.
    fn meet(&mut self, node: i32, leaves: usize) -> Option<()> {
        let node = usize::try_from(node).ok().filter(|&node| node < self.inner + leaves)?;
        match self.places.get_mut(node) {
            None => {}
            Some(place) if *place == NOWHERE => {
                *place = self.nodes.len() as u32;
                self.nodes.push(node as u32);
            }
            Some(_) => self.alone = false,
        }
        Some(())
    }

    /// Returns the new index of an inner node or of a leaf.
    pub(super) fn place(&self, node: i32) -> Option<u32> {
        let node = usize::try_from(node).ok()?;
        match self.places.get(node) {
            Some(&place) => Some(place).filter(|&place| place != NOWHERE),
            None => u32::try_from(node - self.inner + self.nodes.len()).ok(),
        }
    }

    /// Lists the columns that the nodes test, in ascending order.
    pub(super) fn columns<T: Real>(&self, forest: &Forest<'_, T>) -> Result<Vec<u32>> {
        let tested = |&node: &u32| forest.nodes.get(node as usize).map_or(0, |&[column, ..]| column as u32);
        let mut columns = memory::collected("tree_ensemble", self.nodes.iter().map(tested))?;
        columns.sort_unstable();
        columns.dedup();
        columns.shrink_to_fit();
        Ok(columns)
    }
}
