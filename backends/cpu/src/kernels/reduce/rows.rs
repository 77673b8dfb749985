//! Reductions along rows. Many lanes reduce each row to one element.

use crate::kernels::dispatch::{VectorLoop, dispatch};
use crate::kernels::element_loop::GRAIN;
use crate::kernels::number::{Float, Number};
use crate::kernels::op::Reduction;
use crate::kernels::{Shared, walk};
use crate::pace::{self, Pace, STRETCH};

/// The maximum number of elements that are folded lane by lane. Longer rows are split into halves.
const RUN: usize = 8192;
/// The number of independent partial results.
const LANES: usize = 64;
/// The prefetch distance in bytes.
const AHEAD: isize = 2048;

struct Fold<'a, T, F> {
    x: &'a [T],
    start: T,
    f: F,
}

impl<T: Copy, F: Fn(T, T) -> T> VectorLoop for Fold<'_, T, F> {
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
        // The remaining elements are folded into a copy of the lanes, because lanes with a variable index would not
        // stay in registers.
        let mut partial = lanes;
        for (lane, &v) in partial.iter_mut().zip(rest) {
            *lane = (self.f)(*lane, v);
        }
        total(partial, self.f)
    }
}

/// Prefetches the memory `ahead` bytes after a block. If memory is the limit, the processor's own prefetching is too
/// late.
#[inline(always)]
pub(super) fn prefetch<T, const N: usize>(block: &[T; N], ahead: isize) {
    let _ = (block, ahead);
    #[cfg(target_arch = "x86_64")]
    for line in 0..size_of::<[T; N]>() / 64 {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let at = block.as_ptr().cast::<i8>().wrapping_offset(ahead).wrapping_add(64 * line);
        // SAFETY: every processor of the target has the instruction, and it has no effect that the program could
        // observe.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at) };
    }
}

/// Folds two arrays into one, element by element.
///
/// Returns a new array because the compiler would not keep a modified array in registers.
#[inline(always)]
#[expect(clippy::indexing_slicing, reason = "both have `N` elements")]
pub(super) fn pairs<T: Copy, const N: usize>(x: &[T; N], y: &[T; N], f: impl Fn(T, T) -> T) -> [T; N] {
    std::array::from_fn(|i| f(x[i], y[i]))
}

/// Folds all lanes into one. Repeatedly folds one half of the lanes into the other half.
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

/// Folds contiguous elements in an order that depends only on their number.
fn fold<T: Number>(x: &[T], start: T, f: impl Fn(T, T) -> T + Copy + Sync) -> T {
    if x.len() < 2 * GRAIN {
        return halving(x, start, f);
    }
    // The number of parts is a power of two, so that their results can be folded in pairs.
    let parts = (x.len() / GRAIN).min(MOST_PARTS).next_power_of_two();
    let length = x.len().div_ceil(parts).next_multiple_of(LANES);
    let mut folded = [start; MOST_PARTS];
    let to = Shared(folded.as_mut_ptr());
    walk::split(parts, length, GRAIN, |from, end| {
        for (part, x) in x.chunks(length).enumerate().take(end).skip(from) {
            // SAFETY: each part has its own element of `folded`.
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

/// The maximum number of parts of one sum.
const MOST_PARTS: usize = 64;

/// Folds contiguous elements. Long runs are split into halves.
fn halving<T: Number>(x: &[T], start: T, f: impl Fn(T, T) -> T + Copy) -> T {
    if x.len() <= RUN {
        return dispatch(Fold { x, start, f });
    }
    let (low, high) = x.split_at((x.len() / 2).next_multiple_of(LANES));
    f(halving(low, start, f), halving(high, start, f))
}

/// Folds `n` elements that are `stride` elements apart.
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
        // SAFETY: the caller guarantees that the elements are valid; they are contiguous.
        return fold(unsafe { std::slice::from_raw_parts(x, n) }, start, f);
    }
    if n > 256 {
        if n > STRETCH {
            pace::look();
        }
        let half = n / 2;
        // SAFETY: both halves are part of the elements.
        return unsafe {
            f(
                strided(half, x, stride, start, f),
                strided(n - half, x.offset(half.cast_signed() * stride), stride, start, f),
            )
        };
    }
    let mut lanes = [start; 4];
    for i in (0..n).step_by(4) {
        for (j, lane) in lanes.iter_mut().enumerate().take(n - i) {
            // SAFETY: `i + j < n`.
            *lane = f(*lane, unsafe { *x.offset((i + j).cast_signed() * stride) });
        }
    }
    let [a, b, c, d] = lanes;
    f(f(a, b), f(c, d))
}

/// The initial value of the lanes of a row.
#[derive(Debug, Clone, Copy)]
enum Start<T> {
    /// This number.
    At(T),
    /// The row's first element. A maximum or minimum can start there.
    First,
}

impl<T: Number> Start<T> {
    fn of(self, first: Option<&T>) -> T {
        match self {
            Start::At(start) => start,
            Start::First => first.copied().unwrap_or_default(),
        }
    }
}

/// A loop that folds contiguous rows into one element each.
struct SumRows<T, F> {
    rows: usize,
    len: usize,
    x: *const T,
    row: isize,
    out: *mut T,
    start: Start<T>,
    f: F,
}

impl<T: Number, F: Fn(T, T) -> T> VectorLoop for SumRows<T, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for i in 0..self.rows {
            // SAFETY: only the function `rows` creates this value; its caller guarantees that the rows are valid and
            // there is room for their results.
            unsafe {
                let x = std::slice::from_raw_parts(self.x.offset(i.cast_signed() * self.row), self.len);
                let folded = Fold { x, start: self.start.of(x.first()), f: &self.f }.run::<FMA>();
                self.out.add(i).write(folded);
            }
        }
    }
}

/// Folds each row into one element.
///
/// # Safety
///
/// Same as for [`by_rows`].
unsafe fn rows<T: Number>(
    [rows, len]: [usize; 2],
    x: *const T,
    [row, step]: [isize; 2],
    out: *mut T,
    start: Start<T>,
    f: impl Fn(T, T) -> T + Copy + Sync,
) {
    if step == 1 && len <= RUN {
        return dispatch(SumRows { rows, len, x, row, out, start, f });
    }
    for i in 0..rows {
        // SAFETY: the caller guarantees that the rows are valid and there is room for their results.
        unsafe {
            let x = x.offset(i.cast_signed() * row);
            let first = std::slice::from_raw_parts(x, len.min(1));
            out.add(i).write(strided(len, x, step, start.of(first.first()), f));
        }
    }
}

/// Reduces each row to one element. `dims` has the number of rows and their length; `strides` has the distance between
/// rows and the distance between elements of a row.
///
/// # Safety
///
/// `x` covers the rows, and `out` has room for their results.
pub(super) unsafe fn by_rows<T: Number>(
    op: Reduction,
    dims: [usize; 2],
    x: *const u8,
    strides: [isize; 2],
    out: *mut u8,
) {
    let (x, out) = (x.cast::<T>(), out.cast::<T>());
    // SAFETY: this function has the same contract, and `rows` writes all results.
    unsafe {
        match op {
            Reduction::Max => rows(dims, x, strides, out, Start::First, T::max),
            Reduction::Min => rows(dims, x, strides, out, Start::First, T::min),
            Reduction::Sum | Reduction::Mean => rows(dims, x, strides, out, Start::At(T::default()), T::add),
        }
        if op == Reduction::Mean {
            let [rows, len] = dims;
            for sum in std::slice::from_raw_parts_mut(out, rows) {
                *sum = T::mean(sum.widen(), len);
            }
        }
    }
}

/// The minimum and the maximum of the bits of 16-bit floats, and their maximum as signed integers.
struct Bits<'a>(&'a [u16]);

impl VectorLoop for Bits<'_> {
    type Output = [u16; 3];

    #[inline(always)]
    fn run<const FMA: bool>(self) -> [u16; 3] {
        let signed = |a: u16, b: u16| Ord::max(a.cast_signed(), b.cast_signed()).cast_unsigned();
        [
            Fold { x: self.0, start: u16::MAX, f: <u16 as Ord>::min }.run::<FMA>(),
            Fold { x: self.0, start: 0, f: <u16 as Ord>::max }.run::<FMA>(),
            Fold { x: self.0, start: SIGN, f: signed }.run::<FMA>(),
        ]
    }
}

/// The bit of a negative sign, which is also the least signed integer.
const SIGN: u16 = 1 << 15;

/// Returns the bits of the maximum or minimum of at least one 16-bit float. Integers are compared in wide vectors, unlike
/// 16-bit floats. Returns `None` if the result is NaN, or a zero, whose sign depends on the order.
fn extreme_bits(op: Reduction, x: &[u16], infinity: u16) -> Option<u16> {
    let [least, greatest, signed] = dispatch(Bits(x));
    // The sign and the magnitude are separate bits, so the order of negative numbers is reversed.
    let bits = match op {
        Reduction::Max if signed < SIGN => signed,
        Reduction::Max => least,
        _ if greatest >= SIGN => greatest,
        _ => least,
    };
    let is_nan = (signed < SIGN && signed > infinity) || greatest > (SIGN | infinity);
    (!is_nan && bits & !SIGN != 0).then_some(bits)
}

/// Returns the sum of 16-bit floats, which are widened to `f32`.
pub(crate) fn sum_of_halves(x: &[f32]) -> f64 {
    // The sums of the blocks are added in double precision, so that many blocks cause no loss of digits.
    x.chunks(LANES).map(|block| f64::from(halving(block, 0.0, f32::add))).sum()
}

/// Reduces rows of 16-bit floats as [`by_rows`] does. Sums are computed in `f32` and `f64`, and rounded once.
///
/// # Safety
///
/// Same as for [`by_rows`].
pub(super) unsafe fn halves<T: Float<Sum = f32>>(
    op: Reduction,
    [rows, len]: [usize; 2],
    x: *const u8,
    [row, step]: [isize; 2],
    out: *mut u8,
) {
    if matches!(op, Reduction::Max | Reduction::Min) {
        let by_bits = step == 1 && len > 0 && len < 2 * GRAIN;
        // SAFETY: the types are `f16` and `bf16`, which consist of two bytes. The greatest value is an infinity.
        let infinity = unsafe { std::ptr::from_ref(&T::GREATEST).cast::<u16>().read() };
        for i in 0..rows {
            // SAFETY: the caller guarantees that the rows are valid and there is room for their results.
            unsafe {
                let x = x.cast::<T>().offset(i.cast_signed() * row);
                let out = out.cast::<T>().add(i);
                let bits = || extreme_bits(op, std::slice::from_raw_parts(x.cast::<u16>(), len), infinity);
                match by_bits.then(bits).flatten() {
                    Some(bits) => out.cast::<u16>().write(bits),
                    None => by_rows::<T>(op, [1, len], x.cast(), [0, step], out.cast()),
                }
            }
        }
        return;
    }
    let (x, out) = (x.cast::<T>(), out.cast::<T>());
    let mut pace = Pace::new();
    for i in 0..rows {
        let (mut sum, mut block) = (0.0, [0f32; LANES]);
        for at in (0..len).step_by(LANES) {
            pace.step(LANES);
            let n = LANES.min(len - at);
            for (j, slot) in block.iter_mut().enumerate().take(n) {
                // SAFETY: the caller guarantees that the rows are valid; `at + j` is below `len`.
                let v = unsafe { *x.offset(i.cast_signed() * row + (at + j).cast_signed() * step) };
                *slot = v.widen();
            }
            // The sums of the blocks are added in double precision, so that many blocks cause no loss of digits.
            sum += f64::from(halving(block.split_at(n).0, 0.0, f32::add));
        }
        let result = if op == Reduction::Sum { sum } else { sum / len as f64 };
        // SAFETY: there is room for a result of each row.
        unsafe { out.add(i).write(T::from_f64(result)) };
    }
}
