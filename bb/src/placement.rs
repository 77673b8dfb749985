//! Reports which backend or component runs each node of a model and which values are transferred between them, before anything runs.
//!
//! Both [`FirstOf`](crate::FirstOf) and [`Deployment`](crate::Deployment) place a model in four steps:
//!
//! 1. Each node gets a target: a `FirstOf` takes the backend of a pin, or else the backend with the lowest cost; a deployment takes the
//!    component, the backend of the first rule that matches, or the first backend.
//! 2. [`cut`](bb_core::cut) groups nodes of one target into parts. No path leaves a part and enters it again.
//! 3. [`look`](crate::look) finds out how each node runs on its backend. [`Placement`] reports it.
//! 4. A program runs the parts in order. Values pass between them in [`PartedGraph`](bb_core::contract::PartedGraph). [`PlacedTensor`]
//!    copies a value once to each backend that reads it.

mod passed_over;
mod tensor;

pub use passed_over::{PassedOver, WhyNot};
pub use tensor::PlacedTensor;

use crate::look::Looked;
use bb_core::cut::Part;
use bb_core::error::{How, NodeInfo, name};
use bb_ir::graph::{Graph, Node, ValueId};
use std::collections::{HashMap, HashSet};
use std::fmt;

/// The backend or component that runs a node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Executor {
    /// A backend.
    Backend {
        /// The backend's name.
        name: String,
        /// How it runs the node.
        how: How,
    },
    /// The component bound to the operator.
    Component,
}

/// A node and its executor.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodePlacement {
    /// The node.
    pub node: NodeInfo,
    /// The executor of the node.
    pub executor: Executor,
    /// Whether the backend is known to support all element types that the node needs. Some types are known only when inputs are passed.
    /// A component is responsible for its own types.
    pub checked: bool,
    /// For a node of a [`FirstOf`](crate::FirstOf), the backends that precede the chosen one in the list, and why each of them does not
    /// run it.
    pub passed_over: Vec<PassedOver>,
}

/// A node and the backend that runs it.
pub(crate) struct PlacedNode {
    /// The name of the backend.
    pub(crate) backend: &'static str,
    /// The analysis of the node on this backend.
    pub(crate) looked: Looked,
    /// The preferred backends that do not run it.
    pub(crate) passed_over: Vec<PassedOver>,
}

impl PlacedNode {
    pub(crate) fn report(self, graph: &Graph, node: &Node) -> NodePlacement {
        let executor = Executor::Backend { name: self.backend.to_owned(), how: self.looked.how };
        let (node, checked) = (NodeInfo::of(graph, node), self.looked.unchecked.is_none());
        NodePlacement { node, executor, checked, passed_over: self.passed_over }
    }
}

/// The backend or component that produces or reads a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Side {
    /// The backend of this name.
    Backend(String),
    /// The component that runs the node of this name.
    Component(String),
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Side::Backend(name) => write!(f, "`{name}`"),
            Side::Component(node) => write!(f, "the component at `{node}`"),
        }
    }
}

/// A value that one backend or component produces and another reads.
///
/// Between backends, the value is copied through the host. A component reads the value where it is. A component's
/// result is moved if the component left it on another backend than the one that reads it; this is known only when
/// the component runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// The value's name.
    pub value: String,
    /// The side that produces the value.
    pub from: Side,
    /// The side that reads the value.
    pub to: Side,
}

/// The executor of each node of a model, and the transfers between executors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Placement {
    /// The nodes, in a valid order of execution.
    pub nodes: Vec<NodePlacement>,
    /// The values that are transferred.
    pub transfers: Vec<Transfer>,
    /// The parts of the model, in the order of execution.
    pub parts: Vec<PlacedPart>,
}

/// Nodes that run together.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlacedPart {
    /// The backend or component that runs them.
    pub side: Side,
    /// The names of the nodes.
    pub nodes: Vec<String>,
    /// The names of the values that the nodes read from outside the part, without weights.
    pub inputs: Vec<String>,
    /// The names of the values that are read outside the part.
    pub outputs: Vec<String>,
}

impl Placement {
    /// Lists the parts of a graph, and the values that one side computes and another side reads.
    pub(crate) fn of_parts<T>(
        graph: &Graph,
        parts: &[Part<T>],
        side: impl Fn(&Part<T>) -> Side,
    ) -> Placement {
        let named = |values: &[ValueId]| values.iter().map(|v| graph.name_of(*v).to_owned()).collect();
        let mut placement = Placement::default();
        let mut made_by: HashMap<ValueId, Side> = HashMap::new();
        let mut listed = HashSet::new();
        for part in parts {
            let to = side(part);
            for value in &part.inputs {
                let Some(from) = made_by.get(value).filter(|from| **from != to) else { continue };
                if listed.insert((*value, to.clone())) {
                    let value = graph.name_of(*value).to_owned();
                    placement.transfers.push(Transfer { value, from: from.clone(), to: to.clone() });
                }
            }
            made_by.extend(part.outputs.iter().map(|value| (*value, to.clone())));
            let nodes = part.nodes.iter().filter_map(|&at| graph.nodes.get(at));
            placement.parts.push(PlacedPart {
                side: to,
                nodes: nodes.map(|node| name(graph, node)).collect(),
                inputs: named(&part.inputs),
                outputs: named(&part.outputs),
            });
        }
        placement
    }
}
