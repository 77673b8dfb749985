//! How `Loop`, `Scan`, `SequenceMap` and searches run their bodies: what goes into each iteration and what becomes of its results.
//!
//! Written over any backend, so that the same text unrolls a loop on the tracer and drives it between segments. Who runs
//! the body is the caller's business.

mod batch;
mod begin;
mod search;

use super::held::Item;
use super::resolve::Repeat;
use crate::contract::OnnxValue;
use crate::error::NodePart;
use crate::{Backend, Error, RunOptions, Tensor};
use batch::Batch;
use bb_ir::graph::{Dim, Graph, Node, ValueType};
use bb_ir::{DataType, TensorData, memory};
use search::Found;

/// A node that repeats its body, under way.
#[derive(Debug)]
pub struct Repetition<T> {
    repeat: Repeat,
    /// The operator, for errors.
    op: String,
    /// How many iterations at most.
    trips: Option<usize>,
    /// The iterations begun.
    begun: usize,
    /// Whether the condition of a `Loop` still holds.
    holds: bool,
    /// The condition as the body gets it.
    condition: Option<OnnxValue<T>>,
    /// What the body carries from iteration to iteration.
    state: Vec<Item<T>>,
    /// What the body gets a part of in each iteration.
    scanned: Vec<Scanned<T>>,
    /// What becomes a result when all iterations are done.
    collected: Vec<Collected<T>>,
    /// The bytes of what the body gets parts of.
    scanned_bytes: usize,
    /// The bytes of what was collected.
    collected_bytes: usize,
    /// For a scan with a batch: what begins anew with each of its elements.
    batch: Option<Batch<T>>,
    /// For a search: the sequences that it has found.
    search: Option<Box<Found<T>>>,
}

/// An iteration: the body that runs, by the name of its attribute, and what it is given.
#[derive(Debug)]
pub struct Round<T> {
    pub body: &'static str,
    pub given: Vec<Item<T>>,
}

/// An operand of which each iteration gets a part.
#[derive(Debug)]
struct Scanned<T> {
    from: Item<T>,
    axis: i64,
    backwards: bool,
}

/// A result to which each iteration adds a part.
#[derive(Debug)]
struct Collected<T> {
    parts: Vec<OnnxValue<T>>,
    axis: i64,
    backwards: bool,
    /// What the body declares a part to be, for the case that there is none.
    declared: ValueType,
}

impl<T: Tensor> Repetition<T> {
    /// Begins with a node's operands.
    ///
    /// # Errors
    ///
    /// [`Error::Operator`] if operands do not fit the operator or one another; the backend's own.
    pub fn begin<B: Backend<Tensor = T> + ?Sized>(
        on: &B,
        repeat: Repeat,
        node: &Node,
        operands: Vec<Option<Item<T>>>,
    ) -> Result<Repetition<T>, B::Error> {
        let mut new = Repetition {
            repeat,
            op: node.op_type.clone(),
            trips: None,
            begun: 0,
            holds: true,
            condition: None,
            state: Vec::new(),
            scanned: Vec::new(),
            collected: Vec::new(),
            scanned_bytes: 0,
            collected_bytes: 0,
            batch: None,
            search: None,
        };
        let body = || -> Result<&Graph, Error> {
            let body = node.attributes.graph("body")?;
            body.ok_or_else(|| Error::excluded("a loop without a body"))
        };
        match repeat {
            Repeat::Loop => new.begin_loop(on, body()?, operands)?,
            Repeat::Scan | Repeat::BatchedScan => new.begin_scan(on, node, body()?, operands)?,
            Repeat::Map => new.begin_map(body()?, operands)?,
            Repeat::Search(kind) => new.search = Some(Box::new(Found::begin(on, kind, node, operands)?)),
            Repeat::Branch(_) => new.trips = Some(1),
        }
        new.scanned_bytes = bytes_of_all(new.scanned.iter().map(|scanned| &scanned.from));
        Ok(new)
    }

    fn wrong(&self, part: impl Into<NodePart>, problem: impl Into<String>) -> Error {
        Error::Operator { op: self.op.clone(), part: part.into(), problem: problem.into() }
    }

    /// Returns how many iterations there are at most, where that is known.
    pub(crate) fn trips(&self) -> Option<usize> {
        self.trips
    }

    /// Returns the bytes of what is kept between two iterations.
    pub(crate) fn bytes(&self) -> usize {
        let found = self.search.as_ref().map_or(0, |found| found.bytes());
        let kept = self.scanned_bytes.saturating_add(self.collected_bytes).saturating_add(found);
        bytes_of_all(&self.state).saturating_add(kept)
    }

    /// Returns false for the branch of an `If`, and true for loops, scans, maps and searches.
    pub(crate) fn iterates(&self) -> bool {
        !matches!(self.repeat, Repeat::Branch(_))
    }

    /// Returns which iteration is under way, the first being 0.
    pub(crate) fn index(&self) -> usize {
        self.begun.saturating_sub(1)
    }

    /// Begins an iteration: what the body is given, or `None` after the last.
    ///
    /// # Errors
    ///
    /// The backend's own.
    pub fn next<B: Backend<Tensor = T> + ?Sized>(&mut self, on: &B) -> Result<Option<Round<T>>, B::Error> {
        if let Some(found) = &mut self.search {
            let round = found.next(on)?;
            self.begun += usize::from(round.is_some());
            return Ok(round);
        }
        self.next_in_batch(on)?;
        if !self.holds || self.trips.is_some_and(|trips| self.begun >= trips) {
            return Ok(None);
        }
        let mut given = Vec::with_capacity(2 + self.state.len() + self.scanned.len());
        if self.repeat == Repeat::Loop {
            let iteration = i64::try_from(self.begun).unwrap_or(i64::MAX);
            given.push(Item::Parts(OnnxValue::Tensor(on.constant(&TensorData::scalar(iteration))?)));
            given.push(Item::Parts(match &self.condition {
                Some(condition) => condition.clone(),
                None => {
                    OnnxValue::Tensor(on.constant(&TensorData::bools(&[], &[true]).map_err(Error::from)?)?)
                }
            }));
        }
        given.append(&mut self.state);
        for scanned in &self.scanned {
            given.push(Item::Parts(self.part(on, scanned)?));
        }
        self.begun += 1;
        let body = if let Repeat::Branch(name) = self.repeat { name } else { "body" };
        Ok(Some(Round { body, given }))
    }

    /// Returns the part of an operand that this iteration gets.
    fn part<B: Backend<Tensor = T> + ?Sized>(
        &self,
        on: &B,
        scanned: &Scanned<T>,
    ) -> Result<OnnxValue<T>, B::Error> {
        if let Some(items) = scanned.from.items() {
            return Ok(items.get(self.begun).cloned().unwrap_or(OnnxValue::Absent));
        }
        let x = match &scanned.from {
            Item::Parts(OnnxValue::Tensor(x)) if self.repeat != Repeat::Map => x,
            other => return Ok(other.clone().value()),
        };
        let (row, iteration, trips) = match &self.batch {
            Some(batch) => {
                let row = batch.at as i64;
                let row = on.slice(x, &[row], &[row + 1], &[0], &[])?;
                let length = batch.lengths.get(batch.at).copied().unwrap_or(0);
                (Some(on.squeeze(&row, &[0])?), batch.iteration - 1, length)
            }
            None => (None, self.begun, self.trips.unwrap_or(0)),
        };
        let (x, axis) = row.as_ref().map_or((x, scanned.axis), |row| (row, scanned.axis - 1));
        let index = if scanned.backwards { trips.saturating_sub(iteration + 1) } else { iteration } as i64;
        let part = on.slice(x, &[index], &[index + 1], &[axis], &[])?;
        Ok(OnnxValue::Tensor(on.squeeze(&part, &[axis])?))
    }

    /// Takes what the body gave in an iteration.
    ///
    /// # Errors
    ///
    /// [`Error::Results`] if it is too little; the backend's own.
    pub fn absorb<B: Backend<Tensor = T> + ?Sized>(
        &mut self,
        on: &B,
        results: Vec<Item<T>>,
    ) -> Result<(), B::Error> {
        if let Some(found) = &mut self.search {
            return found.absorb(on, results);
        }
        let got = results.len();
        let mut results = results.into_iter();
        let states = match (self.repeat, &self.batch) {
            (Repeat::Map, _) => 0,
            _ => got.saturating_sub(self.collected.len() + usize::from(self.repeat == Repeat::Loop)),
        };
        if self.repeat == Repeat::Loop {
            let Some(Item::Parts(OnnxValue::Tensor(condition))) = results.next() else {
                return Err(Error::Results { op: self.op.clone(), expected: 1, got }.into());
            };
            self.holds = self.number(on, &condition, "the body's condition")? != 0;
            self.condition = Some(OnnxValue::Tensor(condition));
        }
        self.state = results.by_ref().take(states).collect();
        for (collected, part) in self.collected.iter_mut().zip(results) {
            self.collected_bytes = self.collected_bytes.saturating_add(part.bytes());
            memory::push("a loop", &mut collected.parts, part.value()).map_err(Error::from)?;
        }
        Ok(())
    }

    /// Returns the node's results.
    ///
    /// # Errors
    ///
    /// [`Error::Operator`] if nothing was collected and the body does not declare what a part is; the backend's own.
    pub(crate) fn finish<B: Backend<Tensor = T> + ?Sized>(
        mut self,
        on: &B,
    ) -> Result<Vec<Item<T>>, B::Error> {
        if let Some(found) = self.search.take() {
            return found.finish(on);
        }
        if let Some(batch) = self.batch.take() {
            return self.finish_batch(on, batch);
        }
        let mut results = std::mem::take(&mut self.state);
        for collected in std::mem::take(&mut self.collected) {
            results.push(Item::Parts(match self.repeat {
                Repeat::Map => OnnxValue::Sequence(collected.parts),
                _ => OnnxValue::Tensor(self.stacked(on, collected)?),
            }));
        }
        Ok(results)
    }

    fn stacked<B: Backend<Tensor = T> + ?Sized>(
        &self,
        on: &B,
        collected: Collected<T>,
    ) -> Result<T, B::Error> {
        let axis = collected.axis;
        if collected.parts.is_empty() {
            let ValueType::Tensor { dtype, shape } = &collected.declared else {
                let problem = "is empty, and the body does not declare its element type";
                return Err(self.wrong(NodePart::other("a scanned result"), problem).into());
            };
            let mut extents: Vec<usize> =
                shape.iter().flatten().map(|d| if let Dim::Known(n) = d { *n } else { 0 }).collect();
            let at = if axis < 0 { axis + extents.len() as i64 + 1 } else { axis };
            extents.insert(usize::try_from(at).unwrap_or(0).min(extents.len()), 0);
            return empty(on, *dtype, &extents);
        }
        let mut parts = memory::room("a loop", collected.parts.len()).map_err(Error::from)?;
        for (at, part) in collected.parts.iter().enumerate() {
            if at % STRETCH == 0 {
                RunOptions::check_current()?;
            }
            let OnnxValue::Tensor(x) = part else {
                let problem = format!("is {}; only tensors can be stacked", part.kind());
                return Err(self.wrong(NodePart::other("a scanned result"), problem).into());
            };
            parts.push(on.unsqueeze(x, &[axis])?);
        }
        if collected.backwards {
            parts.reverse();
        }
        join(on, &parts, axis)
    }

    /// Reads an operand of one element.
    fn number<B: Backend<Tensor = T> + ?Sized>(&self, on: &B, x: &T, what: &str) -> Result<i64, B::Error> {
        let host = on.to_host(x)?;
        match crate::ext::integers(&host).map_err(Error::from)?.as_slice() {
            [only] => Ok(*only),
            other => Err(self.wrong(what, format!("has {} elements, expected 1", other.len())).into()),
        }
    }
}

/// Prepares the results of a body from `first` on, with the axis and direction of each.
fn collected<T>(body: &Graph, first: usize, how: impl Fn(usize) -> (i64, bool)) -> Vec<Collected<T>> {
    let outputs = body.outputs.iter().skip(first).enumerate();
    outputs
        .map(|(i, value)| {
            let (axis, backwards) = how(i);
            // It is read where there is no part, so that nothing can contradict what the model claims.
            let declared = body.values.get(value.index()).map(|v| v.claimed()).unwrap_or_default();
            Collected { parts: Vec::new(), axis, backwards, declared }
        })
        .collect()
}

/// How many parts are looked at before the run is asked whether it must end.
const STRETCH: usize = 1 << 10;

/// Returns what values take.
fn bytes_of_all<'t, T: Tensor + 't>(values: impl IntoIterator<Item = &'t Item<T>>) -> usize {
    values.into_iter().fold(0, |sum: usize, value| sum.saturating_add(value.bytes()))
}

/// Joins parts; one part is itself.
fn join<B: Backend + ?Sized>(on: &B, parts: &[B::Tensor], axis: i64) -> Result<B::Tensor, B::Error> {
    match parts {
        [only] => Ok(only.clone()),
        _ => on.concat(&parts.iter().collect::<Vec<_>>(), axis),
    }
}

/// Makes zeros.
fn empty<B: Backend + ?Sized>(on: &B, dtype: DataType, shape: &[usize]) -> Result<B::Tensor, B::Error> {
    on.constant(&TensorData::zeros(dtype, shape, bb_ir::Limits::default().value_bytes).map_err(Error::from)?)
}
