//! How `Loop`, `Scan` and `SequenceMap` run their bodies: what goes into each round and what becomes of its results.
//!
//! Written over any backend, so that the same text unrolls a loop on the tracer and drives it between stages. Who runs
//! the body is the caller's business.

use super::resolve::Repeat;
use crate::onnx::Item;
use crate::{Backend, Error, Tensor};
use bb_ir::graph::{Dim, Graph, Node, ValueType};
use bb_ir::{DataType, TensorData};

/// A node that repeats its body, under way.
#[derive(Debug)]
pub(crate) struct Repetition<T> {
    repeat: Repeat,
    /// The operator, for errors.
    op: String,
    /// How many rounds at most.
    trips: Option<usize>,
    /// The rounds begun.
    begun: usize,
    /// Whether the condition of a `Loop` still holds.
    holds: bool,
    /// The condition as the body gets it.
    condition: Option<Item<T>>,
    /// What the body carries from round to round.
    state: Vec<Item<T>>,
    /// What the body gets a part of in each round.
    scanned: Vec<Scanned<T>>,
    /// What becomes a result when all rounds are done.
    collected: Vec<Collected<T>>,
    /// For a scan with a batch: what begins anew with each of its elements.
    batch: Option<Batch<T>>,
}

/// An operand of which each round gets a part.
#[derive(Debug)]
struct Scanned<T> {
    from: Item<T>,
    axis: i64,
    backwards: bool,
}

/// A result to which each round adds a part.
#[derive(Debug)]
struct Collected<T> {
    parts: Vec<Item<T>>,
    axis: i64,
    backwards: bool,
    /// What the body declares a part to be, for the case that there is none.
    declared: ValueType,
}

/// The batch of a `Scan` of opset 8.
#[derive(Debug)]
struct Batch<T> {
    lengths: Vec<usize>,
    extent: usize,
    /// The element under way, and its round.
    at: usize,
    round: usize,
    initial: Vec<Item<T>>,
    done: Vec<Row<T>>,
}

/// What became of an element of the batch: its last state, and the parts of each result.
#[derive(Debug)]
struct Row<T> {
    state: Vec<Item<T>>,
    parts: Vec<Vec<Item<T>>>,
}

impl<T: Tensor> Repetition<T> {
    /// Begins with a node's operands; `body` takes `arguments` inputs of its own.
    ///
    /// # Errors
    ///
    /// [`Error::Operator`] if operands do not fit the operator or one another; the backend's own.
    pub(crate) fn begin<B: Backend<Tensor = T> + ?Sized>(
        on: &B,
        repeat: Repeat,
        node: &Node,
        body: &Graph,
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
            batch: None,
        };
        match repeat {
            Repeat::Loop => new.begin_loop(on, body, operands)?,
            Repeat::Scan | Repeat::BatchedScan => new.begin_scan(on, node, body, operands)?,
            Repeat::Map => new.begin_map(body, operands)?,
        }
        Ok(new)
    }

    fn wrong(&self, what: impl Into<String>, problem: impl Into<String>) -> Error {
        Error::Operator { op: self.op.clone(), what: what.into(), problem: problem.into() }
    }

    fn begin_loop<B: Backend<Tensor = T> + ?Sized>(
        &mut self,
        on: &B,
        body: &Graph,
        operands: Vec<Option<Item<T>>>,
    ) -> Result<(), B::Error> {
        let mut operands = operands.into_iter();
        if let Some(Item::Tensor(trips)) = operands.next().flatten() {
            let trips = self.number(on, &trips, "the trip count")?;
            self.trips = Some(usize::try_from(trips).unwrap_or(0));
        }
        if let Some(Item::Tensor(condition)) = operands.next().flatten() {
            self.holds = self.number(on, &condition, "the condition")? != 0;
            self.condition = Some(Item::Tensor(condition));
        }
        self.state = operands.map(|x| x.unwrap_or(Item::Absent)).collect();
        self.collected = collected(body, 1 + self.state.len(), |_| (0, false));
        Ok(())
    }

    fn begin_scan<B: Backend<Tensor = T> + ?Sized>(
        &mut self,
        on: &B,
        node: &Node,
        body: &Graph,
        mut operands: Vec<Option<Item<T>>>,
    ) -> Result<(), B::Error> {
        let batched = self.repeat == Repeat::BatchedScan;
        let lengths = if batched && !operands.is_empty() { operands.remove(0) } else { None };
        let count = node.attributes.int("num_scan_inputs").map_err(Error::from)?.unwrap_or(0);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let states = operands.len().checked_sub(count).ok_or_else(|| {
            self.wrong("num_scan_inputs", format!("is {count}; {} operands came", operands.len()))
        })?;
        let list =
            |name: &str| node.attributes.ints(name).map(Option::unwrap_or_default).map_err(Error::from);
        let at = |list: &[i64], i: usize| list.get(i).copied().unwrap_or(0);
        let axes = list("scan_input_axes")?;
        let directions = list(if batched { "directions" } else { "scan_input_directions" })?;
        for (i, operand) in operands.split_off(states).into_iter().enumerate() {
            let from = operand.unwrap_or(Item::Absent);
            let axis = if batched { 1 } else { at(axes, i) };
            self.scanned.push(Scanned { from, axis, backwards: at(directions, i) != 0 });
        }
        self.state = operands.into_iter().map(|x| x.unwrap_or(Item::Absent)).collect();
        let axes = list("scan_output_axes")?;
        let directions = list("scan_output_directions")?;
        self.collected = collected(body, states, |i| match batched {
            true => (0, false),
            false => (at(axes, i), at(directions, i) != 0),
        });
        let mut trips: Option<usize> = None;
        for scanned in &mut self.scanned {
            let Some(x) = scanned.from.tensor() else { continue };
            let rank = x.rank() as i64;
            let axis = if scanned.axis < 0 { scanned.axis + rank } else { scanned.axis };
            let extent = usize::try_from(axis).ok().and_then(|axis| x.shape().get(axis)).copied();
            let known = extent.filter(|e| trips.is_none_or(|t| t == *e));
            let Some(extent) = known else {
                return Err(Error::Operator {
                    op: node.op_type.clone(),
                    what: "a scanned operand".to_owned(),
                    problem: match (extent, trips) {
                        (Some(got), Some(expected)) => {
                            format!("has {got} parts along axis {axis}, others have {expected}")
                        }
                        _ => format!("has {rank} dimensions, and none is axis {axis}"),
                    },
                }
                .into());
            };
            scanned.axis = axis;
            trips = Some(extent);
        }
        let trips = trips.unwrap_or(0);
        self.trips = Some(trips);
        if batched {
            let first = self.scanned.first().and_then(|s| s.from.tensor());
            let size = first.and_then(|x| x.shape().first()).copied().unwrap_or(0);
            let lengths = match lengths {
                Some(Item::Tensor(x)) => {
                    let host = on.to_host(&x)?;
                    let given: Vec<i64> = crate::ext::integers(&host).map_err(Error::from)?;
                    let within = |n: &i64| usize::try_from(*n).ok().filter(|n| *n <= trips);
                    let lengths: Option<Vec<usize>> = given.iter().map(within).collect();
                    lengths.filter(|l| l.len() == size).ok_or_else(|| {
                        self.wrong("sequence_lens", format!("is {given:?} for {size} sequences of {trips}"))
                    })?
                }
                _ => vec![trips; size],
            };
            self.trips = Some(lengths.iter().sum());
            let initial = std::mem::take(&mut self.state);
            self.batch = Some(Batch { lengths, extent: trips, at: 0, round: 0, initial, done: Vec::new() });
        }
        Ok(())
    }

    fn begin_map(&mut self, body: &Graph, operands: Vec<Option<Item<T>>>) -> Result<(), Error> {
        for operand in operands {
            let from = operand.unwrap_or(Item::Absent);
            if let Item::Sequence(items) = &from {
                match self.trips {
                    Some(trips) if trips != items.len() => {
                        let problem = format!("has {} items, the first has {trips}", items.len());
                        return Err(self.wrong("a sequence", problem));
                    }
                    _ => self.trips = Some(items.len()),
                }
            }
            self.scanned.push(Scanned { from, axis: 0, backwards: false });
        }
        self.collected = collected(body, 0, |_| (0, false));
        Ok(())
    }

    /// Returns how many rounds there are at most, where that is known.
    pub(crate) fn trips(&self) -> Option<usize> {
        self.trips
    }

    /// Begins a round: what the body is given, or `None` after the last.
    ///
    /// # Errors
    ///
    /// The backend's own.
    pub(crate) fn next<B: Backend<Tensor = T> + ?Sized>(
        &mut self,
        on: &B,
    ) -> Result<Option<Vec<Item<T>>>, B::Error> {
        self.next_in_batch(on)?;
        if !self.holds || self.trips.is_some_and(|trips| self.begun >= trips) {
            return Ok(None);
        }
        let mut given = Vec::with_capacity(2 + self.state.len() + self.scanned.len());
        if self.repeat == Repeat::Loop {
            let round = i64::try_from(self.begun).unwrap_or(i64::MAX);
            given.push(Item::Tensor(on.constant(&TensorData::scalar(round))?));
            given.push(match &self.condition {
                Some(condition) => condition.clone(),
                None => Item::Tensor(on.constant(&TensorData::bools(&[], &[true]).map_err(Error::from)?)?),
            });
        }
        given.append(&mut self.state);
        for scanned in &self.scanned {
            given.push(self.part(on, scanned)?);
        }
        self.begun += 1;
        Ok(Some(given))
    }

    /// Returns the part of an operand that this round gets.
    fn part<B: Backend<Tensor = T> + ?Sized>(
        &self,
        on: &B,
        scanned: &Scanned<T>,
    ) -> Result<Item<T>, B::Error> {
        let x = match &scanned.from {
            Item::Sequence(items) => return Ok(items.get(self.begun).cloned().unwrap_or(Item::Absent)),
            Item::Tensor(x) if self.repeat != Repeat::Map => x,
            other => return Ok(other.clone()),
        };
        let (row, round, trips) = match &self.batch {
            Some(batch) => {
                let row = batch.at as i64;
                let row = on.slice(x, &[row], &[row + 1], &[0], &[])?;
                let length = batch.lengths.get(batch.at).copied().unwrap_or(0);
                (Some(on.squeeze(&row, &[0])?), batch.round - 1, length)
            }
            None => (None, self.begun, self.trips.unwrap_or(0)),
        };
        let (x, axis) = row.as_ref().map_or((x, scanned.axis), |row| (row, scanned.axis - 1));
        let index = if scanned.backwards { trips.saturating_sub(round + 1) } else { round } as i64;
        let part = on.slice(x, &[index], &[index + 1], &[axis], &[])?;
        Ok(Item::Tensor(on.squeeze(&part, &[axis])?))
    }

    /// Goes on to the next element of the batch whose sequence is not over.
    fn next_in_batch<B: Backend<Tensor = T> + ?Sized>(&mut self, on: &B) -> Result<(), B::Error> {
        let Some(batch) = &mut self.batch else { return Ok(()) };
        loop {
            let Some(&length) = batch.lengths.get(batch.at) else { return Ok(()) };
            if batch.round == 0 {
                let row = batch.at as i64;
                self.state = batch
                    .initial
                    .iter()
                    .map(|item| {
                        item.try_map(&mut |x: &T| {
                            on.squeeze(&on.slice(x, &[row], &[row + 1], &[0], &[])?, &[0])
                        })
                    })
                    .collect::<Result<_, B::Error>>()?;
            }
            if batch.round < length {
                batch.round += 1;
                return Ok(());
            }
            let parts = self.collected.iter_mut().map(|c| std::mem::take(&mut c.parts)).collect();
            batch.done.push(Row { state: std::mem::take(&mut self.state), parts });
            batch.at += 1;
            batch.round = 0;
        }
    }

    /// Takes what the body gave in a round.
    ///
    /// # Errors
    ///
    /// [`Error::Results`] if it is too little; the backend's own.
    pub(crate) fn absorb<B: Backend<Tensor = T> + ?Sized>(
        &mut self,
        on: &B,
        results: Vec<Item<T>>,
    ) -> Result<(), B::Error> {
        let got = results.len();
        let mut results = results.into_iter();
        let states = match (self.repeat, &self.batch) {
            (Repeat::Map, _) => 0,
            _ => got.saturating_sub(self.collected.len() + usize::from(self.repeat == Repeat::Loop)),
        };
        if self.repeat == Repeat::Loop {
            let Some(Item::Tensor(condition)) = results.next() else {
                return Err(Error::Results { op: self.op.clone(), expected: 1, got }.into());
            };
            self.holds = self.number(on, &condition, "the body's condition")? != 0;
            self.condition = Some(Item::Tensor(condition));
        }
        self.state = results.by_ref().take(states).collect();
        for (collected, part) in self.collected.iter_mut().zip(results) {
            collected.parts.push(part);
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
        if let Some(batch) = self.batch.take() {
            return self.finish_batch(on, batch);
        }
        let mut results = std::mem::take(&mut self.state);
        for collected in std::mem::take(&mut self.collected) {
            results.push(match self.repeat {
                Repeat::Map => Item::Sequence(collected.parts),
                _ => self.stacked(on, collected)?,
            });
        }
        Ok(results)
    }

    fn stacked<B: Backend<Tensor = T> + ?Sized>(
        &self,
        on: &B,
        collected: Collected<T>,
    ) -> Result<Item<T>, B::Error> {
        let axis = collected.axis;
        if collected.parts.is_empty() {
            let ValueType::Tensor { dtype, shape } = &collected.declared else {
                let problem = "is empty, and the body does not declare its element type";
                return Err(self.wrong("a scanned result", problem).into());
            };
            let mut extents: Vec<usize> =
                shape.iter().flatten().map(|d| if let Dim::Known(n) = d { *n } else { 0 }).collect();
            let at = if axis < 0 { axis + extents.len() as i64 + 1 } else { axis };
            extents.insert(usize::try_from(at).unwrap_or(0).min(extents.len()), 0);
            return Ok(Item::Tensor(empty(on, *dtype, &extents)?));
        }
        let mut parts = Vec::with_capacity(collected.parts.len());
        for part in &collected.parts {
            let Item::Tensor(x) = part else {
                let problem = format!("is {}; only tensors can be stacked", part.kind());
                return Err(self.wrong("a scanned result", problem).into());
            };
            parts.push(on.unsqueeze(x, &[axis])?);
        }
        if collected.backwards {
            parts.reverse();
        }
        Ok(Item::Tensor(join(on, &parts, axis)?))
    }

    fn finish_batch<B: Backend<Tensor = T> + ?Sized>(
        &self,
        on: &B,
        batch: Batch<T>,
    ) -> Result<Vec<Item<T>>, B::Error> {
        let mut results = Vec::new();
        let nothing = || self.wrong("the batch", "is empty; its results have no extents");
        let states = batch.done.first().ok_or_else(nothing)?.state.len();
        for i in 0..states {
            let rows = batch.done.iter().filter_map(|row| row.state.get(i)?.tensor());
            let rows = rows.map(|x| on.unsqueeze(x, &[0])).collect::<Result<Vec<_>, _>>()?;
            results.push(Item::Tensor(join(on, &rows, 0)?));
        }
        for (i, collected) in self.collected.iter().enumerate() {
            let mut rows = Vec::new();
            for row in &batch.done {
                let parts = row.parts.get(i).cloned().unwrap_or_default();
                let missing = batch.extent - parts.len();
                let made = Collected { parts, declared: collected.declared.clone(), ..*collected };
                let Item::Tensor(mut row) = self.stacked(on, made)? else { continue };
                if missing > 0 {
                    let mut extents = row.shape().to_vec();
                    if let Some(first) = extents.first_mut() {
                        *first = missing;
                    }
                    row = on.concat(&[&row, &empty(on, row.dtype(), &extents)?], 0)?;
                }
                rows.push(on.unsqueeze(&row, &[0])?);
            }
            results.push(Item::Tensor(join(on, &rows, 0)?));
        }
        Ok(results)
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
            let declared = body.values.get(value.index()).map(|v| v.ty.clone()).unwrap_or_default();
            Collected { parts: Vec::new(), axis, backwards, declared }
        })
        .collect()
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
    on.constant(&TensorData::zeros(dtype, shape, crate::trace::DEFAULT_LIMIT).map_err(Error::from)?)
}
