//! State that all models of an engine share.

use crate::counts::Counters;
use crate::engine::Engine;
use crate::error::Refusal;
use crate::gap::{Gap, dtype_of};
use bb_ir::graph::{Graph, Node};
use std::sync::Arc;

/// An engine and its counters.
pub(crate) struct Shared<E> {
    pub(crate) engine: E,
    /// Whether the engine's table of gaps is used.
    pub(crate) has_table: bool,
    pub(crate) counters: Arc<Counters>,
}

impl<E: Engine> Shared<E> {
    /// Returns the reason why the engine does not run a node, according to its table and the element types.
    pub(crate) fn refusal(&self, graph: &Graph, node: &Node) -> Option<Refusal> {
        let gaps = if self.has_table { self.engine.gaps() } else { &[] };
        if let Some(Gap { reason, case, .. }) = gaps.iter().find(|gap| gap.is_of(graph, node)) {
            return Some(Refusal::Gap { reason: *reason, case });
        }
        let values = node.inputs.iter().chain(&node.outputs).flatten();
        let lacking = values.filter_map(|&value| Some((value, dtype_of(graph, value)?)));
        if let Some((value, dtype)) = lacking.into_iter().find(|(_, dtype)| !self.engine.holds(*dtype)) {
            return Some(Refusal::Type { value: graph.name_of(value).to_owned(), dtype });
        }
        node.subgraphs().find_map(|inner| inner.nodes.iter().find_map(|node| self.refusal(inner, node)))
    }
}
