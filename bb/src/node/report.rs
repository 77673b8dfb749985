//! What runs each node of a model, and what crosses between backends; known before anything runs.

use crate::coverage::Missing;
use crate::ext::OpSet;
use crate::onnx::{Call, Class, lookup};
use crate::trace::{DEFAULT_LIMIT, Traced, Tracer};
use crate::{Backend, BackendHandle};
use bb_ir::graph::{Dim, Graph, Node, ValueId, ValueType};
use bb_ir::op::Family;

/// How a node runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Support {
    /// By one operation that the backend has itself.
    Native,
    /// By this many operations; `None` where the number depends on what inputs bring.
    Lowered(Option<usize>),
    /// On the host, because what it does depends on data or is no arithmetic.
    Host,
    /// By a component.
    Component,
    /// Not at all.
    Unsupported,
}

impl std::fmt::Display for Support {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Support::Native => f.write_str("native"),
            Support::Lowered(Some(n)) => write!(f, "lowered ({n})"),
            Support::Lowered(None) => f.write_str("lowered"),
            Support::Host => f.write_str("host"),
            Support::Component => f.write_str("component"),
            Support::Unsupported => f.write_str("unsupported"),
        }
    }
}

/// What runs a node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeCoverage {
    /// The node.
    pub node: Missing,
    /// The backend, or the component as `domain::name`.
    pub on: String,
    /// How.
    pub support: Support,
}

/// A value that is made on one backend and read on another, by way of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crossing {
    /// The value's name.
    pub value: String,
    /// The backend that makes it.
    pub from: String,
    /// The backend that reads it.
    pub to: String,
}

/// What runs each node of a model, and what crosses between backends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coverage {
    /// The nodes, in the order in which they can run.
    pub nodes: Vec<NodeCoverage>,
    /// The values that cross.
    pub crossings: Vec<Crossing>,
    /// The number of parts into which the model is cut.
    pub parts: usize,
}

impl Coverage {
    /// Iterates over the nodes that nothing runs.
    pub fn unsupported(&self) -> impl Iterator<Item = &NodeCoverage> {
        self.nodes.iter().filter(|node| node.support == Support::Unsupported)
    }
}

/// The nodes that nothing runs, and the backends that were asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uncovered(pub Vec<NodeCoverage>);

impl std::fmt::Display for Uncovered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, node) in self.0.iter().enumerate() {
            write!(f, "{}{}, asked of `{}`", if i == 0 { "" } else { "; " }, node.node, node.on)?;
        }
        Ok(())
    }
}

/// Finds how a backend runs a node.
pub(crate) fn support(graph: &Graph, node: &Node, backend: &BackendHandle) -> Support {
    let natives = backend.runtime().capabilities().families;
    let Some((operator, function)) = lookup::<Tracer>(&node.domain, &node.op_type, node.opset) else {
        return Support::Unsupported;
    };
    if operator.class != Class::Primitives {
        return Support::Host;
    }
    match lowered(graph, node, function, &natives) {
        Some(1) => Support::Native,
        Some(steps) => Support::Lowered(Some(steps)),
        None if is_named(&node.op_type, &natives) => Support::Native,
        None => Support::Lowered(None),
    }
}

/// Counts the operations that a node becomes, where the extents of its operands are known.
fn lowered(
    graph: &Graph,
    node: &Node,
    function: crate::onnx::Function<Tracer>,
    natives: &[(Family, OpSet)],
) -> Option<usize> {
    let tracer = Tracer::new(natives.to_vec(), DEFAULT_LIMIT);
    let mut inputs = Vec::new();
    for (index, input) in node.inputs.iter().enumerate() {
        inputs.push(match input {
            Some(value) => Some(operand(&tracer, graph, index as u32, *value)?),
            None => None,
        });
    }
    function(&tracer, &Call::new(node, &inputs)).ok()?;
    Some(tracer.steps())
}

/// Makes an operand of a trace; `None` if its extents are not known.
fn operand(tracer: &Tracer, graph: &Graph, index: u32, value: ValueId) -> Option<Traced> {
    if let Some((_, data)) = graph.constants.iter().find(|(constant, _)| *constant == value) {
        return tracer.constant(data).ok();
    }
    let Some(ValueType::Tensor { dtype, shape: Some(dims) }) = graph.values.get(value.index()).map(|v| &v.ty) else {
        return None;
    };
    let known = |dim: &Dim| match dim {
        Dim::Known(extent) => Some(*extent),
        Dim::Symbol(_) | Dim::Unknown => None,
    };
    let shape: Vec<usize> = dims.iter().map(known).collect::<Option<_>>()?;
    Some(tracer.input(index, *dtype, &shape, false, None))
}

/// Tells whether a primitive or a native operation has the operator's name.
fn is_named(op_type: &str, natives: &[(Family, OpSet)]) -> bool {
    bb_ir::op::Primitive::from_name(op_type).is_some()
        || natives.iter().any(|(family, native)| {
            crate::ext::rows(*family).iter().any(|row| row.name == op_type && native.contains(row.index))
        })
}
