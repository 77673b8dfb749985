//! Chooses one token for each row: the most probable one, or a randomly drawn one.

use super::options::Draw;
use super::scores::{Scores, greatest};
use bb_core::Error;

/// Returns the most probable token of each row; the first of several equal ones.
pub(super) fn most_probable(scores: &Scores) -> Result<Vec<i32>, Error> {
    scores.rows().map(|row| token(greatest(row, 1)?.first().copied())).collect()
}

fn token(at: Option<usize>) -> Result<i32, Error> {
    at.and_then(|at| i32::try_from(at).ok())
        .ok_or_else(|| Error::excluded("a token among those of the logits"))
}

impl Draw {
    /// Replaces the scores of tokens that `top_p` excludes.
    pub(super) fn filter(&self, scores: &mut Scores) -> Result<(), Error> {
        for row in scores.rows_mut() {
            let mut order = greatest(row, row.len())?;
            let weights = weights(row);
            let total: f64 = weights.iter().sum();
            let probability = |at: usize| (weights.get(at).copied().unwrap_or(0.0) / total) as f32;
            let mut leaves = Vec::new();
            let mut sum = 0.0f32;
            if self.from_first {
                // Drops the tokens after those whose probabilities together exceed `top_p`.
                for pair in order.windows(2) {
                    let [at, next] = *pair else { continue };
                    sum += probability(at);
                    if sum > self.top_p {
                        leaves.push(next);
                    }
                }
            } else {
                order.reverse();
                let most = order.len().saturating_sub(self.kept).max(1);
                for &at in order.iter().take(most) {
                    sum += probability(at);
                    if sum <= 1.0 - self.top_p {
                        leaves.push(at);
                    }
                }
            }
            for at in leaves {
                if let Some(score) = row.get_mut(at) {
                    *score = self.filtered;
                }
            }
        }
        Ok(())
    }
}

/// Draws a token for each row with a random number from 0 to 1.
pub(super) fn drawn(scores: &Scores, mut random: impl FnMut() -> f64) -> Result<Vec<i32>, Error> {
    let mut tokens = Vec::new();
    for row in scores.rows() {
        let weights = weights(row);
        let (total, drawn) = (weights.iter().sum::<f64>(), random());
        let mut sum = 0.0;
        let chosen = weights.iter().position(|weight| {
            sum += weight;
            *weight > 0.0 && sum > drawn * total
        });
        let chosen = match chosen {
            // Because sums are rounded, it is possible that no sum exceeds the product. Then choose the
            // last possible token.
            None => weights.iter().rposition(|weight| *weight > 0.0).or(greatest(row, 1)?.first().copied()),
            chosen => chosen,
        };
        tokens.push(token(chosen)?);
    }
    Ok(tokens)
}

/// Returns weights that are proportional to the probabilities of the tokens.
fn weights(row: &[f32]) -> Vec<f64> {
    let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    row.iter().map(|x| f64::from(x - most).exp()).collect()
}
