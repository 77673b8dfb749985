//! Which node of the model each step of a trace comes from.

use super::resolve::Resolved;
use bb_ir::graph::Graph;
use std::sync::Arc;

/// The nodes that the steps of a trace come from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Origins {
    /// For each node traced, the number of steps before it.
    pub(crate) nodes: Vec<(u32, u32)>,
    /// The same for the nodes of subgraphs that were traced in their node's place.
    pub(crate) inner: Vec<InnerNode>,
}

/// From a step on, a node of a subgraph; or again the node that holds the subgraph.
#[derive(Debug, Clone)]
pub(crate) struct InnerNode {
    pub(crate) step: u32,
    /// How many subgraphs are around the node.
    pub(crate) depth: u32,
    /// The attribute that is the subgraph.
    pub(crate) attribute: &'static str,
    pub(crate) resolved: Arc<Resolved>,
    pub(crate) node: u32,
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
        let path = crate::coverage::name(graph, node);
        Some(NodeName { path, op: node.op_type.clone(), domain: node.domain.clone() })
    }
}

impl Origins {
    /// Returns the node of the graph that a step comes from.
    pub(crate) fn node_of(&self, step: u32) -> Option<usize> {
        self.top(step).map(|(_, node)| node as usize)
    }

    fn top(&self, step: u32) -> Option<(u32, u32)> {
        let after = self.nodes.partition_point(|(first, _)| *first <= step);
        after.checked_sub(1).and_then(|i| self.nodes.get(i)).copied()
    }

    /// Names the node that a step comes from, the innermost where subgraphs were traced in place.
    pub(crate) fn name_of(&self, step: u32, graph: &Graph) -> Option<NodeName> {
        let (first, top) = self.top(step)?;
        let mut name = NodeName::of(graph, top as usize)?;
        let after = self.inner.partition_point(|inner| inner.step <= step);
        let noted = self.inner.get(..after).unwrap_or_default();
        let mut depth = noted.last().filter(|last| last.step >= first).map_or(0, |last| last.depth);
        let mut around: Vec<&InnerNode> = Vec::new();
        for inner in noted.iter().rev() {
            if depth == 0 {
                break;
            }
            if inner.depth == depth {
                around.push(inner);
                depth -= 1;
            }
        }
        for inner in around.into_iter().rev() {
            let within = NodeName::of(&inner.resolved.graph, inner.node as usize)?;
            let path = format!("{}/{}/{}", name.path, inner.attribute, within.path);
            name = NodeName { path, ..within };
        }
        Some(name)
    }
}
