//! Runs a compiled graph, stage by stage, and what runs between stages.
//!
//! Loops that could not be unrolled are frames on a stack of their own, so that nesting costs no native stack.

use super::constants::Natives;
use super::end::{Place, What};
use super::program::{BetweenStages, Next, Program, Stage, Variant};
use super::repetition::Repetition;
use super::resolve::Resolved;
use super::stage::{Structure, filled, in_node};
use super::watch::{Silent, Watch};
use super::{Activity, Profile};
use crate::contract::Caller;
use crate::onnx::{Call, Item};
use crate::{Backend, Error, Executable, Port, Tensor};
use bb_ir::TensorData;
use bb_ir::graph::ValueType;
use std::sync::Arc;

/// Values that go into a stage or come out of one, tensor by tensor.
struct Live<T> {
    tensors: Vec<T>,
    structure: Structure,
}

impl<T: Clone> Live<T> {
    fn new(items: &[Item<T>]) -> Live<T> {
        let mut tensors = Vec::with_capacity(items.len());
        items.iter().for_each(|item| item.visit(&mut |x: &T| tensors.push(x.clone())));
        let structured = items.iter().any(|item| !matches!(item, Item::Tensor(_)));
        let structure = structured.then(|| items.iter().map(|item| item.map(&mut |_| ())).collect());
        Live { tensors, structure }
    }

    fn items(self) -> Vec<Item<T>> {
        let mut tensors = self.tensors.into_iter();
        match self.structure {
            None => tensors.map(Item::Tensor).collect(),
            Some(items) => items.iter().filter_map(|item| filled(item, &mut tensors)).collect(),
        }
    }
}

/// A loop under way.
struct Frame<T> {
    /// The plan before the loop, which holds the loop.
    before: Arc<Variant<T>>,
    repetition: Repetition<T>,
    /// What the body captures.
    captured: Vec<Item<T>>,
    /// What the stage after the loop takes beside the loop's results.
    kept: Vec<Item<T>>,
}

impl<T> Frame<T> {
    /// Returns the loop's node.
    fn node(&self) -> Option<(&Arc<Resolved>, usize)> {
        match &self.before.next {
            Next::Between(between) => Some((&self.before.resolved, between.node.node)),
            Next::Done | Next::Stage(_) => None,
        }
    }

    fn body(&self) -> Result<&Stage<T>, Error> {
        match &self.before.next {
            Next::Between(between) => between.body.as_ref().ok_or_else(lost),
            Next::Done | Next::Stage(_) => Err(lost()),
        }
    }
}

/// Says that a plan does not fit itself, which no input can bring about.
fn lost() -> Error {
    Error::Operand { op: "plan", index: 0, expected: "a value that the plan made" }
}

/// A plan that ran, and what it gave.
struct Ran<T> {
    variant: Arc<Variant<T>>,
    live: Live<T>,
}

impl<T: Tensor, N> Program<T, N> {
    /// Runs a stage on values.
    fn enter<B, W: Watch>(
        &self,
        on: &B,
        stage: &Stage<T>,
        live: &Live<T>,
        watch: &mut W,
    ) -> Result<Ran<T>, B::Error>
    where
        B: Backend<Tensor = T> + ?Sized,
        N: Natives<B>,
    {
        let refs: Vec<&T> = live.tensors.iter().collect();
        let variant = self.variant(on, stage, &refs, &live.structure, watch)?;
        let tensors = self.run_variant(on, &variant, &refs, watch)?;
        let live = Live { tensors, structure: variant.results.clone() };
        Ok(Ran { variant, live })
    }

    /// Runs what follows a plan, to the end of the graph.
    fn follow<B, W: Watch>(&self, on: &B, first: Ran<T>, watch: &mut W) -> Result<Live<T>, B::Error>
    where
        B: Backend<Tensor = T> + ?Sized,
        N: Natives<B>,
    {
        let mut frames: Vec<Frame<T>> = Vec::new();
        let mut rounds = 0;
        let Ran { mut variant, mut live } = first;
        loop {
            let ran = match &variant.next {
                Next::Stage(stage) => self.enter(on, stage, &live, watch)?,
                Next::Between(between) => match between.node.what {
                    What::Host(_) => {
                        let items = host(on, &variant, between, live.items(), watch)?;
                        self.enter(on, &between.after, &Live::new(&items), watch)?
                    }
                    What::Repeat { .. } => {
                        let since = watch.mark();
                        let frame = begin(on, &variant, between, live.items())?;
                        watch.activity(since, Activity::Loop, frame.node());
                        self.advance(on, &mut frames, frame, &mut rounds, watch)?
                    }
                },
                Next::Done => {
                    let Some(mut frame) = frames.pop() else { return Ok(live) };
                    let since = watch.mark();
                    frame.repetition.absorb(on, live.items())?;
                    watch.activity(since, Activity::Loop, frame.node());
                    self.advance(on, &mut frames, frame, &mut rounds, watch)?
                }
            };
            Ran { variant, live } = ran;
        }
    }

    /// Begins the next round of a loop, or goes on behind it.
    fn advance<B, W: Watch>(
        &self,
        on: &B,
        frames: &mut Vec<Frame<T>>,
        mut frame: Frame<T>,
        rounds: &mut usize,
        watch: &mut W,
    ) -> Result<Ran<T>, B::Error>
    where
        B: Backend<Tensor = T> + ?Sized,
        N: Natives<B>,
    {
        let since = watch.mark();
        let next = frame.repetition.next(on)?;
        watch.activity(since, Activity::Loop, frame.node());
        if let Some(mut given) = next {
            *rounds += 1;
            if *rounds > self.rounds {
                let (what, name, limit) = ("rounds of loops", Some("rounds"), self.rounds);
                return Err(Error::from(bb_ir::Error::Limit { what, name, got: *rounds, limit }).into());
            }
            given.extend(frame.captured.iter().cloned());
            if let Some((resolved, node)) = frame.node() {
                watch.begin_round(frames.len(), resolved, node);
            }
            let ran = self.enter(on, frame.body()?, &Live::new(&given), watch)?;
            frames.push(frame);
            return Ok(ran);
        }
        let before = frame.before.clone();
        let Next::Between(between) = &before.next else { return Err(lost().into()) };
        let mut items = frame.kept;
        let since = watch.mark();
        let mut results = frame.repetition.finish(on)?.into_iter().map(Some).collect::<Vec<_>>();
        watch.activity(since, Activity::Loop, Some((&before.resolved, between.node.node)));
        watch.end_rounds(frames.len());
        for &position in &between.node.results {
            let result = results.get_mut(position).and_then(Option::take);
            items.push(result.ok_or_else(|| too_few(&before, between, position))?);
        }
        self.enter(on, &between.after, &Live::new(&items), watch)
    }

    /// Runs with tensors, and gives tensors.
    fn run_tensors<B>(&self, on: &B, inputs: &[Option<&T>]) -> Result<Vec<T>, B::Error>
    where
        B: Backend<Tensor = T> + ?Sized,
        N: Natives<B>,
    {
        // The common case, one stage and every input given, clones no tensor.
        let given: Option<Vec<&T>> =
            (inputs.len() == self.inputs.len()).then(|| inputs.iter().copied().collect()).flatten();
        let live = match given {
            Some(given) => {
                let variant = self.variant(on, &self.first, &given, &None, &mut Silent)?;
                let tensors = self.run_variant(on, &variant, &given, &mut Silent)?;
                if matches!(variant.next, Next::Done) && variant.results.is_none() {
                    return Ok(tensors);
                }
                let live = Live { tensors, structure: variant.results.clone() };
                self.follow(on, Ran { variant, live }, &mut Silent)?
            }
            None => {
                let items: Vec<Option<Item<&T>>> = inputs.iter().map(|x| x.map(Item::Tensor)).collect();
                self.run_live(on, &items, &mut Silent)?
            }
        };
        if let Some(items) = &live.structure {
            for (port, item) in self.outputs.iter().zip(items.iter()) {
                if !matches!(item, Item::Tensor(())) {
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
        inputs: &[Option<Item<&T>>],
        watch: &mut W,
    ) -> Result<Live<T>, B::Error>
    where
        B: Backend<Tensor = T> + ?Sized,
        N: Natives<B>,
    {
        let mut items = Vec::with_capacity(self.inputs.len());
        for (position, (port, value)) in self.inputs.iter().zip(&self.resolved.graph.inputs).enumerate() {
            let default = || {
                let index = self.resolved.weight(*value)? as usize;
                self.resolved.graph.constants.get(index).map(|(_, data)| data)
            };
            if let Some(item) = inputs.get(position).and_then(Option::as_ref) {
                check(&port.name, &port.ty, item)?;
                items.push(item.map(&mut |x: &&T| (*x).clone()));
            } else if let Some(data) = default() {
                let since = watch.mark();
                items.push(Item::Tensor(on.constant(data)?));
                watch.activity(since, Activity::Transfer, None);
            } else if matches!(port.ty, ValueType::Optional(_)) {
                items.push(Item::Absent);
            } else {
                let expected = self.inputs.iter().filter(|p| !p.optional).map(|p| p.name.clone()).collect();
                return Err(Error::MissingInput { name: port.name.clone(), expected }.into());
            }
        }
        let first = self.enter(on, &self.first, &Live::new(&items), watch)?;
        self.follow(on, first, watch)
    }
}

/// Checks that an input is of the kind and element type that the graph declares.
fn check<T: Tensor>(name: &str, ty: &ValueType, item: &Item<&T>) -> Result<(), Error> {
    let expected = match (ty, item) {
        (ValueType::Tensor { dtype, .. }, Item::Tensor(x)) if *dtype != x.dtype() => {
            return Err(Error::InputType { name: name.to_owned(), expected: *dtype, got: x.dtype() });
        }
        (ValueType::Sequence(of), Item::Sequence(items)) => {
            return items.iter().try_for_each(|item| check(name, of, item));
        }
        (ValueType::Tensor { .. }, Item::Tensor(_))
        | (ValueType::Map(..), Item::Map { .. })
        | (ValueType::Optional(_), Item::Absent)
        | (ValueType::Unknown, _) => return Ok(()),
        (ValueType::Optional(of), item) => return check(name, of, item),
        (ValueType::Tensor { .. }, _) => "a tensor",
        (ValueType::Sequence(_), _) => "a sequence",
        (ValueType::Map(..), _) => "a map",
    };
    let (what, problem) = (format!("input `{name}`"), format!("is {}, expected {expected}", item.kind()));
    Err(Error::Operator { op: "run".to_owned(), what, problem })
}

/// Says that a node gave too few results.
fn too_few<T>(variant: &Variant<T>, between: &BetweenStages<T>, position: usize) -> Error {
    let graph = &variant.resolved.graph;
    let op = graph.nodes.get(between.node.node).map_or_else(String::new, |n| n.op_type.clone());
    in_node(graph, between.node.node, Error::Results { op, expected: position + 1, got: position })
}

/// Runs a function on host tensors, and returns what the next stage takes.
fn host<B: Backend + ?Sized, W: Watch>(
    on: &B,
    variant: &Variant<B::Tensor>,
    between: &BetweenStages<B::Tensor>,
    live: Vec<Item<B::Tensor>>,
    watch: &mut W,
) -> Result<Vec<Item<B::Tensor>>, B::Error> {
    let graph = &variant.resolved.graph;
    let at = &between.node;
    let (Some(node), What::Host(function)) = (graph.nodes.get(at.node), &at.what) else {
        return Err(lost().into());
    };
    let of = Some((&variant.resolved, at.node));
    let since = watch.mark();
    let mut operands: Vec<Option<TensorData>> = Vec::with_capacity(at.operands.len());
    for place in &at.operands {
        operands.push(match place {
            Place::Absent => None,
            Place::Known(data) => Some(data.clone()),
            Place::Live(position) => match live.get(*position) {
                Some(Item::Tensor(x)) => Some(on.to_host(x)?),
                _ => None,
            },
        });
    }
    watch.activity(since, Activity::Transfer, of);
    let since = watch.mark();
    let results = function(&Call::new(node, &operands)).map_err(|e| in_node(graph, at.node, e))?;
    watch.activity(since, Activity::Host, of);
    let since = watch.mark();
    let mut items: Vec<Item<B::Tensor>> = at.kept.iter().filter_map(|i| live.get(*i).cloned()).collect();
    for &position in &at.results {
        let data = results.get(position).and_then(Option::as_ref);
        let data = data.ok_or_else(|| too_few(variant, between, position))?;
        items.push(Item::Tensor(on.constant(data)?));
    }
    watch.activity(since, Activity::Transfer, of);
    Ok(items)
}

/// Begins a loop.
fn begin<B: Backend + ?Sized>(
    on: &B,
    before: &Arc<Variant<B::Tensor>>,
    between: &BetweenStages<B::Tensor>,
    live: Vec<Item<B::Tensor>>,
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
            Place::Known(data) => Some(Item::Tensor(on.constant(data)?)),
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
        inputs: &[Option<Item<&B::Tensor>>],
    ) -> Result<Vec<Item<B::Tensor>>, B::Error> {
        Caller::within(&self.caller, || Ok(self.run_live(on, inputs, &mut Silent)?.items()))
    }

    fn run_profiled(
        &self,
        on: &B,
        inputs: &[Option<Item<&B::Tensor>>],
        profile: &mut Profile,
    ) -> Result<Vec<Item<B::Tensor>>, B::Error> {
        Caller::within(&self.caller, || {
            profile.measure(|profile| Ok(self.run_live(on, inputs, profile)?.items()))
        })
    }
}
