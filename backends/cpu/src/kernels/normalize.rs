//! Functions of whole rows: softmax and normalisations of `f32`.
//!
//! Sums are those of short blocks, kept as many partial sums, and the blocks are added in `f64`. Their error therefore
//! does not grow with the length of a row.

use super::dispatch::{VectorLoop, dispatch};
use super::math::single::{NORMAL, exp};
use super::number::Number;
use super::{Shared, walk};
use crate::pace::{Pace, STRETCH};

/// The number of elements below which a second thread costs more than it saves.
const GRAIN: usize = 1 << 15;
/// The number of elements whose sum is kept in `f32`.
const BLOCK: usize = 1024;
/// The number of independent partial sums.
const LANES: usize = 64;
/// The number of partial sums that are widened at the end of a block.
const FEW_LANES: usize = 16;

/// A function from one row to another of the same length.
trait RowFunction: Copy + Sync {
    /// Writes the values of the row `x` to `out`. It must be `#[inline(always)]`, like the loops that it contains.
    fn row<const FMA: bool>(self, out: &mut [f32], x: &[f32]);
}

struct Row<'a, F> {
    out: &'a mut [f32],
    x: &'a [f32],
    function: F,
}

impl<F: RowFunction> VectorLoop for Row<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        self.function.row::<FMA>(self.out, self.x);
    }
}

/// Applies a function to each contiguous row.
///
/// # Safety
///
/// `out` and `x` hold `rows * cols` elements and are disjoint.
unsafe fn each_row([rows, cols]: [usize; 2], out: *mut f32, x: *const f32, function: impl RowFunction) {
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
            dispatch(Row { out, x, function });
        }
    });
}

/// Combines two arrays, element by element.
#[inline(always)]
fn lanewise(mut lanes: [f32; LANES], x: &[f32; LANES], f: impl Fn(f32, f32) -> f32) -> [f32; LANES] {
    for (lane, &x) in lanes.iter_mut().zip(x) {
        *lane = f(*lane, x);
    }
    lanes
}

/// Combines each lane of the first half with that of the second, until one is left. One lane after another would wait for
/// each other.
#[inline(always)]
fn folded<T: Copy + Default, const N: usize>(mut lanes: [T; N], f: impl Fn(T, T) -> T) -> T {
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
fn sum(x: &[f32], f: impl Fn(f32) -> f32) -> f64 {
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
        // Short rows would wait for the conversion of many lanes.
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

/// Returns the greatest element that is a number; minus infinity if there is none.
#[inline(always)]
fn greatest(x: &[f32]) -> f32 {
    let greater = |most: f32, x: f32| if x > most { x } else { most };
    let (whole, rest) = x.as_chunks::<LANES>();
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for x in whole {
        lanes = lanewise(lanes, x, greater);
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane = greater(*lane, x);
    }
    folded(lanes, greater)
}

/// Writes `exp(x - most)` for each element; `most` is the greatest that is a number.
#[inline(always)]
fn exponentials<const FMA: bool>(out: &mut [f32], x: &[f32], most: f32) {
    for (out, x) in out.chunks_mut(NEIGHBOURS).zip(x.chunks(NEIGHBOURS)) {
        if x.iter().fold(true, |near, &x| near & (x - most >= -NORMAL)) {
            out.iter_mut().zip(x).for_each(|(out, &x)| *out = exp::<FMA, true>(x - most));
        } else {
            out.iter_mut().zip(x).for_each(|(out, &x)| *out = exp::<FMA, false>(x - most));
        }
    }
}

/// The number of elements of which one decides how all are computed.
const NEIGHBOURS: usize = 128;

#[derive(Debug, Clone, Copy)]
struct Softmax;

impl RowFunction for Softmax {
    #[inline(always)]
    fn row<const FMA: bool>(self, out: &mut [f32], x: &[f32]) {
        // If an element is NaN, so is its power, the sum, and with it each result.
        let most = greatest(x);
        let mut pace = Pace::new();
        for (out, x) in out.chunks_mut(STRETCH).zip(x.chunks(STRETCH)) {
            pace.step(x.len());
            exponentials::<FMA>(out, x, most);
        }
        // The sum is at least 1, as one of the powers is. A division takes as long as several products.
        let factor = (1.0 / sum(out, |e| e)) as f32;
        for out in out {
            *out *= factor;
        }
    }
}

/// The length up to which rows are short. Vectors compute the exponentials of several short rows together.
const SHORT: usize = 32;
/// The number of elements of short rows that are computed together; a few of them fill the first cache.
const TOGETHER: usize = 1024;

/// Short rows, one after another.
struct ShortSoftmax<'a> {
    out: &'a mut [f32],
    x: &'a [f32],
    cols: usize,
}

impl VectorLoop for ShortSoftmax<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let ShortSoftmax { out, x, cols } = self;
        for (out, x) in out.chunks_exact_mut(cols).zip(x.chunks_exact(cols)) {
            let most = x.iter().copied().fold(f32::NEG_INFINITY, Number::max);
            out.iter_mut().zip(x).for_each(|(out, &x)| *out = x - most);
        }
        if out.iter().fold(true, |near, &x| near & (x >= -NORMAL)) {
            out.iter_mut().for_each(|out| *out = exp::<FMA, true>(*out));
        } else {
            out.iter_mut().for_each(|out| *out = exp::<FMA, false>(*out));
        }
        for out in out.chunks_exact_mut(cols) {
            let factor = (1.0 / out.iter().copied().map(f64::from).sum::<f64>()) as f32;
            out.iter_mut().for_each(|out| *out *= factor);
        }
    }
}

/// Writes `exp(x - max) / sum(exp(x - max))` for each row of a contiguous matrix.
///
/// # Safety
///
/// `out` and `x` hold `rows * cols` elements and are disjoint.
pub(crate) unsafe fn softmax([rows, cols]: [usize; 2], out: *mut f32, x: *const f32) {
    if cols == 0 || cols > SHORT {
        // SAFETY: this function has the same contract.
        return unsafe { each_row([rows, cols], out, x, Softmax) };
    }
    let shared = Shared((out, x));
    walk::split(rows, cols, GRAIN, |from, to| {
        let (out, x) = shared.get();
        let step = TOGETHER / cols;
        for first in (from..to).step_by(step) {
            let (start, len) = (first * cols, step.min(to - first) * cols);
            // SAFETY: the rows are in both matrices, and no other call writes them.
            let (out, x) = unsafe {
                (
                    std::slice::from_raw_parts_mut(out.add(start), len),
                    std::slice::from_raw_parts(x.add(start), len),
                )
            };
            dispatch(ShortSoftmax { out, x, cols });
        }
    });
}

#[derive(Debug, Clone, Copy)]
struct LayerNorm {
    scale: Shared<*const f32>,
    bias: Shared<*const f32>,
    epsilon: f64,
}

impl RowFunction for LayerNorm {
    #[inline(always)]
    fn row<const FMA: bool>(self, out: &mut [f32], x: &[f32]) {
        // The moments are those of the distances from a number near the mean. A mean rounded to `f32` would be off by
        // much more than the distances are, if the mean is great.
        let n = x.len() as f64;
        let near = (sum(x, |x| x) / n) as f32;
        let rest = sum(x, |x| x - near) / n;
        let variance = sum(x, |x| (x - near) * (x - near)) / n - rest * rest;
        let (rest, inverse) = (rest as f32, (1.0 / (variance.max(0.0) + self.epsilon).sqrt()) as f32);
        let normal = |x: f32, scale: f32| ((x - near) - rest) * inverse * scale;
        // SAFETY: the maker of this value promises a row each, unless the bias is null.
        let row = |from: Shared<*const f32>| unsafe { std::slice::from_raw_parts(from.get(), x.len()) };
        let operands = out.iter_mut().zip(x).zip(row(self.scale));
        if self.bias.get().is_null() {
            operands.for_each(|((out, &x), &scale)| *out = normal(x, scale));
        } else {
            operands
                .zip(row(self.bias))
                .for_each(|(((out, &x), &scale), &bias)| *out = normal(x, scale) + bias);
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

#[derive(Debug, Clone, Copy)]
struct RmsNorm {
    scale: Shared<*const f32>,
    epsilon: f64,
}

impl RowFunction for RmsNorm {
    #[inline(always)]
    fn row<const FMA: bool>(self, out: &mut [f32], x: &[f32]) {
        let mean = sum(x, |x| x * x) / x.len() as f64;
        let inverse = (1.0 / (mean + self.epsilon).sqrt()) as f32;
        // SAFETY: the maker of this value promises a row.
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

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::level::{at, levels};

    /// Rows that are computed together have the sums of their own.
    #[test]
    fn softmax_of_rows_of_any_length() {
        for [rows, cols] in [[1, 1], [7, 3], [5, 31], [400, 3], [33, 32], [3, 33], [2, 1030]] {
            let x: Vec<f32> =
                (0..rows * cols).map(|i| ((i * 7919 + 13) % 2003) as f32 / 100.0 - 10.0).collect();
            for level in levels() {
                let mut out = vec![f32::NAN; rows * cols];
                // SAFETY: both have these extents.
                at(level, || unsafe { softmax([rows, cols], out.as_mut_ptr(), x.as_ptr()) });
                for (out, x) in out.chunks(cols).zip(x.chunks(cols)) {
                    let most = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                    let powers: Vec<f64> = x.iter().map(|&x| f64::from(x - most).exp()).collect();
                    let total: f64 = powers.iter().sum();
                    for (&got, power) in out.iter().zip(powers) {
                        let want = power / total;
                        assert!(
                            (f64::from(got) - want).abs() <= 4e-7 * want,
                            "{level:?} {cols}: {got} {want}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn softmax_of_a_long_row_with_nan_or_infinity_is_nan() {
        for special in [f32::NAN, -f32::NAN, f32::INFINITY] {
            for at in [0, 63, 64, 99] {
                let mut x = [1f32; 200];
                x[at] = special;
                let mut out = [0f32; 200];
                // SAFETY: both have two rows of 100 elements.
                unsafe { softmax([2, 100], out.as_mut_ptr(), x.as_ptr()) };
                if special.is_nan() {
                    assert!(out[..100].iter().all(|x| x.is_nan()), "{at}");
                }
                assert!(out[at].is_nan() && out[100..].iter().all(|x| (x - 0.01).abs() < 1e-8));
            }
        }
        // Of elements that are all minus infinity none is the greatest.
        let (x, mut out) = ([f32::NEG_INFINITY; 40], [0f32; 40]);
        // SAFETY: both have a row of 40 elements.
        unsafe { softmax([1, 40], out.as_mut_ptr(), x.as_ptr()) };
        assert!(out.iter().all(|x| x.is_nan()));
    }

    #[test]
    fn softmax_of_a_short_row_with_nan_is_nan() {
        let mut out = [0f32; 6];
        // SAFETY: both have two rows of three elements.
        unsafe { softmax([2, 3], out.as_mut_ptr(), [1.0, f32::NAN, 2.0, 1.0, 1.0, 1.0].as_ptr()) };
        assert!(out.iter().take(3).all(|x| x.is_nan()));
        assert!(out.iter().skip(3).all(|x| (x - 1.0 / 3.0).abs() < 1e-7));
    }
}
