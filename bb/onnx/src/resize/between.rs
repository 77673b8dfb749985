//! Interpolates elements as weighted sums of their neighbours.

use super::MOST;
use bb_core::ext::math;
use bb_core::operator::Call;
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{Error, Tensor};
use bb_ir::memory;

/// Returns the weight of a neighbour at a distance, for linear interpolation or for cubic splines with the coefficient `a`.
fn weight(cubic: Option<f64>, distance: f64) -> f64 {
    let d = distance.abs();
    match cubic {
        None => (1.0 - d).max(0.0),
        Some(a) if d <= 1.0 => ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0,
        Some(a) if d < 2.0 => ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a,
        Some(_) => 0.0,
    }
}

/// Resizes an axis by weighted sums of neighbours, by gathers or by a matrix product, whichever costs less.
pub(super) fn between(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    y: &TracedTensor,
    axis: usize,
    shares: &Shares,
    positions: &[f64],
) -> Result<TracedTensor, TraceStop> {
    if let Some(sum) = by_taps(on, y, axis, shares, positions)? {
        return Ok(sum);
    }
    let (from, to) = (shares.from, positions.len());
    let matrix = weights(shares, positions).map_err(Error::from)?;
    let matrix = matrix.ok_or_else(|| {
        call.wrong("scales", format!("makes {} weights for an axis", from.saturating_mul(to)))
    })?;
    let matrix = math::to(on, &on.host(&[from, to], &matrix)?, y.dtype())?;
    let mut perm: Vec<i64> = (0..y.rank() as i64).collect();
    perm.swap(axis, y.rank() - 1);
    if axis + 1 == y.rank() {
        on.matmul(y, &matrix)
    } else {
        on.transpose(&on.matmul(&on.transpose(y, &perm)?, &matrix)?, &perm)
    }
}

/// The parameters of the interpolation weights of an axis.
pub(super) struct Shares {
    pub(super) from: usize,
    /// The coefficient of cubic splines; `None` for linear interpolation.
    pub(super) cubic: Option<f64>,
    pub(super) stretch: f64,
    /// Whether elements beyond the ends have no weight.
    pub(super) exclude: bool,
}

impl Shares {
    /// Returns the maximum distance between a position and an element with a weight.
    fn reach(&self) -> f64 {
        let plain = if self.cubic.is_some() { 2.0 } else { 1.0 };
        plain / self.stretch
    }

    /// Returns the elements that contribute to the value at a position, and their weights. An element at an end may occur more
    /// than once, because the ends are repeated outwards.
    fn near(&self, p: f64) -> Vec<(usize, f64)> {
        let (first, last) = ((p - self.reach()).floor() as i64, (p + self.reach()).ceil() as i64);
        let mut near: Vec<(i64, f64)> =
            (first..=last).map(|q| (q, weight(self.cubic, (q as f64 - p) * self.stretch))).collect();
        let end = self.from as i64;
        if self.exclude {
            near.retain(|(q, _)| (0..end).contains(q));
        }
        let total: f64 = near.iter().map(|(_, w)| w).sum();
        near.retain(|&(_, w)| w != 0.0 && total != 0.0);
        near.into_iter().map(|(q, w)| (q.clamp(0, end - 1) as usize, w / total)).collect()
    }
}

/// The minimum axis length per interpolation tap at which gathers cost less than a product with the mostly zero weight matrix.
const FOR_EACH_TAP: f64 = 32.0;

/// The maximum number of gathers for an axis. More gathers would make a long trace, and repeated halving of weights (see
/// [`by_taps`]) would end at zero.
const TAPS: f64 = 32.0;

/// Resizes an axis by one gather per interpolation tap; `None` if a matrix product costs less.
fn by_taps(
    on: &Tracer,
    x: &TracedTensor,
    axis: usize,
    shares: &Shares,
    positions: &[f64],
) -> Result<Option<TracedTensor>, TraceStop> {
    let width = 2.0 * shares.reach();
    if width * FOR_EACH_TAP > shares.from as f64 || width > TAPS {
        return Ok(None);
    }
    let taps = positions.iter().map(|&p| shares.near(p).len()).max().unwrap_or(0).max(1);
    let mut shape = vec![1; x.rank() - axis];
    if let Some(extent) = shape.first_mut() {
        *extent = positions.len();
    }
    let mut sum: Option<TracedTensor> = None;
    for tap in 0..taps {
        // If a position has fewer elements than taps, it reads its last element again, with half of the weight each time. So an
        // infinity stays one.
        let mut indices = memory::filled("Resize", 0i64, positions.len()).map_err(Error::from)?;
        let mut factors = memory::filled("Resize", 0.0, positions.len()).map_err(Error::from)?;
        for ((index, factor), &p) in indices.iter_mut().zip(&mut factors).zip(positions) {
            let near = shares.near(p);
            let Some(&(at, share)) = near.get(tap).or(near.last()) else { continue };
            let again = (tap + 1).saturating_sub(near.len()) + usize::from(tap + 1 < taps);
            let halvings = if tap + 1 < near.len() { 0 } else { again };
            (*index, *factor) = (at as i64, share * 0.5f64.powi(halvings as i32));
        }
        let factors = math::to(on, &on.host(&shape, &factors)?, x.dtype())?;
        let part = on.mul(&on.gather(x, &on.host(&[indices.len()], &indices)?, axis as i64)?, &factors)?;
        sum = Some(match sum {
            Some(sum) => on.add(&sum, &part)?,
            None => part,
        });
    }
    Ok(sum)
}

/// Returns the weight of each element of the operand in each element of the result, `[from, to]`; `None` if there are too many
/// weights.
fn weights(shares: &Shares, positions: &[f64]) -> Result<Option<Vec<f64>>, bb_ir::Error> {
    let to = positions.len();
    let Some(count) = shares.from.checked_mul(to).filter(|&n| n <= MOST) else { return Ok(None) };
    let mut matrix = memory::filled("Resize", 0.0, count)?;
    for (column, &p) in positions.iter().enumerate() {
        for (row, share) in shares.near(p) {
            if let Some(slot) = matrix.get_mut(row * to + column) {
                *slot += share;
            }
        }
    }
    Ok(Some(matrix))
}
