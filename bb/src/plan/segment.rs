//! Tracing a checked graph, as far as values allow.
//!
//! A segment is a run of nodes that can be traced without knowing a value which only running gives. Most
//! graphs are one segment. A segment ends before a node that
//! - needs such a value (the extents for a `Reshape`, say, computed from data): the next segment begins with that value
//!   read back from the backend;
//! - works on host tensors, or repeats a body that cannot be unrolled: the node runs between two segments.

use super::end::{Cut, End, Outputs, end};
use super::failure::in_node;
use super::origin::{Origin, Origins};
use super::resolve::{Code, Resolved};
use super::splice::splice;
use super::unroll::{BodiesInPlace, Ran, Tracing};
use crate::Error;
use crate::ext::OpSet;
use crate::onnx::OnnxValue;
use crate::trace::{InputIndex, TableIndex, Trace, Tracer, WeightId};
use bb_ir::graph::{Graph, ValueId};
use bb_ir::op::Family;
use bb_ir::{DataType, Shape, TensorData};
use std::cell::RefCell;
use std::sync::Arc;

/// What values are built of, where they are not all tensors.
pub(crate) type Structure = Option<Arc<[OnnxValue<()>]>>;

/// Where a segment begins: the node, and the values that come from before.
#[derive(Debug, Default, Clone)]
pub(crate) struct Start {
    /// The first node.
    pub(crate) node: usize,
    /// The values that the backend holds, in the order of the plan's inputs.
    pub(crate) live: Vec<ValueId>,
    /// The values that earlier segments found to be constant.
    pub(crate) known: Vec<(ValueId, TensorData)>,
}

/// What is known of a live tensor when a segment is traced.
#[derive(Debug, Clone)]
pub(crate) struct SegmentInput {
    pub(crate) dtype: DataType,
    pub(crate) shape: Shape,
    /// Whether other runs may bring other extents.
    pub(crate) varies: bool,
    /// The elements, where the segment is specialised on them.
    pub(crate) known: Option<TensorData>,
}

/// A traced segment.
#[derive(Debug)]
pub(crate) struct SegmentTrace {
    pub(crate) recorded: Trace,
    /// What the outputs of the trace make up.
    pub(crate) structure: Structure,
    /// The tensors that came in, as bits by position (63 for all from there on), on whose extents the trace depends.
    pub(crate) consulted: u64,
    /// The graph that was traced, in which branches taken stand for their `If`s.
    pub(crate) resolved: Arc<Resolved>,
    /// The weights of bodies that were unrolled.
    pub(crate) inner_weights: Vec<TensorData>,
    /// The nodes that the steps come from.
    pub(crate) origins: Origins,
    /// What follows.
    pub(crate) end: End,
    /// Of a trace that explores: why it stopped before a node.
    pub(crate) stop: Option<Stop>,
    /// Of a trace that explores to the end: the values that its outputs are.
    pub(crate) returned: Vec<ValueId>,
}

/// Why a trace that explores stopped before a node.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It needs a value that only running gives, or runs between segments.
    Cut,
    /// It goes on with this branch, in which something runs between segments.
    Branch(&'static str),
    /// It fails.
    Failed(Error),
}

impl SegmentTrace {
    /// Returns the weights that the trace may read, by number.
    pub(crate) fn weights(&self) -> Weights<'_> {
        Weights { graph: &self.resolved.graph.constants, inner: &self.inner_weights }
    }
}

/// The weights that a trace may read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Weights<'a> {
    graph: &'a [(ValueId, TensorData)],
    inner: &'a [TensorData],
}

impl<'a> Weights<'a> {
    /// Returns a weight.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if it does not exist.
    pub(crate) fn get(self, id: WeightId) -> Result<&'a TensorData, Error> {
        let found = match id {
            WeightId::Graph(position) => self.graph.get(position).map(|(_, data)| data),
            WeightId::Body(position) => self.inner.get(position),
        };
        found.ok_or_else(|| Error::excluded("the weights of a trace to be there"))
    }
}

/// How tracing a segment ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// With a trace.
    Done(Box<SegmentTrace>),
    /// Before its first node: a tensor must be known.
    Needs(Wanted),
}

/// A live tensor that a node must know, by position.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) position: usize,
    /// The graph of the node, in which branches taken stand for their `If`s.
    pub(crate) resolved: Arc<Resolved>,
    pub(crate) node: usize,
}

/// Settings of a trace that do not change between segments.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) natives: Vec<(Family, OpSet)>,
    pub(crate) value_bytes: usize,
    /// Whether to look at nodes before inputs arrive rather than to plan: nothing is spliced or specialised, and a node that
    /// cannot be traced ends the segment, whatever the reason.
    pub(crate) explores: bool,
}

/// Traces from `start` as far as values allow.
pub(crate) fn trace(
    resolved: &Arc<Resolved>,
    start: &Start,
    inputs_known: &[SegmentInput],
    structure: &Structure,
    settings: &Settings,
) -> Result<Outcome, Error> {
    let tracer = Tracer::new(settings.natives.clone(), settings.value_bytes);
    let inner: RefCell<BodiesInPlace> = RefCell::default();
    let mut tracing = Tracing::new(&tracer, resolved.clone(), &inner);
    tracing.splices = !settings.explores;
    let mut arrived = Vec::with_capacity(inputs_known.len());
    for (index, from) in inputs_known.iter().enumerate() {
        arrived.push(tracer.input(
            InputIndex::at(index),
            from.dtype,
            &from.shape,
            from.varies,
            from.known.clone(),
        ));
    }
    let mut tensors = arrived.iter().cloned();
    match structure {
        None => {
            for &value in &start.live {
                tracing.set(value, tensors.next().map(OnnxValue::Tensor))?;
            }
        }
        Some(items) => {
            for (&value, item) in start.live.iter().zip(items.iter()) {
                tracing.set(value, filled(item, &mut tensors))?;
            }
        }
    }
    for (value, data) in &start.known {
        tracing.set(*value, Some(OnnxValue::Tensor(crate::Backend::constant(&tracer, data)?)))?;
    }
    let mut cut = None;
    let mut stop = None;
    let mut at = start.node;
    while let Some(&code) = tracing.resolved.code.get(at) {
        if matches!(code, Code::Unused) {
            at += 1;
            continue;
        }
        let (before, traced) = (tracer.steps(), inner.borrow().origins.len());
        tracer.set_origin(Some(inner.borrow_mut().origins.push(Origin::Node(at))));
        match tracing.node(at, code) {
            Ok(Ran::Results) => {
                tracer.take_wanted();
                at += 1;
                continue;
            }
            Ok(Ran::Branch(name)) if settings.explores => stop = Some(Stop::Branch(name)),
            Ok(Ran::Host(_) | Ran::Repeat(_)) if settings.explores => stop = Some(Stop::Cut),
            Err(error) if settings.explores => {
                let wants = tracer.take_wanted().is_some();
                stop = Some(if wants { Stop::Cut } else { Stop::Failed(error) });
            }
            Ok(Ran::Branch(name)) => {
                // The branch's first node stands where the `If` stood.
                let graph = &tracing.resolved.graph;
                let branch = graph.nodes.get(at).and_then(|n| n.attributes.graph(name).ok().flatten());
                let Some(branch) = branch else { return Err(missing_branch(graph, at, name)) };
                let spliced = splice(graph, at, branch);
                inner.borrow_mut().origins.forget(traced);
                tracing.replace(Resolved::new(Arc::new(spliced))?);
                continue;
            }
            Ok(Ran::Host(function)) => cut = Some(Cut::Host(function)),
            Ok(Ran::Repeat(repeat)) => cut = Some(Cut::Repeat(repeat)),
            Err(error) => {
                let graph = &tracing.resolved.graph;
                let Some(wanted) = tracer.take_wanted() else { return Err(in_node(graph, at, error)) };
                if let Some(position) = arrived.iter().position(|x| x.value() == wanted) {
                    let resolved = tracing.resolved.clone();
                    return Ok(Outcome::Needs(Wanted { position, resolved, node: at }));
                }
                let node = graph.nodes.get(at);
                if !node.is_some_and(|n| n.reads().any(|v| tracing.holds(v, wanted))) {
                    return Err(in_node(graph, at, error));
                }
                cut = Some(Cut::Read(Some(wanted)));
            }
        }
        tracer.forget(before);
        inner.borrow_mut().origins.forget(traced);
        break;
    }
    let consulted = tracer.consulted();
    let mut outputs = Outputs::default();
    let mut returned = Vec::new();
    if stop.is_some() {
        cut = Some(Cut::Read(None));
    }
    let end = match cut {
        None if settings.explores => {
            for (value, item) in tracing.values() {
                if tracing.resolved.is_read_from(value, usize::MAX)? {
                    returned.push(value);
                    outputs.push(item);
                }
            }
            End::Done
        }
        None => {
            for output in tracing.resolved.graph.outputs.clone() {
                outputs.push(&tracing.value(output)?);
            }
            End::Done
        }
        Some(cut) => end(&tracing, at, &cut, &mut outputs)?,
    };
    let resolved = tracing.resolved;
    let structure = outputs.structured.then(|| outputs.items.into());
    let inner = inner.into_inner();
    Ok(Outcome::Done(Box::new(SegmentTrace {
        recorded: tracer.finish(outputs.tensors),
        structure,
        consulted,
        resolved,
        inner_weights: inner.weights,
        origins: inner.origins,
        end,
        stop,
        returned,
    })))
}

/// Gives a structure its tensors.
pub(crate) fn filled<T>(
    structure: &OnnxValue<()>,
    tensors: &mut impl Iterator<Item = T>,
) -> Option<OnnxValue<T>> {
    structure.try_map(&mut |()| tensors.next().ok_or(())).ok()
}

/// Says that a value has no source.
pub(super) fn missing(graph: &Graph, value: ValueId) -> Error {
    Error::MissingInput {
        name: graph.name_of(value).to_owned(),
        expected: graph.inputs.iter().map(|v| graph.name_of(*v).to_owned()).collect(),
    }
}

fn missing_branch(graph: &Graph, at: usize, name: &str) -> Error {
    let problem = "is missing".to_owned();
    let error = Error::Operator { op: "If".to_owned(), what: format!("attribute `{name}`"), problem };
    in_node(graph, at, error)
}
