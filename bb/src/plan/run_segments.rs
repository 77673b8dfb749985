//! Runs a compiled graph: goes from state to state of `segment_end.rs`, segment by segment, with what runs between them.
//!
//! Loops that could not be unrolled are frames on a stack of their own, so that nesting costs no native stack.

use super::constants::Natives;
use super::failure::{Where, initializer};
use super::held::{Form, Held, Item};
use super::interpreter::PlanOutputs;
use super::program::{Program, Segment, Specialization};
use super::repetition::{Repetition, Round};
use super::resolve::Resolved;
use super::run_state::{Ledger, RunState};
use super::segment::{Structure, filled, too_few_tensors};
use super::segment_end::{Between, End, HostNode, LiveIndex, Place, RepeatNode, SequenceNode};
use super::watch::{Silent, Watch, Watcher};
use super::{Activity, Profile};
use crate::contract::{Caller, begin_buffers, fill_buffers};
use crate::onnx::{Call, OnnxValue};
use crate::trace::Table;
use crate::{Backend, Error, Executable, Module, Port, ResultBuffer, RunOptions, Tensor};
use bb_ir::TensorData;
use bb_ir::graph::{Graph, ValueType};
use smallvec::SmallVec;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Values that go into a segment or come out of one, tensor by tensor.
struct Live<T> {
    tensors: Vec<T>,
    /// The sequences that plans pass on.
    held: Vec<Held<T>>,
    structure: Structure,
}

impl<T: Tensor> Live<T> {
    fn new(items: Vec<Item<T>>) -> Live<T> {
        let (mut tensors, mut held) = (Vec::with_capacity(items.len()), Vec::new());
        let structured = items.iter().any(|item| item.tensor().is_none());
        let mut forms = Vec::with_capacity(if structured { items.len() } else { 0 });
        for item in items {
            let form = match item.held_if_long() {
                Item::Parts(OnnxValue::Tensor(x)) => {
                    tensors.push(x);
                    Form::Parts(OnnxValue::Tensor(()))
                }
                Item::Parts(item) => Form::Parts(item.map(&mut |x: &T| tensors.push(x.clone()))),
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

    /// Returns what a plan gave that was run with these values.
    fn after<B: Backend<Tensor = T> + ?Sized>(
        held: Vec<Held<T>>,
        plan: &Specialization<B>,
        results: PlanOutputs<T>,
    ) -> Result<Live<T>, Error> {
        let mut given: Vec<Option<Held<T>>> = held.into_iter().map(Some).collect();
        let mut held = Vec::with_capacity(plan.passed.len());
        for (at, from) in plan.passed.iter().enumerate() {
            let again = plan.passed.iter().skip(at + 1).any(|later| later == from);
            let sequence = given.get_mut(*from).and_then(|x| if again { x.clone() } else { x.take() });
            held.push(sequence.ok_or_else(too_few_tensors)?);
        }
        Ok(Live { tensors: results.into_vec(), held, structure: plan.results.clone() })
    }

    /// Puts the values together again.
    fn items(self) -> Result<Vec<Item<T>>, Error> {
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

    /// Puts the values together again, as others know them.
    fn values(self) -> Result<Vec<OnnxValue<T>>, Error> {
        Ok(self.items()?.into_iter().map(Item::value).collect())
    }
}

/// A loop under way.
struct Frame<B: Backend + ?Sized> {
    node: Arc<RepeatNode<Segment<B>>>,
    repetition: Repetition<B::Tensor>,
    /// What each body captures.
    captured: Vec<Vec<Item<B::Tensor>>>,
    /// What the segment after the loop takes beside the loop's results.
    kept: Vec<Item<B::Tensor>>,
    /// The bytes of these two.
    own: usize,
    /// The bytes of all this, as they were counted last.
    bytes: usize,
}

impl<B: Backend + ?Sized> Frame<B> {
    /// Counts what the loop keeps while its body runs.
    fn count(&mut self, ledger: &mut Ledger) -> Result<(), Error> {
        let bytes = self.own.saturating_add(self.repetition.bytes());
        let before = std::mem::replace(&mut self.bytes, bytes);
        ledger.keep(before, bytes)
    }

    /// Says in which loop an error happened.
    fn name<E>(&self, error: E) -> E
    where
        E: std::error::Error + From<Error> + Send + Sync + 'static,
    {
        self.node.name(error)
    }
}

impl<S> RepeatNode<S> {
    /// Says that an error happened in the loop.
    fn name<E>(&self, error: E) -> E
    where
        E: std::error::Error + From<Error> + Send + Sync + 'static,
    {
        Where::Node(self.at.node).name(&self.resolved.graph, error)
    }
}

/// What follows a plan that ran: the outputs of the graph, or the next plan that ran.
type Next<B> = ControlFlow<Live<<B as Backend>::Tensor>, Ran<B>>;

/// A plan that ran, and what it gave.
struct Ran<B: Backend + ?Sized> {
    specialization: Arc<Specialization<B>>,
    live: Live<B::Tensor>,
}

impl<B: Backend + ?Sized, N: Natives<B>> Program<B, N> {
    /// Runs a segment on values.
    fn enter<W: Watch>(
        &self,
        on: &B,
        segment: &Segment<B>,
        live: Live<B::Tensor>,
        state: &mut RunState,
        watch: &mut W,
    ) -> Result<Ran<B>, B::Error> {
        state.go_on()?;
        state.ledger.begin(&live.tensors)?;
        let held = live.held.iter().fold(0, |sum: usize, sequence| sum.saturating_add(sequence.bytes()));
        state.ledger.add(held)?;
        let refs: Vec<&B::Tensor> = live.tensors.iter().collect();
        let specialization = self.specialization(on, segment, &refs, &live.structure, watch)?;
        let tensors = self.run_specialization(on, &specialization, &refs, state, watch)?;
        let live = Live::after(live.held, &specialization, tensors)?;
        Ok(Ran { specialization, live })
    }

    /// Runs what follows a plan, to the end of the graph.
    fn follow<W: Watch>(
        &self,
        on: &B,
        first: Ran<B>,
        state: &mut RunState,
        watch: &mut W,
    ) -> Result<Live<B::Tensor>, B::Error> {
        let mut frames: Vec<Frame<B>> = Vec::new();
        let mut ran = first;
        loop {
            match self.step(on, &mut frames, ran, state, watch) {
                Ok(ControlFlow::Continue(next)) => ran = next,
                // A run that must end fails even if nothing is left to do.
                Ok(ControlFlow::Break(outputs)) => {
                    return state.go_on().map(|()| outputs).map_err(Into::into);
                }
                // What fails in a body fails in every loop around it.
                Err(error) => {
                    return Err(frames.iter().rev().fold(error, |error, frame| {
                        let index = frame.repetition.index();
                        frame.name(Error::Iteration { index, source: error.into() }.into())
                    }));
                }
            }
        }
    }

    /// Goes from a segment that ran to the next one; breaks with the outputs of the graph at its end.
    fn step<W: Watch>(
        &self,
        on: &B,
        frames: &mut Vec<Frame<B>>,
        Ran { specialization, live }: Ran<B>,
        state: &mut RunState,
        watch: &mut W,
    ) -> Result<Next<B>, B::Error> {
        let next = match &specialization.end {
            End::Done => {
                let Some(mut frame) = frames.pop() else { return Ok(ControlFlow::Break(live)) };
                let since = watch.mark();
                frame.repetition.absorb(on, live.items()?).map_err(|error| frame.name(error))?;
                frame.count(&mut state.ledger).map_err(|error| frame.name(error))?;
                watch.activity(since, Activity::Loop, Some((&frame.node.resolved, frame.node.at.node)));
                self.advance(on, frames, frame, state, watch)?
            }
            End::Read { next, .. } => self.enter(on, next, live, state, watch)?,
            End::Host(host) => {
                let items = run_host(on, &specialization, host, live.items()?, state, watch)
                    .map_err(|error| Where::Node(host.at.node).name(&specialization.resolved.graph, error))?;
                self.enter(on, &host.at.after, Live::new(items), state, watch)?
            }
            End::Sequence(node) => {
                let since = watch.mark();
                let resolved = &specialization.resolved;
                let items = run_sequence(on, resolved, node, live.items()?)
                    .map_err(|error| Where::Node(node.at.node).name(&resolved.graph, error))?;
                watch.activity(since, Activity::Host, Some((resolved, node.at.node)));
                self.enter(on, &node.at.after, Live::new(items), state, watch)?
            }
            End::Repeat(node) => {
                let since = watch.mark();
                let mut frame = begin(on, node, live.items()?).map_err(|error| node.name(error))?;
                frame.count(&mut state.ledger).map_err(|error| frame.name(error))?;
                watch.activity(since, Activity::Loop, Some((&node.resolved, node.at.node)));
                self.advance(on, frames, frame, state, watch)?
            }
        };
        Ok(ControlFlow::Continue(next))
    }

    /// Begins the next iteration of a loop, or goes on behind it.
    fn advance<W: Watch>(
        &self,
        on: &B,
        frames: &mut Vec<Frame<B>>,
        mut frame: Frame<B>,
        state: &mut RunState,
        watch: &mut W,
    ) -> Result<Ran<B>, B::Error> {
        let node = frame.node.clone();
        let of = Some((&node.resolved, node.at.node));
        let since = watch.mark();
        let given = frame.repetition.next(on).map_err(|error| node.name(error))?;
        watch.activity(since, Activity::Loop, of);
        if let Some(Round { body, given }) = given {
            state.iterate().map_err(|error| node.name(error))?;
            let at = node.bodies.iter().position(|own| own.name == body);
            let found = at.and_then(|at| Some((node.bodies.get(at)?, frame.captured.get(at)?)));
            let (body, captured) = found.ok_or_else(|| node.name(Error::excluded("a body of the loop")))?;
            let mut given: Vec<_> = given.into_iter().map(Item::held).collect();
            given.extend(captured.iter().cloned());
            watch.begin_round(frames.len(), &node.resolved, node.at.node);
            frames.push(frame);
            return self.enter(on, &body.first, Live::new(given), state, watch);
        }
        state.ledger.keep(frame.bytes, 0)?;
        let mut items = frame.kept;
        let since = watch.mark();
        let results = frame.repetition.finish(on).map_err(|error| node.name(error))?;
        let mut results = results.into_iter().map(Some).collect::<Vec<_>>();
        watch.activity(since, Activity::Loop, of);
        watch.end_rounds(frames.len());
        for &position in &node.at.results {
            let result = results.get_mut(position).and_then(Option::take);
            let missing = || node.name(node.at.too_few(&node.resolved.graph, position));
            items.push(result.ok_or_else(missing)?.held());
        }
        self.enter(on, &node.at.after, Live::new(items), state, watch)
    }

    /// Runs with tensors, and gives tensors.
    fn run_tensors(&self, on: &B, inputs: &[Option<&B::Tensor>]) -> Result<PlanOutputs<B::Tensor>, B::Error> {
        // The common case, one segment and every input given, clones no tensor.
        let given: Option<SmallVec<[&B::Tensor; 8]>> =
            (inputs.len() == self.inputs.len()).then(|| inputs.iter().copied().collect()).flatten();
        let live = match given {
            Some(given) => {
                self.declared.check(inputs)?;
                let state = &mut RunState::new(self.limits);
                state.ledger.begin(given.iter().copied())?;
                let specialization =
                    self.specialization(on, &self.first, &given, &None, &mut Watcher(None))?;
                let tensors = self.run_specialization(on, &specialization, &given, state, &mut Silent)?;
                if matches!(specialization.end, End::Done) && specialization.results.is_none() {
                    state.go_on()?;
                    return Ok(tensors);
                }
                let live = Live::after(Vec::new(), &specialization, tensors)?;
                self.follow(on, Ran { specialization, live }, state, &mut Watcher(None))?
            }
            None => {
                let items: Vec<Option<OnnxValue<&B::Tensor>>> =
                    inputs.iter().map(|x| x.map(OnnxValue::Tensor)).collect();
                self.run_live(on, &items, &mut Watcher(None))?
            }
        };
        if let Some(items) = &live.structure {
            for (port, item) in self.outputs.iter().zip(items.iter()) {
                let got = match item {
                    Form::Parts(OnnxValue::Tensor(())) => continue,
                    Form::Parts(item) => item.kind(),
                    Form::Held => "a sequence",
                };
                return Err(Error::NotTensor { name: port.name.clone(), got }.into());
            }
        }
        Ok(live.tensors.into())
    }

    /// Runs with items, some of them defaults.
    fn run_live<W: Watch>(
        &self,
        on: &B,
        inputs: &[Option<OnnxValue<&B::Tensor>>],
        watch: &mut W,
    ) -> Result<Live<B::Tensor>, B::Error> {
        self.declared.check_items(inputs)?;
        let mut items = Vec::with_capacity(self.inputs.len());
        for (position, (port, value)) in self.inputs.iter().zip(&self.resolved.graph.inputs).enumerate() {
            let default = self.resolved.constant(*value)?;
            if let Some(item) = inputs.get(position).and_then(Option::as_ref) {
                items.push(Item::Parts(item.map(&mut |x: &&B::Tensor| (*x).clone())));
            } else if let Some((_, data)) = default {
                let since = watch.mark();
                let failed = |error: B::Error| initializer(&self.resolved.graph, *value, data.dtype(), error);
                items.push(Item::Parts(OnnxValue::Tensor(on.constant(data).map_err(failed)?)));
                watch.activity(since, Activity::Transfer, None);
            } else if matches!(port.ty, ValueType::Optional(_)) {
                items.push(Item::Parts(OnnxValue::Absent));
            } else {
                let expected = self.inputs.iter().filter(|p| !p.optional).map(|p| p.name.clone()).collect();
                return Err(Error::MissingInput { name: port.name.clone(), expected }.into());
            }
        }
        let state = &mut RunState::new(self.limits);
        let first = self.enter(on, &self.first, Live::new(items), state, watch)?;
        self.follow(on, first, state, watch)
    }
}

impl<S> Between<S> {
    /// Says that the node gave too few results.
    fn too_few(&self, graph: &Graph, position: usize) -> Error {
        let op = graph.nodes.get(self.node).map_or_else(String::new, |n| n.op_type.clone());
        Error::Results { op, expected: position + 1, got: position }
    }

    /// Picks the values that the segment after the node takes over.
    fn kept<T: Clone>(&self, live: &Table<LiveIndex, Item<T>>) -> Result<Vec<Item<T>>, Error> {
        picked(live, &self.kept)
    }
}

/// Picks values.
fn picked<T: Clone>(live: &Table<LiveIndex, Item<T>>, indices: &[LiveIndex]) -> Result<Vec<Item<T>>, Error> {
    indices.iter().map(|index| live.get(*index).cloned()).collect()
}

/// Runs a function on host tensors, and returns what the next segment takes.
fn run_host<B: Backend + ?Sized, S, W: Watch>(
    on: &B,
    specialization: &Specialization<B>,
    host: &HostNode<S>,
    live: Vec<Item<B::Tensor>>,
    state: &mut RunState,
    watch: &mut W,
) -> Result<Vec<Item<B::Tensor>>, B::Error> {
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
                let failed = |error: B::Error| Error::Transfer {
                    value: value.map(|v| resolved.graph.name_of(v).to_owned()).unwrap_or_default(),
                    dtype: x.dtype(),
                    source: error.into(),
                };
                Some(on.to_host(x).map_err(failed)?)
            }
            // An optional that holds nothing is left out; tracing refused everything else.
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
        let failed = |error: B::Error| Error::Constant { dtype: data.dtype(), source: error.into() };
        items.push(Item::Parts(OnnxValue::Tensor(on.constant(data).map_err(failed)?)));
    }
    watch.activity(since, Activity::Transfer, of);
    Ok(items)
}

/// Begins a loop.
fn begin<B: Backend + ?Sized>(
    on: &B,
    node: &Arc<RepeatNode<Segment<B>>>,
    live: Vec<Item<B::Tensor>>,
) -> Result<Frame<B>, B::Error> {
    // Sequences in loops are passed on as they are, so that there is one plan for all lengths.
    let live: Table<LiveIndex, _> = live.into_iter().map(Item::held).collect();
    let captured: Vec<Vec<_>> =
        node.bodies.iter().map(|body| picked(&live, &body.captures)).collect::<Result<_, _>>()?;
    let (kept, operands) = taken(on, &node.at, live)?;
    let own =
        captured.iter().flatten().chain(&kept).fold(0, |sum: usize, item| sum.saturating_add(item.bytes()));
    let of = node.resolved.node(node.at.node)?;
    let repetition = Repetition::begin(on, node.repeat, of, operands)?;
    Ok(Frame { repetition, captured, kept, own, node: node.clone(), bytes: 0 })
}

/// What the segment behind a node takes over, and the operands of the node.
type Taken<T> = (Vec<Item<T>>, Vec<Option<Item<T>>>);

/// Takes the operands of a node out of what the segment before it gave. An operand that nothing else takes is moved, so that a
/// sequence can be changed in place.
fn taken<B: Backend + ?Sized, S>(
    on: &B,
    at: &Between<S>,
    live: Table<LiveIndex, Item<B::Tensor>>,
) -> Result<Taken<B::Tensor>, B::Error> {
    let kept = at.kept(&live)?;
    let mut live: Table<LiveIndex, Option<_>> = live.into_entries().into_iter().map(Some).collect();
    let mut operands = Vec::with_capacity(at.operands.len());
    for (position, place) in at.operands.iter().enumerate() {
        operands.push(match place {
            Place::Absent => None,
            Place::Known(data) => {
                let failed = |error: B::Error| Error::Constant { dtype: data.dtype(), source: error.into() };
                Some(Item::Parts(OnnxValue::Tensor(on.constant(data).map_err(failed)?)))
            }
            Place::Live(index) => {
                let same = |later: &Place| matches!(later, Place::Live(later) if later == index);
                if at.operands.iter().skip(position + 1).any(same) {
                    live.get(*index)?.clone()
                } else {
                    live.get_mut(*index)?.take()
                }
            }
        });
    }
    Ok((kept, operands))
}

/// Runs a node that looks into a sequence, and returns what the next segment takes.
fn run_sequence<B: Backend + ?Sized, S>(
    on: &B,
    resolved: &Resolved,
    node: &SequenceNode<S>,
    live: Vec<Item<B::Tensor>>,
) -> Result<Vec<Item<B::Tensor>>, B::Error> {
    let (mut items, operands) = taken(on, &node.at, live.into_iter().collect())?;
    let result = node.code.run(on, resolved.node(node.at.node)?, operands)?;
    // Each of these operators has one result, which may go unread.
    if !node.at.results.is_empty() {
        items.push(result);
    }
    Ok(items)
}

impl<B: Backend + ?Sized, N: Natives<B> + Send + Sync> Executable<B> for Program<B, N> {
    fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    fn run(&self, on: &B, inputs: &[Option<&B::Tensor>]) -> Result<Vec<B::Tensor>, B::Error> {
        Caller::within(&self.caller, || Ok(self.run_tensors(on, inputs)?.into_vec()))
    }

    fn run_into(
        &self,
        on: &B,
        inputs: &[Option<&B::Tensor>],
        outputs: &mut [Option<&mut ResultBuffer<'_>>],
    ) -> Result<(), B::Error> {
        begin_buffers(&self.outputs, outputs)?;
        let results = Caller::within(&self.caller, || self.run_tensors(on, inputs))?;
        fill_buffers(on, &self.outputs, &results, outputs)
    }

    fn compiled_module(&self) -> Result<Option<Module>, B::Error> {
        Ok(Some(Module::with_plans(self.resolved.graph.clone(), self.saved_plans()?)))
    }

    fn run_items(
        &self,
        on: &B,
        inputs: &[Option<OnnxValue<&B::Tensor>>],
    ) -> Result<Vec<OnnxValue<B::Tensor>>, B::Error> {
        Caller::within(&self.caller, || Ok(self.run_live(on, inputs, &mut Watcher(None))?.values()?))
    }

    fn run_profiled(
        &self,
        on: &B,
        inputs: &[Option<OnnxValue<&B::Tensor>>],
        profile: &mut Profile,
    ) -> Result<Vec<OnnxValue<B::Tensor>>, B::Error> {
        Caller::within(&self.caller, || {
            profile.measure(|profile| Ok(self.run_live(on, inputs, &mut Watcher(Some(profile)))?.values()?))
        })
    }
}
