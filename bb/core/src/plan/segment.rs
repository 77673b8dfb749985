//! Traces a checked graph in segments.
//!
//! A segment is a sequence of consecutive nodes that can be traced without values that only a run computes. Most graphs are one
//! segment. A segment ends before a node that
//! - needs a value of this kind (for example, a `Reshape` whose shape is computed from data): the next segment begins with that
//!   value read back from the backend;
//! - works on host tensors, accesses the items of a sequence that is passed on unchanged, or repeats a body that cannot be
//!   unrolled: the node runs between two segments.

use super::conditions::Cause;
use super::failure::in_node;
use super::origin::Origins;
use super::resolve::{Repeat, Resolved};
use super::segment_end::{Boundary, End, Outputs, end, start_at};
use super::trace_nodes::{BodiesInPlace, NodeTrace, Step, Tracing};
use crate::Error;
use crate::contract::OnnxValue;
use crate::ext::OpSet;
use crate::operator::Form;
use crate::trace::{
    InputIndex, TableIndex, Trace, TraceStop, TracedTensor, Tracer, ValueSource, Varies, WeightId,
};
use bb_ir::graph::{Graph, ValueId};
use bb_ir::op::{Family, Param};
use bb_ir::{DataType, DataTypes, Shape, TensorData};
use std::cell::RefCell;
use std::sync::Arc;

/// The structure of values; `None` if all values are tensors.
pub type Structure = Option<Arc<[Form]>>;

/// The start of a segment: its first node, and the values that come from earlier segments.
#[derive(Debug, Default, Clone)]
pub struct Start {
    /// The first node.
    pub node: usize,
    /// The values on the backend, in the order of the plan's inputs.
    pub live: Vec<ValueId>,
    /// The values that were constant in earlier segments.
    pub known: Vec<(ValueId, TensorData)>,
    /// The number of nodes in all loops unrolled before this segment, over all iterations.
    pub unrolled: usize,
    /// An estimate of the bytes of the plans before this segment.
    pub planned: usize,
}

/// The known properties of a live tensor when a segment is traced.
#[derive(Debug, Clone)]
pub struct SegmentInput {
    pub dtype: DataType,
    pub shape: Shape,
    /// The extents that may differ between runs.
    pub varies: Varies,
    /// The elements, if the segment is specialized on them.
    pub known: Option<TensorData>,
}

/// A traced segment.
#[derive(Debug)]
pub struct SegmentTrace {
    pub recorded: Trace,
    /// The structure of the outputs of the trace.
    pub structure: Structure,
    /// The input sequences that are passed on as outputs, by their indices among the input sequences.
    pub(crate) passed: Vec<usize>,
    /// The input tensors whose extents the trace depends on, as a bit mask. All tensors from index 63 on share the last bit.
    pub(crate) consulted: u64,
    /// The traced graph, with each resolved `If` replaced by its branch.
    pub(crate) resolved: Arc<Resolved>,
    /// The weights of unrolled loop bodies.
    pub(crate) inner_weights: Vec<TensorData>,
    /// The nodes that the steps come from.
    pub origins: Origins,
    /// The nodes that caused a dependency of the trace on extents.
    pub(crate) causes: Vec<Cause>,
    /// Whether the trace was loaded from a file. Then its types must be compared with the actual values.
    pub(crate) is_loaded: bool,
}

impl SegmentTrace {
    /// Estimates the bytes of the trace's plan: steps with their parameters, inputs and outputs, and the traced graph if it is
    /// not the graph of the segment.
    pub(crate) fn overhead(&self, of: &Arc<Resolved>, inputs: usize) -> usize {
        /// The bytes of one instruction with the name of its node in a profile, of one node with its values and attributes, or
        /// of one input with its guard.
        const ONE: usize = 512;
        let steps = self.recorded.steps.entries();
        let given = |param: &Param<'_>| if let Param::Data(data) = param { data.byte_len() } else { 0 };
        let params = steps.flat_map(|step| step.params.iter().map(given)).sum::<usize>();
        let nodes = if Arc::ptr_eq(&self.resolved, of) { 0 } else { self.resolved.graph.nodes.len() };
        ONE * (1 + self.recorded.steps.len() + nodes + inputs + self.recorded.outputs.len()) + params
    }

    /// Returns the weights that the trace may read, by their ids.
    pub fn weights(&self) -> Weights<'_> {
        Weights { graph: &self.resolved.graph.constants, inner: &self.inner_weights }
    }

    /// Returns the elements of a value, if the value is a constant.
    pub(crate) fn known(&self, source: ValueSource) -> Option<&TensorData> {
        match source {
            ValueSource::Weight(id) => self.weights().get(id).ok(),
            ValueSource::Constant(index) => self.recorded.constants.get(index).ok(),
            ValueSource::Input(_) | ValueSource::Step => None,
        }
    }

    /// Returns the trace, for passes to rewrite it, and the weights that it may read.
    pub(crate) fn rewritable(&mut self) -> (&mut Trace, Weights<'_>) {
        let weights = Weights { graph: &self.resolved.graph.constants, inner: &self.inner_weights };
        (&mut self.recorded, weights)
    }
}

/// The weights that a trace may read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Weights<'a> {
    graph: &'a [(ValueId, TensorData)],
    inner: &'a [TensorData],
}

impl<'a> Weights<'a> {
    /// No weights.
    pub(crate) const NONE: Weights<'static> = Weights { graph: &[], inner: &[] };

    /// Returns a weight.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if it does not exist.
    pub fn get(self, id: WeightId) -> Result<&'a TensorData, Error> {
        let found = match id {
            WeightId::Graph(position) => self.graph.get(position).map(|(_, data)| data),
            WeightId::Body(position) => self.inner.get(position),
        };
        found.ok_or_else(|| Error::excluded("the weights of a trace to be there"))
    }
}

/// The outcome of tracing a segment.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// A trace, and the end of the segment.
    Traced(Box<SegmentTrace>, End<Start>),
    /// No trace: the elements of a tensor are needed first.
    Needs(Wanted),
}

/// A live tensor whose elements a node needs, by its index.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) position: usize,
    /// The graph of the node, with each resolved `If` replaced by its branch.
    pub(crate) resolved: Arc<Resolved>,
    pub(crate) node: usize,
}

/// The outcome of a trace that inspects nodes before any inputs are known.
#[derive(Debug)]
pub enum Explored {
    /// The trace reached the end of the graph. The list has the values of its outputs.
    Returned(Vec<ValueId>),
    /// The trace stopped before a node. The next trace may start there.
    Stopped(Start, Stop),
}

/// The reason why `explore` stopped before a node.
#[derive(Debug)]
pub enum Stop {
    /// The node needs a value that only a run computes, or runs between segments.
    Boundary,
    /// The condition of the `If` selects this branch, and a node of the branch runs between segments.
    Branch(&'static str),
    /// The node cannot be traced.
    Failed(Error),
}

/// Settings of a trace that do not change between segments.
#[derive(Debug, Clone)]
pub struct Settings {
    pub natives: Vec<(Family, OpSet)>,
    pub value_bytes: usize,
    pub fold_bytes: usize,
    /// Whether parameters of the trace may be symbolic expressions of the inputs' extents.
    pub symbolic: bool,
    /// Whether the trace depends on all conditions of an extent as soon as the extent is computed, instead of when it is used.
    pub strict: bool,
    /// The element types of the backend.
    pub types: DataTypes,
}

/// Traces from `start` up to a node that ends the segment.
///
/// # Errors
///
/// [`Error::Node`] if a node cannot be traced for any values.
pub(crate) fn trace(
    resolved: &Arc<Resolved>,
    start: &Start,
    inputs_known: &[SegmentInput],
    structure: &Structure,
    settings: &Settings,
) -> Result<Outcome, Error> {
    let tracer = Tracer::new(settings.natives.clone(), settings.value_bytes)
        .folding(settings.fold_bytes)
        .symbolic(settings.symbolic)
        .strict(settings.strict)
        .with_types(settings.types);
    let bodies = RefCell::new(BodiesInPlace::after(start.unrolled));
    let mut tracing = Tracing::new(&tracer, resolved.clone(), &bodies);
    let arrived = arrive(&mut tracing, start, inputs_known, structure)?;
    let ended = tracing.follow(start.node, |tracing, at, traced| {
        let resolved = tracing.resolved.clone();
        Ok(match traced {
            Ok(NodeTrace::Results) => Step::Next,
            Ok(NodeTrace::Branch(name)) => {
                // The branch's first node now has the index of the `If`, so tracing continues with the same index.
                match resolved.with_branch(at, name)? {
                    Some(whole) => {
                        tracing.replace(whole);
                        Step::Again
                    }
                    None => Step::End(Ok(Boundary::Repeat(Repeat::Branch(name)))),
                }
            }
            Ok(NodeTrace::Host(function)) => Step::End(Ok(Boundary::Host(function))),
            Ok(NodeTrace::Repeat(repeat)) => Step::End(Ok(Boundary::Repeat(repeat))),
            Ok(NodeTrace::Sequence(code)) => Step::End(Ok(Boundary::Sequence(code))),
            Err(TraceStop::Needs(needed)) => {
                let value = needed.value();
                if let Some(position) = arrived.iter().position(|x| x.value() == value) {
                    Step::End(Err(Wanted { position, resolved, node: at }))
                } else if resolved.node(at)?.reads().any(|read| tracing.holds(read, value)) {
                    Step::End(Ok(Boundary::Read(value)))
                } else {
                    return Err(in_node(&resolved.graph, at, Error::from(TraceStop::Needs(needed))));
                }
            }
            Err(TraceStop::Error(error)) => return Err(in_node(&resolved.graph, at, error)),
        })
    })?;
    let mut outputs = Outputs::default();
    let end = match ended {
        None => {
            for output in tracing.resolved.graph.outputs.clone() {
                outputs.push(&tracing.slot(output)?);
            }
            End::Done
        }
        Some((_, Err(wanted))) => return Ok(Outcome::Needs(wanted)),
        Some((at, Ok(boundary))) => end(&tracing, at, boundary, &mut outputs)?,
    };
    let Tracing { resolved, causes, .. } = tracing;
    let traced = finished(resolved, tracer, bodies.into_inner(), causes, outputs);
    Ok(Outcome::Traced(Box::new(traced), end))
}

/// Traces from `start` to inspect nodes before any inputs are known. No branch is spliced, and a node that cannot be traced for
/// any reason ends the segment.
///
/// # Errors
///
/// [`Error::MissingInput`] if `start` lacks a value that the graph reads.
pub fn explore(
    resolved: &Arc<Resolved>,
    start: &Start,
    inputs_known: &[SegmentInput],
    structure: &Structure,
    settings: &Settings,
) -> Result<(SegmentTrace, Explored), Error> {
    let tracer = Tracer::new(settings.natives.clone(), settings.value_bytes)
        .folding(settings.fold_bytes)
        .symbolic(settings.symbolic)
        .strict(settings.strict)
        .with_types(settings.types);
    let bodies = RefCell::new(BodiesInPlace::after(start.unrolled));
    let mut tracing = Tracing::new(&tracer, resolved.clone(), &bodies);
    tracing.splices = false;
    arrive(&mut tracing, start, inputs_known, structure)?;
    let ended = tracing.follow(start.node, |_, _, traced| {
        Ok(match traced {
            Ok(NodeTrace::Results) => Step::Next,
            Ok(NodeTrace::Branch(name)) => Step::End(Stop::Branch(name)),
            Ok(NodeTrace::Host(_) | NodeTrace::Repeat(_) | NodeTrace::Sequence(_))
            | Err(TraceStop::Needs(_)) => Step::End(Stop::Boundary),
            Err(TraceStop::Error(error)) => Step::End(Stop::Failed(error)),
        })
    })?;
    let mut outputs = Outputs::default();
    let explored = match ended {
        Some((at, stop)) => Explored::Stopped(start_at(&tracing, at, &mut outputs)?, stop),
        None => {
            let mut returned = Vec::new();
            for (value, item) in tracing.values() {
                if tracing.resolved.is_read_from(value, usize::MAX)? {
                    returned.push(value);
                    outputs.push(item);
                }
            }
            Explored::Returned(returned)
        }
    };
    let Tracing { resolved, causes, .. } = tracing;
    Ok((finished(resolved, tracer, bodies.into_inner(), causes, outputs), explored))
}

/// Adds the values that come from earlier segments, and returns the input tensors.
fn arrive(
    tracing: &mut Tracing<'_>,
    start: &Start,
    inputs_known: &[SegmentInput],
    structure: &Structure,
) -> Result<Vec<TracedTensor>, Error> {
    let mut arrived = Vec::with_capacity(inputs_known.len());
    for (index, from) in inputs_known.iter().enumerate() {
        let graph = &tracing.resolved.graph;
        let name = start.live.get(index).map_or("input", |value| graph.name_of(*value));
        let (at, known) = (InputIndex::at(index), from.known.clone());
        arrived.push(tracing.tracer.input(at, name, from.dtype, &from.shape, &from.varies, known));
    }
    let (mut tensors, mut held) = (arrived.iter().cloned(), 0..);
    for (position, &value) in start.live.iter().enumerate() {
        let of = match structure {
            None => &Form::Parts(OnnxValue::Tensor(())),
            Some(items) => items.get(position).ok_or_else(too_few_tensors)?,
        };
        match of {
            Form::Parts(of) => tracing.set(value, filled(of, &mut tensors)?),
            Form::Held => tracing.hold(value, held.next().unwrap_or_default()),
        }
    }
    for (value, data) in &start.known {
        tracing.set(*value, OnnxValue::Tensor(tracing.tracer.known(data)));
    }
    Ok(arrived)
}

/// Builds the traced segment from its parts.
fn finished(
    resolved: Arc<Resolved>,
    tracer: Tracer,
    bodies: BodiesInPlace,
    causes: Vec<Cause>,
    outputs: Outputs,
) -> SegmentTrace {
    SegmentTrace {
        consulted: tracer.consulted(),
        recorded: tracer.finish(outputs.tensors),
        structure: outputs.structured.then(|| outputs.items.into()),
        passed: outputs.passed,
        resolved,
        inner_weights: bodies.weights,
        origins: bodies.origins,
        causes,
        is_loaded: false,
    }
}

/// Replaces the placeholders in a structure by tensors, in order.
///
/// # Errors
///
/// [`Error::Internal`] if there are too few tensors.
pub(crate) fn filled<T>(
    structure: &OnnxValue<()>,
    tensors: &mut impl Iterator<Item = T>,
) -> Result<OnnxValue<T>, Error> {
    structure.try_map(&mut |()| tensors.next().ok_or_else(too_few_tensors))
}

pub(super) fn too_few_tensors() -> Error {
    Error::excluded("a tensor for each value between segments")
}

/// Returns the error for a value that is neither an input, a constant nor a result.
pub(super) fn missing(graph: &Graph, value: ValueId) -> Error {
    Error::MissingInput {
        name: graph.name_of(value).to_owned(),
        expected: graph.inputs.iter().map(|v| graph.name_of(*v).to_owned()).collect(),
    }
}
