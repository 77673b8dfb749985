//! Where a segment of a plan ends, and what happens before the next.

use super::resolve::{Repeat, Resolved};
use super::segment::{Start, missing};
use super::unroll::Tracing;
use crate::Error;
use crate::onnx::{HostFunction, OnnxValue};
use crate::trace::{TraceValue, TracedTensor};
use bb_ir::TensorData;
use bb_ir::graph::ValueId;
use std::sync::Arc;

/// What follows a segment.
#[derive(Debug)]
pub(crate) enum End {
    /// Nothing; the outputs are the graph's.
    Done,
    /// A segment that needs to know the outputs at these positions.
    Read {
        /// Where it starts; its live values are the outputs.
        start: Start,
        /// The position of the output to read.
        wanted: Option<usize>,
    },
    /// A node that runs between segments.
    Between(Box<Between>),
}

/// A node that runs between segments, on the outputs of the one before.
#[derive(Debug)]
pub(crate) struct Between {
    pub(crate) node: usize,
    pub(crate) operands: Vec<Place>,
    /// The positions of the outputs that the next segment takes.
    pub(crate) kept: Vec<usize>,
    /// The positions of the node's results that the next segment takes after those.
    pub(crate) results: Vec<usize>,
    /// Where the next segment starts.
    pub(crate) after: Start,
    pub(crate) what: What,
}

/// What runs between segments.
#[derive(Debug)]
pub(crate) enum What {
    /// A function on host tensors.
    Host(HostFunction),
    /// A body, any number of times.
    Repeat {
        repeat: Repeat,
        body: Arc<Resolved>,
        /// Where the body starts: its inputs, and what it captures that is not known.
        start: Start,
        /// The positions of the outputs that it captures.
        captures: Vec<usize>,
    },
}

/// Where a node that runs between segments finds an operand.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// The output at this position.
    Live(usize),
    /// Here.
    Known(TensorData),
    /// Nowhere: it is left out.
    Absent,
}

/// Why a segment ends before a node.
pub(super) enum Cut {
    /// Some operand must be known: this value, unless the trace only explores.
    Read(Option<TraceValue>),
    /// The node runs between segments.
    Host(HostFunction),
    Repeat(Repeat),
}

/// The outputs of a segment, tensor by tensor.
#[derive(Default)]
pub(super) struct Outputs {
    pub(super) tensors: Vec<TraceValue>,
    pub(super) items: Vec<OnnxValue<()>>,
    /// Whether one of them is no tensor.
    pub(super) structured: bool,
}

impl Outputs {
    pub(super) fn push(&mut self, item: &OnnxValue<TracedTensor>) {
        self.structured |= !matches!(item, OnnxValue::Tensor(_));
        self.items.push(item.map(&mut |x: &TracedTensor| self.tensors.push(x.value())));
    }
}

/// Ends a segment before the node at `at`.
pub(super) fn end(tracing: &Tracing<'_>, at: usize, cut: &Cut, outputs: &mut Outputs) -> Result<End, Error> {
    let resolved = &tracing.resolved;
    let mut start = Start { node: at, ..Start::default() };
    for (value, item) in tracing.values() {
        if !resolved.is_read_from(value, at)? || resolved.weight(value)?.is_some() {
            continue;
        }
        match item.tensor().and_then(TracedTensor::known) {
            Some(data) => start.known.push((value, data.clone())),
            None => {
                start.live.push(value);
                outputs.push(item);
            }
        }
    }
    if let Cut::Read(value) = *cut {
        let position = |value| outputs.tensors.iter().position(|x| *x == value);
        return Ok(End::Read { wanted: value.and_then(position), start });
    }
    let graph = &resolved.graph;
    let Some(node) = graph.nodes.get(at) else { return Ok(End::Done) };
    let place = |value: ValueId| -> Result<Place, Error> {
        if let Some(position) = start.live.iter().position(|v| *v == value) {
            return Ok(Place::Live(position));
        }
        if let Some((_, data)) = start.known.iter().find(|(v, _)| *v == value) {
            return Ok(Place::Known(data.clone()));
        }
        let weight = resolved.constant(value)?;
        weight.map(|(_, data)| Place::Known(data.clone())).ok_or_else(|| missing(graph, value))
    };
    let operands =
        node.inputs.iter().map(|v| v.map_or(Ok(Place::Absent), place)).collect::<Result<_, Error>>()?;
    let mut after = Start { node: at + 1, live: Vec::new(), known: Vec::new() };
    let mut kept = Vec::new();
    for (position, &value) in start.live.iter().enumerate() {
        if resolved.is_read_from(value, at + 1)? {
            kept.push(position);
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
    let what = match *cut {
        Cut::Read(_) => return Ok(End::Done),
        Cut::Host(function) => What::Host(function),
        Cut::Repeat(repeat) => {
            let inner = resolved.inner(at, "body")?;
            let inputs = &inner.resolved.graph.inputs;
            let own = inputs.len().saturating_sub(inner.captures.len());
            let mut begin = Start::default();
            begin.live.extend(inputs.iter().take(own));
            let mut captures = Vec::new();
            for (&outer, &value) in inner.captures.iter().zip(inputs.iter().skip(own)) {
                match place(outer)? {
                    Place::Live(position) => {
                        captures.push(position);
                        begin.live.push(value);
                    }
                    Place::Known(data) => begin.known.push((value, data)),
                    Place::Absent => {}
                }
            }
            What::Repeat { repeat, body: inner.resolved.clone(), start: begin, captures }
        }
    };
    Ok(End::Between(Box::new(Between { node: at, operands, kept, results, after, what })))
}
