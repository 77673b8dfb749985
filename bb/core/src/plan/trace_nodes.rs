//! Traces nodes one by one, and loop bodies and branches inline.
//!
//! A body with a known, small number of iterations is unrolled; an `If` inside it with a known condition is replaced by its branch.
//! A node that cannot be traced inline runs between segments.

use super::conditions::Cause;
use super::failure::{in_node, of_operator};
use super::mapped::Recorded;
use super::origin::{Origin, Origins};
use super::repetition::Repetition;
use super::resolve::{Code, Inner, Repeat, Resolved};
use super::segment::missing;
use crate::error::NodePart;
use crate::operator::{Call, HostFunction, OnnxValue, OpOutputs, Round, SequenceStep, TensorFunction};
use crate::operator::{Item, MANY};
use crate::trace::{OriginId, TraceStop, TraceValue, TracedTensor, Tracer, WeightId};
use crate::{Error, RunOptions};
use bb_ir::TensorData;
use bb_ir::graph::{Dim, Node, ValueId, ValueType};
use bb_ir::op::Primitive;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The maximum number of nodes of one unrolled loop.
const UNROLLED: usize = 4096;

/// The maximum number of steps of one unrolled loop.
const STEPS: usize = 1 << 15;

/// The maximum number of nodes of all unrolled loops of a plan together, because each loop may become [`UNROLLED`] nodes.
/// Further loops run between segments.
const UNROLLED_IN_ALL: usize = 1 << 17;

/// A graph being traced.
pub(super) struct Tracing<'t> {
    pub(super) tracer: &'t Tracer,
    pub(super) resolved: Arc<Resolved>,
    /// The values so far. Only the values that the segment reads or computes are included, because a graph may have many
    /// segments.
    env: BTreeMap<ValueId, Slot>,
    /// The weights and nodes of all subgraphs that are traced inline.
    inner: &'t RefCell<BodiesInPlace>,
    /// The node whose subgraph is traced inline, if this is a subgraph.
    holder: Option<OriginId>,
    /// Whether the branch of an `If` is spliced into the graph. Otherwise the branch is traced inline.
    pub(super) splices: bool,
    /// The nodes that caused a dependency of the trace on extents.
    pub(super) causes: Vec<Cause>,
}

/// A value of a graph being traced.
#[derive(Debug, Clone)]
pub(super) enum Slot {
    /// A value that the trace splits into tensors.
    Parts(OnnxValue<TracedTensor>),
    /// An input sequence that is passed on unchanged, by its index among the input sequences.
    Held(usize),
}

/// Data of a graph and of its inline subgraphs, which become part of the traced segment.
#[derive(Default)]
pub(super) struct BodiesInPlace {
    /// The weights of the subgraphs.
    pub(super) weights: Vec<TensorData>,
    /// The nodes that the steps come from, including the nodes of the graph itself.
    pub(super) origins: Origins,
    /// The number of nodes in the unrolled loops of this segment and of earlier ones, over all iterations.
    unrolled: usize,
}

impl BodiesInPlace {
    /// Begins a segment; `unrolled` is the number of nodes in the loops that earlier segments unrolled.
    pub(super) fn after(unrolled: usize) -> BodiesInPlace {
        BodiesInPlace { unrolled, ..BodiesInPlace::default() }
    }
}

/// The outcome of tracing a node.
pub(super) enum NodeTrace {
    /// The node was traced, and its results are stored.
    Results,
    /// The node is an `If` that takes the branch with this name.
    Branch(&'static str),
    /// The node runs between segments, on the host.
    Host(HostFunction),
    /// The node runs between segments, iteration by iteration.
    Repeat(Repeat),
    /// The node runs between segments, because it accesses the items of a sequence that is passed on unchanged.
    Sequence(SequenceStep),
}

/// The next step of tracing after a node.
pub(super) enum Step<E> {
    /// Trace the next node.
    Next,
    /// Trace the node that is now at the same index.
    Again,
    /// End the segment before the node.
    End(E),
}

impl<'t> Tracing<'t> {
    pub(super) fn new(
        tracer: &'t Tracer,
        resolved: Arc<Resolved>,
        inner: &'t RefCell<BodiesInPlace>,
    ) -> Tracing<'t> {
        let (env, causes) = (BTreeMap::new(), Vec::new());
        Tracing { tracer, resolved, env, inner, holder: None, splices: true, causes }
    }

    /// Continues with another graph. Its values have the same ids as in the current graph.
    pub(super) fn replace(&mut self, resolved: Resolved) {
        self.resolved = Arc::new(resolved);
    }

    pub(super) fn set(&mut self, value: ValueId, item: OnnxValue<TracedTensor>) {
        self.env.insert(value, Slot::Parts(item));
    }

    /// Records that a value is a sequence that is passed on unchanged.
    pub(super) fn hold(&mut self, value: ValueId, position: usize) {
        self.env.insert(value, Slot::Held(position));
    }

    /// Returns the number of nodes in unrolled loops so far.
    pub(super) fn unrolled(&self) -> usize {
        self.inner.borrow().unrolled
    }

    /// Iterates over the values traced so far, in the order of their ids.
    pub(super) fn values(&self) -> impl Iterator<Item = (ValueId, &Slot)> {
        self.env.iter().map(|(value, item)| (*value, item))
    }

    /// Returns whether a value of the graph is, or contains, a value of the trace.
    pub(super) fn holds(&self, value: ValueId, wanted: TraceValue) -> bool {
        let mut found = false;
        if let Some(Slot::Parts(item)) = self.env.get(&value) {
            item.visit(&mut |x: &TracedTensor| found |= x.value() == wanted);
        }
        found
    }

    /// Returns a value. A weight is added to the trace when it is first used.
    pub(super) fn slot(&mut self, value: ValueId) -> Result<Slot, Error> {
        if let Some(slot) = self.env.get(&value) {
            return Ok(slot.clone());
        }
        let Some((position, data)) = self.resolved.constant(value)? else {
            return Err(missing(&self.resolved.graph, value));
        };
        let traced = if self.holder.is_some() {
            let weights = &mut self.inner.borrow_mut().weights;
            weights.push(data.clone());
            self.tracer.weight(WeightId::Body(weights.len() - 1), data)
        } else {
            self.tracer.weight(WeightId::Graph(position), data)
        };
        let item = OnnxValue::Tensor(traced);
        self.set(value, item.clone());
        Ok(Slot::Parts(item))
    }

    /// Traces nodes from index `from` on, and calls `decide` after each node for the next step. Returns the node that the
    /// segment ends before, and the reason; `None` at the end of the graph.
    pub(super) fn follow<E>(
        &mut self,
        from: usize,
        mut decide: impl FnMut(&mut Self, usize, Result<NodeTrace, TraceStop>) -> Result<Step<E>, Error>,
    ) -> Result<Option<(usize, E)>, Error> {
        let mut at = from;
        while let Some(&code) = self.resolved.code.get(at) {
            if matches!(code, Code::Unused) {
                at += 1;
                continue;
            }
            let (steps, origins) = (self.tracer.steps(), self.inner.borrow().origins.len());
            self.begin(Origin::Node(at));
            let events = self.tracer.events();
            let traced = self.node(at, code);
            if self.tracer.events() > events {
                self.causes.push(Cause::new(&self.resolved.graph, at, self.tracer.events()));
            }
            match decide(self, at, traced)? {
                Step::Next => {
                    self.release(at)?;
                    at += 1;
                }
                again_or_end => {
                    self.tracer.forget(steps);
                    self.inner.borrow_mut().origins.forget(origins);
                    if let Step::End(why) = again_or_end {
                        return Ok(Some((at, why)));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Drops the values that no later node reads. Otherwise a chain of sequences, each longer by one item, would be kept as a
    /// whole.
    fn release(&mut self, at: usize) -> Result<(), Error> {
        let Tracing { resolved, env, .. } = self;
        for value in resolved.node(at)?.reads() {
            if !resolved.is_read_from(value, at + 1)? {
                env.remove(&value);
            }
        }
        Ok(())
    }

    /// Sets the node that the next steps come from.
    fn begin(&self, origin: Origin) {
        self.tracer.set_origin(Some(self.inner.borrow_mut().origins.push(origin)));
    }

    /// Traces a node and stores its results.
    pub(super) fn node(&mut self, at: usize, code: Code) -> Result<NodeTrace, TraceStop> {
        RunOptions::check_current()?;
        let resolved = self.resolved.clone();
        let node = resolved.node(at)?;
        let mut operands: SmallVec<[Option<OnnxValue<TracedTensor>>; 4]> = SmallVec::new();
        let mut held = None;
        for (index, input) in node.inputs.iter().enumerate() {
            operands.push(match input.map(|value| self.slot(value)).transpose()? {
                None => None,
                Some(Slot::Parts(item)) => Some(item),
                Some(Slot::Held(_)) => {
                    held = held.or(Some(index));
                    None
                }
            });
        }
        if let Some(index) = held {
            return match code {
                Code::Unused => Ok(NodeTrace::Results),
                Code::Items(_, Some(step)) => Ok(NodeTrace::Sequence(step)),
                Code::Repeat(repeat) => Ok(NodeTrace::Repeat(repeat)),
                _ => Err(unexpected(node, index, "a sequence").into()),
            };
        }
        let results = match code {
            Code::Unused => return Ok(NodeTrace::Results),
            Code::Missing => {
                let (op, domain) = (node.op_type.clone(), node.domain.clone());
                return Err(Error::UnsupportedOperator { op, domain, opset: node.opset }.into());
            }
            Code::Call(function) => {
                self.call(at, node, function, operands)?;
                return Ok(NodeTrace::Results);
            }
            Code::Items(function, step) => {
                let results = function(self.tracer, &Call::new(node, &operands).within(self.tracer.limit()))?;
                let long = |x: &OnnxValue<_>| matches!(x, OnnxValue::Sequence(items) if items.len() > MANY);
                if let Some(step) = step
                    && self.holder.is_none()
                    && results.iter().flatten().any(long)
                {
                    return Ok(NodeTrace::Sequence(step));
                }
                results
            }
            Code::Host(function) => match self.fold(node, function, operands)? {
                Some(results) => results,
                None => return Ok(NodeTrace::Host(function)),
            },
            Code::If => {
                let name = self.branch(&operands)?;
                if self.holder.is_none() && self.splices && resolved.may_be_copied() {
                    return Ok(NodeTrace::Branch(name));
                }
                match self.inline(name, resolved.inner(at, name)?, Vec::new())? {
                    Some(results) => results.into_iter().map(Some).collect(),
                    None => return Ok(NodeTrace::Branch(name)),
                }
            }
            Code::Repeat(repeat) => match self.unroll(at, repeat, node, operands.into_vec())? {
                Some(results) => results.into_iter().map(Some).collect(),
                None => return Ok(NodeTrace::Repeat(repeat)),
            },
        };
        self.store(node, results.into_iter())?;
        Ok(NodeTrace::Results)
    }

    /// Traces an operator's function and stores its results.
    fn call(
        &mut self,
        at: usize,
        node: &Node,
        function: TensorFunction,
        operands: SmallVec<[Option<OnnxValue<TracedTensor>>; 4]>,
    ) -> Result<(), TraceStop> {
        let tensors = tensors(node, operands)?;
        let mut call = Call::new(node, &tensors).of(&self.resolved.graph).within(self.tracer.limit());
        for (position, value) in node.outputs.iter().enumerate() {
            if let Some(value) = value
                && !self.resolved.is_read_from(*value, at + 1)?
            {
                call = call.with_unread(position);
            }
        }
        let results = function.call(self.tracer, &call).map_err(|stop| match stop {
            TraceStop::Error(error) => {
                let operands = tensors
                    .iter()
                    .map(|x| x.as_ref().map(|x| (crate::Tensor::dtype(x), crate::Tensor::shape(x))));
                of_operator(node, operands, error).into()
            }
            TraceStop::Needs(_) => stop,
        })?;
        Ok(self.store(node, results.into_iter().map(|x| x.map(OnnxValue::Tensor)))?)
    }

    /// Computes a host operator while tracing; `None` if an operand is not known, or if the results are too large to fold.
    fn fold(
        &self,
        node: &Node,
        function: HostFunction,
        operands: SmallVec<[Option<OnnxValue<TracedTensor>>; 4]>,
    ) -> Result<Option<OpOutputs<OnnxValue<TracedTensor>>>, TraceStop> {
        let tensors = tensors(node, operands)?;
        if tensors.iter().flatten().any(|x| !x.is_known()) {
            return Ok(None);
        }
        let known: SmallVec<[Option<TensorData>; 4]> =
            tensors.iter().map(|x| x.as_ref().and_then(|x| x.known_or_tied().cloned())).collect();
        let call = Call::new(node, &known).within(self.tracer.limit());
        let computed = RunOptions::paced(|| function(&call)).map_err(TraceStop::from)?;
        let computed = computed.map_err(|error| {
            let operands = known.iter().map(|x| x.as_ref().map(|x| (x.dtype(), x.shape())));
            of_operator(node, operands, error)
        })?;
        if !self.tracer.folds(computed.iter().flatten())? {
            return Ok(None);
        }
        let traced = |data: TensorData| {
            self.tracer.bound(&[(data.dtype(), data.shape().into())])?;
            crate::Backend::constant(self.tracer, &data)
        };
        let results =
            computed.into_iter().map(|result| Ok(result.map(traced).transpose()?.map(OnnxValue::Tensor)));
        results.collect::<Result<_, TraceStop>>().map(Some)
    }

    /// Stores a node's results.
    fn store(
        &mut self,
        node: &Node,
        results: impl ExactSizeIterator<Item = Option<OnnxValue<TracedTensor>>>,
    ) -> Result<(), Error> {
        let got = results.len();
        let mut results = results;
        for (position, output) in node.outputs.iter().enumerate() {
            let result = results.next().flatten();
            if let Some(value) = output {
                let result = match result {
                    Some(result) => result,
                    None if !self.resolved.is_read_from(*value, 0)? => continue,
                    None => {
                        let op = node.op_type.clone();
                        return Err(Error::Results { op, expected: position + 1, got });
                    }
                };
                self.agrees(node, *value, &result)?;
                self.set(*value, result);
            }
        }
        Ok(())
    }

    /// Checks that a result has the type and the extents that inference derived from the declared types of the operands.
    ///
    /// Without this check, operands and results of types or extents that the operator does not accept might be used.
    fn agrees(&self, node: &Node, value: ValueId, result: &OnnxValue<TracedTensor>) -> Result<(), Error> {
        let info = self.resolved.graph.values.get(value.index());
        let (Some(ValueType::Tensor { dtype, shape }), OnnxValue::Tensor(x)) =
            (info.map(|info| &info.ty), result)
        else {
            return Ok(());
        };
        let got = crate::Tensor::dtype(x);
        if got != *dtype {
            return Err(Error::Operator {
                op: node.op_type.clone(),
                part: NodePart::other("an operand"),
                problem: format!("makes a result of type {got}; its declared type makes one of type {dtype}"),
            });
        }
        let Some(dims) = shape else { return Ok(()) };
        // Inference assumes that extents with the same name are equal, which is not true for these inputs.
        if self.tracer.contradicts_names() {
            return Ok(());
        }
        // Only known extents are read, because the plan is valid only for the extents that were read.
        let same = |(axis, dim): (usize, &Dim)| match dim {
            Dim::Known(known) => self.tracer.has_extent(x, axis, *known),
            Dim::Symbol(_) | Dim::Computed(_) | Dim::Unknown => true,
        };
        if dims.len() == crate::Tensor::rank(x) && dims.iter().enumerate().all(same) {
            return Ok(());
        }
        Err(Error::Operator {
            op: node.op_type.clone(),
            part: NodePart::other("an operand"),
            problem: format!(
                "does not fit the others: the result `{}` would have the extents {:?}, expected {}",
                self.resolved.graph.name_of(value),
                crate::Tensor::shape(x),
                info.map(|info| info.ty.to_string()).unwrap_or_default(),
            ),
        })
    }

    /// Returns the branch that the condition of an `If` selects.
    fn branch(&self, operands: &[Option<OnnxValue<TracedTensor>>]) -> Result<&'static str, TraceStop> {
        let [Some(OnnxValue::Tensor(condition))] = operands else {
            return Err(Error::Operand { op: "If", index: 0, expected: "a truth value" }.into());
        };
        match crate::ext::Ops::ints(self.tracer, condition)?.as_slice() {
            [0] => Ok("else_branch"),
            [_] => Ok("then_branch"),
            other => Err(Error::Operator {
                op: "If".to_owned(),
                part: NodePart::other("the condition"),
                problem: format!("expected one truth value, got {}", other.len()),
            }
            .into()),
        }
    }

    /// Traces a loop iteration by iteration; `None` if it must run between segments.
    fn unroll(
        &mut self,
        at: usize,
        repeat: Repeat,
        node: &Node,
        operands: Vec<Option<OnnxValue<TracedTensor>>>,
    ) -> Result<Option<Vec<OnnxValue<TracedTensor>>>, TraceStop> {
        // The operator selects each iteration by the results of the previous one, which are known only while a plan runs.
        if let Repeat::Rounds(_) = repeat {
            return Ok(None);
        }
        let resolved = self.resolved.clone();
        let inner = resolved.inner(at, "body")?;
        let body = &inner.resolved.graph;
        let before = self.tracer.steps();
        let noted = self.inner.borrow().origins.len();
        let attempt = (|| -> Result<Option<Vec<OnnxValue<TracedTensor>>>, TraceStop> {
            let operands = operands.into_iter().map(|x| x.map(Item::Parts)).collect();
            let mut repetition = Repetition::begin(self.tracer, repeat, node, operands)?;
            let origin = self.tracer.origin();
            let mapped = self.mapped(inner, &repetition);
            self.tracer.set_origin(origin);
            // An error that depends on an iteration is found again below.
            if let Ok(Some(results)) = mapped {
                let results = repetition.finish_all(self.tracer, results)?;
                return Ok(Some(results.into_iter().map(Item::value).collect()));
            }
            self.tracer.forget(before);
            self.inner.borrow_mut().origins.forget(noted);
            let iterations = repetition.trips().and_then(|trips| trips.checked_mul(body.nodes.len().max(1)));
            let before_this = self.inner.borrow().unrolled;
            let Some(nodes) = iterations.filter(|n| *n <= UNROLLED && before_this + n <= UNROLLED_IN_ALL)
            else {
                return Ok(None);
            };
            self.inner.borrow_mut().unrolled += nodes;
            while let Some(Round { given, .. }) = repetition.next(self.tracer)? {
                let index = repetition.index();
                let given = given.into_iter().map(Item::value).collect();
                let results = self.inline("body", inner, given);
                let results = results.map_err(|e| Error::Iteration { index, source: e.into() })?;
                let Some(results) = results else { return Ok(None) };
                repetition.absorb(self.tracer, results.into_iter().map(Item::Parts).collect())?;
                if self.tracer.steps() - before > STEPS {
                    return Ok(None);
                }
            }
            Ok(Some(repetition.finish(self.tracer)?.into_iter().map(Item::value).collect()))
        })();
        match attempt {
            Ok(Some(results)) => Ok(Some(results)),
            Err(TraceStop::Error(error)) => Err(error.into()),
            Ok(None) | Err(TraceStop::Needs(_)) => {
                self.tracer.forget(before);
                self.inner.borrow_mut().origins.forget(noted);
                Ok(None)
            }
        }
    }

    /// Traces all iterations of a `Scan` at once. Returns the collected results with the iteration as the first dimension; `None` if
    /// an iteration depends on an earlier one, or if there is no rule for a step.
    fn mapped(
        &mut self,
        inner: &Inner,
        repetition: &Repetition<TracedTensor>,
    ) -> Result<Option<Vec<TracedTensor>>, TraceStop> {
        // A nested body would be traced twice at each level.
        let nests = |code: &Code| matches!(code, Code::If | Code::Repeat(_));
        if inner.resolved.code.iter().any(nests) {
            return Ok(None);
        }
        let Some(scan) = repetition.scan_parts(self.tracer)? else { return Ok(None) };
        let mut same = HashMap::new();
        let mut given = Vec::new();
        for state in &scan.states {
            let Item::Parts(state) = state else { return Ok(None) };
            state.visit(&mut |x: &TracedTensor| drop(same.insert(x.value(), x.clone())));
            given.push(state.clone());
        }
        for &value in &inner.captures {
            let Slot::Parts(item) = self.slot(value)? else { return Ok(None) };
            item.visit(&mut |x: &TracedTensor| drop(same.insert(x.value(), x.clone())));
        }
        let mut parts = Vec::new();
        for x in &scan.operands {
            let extents = x.extents();
            let part = self.tracer.stand_in(crate::Tensor::dtype(x), extents.get(1..).unwrap_or_default());
            parts.push(part.value());
            given.push(OnnxValue::Tensor(part));
        }
        let first = self.tracer.steps();
        let results = self.inline("body", inner, given)?;
        let (steps, bytes) = self.tracer.take_steps(first)?;
        let Some(results) = results else { return Ok(None) };
        let mut unchanged: HashMap<_, _> = same.keys().map(|&value| (value, value)).collect();
        for step in &steps {
            if let (Some(Primitive::Identity), [Some(from)], [to]) =
                (step.operation.primitive(), step.inputs.as_slice(), step.outputs.as_slice())
                && let Some(&origin) = unchanged.get(from)
            {
                unchanged.insert(*to, origin);
            }
        }
        let mut results = results.into_iter();
        for state in &scan.states {
            let (Some(OnnxValue::Tensor(after)), Some(before)) = (results.next(), state.tensor()) else {
                return Ok(None);
            };
            if unchanged.get(&after.value()) != Some(&before.value()) {
                return Ok(None);
            }
        }
        let mut collected = Vec::new();
        for result in results {
            let OnnxValue::Tensor(x) = result else { return Ok(None) };
            collected.push(x.value());
        }
        let recorded = Recorded { steps, parts, same, collected, bytes };
        recorded.results(self.tracer, &scan, STEPS)
    }

    /// Traces a subgraph inline; `None` if some node of the subgraph must run between segments.
    fn inline(
        &mut self,
        attribute: &'static str,
        inner: &Inner,
        given: Vec<OnnxValue<TracedTensor>>,
    ) -> Result<Option<Vec<OnnxValue<TracedTensor>>>, Error> {
        let mut captured = Vec::with_capacity(inner.captures.len());
        for &value in &inner.captures {
            match self.slot(value)? {
                Slot::Parts(item) => captured.push(item),
                Slot::Held(_) => return Ok(None),
            }
        }
        let mut tracing = Tracing::new(self.tracer, inner.resolved.clone(), self.inner);
        let Some(holder) = self.tracer.origin() else {
            return Err(Error::excluded("a node to be traced before its subgraph"));
        };
        tracing.holder = Some(holder);
        let inputs = &inner.resolved.graph.inputs;
        let own = inputs.len().saturating_sub(captured.len());
        let given = given.into_iter().take(own);
        if given.len() < own {
            return Err(Error::Results { op: "body".to_owned(), expected: own, got: given.len() });
        }
        for (&value, item) in inputs.iter().zip(given.chain(captured)) {
            tracing.set(value, item);
        }
        for (node, &code) in inner.resolved.code.iter().enumerate() {
            let resolved = inner.resolved.clone();
            self.begin(Origin::Inner { holder, attribute, resolved, node });
            match tracing.node(node, code) {
                Ok(NodeTrace::Results) => tracing.release(node)?,
                Ok(
                    NodeTrace::Branch(_) | NodeTrace::Host(_) | NodeTrace::Repeat(_) | NodeTrace::Sequence(_),
                )
                | Err(TraceStop::Needs(_)) => return Ok(None),
                Err(TraceStop::Error(error)) => return Err(in_node(&inner.resolved.graph, node, error)),
            }
        }
        self.tracer.set_origin(Some(holder));
        let mut outputs = Vec::with_capacity(inner.resolved.graph.outputs.len());
        for value in &inner.resolved.graph.outputs {
            match tracing.slot(*value)? {
                Slot::Parts(item) => outputs.push(item),
                Slot::Held(_) => return Ok(None),
            }
        }
        Ok(Some(outputs))
    }
}

/// Returns operands that must be tensors. An empty optional counts as omitted.
fn tensors(
    node: &Node,
    operands: SmallVec<[Option<OnnxValue<TracedTensor>>; 4]>,
) -> Result<SmallVec<[Option<TracedTensor>; 4]>, Error> {
    let tensor = |(index, item)| match item {
        None | Some(OnnxValue::Absent) => Ok(None),
        Some(OnnxValue::Tensor(x)) => Ok(Some(x)),
        Some(other) => Err(unexpected(node, index, other.kind())),
    };
    operands.into_iter().enumerate().map(tensor).collect()
}

/// Returns the error for an operand that is not a tensor.
fn unexpected(node: &Node, index: usize, kind: &str) -> Error {
    Error::Operator {
        op: node.op_type.clone(),
        part: NodePart::Operand(index),
        problem: format!("is {kind}, expected a tensor"),
    }
}
