//! Analyses a graph for a backend before anything runs: how each node runs, and which nodes the backend refuses.

mod begin;
mod stand_ins;
mod traced;
mod unknown;

pub(crate) use traced::extent_of;
pub use unknown::{Unknown, UnknownList};

use crate::NarrowError;
use crate::{Module, Runtime};
use bb_core::cut::Part;
use bb_core::error::{How, Missing, NodeInfo, Why};
use bb_core::plan::{carriers, how};
use bb_ir::graph::Graph;
use std::sync::Arc;

/// The findings about a node on a backend.
#[derive(Clone)]
pub(crate) struct Looked {
    /// Whether a result of the node is used.
    pub(crate) used: bool,
    pub(crate) how: How,
    pub(crate) missing: Vec<Missing>,
    /// The facts that are unknown before inputs are passed and that may determine the element types of the node; `None` if it was
    /// analysed.
    pub(crate) unchecked: Option<UnknownList>,
    pub(crate) exceeding: Vec<NarrowError>,
}

/// Determines how each node of a graph runs on a backend.
pub(crate) fn look(module: &Module, on: &Arc<Runtime>) -> Vec<Looked> {
    let graph = module.graph();
    let (inputs, outputs) = (graph.inputs.clone(), graph.outputs.clone());
    look_part(module, &Part { target: (), nodes: (0..graph.nodes.len()).collect(), inputs, outputs }, on)
}

/// Determines how each node of a part of a graph runs on a backend.
pub(crate) fn look_part<T>(module: &Module, part: &Part<T>, on: &Arc<Runtime>) -> Vec<Looked> {
    let natives = on.capabilities().families;
    let mut seen = traced::look(&module.shared(), part, on);
    let graph = module.graph();
    let nodes = part.nodes.iter().filter_map(|&at| {
        let (node, mut seen) = (graph.nodes.get(at)?, std::mem::take(seen.get_mut(at)?));
        if let Some(body) = carriers::body(node) {
            return Some(Looked { used: seen.used, ..carried(body, on) });
        }
        if let Some(reason) = on.declines(graph, node) {
            seen.wrong.push(Missing { node: NodeInfo::of(graph, node), why: Why::Declined { reason } });
        }
        Some(Looked {
            used: seen.used,
            how: if seen.wrong.is_empty() { how(node, &natives, seen.steps) } else { How::Unsupported },
            missing: seen.wrong,
            unchecked: seen.unchecked,
            exceeding: seen.exceeding,
        })
    });
    nodes.collect()
}

/// Determines how the body of a carrier runs; the body is analysed separately.
fn carried(body: &Graph, on: &Arc<Runtime>) -> Looked {
    let module = Module::of_part(carriers::standalone(body));
    let (missing, exceeding) = (Vec::new(), Vec::new());
    let mut all = Looked { used: true, how: How::Unsupported, missing, unchecked: None, exceeding };
    let mut steps = Some(0usize);
    for looked in look(&module, on) {
        all.missing.extend(looked.missing);
        all.exceeding.extend(looked.exceeding);
        all.unchecked = all.unchecked.or(looked.unchecked);
        let own = if let How::Lowered(count) = looked.how { count } else { Some(1) };
        steps = steps.zip(own).map(|(all, own)| all + own);
    }
    all.how = if all.missing.is_empty() { How::Lowered(steps) } else { How::Unsupported };
    all
}
