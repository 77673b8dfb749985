//! Runs of a decoder.

use super::Decoder;
use crate::Error;
use crate::blocks::BLOCK;
use crate::cache::Cache;
use bb::{TensorData, Value};

/// A batch: the new tokens of several sequences, concatenated, and the blocks of their pasts.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Joined {
    pub(crate) tokens: Vec<i64>,
    /// The position of each token in its sequence.
    pub(crate) positions: Vec<i64>,
    /// The start of each sequence in `tokens`, and the end of the last one.
    pub(crate) starts: Vec<i32>,
    /// The number of positions of each past.
    pub(crate) pasts: Vec<i32>,
    /// The blocks of each past, one row per sequence. All rows have the length of the longest one.
    pub(crate) table: Vec<i32>,
    /// The indices of the tokens after which logits are requested.
    pub(crate) rows: Vec<i64>,
    /// The indices of the tokens whose last hidden state is requested.
    pub(crate) states: Vec<i64>,
}

impl Joined {
    /// Adds the new tokens of a sequence that has `past` positions. [`with_table`](Self::with_table) adds its blocks.
    pub(crate) fn push(
        &mut self,
        tokens: impl ExactSizeIterator<Item = u32>,
        past: usize,
    ) -> Result<(), Error> {
        let number = |n: usize| {
            i32::try_from(n).map_err(|_| Error::Internal { what: "a number of positions is beyond 32 bits" })
        };
        if self.starts.is_empty() {
            self.starts.push(0);
        }
        self.positions.extend((past as i64..).take(tokens.len()));
        self.tokens.extend(tokens.map(i64::from));
        self.starts.push(number(self.tokens.len())?);
        self.pasts.push(number(past)?);
        Ok(())
    }

    /// Sets the table of the blocks of all sequences, in their order.
    pub(crate) fn with_table<'a>(
        &mut self,
        blocks: impl Iterator<Item = &'a [u32]> + Clone,
    ) -> Result<(), Error> {
        let width = blocks.clone().map(<[u32]>::len).max().unwrap_or(0).max(1);
        for row in blocks {
            for at in 0..width {
                let block = row.get(at).copied().unwrap_or(0);
                let block = i32::try_from(block);
                self.table.push(block.map_err(|_| Error::Internal { what: "a block is beyond 32 bits" })?);
            }
        }
        Ok(())
    }
}

/// The results of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    /// For each layer, the keys of the new tokens followed by their values, and the scales in the same order if there are
    /// any.
    pub(crate) new: Vec<Value>,
    /// The logits, `[rows, vocabulary]`.
    pub(crate) logits: TensorData,
    /// The last hidden states, `[states, width]`.
    pub(crate) states: TensorData,
}

impl Decoder {
    /// Runs the decoder on new tokens. `caches` are the blocks of each cache.
    pub(crate) fn run(&self, joined: &Joined, caches: Vec<Value>) -> Result<Ran, Error> {
        let sequences = joined.pasts.len();
        let width = joined.table.len().checked_div(sequences).unwrap_or(0);
        let mut inputs: Vec<Value> = vec![
            self.embedded(&joined.tokens)?,
            self.on.tensor(&[joined.rows.len()], &joined.rows)?,
            self.on.tensor(&[joined.states.len()], &joined.states)?,
            self.on.tensor(&[joined.tokens.len()], &joined.positions)?,
            self.on.tensor(&[joined.starts.len()], &joined.starts)?,
            self.on.tensor(&[sequences], &joined.pasts)?,
            self.on.tensor(&[sequences, width], &joined.table)?,
        ];
        inputs.extend(caches);
        let given: Vec<Option<&Value>> = inputs.iter().map(Some).collect();
        let mut results = self.program.run(&given)?;
        let mut last = || {
            let result = results.pop().ok_or(Error::Internal { what: "a run gave too few results" })?;
            Ok::<_, Error>(self.on.to_host(&result)?)
        };
        let (states, logits) = (last()?, last()?);
        Ok(Ran { new: results, logits, states })
    }

    /// Runs new tokens of one sequence. Returns the logits after the tokens at the indices `rows`, `[rows, vocabulary]`.
    pub(crate) fn step(&self, tokens: &[u32], rows: &[i64], cache: &mut Cache) -> Result<TensorData, Error> {
        cache.reserve(tokens.len())?;
        let past = cache.len();
        let blocks: Vec<u32> = (0..past.div_ceil(BLOCK) as u32).collect();
        let mut joined = Joined { rows: rows.to_vec(), ..Joined::default() };
        joined.push(tokens.iter().copied(), past)?;
        joined.with_table(std::iter::once(blocks.as_slice()))?;
        // The views of the caches are dropped at the end of the run, so that the new positions can be written in place.
        let Ran { new, logits, .. } = self.run(&joined, cache.views()?)?;
        cache.append(&new, tokens.len())?;
        Ok(logits)
    }
}
