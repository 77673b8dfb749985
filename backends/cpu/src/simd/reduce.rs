//! Sums, means and extremes along one of three collapsed dimensions.

use super::cast::Cast;
use super::columns::COLUMNS;
use super::dispatch::{Kernel, dispatch};
use super::element::{Float, Number};
use super::{Shared, level, walk};
use crate::threads;

/// What to reduce to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduce {
    /// The sum, wrapping for integers; 0 of nothing.
    Sum,
    /// The sum divided by the extent; integers truncate. NaN of nothing for floating point, else 0.
    Mean,
    /// The largest, NaN if any is; the caller excludes empty extents.
    Max,
    /// The smallest, NaN if any is; the caller excludes empty extents.
    Min,
}

/// Elements below which a second thread costs more than it brings.
const GRAIN: usize = 1 << 17;

/// Reduces the middle of three dimensions: `out[o, i] = op over l of x[o, l, i]`.
///
/// `strides` are those of `x` in elements, in the order of `dims`; `out` is dense, `outer * inner`
/// elements. Sums of 16-bit floats are kept in `f32`; the error of a floating-point sum grows with
/// the logarithm of the extent. The result does not depend on the number of threads.
///
/// # Safety
///
/// `x` covers `dims`; `out` is disjoint from it.
pub unsafe fn reduce<T: Number>(
    op: Reduce,
    [outer, len, inner]: [usize; 3],
    out: *mut T,
    x: *const T,
    [so, sl, si]: [isize; 3],
) {
    let shared = Shared((out, x));
    if inner > 1 && si == 1 && len > 0 {
        // Each thread has a block at least, as wide as memory is read best.
        let width = inner.div_ceil(threads::count()).next_multiple_of(64).min(COLUMNS);
        let blocks = inner.div_ceil(width);
        return walk::split(outer * blocks, len.saturating_mul(width), GRAIN, |from, to| {
            let (out, x) = shared.get();
            for at in from..to {
                let (o, first) = (at / blocks, at % blocks * width);
                // SAFETY: this function's contract; the columns are below `inner`.
                unsafe {
                    let x = x.offset(o as isize * so).add(first);
                    T::reduce_columns(op, len, width.min(inner - first), x, sl, out.add(o * inner + first));
                }
            }
        });
    }
    // Rows that lie one way apart are reduced together.
    let (rows, row) = if inner == 1 { (outer, so) } else { (inner, si) };
    walk::split(outer * inner, len.max(1), GRAIN, |from, to| {
        let (out, x) = shared.get();
        let mut at = from;
        while at < to {
            let (run, first) = (at / rows, at % rows);
            let count = (rows - first).min(to - at);
            // SAFETY: this function's contract.
            unsafe {
                let x = x.offset(run as isize * so + first as isize * row);
                T::reduce(op, [count, len], x, [row, sl], out.add(at));
            }
            at += count;
        }
    });
}

/// Elements folded lane by lane; longer runs are halved.
const RUN: usize = 8192;
/// Independent partial results.
const LANES: usize = 64;
/// How many bytes further on lies what is asked for.
const AHEAD: isize = 2048;

struct Fold<'a, T, F> {
    x: &'a [T],
    start: T,
    f: F,
}

impl<T: Copy, F: Fn(T, T) -> T> Kernel for Fold<'_, T, F> {
    type Output = T;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> T {
        let (blocks, rest) = self.x.as_chunks::<LANES>();
        let mut lanes = [self.start; LANES];
        for block in blocks {
            prefetch(block, AHEAD);
            lanes = pairs(&lanes, block, &self.f);
        }
        if rest.is_empty() {
            return total(lanes, self.f);
        }
        // A copy: lanes that are reached by a number which the compiler does not know would leave the registers.
        let mut partial = lanes;
        for (lane, &v) in partial.iter_mut().zip(rest) {
            *lane = (self.f)(*lane, v);
        }
        total(partial, self.f)
    }
}

/// Asks for what lies so many bytes after a block: where memory is the limit, the processor alone asks too late.
#[inline(always)]
pub(super) fn prefetch<T, const N: usize>(block: &[T; N], ahead: isize) {
    let _ = (block, ahead);
    #[cfg(target_arch = "x86_64")]
    for line in 0..size_of::<[T; N]>() / 64 {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let at = block.as_ptr().cast::<i8>().wrapping_offset(ahead).wrapping_add(64 * line);
        // SAFETY: every processor of the target has the instruction, which reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at) };
    }
}

/// Folds two arrays into one.
///
/// A new array instead of one that changes: only so does the compiler keep it in registers.
#[inline(always)]
#[expect(clippy::indexing_slicing, reason = "both have `N` elements")]
pub(super) fn pairs<T: Copy, const N: usize>(x: &[T; N], y: &[T; N], f: impl Fn(T, T) -> T) -> [T; N] {
    std::array::from_fn(|i| f(x[i], y[i]))
}

/// Folds all lanes, halves onto halves.
#[inline(always)]
fn total<T: Copy>(lanes: [T; LANES], f: impl Fn(T, T) -> T) -> T {
    let lanes: [T; LANES / 2] = halved(lanes, &f);
    let lanes: [T; LANES / 4] = halved(lanes, &f);
    let lanes: [T; LANES / 8] = halved(lanes, &f);
    let [a, b, c, d] = halved(lanes, &f);
    f(f(a, c), f(b, d))
}

#[inline(always)]
#[expect(
    clippy::indexing_slicing,
    reason = "`x` has twice as many elements as the result, or it does not compile"
)]
fn halved<T: Copy, const N: usize, const HALF: usize>(x: [T; N], f: impl Fn(T, T) -> T) -> [T; HALF] {
    const { assert!(N == 2 * HALF) };
    std::array::from_fn(|i| f(x[i], x[i + HALF]))
}

/// Folds contiguous elements in an order that depends on their number alone.
fn fold<T: Number>(x: &[T], start: T, f: impl Fn(T, T) -> T + Copy + Sync) -> T {
    if x.len() < 2 * GRAIN {
        return halving(x, start, f);
    }
    // A power of two, so that the parts' results are folded in pairs.
    let parts = (x.len() / GRAIN).min(MOST_PARTS).next_power_of_two();
    let length = x.len().div_ceil(parts).next_multiple_of(LANES);
    let mut folded = [start; MOST_PARTS];
    let to = Shared(folded.as_mut_ptr());
    walk::split(parts, length, GRAIN, |from, end| {
        for (part, x) in x.chunks(length).enumerate().take(end).skip(from) {
            // SAFETY: each part has a place of its own.
            unsafe { to.get().add(part).write(halving(x, start, f)) };
        }
    });
    let mut left = parts;
    while left > 1 {
        left /= 2;
        let (low, high) = folded.split_at_mut(left);
        low.iter_mut().zip(high).for_each(|(low, high)| *low = f(*low, *high));
    }
    folded.first().copied().unwrap_or(start)
}

/// The most parts of one sum.
const MOST_PARTS: usize = 64;

/// Folds contiguous elements, in halves where they are many.
fn halving<T: Number>(x: &[T], start: T, f: impl Fn(T, T) -> T + Copy) -> T {
    if x.len() <= RUN {
        return dispatch(level(), Fold { x, start, f });
    }
    let (low, high) = x.split_at((x.len() / 2).next_multiple_of(LANES));
    f(halving(low, start, f), halving(high, start, f))
}

/// Folds `n` elements that lie `stride` apart.
///
/// # Safety
///
/// `x` points to `n` elements at this distance.
unsafe fn strided<T: Number>(
    n: usize,
    x: *const T,
    stride: isize,
    start: T,
    f: impl Fn(T, T) -> T + Copy + Sync,
) -> T {
    if stride == 1 {
        // SAFETY: the caller's promise, and the elements are contiguous.
        return fold(unsafe { std::slice::from_raw_parts(x, n) }, start, f);
    }
    if n > 256 {
        let half = n / 2;
        // SAFETY: both halves are part of the elements.
        return unsafe {
            f(
                strided(half, x, stride, start, f),
                strided(n - half, x.offset(half as isize * stride), stride, start, f),
            )
        };
    }
    let mut lanes = [start; 4];
    for i in (0..n).step_by(4) {
        for (j, lane) in lanes.iter_mut().enumerate().take(n - i) {
            // SAFETY: `i + j < n`.
            *lane = f(*lane, unsafe { *x.offset((i + j) as isize * stride) });
        }
    }
    let [a, b, c, d] = lanes;
    f(f(a, b), f(c, d))
}

/// Contiguous rows, each folded to one element.
struct Rows<T, S, F, G> {
    rows: usize,
    len: usize,
    x: *const T,
    row: isize,
    out: *mut T,
    start: S,
    f: F,
    finish: G,
}

impl<T: Copy, S: Fn(&[T]) -> T, F: Fn(T, T) -> T, G: Fn(T) -> T> Kernel for Rows<T, S, F, G> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for i in 0..self.rows {
            // SAFETY: who makes this answers for the rows and for room for their results.
            unsafe {
                let x = std::slice::from_raw_parts(self.x.offset(i as isize * self.row), self.len);
                let folded = Fold { x, start: (self.start)(x), f: &self.f }.run::<FMA>();
                self.out.add(i).write((self.finish)(folded));
            }
        }
    }
}

/// Folds rows, from what `start` says of each.
///
/// # Safety
///
/// As for [`Number::reduce`].
unsafe fn rows<T: Number>(
    [rows, len]: [usize; 2],
    x: *const T,
    [row, step]: [isize; 2],
    out: *mut T,
    start: impl Fn(&[T]) -> T,
    f: impl Fn(T, T) -> T + Copy + Sync,
    finish: impl Fn(T) -> T,
) {
    if step == 1 && len <= RUN {
        return dispatch(level(), Rows { rows, len, x, row, out, start, f, finish });
    }
    for i in 0..rows {
        // SAFETY: the caller's promise.
        unsafe {
            let x = x.offset(i as isize * row);
            let first = std::slice::from_raw_parts(x, len.min(1));
            out.add(i).write(finish(strided(len, x, step, start(first), f)));
        }
    }
}

/// Finds the extremes of rows; zero of nothing, which callers exclude.
///
/// # Safety
///
/// As for [`Number::reduce`].
unsafe fn extremes<T: Number>(op: Reduce, dims: [usize; 2], x: *const T, strides: [isize; 2], out: *mut T) {
    // The first element is its own extreme, so it may start every lane.
    let first = |x: &[T]| x.first().copied().unwrap_or_default();
    // SAFETY: the caller's promise.
    unsafe {
        match op {
            Reduce::Max => rows(dims, x, strides, out, first, T::max, |v| v),
            _ => rows(dims, x, strides, out, first, T::min, |v| v),
        }
    }
}

/// Reduces rows of a type whose sums are of that type; `mean` divides a sum.
///
/// # Safety
///
/// As for [`Number::reduce`].
pub(crate) unsafe fn by_rows<T: Number>(
    op: Reduce,
    dims: [usize; 2],
    x: *const T,
    strides: [isize; 2],
    out: *mut T,
    mean: impl Fn(T) -> T,
) {
    let zero = |_: &[T]| T::default();
    // SAFETY: the caller's promise.
    unsafe {
        match op {
            Reduce::Max | Reduce::Min => extremes(op, dims, x, strides, out),
            Reduce::Sum => rows(dims, x, strides, out, zero, T::add, |sum| sum),
            Reduce::Mean => rows(dims, x, strides, out, zero, T::add, mean),
        }
    }
}

/// Reduces rows of 16-bit floats, with sums in `f32`.
///
/// # Safety
///
/// As for [`Number::reduce`].
pub(crate) unsafe fn halves<T: Float + Cast<f32>>(
    op: Reduce,
    [rows, len]: [usize; 2],
    x: *const T,
    [row, step]: [isize; 2],
    out: *mut T,
) where
    f32: Cast<T>,
{
    if matches!(op, Reduce::Max | Reduce::Min) {
        // SAFETY: the caller's promise.
        return unsafe { extremes(op, [rows, len], x, [row, step], out) };
    }
    for i in 0..rows {
        let (mut sum, mut block) = (0.0, [0f32; LANES]);
        let mut at = 0;
        while at < len {
            let n = LANES.min(len - at);
            for (j, slot) in block.iter_mut().enumerate().take(n) {
                // SAFETY: `at + j < len`.
                *slot = unsafe { *x.offset(i as isize * row + (at + j) as isize * step) }.cast();
            }
            // The blocks' sums are added in double precision, so that their number costs nothing.
            sum += f64::from(halving(block.split_at(n).0, 0.0, |a, b| a + b));
            at += n;
        }
        let result = if op == Reduce::Sum { sum } else { sum / len as f64 };
        // SAFETY: there is room for a result of each row.
        unsafe { out.add(i).write(T::from_f64(result)) };
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::indexing_slicing, reason = "tests")]

    use super::{Reduce, reduce};
    use crate::simd::{at, levels};

    const SIZES: [usize; 15] = [1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 65, 257, 1000, 9001];

    #[test]
    fn every_form_equals_the_definition() {
        for len in SIZES {
            for [outer, inner] in [[1, 1], [3, 1], [2, 5], [1, 300]] {
                let n = outer * len * inner;
                let x: Vec<i64> = (0..n).map(|i| (i as i64 * 7919) % 1009 - 500).collect();
                let f: Vec<f32> = x.iter().map(|&v| v as f32).collect();
                let b: Vec<u8> = x.iter().map(|&v| v as u8).collect();
                for level in levels() {
                    for op in [Reduce::Sum, Reduce::Max, Reduce::Min, Reduce::Mean] {
                        let (mut yx, mut yf, mut yb) =
                            (vec![0i64; outer * inner], vec![0f32; outer * inner], vec![0u8; outer * inner]);
                        let strides = [(len * inner) as isize, inner as isize, 1];
                        // SAFETY: the vectors have these extents.
                        at(level, || unsafe {
                            reduce(op, [outer, len, inner], yx.as_mut_ptr(), x.as_ptr(), strides);
                            reduce(op, [outer, len, inner], yf.as_mut_ptr(), f.as_ptr(), strides);
                            reduce(op, [outer, len, inner], yb.as_mut_ptr(), b.as_ptr(), strides);
                        });
                        for o in 0..outer {
                            for i in 0..inner {
                                let all = || (0..len).map(|l| x[(o * len + l) * inner + i]);
                                let bytes = || (0..len).map(|l| b[(o * len + l) * inner + i]);
                                let sum: i64 = all().sum();
                                let total = bytes().fold(0, u8::wrapping_add);
                                let (ex, eb) = match op {
                                    Reduce::Sum => (sum, total),
                                    Reduce::Mean => {
                                        (sum / len as i64, total.checked_div(len as u8).unwrap_or(0))
                                    }
                                    Reduce::Max => (all().max().unwrap_or(0), bytes().max().unwrap_or(0)),
                                    Reduce::Min => (all().min().unwrap_or(0), bytes().min().unwrap_or(0)),
                                };
                                assert_eq!(yx[o * inner + i], ex, "{op:?} {len}");
                                assert_eq!(yb[o * inner + i], eb, "{op:?} {len}");
                                // All partial sums are integers below 2^24, hence exact.
                                let ef = if op == Reduce::Mean { sum as f32 / len as f32 } else { ex as f32 };
                                assert_eq!(yf[o * inner + i], ef, "{op:?} {len}");
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn sums_of_many_are_accurate() {
        let x: Vec<f32> = (0..1u64 << 20).map(|i| ((i * 7919) % 10007) as f32 / 10007.0).collect();
        let exact: f64 = x.iter().map(|&v| f64::from(v)).sum();
        for level in levels() {
            let mut y = 0f32;
            // SAFETY: the vector has this extent.
            at(level, || unsafe { reduce(Reduce::Sum, [1, x.len(), 1], &raw mut y, x.as_ptr(), [0, 1, 1]) });
            // NumPy's pairwise sum promises O(log n) units; this is one.
            assert!((f64::from(y) / exact - 1.0).abs() < 1.2e-7, "{y} {exact}");
        }
    }

    #[test]
    fn nan_wins() {
        for position in [0, 5, 70, 99] {
            let mut x = vec![1f32; 100];
            x[position] = f32::NAN;
            for op in [Reduce::Max, Reduce::Min] {
                let mut y = 0f32;
                // SAFETY: the vector has this extent.
                unsafe { reduce(op, [1, 100, 1], &raw mut y, x.as_ptr(), [0, 1, 1]) };
                assert!(y.is_nan());
            }
        }
    }
}
