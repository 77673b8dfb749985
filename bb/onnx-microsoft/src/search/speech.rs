//! Additional rules for a search on speech: timestamps come in pairs and do not decrease, and silence has a
//! probability.
//!
//! Source: the schema of `WhisperBeamSearch`, and the behaviour of ONNX Runtime 1.32 if `logits_processor` is 1.

use super::options::wrong;
use super::scores::Scores;
use bb_core::Error;
use bb_ir::graph::Node;

/// The maximum timestamp that a sequence may begin with, relative to the first timestamp token.
const LATEST: usize = 50;

/// The special tokens of a speech model. A negative number means that the model lacks the token.
#[derive(Debug, Clone, Copy)]
pub(super) struct Marks {
    end: i64,
    /// The first timestamp token; all tokens from it on are timestamps.
    first: usize,
    /// Tokens that are never chosen.
    never: [i64; 2],
    /// Tokens that are not chosen after the token that follows the first timestamp.
    tasks: [i64; 3],
}

impl Marks {
    pub(super) fn read(node: &Node, start: i32, end: i32) -> Result<Marks, Error> {
        const FIRST: &str = "beginning_timestamp_token_id";
        let token = |name: &str| -> Result<i64, Error> { Ok(node.attributes.int(name)?.unwrap_or(-1)) };
        let first = token(FIRST)?;
        let positive = usize::try_from(first).ok().filter(|first| *first > 0);
        let first = positive.ok_or_else(|| {
            wrong(
                &node.op_type,
                FIRST,
                format!("is {first}, expected a token above 0 for `logits_processor`"),
            )
        })?;
        Ok(Marks {
            end: i64::from(end),
            first,
            never: [token("no_timestamps_token_id")?, token("start_of_lm_token_id")?],
            tasks: [i64::from(start), token("translate_token_id")?, token("transcribe_token_id")?],
        })
    }

    /// Returns the first timestamp token.
    pub(super) fn first(&self) -> usize {
        self.first
    }

    /// Forbids the tokens that may not follow the sequence.
    pub(super) fn restrict(&self, row: &mut [f32], sequence: &[i32]) {
        let is_mark = |token: &i32| usize::try_from(*token).is_ok_and(|token| token >= self.first);
        // The number of tokens up to and including the first timestamp.
        let begun = sequence.iter().position(is_mark).map_or(sequence.len(), |at| at + 1);
        let later = sequence.len() > begun;
        for token in self.never.iter().chain(self.tasks.iter().filter(|_| later)) {
            if let Some(score) = usize::try_from(*token).ok().and_then(|token| row.get_mut(token)) {
                *score = f32::MIN;
            }
        }
        let mut behind = sequence.iter().rev();
        let last = behind.next().is_some_and(is_mark);
        let paired = !later || behind.next().is_some_and(is_mark);
        if last && paired {
            forbid(row, self.first, usize::MAX);
        } else if last {
            forbid(row, 0, usize::try_from(self.end).unwrap_or(0));
        }
        let greatest = sequence.iter().rev().find(|token| is_mark(token));
        if let Some(mark) = greatest.and_then(|mark| usize::try_from(*mark).ok()) {
            forbid(row, self.first, if last && !paired { mark } else { mark + 1 });
        }
        if !later {
            forbid(row, self.first.saturating_add(LATEST + 1), usize::MAX);
        }
        // If the timestamps together are more probable than any other token, a timestamp must follow.
        let Some((others, marks)) = row.split_at_mut_checked(self.first) else { return };
        let most = marks.iter().copied().fold(f32::MIN, f32::max);
        let sum: f32 = marks.iter().map(|score| (score - most).exp()).sum();
        if sum > 0.0 && sum.ln() + most > others.iter().copied().fold(f32::MIN, f32::max) {
            others.fill(f32::MIN);
        }
    }
}

/// Forbids the tokens `from..to`.
fn forbid(row: &mut [f32], from: usize, to: usize) {
    let count = to.saturating_sub(from);
    row.iter_mut().skip(from).take(count).for_each(|score| *score = f32::MIN);
}

/// Returns the probability of a token for each batch element, computed from the first logits. Each batch element has
/// `beams` rows.
pub(super) fn probability(logits: &Scores, token: usize, beams: usize) -> Vec<f32> {
    let of_row = |row: &[f32]| {
        let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weight = |score: f32| f64::from(score - most).exp();
        let sum: f64 = row.iter().map(|score| weight(*score)).sum();
        (row.get(token).map_or(0.0, |score| weight(*score)) / sum) as f32
    };
    logits.rows().step_by(beams.max(1)).map(of_row).collect()
}
