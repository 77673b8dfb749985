//! Runs a compiled graph segment by segment, including the nodes between segments. `segment_end.rs` defines the states of a
//! run.
//!
//! Each loop that could not be unrolled is a frame on an explicit stack, so that nested loops do not use the native stack.

use super::failure::{Where, initializer};
use super::interpreter::PlanOutputs;
use super::program::{LiveTensors, Program, Segment, Specialization};
use super::resolve::Resolved;
use super::run_state::{Ledger, RunState};
use super::segment::{Structure, filled, too_few_tensors};
use super::segment_end::{Between, End, HostNode, LiveIndex, Place, RepeatNode, SequenceNode};
use super::target::Target;
use super::watch::{Watch, Watcher};
use crate::contract::{BackendError, contained};
use crate::erased::AnyTensor;
use crate::ext::{ErasedBackend, ErasedError, ErasedTensor};
use crate::measure::Activity;
use crate::operator::{Call, OnnxValue, Round, Rounds};
use crate::operator::{Form, Held, Item};
use crate::trace::Table;
use crate::{Backend, Error, RunOptions};
use bb_ir::TensorData;
use bb_ir::graph::{Graph, ValueType};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The input or output values of a segment, split into tensors.
pub(super) struct Live {
    pub(super) tensors: Vec<ErasedTensor>,
    /// The sequences that plans pass on unchanged.
    held: Vec<Held<ErasedTensor>>,
    pub(super) structure: Structure,
}

impl Live {
    fn new(items: Vec<Item<ErasedTensor>>) -> Live {
        let (mut tensors, mut held) = (Vec::with_capacity(items.len()), Vec::new());
        let structured = items.iter().any(|item| item.tensor().is_none());
        let mut forms = Vec::with_capacity(if structured { items.len() } else { 0 });
        for item in items {
            let form = match item.held_if_long() {
                Item::Parts(OnnxValue::Tensor(x)) => {
                    tensors.push(x);
                    Form::Parts(OnnxValue::Tensor(()))
                }
                Item::Parts(item) => Form::Parts(item.map(&mut |x: &ErasedTensor| tensors.push(x.clone()))),
                Item::Held(sequence) => {
                    held.push(sequence);
                    Form::Held
                }
            };
            if structured {
                forms.push(form);
            }
        }
        Live { tensors, held, structure: structured.then(|| forms.into()) }
    }

    /// Returns the results of a plan. `held` has the sequences among the plan's inputs.
    pub(super) fn after(
        held: Vec<Held<ErasedTensor>>,
        plan: &Specialization,
        results: PlanOutputs<ErasedTensor>,
    ) -> Result<Live, Error> {
        let mut given: Vec<Option<Held<ErasedTensor>>> = held.into_iter().map(Some).collect();
        let mut held = Vec::with_capacity(plan.passed.len());
        let mut left = counts(plan.passed.iter().copied());
        for from in &plan.passed {
            let again = is_read_again(&mut left, *from);
            let sequence = given.get_mut(*from).and_then(|x| if again { x.clone() } else { x.take() });
            held.push(sequence.ok_or_else(too_few_tensors)?);
        }
        Ok(Live { tensors: results.into_vec(), held, structure: plan.results.clone() })
    }

    /// Rebuilds the values from their tensors.
    fn items(self) -> Result<Vec<Item<ErasedTensor>>, Error> {
        let (mut tensors, mut held) = (self.tensors.into_iter(), self.held.into_iter());
        let Some(forms) = self.structure else {
            return Ok(tensors.map(|x| Item::Parts(OnnxValue::Tensor(x))).collect());
        };
        let item = |form: &Form| match form {
            Form::Parts(item) => Ok(Item::Parts(filled(item, &mut tensors)?)),
            Form::Held => held.next().map(Item::Held).ok_or_else(too_few_tensors),
        };
        forms.iter().map(item).collect()
    }

    /// Rebuilds the values from their tensors, as `OnnxValue`s.
    pub(super) fn values(self) -> Result<Vec<OnnxValue<ErasedTensor>>, Error> {
        Ok(self.items()?.into_iter().map(Item::value).collect())
    }
}

/// A running loop.
struct Frame {
    node: Arc<RepeatNode<Segment>>,
    rounds: Box<dyn Rounds>,
    /// The number of iterations begun so far.
    begun: usize,
    /// The values that each body captures.
    captured: Vec<Vec<Item<ErasedTensor>>>,
    /// The values that the segment after the loop needs in addition to the loop's results.
    kept: Vec<Item<ErasedTensor>>,
    /// The bytes of `captured` and `kept`.
    own: usize,
    /// The bytes of the whole frame at the last count.
    bytes: usize,
}

impl Frame {
    /// Updates the ledger with the bytes that the loop keeps while its body runs.
    fn count(&mut self, ledger: &mut Ledger) -> Result<(), Error> {
        let bytes = self.own.saturating_add(self.rounds.bytes());
        let before = std::mem::replace(&mut self.bytes, bytes);
        ledger.keep(before, bytes)
    }

    /// Adds the loop's node to an error.
    fn name<E: BackendError>(&self, error: E) -> E {
        self.node.name(error)
    }
}

impl<S> RepeatNode<S> {
    /// Adds the loop's node to an error.
    fn name<E: BackendError>(&self, error: E) -> E {
        Where::Node(self.at.node).name(&self.resolved.graph, error)
    }
}

/// The next state after a plan has run: the outputs of the graph, or the next plan, which has also run.
type Next = ControlFlow<Live, Ran>;

/// A plan that has run, with its results.
pub(super) struct Ran {
    pub(super) specialization: Arc<Specialization>,
    pub(super) live: Live,
}

impl Program {
    /// Finds or builds the plan of a segment, and runs it on these values.
    fn enter(
        &self,
        target: &dyn Target,
        segment: &Segment,
        live: Live,
        state: &mut RunState,
        watch: &mut Watcher<'_>,
    ) -> Result<Ran, ErasedError> {
        state.go_on()?;
        state.ledger.begin(&live.tensors)?;
        let held = live.held.iter().fold(0, |sum: usize, sequence| sum.saturating_add(sequence.bytes()));
        state.ledger.add(held)?;
        let refs: Vec<&ErasedTensor> = live.tensors.iter().collect();
        let types: Vec<&dyn AnyTensor> = live.tensors.iter().map(ErasedTensor::any).collect();
        let to_host = |position: usize| match live.tensors.get(position) {
            Some(x) => target.backend().to_host(x),
            None => Err(too_few_tensors().into()),
        };
        let given = LiveTensors { types: &types, to_host: &to_host };
        let specialization = self.specialization(target, segment, &given, &live.structure, watch)?;
        let tensors = Program::run_specialization(target, &specialization, &refs, state, watch)?;
        let live = Live::after(live.held, &specialization, tensors)?;
        Ok(Ran { specialization, live })
    }

    /// Runs everything after the first plan, to the end of the graph.
    pub(super) fn follow(
        &self,
        target: &dyn Target,
        first: Ran,
        state: &mut RunState,
        watch: &mut Watcher<'_>,
    ) -> Result<Live, ErasedError> {
        let mut frames: Vec<Frame> = Vec::new();
        let mut ran = first;
        loop {
            match self.step(target, &mut frames, ran, state, watch) {
                Ok(ControlFlow::Continue(next)) => ran = next,
                // A cancelled or late run fails even if no work is left.
                Ok(ControlFlow::Break(outputs)) => {
                    return state.go_on().map(|()| outputs).map_err(Into::into);
                }
                // A failure in a body is reported for every enclosing loop.
                Err(error) => {
                    return Err(frames.iter().rev().fold(error, |error, frame| {
                        if !frame.node.repeat.iterates() {
                            return frame.name(error);
                        }
                        let index = frame.begun.saturating_sub(1);
                        frame.name(Error::Iteration { index, source: error.into_source() }.into())
                    }));
                }
            }
        }
    }

    /// Runs from the end of one segment to the end of the next. Returns `Break` with the outputs at the end of the graph.
    fn step(
        &self,
        target: &dyn Target,
        frames: &mut Vec<Frame>,
        Ran { specialization, live }: Ran,
        state: &mut RunState,
        watch: &mut Watcher<'_>,
    ) -> Result<Next, ErasedError> {
        let on = &target.backend();
        let next = match &specialization.end {
            End::Done => {
                let Some(mut frame) = frames.pop() else { return Ok(ControlFlow::Break(live)) };
                let since = watch.mark();
                let items = live.items()?;
                contained(|| frame.rounds.absorb(on, items)).map_err(|error| frame.name(error))?;
                frame.count(&mut state.ledger).map_err(|error| frame.name(error))?;
                watch.activity(since, Activity::Loop, Some((&frame.node.resolved, frame.node.at.node)));
                self.advance(target, frames, frame, state, watch)?
            }
            End::Read { next, .. } => self.enter(target, next, live, state, watch)?,
            End::Host(host) => {
                let live = live.items()?;
                let items = contained(|| run_host(on, &specialization, host, live, state, watch))
                    .map_err(|error| Where::Node(host.at.node).name(&specialization.resolved.graph, error))?;
                self.enter(target, &host.at.after, Live::new(items), state, watch)?
            }
            End::Sequence(node) => {
                let since = watch.mark();
                let resolved = &specialization.resolved;
                let live = live.items()?;
                let items = contained(|| run_sequence(on, resolved, node, live))
                    .map_err(|error| Where::Node(node.at.node).name(&resolved.graph, error))?;
                watch.activity(since, Activity::Host, Some((resolved, node.at.node)));
                self.enter(target, &node.at.after, Live::new(items), state, watch)?
            }
            End::Repeat(node) => {
                let since = watch.mark();
                let items = live.items()?;
                let mut frame = contained(|| begin(on, node, items)).map_err(|error| node.name(error))?;
                frame.count(&mut state.ledger).map_err(|error| frame.name(error))?;
                watch.activity(since, Activity::Loop, Some((&node.resolved, node.at.node)));
                self.advance(target, frames, frame, state, watch)?
            }
        };
        Ok(ControlFlow::Continue(next))
    }

    /// Begins the next iteration of a loop, or continues after the loop.
    fn advance(
        &self,
        target: &dyn Target,
        frames: &mut Vec<Frame>,
        mut frame: Frame,
        state: &mut RunState,
        watch: &mut Watcher<'_>,
    ) -> Result<Ran, ErasedError> {
        let on = &target.backend();
        let node = frame.node.clone();
        let of = Some((&node.resolved, node.at.node));
        let since = watch.mark();
        let given = contained(|| frame.rounds.next(on)).map_err(|error| node.name(error))?;
        watch.activity(since, Activity::Loop, of);
        if let Some(Round { body, given }) = given {
            frame.begun += 1;
            if node.repeat.iterates() {
                state.iterate().map_err(|error| node.name(error))?;
            }
            let at = node.bodies.iter().position(|own| own.name == body);
            let found = at.and_then(|at| Some((node.bodies.get(at)?, frame.captured.get(at)?)));
            let (body, captured) = found.ok_or_else(|| node.name(Error::excluded("a body of the loop")))?;
            let mut given: Vec<_> = given.into_iter().map(Item::held).collect();
            given.extend(captured.iter().cloned());
            watch.begin_round(frames.len(), &node.resolved, node.at.node);
            frames.push(frame);
            return self.enter(target, &body.first, Live::new(given), state, watch);
        }
        state.ledger.keep(frame.bytes, 0)?;
        let mut items = frame.kept;
        let since = watch.mark();
        let results = contained(|| frame.rounds.finish(on)).map_err(|error| node.name(error))?;
        let mut results = results.into_iter().map(Some).collect::<Vec<_>>();
        watch.activity(since, Activity::Loop, of);
        watch.end_rounds(frames.len());
        for &position in &node.at.results {
            let result = results.get_mut(position).and_then(Option::take);
            let missing = || node.name(node.at.too_few(&node.resolved.graph, position));
            items.push(result.ok_or_else(missing)?.held());
        }
        self.enter(target, &node.at.after, Live::new(items), state, watch)
    }

    /// Returns the outputs as tensors.
    ///
    /// # Errors
    ///
    /// [`Error::NotTensor`] for the first output that is not a tensor.
    pub(super) fn tensors_alone(&self, live: Live) -> Result<Vec<ErasedTensor>, Error> {
        if let Some(items) = &live.structure {
            for (port, item) in self.outputs.iter().zip(items.iter()) {
                let got = match item {
                    Form::Parts(OnnxValue::Tensor(())) => continue,
                    Form::Parts(item) => item.kind(),
                    Form::Held => "a sequence",
                };
                return Err(Error::NotTensor { name: port.name.clone(), got });
            }
        }
        Ok(live.tensors)
    }

    /// Runs the program on ONNX values; omitted inputs get their defaults.
    pub(super) fn run_live(
        &self,
        target: &dyn Target,
        inputs: &[Option<OnnxValue<ErasedTensor>>],
        watch: &mut Watcher<'_>,
    ) -> Result<Live, ErasedError> {
        let on = &target.backend();
        self.declared.check_items(&borrowed(inputs))?;
        let mut items = Vec::with_capacity(self.inputs.len());
        for (position, (port, value)) in self.inputs.iter().zip(&self.resolved.graph.inputs).enumerate() {
            let default = self.resolved.constant(*value)?;
            if let Some(item) = inputs.get(position).and_then(Option::as_ref) {
                items.push(Item::Parts(item.clone()));
            } else if let Some((_, data)) = default {
                let since = watch.mark();
                let failed = |error: ErasedError| {
                    initializer(&self.resolved.graph, *value, data.dtype(), error.into_source())
                };
                items.push(Item::Parts(OnnxValue::Tensor(contained(|| on.constant(data)).map_err(failed)?)));
                watch.activity(since, Activity::Transfer, None);
            } else if matches!(port.ty, ValueType::Optional(_)) {
                items.push(Item::Parts(OnnxValue::Absent));
            } else {
                let expected = self.inputs.iter().filter(|p| !p.optional).map(|p| p.name.clone()).collect();
                return Err(Error::MissingInput { name: port.name.clone(), expected }.into());
            }
        }
        let state = &mut RunState::new(self.limits);
        let first = self.enter(target, &self.first, Live::new(items), state, watch)?;
        self.follow(target, first, state, watch)
    }
}

impl<S> Between<S> {
    /// Returns the error for a node with too few results.
    fn too_few(&self, graph: &Graph, position: usize) -> Error {
        let op = graph.nodes.get(self.node).map_or_else(String::new, |n| n.op_type.clone());
        Error::Results { op, expected: position + 1, got: position }
    }

    /// Returns the values that the segment after the node needs from the segment before it.
    fn kept<T: Clone>(&self, live: &Table<LiveIndex, Item<T>>) -> Result<Vec<Item<T>>, Error> {
        picked(live, &self.kept)
    }
}

/// Borrows the tensors of ONNX values.
fn borrowed(inputs: &[Option<OnnxValue<ErasedTensor>>]) -> Vec<Option<OnnxValue<&ErasedTensor>>> {
    inputs.iter().map(|item| item.as_ref().map(|item| item.map(&mut |x| x))).collect()
}

/// Returns clones of the values at these indices.
fn picked<T: Clone>(live: &Table<LiveIndex, Item<T>>, indices: &[LiveIndex]) -> Result<Vec<Item<T>>, Error> {
    indices.iter().map(|index| live.get(*index).cloned()).collect()
}

/// Runs a function on host tensors between segments, and returns the inputs of the next segment.
fn run_host<S>(
    on: &ErasedBackend<'_>,
    specialization: &Specialization,
    host: &HostNode<S>,
    live: Vec<Item<ErasedTensor>>,
    state: &mut RunState,
    watch: &mut Watcher<'_>,
) -> Result<Vec<Item<ErasedTensor>>, ErasedError> {
    let resolved = &specialization.resolved;
    let at = &host.at;
    let node = resolved.node(at.node)?;
    let live = live.into_iter().collect();
    let of = Some((resolved, at.node));
    let since = watch.mark();
    let mut operands: Vec<Option<TensorData>> = Vec::with_capacity(at.operands.len());
    for (place, value) in at.operands.iter().zip(&node.inputs) {
        let item = match place {
            Place::Absent | Place::Known(_) => None,
            Place::Live(index) => Some(Table::get(&live, *index)?),
        };
        operands.push(match (place, item) {
            (Place::Known(data), _) => Some(data.clone()),
            (_, Some(Item::Parts(OnnxValue::Tensor(x)))) => {
                let failed = |error: ErasedError| Error::Transfer {
                    value: value.map(|v| resolved.graph.name_of(v).to_owned()).unwrap_or_default(),
                    dtype: x.any().dtype(),
                    source: error.into_source(),
                };
                Some(on.to_host(x).map_err(failed)?)
            }
            // An empty optional counts as an omitted operand. Tracing has already refused all other values.
            (_, None | Some(Item::Parts(OnnxValue::Absent))) => None,
            (_, Some(_)) => return Err(Error::excluded("tensors as operands of a host function").into()),
        });
    }
    watch.activity(since, Activity::Transfer, of);
    let since = watch.mark();
    let call = Call::new(node, &operands).within(state.ledger.value_bytes());
    let results = RunOptions::paced(|| (host.function)(&call))??;
    drop(operands);
    state.ledger.host(results.iter().flatten())?;
    watch.activity(since, Activity::Host, of);
    let since = watch.mark();
    let mut items = at.kept(&live)?;
    for &position in &at.results {
        let data = results.get(position).and_then(Option::as_ref);
        let data = data.ok_or_else(|| at.too_few(&resolved.graph, position))?;
        let failed =
            |error: ErasedError| Error::Constant { dtype: data.dtype(), source: error.into_source() };
        items.push(Item::Parts(OnnxValue::Tensor(contained(|| on.constant(data)).map_err(failed)?)));
    }
    watch.activity(since, Activity::Transfer, of);
    Ok(items)
}

/// Counts the occurrences of each item.
fn counts<T: Eq + std::hash::Hash>(all: impl Iterator<Item = T>) -> HashMap<T, usize> {
    let mut counts = HashMap::new();
    all.for_each(|one| *counts.entry(one).or_default() += 1);
    counts
}

/// Decrements the count of an item, and returns whether occurrences are left.
fn is_read_again<T: Eq + std::hash::Hash>(left: &mut HashMap<T, usize>, one: T) -> bool {
    let left = left.entry(one).or_default();
    *left = left.saturating_sub(1);
    *left > 0
}

/// Begins a loop.
fn begin(
    on: &ErasedBackend<'_>,
    node: &Arc<RepeatNode<Segment>>,
    live: Vec<Item<ErasedTensor>>,
) -> Result<Frame, ErasedError> {
    // Sequences in loops are passed on unchanged, so that one plan serves all lengths.
    let live: Table<LiveIndex, _> = live.into_iter().map(Item::held).collect();
    let captured: Vec<Vec<_>> =
        node.bodies.iter().map(|body| picked(&live, &body.captures)).collect::<Result<_, _>>()?;
    let (kept, operands) = taken(on, &node.at, live)?;
    let own =
        captured.iter().flatten().chain(&kept).fold(0, |sum: usize, item| sum.saturating_add(item.bytes()));
    let of = node.resolved.node(node.at.node)?;
    let rounds = node.repeat.begin(on, of, operands)?;
    Ok(Frame { rounds, begun: 0, captured, kept, own, node: node.clone(), bytes: 0 })
}

/// The values that the segment after a node needs, and the operands of the node.
type Taken = (Vec<Item<ErasedTensor>>, Vec<Option<Item<ErasedTensor>>>);

/// Extracts the operands of a node from the results of the segment before it. An operand that is not used again is moved, so
/// that a sequence can be changed in place.
fn taken<S>(
    on: &ErasedBackend<'_>,
    at: &Between<S>,
    live: Table<LiveIndex, Item<ErasedTensor>>,
) -> Result<Taken, ErasedError> {
    let kept = at.kept(&live)?;
    let mut live: Table<LiveIndex, Option<_>> = live.into_entries().into_iter().map(Some).collect();
    let mut operands = Vec::with_capacity(at.operands.len());
    let places = at.operands.iter();
    let mut left =
        counts(places.filter_map(|place| if let Place::Live(index) = place { Some(*index) } else { None }));
    for place in &at.operands {
        operands.push(match place {
            Place::Absent => None,
            Place::Known(data) => {
                let failed =
                    |error: ErasedError| Error::Constant { dtype: data.dtype(), source: error.into_source() };
                Some(Item::Parts(OnnxValue::Tensor(contained(|| on.constant(data)).map_err(failed)?)))
            }
            Place::Live(index) => {
                if is_read_again(&mut left, *index) {
                    live.get(*index)?.clone()
                } else {
                    live.get_mut(*index)?.take()
                }
            }
        });
    }
    Ok((kept, operands))
}

/// Runs a node that accesses the items of a sequence, and returns the inputs of the next segment.
fn run_sequence<S>(
    on: &ErasedBackend<'_>,
    resolved: &Resolved,
    node: &SequenceNode<S>,
    live: Vec<Item<ErasedTensor>>,
) -> Result<Vec<Item<ErasedTensor>>, ErasedError> {
    let (mut items, operands) = taken(on, &node.at, live.into_iter().collect())?;
    let result = node.code.run(on, resolved.node(node.at.node)?, operands)?;
    // Each of these operators has one result. It is dropped if nothing reads it.
    if !node.at.results.is_empty() {
        items.push(result);
    }
    Ok(items)
}
