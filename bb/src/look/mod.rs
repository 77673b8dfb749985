//! Analyses a graph for a backend before anything runs: how each node runs, and which nodes the backend refuses.

mod begin;
mod traced;

pub(crate) use traced::Part;

use crate::NarrowError;
use crate::{BackendRuntime, Module};
use bb_core::error::{How, Missing, NodeInfo, Why};
use bb_core::plan::{carriers, how};
use bb_ir::graph::Graph;
use std::sync::Arc;

/// The findings about a node on a backend.
pub(crate) struct Looked {
    pub(crate) how: How,
    pub(crate) missing: Vec<Missing>,
    pub(crate) checked: bool,
    pub(crate) exceeding: Vec<NarrowError>,
}

/// Determines how each node of a part of a graph runs on a backend.
pub(crate) fn look(module: &Module, part: &Part<'_>, on: &Arc<dyn BackendRuntime>) -> Vec<Looked> {
    let natives = on.capabilities().families;
    let seen = traced::look(&module.shared(), part, &**on);
    let graph = module.graph();
    let nodes = graph.nodes.iter().enumerate().zip(seen);
    let looked = nodes.map(|((at, node), mut seen)| {
        let is_here = (part.has)(at);
        if let Some(body) = carriers::body(node).filter(|_| is_here) {
            return carried(body, on);
        }
        if let Some(reason) = is_here.then(|| on.declines(graph, node)).flatten() {
            seen.wrong.push(Missing { node: NodeInfo::of(graph, node), why: Why::Declined { reason } });
        }
        Looked {
            how: if seen.wrong.is_empty() { how(node, &natives, seen.steps) } else { How::Unsupported },
            missing: seen.wrong,
            checked: !seen.unchecked,
            exceeding: seen.exceeding,
        }
    });
    looked.collect()
}

/// Determines how the body of a carrier runs; the body is analysed separately.
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
