//! Convolution filters, transformed to Winograd points.

use super::POINTS;
use crate::kernels::dispatch::{VectorLoop, dispatch};
use bb::ir::memory;

/// The minimum number of channels and of filters of a group. With fewer, the transforms cost more than they save.
const CHANNELS: usize = 16;

/// Transformed filters, `[groups, points, filters, depth]`.
#[derive(Debug)]
pub(crate) struct Filters {
    pub(super) points: Vec<f32>,
    pub(super) groups: usize,
    pub(super) filters: usize,
    pub(super) depth: usize,
}

impl Filters {
    /// Returns whether filters of this shape, in this number of groups, can be transformed.
    pub(crate) fn suit(shape: &[usize], groups: usize) -> bool {
        let &[m, depth, 3, 3] = shape else { return false };
        groups > 0 && m.is_multiple_of(groups) && m / groups >= CHANNELS && depth >= CHANNELS
    }

    /// Transforms filters of shape `[m, depth, 3, 3]`. Returns `None` if [they do not suit](Self::suit), or if a value is too
    /// large.
    ///
    /// # Errors
    ///
    /// [`bb::ir::Error::Memory`].
    pub(crate) fn new(
        w: &[f32],
        shape: &[usize],
        groups: usize,
    ) -> std::result::Result<Option<Filters>, bb::ir::Error> {
        let &[m, depth, ..] = shape else { return Ok(None) };
        if !Filters::suit(shape, groups) || w.len() != m * depth * 9 || !all_fit(w) {
            return Ok(None);
        }
        let filters = m / groups;
        let mut points = memory::filled("conv", 0f32, POINTS * m * depth)?;
        for (at, window) in w.chunks_exact(9).enumerate() {
            let (filter, channel) = (at / depth, at % depth);
            let (group, filter) = (filter / filters, filter % filters);
            for (point, value) in transformed(window).into_iter().enumerate() {
                let place = ((group * POINTS + point) * filters + filter) * depth + channel;
                if let Some(slot) = points.get_mut(place) {
                    *slot = value as f32;
                }
            }
        }
        Ok(Some(Filters { points, groups, filters, depth }))
    }

    /// Restores the original filters, `[m, depth, 3, 3]`. The corner weights of each window are exact. The other weights differ
    /// by the rounding of points, which is at most 2^-22 of the window's largest weight. Results computed from points have the
    /// same error.
    pub(crate) fn restore(&self, w: &mut [f32]) {
        let &Filters { ref points, filters, depth, .. } = self;
        for (at, window) in w.chunks_exact_mut(9).enumerate() {
            let (filter, channel) = (at / depth, at % depth);
            let (group, filter) = (filter / filters, filter % filters);
            let place = |point| ((group * POINTS + point) * filters + filter) * depth + channel;
            let points = std::array::from_fn(|point| points.get(place(point)).copied().unwrap_or_default());
            window.copy_from_slice(&restored(points));
        }
    }

    /// Returns the size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.points.len() * size_of::<f32>()
    }
}

/// The upper limit of values that may be transformed. The difference of larger values might overflow, and an infinity would
/// turn results of neighbouring windows into NaN.
const GREATEST: f32 = 1e30;

/// Returns whether all values may be transformed.
pub(crate) fn all_fit(x: &[f32]) -> bool {
    dispatch(Fit(x))
}

struct Fit<'a>(&'a [f32]);

impl VectorLoop for Fit<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> bool {
        // A comparison with NaN is false, so NaN does not fit either.
        self.0.iter().fold(true, |all, x| all & (x.abs() < GREATEST))
    }
}

/// Transforms a window of weights to points. Each point is rounded only once, by the caller.
fn transformed(window: &[f32]) -> [f64; POINTS] {
    let line = |[a, b, c]: [f64; 3]| [a, (a + b + c) / 2.0, (a - b + c) / 2.0, c];
    let weight = |at: usize| window.get(at).copied().map_or(0.0, f64::from);
    let rows: [[f64; 4]; 3] = std::array::from_fn(|y| line(std::array::from_fn(|x| weight(3 * y + x))));
    let [first, second, third] = rows;
    let mut points = [0.0; POINTS];
    for (x, ((a, b), c)) in first.into_iter().zip(second).zip(third).enumerate() {
        for (y, value) in line([a, b, c]).into_iter().enumerate() {
            if let Some(slot) = points.get_mut(4 * y + x) {
                *slot = value;
            }
        }
    }
    points
}

/// Returns the window of weights with these points. Along each line, the outer points equal the outer weights, and the
/// difference of the two inner points is the middle weight.
fn restored(points: [f32; POINTS]) -> [f32; 9] {
    let line = |[a, b, c, d]: [f64; 4]| [a, b - c, d];
    let point = |at: usize| points.get(at).copied().map_or(0.0, f64::from);
    let columns: [[f64; 3]; 4] = std::array::from_fn(|x| line(std::array::from_fn(|y| point(4 * y + x))));
    let [first, second, third, fourth] = columns;
    let mut window = [0.0; 9];
    for (y, (((a, b), c), d)) in first.into_iter().zip(second).zip(third).zip(fourth).enumerate() {
        for (x, value) in line([a, b, c, d]).into_iter().enumerate() {
            if let Some(slot) = window.get_mut(3 * y + x) {
                *slot = value as f32;
            }
        }
    }
    window
}
