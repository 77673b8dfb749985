//! Cumulative sums along one dimension: each result is the sum of all elements up to its index.
//!
//! Sums of `f32` are accumulated in `f64`, and sums of `f64` together with their rounding errors, so that errors do not
//! grow with the number of elements. Several sums are computed together: neighbouring sums form vectors, and sums of
//! several rows are interleaved, because each addition waits for the previous addition of its sum.

use super::Shared;
use super::dispatch::{VectorLoop, dispatch};
use super::element_loop::GRAIN;
use super::walk::split;
use crate::level::{Level, level};
use crate::pace::Pace;
use bb::DataType;

/// The extents of the operand, and the options of the sums.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cumulation {
    /// The product of the extents before the dimension.
    pub(crate) outer: usize,
    /// The extent of the dimension.
    pub(crate) extent: usize,
    /// The product of the extents after the dimension.
    pub(crate) inner: usize,
    /// Whether each sum excludes the element at its own index.
    pub(crate) exclusive: bool,
    /// Whether the sums begin at the end of the dimension.
    pub(crate) reverse: bool,
}

/// A function that writes the sums of `x: [outer, extent, inner]`.
///
/// # Safety
///
/// `x` points to these elements, of the type that the function was chosen for. `out` points to room for the same number
/// of elements. `x` and `out` do not overlap.
pub(crate) type Sums = unsafe fn(Cumulation, out: *mut u8, x: *const u8);

/// Returns the function that sums elements of a type, if there is one.
pub(crate) fn sums(dtype: DataType) -> Option<Sums> {
    Some(match dtype {
        DataType::F32 => run::<f32>,
        DataType::F64 => run::<f64>,
        DataType::I8 | DataType::U8 => run::<u8>,
        DataType::I16 | DataType::U16 => run::<u16>,
        DataType::I32 | DataType::U32 => run::<u32>,
        DataType::I64 | DataType::U64 => run::<u64>,
        _ => return None,
    })
}

/// An element type of sums.
trait Term: Copy {
    /// The type of the accumulated sums.
    type Sum: Copy;
    /// The initial values of a sum and of its rounding error.
    const NOTHING: [Self::Sum; 2];

    /// Adds the element to a sum, and the rounding error of the addition to `lost`.
    fn add_to(self, sum: &mut Self::Sum, lost: &mut Self::Sum);

    /// Returns the element that is nearest to a sum and its rounding error.
    fn of(sum: Self::Sum, lost: Self::Sum) -> Self;
}

impl Term for f32 {
    type Sum = f64;
    const NOTHING: [f64; 2] = [-0.0, 0.0];

    #[inline(always)]
    fn add_to(self, sum: &mut f64, _: &mut f64) {
        *sum += f64::from(self);
    }

    #[inline(always)]
    fn of(sum: f64, _: f64) -> f32 {
        sum as f32
    }
}

impl Term for f64 {
    type Sum = f64;
    const NOTHING: [f64; 2] = [-0.0, 0.0];

    #[inline(always)]
    fn add_to(self, sum: &mut f64, lost: &mut f64) {
        let next = *sum + self;
        let added = next - *sum;
        let rounded = (*sum - (next - added)) + (self - added);
        // The difference of two infinities is NaN, so the error is ignored.
        *lost += if next.is_finite() { rounded } else { 0.0 };
        *sum = next;
    }

    #[inline(always)]
    fn of(sum: f64, lost: f64) -> f64 {
        // Adding a zero would lose the sign of a zero sum.
        if lost == 0.0 { sum } else { sum + lost }
    }
}

macro_rules! integers {
    ($($t:ident)*) => {$(
        impl Term for $t {
            type Sum = $t;
            const NOTHING: [$t; 2] = [0, 0];

            #[inline(always)]
            fn add_to(self, sum: &mut $t, _: &mut $t) {
                *sum = sum.wrapping_add(self);
            }

            #[inline(always)]
            fn of(sum: $t, _: $t) -> $t {
                sum
            }
        }
    )*};
}

integers!(u8 u16 u32 u64);

/// The maximum number of sums that are computed together.
const LANES: usize = 64;
/// The number of wide sums that fit in the registers of AVX2.
const HALF: usize = LANES / 2;
/// The number of rows whose sums are computed together.
const ROWS: usize = 8;
/// The number of steps between checks whether the run must end.
const STEPS: usize = 1 << 12;

/// The state of some sums along the dimension.
struct Lanes<T: Term> {
    sums: [T::Sum; LANES],
    lost: [T::Sum; LANES],
    count: usize,
    /// The distance between neighbouring sums, and the distance between steps.
    strides: [isize; 2],
    exclusive: bool,
}

/// A loop that computes some steps of the sums.
struct Steps<'a, T: Term> {
    lanes: &'a mut Lanes<T>,
    out: *mut T,
    x: *const T,
    count: usize,
}

impl<T: Term> VectorLoop for Steps<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(mut self) {
        let Lanes { count, strides: [across, _], .. } = *self.lanes;
        // With AVX2, the registers hold only half of the sums if these are wide.
        let all_fit = size_of::<T::Sum>() < 8 || level() != Level::Avx2;
        let mut first = 0;
        while first < count {
            // SAFETY: only `along` creates this value, and its callers guarantee that the elements are valid and there is enough
            // room.
            first += unsafe {
                match (count - first, across) {
                    (LANES.., 1) if all_fit => self.neighbours::<LANES>(first),
                    (HALF.., 1) if !all_fit => self.neighbours::<HALF>(first),
                    (ROWS.., 1) => self.neighbours::<ROWS>(first),
                    (ROWS.., _) => self.rows::<ROWS>(first),
                    _ => self.rows::<1>(first),
                }
            };
        }
    }
}

impl<T: Term> Steps<'_, T> {
    /// Computes `N` neighbouring sums from sum `first` on, and returns `N`.
    ///
    /// # Safety
    ///
    /// As for [`along`].
    #[inline(always)]
    unsafe fn neighbours<const N: usize>(&mut self, first: usize) -> usize {
        let (step, exclusive) = (self.lanes.strides[1], self.lanes.exclusive);
        let (mut sums, mut lost) = self.lanes.some::<N>(first);
        for j in 0..self.count.cast_signed() {
            let at = j * step + first.cast_signed();
            // SAFETY: this function's contract. The elements are read before results are written.
            let mut elements = unsafe { self.x.offset(at).cast::<[T; N]>().read() };
            for ((x, sum), lost) in elements.iter_mut().zip(&mut sums).zip(&mut lost) {
                *x = next(sum, lost, exclusive, *x);
            }
            // SAFETY: this function's contract.
            unsafe { self.out.offset(at).cast::<[T; N]>().write(elements) };
        }
        self.lanes.keep(first, &sums, &lost)
    }

    /// Computes `N` sums of rows from sum `first` on, and returns `N`.
    ///
    /// # Safety
    ///
    /// As for [`along`].
    #[inline(always)]
    unsafe fn rows<const N: usize>(&mut self, first: usize) -> usize {
        let ([across, step], exclusive) = (self.lanes.strides, self.lanes.exclusive);
        let (mut sums, mut lost) = self.lanes.some::<N>(first);
        for j in 0..self.count.cast_signed() {
            for (k, (sum, lost)) in sums.iter_mut().zip(&mut lost).enumerate() {
                let at = j * step + (first + k).cast_signed() * across;
                // SAFETY: this function's contract.
                unsafe { self.out.offset(at).write(next(sum, lost, exclusive, *self.x.offset(at))) };
            }
        }
        self.lanes.keep(first, &sums, &lost)
    }
}

impl<T: Term> Lanes<T> {
    /// Returns `N` sums from sum `first` on, and their rounding errors. The copies stay in registers.
    #[inline(always)]
    fn some<const N: usize>(&self, first: usize) -> ([T::Sum; N], [T::Sum; N]) {
        let of = |sums: &[T::Sum; LANES]| sums.get(first..).and_then(|sums| sums.first_chunk()).copied();
        let nothing = [T::NOTHING[0]; N];
        (of(&self.sums).unwrap_or(nothing), of(&self.lost).unwrap_or(nothing))
    }

    /// Stores `N` sums from sum `first` on, and returns `N`.
    #[inline(always)]
    fn keep<const N: usize>(&mut self, first: usize, sums: &[T::Sum; N], lost: &[T::Sum; N]) -> usize {
        for (to, from) in [(&mut self.sums, sums), (&mut self.lost, lost)] {
            if let Some(to) = to.get_mut(first..first + N) {
                to.copy_from_slice(from);
            }
        }
        N
    }
}

/// Adds an element to a sum, and returns the sum: with the element, or without it if `exclusive`.
#[inline(always)]
fn next<T: Term>(sum: &mut T::Sum, lost: &mut T::Sum, exclusive: bool, x: T) -> T {
    let before = T::of(*sum, *lost);
    x.add_to(sum, lost);
    if exclusive { before } else { T::of(*sum, *lost) }
}

/// # Safety
///
/// As for [`Sums`], of elements `T`.
unsafe fn run<T: Term>(what: Cumulation, out: *mut u8, x: *const u8) {
    let Cumulation { outer, extent, inner, .. } = what;
    let shared = Shared((out.cast::<T>(), x.cast::<T>()));
    // Uses sums of neighbours if `inner` is above 1, otherwise sums of rows.
    let (rows, width) = if inner > 1 { (outer, LANES) } else { (1, ROWS) };
    let (columns, across) = if inner > 1 { (inner, 1) } else { (outer, extent) };
    let groups = columns.div_ceil(width);
    split(rows * groups, width.min(columns) * extent, GRAIN / 4, |from, to| {
        let (out, x) = shared.get();
        let mut pace = Pace::new();
        for unit in from..to {
            let first = unit % groups * width;
            let at = unit / groups * extent * inner + first * across;
            // SAFETY: this function's contract; no other unit has these sums.
            unsafe {
                along(what, &mut pace, out.add(at), x.add(at), (width.min(columns - first), across));
            }
        }
    });
}

/// Computes `count` sums, which are `across` elements apart, along the whole dimension.
///
/// # Safety
///
/// `x` points to the first element of the first sum, and `out` to room for its result.
unsafe fn along<T: Term>(
    what: Cumulation,
    pace: &mut Pace,
    out: *mut T,
    x: *const T,
    (count, across): (usize, usize),
) {
    let Cumulation { extent, inner, exclusive, reverse, .. } = what;
    let [unchanged, nothing] = T::NOTHING;
    let start = if exclusive { nothing } else { unchanged };
    let forward = inner.cast_signed();
    let strides = [across.cast_signed(), if reverse { -forward } else { forward }];
    let mut lanes = Lanes::<T> { sums: [start; LANES], lost: [nothing; LANES], count, strides, exclusive };
    for done in (0..extent).step_by(STEPS) {
        let steps = STEPS.min(extent - done);
        pace.step(steps * count);
        let at = if reverse { extent - 1 - done } else { done } * inner;
        // SAFETY: the steps are some of the dimension, whose elements the caller guarantees.
        let (out, x) = unsafe { (out.add(at), x.add(at)) };
        dispatch(Steps { lanes: &mut lanes, out, x, count: steps });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::{at, levels};

    /// Computes the sums by the definition, each from the beginning.
    fn defined<T: Copy>(what: Cumulation, x: &[T], zero: T, sum: impl Fn(&[T]) -> T) -> Vec<T> {
        let Cumulation { extent, inner, exclusive, reverse, .. } = what;
        let place = |i: usize| (i / (extent * inner) * extent * inner + i % inner, i / inner % extent);
        let one = |i: usize| {
            let (first, j) = place(i);
            let mut before: Vec<usize> =
                if reverse { (j + 1..extent).rev().collect() } else { (0..j).collect() };
            if !exclusive {
                before.push(j);
            }
            let terms: Vec<T> = before.iter().filter_map(|j| x.get(first + j * inner).copied()).collect();
            if terms.is_empty() { zero } else { sum(&terms) }
        };
        (0..x.len()).map(one).collect()
    }

    fn check<T: Copy + Default + std::fmt::Debug>(
        dtype: DataType,
        of: impl Fn(usize) -> T,
        sum: impl Fn(&[T]) -> T,
        same: impl Fn(T, T) -> bool,
    ) {
        let run = sums(dtype).expect("a type of numbers");
        for [outer, extent, inner] in [
            [1, 1, 1],
            [3, 7, 1],
            [8, 5, 1],
            [17, 40, 1],
            [2, 9, 2],
            [1, 33, 64],
            [2, 20, 150],
            [1, 6, 45],
            [1, 0, 3],
            [0, 4, 1],
        ] {
            for (exclusive, reverse) in [(false, false), (true, false), (false, true), (true, true)] {
                let what = Cumulation { outer, extent, inner, exclusive, reverse };
                let x: Vec<T> = (0..outer * extent * inner).map(&of).collect();
                let expected = defined(what, &x, T::default(), &sum);
                for level in levels() {
                    let mut out = vec![T::default(); x.len()];
                    // SAFETY: there are as many elements of each.
                    at(level, || unsafe { run(what, out.as_mut_ptr().cast(), x.as_ptr().cast()) });
                    for (i, (&y, &want)) in out.iter().zip(&expected).enumerate() {
                        assert!(same(y, want), "{what:?} at {i}: {y:?}, expected {want:?} at {level:?}");
                    }
                }
            }
        }
    }

    fn float(i: usize) -> f64 {
        let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0];
        let drawn = (i * 7919 % 1009) as f64 - 500.0;
        special.get(i * 31 % 997).copied().unwrap_or(drawn * 2f64.powi((i % 23) as i32 - 11))
    }

    #[test]
    fn sums_are_those_of_the_definition() {
        check(
            DataType::I8,
            |i| (i * 37) as i8,
            |x| x.iter().fold(0, |a, &b| a.wrapping_add(b)),
            |a, b| a == b,
        );
        check(
            DataType::U16,
            |i| (i * 9973) as u16,
            |x| x.iter().fold(0, |a, &b| a.wrapping_add(b)),
            |a, b| a == b,
        );
        check(
            DataType::I32,
            |i| (i * 999_999_937) as i32,
            |x| x.iter().fold(0, |a, &b| a.wrapping_add(b)),
            |a, b| a == b,
        );
        let wide = |i: usize| (i as i64).wrapping_mul(0x7fff_ffff_ffff_ff43);
        check(DataType::I64, wide, |x| x.iter().fold(0, |a, &b| a.wrapping_add(b)), |a, b| a == b);
        // These sums are exact in `f64`, so each result is rounded once.
        let exact = |x: &[f64]| x.iter().fold(-0.0, |a, b| a + b);
        let same = |a: f64, b: f64| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
        check(DataType::F64, float, exact, same);
        let single = |x: &[f32]| x.iter().fold(-0.0, |a, &b| a + f64::from(b)) as f32;
        check(DataType::F32, |i| float(i) as f32, single, |a, b| same(a.into(), b.into()));
    }

    #[test]
    fn errors_do_not_grow_with_the_number_of_terms() {
        let n = 100_000;
        let what = Cumulation { outer: 1, extent: n, inner: 1, exclusive: false, reverse: false };
        let x = vec![0.1f64; n];
        let mut out = vec![0f64; n];
        // SAFETY: there are as many elements of each.
        unsafe { run::<f64>(what, out.as_mut_ptr().cast(), x.as_ptr().cast()) };
        for (i, y) in out.iter().enumerate() {
            // The exact product, rounded once: `0.1` is 3602879701896397 / 2^55.
            let exact = ((i + 1) as u128 * 3_602_879_701_896_397) as f64 / 2f64.powi(55);
            assert!((y - exact).abs() <= exact * f64::EPSILON, "{i}: {y}, expected {exact}");
        }
    }
}
