//! Finds out, before anything runs, how each node of a graph runs on a backend.

mod begin;
mod look;
mod matrix;
mod samples;

use crate::NarrowError;
pub use bb_core::error::{How, Missing, MissingList, NodeInfo, Refusal, RefusedList, RefusedNode, Why};
pub(crate) use look::Part;
pub use matrix::{Matrix, Refused, RefusedBy, Row};

use crate::{BackendRuntime, Module};
use bb_core::error::name;
use bb_core::plan::{carriers, how};
use bb_ir::graph::Graph;
use std::sync::Arc;

/// A node and what runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeCoverage {
    /// The name of the node; if it has none, the name of its first output.
    pub node: String,
    /// The operator.
    pub op: String,
    /// Its domain; empty for `ai.onnx`.
    pub domain: String,
    /// The opset that the model imports.
    pub opset: i64,
    /// What runs it.
    pub how: How,
    /// Why the node cannot run. For a node with subgraphs, why nodes inside them cannot run. Empty if it can
    /// run.
    pub missing: Vec<Missing>,
    /// Whether the element types of all operations to which it is lowered are known before inputs are given, and the
    /// backend supports them. If not, an unsupported element type is found only when the node runs.
    pub checked: bool,
    /// The operations to which it is lowered whose results may leave the range of the type in which the backend holds
    /// integers that it lacks. They are computed with the right results all the same: on the host where the elements do leave
    /// the range, and with an error if they are too many for it.
    pub exceeding: Vec<NarrowError>,
}

/// What runs each node of a graph on a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    /// The nodes whose results are used, in order.
    pub nodes: Vec<NodeCoverage>,
}

impl Coverage {
    /// Finds out what runs each node on a backend, with its element types.
    ///
    /// The backend's own answer decides which types it supports: each operation to which a node is lowered is tried on
    /// one element, once per combination of element types. The operations of a node and their number are known if
    /// everything before the node is known. Unknown extents are made up to find the element types.
    pub fn of(module: &Module, on: &Arc<dyn BackendRuntime>) -> Coverage {
        let graph = module.graph();
        let part = Part { has: &|_| true, inputs: &graph.inputs, outputs: &graph.outputs };
        let nodes = graph
            .nodes
            .iter()
            .zip(look(module, &part, on))
            .zip(used(graph))
            .filter(|(_, used)| *used)
            .map(|((node, Looked { how, missing, checked, exceeding }), _)| NodeCoverage {
                node: name(graph, node),
                op: node.op_type.clone(),
                domain: node.domain.clone(),
                opset: node.opset,
                how,
                missing,
                checked,
                exceeding,
            })
            .collect();
        Coverage { nodes }
    }

    /// Returns the number of nodes for each way of running: native, lowered, host, unsupported.
    pub fn counts(&self) -> [usize; 4] {
        let mut counts = [0; 4];
        for node in &self.nodes {
            let at = match node.how {
                How::Native => 0,
                How::Lowered(_) => 1,
                How::Host => 2,
                How::Unsupported => 3,
            };
            if let Some(count) = counts.get_mut(at) {
                *count += 1;
            }
        }
        counts
    }

    /// Lists the nodes that cannot run, including those in subgraphs.
    pub fn missing(&self) -> MissingList {
        MissingList(self.nodes.iter().flat_map(|node| node.missing.iter().cloned()).collect())
    }
}

impl std::fmt::Display for Coverage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [native, lowered, host, unsupported] = self.counts();
        let nodes = self.nodes.len();
        write!(
            f,
            "{nodes} nodes: {native} native, {lowered} lowered, {host} host, {unsupported} unsupported"
        )?;
        match self.nodes.iter().filter(|node| !node.checked && node.how != How::Unsupported).count() {
            0 => Ok(()),
            open => write!(f, "; of {open}, not all element types are known before inputs arrive"),
        }
    }
}

/// The findings about a node on a backend.
pub(crate) struct Looked {
    pub(crate) how: How,
    pub(crate) missing: Vec<Missing>,
    pub(crate) checked: bool,
    pub(crate) exceeding: Vec<NarrowError>,
}

/// Finds out what runs each node of a part of a graph on a backend.
pub(crate) fn look(module: &Module, part: &Part<'_>, on: &Arc<dyn BackendRuntime>) -> Vec<Looked> {
    let natives = on.capabilities().families;
    let seen = look::look(&module.shared(), part, &**on);
    let nodes = module.graph().nodes.iter().enumerate().zip(seen);
    nodes
        .map(|((at, node), seen)| match carriers::body(node).filter(|_| (part.has)(at)) {
            Some(body) => carried(body, on),
            None => Looked {
                how: if seen.wrong.is_empty() { how(node, &natives, seen.steps) } else { How::Unsupported },
                missing: seen.wrong,
                checked: !seen.unchecked,
                exceeding: seen.exceeding,
            },
        })
        .collect()
}

/// Finds out what runs the body of a carrier, which is looked at on its own.
fn carried(body: &Graph, on: &Arc<dyn BackendRuntime>) -> Looked {
    let module = Module::of_part(carriers::standalone(body));
    let graph = module.graph();
    let part = Part { has: &|_| true, inputs: &graph.inputs, outputs: &graph.outputs };
    let mut all = Looked { how: How::Unsupported, missing: Vec::new(), checked: true, exceeding: Vec::new() };
    let mut steps = Some(0usize);
    for looked in look(&module, &part, on) {
        all.missing.extend(looked.missing);
        all.exceeding.extend(looked.exceeding);
        all.checked &= looked.checked;
        let own = if let How::Lowered(count) = looked.how { count } else { Some(1) };
        steps = steps.zip(own).map(|(all, own)| all + own);
    }
    all.how = if all.missing.is_empty() { How::Lowered(steps) } else { How::Unsupported };
    all
}

/// Returns for each node whether the outputs need it.
fn used(graph: &Graph) -> Vec<bool> {
    let mut values = vec![false; graph.values.len()];
    let mut nodes = vec![false; graph.nodes.len()];
    let mark = |values: &mut Vec<bool>, v: bb_ir::graph::ValueId| {
        if let Some(place) = values.get_mut(v.index()) {
            *place = true;
        }
    };
    graph.outputs.iter().for_each(|v| mark(&mut values, *v));
    for (node, used) in graph.nodes.iter().zip(&mut nodes).rev() {
        *used = node.outputs.iter().flatten().any(|v| values.get(v.index()) == Some(&true));
        if *used {
            node.inputs.iter().flatten().for_each(|v| mark(&mut values, *v));
        }
    }
    nodes
}
