//! The model node that each step of a trace comes from.

use super::resolve::Resolved;
use crate::Error;
use crate::measure::ProfiledNode;
use crate::trace::{OriginId, StepOrigins, Table};
use bb_ir::graph::Graph;
use std::sync::Arc;

/// The nodes that the steps of a trace come from, in tracing order.
#[derive(Debug, Clone, Default)]
pub struct Origins {
    table: Table<OriginId, Origin>,
}

/// A node that was traced.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    /// A node of the traced graph.
    Node(usize),
    /// A node of a subgraph that was traced inline, as part of the node that contains the subgraph.
    Inner {
        /// The node that contains the subgraph.
        holder: OriginId,
        /// The attribute with the subgraph.
        attribute: &'static str,
        /// The subgraph.
        resolved: Arc<Resolved>,
        /// The index of the node in the subgraph.
        node: usize,
    },
}

impl Origins {
    /// Adds a node that is about to be traced.
    pub(crate) fn push(&mut self, origin: Origin) -> OriginId {
        self.table.push(origin)
    }

    /// Returns the number of nodes. [`forget`](Self::forget) takes this number to undo later additions.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Removes the nodes from an index on. Their steps must have been removed too.
    pub(crate) fn forget(&mut self, from: usize) {
        self.table.truncate(from);
    }

    /// Iterates over the nodes of the traced graph itself.
    pub fn nodes(&self) -> impl Iterator<Item = usize> {
        self.table.entries().filter_map(|origin| match origin {
            Origin::Node(node) => Some(*node),
            Origin::Inner { .. } => None,
        })
    }

    /// Returns the node of the traced graph that an origin refers to, or that contains the origin's node in a subgraph.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if the origin does not exist.
    pub(crate) fn node_of(&self, mut origin: OriginId) -> Result<usize, Error> {
        loop {
            match self.table.get(origin)? {
                Origin::Node(node) => return Ok(*node),
                Origin::Inner { holder, .. } => origin = *holder,
            }
        }
    }

    /// Returns the name of the node that an origin refers to.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if the origin does not exist, or if the graph is not the traced one.
    pub(crate) fn name_of(&self, origin: OriginId, graph: &Graph) -> Result<ProfiledNode, Error> {
        let nowhere = || Error::excluded("an origin in the traced graph");
        let mut inner = Vec::new();
        let mut at = origin;
        let outermost = loop {
            match self.table.get(at)? {
                Origin::Node(node) => break *node,
                Origin::Inner { holder, attribute, resolved, node } => {
                    inner.push((attribute, resolved, *node));
                    at = *holder;
                }
            }
        };
        let mut name = ProfiledNode::of(graph, outermost).ok_or_else(nowhere)?;
        for (attribute, resolved, node) in inner.into_iter().rev() {
            let within = ProfiledNode::of(&resolved.graph, node).ok_or_else(nowhere)?;
            let path = format!("{}/{attribute}/{}", name.path, within.path);
            name = ProfiledNode { path, ..within };
        }
        Ok(name)
    }

    /// Returns the names of the first and the last node that steps come from. The last name is `None` if both are the same.
    ///
    /// # Errors
    ///
    /// As [`name_of`](Self::name_of).
    pub(crate) fn names_of<'a>(
        &self,
        steps: impl IntoIterator<Item = &'a StepOrigins>,
        graph: &Graph,
    ) -> Result<[Option<ProfiledNode>; 2], Error> {
        let mut origins = steps.into_iter().flatten().copied();
        let Some(first) = origins.next() else { return Ok([None, None]) };
        let first = self.name_of(first, graph)?;
        let last = origins.last().map(|origin| self.name_of(origin, graph)).transpose()?;
        let last = last.filter(|last| *last != first);
        Ok([Some(first), last])
    }
}
