//! Looks up the functions of a graph's nodes once.

use super::splice::splice;
use crate::error::NodePart;
use crate::error::{Missing, MissingList};
use crate::operator::{self, Body, HostFunction, ItemFunction, RoundsOperator, SequenceStep, TensorFunction};
use crate::trace::{Liveness, Table, TableIndex, indices};
use crate::{Error, RunOptions};
use bb_ir::TensorData;
use bb_ir::graph::{Attribute, Graph, Node, ValueId};
use bb_ir::infer::ControlFlow;
use std::sync::Arc;

/// The function of a node.
#[derive(Debug, Clone, Copy)]
pub enum Code {
    /// No function, because the results are not read.
    Unused,
    /// No function, because there is no implementation for the node. This occurs only if a graph is inspected, not if it is
    /// planned.
    Missing,
    /// Calls an ONNX function.
    Call(TensorFunction),
    /// Calls an ONNX function on values, for example sequences. If a sequence is passed on unchanged, runs the step instead.
    Items(ItemFunction, Option<SequenceStep>),
    /// Calls an ONNX function on host tensors.
    Host(HostFunction),
    /// Continues with one of the branches.
    If,
    /// Runs a body any number of times.
    Repeat(Repeat),
}

/// An operator that runs its body any number of times.
#[derive(Debug, Clone, Copy)]
pub enum Repeat {
    /// `Loop`.
    Loop,
    /// `Scan`, from opset 9 on.
    Scan,
    /// `Scan` of opset 8, which has a batch.
    BatchedScan,
    /// `SequenceMap`.
    Map,
    /// An operator whose implementation determines its iterations.
    Rounds(&'static RoundsOperator),
    /// The branch with this name of an `If`. It runs once.
    Branch(&'static str),
}

impl Repeat {
    /// Returns the names of the attributes that are subgraphs, starting with the one that runs most often. Only the first is
    /// required.
    pub fn bodies(self) -> &'static [&'static str] {
        match self {
            Repeat::Loop | Repeat::Scan | Repeat::BatchedScan | Repeat::Map => &["body"],
            Repeat::Rounds(operator) => operator.bodies,
            Repeat::Branch("then_branch") => &["then_branch"],
            Repeat::Branch(_) => &["else_branch"],
        }
    }

    /// Returns whether the body may run several times; false only for the branch of an `If`.
    pub(crate) fn iterates(self) -> bool {
        !matches!(self, Repeat::Branch(_))
    }
}

impl Code {
    /// Returns the function of a node; `None` if there is no implementation.
    pub(crate) fn of(node: &Node) -> Option<Code> {
        if operator::unlinked(node).is_some() {
            return None;
        }
        Some(match operator::find(&node.domain, &node.op_type, node.opset)?.body {
            Body::Tensors(function) => Code::Call(function),
            Body::Items(function, step) => Code::Items(function, step),
            Body::Host(function) => Code::Host(function),
            Body::ControlFlow(kind) => Code::of_control_flow(kind, node.opset),
            Body::Rounds(operator) => Code::Repeat(Repeat::Rounds(operator)),
        })
    }

    /// Returns the function of a node with subgraphs, in a version of the operator set.
    fn of_control_flow(kind: ControlFlow, opset: i64) -> Code {
        match kind {
            ControlFlow::If => Code::If,
            ControlFlow::Loop => Code::Repeat(Repeat::Loop),
            // The `Scan` of opset 8 has a batch.
            ControlFlow::Scan if opset < 9 => Code::Repeat(Repeat::BatchedScan),
            ControlFlow::Scan => Code::Repeat(Repeat::Scan),
            ControlFlow::SequenceMap => Code::Repeat(Repeat::Map),
        }
    }
}

/// Returns the function of a node whose subgraphs the plan runs; `None` for other nodes.
pub fn control_flow(node: &Node) -> Option<Code> {
    Code::of(node).filter(|code| matches!(code, Code::If | Code::Repeat(_)))
}

indices! {
    /// A node of a graph.
    pub(crate) NodeIndex = "node of the graph";
}

/// A graph with the functions of its nodes and the liveness of its values, computed once for planning.
#[derive(Debug)]
pub struct Resolved {
    pub graph: Arc<Graph>,
    /// The function of each node.
    pub code: Vec<Code>,
    /// For each value, its index in `graph.constants`.
    weights: Table<ValueId, Option<usize>>,
    /// The nodes whose results are used, and the last reader of each value.
    liveness: Liveness<ValueId, NodeIndex>,
    /// The subgraphs of nodes, in the order of the nodes.
    inner: Vec<Inner>,
    /// The number of nodes and values of the graph and its subgraphs.
    size: usize,
    /// The number of nodes and values that were copied so far to replace `If` nodes by their branches.
    copied: usize,
}

/// The maximum number of nodes and values that are copied to replace the `If` nodes of one graph by their branches. Each
/// replacement copies the graph, so without a limit the time would grow with the square of the number of `If` nodes.
const MOST_COPIED: usize = 1 << 16;

/// A subgraph of a node.
#[derive(Debug)]
pub struct Inner {
    node: usize,
    attribute: String,
    /// The subgraph, with its captured values as inputs after its own inputs.
    pub resolved: Arc<Resolved>,
    /// The captured values, by their ids in the outer graph.
    pub captures: Vec<ValueId>,
}

impl Resolved {
    /// Finds the function of each node.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] that lists every node without an implementation.
    pub(crate) fn new(graph: Arc<Graph>) -> Result<Resolved, Error> {
        let mut missing = Vec::new();
        let outputs = graph.outputs.clone();
        let resolved = Resolved::part(graph, &outputs, &|_| true, &mut missing)?;
        if missing.is_empty() {
            return Ok(resolved);
        }
        let missing = missing.into_iter().map(|(_, missing)| missing).collect();
        Err(Error::Unsupported { missing: MissingList(missing) })
    }

    /// Finds the function of each node in a part of a graph whose results `outputs` are read. A node without an implementation
    /// becomes [`Code::Missing`], and is added to `missing` together with the index of the node of `graph` that it is or that
    /// contains it.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if the graph was not checked.
    pub fn part(
        graph: Arc<Graph>,
        outputs: &[ValueId],
        is_part: &dyn Fn(usize) -> bool,
        missing: &mut Vec<(usize, Missing)>,
    ) -> Result<Resolved, Error> {
        RunOptions::check_current()?;
        let nodes = graph.nodes.iter().enumerate().rev().filter(|(at, _)| is_part(*at));
        let nodes = nodes.map(|(at, n)| (NodeIndex::at(at), n.outputs.iter().flatten().copied(), n.reads()));
        let (values, count) = (graph.values.len(), graph.nodes.len());
        let liveness = Liveness::backwards(values, count, outputs.iter().copied(), nodes)?;
        let mut code = Vec::with_capacity(count);
        for (at, node) in graph.nodes.iter().enumerate() {
            RunOptions::check_current()?;
            let live = liveness.is_live(NodeIndex::at(at))?;
            code.push(if live { Code::of(node).unwrap_or(Code::Missing) } else { Code::Unused });
        }
        let mut inner = Vec::new();
        for ((at, node), code) in graph.nodes.iter().enumerate().zip(&code) {
            match code {
                Code::Missing => missing.push((at, operator::missing(&graph, node))),
                Code::If | Code::Repeat(_) => {}
                _ => continue,
            }
            for (name, attribute) in node.attributes.iter() {
                if let Attribute::Graph(body) = attribute {
                    let mut within = Vec::new();
                    inner.push(Inner::new(at, name, body, &mut within)?);
                    missing.extend(within.into_iter().map(|(_, missing)| (at, missing)));
                }
            }
        }
        let mut weights = Table::with(values, || None);
        for (position, (value, _)) in graph.constants.iter().enumerate() {
            weights.set(*value, Some(position))?;
        }
        let within = inner.iter().map(|inner| inner.resolved.size).sum::<usize>();
        let size = within.saturating_add(count).saturating_add(values);
        Ok(Resolved { graph, code, weights, liveness, inner, size, copied: 0 })
    }

    /// Copies the graph and replaces the `If` at an index by its branch. Returns `None` if previous replacements have used up
    /// [`MOST_COPIED`].
    ///
    /// # Errors
    ///
    /// [`Error::Operator`] if the node does not have the branch.
    pub(crate) fn with_branch(&self, at: usize, name: &str) -> Result<Option<Resolved>, Error> {
        if !self.may_be_copied() {
            return Ok(None);
        }
        let whole = Resolved::new(Arc::new(splice(&self.graph, at, self.branch(at, name)?)?))?;
        Ok(Some(Resolved { copied: self.copied.saturating_add(self.size), ..whole }))
    }

    /// Returns whether the graph may be copied once more to splice a branch.
    pub(crate) fn may_be_copied(&self) -> bool {
        self.copied.saturating_add(self.size) <= MOST_COPIED
    }

    /// Returns the index of a value in `graph.constants`, if the value is constant.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] for a value of another graph.
    pub fn weight(&self, value: ValueId) -> Result<Option<usize>, Error> {
        self.weights.get(value).copied()
    }

    /// Returns a constant with its index in `graph.constants`; `None` for a value that is not constant.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] for a value of another graph.
    pub(crate) fn constant(&self, value: ValueId) -> Result<Option<(usize, &TensorData)>, Error> {
        let Some(position) = self.weight(value)? else { return Ok(None) };
        let found =
            self.graph.constants.get(position).ok_or_else(|| Error::excluded("a constant of the graph"));
        Ok(Some((position, &found?.1)))
    }

    /// Returns whether a value is read by the node at `from`, by a later node, or by the caller.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] for a value of another graph.
    pub fn is_read_from(&self, value: ValueId, from: usize) -> Result<bool, Error> {
        self.liveness.is_read_from(value, NodeIndex::at(from))
    }

    /// Returns a node.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if the node does not exist.
    pub(crate) fn node(&self, at: usize) -> Result<&Node, Error> {
        self.graph.nodes.get(at).ok_or_else(|| Error::excluded("a node of the graph"))
    }

    /// Returns the original subgraph of a node, with its captures.
    ///
    /// # Errors
    ///
    /// [`Error::Operator`] if the node has no subgraph with this name.
    pub(crate) fn branch(&self, node: usize, attribute: &str) -> Result<&Graph, Error> {
        match self.node(node)?.attributes.graph(attribute)? {
            Some(branch) => Ok(branch),
            None => Err(self.no_subgraph(node, attribute)),
        }
    }

    fn no_subgraph(&self, node: usize, attribute: &str) -> Error {
        Error::Operator {
            op: self.graph.nodes.get(node).map_or_else(String::new, |node| node.op_type.clone()),
            part: NodePart::Other(format!("attribute `{attribute}`").into()),
            problem: "is missing".to_owned(),
        }
    }

    /// Iterates over the subgraphs of control flow.
    pub(crate) fn subgraphs(&self) -> impl Iterator<Item = &Resolved> {
        self.inner.iter().map(|inner| &*inner.resolved)
    }

    /// Returns a resolved subgraph of a node.
    ///
    /// # Errors
    ///
    /// [`Error::Operator`] if the node has no subgraph with this name.
    pub fn inner(&self, node: usize, attribute: &str) -> Result<&Inner, Error> {
        let first = self.inner.partition_point(|inner| inner.node < node);
        let mut of_node = self.inner.iter().skip(first).take_while(|inner| inner.node == node);
        let found = of_node.find(|inner| inner.attribute == attribute);
        found.ok_or_else(|| self.no_subgraph(node, attribute))
    }
}

impl Inner {
    fn new(
        node: usize,
        attribute: &str,
        body: &Graph,
        missing: &mut Vec<(usize, Missing)>,
    ) -> Result<Inner, Error> {
        let mut graph = body.clone();
        let captures = std::mem::take(&mut graph.captures);
        graph.inputs.extend(captures.iter().map(|(_, inner)| *inner));
        let outputs = graph.outputs.clone();
        let resolved = Arc::new(Resolved::part(Arc::new(graph), &outputs, &|_| true, missing)?);
        let captures = captures.into_iter().map(|(outer, _)| outer).collect();
        Ok(Inner { node, attribute: attribute.to_owned(), resolved, captures })
    }
}
