//! Runs the iterations of `Loop`, `Scan` and `SequenceMap`: provides the inputs of each iteration, and collects its results.
//!
//! The code is generic over the backend, so that the same code unrolls a loop on the tracer and drives it between segments. The
//! caller runs the body.

mod batch;
mod begin;

use super::resolve::Repeat;
use crate::contract::OnnxValue;
use crate::error::NodePart;
use crate::ext::{ErasedBackend, ErasedError, ErasedTensor};
use crate::operator::Item;
use crate::operator::{Round, Rounds};
use crate::{Backend, Error, RunOptions, Tensor};
use batch::Batch;
use bb_ir::graph::{Dim, Graph, Node, ValueType};
use bb_ir::{DataType, TensorData, memory};

/// The state of a node that is repeating its body.
#[derive(Debug)]
pub(super) struct Repetition<T> {
    repeat: Repeat,
    /// The operator, for error messages.
    op: String,
    /// The maximum number of iterations, if known.
    trips: Option<usize>,
    /// The number of iterations begun so far.
    begun: usize,
    /// Whether the condition of a `Loop` is still true.
    holds: bool,
    /// The condition, to be passed to the body.
    condition: Option<OnnxValue<T>>,
    /// The values that each iteration passes to the next one.
    state: Vec<Item<T>>,
    /// The operands that are sliced, one part for each iteration.
    scanned: Vec<Scanned<T>>,
    /// The results that are assembled from one part per iteration.
    collected: Vec<Collected<T>>,
    /// The bytes of the scanned operands.
    scanned_bytes: usize,
    /// The bytes of the collected parts.
    collected_bytes: usize,
    /// The batch of a `Scan` of opset 8.
    batch: Option<Batch<T>>,
}

/// The values that a `Scan` passes to its body.
pub(super) struct ScanParts<T> {
    /// The number of iterations.
    pub(super) trips: usize,
    /// The initial states.
    pub(super) states: Vec<Item<T>>,
    /// The scanned operands, with the iteration as the first dimension.
    pub(super) operands: Vec<T>,
}

/// An operand that is sliced, one part for each iteration.
#[derive(Debug)]
struct Scanned<T> {
    from: Item<T>,
    axis: i64,
    backwards: bool,
}

/// A result that is assembled from one part per iteration.
#[derive(Debug)]
struct Collected<T> {
    parts: Vec<OnnxValue<T>>,
    axis: i64,
    backwards: bool,
    /// The declared type of a part, needed if there are no parts.
    declared: ValueType,
}

impl<T: Tensor> Repetition<T> {
    /// Begins a repetition with a node's operands.
    ///
    /// # Errors
    ///
    /// [`Error::Operator`] if operands do not fit the operator or each other; the backend's own errors.
    pub(super) fn begin<B: Backend<Tensor = T> + ?Sized>(
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
        };
        let body = || -> Result<&Graph, Error> {
            let body = node.attributes.graph("body")?;
            body.ok_or_else(|| Error::excluded("a loop without a body"))
        };
        match repeat {
            Repeat::Loop => new.begin_loop(on, body()?, operands)?,
            Repeat::Scan | Repeat::BatchedScan => new.begin_scan(on, node, body()?, operands)?,
            Repeat::Map => new.begin_map(body()?, operands)?,
            Repeat::Branch(_) => new.trips = Some(1),
            Repeat::Rounds(_) => return Err(Error::excluded("rounds that the plan determines").into()),
        }
        new.scanned_bytes = bytes_of_all(new.scanned.iter().map(|scanned| &scanned.from));
        Ok(new)
    }

    fn wrong(&self, part: impl Into<NodePart>, problem: impl Into<String>) -> Error {
        Error::Operator { op: self.op.clone(), part: part.into(), problem: problem.into() }
    }

    fn is_loop(&self) -> bool {
        matches!(self.repeat, Repeat::Loop)
    }

    /// Returns the maximum number of iterations, if known.
    pub(crate) fn trips(&self) -> Option<usize> {
        self.trips
    }

    /// Returns the bytes that are kept between two iterations.
    fn bytes(&self) -> usize {
        let kept = self.scanned_bytes.saturating_add(self.collected_bytes);
        bytes_of_all(&self.state).saturating_add(kept)
    }

    /// Returns the index of the current iteration, from 0.
    pub(crate) fn index(&self) -> usize {
        self.begun.saturating_sub(1)
    }

    /// Begins an iteration. Returns the body and its inputs, or `None` after the last iteration.
    ///
    /// # Errors
    ///
    /// The backend's own errors.
    pub(super) fn next<B: Backend<Tensor = T> + ?Sized>(
        &mut self,
        on: &B,
    ) -> Result<Option<Round<T>>, B::Error> {
        self.next_in_batch(on)?;
        if !self.holds || self.trips.is_some_and(|trips| self.begun >= trips) {
            return Ok(None);
        }
        let mut given = Vec::with_capacity(2 + self.state.len() + self.scanned.len());
        if self.is_loop() {
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

    /// Returns the part of an operand for the current iteration.
    fn part<B: Backend<Tensor = T> + ?Sized>(
        &self,
        on: &B,
        scanned: &Scanned<T>,
    ) -> Result<OnnxValue<T>, B::Error> {
        if let Some(items) = scanned.from.items() {
            return Ok(items.get(self.begun).cloned().unwrap_or(OnnxValue::Absent));
        }
        let x = match &scanned.from {
            Item::Parts(OnnxValue::Tensor(x)) if !matches!(self.repeat, Repeat::Map) => x,
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

    /// Returns the parts of all iterations of a `Scan`; `None` for other operators.
    ///
    /// # Errors
    ///
    /// The backend's own errors.
    pub(super) fn scan_parts<B: Backend<Tensor = T> + ?Sized>(
        &self,
        on: &B,
    ) -> Result<Option<ScanParts<T>>, B::Error> {
        let (Repeat::Scan, Some(trips)) = (self.repeat, self.trips) else { return Ok(None) };
        let mut operands = Vec::with_capacity(self.scanned.len());
        for Scanned { from, axis, backwards } in &self.scanned {
            let Some(x) = from.tensor() else { return Ok(None) };
            let mut x = x.clone();
            if *axis != 0 {
                let others = (0..x.rank() as i64).filter(|other| other != axis);
                let perm: Vec<i64> = std::iter::once(*axis).chain(others).collect();
                x = on.transpose(&x, &perm)?;
            }
            operands.push(if *backwards { reversed(on, &x)? } else { x });
        }
        Ok(Some(ScanParts { trips, states: self.state.clone(), operands }))
    }

    /// Returns the node's results, if the states stay the same and these are the collected results of all iterations, which are
    /// the first dimension of each.
    ///
    /// # Errors
    ///
    /// The backend's own errors.
    pub(super) fn finish_all<B: Backend<Tensor = T> + ?Sized>(
        self,
        on: &B,
        results: Vec<T>,
    ) -> Result<Vec<Item<T>>, B::Error> {
        let mut all = self.state;
        for (x, Collected { axis, backwards, .. }) in results.into_iter().zip(self.collected) {
            let x = if backwards { reversed(on, &x)? } else { x };
            let rank = x.rank() as i64;
            let to = if axis < 0 { axis + rank } else { axis };
            let perm = (1..rank).take(to as usize).chain([0]).chain(to + 1..rank);
            let x = if to == 0 { x } else { on.transpose(&x, &perm.collect::<Vec<_>>())? };
            all.push(Item::Parts(OnnxValue::Tensor(x)));
        }
        Ok(all)
    }

    /// Stores the results that the body returned in an iteration.
    ///
    /// # Errors
    ///
    /// [`Error::Results`] if there are too few results; the backend's own errors.
    pub(super) fn absorb<B: Backend<Tensor = T> + ?Sized>(
        &mut self,
        on: &B,
        results: Vec<Item<T>>,
    ) -> Result<(), B::Error> {
        let got = results.len();
        let mut results = results.into_iter();
        let states = match (self.repeat, &self.batch) {
            (Repeat::Map, _) => 0,
            _ => got.saturating_sub(self.collected.len() + usize::from(self.is_loop())),
        };
        if self.is_loop() {
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
    /// [`Error::Operator`] if no parts were collected and the body does not declare their type; the backend's own errors.
    pub(crate) fn finish<B: Backend<Tensor = T> + ?Sized>(
        mut self,
        on: &B,
    ) -> Result<Vec<Item<T>>, B::Error> {
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

    /// Reads the only element of an operand as an integer.
    fn number<B: Backend<Tensor = T> + ?Sized>(&self, on: &B, x: &T, what: &str) -> Result<i64, B::Error> {
        let host = on.to_host(x)?;
        match crate::ext::integers(&host).map_err(Error::from)?.as_slice() {
            [only] => Ok(*only),
            other => Err(self.wrong(what, format!("has {} elements, expected 1", other.len())).into()),
        }
    }
}

impl Repeat {
    /// Begins the iterations of a node with its operands, in a run.
    ///
    /// # Errors
    ///
    /// [`Error::Operator`] if operands do not fit the operator or each other; the backend's own errors.
    pub fn begin(
        self,
        on: &ErasedBackend<'_>,
        node: &Node,
        operands: Vec<Option<Item<ErasedTensor>>>,
    ) -> Result<Box<dyn Rounds>, ErasedError> {
        match self {
            Repeat::Rounds(operator) => (operator.begin)(on, node, operands),
            repeat => Ok(Box::new(Repetition::begin(on, repeat, node, operands)?)),
        }
    }
}

impl Rounds for Repetition<ErasedTensor> {
    fn next(&mut self, on: &ErasedBackend<'_>) -> Result<Option<Round<ErasedTensor>>, ErasedError> {
        Repetition::next(self, on)
    }

    fn absorb(
        &mut self,
        on: &ErasedBackend<'_>,
        results: Vec<Item<ErasedTensor>>,
    ) -> Result<(), ErasedError> {
        Repetition::absorb(self, on, results)
    }

    fn finish(self: Box<Self>, on: &ErasedBackend<'_>) -> Result<Vec<Item<ErasedTensor>>, ErasedError> {
        Repetition::finish(*self, on)
    }

    fn bytes(&self) -> usize {
        Repetition::bytes(self)
    }
}

/// Prepares the collected results of a body, from the output `first` on. `how` returns the axis and direction of each.
fn collected<T>(body: &Graph, first: usize, how: impl Fn(usize) -> (i64, bool)) -> Vec<Collected<T>> {
    let outputs = body.outputs.iter().skip(first).enumerate();
    outputs
        .map(|(i, value)| {
            let (axis, backwards) = how(i);
            // The declared type is used only if there are no parts, so it cannot contradict them.
            let declared = body.values.get(value.index()).map(|v| v.claimed()).unwrap_or_default();
            Collected { parts: Vec::new(), axis, backwards, declared }
        })
        .collect()
}

/// The number of parts that are processed between two checks for cancellation and the deadline.
const STRETCH: usize = 1 << 10;

/// Returns the total size of the values in bytes.
fn bytes_of_all<'t, T: Tensor + 't>(values: impl IntoIterator<Item = &'t Item<T>>) -> usize {
    values.into_iter().fold(0, |sum: usize, value| sum.saturating_add(value.bytes()))
}

/// Concatenates parts; a single part is returned unchanged.
fn join<B: Backend + ?Sized>(on: &B, parts: &[B::Tensor], axis: i64) -> Result<B::Tensor, B::Error> {
    match parts {
        [only] => Ok(only.clone()),
        _ => on.concat(&parts.iter().collect::<Vec<_>>(), axis),
    }
}

/// Reverses the first dimension.
fn reversed<B: Backend + ?Sized>(on: &B, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
    on.slice(x, &[-1], &[i64::MIN], &[0], &[-1])
}

/// Creates a tensor of zeros.
fn empty<B: Backend + ?Sized>(on: &B, dtype: DataType, shape: &[usize]) -> Result<B::Tensor, B::Error> {
    on.constant(&TensorData::zeros(dtype, shape, bb_ir::Limits::default().value_bytes).map_err(Error::from)?)
}
