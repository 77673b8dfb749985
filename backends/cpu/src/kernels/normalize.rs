//! Normalisations of whole rows of `f32`, and shared code of row functions.
//!
//! Sums are computed in short blocks, each with several partial sums, and the sums of blocks are added in `f64`.
//! Therefore the error does not grow with the length of a row.

use super::dispatch::{VectorLoop, dispatch};
use super::{Shared, walk};
use crate::pace::Pace;

/// The number of elements below which a second thread costs more than it saves.
pub(super) const GRAIN: usize = 1 << 15;
/// The number of elements of a block, whose sum is computed in `f32`.
const BLOCK: usize = 1024;
/// The number of independent partial sums of a block.
pub(super) const LANES: usize = 64;
/// The number of partial sums that are converted to `f64` at the end of a block.
const FEW_LANES: usize = 16;

/// A function from one row to another of the same length.
pub(super) trait RowFunction: Copy + Sync {
    /// Writes the values of row `i`, which is `x`, to `out`. It must be `#[inline(always)]`, like the loops that it contains.
    fn row<const FMA: bool>(self, i: usize, out: &mut [f32], x: &[f32]);
}

struct NormalizedRow<'a, F> {
    i: usize,
    out: &'a mut [f32],
    x: &'a [f32],
    function: F,
}

impl<F: RowFunction> VectorLoop for NormalizedRow<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        self.function.row::<FMA>(self.i, self.out, self.x);
    }
}

/// Applies a function to each contiguous row.
///
/// # Safety
///
/// `out` and `x` hold `rows * cols` elements and are disjoint.
pub(super) unsafe fn each_row(
    [rows, cols]: [usize; 2],
    out: *mut f32,
    x: *const f32,
    function: impl RowFunction,
) {
    let shared = Shared((out, x));
    walk::split(rows, cols, GRAIN, |from, to| {
        let (out, x) = shared.get();
        for i in from..to {
            // SAFETY: row `i` is in both matrices, and no other call writes it.
            let (out, x) = unsafe {
                (
                    std::slice::from_raw_parts_mut(out.add(i * cols), cols),
                    std::slice::from_raw_parts(x.add(i * cols), cols),
                )
            };
            dispatch(NormalizedRow { i, out, x, function });
        }
    });
}

/// Combines two arrays element by element.
#[inline(always)]
pub(super) fn lanewise<const N: usize>(
    mut lanes: [f32; N],
    x: &[f32; N],
    f: impl Fn(f32, f32) -> f32,
) -> [f32; N] {
    for (lane, &x) in lanes.iter_mut().zip(x) {
        *lane = f(*lane, x);
    }
    lanes
}

/// Combines each lane of the first half with the same lane of the second half, repeatedly until one lane is left.
/// Combining one lane after another would be a longer chain of dependent operations.
#[inline(always)]
pub(super) fn folded<T: Copy + Default, const N: usize>(mut lanes: [T; N], f: impl Fn(T, T) -> T) -> T {
    const { assert!(N.is_power_of_two()) };
    let mut half = N / 2;
    while half > 0 {
        let (low, high) = lanes.split_at_mut(half);
        for (low, &high) in low.iter_mut().zip(&*high) {
            *low = f(*low, high);
        }
        half /= 2;
    }
    lanes.first().copied().unwrap_or_default()
}

/// Returns the sum of `f(x)` over all elements.
#[inline(always)]
pub(super) fn sum(x: &[f32], f: impl Fn(f32) -> f32) -> f64 {
    let mut total = 0.0;
    let mut pace = Pace::new();
    for block in x.chunks(BLOCK) {
        pace.step(block.len());
        let (whole, rest) = block.as_chunks::<LANES>();
        let mut lanes = [0.0; LANES];
        for x in whole {
            lanes = lanewise(lanes, x, |sum, x| sum + f(x));
        }
        for (lane, &x) in lanes.iter_mut().zip(rest) {
            *lane += f(x);
        }
        // Reduces the lanes in `f32` first: for short rows, converting all lanes to `f64` would take most of the time.
        let mut few = [0.0; FEW_LANES];
        for lanes in lanes.as_chunks::<FEW_LANES>().0 {
            for (few, &lane) in few.iter_mut().zip(lanes) {
                *few += lane;
            }
        }
        let mut wide = [0.0; FEW_LANES];
        for (wide, &lane) in wide.iter_mut().zip(&few) {
            *wide = f64::from(lane);
        }
        total += folded(wide, |a, b| a + b);
    }
    total
}

#[derive(Debug, Clone, Copy)]
struct LayerNorm {
    scale: Shared<*const f32>,
    bias: Shared<*const f32>,
    epsilon: f64,
}

/// The normalisation of a row: two numbers that are subtracted from each element, one after the other, and the factor
/// for the difference.
#[derive(Debug, Clone, Copy)]
struct Moments {
    near: f32,
    rest: f32,
    inverse: f32,
}

impl Moments {
    /// Computes the moments of a row from the distances to a number near the mean. If the mean is large, its rounding error in
    /// `f32` may be much larger than the distances.
    #[inline(always)]
    fn of(x: &[f32], epsilon: f64) -> Moments {
        let n = x.len() as f64;
        let near = (sum(x, |x| x) / n) as f32;
        let rest = sum(x, |x| x - near) / n;
        let variance = sum(x, |x| (x - near) * (x - near)) / n - rest * rest;
        Moments { near, rest: rest as f32, inverse: (1.0 / (variance.max(0.0) + epsilon).sqrt()) as f32 }
    }

    #[inline(always)]
    fn normal(self, x: f32) -> f32 {
        ((x - self.near) - self.rest) * self.inverse
    }
}

impl RowFunction for LayerNorm {
    #[inline(always)]
    fn row<const FMA: bool>(self, _: usize, out: &mut [f32], x: &[f32]) {
        let moments = Moments::of(x, self.epsilon);
        // SAFETY: the creator of this value guarantees a row each, unless the bias is null.
        let row = |from: Shared<*const f32>| unsafe { std::slice::from_raw_parts(from.get(), x.len()) };
        let operands = out.iter_mut().zip(x).zip(row(self.scale));
        if self.bias.get().is_null() {
            operands.for_each(|((out, &x), &scale)| *out = moments.normal(x) * scale);
        } else {
            operands
                .zip(row(self.bias))
                .for_each(|(((out, &x), &scale), &bias)| *out = moments.normal(x) * scale + bias);
        }
    }
}

/// Writes `(x - mean) / sqrt(variance + epsilon) * scale + bias` for each row of a contiguous matrix.
///
/// # Safety
///
/// `out` and `x` hold `rows * cols` elements and are disjoint; `scale` and `bias` hold `cols` elements, or `bias` is
/// null.
pub(crate) unsafe fn layer_norm(
    extents: [usize; 2],
    out: *mut f32,
    x: *const f32,
    scale: *const f32,
    bias: *const f32,
    epsilon: f64,
) {
    let function = LayerNorm { scale: Shared(scale), bias: Shared(bias), epsilon };
    // SAFETY: this function has the same contract.
    unsafe { each_row(extents, out, x, function) }
}

/// A normalisation with one scale and one bias for each row.
#[derive(Debug, Clone, Copy)]
struct InstanceNorm {
    scale: Shared<*const f32>,
    bias: Shared<*const f32>,
    epsilon: f64,
}

impl RowFunction for InstanceNorm {
    #[inline(always)]
    fn row<const FMA: bool>(self, i: usize, out: &mut [f32], x: &[f32]) {
        let moments = Moments::of(x, self.epsilon);
        // SAFETY: the creator of this value guarantees an element for each row, unless the bias is null.
        let scale = unsafe { *self.scale.get().add(i) };
        if self.bias.get().is_null() {
            out.iter_mut().zip(x).for_each(|(out, &x)| *out = moments.normal(x) * scale);
        } else {
            // SAFETY: as above.
            let bias = unsafe { *self.bias.get().add(i) };
            out.iter_mut().zip(x).for_each(|(out, &x)| *out = moments.normal(x) * scale + bias);
        }
    }
}

/// Normalises as [`layer_norm`] does, but with one scale and one bias for each row.
///
/// # Safety
///
/// `out` and `x` hold `rows * cols` elements and are disjoint; `scale` and `bias` hold `rows` elements, or `bias` is null.
pub(crate) unsafe fn instance_norm(
    extents: [usize; 2],
    out: *mut f32,
    x: *const f32,
    scale: *const f32,
    bias: *const f32,
    epsilon: f64,
) {
    let function = InstanceNorm { scale: Shared(scale), bias: Shared(bias), epsilon };
    // SAFETY: this function has the same contract.
    unsafe { each_row(extents, out, x, function) }
}

#[derive(Debug, Clone, Copy)]
struct RmsNorm {
    scale: Shared<*const f32>,
    epsilon: f64,
}

impl RowFunction for RmsNorm {
    #[inline(always)]
    fn row<const FMA: bool>(self, _: usize, out: &mut [f32], x: &[f32]) {
        let mean = sum(x, |x| x * x) / x.len() as f64;
        let inverse = (1.0 / (mean + self.epsilon).sqrt()) as f32;
        // SAFETY: the creator of this value guarantees a row.
        let scale = unsafe { std::slice::from_raw_parts(self.scale.get(), x.len()) };
        for ((out, &x), &scale) in out.iter_mut().zip(x).zip(scale) {
            *out = x * inverse * scale;
        }
    }
}

/// Writes `x / sqrt(mean(x * x) + epsilon) * scale` for each row of a contiguous matrix.
///
/// # Safety
///
/// `out` and `x` hold `rows * cols` elements and are disjoint; `scale` holds `cols` elements.
pub(crate) unsafe fn rms_norm(
    extents: [usize; 2],
    out: *mut f32,
    x: *const f32,
    scale: *const f32,
    epsilon: f64,
) {
    let function = RmsNorm { scale: Shared(scale), epsilon };
    // SAFETY: this function has the same contract.
    unsafe { each_row(extents, out, x, function) }
}
