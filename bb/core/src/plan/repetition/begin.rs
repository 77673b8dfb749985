//! Prepares the iterations of `Loop`, `Scan` and `SequenceMap` from the node's operands.

use super::{Batch, Repetition, Scanned, collected};
use crate::contract::OnnxValue;
use crate::error::NodePart;
use crate::operator::Item;
use crate::plan::resolve::Repeat;
use crate::{Backend, Error, Tensor};
use bb_ir::graph::{Graph, Node};

/// The maximum size of a batch. The limit is needed because state is kept for each batch element, even if the elements are
/// empty.
const MOST_BATCH: usize = 1 << 20;

impl<T: Tensor> Repetition<T> {
    pub(super) fn begin_loop<B: Backend<Tensor = T> + ?Sized>(
        &mut self,
        on: &B,
        body: &Graph,
        operands: Vec<Option<Item<T>>>,
    ) -> Result<(), B::Error> {
        let mut operands = operands.into_iter();
        if let Some(Item::Parts(OnnxValue::Tensor(trips))) = operands.next().flatten() {
            let trips = self.number(on, &trips, "the trip count")?;
            self.trips = Some(usize::try_from(trips).unwrap_or(0));
        }
        if let Some(Item::Parts(OnnxValue::Tensor(condition))) = operands.next().flatten() {
            self.holds = self.number(on, &condition, "the condition")? != 0;
            self.condition = Some(OnnxValue::Tensor(condition));
        }
        self.state = operands.map(|x| x.unwrap_or(Item::Parts(OnnxValue::Absent))).collect();
        self.collected = collected(body, 1 + self.state.len(), |_| (0, false));
        Ok(())
    }

    pub(super) fn begin_scan<B: Backend<Tensor = T> + ?Sized>(
        &mut self,
        on: &B,
        node: &Node,
        body: &Graph,
        mut operands: Vec<Option<Item<T>>>,
    ) -> Result<(), B::Error> {
        let batched = matches!(self.repeat, Repeat::BatchedScan);
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
            let from = operand.unwrap_or(Item::Parts(OnnxValue::Absent));
            let axis = if batched { 1 } else { at(axes, i) };
            self.scanned.push(Scanned { from, axis, backwards: at(directions, i) != 0 });
        }
        self.state = operands.into_iter().map(|x| x.unwrap_or(Item::Parts(OnnxValue::Absent))).collect();
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
                    part: NodePart::other("a scanned operand"),
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
            if size > MOST_BATCH {
                let problem = format!("has {size} elements, more than {MOST_BATCH}");
                return Err(self.wrong(NodePart::other("the batch"), problem).into());
            }
            let lengths = match lengths {
                Some(Item::Parts(OnnxValue::Tensor(x))) => {
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
            self.batch =
                Some(Batch { lengths, extent: trips, at: 0, iteration: 0, initial, done: Vec::new() });
        }
        Ok(())
    }

    pub(super) fn begin_map(&mut self, body: &Graph, operands: Vec<Option<Item<T>>>) -> Result<(), Error> {
        for operand in operands {
            let from = operand.unwrap_or(Item::Parts(OnnxValue::Absent));
            if let Some(items) = from.items() {
                match self.trips {
                    Some(trips) if trips != items.len() => {
                        let problem = format!("has {} items, the first has {trips}", items.len());
                        return Err(self.wrong(NodePart::other("a sequence"), problem));
                    }
                    _ => self.trips = Some(items.len()),
                }
            }
            self.scanned.push(Scanned { from, axis: 0, backwards: false });
        }
        self.collected = collected(body, 0, |_| (0, false));
        Ok(())
    }
}
