//! Positions of the greatest or the least elements.

use super::dispatch::{VectorLoop, dispatch};
use super::elementwise::GRAIN;
use super::number::Number;
use super::{Shared, walk};
use crate::pace::Pace;

/// Which element is looked for. NaN goes before all numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extremum {
    /// Whether the least is looked for, and not the greatest.
    pub(crate) least: bool,
    /// Whether the last of equal elements counts, and not the first.
    pub(crate) last: bool,
}

/// The number of elements of a row whose extremum is found before its position.
const BLOCK: usize = 256;
/// The number of independent extrema of a block.
const LANES: usize = 32;
/// The number of columns that are compared side by side.
const COLUMNS: usize = 64;

/// Tells whether `a` is NaN; no integer is.
#[inline(always)]
fn is_nan<T: Number>(a: T) -> bool {
    a.partial_cmp(&a).is_none()
}

impl Extremum {
    /// Tells whether a later element takes the place of an earlier one.
    #[inline(always)]
    fn replaces<T: Number>(self, later: T, earlier: T) -> bool {
        let beyond = if self.least { later < earlier } else { later > earlier };
        let same = later == earlier || (is_nan(later) & is_nan(earlier));
        beyond | (is_nan(later) & !is_nan(earlier)) | (self.last & same)
    }

    /// Returns the position in a short row that is not empty.
    #[inline(always)]
    fn scan<T: Number>(self, x: &[T]) -> usize {
        let mut best = (0, x.first().copied().unwrap_or_default());
        for (at, &x) in x.iter().enumerate().skip(1) {
            best = if self.replaces(x, best.1) { (at, x) } else { best };
        }
        best.0
    }
}

/// The extremum of a block, or NaN.
struct Best<'a, T> {
    x: &'a [T],
    least: bool,
}

impl<T: Number> VectorLoop for Best<'_, T> {
    type Output = T;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> T {
        let best = |a: T, b: T| if self.least { a.min(b) } else { a.max(b) };
        let (whole, rest) = self.x.as_chunks::<LANES>();
        let mut lanes = [self.x.first().copied().unwrap_or_default(); LANES];
        for x in whole {
            lanes.iter_mut().zip(x).for_each(|(lane, x)| *lane = best(*lane, *x));
        }
        lanes.into_iter().chain(rest.iter().copied()).reduce(best).unwrap_or_default()
    }
}

/// Returns the position in a row that is not empty.
fn position<T: Number>(which: Extremum, x: &[T], pace: &mut Pace) -> usize {
    pace.step(x.len());
    if x.len() <= LANES {
        return which.scan(x);
    }
    let mut best: Option<(usize, T)> = None;
    for (block, x) in x.chunks(BLOCK).enumerate() {
        let this = dispatch(Best { x, least: which.least });
        if best.is_none_or(|(_, best)| which.replaces(this, best)) {
            best = Some((block, this));
        }
    }
    let first = best.map_or(0, |(block, _)| block * BLOCK);
    first + x.chunks(BLOCK).nth(first / BLOCK).map_or(0, |x| which.scan(x))
}

/// Writes the position of the extremum of each row.
///
/// # Safety
///
/// `x` holds `rows * len` elements, and `out` has room for `rows` positions; `len` is not zero.
pub(crate) unsafe fn rows<T: Number>(which: Extremum, [rows, len]: [usize; 2], x: *const T, out: *mut i64) {
    let shared = Shared((out, x));
    walk::split(rows, len, GRAIN, |from, to| {
        let (out, x) = shared.get();
        let mut pace = Pace::new();
        for row in from..to {
            // SAFETY: the row is one of the operand's, and no other call writes its position.
            unsafe {
                let x = std::slice::from_raw_parts(x.add(row * len), len);
                out.add(row).write(position(which, x, &mut pace).cast_signed() as i64);
            }
        }
    });
}

/// Writes the positions of the extrema along the middle one of three dimensions.
///
/// # Safety
///
/// `x` holds `outer * len * inner` elements, and `out` has room for `outer * inner` positions; `len` is not zero.
pub(crate) unsafe fn columns<T: Number>(
    which: Extremum,
    [outer, len, inner]: [usize; 3],
    x: *const T,
    out: *mut i64,
) {
    let blocks = inner.div_ceil(COLUMNS);
    let shared = Shared((out, x));
    walk::split(outer * blocks, len.saturating_mul(COLUMNS), GRAIN, |from, to| {
        let (out, x) = shared.get();
        let mut pace = Pace::new();
        for at in from..to {
            let (o, first) = (at / blocks, at % blocks * COLUMNS);
            let width = COLUMNS.min(inner - first);
            let mut best = [(0i64, T::default()); COLUMNS];
            for l in 0..len {
                pace.step(width);
                // SAFETY: the columns are below `inner`.
                let line = unsafe { std::slice::from_raw_parts(x.add((o * len + l) * inner + first), width) };
                for (best, &x) in best.iter_mut().zip(line) {
                    if l == 0 || which.replaces(x, best.1) {
                        *best = (l.cast_signed() as i64, x);
                    }
                }
            }
            for (column, (position, _)) in best.into_iter().enumerate().take(width) {
                // SAFETY: there is room for each column, and no other call writes it.
                unsafe { out.add(o * inner + first + column).write(position) };
            }
        }
    });
}

#[cfg(test)]
mod tests {
    #![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::level::{at, levels};
    use crate::threads::as_if;

    /// Finds the position by looking at all pairs.
    fn defined(which: Extremum, x: &[f32]) -> usize {
        let beats = |a: f32, b: f32| (a.is_nan() && !b.is_nan()) || if which.least { a < b } else { a > b };
        let best = |&i: &usize| x.iter().all(|&other| !beats(other, x[i]));
        let mut all = (0..x.len()).filter(best);
        if which.last { all.next_back() } else { all.next() }.unwrap()
    }

    #[test]
    fn positions_are_those_of_the_extrema() {
        for [outer, len, inner] in
            [[1, 1, 1], [5, 3, 1], [3, 32, 1], [3, 33, 1], [2, 1000, 1], [2, 3, 5], [2, 7, 65], [1, 300, 2]]
        {
            for rare in [3, 10_000] {
                let number = |i: usize| match i * 7919 % 2003 {
                    n if n % rare == rare - 1 => f32::NAN,
                    n => (n % 41) as f32 - 20.0,
                };
                let x: Vec<f32> = (0..outer * len * inner).map(number).collect();
                for (least, last) in [(false, false), (false, true), (true, false), (true, true)] {
                    let which = Extremum { least, last };
                    for (level, threads) in levels().into_iter().flat_map(|level| [(level, 1), (level, 3)]) {
                        let mut out = vec![-1; outer * inner];
                        // SAFETY: the operand and the result have these extents.
                        at(level, || {
                            as_if(threads, || unsafe {
                                if inner == 1 {
                                    rows(which, [outer, len], x.as_ptr(), out.as_mut_ptr());
                                } else {
                                    columns(which, [outer, len, inner], x.as_ptr(), out.as_mut_ptr());
                                }
                            })
                        });
                        for (i, &got) in out.iter().enumerate() {
                            let (o, c) = (i / inner, i % inner);
                            let line: Vec<f32> = (0..len).map(|l| x[(o * len + l) * inner + c]).collect();
                            assert_eq!(got, defined(which, &line) as i64, "{which:?} {outer} {len} {inner}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn of_equal_integers_the_first_or_the_last_counts() {
        let x = [3i64, 7, 7, -1, -1, 7];
        for (least, last, want) in [(false, false, 1), (false, true, 5), (true, false, 3), (true, true, 4)] {
            let mut out = [-1];
            // SAFETY: there is one row, and room for one position.
            unsafe { rows(Extremum { least, last }, [1, 6], x.as_ptr(), out.as_mut_ptr()) };
            assert_eq!(out, [want]);
        }
    }
}
