//! The states of a run: how a segment ends, and how the run continues.
//!
//! ```text
//!            +--------------------- Read: the next segment knows a value ---------------------+
//!            v                                                                                |
//! start -> segment -+- Done -> the graph's outputs, or the results of an iteration -> Repeat  |
//!            ^      +- Read ------------------------------------------------------------------+
//!            |      +- Host:   a kernel on host tensors ---------> the segment after it
//!            |      +- Sequence: a look into a sequence ----------> the segment after it
//!            |      +- Repeat: the body's segments, per iteration -> the segment after it
//!            +------------------------------------------------------------+
//! ```
//!
//! [`End`] is the only list of these states. Tracing produces an `End<Start>`, with the starts of segments; a program stores an
//! `End<Segment>`, with segments that keep their plans; a run (`run_segments.rs`) goes from state to state.

use super::resolve::{Inner, Repeat, Resolved};
use super::segment::{Start, missing};
use super::trace_nodes::{Slot, Tracing};
use crate::Error;
use crate::operator::Form;
use crate::operator::{HostFunction, OnnxValue, SequenceStep};
use crate::trace::{TableIndex, TraceValue, TracedTensor, indices};
use bb_ir::TensorData;
use bb_ir::graph::ValueId;
use std::collections::HashMap;
use std::sync::Arc;

indices! {
    /// An output value of a segment.
    pub(crate) LiveIndex = "value between segments";
}

/// The end of a segment. `S` represents the segments that follow.
#[derive(Debug)]
pub(crate) enum End<S> {
    /// The graph ends. The outputs are the outputs of the graph, or the results of an iteration if the graph is a body.
    Done,
    /// The next segment follows immediately, and takes all outputs.
    Read {
        next: S,
        /// The index of the output tensor whose elements the next segment needs.
        wanted: usize,
    },
    /// A function on host tensors, then the next segment.
    Host(Box<HostNode<S>>),
    /// An operation on a sequence, then the next segment.
    Sequence(Box<SequenceNode<S>>),
    /// A body that runs any number of times, then the next segment.
    Repeat(Arc<RepeatNode<S>>),
}

/// A node that runs between two segments.
#[derive(Debug, Clone)]
pub(crate) struct Between<S> {
    pub(crate) node: usize,
    pub(crate) operands: Vec<Place>,
    /// The values that the segment after the node takes from the segment before it.
    pub(crate) kept: Vec<LiveIndex>,
    /// The indices of the node's results that the segment after it takes, after the `kept` values.
    pub(crate) results: Vec<usize>,
    /// The segment after the node.
    pub(crate) after: S,
}

/// A function on host tensors that runs between two segments.
#[derive(Debug)]
pub(crate) struct HostNode<S> {
    pub(crate) at: Between<S>,
    pub(crate) function: HostFunction,
}

/// A node that accesses the items of a sequence between two segments.
#[derive(Debug)]
pub(crate) struct SequenceNode<S> {
    pub(crate) at: Between<S>,
    pub(crate) code: SequenceStep,
}

/// A node whose bodies run any number of times between two segments.
#[derive(Debug, Clone)]
pub(crate) struct RepeatNode<S> {
    pub(crate) at: Between<S>,
    pub(crate) repeat: Repeat,
    /// The graph that contains the node.
    pub(crate) resolved: Arc<Resolved>,
    /// The bodies; the first is always present.
    pub(crate) bodies: Vec<RepeatBody<S>>,
}

/// A body of a `RepeatNode`.
#[derive(Debug, Clone)]
pub(crate) struct RepeatBody<S> {
    /// The name of the attribute with the body.
    pub(crate) name: &'static str,
    pub(crate) resolved: Arc<Resolved>,
    /// The first segment of the body. Its inputs are the body's inputs, then the captured values.
    pub(crate) first: S,
    /// The values that the body captures.
    pub(crate) captures: Vec<LiveIndex>,
}

/// The location of an operand of a node between segments.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// An output of the segment before the node.
    Live(LiveIndex),
    /// A constant.
    Known(TensorData),
    /// The operand is omitted.
    Absent,
}

impl<S> End<S> {
    /// Returns the node that ended the segment; `None` if the graph ended.
    pub(crate) fn node(&self, start_of: impl Fn(&S) -> usize) -> Option<usize> {
        match self {
            End::Done => None,
            End::Read { next, .. } => Some(start_of(next)),
            End::Host(host) => Some(host.at.node),
            End::Sequence(sequence) => Some(sequence.at.node),
            End::Repeat(repeat) => Some(repeat.at.node),
        }
    }
}

impl End<Start> {
    /// Converts the starts to segments. `segment` also receives the graph, and the index of the output tensor whose elements
    /// the new segment needs.
    pub(super) fn segments<S>(
        self,
        resolved: &Arc<Resolved>,
        segment: impl Fn(&Arc<Resolved>, Start, Option<usize>) -> S,
    ) -> End<S> {
        let between = |at: Between<Start>| Between {
            node: at.node,
            operands: at.operands,
            kept: at.kept,
            results: at.results,
            after: segment(resolved, at.after, None),
        };
        match self {
            End::Done => End::Done,
            End::Read { next, wanted } => End::Read { next: segment(resolved, next, Some(wanted)), wanted },
            End::Host(host) => {
                let HostNode { at, function } = *host;
                End::Host(Box::new(HostNode { at: between(at), function }))
            }
            End::Sequence(sequence) => {
                let SequenceNode { at, code } = *sequence;
                End::Sequence(Box::new(SequenceNode { at: between(at), code }))
            }
            End::Repeat(repeat) => {
                let RepeatNode { at, repeat, resolved, bodies } = Arc::unwrap_or_clone(repeat);
                let body = |RepeatBody { name, resolved, first, captures }: RepeatBody<Start>| RepeatBody {
                    name,
                    first: segment(&resolved, first, None),
                    resolved,
                    captures,
                };
                let (at, bodies) = (between(at), bodies.into_iter().map(body).collect());
                End::Repeat(Arc::new(RepeatNode { at, repeat, resolved, bodies }))
            }
        }
    }
}

/// The reason why a segment ends before a node.
pub(super) enum Boundary {
    /// The node needs the elements of a value that the segment computes.
    Read(TraceValue),
    /// The node is a function on host tensors.
    Host(HostFunction),
    /// The node accesses the items of a sequence that is passed on unchanged.
    Sequence(SequenceStep),
    /// The node repeats a body that cannot be unrolled.
    Repeat(Repeat),
}

/// The outputs of a segment, split into tensors.
#[derive(Default)]
pub(super) struct Outputs {
    pub(super) tensors: Vec<TraceValue>,
    pub(super) items: Vec<Form>,
    /// For each input sequence that is passed on as an output, its index among the input sequences.
    pub(super) passed: Vec<usize>,
    /// Whether an output is not a tensor.
    pub(super) structured: bool,
}

impl Outputs {
    pub(super) fn push(&mut self, slot: &Slot) {
        self.structured |= !matches!(slot, Slot::Parts(OnnxValue::Tensor(_)));
        self.items.push(match slot {
            Slot::Parts(item) => Form::Parts(item.map(&mut |x: &TracedTensor| self.tensors.push(x.read()))),
            Slot::Held(position) => {
                self.passed.push(*position);
                Form::Held
            }
        });
    }
}

/// Adds the values that later nodes read to the outputs, and returns the start of a segment that begins with `node`.
pub(super) fn start_at(tracing: &Tracing<'_>, node: usize, outputs: &mut Outputs) -> Result<Start, Error> {
    let resolved = &tracing.resolved;
    let mut start = Start { node, unrolled: tracing.unrolled(), ..Start::default() };
    for (value, item) in tracing.values() {
        if !resolved.is_read_from(value, node)? || resolved.weight(value)?.is_some() {
            continue;
        }
        let tensor = if let Slot::Parts(item) = item { item.tensor() } else { None };
        match tensor.and_then(TracedTensor::known) {
            Some(data) => start.known.push((value, data.clone())),
            None => {
                start.live.push(value);
                outputs.push(item);
            }
        }
    }
    Ok(start)
}

/// Ends a segment before the node at index `at`.
pub(super) fn end(
    tracing: &Tracing<'_>,
    at: usize,
    boundary: Boundary,
    outputs: &mut Outputs,
) -> Result<End<Start>, Error> {
    let start = start_at(tracing, at, outputs)?;
    let resolved = &tracing.resolved;
    if let Boundary::Read(value) = boundary {
        let position = outputs.tensors.iter().position(|x| *x == value);
        let wanted = position.ok_or_else(|| Error::excluded("a value to read that the node takes"))?;
        return Ok(End::Read { next: start, wanted });
    }
    let before = SegmentValues::new(&start);
    Ok(match boundary {
        Boundary::Read(_) => return Err(Error::excluded("a value that is read at once")),
        Boundary::Host(function) => {
            End::Host(Box::new(HostNode { at: between(resolved, at, &before)?, function }))
        }
        Boundary::Sequence(code) => {
            End::Sequence(Box::new(SequenceNode { at: between(resolved, at, &before)?, code }))
        }
        Boundary::Repeat(repeat) => {
            let mut bodies = Vec::new();
            for &name in repeat.bodies() {
                match resolved.inner(at, name) {
                    Ok(inner) => bodies.push(body(resolved, &before, name, inner)?),
                    Err(error) if bodies.is_empty() => return Err(error),
                    Err(_) => {}
                }
            }
            let (at, resolved) = (between(resolved, at, &before)?, resolved.clone());
            End::Repeat(Arc::new(RepeatNode { at, repeat, resolved, bodies }))
        }
    })
}

/// The values that a node between segments takes from the segment before it.
struct SegmentValues<'s> {
    start: &'s Start,
    /// Maps each value on the backend to its index among the outputs of the segment.
    live: HashMap<ValueId, LiveIndex>,
    /// Maps each constant value to its elements.
    known: HashMap<ValueId, &'s TensorData>,
}

impl<'s> SegmentValues<'s> {
    fn new(start: &'s Start) -> SegmentValues<'s> {
        let live = start.live.iter().enumerate().map(|(position, value)| (*value, LiveIndex::at(position)));
        let known = start.known.iter().map(|(value, data)| (*value, data));
        SegmentValues { start, live: live.collect(), known: known.collect() }
    }
}

/// Finds the start of a body and its captured values.
fn body(
    resolved: &Resolved,
    before: &SegmentValues<'_>,
    name: &'static str,
    inner: &Inner,
) -> Result<RepeatBody<Start>, Error> {
    let inputs = &inner.resolved.graph.inputs;
    let own = inputs.len().saturating_sub(inner.captures.len());
    let mut first = Start { unrolled: before.start.unrolled, ..Start::default() };
    first.live.extend(inputs.iter().take(own));
    let mut captures = Vec::new();
    for (&outer, &value) in inner.captures.iter().zip(inputs.iter().skip(own)) {
        match place(resolved, before, outer)? {
            Place::Live(position) => {
                captures.push(position);
                first.live.push(value);
            }
            Place::Known(data) => first.known.push((value, data)),
            Place::Absent => {}
        }
    }
    Ok(RepeatBody { name, resolved: inner.resolved.clone(), first, captures })
}

/// Finds the operands of a node between segments, and the values that the segment after the node takes.
fn between(resolved: &Resolved, at: usize, before: &SegmentValues<'_>) -> Result<Between<Start>, Error> {
    let node = resolved.node(at)?;
    let mut operands = Vec::with_capacity(node.inputs.len());
    for input in &node.inputs {
        operands.push(input.map_or(Ok(Place::Absent), |value| place(resolved, before, value))?);
    }
    let SegmentValues { start, .. } = before;
    let mut after = Start { node: at + 1, unrolled: start.unrolled, ..Start::default() };
    let mut kept = Vec::new();
    for (position, &value) in start.live.iter().enumerate() {
        if resolved.is_read_from(value, at + 1)? {
            kept.push(LiveIndex::at(position));
            after.live.push(value);
        }
    }
    for (value, data) in &start.known {
        if resolved.is_read_from(*value, at + 1)? {
            after.known.push((*value, data.clone()));
        }
    }
    let mut results = Vec::new();
    for (position, output) in node.outputs.iter().enumerate() {
        if let Some(value) = *output
            && resolved.is_read_from(value, at + 1)?
        {
            results.push(position);
            after.live.push(value);
        }
    }
    Ok(Between { node: at, operands, kept, results, after })
}

/// Finds the location of a value after a segment.
fn place(resolved: &Resolved, before: &SegmentValues<'_>, value: ValueId) -> Result<Place, Error> {
    if let Some(position) = before.live.get(&value) {
        return Ok(Place::Live(*position));
    }
    if let Some(data) = before.known.get(&value) {
        return Ok(Place::Known((*data).clone()));
    }
    let weight = resolved.constant(value)?;
    weight.map(|(_, data)| Place::Known(data.clone())).ok_or_else(|| missing(&resolved.graph, value))
}
