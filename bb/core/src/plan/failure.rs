//! The location of a failure: the node or nodes that were being compiled or run.
//!
//! Every failure during compilation or a run passes through here once for each enclosing graph. So its error chain begins with
//! the outermost node: a loop, then the node of its body, then the backend's error.

use super::origin::Origins;
use super::segment::SegmentTrace;
use crate::contract::tensor_type;
use crate::ext::boxed;
use crate::trace::{StepId, StepOrigins, TraceValue, WeightId};
use crate::{BoxError, Error};
use bb_ir::DataType;
use bb_ir::graph::{Graph, Node, ValueId};

/// The location of a failure in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Where {
    /// Not in a node; the failure concerns the graph.
    Graph,
    /// In a node.
    Node(usize),
    /// In one of several nodes that run as one. `first` and `last` are the indices of the first and the last of them.
    Nodes { first: usize, last: usize, count: usize },
}

/// A failure, and where it happened.
pub(crate) struct Failure<E> {
    pub(crate) at: Where,
    pub(crate) error: E,
}

impl Where {
    /// Finds the nodes that steps come from. Unknown origins are skipped, because another error is already being reported.
    pub(crate) fn of<'a>(origins: &Origins, steps: impl IntoIterator<Item = &'a StepOrigins>) -> Where {
        let mut nodes = steps.into_iter().flatten().filter_map(|origin| origins.node_of(*origin).ok());
        let Some(first) = nodes.next() else { return Where::Graph };
        let (first, last) = nodes.fold((first, first), |(from, to), node| (from.min(node), to.max(node)));
        match origins.nodes().filter(|node| (first..=last).contains(node)).count() {
            0 | 1 => Where::Node(first),
            count => Where::Nodes { first, last, count },
        }
    }

    /// Adds the location to an error.
    pub(crate) fn name<E>(self, graph: &Graph, error: E) -> E
    where
        E: std::error::Error + From<Error> + Send + Sync + 'static,
    {
        let label = |at: usize| graph.nodes.get(at).map(|n| crate::error::name(graph, n)).unwrap_or_default();
        match self {
            Where::Graph => error,
            Where::Node(at) => in_node(graph, at, boxed(error)).into(),
            Where::Nodes { first, last, count } => {
                Error::Nodes { first: label(first), last: label(last), count, source: boxed(error) }.into()
            }
        }
    }
}

/// Adds the node to an error.
pub(crate) fn in_node(graph: &Graph, at: usize, source: impl Into<BoxError>) -> Error {
    let node = graph.nodes.get(at);
    Error::Node {
        node: node.map_or_else(String::new, |n| crate::error::name(graph, n)),
        op: node.map_or_else(String::new, |n| n.op_type.clone()),
        source: source.into(),
    }
}

/// Adds the operator and its operands to an error that names only an operation of the operator's body, which the model's author
/// does not know.
pub(super) fn of_operator<'x>(
    node: &Node,
    operands: impl Iterator<Item = Option<(DataType, &'x [usize])>>,
    error: Error,
) -> Error {
    let own = |op: &str| {
        let plain = |name: &str| name.replace('_', "").to_ascii_lowercase();
        plain(op) == plain(&node.op_type)
    };
    if error.operation().is_none_or(own) {
        return error;
    }
    let shown = operands.map(|operand| match operand {
        Some((dtype, shape)) => tensor_type(dtype, shape).to_string(),
        None => "nothing".to_owned(),
    });
    let operands = match shown.collect::<Vec<_>>().as_slice() {
        [] => "no operands".to_owned(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    };
    Error::Operands { op: node.op_type.clone(), operands, source: error.into() }
}

/// Returns the error for an initializer that could not be uploaded to the backend, with the node that reads it.
pub fn initializer(graph: &Graph, value: ValueId, dtype: DataType, source: impl Into<BoxError>) -> Error {
    let error = Error::Initializer { name: graph.name_of(value).to_owned(), dtype, source: source.into() };
    match graph.nodes.iter().position(|node| node.reads().any(|read| read == value)) {
        Some(at) => in_node(graph, at, error),
        None => error,
    }
}

impl SegmentTrace {
    /// Iterates over the steps, each with the node of the graph that it comes from.
    pub fn steps_by_node(&self) -> impl Iterator<Item = (StepId, usize)> {
        self.recorded.steps.iter().filter_map(|(id, step)| {
            let origin = step.origins.first()?;
            Some((id, self.origins.node_of(*origin).ok()?))
        })
    }

    /// Finds the node that a step of the trace is part of.
    pub(crate) fn node_of(&self, step: StepId) -> Where {
        self.recorded.steps.get(step).map_or(Where::Graph, |step| Where::of(&self.origins, [&step.origins]))
    }

    /// Finds the first node that reads a value of the trace.
    pub(crate) fn reader_of(&self, value: TraceValue) -> Where {
        let mut steps = self.recorded.steps.entries();
        let reader = steps.find(|step| step.inputs.contains(&Some(value)));
        reader.map_or(Where::Graph, |step| Where::of(&self.origins, [&step.origins]))
    }

    /// Returns the error for a constant of the trace that could not be uploaded to the backend, with the node that reads it.
    pub(crate) fn constant<E>(
        &self,
        value: TraceValue,
        weight: Option<WeightId>,
        dtype: DataType,
        error: E,
    ) -> E
    where
        E: std::error::Error + From<Error> + Send + Sync + 'static,
    {
        let graph = &self.resolved.graph;
        let source = boxed(error);
        let named = match weight {
            Some(WeightId::Graph(position)) => graph.constants.get(position),
            Some(WeightId::Body(_)) | None => None,
        };
        let error = match named {
            Some((value, _)) => Error::Initializer { name: graph.name_of(*value).to_owned(), dtype, source },
            None => Error::Constant { dtype, source },
        };
        self.reader_of(value).name(graph, error.into())
    }
}
