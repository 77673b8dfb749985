//! The sequences of a batch: where their new positions and their past keys and values are stored.

use super::OP;
use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::ops::dense;
use bb::ir::memory;
use bb::{DataType, Tensor};
use std::ops::Range;

/// A run of keys and values that are consecutive in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    /// The first position of the run in the sequence, and its number of positions.
    pub(super) first: usize,
    pub(super) count: usize,
    /// The position over all blocks, counted as if the blocks were concatenated; `None` for new positions.
    pub(super) place: Option<usize>,
}

/// One sequence of the batch.
#[derive(Debug)]
pub(super) struct Sequence {
    /// The index of its first new position among all new positions, and its number of new positions.
    pub(super) start: usize,
    pub(super) new: usize,
    pub(super) past: usize,
    /// The indices of its runs in [`Sequences::runs`].
    pub(super) runs: Range<usize>,
}

/// Reads integers. Returns `None` for other types. Converts negative numbers to the maximum, which is out of range
/// everywhere.
pub(super) fn numbers(cpu: &Cpu, x: &Array) -> Result<Option<Vec<usize>>> {
    let x = dense(cpu.pool(), x)?;
    if x.is_empty() {
        return Ok(Some(Vec::new()));
    }
    // Table entries beyond the length of a sequence may be negative, because they are never used.
    let read = |number: i64| usize::try_from(number).unwrap_or(usize::MAX);
    // SAFETY: the elements are contiguous, have this type, and are not written while the array exists.
    let numbers = unsafe {
        match x.dtype() {
            DataType::I32 => {
                let numbers = std::slice::from_raw_parts(x.ptr().cast::<i32>(), x.len());
                memory::collected(OP, numbers.iter().map(|&i| read(i.into())))
            }
            DataType::I64 => {
                let numbers = std::slice::from_raw_parts(x.ptr().cast::<i64>(), x.len());
                memory::collected(OP, numbers.iter().map(|&i| read(i)))
            }
            _ => return Ok(None),
        }
    };
    Ok(Some(numbers?))
}

/// The block table: the blocks that store the past of each sequence.
pub(super) struct Table {
    pub(super) rows: usize,
    pub(super) width: usize,
    pub(super) entries: Vec<usize>,
    pub(super) blocks: usize,
    pub(super) size: usize,
}

/// All sequences, and the runs of all sequences in order.
pub(super) struct Sequences {
    pub(super) list: Vec<Sequence>,
    pub(super) runs: Vec<Run>,
}

impl Table {
    /// Resolves the sequences. Returns `None` if the numbers are inconsistent.
    pub(super) fn sequences(
        &self,
        starts: &[usize],
        pasts: &[usize],
        new: usize,
    ) -> Result<Option<Sequences>> {
        if starts.len() != pasts.len() + 1 || pasts.len() != self.rows {
            return Ok(None);
        }
        if starts.first() != Some(&0) || starts.last() != Some(&new) {
            return Ok(None);
        }
        let (mut list, mut runs) = (memory::room(OP, pasts.len())?, Vec::new());
        for (i, (pair, &past)) in starts.windows(2).zip(pasts).enumerate() {
            let &[start, end] = pair else { return Ok(None) };
            let Some(new) = end.checked_sub(start) else { return Ok(None) };
            let Some(entries) = self.entries.get(i * self.width..(i + 1) * self.width) else {
                return Ok(None);
            };
            if self.width.checked_mul(self.size).is_none_or(|room| past > room) {
                return Ok(None);
            }
            let own = runs.len();
            for (j, &block) in entries.iter().enumerate() {
                let first = j * self.size;
                if first >= past {
                    break;
                }
                if block >= self.blocks {
                    return Ok(None);
                }
                let (count, place) = (self.size.min(past - first), block * self.size);
                match runs.get_mut(own..).and_then(<[Run]>::last_mut) {
                    Some(run) if run.place == Some(place.wrapping_sub(run.count)) => run.count += count,
                    _ => memory::push(OP, &mut runs, Run { first, count, place: Some(place) })?,
                }
            }
            memory::push(OP, &mut runs, Run { first: past, count: new, place: None })?;
            list.push(Sequence { start, new, past, runs: own..runs.len() });
        }
        Ok(Some(Sequences { list, runs }))
    }
}
