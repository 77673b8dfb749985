//! Softmax of rows of `f32` and 16-bit floats, and its logarithm.

use super::chain::{self, Code, Line, NOWHERE, PLACES, Place};
use super::dispatch::{VectorLoop, dispatch};
use super::half::Half;
use super::math::single::{self, NORMAL, exp, log};
use super::normalize::{GRAIN, RowFunction, each_row, folded, lanewise};
use super::number::Number;
use super::op::Unary;
use super::reduce::sum_of_halves;
use super::{Shared, walk};
use crate::pace::{Pace, STRETCH};
use bb::DataType;
use bb::ir::convert::{bf16_from_f64, f16_from_f64};

/// Returns the maximum of the elements that are not NaN, or minus infinity if there are none.
#[inline(always)]
fn greatest(x: &[f32]) -> f32 {
    let greater = |most: f32, x: f32| if x > most { x } else { most };
    const WIDTH: usize = 32;
    let (whole, rest) = x.as_chunks::<WIDTH>();
    let mut lanes = [f32::NEG_INFINITY; WIDTH];
    for x in whole {
        lanes = lanewise(lanes, x, greater);
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane = greater(*lane, x);
    }
    folded(lanes, greater)
}

/// The number of elements that are checked together for the faster exponential.
const NEIGHBOURS: usize = 256;
/// The number of elements whose exponentials are added in `f32`.
const BLOCK: usize = 512;
/// The number of independent partial sums.
const LANES: usize = 32;

/// Writes `exp(x - most)` for each element, where `most` is the maximum of the elements that are not NaN.
#[inline(always)]
fn exponentials<const FMA: bool>(out: &mut [f32], x: &[f32], most: f32) {
    // For elements of at least `least`, `x - most` is near, even after rounding. If `most` is infinite, only
    // differences that are NaN pass the check, and NaN stays NaN.
    let least = if most.abs() < ROUNDED { most - NORMAL } else { most };
    // `fold` is vectorised, unlike `all`, which ends early.
    if x.iter().fold(true, |near, &x| near & (x >= least)) {
        out.iter_mut().zip(x).for_each(|(out, &x)| *out = exp::<FMA, true>(x - most));
    } else {
        out.iter_mut().zip(x).for_each(|(out, &x)| *out = exp::<FMA, false>(x - most));
    }
}

/// The minimum magnitude at which neighbouring floats are so far apart that a rounded difference may not be near.
const ROUNDED: f32 = 1e6;

/// Writes `exp(x - most)` for each element, and returns the sum. Neighbours are added as soon as they are computed, so
/// that the processor adds them while it computes the next ones.
#[inline(always)]
fn summed_exponentials<const FMA: bool>(out: &mut [f32], x: &[f32], most: f32) -> f64 {
    let mut total = 0.0;
    for (out, x) in out.chunks_mut(BLOCK).zip(x.chunks(BLOCK)) {
        let mut lanes = [0.0; LANES];
        for (out, x) in out.chunks_mut(NEIGHBOURS).zip(x.chunks(NEIGHBOURS)) {
            exponentials::<FMA>(out, x, most);
            let (whole, rest) = out.as_chunks::<LANES>();
            for powers in whole {
                lanes = lanewise(lanes, powers, |sum, power| sum + power);
            }
            for (lane, power) in lanes.iter_mut().zip(rest) {
                *lane += power;
            }
        }
        total += f64::from(folded(lanes, |a, b| a + b));
    }
    total
}

/// Softmax, or its logarithm if `LOG`.
#[derive(Debug, Clone, Copy)]
struct Softmax<const LOG: bool>;

impl<const LOG: bool> Softmax<LOG> {
    /// Writes the exponentials of a row, and returns their sum.
    #[inline(always)]
    fn exponentials<const FMA: bool>(out: &mut [f32], x: &[f32], most: f32) -> f64 {
        let mut pace = Pace::new();
        // The sum is at least 1, because the exponential of the maximum is 1.
        let mut total = 0.0;
        for (out, x) in out.chunks_mut(STRETCH).zip(x.chunks(STRETCH)) {
            pace.step(x.len());
            total += summed_exponentials::<FMA>(out, x, most);
        }
        total
    }

    /// Replaces the exponentials of a row, or computes the logarithms.
    #[inline(always)]
    fn finish(out: &mut [f32], x: &[f32], most: f32, total: f64) {
        if LOG {
            let log = libm::log(total) as f32;
            for (out, &x) in out.iter_mut().zip(x) {
                *out = (x - most) - log;
            }
        } else {
            // One reciprocal replaces the divisions, because a division takes as long as several multiplications.
            let factor = (1.0 / total) as f32;
            for out in out {
                *out *= factor;
            }
        }
    }
}

impl<const LOG: bool> RowFunction for Softmax<LOG> {
    #[inline(always)]
    fn row<const FMA: bool>(self, _: usize, out: &mut [f32], x: &[f32]) {
        // If an element is NaN, its exponential is NaN, and so are the sum and all results.
        let most = greatest(x);
        let total = Self::exponentials::<FMA>(out, x, most);
        Self::finish(out, x, most, total);
    }
}

/// The maximum length of rows that are computed in groups, and the number of rows of a group. Each step is computed for all rows of
/// a group, so that the processor combines the lanes of one row while it computes others. A group fits in the first-level cache.
const GROUPED: usize = 512;
const GROUP: usize = 4;

/// A loop over rows, which are stored one after another.
struct GroupedSoftmax<'a, const LOG: bool> {
    out: &'a mut [f32],
    x: &'a [f32],
    cols: usize,
}

impl<const LOG: bool> VectorLoop for GroupedSoftmax<'_, LOG> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let GroupedSoftmax { out, x, cols } = self;
        for (out, x) in out.chunks_mut(GROUP * cols).zip(x.chunks(GROUP * cols)) {
            let (mut most, mut totals) = ([0.0; GROUP], [0.0; GROUP]);
            for (most, x) in most.iter_mut().zip(x.chunks_exact(cols)) {
                *most = greatest(x);
            }
            let rows = out.chunks_exact_mut(cols).zip(x.chunks_exact(cols));
            for ((total, &most), (out, x)) in totals.iter_mut().zip(&most).zip(rows) {
                *total = Softmax::<LOG>::exponentials::<FMA>(out, x, most);
            }
            let rows = out.chunks_exact_mut(cols).zip(x.chunks_exact(cols));
            for ((total, most), (out, x)) in totals.into_iter().zip(most).zip(rows) {
                Softmax::<LOG>::finish(out, x, most, total);
            }
        }
    }
}

/// The maximum length of short rows. Vectors compute the exponentials of several short rows together.
const SHORT: usize = 32;
/// The number of elements of short rows that are computed together. They fit in the first-level cache.
const TOGETHER: usize = 1024;

/// A loop over short rows, which are stored one after another.
struct ShortSoftmax<'a, const LOG: bool> {
    out: &'a mut [f32],
    x: &'a [f32],
    cols: usize,
}

impl<const LOG: bool> VectorLoop for ShortSoftmax<'_, LOG> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let ShortSoftmax { out, x, cols } = self;
        let most = |x: &[f32]| x.iter().copied().fold(f32::NEG_INFINITY, Number::max);
        for (out, x) in out.chunks_exact_mut(cols).zip(x.chunks_exact(cols)) {
            let most = most(x);
            out.iter_mut().zip(x).for_each(|(out, &x)| *out = x - most);
        }
        if out.iter().fold(true, |near, &x| near & (x >= -NORMAL)) {
            out.iter_mut().for_each(|out| *out = exp::<FMA, true>(*out));
        } else {
            out.iter_mut().for_each(|out| *out = exp::<FMA, false>(*out));
        }
        for (out, x) in out.chunks_exact_mut(cols).zip(x.chunks_exact(cols)) {
            let total = out.iter().copied().map(f64::from).sum::<f64>();
            if LOG {
                let (most, log) = (most(x), log::<FMA>(total as f32));
                out.iter_mut().zip(x).for_each(|(out, &x)| *out = (x - most) - log);
            } else {
                let factor = (1.0 / total) as f32;
                out.iter_mut().for_each(|out| *out *= factor);
            }
        }
    }
}

/// Writes `exp(x - max) / sum(exp(x - max))` for each row of a contiguous matrix, or its logarithm if `LOG`.
///
/// # Safety
///
/// `out` and `x` hold `rows * cols` elements and are disjoint.
pub(crate) unsafe fn softmax<const LOG: bool>([rows, cols]: [usize; 2], out: *mut f32, x: *const f32) {
    if cols == 0 || cols > GROUPED {
        // SAFETY: this function has the same contract.
        return unsafe { each_row([rows, cols], out, x, Softmax::<LOG>) };
    }
    let shared = Shared((out, x));
    let step = if cols > SHORT { rows.max(1) } else { TOGETHER / cols };
    walk::split(rows, cols, GRAIN, |from, to| {
        let (out, x) = shared.get();
        for first in (from..to).step_by(step) {
            let (start, len) = (first * cols, step.min(to - first) * cols);
            // SAFETY: the rows are in both matrices, and no other call writes them.
            let (out, x) = unsafe {
                (
                    std::slice::from_raw_parts_mut(out.add(start), len),
                    std::slice::from_raw_parts(x.add(start), len),
                )
            };
            if cols > SHORT {
                dispatch(GroupedSoftmax::<LOG> { out, x, cols });
            } else {
                dispatch(ShortSoftmax::<LOG> { out, x, cols });
            }
        }
    });
}

/// The maximum length of the rows of [`of_halves`].
pub(crate) const TERMS: usize = 1 << 11;

struct Greatest<'a>(&'a [f32]);

impl VectorLoop for Greatest<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> f32 {
        greatest(self.0)
    }
}

/// Writes the softmax of each row of a contiguous matrix of `f16`, or of `bf16` if `dtype` says so. Rounds each step to
/// the type, like the body of softmax. All steps of a row are computed before the next row, so that the row stays in the
/// first-level cache.
///
/// # Safety
///
/// `out` and `x` hold `rows * cols` elements and are disjoint; `cols` is at most [`TERMS`].
pub(crate) unsafe fn of_halves(dtype: DataType, [rows, cols]: [usize; 2], out: *mut u8, x: *const u8) {
    let (Some(half), Some(exp)) = (Half::of(dtype), single::function(Unary::Exp)) else { return };
    let (code, nearest): (_, fn(f64) -> f32) = match dtype {
        DataType::BF16 => (Code::RoundBf16, |x| bf16_from_f64(x).to_f32()),
        _ => (Code::RoundF16, |x| f16_from_f64(x).to_f32()),
    };
    let line = |code, place| Line { code, place };
    let (load, round) = (line(Code::Load, 0), line(code, NOWHERE));
    let shared = Shared((out, x));
    walk::split(rows, cols, GRAIN, |from, to| {
        let (out, x) = shared.get();
        let (mut less, mut powers) = ([0f32; TERMS], [0f32; TERMS]);
        let (less, powers) = (less.split_at_mut(cols).0, powers.split_at_mut(cols).0);
        // Runs lines on the elements of a row and a number.
        let through = |lines: &[Line], row: &mut [f32], mut number: f32| {
            let own = row.as_mut_ptr();
            let mut places = [Place::NONE; PLACES];
            let [first, second, ..] = &mut places;
            (first.ptr, *second) = (own, Place { ptr: &raw mut number, single: true });
            // SAFETY: the first place has the elements of the row, and is also the output. The second place is a single
            // element. The lines use no other places.
            unsafe { chain::run(lines, &places, own, cols) };
        };
        for i in from..to {
            let at = i * cols * size_of::<u16>();
            // SAFETY: row `i` is in both matrices, and no other call writes it. The buffers have its length.
            unsafe { (half.widen)(less.as_mut_ptr().cast(), [x.add(at)], cols) };
            // If an element is NaN, so are its exponential, the sum and all results.
            let most = dispatch(Greatest(less));
            through(&[load, line(Code::Sub, 1), round], less, most);
            // SAFETY: both buffers have this length.
            unsafe { exp(powers.as_mut_ptr().cast(), [less.as_ptr().cast()], cols) };
            through(&[load, round], powers, 0.0);
            let total = nearest(sum_of_halves(powers));
            through(&[load, line(Code::Div, 1)], powers, total);
            // SAFETY: as for the first conversion.
            unsafe { (half.narrow)(out.add(at), [powers.as_ptr().cast()], cols) };
        }
    });
}

/// Returns the index at which a row may begin without changing the results of the elements from `first` on. The
/// elements before `first` are minus infinity, and leaving out whole blocks of them changes nothing.
pub(crate) fn start(first: usize) -> usize {
    first - first % BLOCK
}

/// Writes the softmax as [`softmax`] does, but the bits of the results do not depend on how many elements of minus
/// infinity follow the other elements of a row.
///
/// # Safety
///
/// As for [`softmax`].
pub(crate) unsafe fn of_any_rest([rows, cols]: [usize; 2], out: *mut f32, x: *const f32) {
    // SAFETY: this function has the same contract.
    unsafe { each_row([rows, cols], out, x, Softmax::<false>) }
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::level::{at, levels};
    use crate::threads::as_if;

    /// Tests rows that are computed together: each row has its own sum.
    #[test]
    fn softmax_of_rows_of_any_length() {
        for [rows, cols] in [[1, 1], [7, 3], [5, 31], [400, 3], [33, 32], [3, 33], [2, 1030]] {
            let x: Vec<f32> =
                (0..rows * cols).map(|i| ((i * 7919 + 13) % 2003) as f32 / 100.0 - 10.0).collect();
            for level in levels() {
                let mut out = vec![f32::NAN; rows * cols];
                // SAFETY: both have these extents.
                at(level, || unsafe { softmax::<false>([rows, cols], out.as_mut_ptr(), x.as_ptr()) });
                let mut logs = vec![f32::NAN; rows * cols];
                // SAFETY: both have these extents.
                at(level, || unsafe { softmax::<true>([rows, cols], logs.as_mut_ptr(), x.as_ptr()) });
                for ((out, logs), x) in out.chunks(cols).zip(logs.chunks(cols)).zip(x.chunks(cols)) {
                    let most = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                    let powers: Vec<f64> = x.iter().map(|&x| f64::from(x - most).exp()).collect();
                    let total: f64 = powers.iter().sum();
                    for ((&got, &log), power) in out.iter().zip(logs).zip(powers) {
                        let want = power / total;
                        let exact = want.ln();
                        assert!(
                            (f64::from(log) - exact).abs() <= 2.5e-7 * exact.abs().max(1.0),
                            "{log} {exact}"
                        );
                        assert!(
                            (f64::from(got) - want).abs() <= 4e-7 * want,
                            "{level:?} {cols}: {got} {want}"
                        );
                    }
                }
            }
        }
    }

    /// Elements far below the maximum have exponentials that are subnormal, or 0. Large floats have few neighbours.
    #[test]
    fn softmax_of_elements_that_are_far_apart() {
        for (step, offset) in [(1.0, 0.0), (1.0, 999_900.0), (8.0, 1e8), (8.0, -1e8)] {
            for level in levels() {
                let x: Vec<f32> = (0..700).map(|i| offset - step * (i % 120) as f32).collect();
                let mut out = vec![f32::NAN; x.len()];
                // SAFETY: both have a row of this length.
                at(level, || unsafe { softmax::<false>([1, x.len()], out.as_mut_ptr(), x.as_ptr()) });
                let powers: Vec<f64> = x.iter().map(|&x| f64::from(x - offset).exp()).collect();
                let total: f64 = powers.iter().sum();
                for ((&got, power), x) in out.iter().zip(powers).zip(x) {
                    let want = power / total;
                    // A subnormal number has fewer digits, and so does a product with it.
                    let least = 2.0 * f64::from(f32::from_bits(1));
                    assert!(
                        (f64::from(got) - want).abs() <= 4e-7 * want + least,
                        "{level:?} {x}: {got} {want}"
                    );
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
                unsafe { softmax::<false>([2, 100], out.as_mut_ptr(), x.as_ptr()) };
                if special.is_nan() {
                    assert!(out[..100].iter().all(|x| x.is_nan()), "{at}");
                }
                assert!(out[at].is_nan() && out[100..].iter().all(|x| (x - 0.01).abs() < 1e-8));
            }
        }
        // If all elements are minus infinity, their differences from the maximum are NaN.
        let (x, mut out) = ([f32::NEG_INFINITY; 40], [0f32; 40]);
        // SAFETY: both have a row of 40 elements.
        unsafe { softmax::<false>([1, 40], out.as_mut_ptr(), x.as_ptr()) };
        assert!(out.iter().all(|x| x.is_nan()));
    }

    #[test]
    fn logarithms_of_rows_with_what_is_not_finite() {
        for n in [3, 40] {
            let mut x = vec![1f32; n];
            x[1] = f32::NEG_INFINITY;
            let log = |x: &[f32]| {
                let mut out = vec![0f32; n];
                // SAFETY: both have a row of `n` elements.
                unsafe { softmax::<true>([1, n], out.as_mut_ptr(), x.as_ptr()) };
                out
            };
            let got = log(&x);
            let want = -((n - 1) as f32).ln();
            assert!((got[0] - want).abs() < 1e-6 && got[1] == f32::NEG_INFINITY, "{got:?}");
            for special in [f32::NAN, f32::INFINITY] {
                x[0] = special;
                assert!(log(&x).iter().all(|x| x.is_nan()));
            }
        }
    }

    /// Compares with a loop that rounds each step to the type.
    fn halves_of<T: Copy + PartialEq + std::fmt::Debug>(
        dtype: DataType,
        to: fn(f64) -> T,
        from: fn(T) -> f64,
    ) {
        let same = |a: T, b: T| a == b || (from(a).is_nan() && from(b).is_nan());
        for [rows, cols] in
            [[1, 1], [3, 2], [2, 33], [3, 65], [2, 768], [1, 2047], [2, TERMS], [0, 40], [3, 0]]
        {
            for special in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 65504.0, -0.0] {
                let number = |i: usize| ((i * 7919 + 13) % 2003) as f64 / 64.0 - 20.0;
                let mut x: Vec<T> = (0..rows * cols).map(|i| to(number(i))).collect();
                if let Some(x) = x.last_mut() {
                    *x = to(special);
                }
                let mut want = Vec::new();
                for x in x.chunks(cols.max(1)) {
                    let most = x.iter().map(|&x| from(x)).fold(f64::NEG_INFINITY, f64::max);
                    let powers = x.iter().map(|&x| to(from(to(from(x) - most)).exp()));
                    let powers: Vec<T> = powers.collect();
                    let total = from(to(powers.iter().map(|&x| from(x)).sum::<f64>()));
                    want.extend(powers.iter().map(|&power| to(from(power) / total)));
                }
                for (level, threads) in levels().into_iter().flat_map(|level| [(level, 1), (level, 3)]) {
                    let mut out = vec![to(9.0); x.len()];
                    // SAFETY: both have these extents and elements of this type.
                    at(level, || {
                        as_if(threads, || unsafe {
                            of_halves(dtype, [rows, cols], out.as_mut_ptr().cast(), x.as_ptr().cast());
                        })
                    });
                    // An exponential in `f32` may be rounded to the neighbour of the rounded exact one.
                    let differs = (0..x.len()).filter(|&i| !same(out[i], want[i])).count();
                    assert!(
                        differs * 50 <= x.len(),
                        "{dtype:?} {rows} {cols} {special} {level:?}: {differs}"
                    );
                    let near = |(&a, &b)| same(a, b) || (from(a) / from(b) - 1.0).abs() < 0.02;
                    assert!(out.iter().zip(&want).all(near), "{dtype:?} {rows} {cols} {special} {level:?}");
                }
            }
        }
    }

    #[test]
    fn each_step_of_16_bit_floats_is_rounded() {
        halves_of(DataType::F16, f16_from_f64, f64::from);
        halves_of(DataType::BF16, bf16_from_f64, f64::from);
    }

    #[test]
    fn softmax_of_a_short_row_with_nan_is_nan() {
        let mut out = [0f32; 6];
        // SAFETY: both have two rows of three elements.
        unsafe { softmax::<false>([2, 3], out.as_mut_ptr(), [1.0, f32::NAN, 2.0, 1.0, 1.0, 1.0].as_ptr()) };
        assert!(out.iter().take(3).all(|x| x.is_nan()));
        assert!(out.iter().skip(3).all(|x| (x - 1.0 / 3.0).abs() < 1e-7));
    }
}
