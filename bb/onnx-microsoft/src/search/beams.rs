//! The most probable sequences of a beam search: the active sequences, and the finished sequences.

use super::OP;
use super::options::SearchOptions;
use super::scores::{Scores, greatest};
use bb_core::Error;
use bb_ir::memory;

/// The finished sequences of a batch element, the best first.
#[derive(Debug, Default)]
struct Ended {
    sequences: Vec<(Vec<i32>, f32)>,
    /// Whether no active sequence can become better than these.
    done: bool,
}

/// The scores of the active sequences, and the finished sequences.
#[derive(Debug)]
pub(super) struct Beams {
    /// The score of each active sequence.
    scores: Vec<f32>,
    ended: Vec<Ended>,
}

/// The next tokens: for each row of the batch, the row that it continues, and the token.
pub(super) type Chosen = Vec<(usize, i32)>;

impl Beams {
    pub(super) fn new(how: &SearchOptions) -> Result<Beams, Error> {
        // At first, all sequences of a batch element are the same, so only one of them may be continued.
        let score = |row: usize| if row.is_multiple_of(how.beams) { 0.0 } else { -1e9 };
        let scores = memory::collected(OP, (0..how.rows()).map(score))?;
        let ended = memory::collected(OP, (0..how.batch).map(|_| Ended::default()))?;
        Ok(Beams { scores, ended })
    }

    /// Returns the size of the finished sequences, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let sequences = self.ended.iter().flat_map(|ended| &ended.sequences);
        sequences.map(|(tokens, _)| size_of_val(tokens.as_slice())).sum()
    }

    /// Adds the scores of the sequences to the scores of the tokens.
    pub(super) fn add_to(&self, scores: &mut Scores) {
        for (row, own) in scores.rows_mut().zip(&self.scores) {
            row.iter_mut().for_each(|score| *score += own);
        }
    }

    /// Chooses the next tokens; `None` if no sequence can become better than the finished ones.
    pub(super) fn choose(
        &mut self,
        how: &SearchOptions,
        scores: &Scores,
        sequences: &[Vec<i32>],
    ) -> Result<Option<Chosen>, Error> {
        let (beams, vocabulary) = (how.beams, scores.vocabulary);
        if vocabulary < 2 {
            return Err(how.wrong("decoder", format!("gives logits for {vocabulary} tokens, expected 2")));
        }
        // The best candidates of each batch element, one element after another: row, token and score.
        let mut best: Vec<(usize, i32, f32)> = Vec::new();
        for (element, all) in scores.elements.chunks(beams * vocabulary).enumerate() {
            for at in greatest(all, 2 * beams)? {
                let score = all.get(at).copied().unwrap_or(f32::NEG_INFINITY);
                let token = i32::try_from(at % vocabulary).unwrap_or(i32::MAX);
                memory::push(OP, &mut best, (element * beams + at / vocabulary, token, score))?;
            }
        }
        let mut chosen = Chosen::new();
        let mut next = Vec::new();
        for (element, ended) in self.ended.iter_mut().enumerate() {
            if ended.done {
                chosen.extend(std::iter::repeat_n((0, how.padding), beams));
                next.extend(std::iter::repeat_n(0.0, beams));
                continue;
            }
            let from = element * 2 * beams;
            let own = best.get(from..from + 2 * beams).unwrap_or_default();
            let mut found = 0;
            for (rank, &(row, token, score)) in own.iter().enumerate() {
                if token != how.end {
                    chosen.push((row, token));
                    next.push(score);
                    found += 1;
                } else if rank < beams
                    && let Some(sequence) = sequences.get(row)
                {
                    ended.add(how, sequence, score)?;
                }
                if found == beams {
                    break;
                }
            }
            if ended.sequences.len() < beams {
                continue;
            }
            // ONNX Runtime reads the scores from this index on. For all batch elements except the first, they include scores of
            // other elements. Do the same, to get equal results.
            let looked_at = best.get(element * beams..(element + 2) * beams).unwrap_or_default();
            let most = looked_at.iter().map(|(_, _, score)| *score).fold(f32::NEG_INFINITY, f32::max);
            let length = sequences.first().map_or(0, Vec::len);
            let worst = ended.sequences.last().map_or(f32::NEG_INFINITY, |(_, score)| *score);
            ended.done = how.early_stopping || worst >= normalised(how, most, length);
        }
        self.scores = next;
        Ok((!self.ended.iter().all(|ended| ended.done)).then_some(chosen))
    }

    /// Returns the best sequences of each batch element, with their scores.
    pub(super) fn finish(
        mut self,
        how: &SearchOptions,
        sequences: &[Vec<i32>],
    ) -> Result<Vec<(Vec<i32>, f32)>, Error> {
        let mut all = Vec::new();
        for (element, ended) in self.ended.iter_mut().enumerate() {
            let rows = element * how.beams..(element + 1) * how.beams;
            if !ended.done {
                for (sequence, &score) in sequences
                    .get(rows.clone())
                    .into_iter()
                    .flatten()
                    .zip(self.scores.get(rows).into_iter().flatten())
                {
                    ended.add(how, sequence, score)?;
                }
            }
            all.extend(std::mem::take(&mut ended.sequences).into_iter().take(how.returned));
        }
        Ok(all)
    }
}

impl Ended {
    /// Adds a sequence, unless there are already enough sequences that are at least as good.
    fn add(&mut self, how: &SearchOptions, sequence: &[i32], sum: f32) -> Result<(), Error> {
        let score = normalised(how, sum, sequence.len());
        if self.sequences.len() == how.beams {
            if self.sequences.last().is_some_and(|(_, worst)| score <= *worst) {
                return Ok(());
            }
            self.sequences.pop();
        }
        let at = self.sequences.iter().rposition(|(_, better)| *better >= score).map_or(0, |at| at + 1);
        let copied = memory::copied(OP, sequence)?;
        self.sequences.insert(at, (copied, score));
        Ok(())
    }
}

/// Returns the sum of a sequence's log-probabilities, normalized by its length.
fn normalised(how: &SearchOptions, sum: f32, length: usize) -> f32 {
    sum / (length as f32).powf(how.length_penalty)
}
