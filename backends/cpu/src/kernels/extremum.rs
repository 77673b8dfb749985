//! Indices of maxima and minima.

use super::dispatch::{VectorLoop, dispatch};
use super::element_loop::GRAIN;
use super::number::Number;
use super::ordered::Ordered;
use super::{Shared, walk};
use crate::pace::Pace;
use std::mem::MaybeUninit;

/// The extremum to find. NaN takes precedence over all numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extremum {
    /// Whether to find the minimum instead of the maximum.
    pub(crate) least: bool,
    /// Whether to choose the last of equal elements instead of the first.
    pub(crate) last: bool,
}

/// The length of a block of a row. The extremum of each block is found first, and then its index in one block. A block
/// stays in the first-level cache.
const BLOCK: usize = 1024;
/// The number of independent extrema of a block, one per lane.
const LANES: usize = 64;
/// The value of [`LANES`] for short rows. Elements of even shorter rows are compared one by one.
const FEW_LANES: usize = 16;
/// The number of columns that are compared together.
const COLUMNS: usize = 64;

/// Returns whether `a` is NaN, which no integer is.
#[inline(always)]
fn is_nan<C: Number>(a: C) -> bool {
    a.partial_cmp(&a).is_none()
}

impl Extremum {
    #[inline(always)]
    fn of<T: Ordered>(self, x: T) -> T::Compared {
        x.compared(self.least)
    }

    /// Returns the extremum of two values, or NaN if either is NaN.
    #[inline(always)]
    fn best<C: Number>(self, a: C, b: C) -> C {
        if self.least { a.min(b) } else { a.max(b) }
    }

    /// Returns whether a later element replaces an earlier one.
    #[inline(always)]
    fn replaces<C: Number>(self, later: C, earlier: C) -> bool {
        let beyond = if self.least { later < earlier } else { later > earlier };
        let same = later == earlier || (is_nan(later) & is_nan(earlier));
        beyond | (is_nan(later) & !is_nan(earlier)) | (self.last & same)
    }

    /// Returns the index of the extremum of a few elements, at least one, and the extremum.
    #[inline(always)]
    fn scan<T: Ordered>(self, x: &[T]) -> (usize, T::Compared) {
        let mut best = (0, self.of(x.first().copied().unwrap_or_default()));
        for (at, &x) in x.iter().enumerate().skip(1) {
            let x = self.of(x);
            best = if self.replaces(x, best.1) { (at, x) } else { best };
        }
        best
    }

    /// Returns the extremum of at least `N` elements.
    #[inline(always)]
    fn extreme<T: Ordered, const N: usize>(self, x: &[T]) -> T::Compared {
        let mut lanes = [T::Compared::default(); N];
        if let Some(first) = x.first_chunk::<N>() {
            for (lane, &x) in lanes.iter_mut().zip(first) {
                *lane = self.of(x);
            }
        }
        for x in x.as_chunks::<N>().0 {
            for (lane, &x) in lanes.iter_mut().zip(x) {
                *lane = self.best(*lane, self.of(x));
            }
        }
        // The lanes of the loop above stay in registers because another array is halved below. The last chunk may
        // overlap with earlier chunks, which does not change the extremum.
        let mut halves = [T::Compared::default(); N];
        if let Some(last) = x.last_chunk::<N>() {
            for ((half, &lane), &x) in halves.iter_mut().zip(&lanes).zip(last) {
                *half = self.best(lane, self.of(x));
            }
        }
        let mut half = N / 2;
        while half > 0 {
            let (low, high) = halves.split_at_mut(half);
            for (low, &high) in low.iter_mut().zip(&*high) {
                *low = self.best(*low, high);
            }
            half /= 2;
        }
        halves.first().copied().unwrap_or_default()
    }

    /// Returns the index of the extremum `best` among at least `N` elements.
    #[inline(always)]
    fn find<T: Ordered, const N: usize>(self, x: &[T], best: T::Compared) -> usize {
        let (is_nan_best, from_end) = (is_nan(best), self.last);
        let same = |x: T| {
            let x = self.of(x);
            (x == best) | (is_nan_best & is_nan(x))
        };
        let mut start = 0;
        let end = x.len().saturating_sub(N);
        while start < x.len() {
            // The last chunk is shifted to be full, so it overlaps with elements that were searched before.
            let at = if from_end { end.saturating_sub(start) } else { start.min(end) };
            if let Some(chunk) = x.get(at..).and_then(|x| x.first_chunk::<N>())
                && let Some(found) = place(chunk, from_end, &same)
            {
                return at + found;
            }
            start += N;
        }
        0
    }

    /// Returns the index of the extremum of a row of at least `N` elements.
    #[inline(always)]
    fn within<T: Ordered, const N: usize>(self, x: &[T]) -> usize {
        if x.len() <= BLOCK {
            return self.find::<T, N>(x, self.extreme::<T, N>(x));
        }
        let mut best: Option<(usize, T::Compared)> = None;
        let mut pace = Pace::new();
        for (block, x) in x.chunks(BLOCK).enumerate() {
            pace.step(x.len());
            let this = if x.len() < N { self.scan(x).1 } else { self.extreme::<T, N>(x) };
            if best.is_none_or(|(_, best)| self.replaces(this, best)) {
                best = Some((block, this));
            }
        }
        let Some((block, best)) = best else { return 0 };
        let first = block * BLOCK;
        let x = x.get(first..x.len().min(first + BLOCK)).unwrap_or_default();
        first + if x.len() < N { self.scan(x).0 } else { self.find::<T, N>(x, best) }
    }
}

/// Returns the index of the first or the last matching element.
#[inline(always)]
fn place<T: Copy, const N: usize>(x: &[T; N], last: bool, same: &impl Fn(T) -> bool) -> Option<usize> {
    // `fold` is vectorised, unlike `any`, which ends early.
    if !x.iter().fold(false, |any, &x| any | same(x)) {
        return None;
    }
    let (mut first, mut end) = (N as u32, 0);
    for (at, &x) in (0u32..).zip(x) {
        let same = same(x);
        first = Ord::min(first, if same { at } else { N as u32 });
        end = Ord::max(end, if same { at } else { 0 });
    }
    Some(if last { end } else { first } as usize)
}

/// A loop that finds the index of the extremum of each row.
struct ExtremumRows<'a, T> {
    which: Extremum,
    out: &'a mut [MaybeUninit<i64>],
    x: &'a [T],
    len: usize,
}

impl<T: Ordered> VectorLoop for ExtremumRows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let which = self.which;
        for (out, x) in self.out.iter_mut().zip(self.x.chunks_exact(self.len)) {
            let at = match self.len {
                LANES.. => which.within::<T, LANES>(x),
                FEW_LANES.. => which.within::<T, FEW_LANES>(x),
                _ => which.scan(x).0,
            };
            out.write(at.cast_signed() as i64);
        }
    }
}

/// Writes the index of the extremum of each row.
///
/// # Safety
///
/// `x` points to `rows * len` elements, and `out` to room for `rows` indices; `len` is not zero.
pub(crate) unsafe fn rows<T: Ordered>(which: Extremum, [rows, len]: [usize; 2], x: *const T, out: *mut i64) {
    let shared = Shared((out, x));
    walk::split(rows, len, GRAIN, |from, to| {
        let (out, x) = shared.get();
        // SAFETY: the rows are in the operand, and no other call writes their indices.
        let (out, x) = unsafe {
            (
                std::slice::from_raw_parts_mut(out.cast::<MaybeUninit<i64>>().add(from), to - from),
                std::slice::from_raw_parts(x.add(from * len), (to - from) * len),
            )
        };
        dispatch(ExtremumRows { which, out, x, len });
    });
}

/// A loop that finds the indices of the extrema of at most `COLUMNS` columns.
struct ExtremumColumns<'a, T> {
    which: Extremum,
    out: &'a mut [MaybeUninit<i64>],
    /// The first element of the first line of these columns. Each line has `out.len()` elements.
    x: *const T,
    lines: u32,
    stride: usize,
}

impl<T: Ordered> VectorLoop for ExtremumColumns<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let ExtremumColumns { which, out, x, lines, stride } = self;
        let mut best = [T::Compared::default(); COLUMNS];
        let mut places = [0u32; COLUMNS];
        let mut pace = Pace::new();
        for line in 0..lines {
            pace.step(out.len());
            // SAFETY: the creator of this value guarantees that the lines are valid.
            let x = unsafe { std::slice::from_raw_parts(x.add(line as usize * stride), out.len()) };
            // With a constant length, the loop needs no scalar remainder.
            match <&[T; COLUMNS]>::try_from(x) {
                Ok(x) => which.compare(line, x, &mut best, &mut places),
                Err(_) => which.compare(line, x, &mut best, &mut places),
            }
        }
        for (out, place) in out.iter_mut().zip(places) {
            out.write(i64::from(place));
        }
    }
}

impl Extremum {
    /// Updates the extrema of the previous lines with the elements of a line.
    #[inline(always)]
    fn compare<T: Ordered>(
        self,
        line: u32,
        x: &[T],
        best: &mut [T::Compared; COLUMNS],
        places: &mut [u32; COLUMNS],
    ) {
        for ((&x, best), place) in x.iter().zip(best).zip(places) {
            let x = self.of(x);
            let replaces = (line == 0) | self.replaces(x, *best);
            *best = if replaces { x } else { *best };
            *place = if replaces { line } else { *place };
        }
    }
}

/// Writes the indices of the extrema along the middle of three dimensions, whose extent is `len`.
///
/// # Safety
///
/// `x` points to `outer * len * inner` elements, and `out` to room for `outer * inner` indices; `len` is not zero.
pub(crate) unsafe fn columns<T: Ordered>(
    which: Extremum,
    [outer, inner]: [usize; 2],
    len: u32,
    x: *const T,
    out: *mut i64,
) {
    let (blocks, lines) = (inner.div_ceil(COLUMNS), len as usize);
    let shared = Shared((out, x));
    walk::split(outer * blocks, lines.saturating_mul(COLUMNS), GRAIN, |from, to| {
        let (out, x) = shared.get();
        for at in from..to {
            let (o, first) = (at / blocks, at % blocks * COLUMNS);
            let width = COLUMNS.min(inner - first);
            // SAFETY: the columns are below `inner`, and no other call writes their indices.
            let (out, x) = unsafe {
                let out = out.cast::<MaybeUninit<i64>>().add(o * inner + first);
                (std::slice::from_raw_parts_mut(out, width), x.add(o * lines * inner + first))
            };
            dispatch(ExtremumColumns { which, out, x, lines: len, stride: inner });
        }
    });
}

#[cfg(test)]
mod tests {
    #![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::level::{at, levels};
    use crate::threads::as_if;
    use bb::ir::convert::{bf16_from_f64, f16_from_f64};

    /// Finds the index by comparing all pairs.
    fn defined<T: Copy + PartialOrd>(which: Extremum, x: &[T]) -> usize {
        let nan = |x: T| x.partial_cmp(&x).is_none();
        let beats = |a: T, b: T| (nan(a) && !nan(b)) || if which.least { a < b } else { a > b };
        let best = |&i: &usize| x.iter().all(|&other| !beats(other, x[i]));
        let mut all = (0..x.len()).filter(best);
        if which.last { all.next_back() } else { all.next() }.unwrap()
    }

    /// Checks that the kernel finds the same indices as [`defined`]. `element` converts test numbers to the element
    /// type.
    fn positions_of<T: Ordered + PartialOrd>(name: &str, element: impl Fn(f64) -> T) {
        let rows_of = [1, 2, 15, 16, 17, 31, 63, 64, 65, 127, 200, 1023, 1024, 1025, 1087, 1089, 2500];
        let extents = rows_of.map(|len| [3, len, 1]).into_iter().chain([
            [2, 1, 5],
            [2, 3, 5],
            [1, 7, 64],
            [2, 7, 65],
            [1, 300, 130],
        ]);
        for ([outer, len, inner], rare) in extents.flat_map(|extents| [(extents, 3), (extents, 10_000)]) {
            let number = |i: usize| match (i * 7919 + len) % 2003 {
                n if n % rare == rare - 1 => f64::NAN,
                n if n % 97 == 96 => f64::INFINITY,
                n if n % 97 == 95 => f64::NEG_INFINITY,
                n if n % 41 == 20 => -0.0,
                n => (n % 41) as f64 - 20.0,
            };
            let x: Vec<T> = (0..outer * len * inner).map(|i| element(number(i))).collect();
            let lines: Vec<Vec<T>> = (0..outer * inner)
                .map(|i| (0..len).map(|l| x[(i / inner * len + l) * inner + i % inner]).collect())
                .collect();
            for (least, last) in [(false, false), (false, true), (true, false), (true, true)] {
                let which = Extremum { least, last };
                let want: Vec<i64> = lines.iter().map(|line| defined(which, line) as i64).collect();
                for (level, threads) in levels().into_iter().flat_map(|level| [(level, 1), (level, 3)]) {
                    let mut out = vec![-1; outer * inner];
                    // SAFETY: the operand and the result have these extents.
                    at(level, || {
                        as_if(threads, || unsafe {
                            if inner == 1 {
                                rows(which, [outer, len], x.as_ptr(), out.as_mut_ptr());
                            } else {
                                columns(which, [outer, inner], len as u32, x.as_ptr(), out.as_mut_ptr());
                            }
                        })
                    });
                    assert_eq!(out, want, "{name} {level:?} {which:?} {outer} {len} {inner}");
                }
            }
        }
    }

    #[test]
    fn positions_are_those_of_the_extrema() {
        positions_of("f32", |x| x as f32);
        positions_of("f64", |x| x);
        positions_of("f16", f16_from_f64);
        positions_of("bf16", bf16_from_f64);
        positions_of("i8", |x| x as i8);
        positions_of("u16", |x| x as u16);
        positions_of("i64", |x| x as i64);
        positions_of("u64", |x| (x as i64).cast_unsigned());
    }

    /// Tests a long row with one extremum at each index near the boundaries of blocks.
    #[test]
    fn a_single_extremum_is_found_anywhere() {
        for len in [16, 63, 64, 100, 1024, 1030, 2100] {
            for place in (0..len).filter(|at| at % 16 < 2 || at % 16 == 15 || at + 3 > len) {
                let mut x = vec![1f32; len];
                x[place] = 2.0;
                for (level, last) in levels().into_iter().flat_map(|level| [(level, false), (level, true)]) {
                    let mut out = [-1];
                    // SAFETY: there is one row, and room for one index.
                    at(level, || unsafe {
                        rows(Extremum { least: false, last }, [1, len], x.as_ptr(), out.as_mut_ptr());
                    });
                    assert_eq!(out, [place as i64], "{level:?} {len} {last}");
                }
            }
        }
    }

    #[test]
    fn of_equal_integers_the_first_or_the_last_counts() {
        let x = [3i64, 7, 7, -1, -1, 7];
        for (least, last, want) in [(false, false, 1), (false, true, 5), (true, false, 3), (true, true, 4)] {
            let mut out = [-1];
            // SAFETY: there is one row, and room for one index.
            unsafe { rows(Extremum { least, last }, [1, 6], x.as_ptr(), out.as_mut_ptr()) };
            assert_eq!(out, [want]);
        }
    }
}
