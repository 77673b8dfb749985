//! Finds out, before anything runs, how each node of a graph runs on a backend.

mod claims;
mod matrix;
mod passed_over;
mod samples;

use crate::NarrowError;
pub use bb_core::error::{
    How, Library, Missing, MissingList, NodeInfo, Refusal, RefusedList, RefusedNode, Why,
};
pub use claims::{ClaimOptions, ClaimedPart, Claims, Declined};
pub use matrix::{Matrix, Refused, RefusedBy, Row};
pub use passed_over::PassedOverNodes;

pub use crate::look::{Unknown, UnknownList};
pub use crate::placement::{PassedOver, WhyNot};

use crate::look::look;
use crate::placement::PlacedNode;
use crate::{BackendHandle, FirstOf, Module, Registry, Runtime};
use bb_core::error::name;
use bb_ir::text::{has_word, shown};
use std::sync::Arc;

/// A node and how it runs.
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
    /// The name of the backend that runs it. For a [`FirstOf`], this is the backend that it chose.
    pub backend: &'static str,
    /// For a [`FirstOf`], the backends that precede the chosen one in the list, and why each of them does not run the node. Empty if
    /// the node cannot run.
    pub passed_over: Vec<PassedOver>,
    /// How the node runs.
    pub how: How,
    /// Why the node cannot run. For a node with subgraphs, why nodes inside them cannot run. Empty if it can
    /// run.
    pub missing: Vec<Missing>,
    /// Whether the element types of all operations of the lowered node are known before inputs are passed, and the backend supports
    /// them. If not, an unsupported element type is found only when the node runs.
    pub checked: bool,
    /// The operations of the lowered node whose results may leave the range of the type that the backend uses for integers
    /// that it lacks. Results are right in any case: if elements leave the range, the host computes them, or the run fails with an
    /// error if they are too many for the host.
    pub exceeding: Vec<NarrowError>,
}

impl NodeCoverage {
    /// Lists the operations that the node needs and that the backend lacks or refuses.
    pub fn needs(&self) -> Vec<&'static str> {
        needs(&self.missing)
    }
}

/// Lists the operations that nodes need and that the backend lacks or refuses, each once.
fn needs<'a>(missing: impl IntoIterator<Item = &'a Missing>) -> Vec<&'static str> {
    let mut all = Vec::new();
    let mut add = |op: &'static str| {
        if !all.contains(&op) {
            all.push(op);
        }
    };
    for missing in missing {
        match &missing.why {
            Why::ElementTypes(refusals) => refusals.iter().for_each(|refusal| add(refusal.op)),
            Why::NoPrimitive { method } | Why::NoKernel { method } => add(method),
            _ => {}
        }
    }
    all
}

/// How each node of a graph runs on a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    /// The nodes whose results are used, in order.
    pub nodes: Vec<NodeCoverage>,
}

impl Coverage {
    /// Determines how each node runs on a backend, with its element types.
    ///
    /// Trials decide which types the backend supports: each operation of a lowered node is tried on one element, once per combination
    /// of element types. The operations of a node and their number are known if everything before the node is known. To find the
    /// element types, unknown extents get arbitrary values.
    pub fn of(module: &Module, on: &Arc<Runtime>) -> Coverage {
        let graph = module.graph();
        let nodes = graph
            .nodes
            .iter()
            .zip(looked(module, on))
            .filter(|(_, placed)| placed.looked.used)
            .map(|(node, PlacedNode { backend, looked, passed_over })| NodeCoverage {
                node: name(graph, node),
                op: node.op_type.clone(),
                domain: node.domain.clone(),
                opset: node.opset,
                backend,
                passed_over,
                how: looked.how,
                missing: looked.missing,
                checked: looked.unchecked.is_none(),
                exceeding: looked.exceeding,
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

    /// Lists the operations that nodes need and that the backend lacks or refuses, each once.
    pub fn needs(&self) -> Vec<&'static str> {
        needs(self.nodes.iter().flat_map(|node| &node.missing))
    }

    /// Lists the nodes that cannot run, including those in subgraphs.
    pub fn missing(&self) -> MissingList {
        MissingList(self.nodes.iter().flat_map(|node| node.missing.iter().cloned()).collect())
    }

    /// Returns advice to open another backend of the program together with `backend`, the name under which this one was opened. Returns
    /// `None` if no node may run elsewhere, or if the program has no other backend.
    pub fn advice(&self, backend: &str) -> Option<String> {
        let names = Registry::global().entries().map(|entry| entry.name);
        let other = names.filter(|name| !has_word(backend, name)).max_by_key(|name| *name == "cpu")?;
        let may_help = self.nodes.iter().flat_map(|node| &node.missing).any(Missing::may_run_elsewhere);
        let backend = shown(backend);
        may_help.then(|| {
            format!(
                "open `first_of({backend}, {other})`, so that `{other}` runs what `{backend}` does not run"
            )
        })
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

/// Analyses each node on the backend that runs it.
fn looked(module: &Module, on: &Arc<Runtime>) -> Vec<PlacedNode> {
    let handle = BackendHandle::new(on.clone());
    if let Some(several) = FirstOf::of(&handle) {
        return several.placed(module);
    }
    let only = |looked| PlacedNode { backend: on.name(), looked, passed_over: Vec::new() };
    look(module, on).into_iter().map(only).collect()
}
