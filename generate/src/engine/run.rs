//! A batched step: runs the next tokens of all sequences in one call.

use super::Pooling;
use super::pool::BlockPool;
use super::sequence::{Sequence, Work};
use crate::Error;
use crate::blocks::{BLOCK, Placed};
use crate::decoder::{Decoder, Joined, Ran};

/// Runs the next tokens of all sequences, and writes their keys and values to the blocks.
pub(super) fn run(decoder: &Decoder, running: &[Sequence], pool: &BlockPool) -> Result<Ran, Error> {
    let mut joined = Joined::default();
    let (mut placed, mut tables) = (Vec::new(), Vec::new());
    for sequence in running.iter().filter(|sequence| sequence.next > 0) {
        let (from, count) = (sequence.computed, sequence.next);
        let first = joined.tokens.len();
        let part = sequence.tokens.get(from..from + count).unwrap_or_default();
        joined.push(part.iter().copied(), from)?;
        let rows = first as i64..(first + count) as i64;
        let whole = count == sequence.left();
        match &sequence.work {
            Work::Embedding { pooling: Pooling::Mean, .. } => joined.states.extend(rows),
            Work::Embedding { pooling: Pooling::Last, .. } => {
                joined.states.extend(rows.last().filter(|_| whole))
            }
            Work::Answer(_) => joined.rows.extend(rows.last().filter(|_| whole)),
        }
        let blocks: Vec<u32> = sequence.blocks().iter().map(|held| held.block).collect();
        let mut at = from;
        while at < from + count {
            let block =
                blocks.get(at / BLOCK).ok_or(Error::Internal { what: "a sequence has too few blocks" })?;
            let end = (at / BLOCK + 1) * BLOCK;
            let count = end.min(from + count) - at;
            placed.push(Placed { from: first + at - from, to: *block as usize * BLOCK + at % BLOCK, count });
            at += count;
        }
        tables.push((from.div_ceil(BLOCK), blocks));
    }
    joined.with_table(tables.iter().map(|(used, blocks)| blocks.get(..*used).unwrap_or_default()))?;
    let ran = decoder.run(&joined, pool.memory().views()?)?;
    pool.memory().write(&ran.new, &placed)?;
    Ok(ran)
}
