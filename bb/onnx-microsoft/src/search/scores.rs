//! The scores of the next tokens: logits after penalties and masks.
//!
//! A forbidden token has the lowest finite score, so that some token can always be chosen.

use super::OP;
use super::options::SearchOptions;
use bb_core::Error;
use bb_ir::memory;
use bb_ir::pace::Pace;

/// The scores of all tokens for each row.
#[derive(Debug)]
pub(super) struct Scores {
    pub(super) vocabulary: usize,
    pub(super) elements: Vec<f32>,
}

impl Scores {
    /// Iterates over the rows.
    pub(super) fn rows(&self) -> impl Iterator<Item = &[f32]> {
        self.elements.chunks(self.vocabulary.max(1))
    }

    pub(super) fn rows_mut(&mut self) -> impl Iterator<Item = &mut [f32]> {
        self.elements.chunks_mut(self.vocabulary.max(1))
    }

    /// Replaces logits by log-probabilities.
    pub(super) fn normalise(&mut self) {
        let mut pace = Pace::new();
        for row in self.rows_mut() {
            pace.step(row.len());
            let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let sum: f64 = row.iter().map(|x| f64::from(x - most).exp()).sum();
            let logarithm = sum.ln();
            row.iter_mut().for_each(|x| *x = (f64::from(*x - most) - logarithm) as f32);
        }
    }

    /// Applies penalties and masks. `first` is true before the first token is added to the sequences.
    pub(super) fn restrict(
        &mut self,
        how: &SearchOptions,
        sequences: &[Vec<i32>],
        first: bool,
    ) -> Result<(), Error> {
        let mut pace = Pace::new();
        for (at, (row, sequence)) in self.rows_mut().zip(sequences).enumerate() {
            pace.step(row.len().saturating_add(sequence.len()));
            let element = at / how.beams;
            if how.repetition_penalty != 1.0 {
                repeated(row, sequence, how.repetition_penalty)?;
            }
            if how.ngram > 0 && how.ngram <= sequence.len() {
                let (_, prefix) = sequence.split_at(sequence.len() + 1 - how.ngram);
                pace.step(sequence.len().saturating_mul(how.ngram));
                for found in sequence.windows(how.ngram) {
                    if let Some((&last, before)) = found.split_last()
                        && before == prefix
                    {
                        forbid(row, last);
                    }
                }
            }
            if let Some(mask) = &how.mask {
                masked(row, mask);
            }
            if let (Some(mask), true) = (&how.prefix_mask, first) {
                let width = mask.len() / how.batch.max(1);
                masked(row, mask.get(element * width..(element + 1) * width).unwrap_or_default());
            }
            if sequence.len() < how.least {
                forbid(row, how.end);
            }
            if how.temperature != 1.0 {
                row.iter_mut().for_each(|x| *x /= how.temperature);
            }
            if let Some(presence) = &how.presence {
                let width = presence.len() / how.batch.max(1);
                let own = presence.get(element * width..(element + 1) * width).unwrap_or_default();
                row.iter_mut().zip(own).for_each(|(x, lower)| *x -= lower);
            }
            if let Some(marks) = &how.marks {
                pace.step(row.len());
                marks.restrict(row, sequence);
            }
        }
        Ok(())
    }
}

/// Lowers the scores of tokens that are already in the sequence.
fn repeated(row: &mut [f32], sequence: &[i32], penalty: f32) -> Result<(), Error> {
    let mut seen = memory::copied(OP, sequence)?;
    seen.sort_unstable();
    seen.dedup();
    for token in seen {
        if let Some(score) = usize::try_from(token).ok().and_then(|token| row.get_mut(token)) {
            *score = if *score < 0.0 { *score * penalty } else { *score / penalty };
        }
    }
    Ok(())
}

fn forbid(row: &mut [f32], token: i32) {
    if let Some(score) = usize::try_from(token).ok().and_then(|token| row.get_mut(token)) {
        *score = f32::MIN;
    }
}

fn masked(row: &mut [f32], mask: &[bool]) {
    for (score, _) in row.iter_mut().zip(mask).filter(|(_, may)| !**may) {
        *score = f32::MIN;
    }
}

/// Returns the indices of the `count` greatest numbers, the greatest first. Equal numbers keep their order.
pub(super) fn greatest(numbers: &[f32], count: usize) -> Result<Vec<usize>, Error> {
    let mut order: Vec<usize> = memory::collected(OP, 0..numbers.len())?;
    let number = |at: &usize| numbers.get(*at).copied().unwrap_or(f32::NEG_INFINITY) + 0.0;
    let mut pace = Pace::new();
    let mut compare = |a: &usize, b: &usize| {
        pace.step(1);
        number(b).total_cmp(&number(a)).then(a.cmp(b))
    };
    if (1..order.len()).contains(&count) {
        order.select_nth_unstable_by(count - 1, &mut compare);
        order.truncate(count);
    }
    order.sort_unstable_by(compare);
    Ok(order)
}
