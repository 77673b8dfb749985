//! What runs each node of a graph on a backend: known before anything runs.

mod matrix;
mod samples;

pub use matrix::{Matrix, Row};

use crate::Module;
use crate::ext::OpSet;
use crate::onnx::Class;
use crate::plan;
use bb_ir::graph::{Graph, Node};
use bb_ir::op::{Family, Primitive};
use std::collections::HashMap;

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
}

/// What runs each node of a graph on a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    /// The nodes whose results are used, in order.
    pub nodes: Vec<NodeCoverage>,
}

impl Coverage {
    /// Finds what runs each node on a backend whose families have these native operations.
    ///
    /// The number of operations that a node is lowered to is known where the extents of all inputs are.
    pub fn of(module: &Module, natives: &[(Family, OpSet)]) -> Coverage {
        let graph = module.graph();
        let nodes = graph
            .nodes
            .iter()
            .zip(hows(module, natives))
            .zip(used(graph))
            .filter(|(_, used)| *used)
            .map(|((node, how), _)| NodeCoverage {
                node: name(graph, node),
                op: node.op_type.clone(),
                domain: node.domain.clone(),
                opset: node.opset,
                how,
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
}

impl std::fmt::Display for Coverage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [native, lowered, host, unsupported] = self.counts();
        let nodes = self.nodes.len();
        write!(f, "{nodes} nodes: {native} native, {lowered} lowered, {host} host, {unsupported} unsupported")
    }
}

/// Finds what runs each node, used or not.
pub(crate) fn hows(module: &Module, natives: &[(Family, OpSet)]) -> Vec<How> {
    let counts: HashMap<usize, usize> =
        plan::count_steps(module, natives).unwrap_or_default().into_iter().collect();
    let nodes = module.graph().nodes.iter().enumerate();
    nodes.map(|(at, node)| how(node, natives, counts.get(&at).copied())).collect()
}

fn how(node: &Node, natives: &[(Family, OpSet)], count: Option<usize>) -> How {
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

/// A node that nothing runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The node's name, or its first output's where it has none.
    pub node: String,
    /// The operator.
    pub op: String,
    /// Its domain; empty for `ai.onnx`.
    pub domain: String,
    /// The opset that the model imports.
    pub opset: i64,
}

impl Missing {
    /// Describes a node.
    pub(crate) fn of(graph: &Graph, node: &Node) -> Missing {
        Missing {
            node: name(graph, node),
            op: node.op_type.clone(),
            domain: node.domain.clone(),
            opset: node.opset,
        }
    }
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let domain = if self.domain.is_empty() { "ai.onnx" } else { &self.domain };
        write!(f, "`{}` is `{}` of `{domain}` {}", self.node, self.op, self.opset)
    }
}

/// Every node that nothing runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingList(pub Vec<Missing>);

impl std::fmt::Display for MissingList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, missing) in self.0.iter().enumerate() {
            write!(f, "{}{missing}", if i == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}
