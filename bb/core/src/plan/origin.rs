//! Which node of the model each step of a trace comes from.

use super::resolve::Resolved;
use crate::Error;
use crate::trace::{OriginId, StepOrigins, Table};
use bb_ir::graph::Graph;
use std::sync::Arc;

/// The nodes that the steps of a trace come from, in the order in which they were traced.
#[derive(Debug, Clone, Default)]
pub struct Origins {
    table: Table<OriginId, Origin>,
}

/// A node that was traced.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    /// A node of the traced graph.
    Node(usize),
    /// A node of a subgraph that was traced in the place of the node which holds it.
    Inner {
        /// The node that holds the subgraph.
        holder: OriginId,
        /// The attribute that is the subgraph.
        attribute: &'static str,
        /// The subgraph.
        resolved: Arc<Resolved>,
        /// The node of the subgraph.
        node: usize,
    },
}

/// A node of the model, as people read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeName {
    /// The node's name, or its first output's where it has none; inside a subgraph it follows the node that holds the
    /// subgraph, and the attribute: `loop_1/body/add_3`.
    pub(crate) path: String,
    pub(crate) op: String,
    pub(crate) domain: String,
}

impl NodeName {
    pub(crate) fn of(graph: &Graph, at: usize) -> Option<NodeName> {
        let node = graph.nodes.get(at)?;
        let path = crate::error::name(graph, node);
        Some(NodeName { path, op: node.op_type.clone(), domain: node.domain.clone() })
    }
}

impl Origins {
    /// Adds a node that is about to be traced.
    pub(crate) fn push(&mut self, origin: Origin) -> OriginId {
        self.table.push(origin)
    }

    /// Returns how many nodes there are, to [`forget`](Self::forget) those that follow.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Forgets the nodes from a number on, whose steps were forgotten too.
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

    /// Returns the node of the traced graph that an origin is, or that holds it.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if there is no such origin.
    pub(crate) fn node_of(&self, mut origin: OriginId) -> Result<usize, Error> {
        loop {
            match self.table.get(origin)? {
                Origin::Node(node) => return Ok(*node),
                Origin::Inner { holder, .. } => origin = *holder,
            }
        }
    }

    /// Names the node that an origin is.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if there is no such origin, or if the graph is not the traced one.
    pub(crate) fn name_of(&self, origin: OriginId, graph: &Graph) -> Result<NodeName, Error> {
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
        let mut name = NodeName::of(graph, outermost).ok_or_else(nowhere)?;
        for (attribute, resolved, node) in inner.into_iter().rev() {
            let within = NodeName::of(&resolved.graph, node).ok_or_else(nowhere)?;
            let path = format!("{}/{attribute}/{}", name.path, within.path);
            name = NodeName { path, ..within };
        }
        Ok(name)
    }

    /// Names the first and the last node that steps come from; the last only if it is another.
    ///
    /// # Errors
    ///
    /// Those of [`name_of`](Self::name_of).
    pub(crate) fn names_of<'a>(
        &self,
        steps: impl IntoIterator<Item = &'a StepOrigins>,
        graph: &Graph,
    ) -> Result<[Option<NodeName>; 2], Error> {
        let mut origins = steps.into_iter().flatten().copied();
        let Some(first) = origins.next() else { return Ok([None, None]) };
        let first = self.name_of(first, graph)?;
        let last = origins.last().map(|origin| self.name_of(origin, graph)).transpose()?;
        let last = last.filter(|last| *last != first);
        Ok([Some(first), last])
    }
}
