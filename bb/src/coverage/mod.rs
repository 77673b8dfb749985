//! Finds out, before anything runs, what runs each node of a graph on a backend.

mod advice;
mod ask;
mod begin;
mod look;
mod matrix;
mod samples;

pub(crate) use advice::title;
pub use ask::Refusal;
#[cfg(feature = "conformance")]
pub(crate) use ask::names;
pub(crate) use look::Part;
pub use matrix::{Matrix, Refused, RefusedBy, Row};

use crate::ext::OpSet;
use crate::onnx::Class;
use crate::{BackendRuntime, Module, plan};
use advice::Advice;
use bb_ir::graph::{Graph, Node};
use bb_ir::op::{Family, Primitive};
use std::sync::Arc;

/// What runs a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum How {
    /// One native operation of the backend.
    Native,
    /// Operations that the operator is lowered to; their number, if it is known before inputs are given.
    Lowered(Option<usize>),
    /// The host, because the operator depends on data or on values that are not numbers, or because the
    /// backend has no kernel that replaces the host kernel.
    Host,
    /// Nothing.
    Unsupported,
}

impl std::fmt::Display for How {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            How::Native => f.write_str("native"),
            How::Lowered(Some(1)) => f.write_str("lowered to 1 operation"),
            How::Lowered(Some(n)) => write!(f, "lowered to {n} operations"),
            How::Lowered(None) => f.write_str("lowered"),
            How::Host => f.write_str("host"),
            How::Unsupported => f.write_str("unsupported"),
        }
    }
}

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
    /// Whether the element types of all operations that it is lowered to are known before inputs are given
    /// and the backend supports them. If not, an unsupported element type only shows when the node runs.
    pub checked: bool,
}

/// For a graph on a backend, what runs each node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    /// The nodes whose results are used, in order.
    pub nodes: Vec<NodeCoverage>,
}

impl Coverage {
    /// Finds out what runs each node on a backend, with its element types.
    ///
    /// The backend's own answer decides which types it supports: each operation that a node is lowered to is
    /// tried on one element, once per combination of element types. The operations of a node and their number
    /// are known if everything before the node is known. Unknown extents are made up to find the element
    /// types.
    pub fn of(module: &Module, on: &Arc<dyn BackendRuntime>) -> Coverage {
        let graph = module.graph();
        let part = Part { has: &|_| true, inputs: &graph.inputs, outputs: &graph.outputs };
        let nodes = graph
            .nodes
            .iter()
            .zip(look(module, &part, on))
            .zip(used(graph))
            .filter(|(_, used)| *used)
            .map(|((node, Looked { how, missing, checked }), _)| NodeCoverage {
                node: name(graph, node),
                op: node.op_type.clone(),
                domain: node.domain.clone(),
                opset: node.opset,
                how,
                missing,
                checked,
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
}

/// Finds out what runs each node of a part of a graph on a backend.
pub(crate) fn look(module: &Module, part: &Part<'_>, on: &Arc<dyn BackendRuntime>) -> Vec<Looked> {
    let natives = on.capabilities().families;
    let seen = look::look(&module.shared(), part, &**on);
    let nodes = module.graph().nodes.iter().zip(seen);
    nodes
        .map(|(node, seen)| Looked {
            how: if seen.wrong.is_empty() { how(node, &natives, seen.steps) } else { How::Unsupported },
            missing: seen.wrong,
            checked: !seen.unchecked,
        })
        .collect()
}

/// Returns how a node runs if the backend supports its element types.
pub(crate) fn how(node: &Node, natives: &[(Family, OpSet)], count: Option<usize>) -> How {
    if plan::is_control_flow(node) {
        return How::Lowered(count);
    }
    how_version(&node.domain, &node.op_type, node.opset, natives, count)
}

/// Returns how a version of an operator runs; the operator is not control flow.
fn how_version(
    domain: &str,
    name: &str,
    opset: i64,
    natives: &[(Family, OpSet)],
    count: Option<usize>,
) -> How {
    let Some((operator, _)) = crate::onnx::lookup::<crate::trace::Tracer>(domain, name, opset) else {
        return How::Unsupported;
    };
    let primitive = domain.is_empty() && Primitive::from_name(name).is_some();
    if primitive || crate::ext::is_native(name, natives) {
        return How::Native;
    }
    match operator.class {
        Class::Host | Class::HostByDefault => How::Host,
        Class::Primitives | Class::Items => How::Lowered(count),
    }
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

/// Returns the name of a node; if it has none, the name of its first output.
pub(crate) fn name(graph: &Graph, node: &Node) -> String {
    let first = node.outputs.iter().flatten().next().map_or("", |v| graph.name_of(*v));
    if node.name.is_empty() { first } else { &node.name }.to_owned()
}

/// A node of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeInfo {
    /// The name of the node; if it has none, the name of its first output.
    pub node: String,
    /// The operator.
    pub op: String,
    /// Its domain; empty for `ai.onnx`.
    pub domain: String,
    /// The opset that the model imports.
    pub opset: i64,
}

impl NodeInfo {
    /// Describes a node.
    pub(crate) fn of(graph: &Graph, node: &Node) -> NodeInfo {
        NodeInfo {
            node: name(graph, node),
            op: node.op_type.clone(),
            domain: node.domain.clone(),
            opset: node.opset,
        }
    }
}

impl std::fmt::Display for NodeInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` is `{}` of `{}` {}", self.node, self.op, advice::title(&self.domain), self.opset)
    }
}

/// Why a node cannot run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// Nothing runs the operator.
    Operator,
    /// A component is bound to the operator, but the node is inside a subgraph, which is passed to a backend
    /// as a whole.
    InSubgraph {
        /// The node that contains the subgraph.
        holder: String,
    },
    /// The backend refuses the element types of operations that the node is lowered to.
    ElementTypes(Vec<Refusal>),
    /// Its types, extents and constants, which are known before inputs are given, make it fail.
    Fails {
        /// The message of the error and of its causes.
        reason: String,
    },
}

/// A node that cannot run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The node.
    pub node: NodeInfo,
    /// The reason.
    pub why: Why,
}

impl Missing {
    /// Returns the entry for a node whose operator nothing runs.
    pub(crate) fn operator(graph: &Graph, node: &Node) -> Missing {
        Missing { node: NodeInfo::of(graph, node), why: Why::Operator }
    }
}

impl std::fmt::Display for Missing {
    /// Writes the node, why it cannot run, and what the user can do.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let NodeInfo { node, op, domain, opset } = &self.node;
        write!(f, "{}: ", self.node)?;
        match &self.why {
            Why::Operator => Advice { domain, op, opset: *opset }.fmt(f),
            Why::InSubgraph { holder } => write!(
                f,
                "a component is bound to it, but the node is inside `{holder}`, and a subgraph goes to a backend as it is; \
                 bind a component to the operator of `{holder}`"
            ),
            Why::ElementTypes(refusals) => {
                for (i, refusal) in refusals.iter().enumerate() {
                    write!(f, "{}{refusal}", if i == 0 { "it needs " } else { " and " })?;
                }
                if let Some(first) = refusals.first() {
                    write!(f, ", which is refused ({})", first.reason)?;
                }
                write!(f, "; bind the node to a backend that has the type: `.bind_node(\"{node}\", …)`")
            }
            Why::Fails { reason } => write!(f, "it will fail: {reason}"),
        }
    }
}

/// All nodes that cannot run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingList(pub Vec<Missing>);

/// The number of nodes that a message lists; the others are only counted.
const LISTED: usize = 50;

impl std::fmt::Display for MissingList {
    /// Writes a line for each node.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        lines(f, &self.0)
    }
}

/// A node that the options refuse because of how it would run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedNode {
    /// The node.
    pub node: NodeInfo,
    /// How it would run.
    pub how: How,
}

impl std::fmt::Display for RefusedNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.node, self.how)
    }
}

/// All nodes that the options refuse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedList(pub Vec<RefusedNode>);

impl std::fmt::Display for RefusedList {
    /// Writes a line for each node.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        lines(f, &self.0)
    }
}

/// Writes a line for each entry of a list; a single entry does not start a new line.
pub(crate) fn lines<T: std::fmt::Display>(f: &mut std::fmt::Formatter<'_>, list: &[T]) -> std::fmt::Result {
    if let [only] = list {
        return only.fmt(f);
    }
    for line in list.iter().take(LISTED) {
        write!(f, "\n  {line}")?;
    }
    match list.len().checked_sub(LISTED) {
        None | Some(0) => Ok(()),
        Some(more) => write!(f, "\n  and {more} more"),
    }
}
