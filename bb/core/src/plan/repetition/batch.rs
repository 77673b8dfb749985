//! The batch of a `Scan` of opset 8. All iterations of one batch element run before the next batch element begins.

use super::{Collected, Repetition, empty, join};
use crate::contract::OnnxValue;
use crate::error::NodePart;
use crate::operator::Item;
use crate::{Backend, Error, Tensor};

/// The batch of a `Scan` of opset 8.
#[derive(Debug)]
pub(super) struct Batch<T> {
    pub(super) lengths: Vec<usize>,
    pub(super) extent: usize,
    /// The index of the current batch element.
    pub(super) at: usize,
    pub(super) iteration: usize,
    pub(super) initial: Vec<Item<T>>,
    pub(super) done: Vec<Row<T>>,
}

/// The results for a batch element: its last state, and the parts of each result.
#[derive(Debug)]
pub(super) struct Row<T> {
    state: Vec<Item<T>>,
    parts: Vec<Vec<OnnxValue<T>>>,
}

impl<T: Tensor> Repetition<T> {
    /// Advances to the next batch element whose sequence has iterations left.
    pub(super) fn next_in_batch<B: Backend<Tensor = T> + ?Sized>(&mut self, on: &B) -> Result<(), B::Error> {
        let Some(batch) = &mut self.batch else { return Ok(()) };
        loop {
            let Some(&length) = batch.lengths.get(batch.at) else { return Ok(()) };
            if batch.iteration == 0 {
                let row = batch.at as i64;
                self.state = batch
                    .initial
                    .iter()
                    .map(|item| {
                        let Item::Parts(item) = item else { return Ok(item.clone()) };
                        let of_row = |x: &T| on.squeeze(&on.slice(x, &[row], &[row + 1], &[0], &[])?, &[0]);
                        item.try_map(&mut { of_row }).map(Item::Parts)
                    })
                    .collect::<Result<_, B::Error>>()?;
            }
            if batch.iteration < length {
                batch.iteration += 1;
                return Ok(());
            }
            let parts = self.collected.iter_mut().map(|c| std::mem::take(&mut c.parts)).collect();
            batch.done.push(Row { state: std::mem::take(&mut self.state), parts });
            batch.at += 1;
            batch.iteration = 0;
        }
    }

    /// Stacks the states and results of all batch elements; shorter sequences are padded with zeros.
    pub(super) fn finish_batch<B: Backend<Tensor = T> + ?Sized>(
        &self,
        on: &B,
        batch: Batch<T>,
    ) -> Result<Vec<Item<T>>, B::Error> {
        let mut results = Vec::new();
        let nothing = || self.wrong(NodePart::other("the batch"), "is empty; its results have no extents");
        let states = batch.done.first().ok_or_else(nothing)?.state.len();
        for i in 0..states {
            let mut rows = Vec::with_capacity(batch.done.len());
            for row in &batch.done {
                let state = row.state.get(i).and_then(Item::tensor);
                let state = state.ok_or_else(|| self.wrong(NodePart::other("a state"), "is no tensor"))?;
                rows.push(on.unsqueeze(state, &[0])?);
            }
            results.push(Item::Parts(OnnxValue::Tensor(join(on, &rows, 0)?)));
        }
        for (i, collected) in self.collected.iter().enumerate() {
            let mut rows = Vec::new();
            for row in &batch.done {
                let parts =
                    row.parts.get(i).ok_or_else(|| Error::excluded("the parts of each result"))?.clone();
                let missing = batch.extent.saturating_sub(parts.len());
                let made = Collected { parts, declared: collected.declared.clone(), ..*collected };
                let mut row = self.stacked(on, made)?;
                if missing > 0 {
                    let mut extents = row.shape().to_vec();
                    if let Some(first) = extents.first_mut() {
                        *first = missing;
                    }
                    row = on.concat(&[&row, &empty(on, row.dtype(), &extents)?], 0)?;
                }
                rows.push(on.unsqueeze(&row, &[0])?);
            }
            results.push(Item::Parts(OnnxValue::Tensor(join(on, &rows, 0)?)));
        }
        Ok(results)
    }
}
