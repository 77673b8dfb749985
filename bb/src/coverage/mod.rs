//! What runs each node of a graph on a backend: known before anything runs.

mod advice;
mod ask;
mod begin;
mod look;
mod matrix;
mod samples;

pub(crate) use advice::title;
#[cfg(feature = "conformance")]
pub(crate) use ask::names;
pub use ask::{Answers, Refusal};
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
    /// One operation of the backend's own.
    Native,
    /// Operations that the operator is lowered to; how many, where that is known before inputs arrive.
    Lowered(Option<usize>),
    /// The host, because what it does depends on data or on what is no number, or because the backend has no kernel in
    /// place of the one that computes there.
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

/// A node, and what runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeCoverage {
    /// The node's name, or its first output's where it has none.
    pub node: String,
    /// The operator.
    pub op: String,
    /// Its domain; empty for `ai.onnx`.
    pub domain: String,
    /// The opset that the model imports.
    pub opset: i64,
    /// What runs it.
    pub how: How,
    /// Why it cannot run; of a node with subgraphs, what inside them cannot. Empty if it can.
    pub missing: Vec<Missing>,
    /// Whether the element types of all that it is lowered to are known before inputs arrive, and the backend takes them;
    /// if not, an element type that the backend lacks shows only when the node runs.
    pub checked: bool,
}

/// What runs each node of a graph on a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    /// The nodes whose results are used, in order.
    pub nodes: Vec<NodeCoverage>,
}

impl Coverage {
    /// Finds what runs each node on a backend, with its element types in mind.
    ///
    /// The backend's own answer decides which it takes: each operation that a node is lowered to is tried on one element, once
    /// for each combination of element types. What a node is lowered to, and to how many operations, is known where what
    /// precedes it is; extents that are not known are made up to find the element types.
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

    /// Returns how many nodes each way of running has, from native to unsupported.
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

    /// Lists what cannot run, inside subgraphs too.
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

/// What was found out about a node on a backend.
pub(crate) struct Looked {
    pub(crate) how: How,
    pub(crate) missing: Vec<Missing>,
    pub(crate) checked: bool,
}

/// Finds what runs each node of a part of a graph on a backend.
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

/// Says how a node runs if the backend takes its element types.
pub(crate) fn how(node: &Node, natives: &[(Family, OpSet)], count: Option<usize>) -> How {
    if plan::is_control_flow(node) {
        return How::Lowered(count);
    }
    how_version(&node.domain, &node.op_type, node.opset, natives, count)
}

/// Finds what runs a version of an operator that is no control flow.
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

/// Marks the nodes that the outputs need.
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

/// Returns a node's name, or its first output's where it has none.
pub(crate) fn name(graph: &Graph, node: &Node) -> String {
    let first = node.outputs.iter().flatten().next().map_or("", |v| graph.name_of(*v));
    if node.name.is_empty() { first } else { &node.name }.to_owned()
}

/// A node of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeInfo {
    /// The node's name, or its first output's where it has none.
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
    /// A component is bound to the operator, but the node is inside a subgraph, which goes to a backend as it is.
    InSubgraph {
        /// The node that holds the subgraph.
        holder: String,
    },
    /// The backend does not take the element types of what the node is lowered to.
    ElementTypes(Vec<Refusal>),
    /// It fails with what is known before inputs arrive: types, extents and constants.
    Fails {
        /// The error and its causes.
        reason: String,
    },
}

/// A node that cannot run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The node.
    pub node: NodeInfo,
    /// Why.
    pub why: Why,
}

impl Missing {
    /// Describes a node whose operator nothing runs.
    pub(crate) fn operator(graph: &Graph, node: &Node) -> Missing {
        Missing { node: NodeInfo::of(graph, node), why: Why::Operator }
    }
}

impl std::fmt::Display for Missing {
    /// The node, why it cannot run, and the cure.
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

/// Every node that cannot run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingList(pub Vec<Missing>);

/// How many nodes a message lists; more are counted.
const LISTED: usize = 50;

impl std::fmt::Display for MissingList {
    /// A line for each.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        lines(f, &self.0)
    }
}

/// A node that options refuse for how it would run.
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

/// Every node that options refuse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedList(pub Vec<RefusedNode>);

impl std::fmt::Display for RefusedList {
    /// A line for each.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        lines(f, &self.0)
    }
}

/// Writes a line for each of a list; the only one stays on its line.
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
