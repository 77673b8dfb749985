//! Runs a compiled graph, segment by segment, and what runs between segments.
//!
//! Loops that could not be unrolled are frames on a stack of their own, so that nesting costs no native stack.

use super::constants::Natives;
use super::end::{Place, What};
use super::failure::{Where, initializer};
use super::program::{BetweenSegments, Next, Program, Segment, Specialization};
use super::repetition::Repetition;
use super::resolve::Resolved;
use super::segment::{Structure, filled};
use super::watch::{Silent, Watch};
use super::{Activity, Profile};
use crate::contract::Caller;
use crate::onnx::{Call, OnnxValue};
use crate::{Backend, Error, Executable, Port, Tensor};
use bb_ir::TensorData;
use bb_ir::graph::ValueType;
use std::sync::Arc;

/// Values that go into a segment or come out of one, tensor by tensor.
struct Live<T> {
    tensors: Vec<T>,
    structure: Structure,
}

impl<T: Clone> Live<T> {
    fn new(items: &[OnnxValue<T>]) -> Live<T> {
        let mut tensors = Vec::with_capacity(items.len());
        items.iter().for_each(|item| item.visit(&mut |x: &T| tensors.push(x.clone())));
        let structured = items.iter().any(|item| !matches!(item, OnnxValue::Tensor(_)));
        let structure = structured.then(|| items.iter().map(|item| item.map(&mut |_| ())).collect());
        Live { tensors, structure }
    }

    fn items(self) -> Vec<OnnxValue<T>> {
        let mut tensors = self.tensors.into_iter();
        match self.structure {
            None => tensors.map(OnnxValue::Tensor).collect(),
            Some(items) => items.iter().filter_map(|item| filled(item, &mut tensors)).collect(),
        }
    }
}

/// A loop under way.
struct Frame<T> {
    /// The plan before the loop, which holds the loop.
    before: Arc<Specialization<T>>,
    repetition: Repetition<T>,
    /// What the body captures.
    captured: Vec<OnnxValue<T>>,
    /// What the segment after the loop takes beside the loop's results.
    kept: Vec<OnnxValue<T>>,
}

impl<T> Frame<T> {
    /// Returns the loop's node.
    fn node(&self) -> Option<(&Arc<Resolved>, usize)> {
        match &self.before.next {
            Next::Between(between) => Some((&self.before.resolved, between.node.node)),
            Next::Done | Next::Segment(_) => None,
        }
    }

    /// Says in which loop an error happened.
    fn name<E>(&self, error: E) -> E
    where
        E: std::error::Error + From<Error> + Send + Sync + 'static,
    {
        match &self.before.next {
            Next::Between(between) => Where::Node(between.node.node).name(&self.before.resolved.graph, error),
            Next::Done | Next::Segment(_) => error,
        }
    }
}

/// Returns the body of the loop after a plan.
fn body<T>(before: &Specialization<T>) -> Result<&Segment<T>, Error> {
    match &before.next {
        Next::Between(between) => between.body.as_ref().ok_or_else(lost),
        Next::Done | Next::Segment(_) => Err(lost()),
    }
}

/// Says that a plan does not fit itself, which no input can bring about.
fn lost() -> Error {
    Error::Operand { op: "plan", index: 0, expected: "a value that the plan made" }
}

/// A plan that ran, and what it gave.
struct Ran<T> {
    specialization: Arc<Specialization<T>>,
    live: Live<T>,
}

impl<T: Tensor, N> Program<T, N> {
    /// Runs a segment on values.
    fn enter<B, W: Watch>(
        &self,
        on: &B,
        segment: &Segment<T>,
        live: &Live<T>,
        watch: &mut W,
    ) -> Result<Ran<T>, B::Error>
    where
        B: Backend<Tensor = T> + ?Sized,
        N: Natives<B>,
    {
        let refs: Vec<&T> = live.tensors.iter().collect();
        let specialization = self.specialization(on, segment, &refs, &live.structure, watch)?;
        let tensors = self.run_specialization(on, &specialization, &refs, watch)?;
        let live = Live { tensors, structure: specialization.results.clone() };
        Ok(Ran { specialization, live })
    }

    /// Runs what follows a plan, to the end of the graph.
    fn follow<B, W: Watch>(&self, on: &B, first: Ran<T>, watch: &mut W) -> Result<Live<T>, B::Error>
    where
        B: Backend<Tensor = T> + ?Sized,
        N: Natives<B>,
    {
        let mut frames: Vec<Frame<T>> = Vec::new();
        let mut iterations = 0;
        let mut ran = first;
        loop {
            if matches!(ran.specialization.next, Next::Done) && frames.is_empty() {
                return Ok(ran.live);
            }
            let next = self.step(on, &mut frames, &mut iterations, ran, watch);
            // What fails in a body fails in every loop around it.
            ran = next.map_err(|error| {
                frames.iter().rev().fold(error, |error, frame| {
                    let index = frame.repetition.index();
                    frame.name(Error::Iteration { index, source: error.into() }.into())
                })
            })?;
        }
    }

    /// Runs what follows a plan: a segment, or a node between segments and the segment after it.
    fn step<B, W: Watch>(
        &self,
        on: &B,
        frames: &mut Vec<Frame<T>>,
        iterations: &mut usize,
        Ran { specialization, live }: Ran<T>,
        watch: &mut W,
    ) -> Result<Ran<T>, B::Error>
    where
        B: Backend<Tensor = T> + ?Sized,
        N: Natives<B>,
    {
        match &specialization.next {
            Next::Segment(segment) => self.enter(on, segment, &live, watch),
            Next::Between(between) => {
                let here = Where::Node(between.node.node);
                let failed = |error| here.name(&specialization.resolved.graph, error);
                match between.node.what {
                    What::Host(_) => {
                        let items =
                            host(on, &specialization, between, live.items(), watch).map_err(failed)?;
                        self.enter(on, &between.after, &Live::new(&items), watch)
                    }
                    What::Repeat { .. } => {
                        let since = watch.mark();
                        let frame = begin(on, &specialization, between, live.items()).map_err(failed)?;
                        watch.activity(since, Activity::Loop, frame.node());
                        self.advance(on, frames, frame, iterations, watch)
                    }
                }
            }
            Next::Done => {
                let Some(mut frame) = frames.pop() else { return Err(lost().into()) };
                let since = watch.mark();
                frame.repetition.absorb(on, live.items()).map_err(|error| frame.name(error))?;
                watch.activity(since, Activity::Loop, frame.node());
                self.advance(on, frames, frame, iterations, watch)
            }
        }
    }

    /// Begins the next iteration of a loop, or goes on behind it.
    fn advance<B, W: Watch>(
        &self,
        on: &B,
        frames: &mut Vec<Frame<T>>,
        mut frame: Frame<T>,
        iterations: &mut usize,
        watch: &mut W,
    ) -> Result<Ran<T>, B::Error>
    where
        B: Backend<Tensor = T> + ?Sized,
        N: Natives<B>,
    {
        let since = watch.mark();
        let given = frame.repetition.next(on).map_err(|error| frame.name(error))?;
        watch.activity(since, Activity::Loop, frame.node());
        if let Some(mut given) = given {
            *iterations += 1;
            if *iterations > self.iterations {
                let (what, name, limit) = ("iterations of loops", Some("iterations"), self.iterations);
                let error = Error::from(bb_ir::Error::Limit { what, name, got: *iterations, limit });
                return Err(frame.name(error.into()));
            }
            given.extend(frame.captured.iter().cloned());
            if let Some((resolved, node)) = frame.node() {
                watch.begin_round(frames.len(), resolved, node);
            }
            let before = frame.before.clone();
            frames.push(frame);
            return self.enter(on, body(&before)?, &Live::new(&given), watch);
        }
        let before = frame.before.clone();
        let Next::Between(between) = &before.next else { return Err(lost().into()) };
        let failed = |error| Where::Node(between.node.node).name(&before.resolved.graph, error);
        let mut items = frame.kept;
        let since = watch.mark();
        let results = frame.repetition.finish(on).map_err(failed)?;
        let mut results = results.into_iter().map(Some).collect::<Vec<_>>();
        watch.activity(since, Activity::Loop, Some((&before.resolved, between.node.node)));
        watch.end_rounds(frames.len());
        for &position in &between.node.results {
            let result = results.get_mut(position).and_then(Option::take);
            items.push(result.ok_or_else(|| failed(too_few(&before, between, position).into()))?);
        }
        self.enter(on, &between.after, &Live::new(&items), watch)
    }

    /// Runs with tensors, and gives tensors.
    fn run_tensors<B>(&self, on: &B, inputs: &[Option<&T>]) -> Result<Vec<T>, B::Error>
    where
        B: Backend<Tensor = T> + ?Sized,
        N: Natives<B>,
    {
        // The common case, one segment and every input given, clones no tensor.
        let given: Option<Vec<&T>> =
            (inputs.len() == self.inputs.len()).then(|| inputs.iter().copied().collect()).flatten();
        let live = match given {
            Some(given) => {
                self.declared.check(inputs)?;
                let specialization = self.specialization(on, &self.first, &given, &None, &mut Silent)?;
                let tensors = self.run_specialization(on, &specialization, &given, &mut Silent)?;
                if matches!(specialization.next, Next::Done) && specialization.results.is_none() {
                    return Ok(tensors);
                }
                let live = Live { tensors, structure: specialization.results.clone() };
                self.follow(on, Ran { specialization, live }, &mut Silent)?
            }
            None => {
                let items: Vec<Option<OnnxValue<&T>>> =
                    inputs.iter().map(|x| x.map(OnnxValue::Tensor)).collect();
                self.run_live(on, &items, &mut Silent)?
            }
        };
        if let Some(items) = &live.structure {
            for (port, item) in self.outputs.iter().zip(items.iter()) {
                if !matches!(item, OnnxValue::Tensor(())) {
                    return Err(Error::NotTensor { name: port.name.clone(), got: item.kind() }.into());
                }
            }
        }
        Ok(live.tensors)
    }

    /// Runs with items, some of them defaults.
    fn run_live<B, W: Watch>(
        &self,
        on: &B,
        inputs: &[Option<OnnxValue<&T>>],
        watch: &mut W,
    ) -> Result<Live<T>, B::Error>
    where
        B: Backend<Tensor = T> + ?Sized,
        N: Natives<B>,
    {
        self.declared.check_items(inputs)?;
        let mut items = Vec::with_capacity(self.inputs.len());
        for (position, (port, value)) in self.inputs.iter().zip(&self.resolved.graph.inputs).enumerate() {
            let default = self.resolved.constant(*value)?;
            if let Some(item) = inputs.get(position).and_then(Option::as_ref) {
                items.push(item.map(&mut |x: &&T| (*x).clone()));
            } else if let Some((_, data)) = default {
                let since = watch.mark();
                let failed = |error: B::Error| initializer(&self.resolved.graph, *value, data.dtype(), error);
                items.push(OnnxValue::Tensor(on.constant(data).map_err(failed)?));
                watch.activity(since, Activity::Transfer, None);
            } else if matches!(port.ty, ValueType::Optional(_)) {
                items.push(OnnxValue::Absent);
            } else {
                let expected = self.inputs.iter().filter(|p| !p.optional).map(|p| p.name.clone()).collect();
                return Err(Error::MissingInput { name: port.name.clone(), expected }.into());
            }
        }
        let first = self.enter(on, &self.first, &Live::new(&items), watch)?;
        self.follow(on, first, watch)
    }
}

/// Says that a node gave too few results.
fn too_few<T>(specialization: &Specialization<T>, between: &BetweenSegments<T>, position: usize) -> Error {
    let graph = &specialization.resolved.graph;
    let op = graph.nodes.get(between.node.node).map_or_else(String::new, |n| n.op_type.clone());
    Error::Results { op, expected: position + 1, got: position }
}

/// Runs a function on host tensors, and returns what the next segment takes.
fn host<B: Backend + ?Sized, W: Watch>(
    on: &B,
    specialization: &Specialization<B::Tensor>,
    between: &BetweenSegments<B::Tensor>,
    live: Vec<OnnxValue<B::Tensor>>,
    watch: &mut W,
) -> Result<Vec<OnnxValue<B::Tensor>>, B::Error> {
    let graph = &specialization.resolved.graph;
    let at = &between.node;
    let (Some(node), What::Host(function)) = (graph.nodes.get(at.node), &at.what) else {
        return Err(lost().into());
    };
    let of = Some((&specialization.resolved, at.node));
    let since = watch.mark();
    let mut operands: Vec<Option<TensorData>> = Vec::with_capacity(at.operands.len());
    for place in &at.operands {
        operands.push(match place {
            Place::Absent => None,
            Place::Known(data) => Some(data.clone()),
            Place::Live(position) => match live.get(*position) {
                Some(OnnxValue::Tensor(x)) => {
                    let value = node.inputs.get(operands.len()).copied().flatten();
                    let failed = |error: B::Error| Error::Transfer {
                        value: value.map(|v| graph.name_of(v).to_owned()).unwrap_or_default(),
                        dtype: x.dtype(),
                        source: error.into(),
                    };
                    Some(on.to_host(x).map_err(failed)?)
                }
                _ => None,
            },
        });
    }
    watch.activity(since, Activity::Transfer, of);
    let since = watch.mark();
    let results = function(&Call::new(node, &operands))?;
    watch.activity(since, Activity::Host, of);
    let since = watch.mark();
    let mut items: Vec<OnnxValue<B::Tensor>> = at.kept.iter().filter_map(|i| live.get(*i).cloned()).collect();
    for &position in &at.results {
        let data = results.get(position).and_then(Option::as_ref);
        let data = data.ok_or_else(|| too_few(specialization, between, position))?;
        let failed = |error: B::Error| Error::Constant { dtype: data.dtype(), source: error.into() };
        items.push(OnnxValue::Tensor(on.constant(data).map_err(failed)?));
    }
    watch.activity(since, Activity::Transfer, of);
    Ok(items)
}

/// Begins a loop.
fn begin<B: Backend + ?Sized>(
    on: &B,
    before: &Arc<Specialization<B::Tensor>>,
    between: &BetweenSegments<B::Tensor>,
    live: Vec<OnnxValue<B::Tensor>>,
) -> Result<Frame<B::Tensor>, B::Error> {
    let graph = &before.resolved.graph;
    let at = &between.node;
    let (Some(node), What::Repeat { repeat, body, captures, .. }) = (graph.nodes.get(at.node), &at.what)
    else {
        return Err(lost().into());
    };
    let mut operands = Vec::with_capacity(at.operands.len());
    for place in &at.operands {
        operands.push(match place {
            Place::Absent => None,
            Place::Known(data) => {
                let failed = |error: B::Error| Error::Constant { dtype: data.dtype(), source: error.into() };
                Some(OnnxValue::Tensor(on.constant(data).map_err(failed)?))
            }
            Place::Live(position) => live.get(*position).cloned(),
        });
    }
    let picked = |positions: &[usize]| positions.iter().filter_map(|i| live.get(*i).cloned()).collect();
    Ok(Frame {
        before: before.clone(),
        repetition: Repetition::begin(on, *repeat, node, &body.graph, operands)?,
        captured: picked(captures),
        kept: picked(&at.kept),
    })
}

impl<T, N, B> Executable<B> for Program<T, N>
where
    T: Tensor,
    B: Backend<Tensor = T> + ?Sized,
    N: Natives<B> + Send + Sync,
{
    fn inputs(&self) -> &[Port] {
        &self.inputs
    }

    fn outputs(&self) -> &[Port] {
        &self.outputs
    }

    fn run(&self, on: &B, inputs: &[Option<&B::Tensor>]) -> Result<Vec<B::Tensor>, B::Error> {
        Caller::within(&self.caller, || self.run_tensors(on, inputs))
    }

    fn run_items(
        &self,
        on: &B,
        inputs: &[Option<OnnxValue<&B::Tensor>>],
    ) -> Result<Vec<OnnxValue<B::Tensor>>, B::Error> {
        Caller::within(&self.caller, || Ok(self.run_live(on, inputs, &mut Silent)?.items()))
    }

    fn run_profiled(
        &self,
        on: &B,
        inputs: &[Option<OnnxValue<&B::Tensor>>],
        profile: &mut Profile,
    ) -> Result<Vec<OnnxValue<B::Tensor>>, B::Error> {
        Caller::within(&self.caller, || {
            profile.measure(|profile| Ok(self.run_live(on, inputs, profile)?.items()))
        })
    }
}
