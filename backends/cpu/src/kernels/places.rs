//! Offsets of the elements that indices select: along one dimension, or by tuples along several dimensions.

use super::dispatch::{VectorLoop, dispatch_by_length};
use crate::layout::{Dim, for_each_index, innermost};
use crate::pace::{Pace, STRETCH};

/// The maximum number of positions that are computed before the first of them is used. They stay in the first-level
/// cache.
const TOGETHER: usize = 512;

/// Indices of elements along a dimension. A negative index counts from the end.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Indices<'a> {
    Narrow(&'a [i32]),
    Wide(&'a [i64]),
}

/// Tuples of indices, one after another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tuples<'a> {
    pub(crate) indices: Indices<'a>,
    /// The dimensions that the indices of a tuple refer to, at least one.
    pub(crate) named: &'a [Dim<1>],
}

impl Tuples<'_> {
    /// Returns the first index that is out of range, and the extent of its dimension.
    #[cold]
    pub(crate) fn refused(&self) -> Option<(i64, usize)> {
        let extents = self.named.iter().map(|dim| dim.extent).cycle();
        let outside = |&(index, extent): &(i64, usize)| {
            let signed = extent as i64;
            index >= signed || index < -signed
        };
        match self.indices {
            Indices::Narrow(list) => list.iter().map(|&i| i.into()).zip(extents).find(outside),
            Indices::Wide(list) => list.iter().copied().zip(extents).find(outside),
        }
    }
}

/// Calls `each` with positions that the tuples select, in order and several per call, and with the number of elements
/// from each position on. There is one tuple for each index of `dims`. Its position is the offset of that index plus
/// the offset of the tuple's indices in the dimensions `named`. Each tuple selects `run` elements; long runs are passed
/// in parts.
///
/// Returns whether all indices are in range. No position is passed for an index that is out of range.
pub(crate) fn places(
    dims: &[Dim<1>],
    tuples: Tuples<'_>,
    run: usize,
    mut each: impl FnMut(&[usize], usize),
) -> bool {
    let (outer, line) = innermost(dims);
    let most = (STRETCH / run.max(1)).clamp(1, TOGETHER);
    let [across] = line.strides;
    let size = tuples.named.len();
    let mut at = [0; TOGETHER];
    let (mut filled, mut next, mut inside) = (0, 0, true);
    let mut pace = Pace::new();
    let mut give = |at: &[usize]| match *at {
        [first] if run > STRETCH => {
            for start in (0..run).step_by(STRETCH) {
                let part = STRETCH.min(run - start);
                pace.step(part);
                each(&[first.wrapping_add(start)], part);
            }
        }
        _ => {
            pace.step(at.len() * run);
            each(at, run);
        }
    };
    for_each_index(outer, |[first]| {
        let mut done = 0;
        while inside && done < line.extent {
            let count = (most - filled).min(line.extent - done);
            let room = at.get_mut(filled..filled + count).unwrap_or_default();
            let from = first + done.cast_signed() * across;
            let part = next * size..(next + count) * size;
            inside = match tuples.indices {
                Indices::Narrow(list) => row(room, list.get(part), tuples.named, from, across),
                Indices::Wide(list) => row(room, list.get(part), tuples.named, from, across),
            };
            (filled, next, done) = (filled + count, next + count, done + count);
            if inside && filled == most {
                give(at.get(..filled).unwrap_or_default());
                filled = 0;
            }
        }
    });
    if inside && filled > 0 {
        give(at.get(..filled).unwrap_or_default());
    }
    inside
}

/// Computes the positions of neighbouring tuples. Returns whether `indices` has all of these tuples and they are in
/// range.
#[inline]
fn row<I: Copy + Into<i64>>(
    at: &mut [usize],
    indices: Option<&[I]>,
    named: &[Dim<1>],
    from: isize,
    across: isize,
) -> bool {
    let Some(indices) = indices else { return false };
    let n = at.len();
    match *named {
        [a] => dispatch_by_length(n, TupleRow { at, tuples: chunks(indices), named: [a], from, across }),
        [a, b] => {
            dispatch_by_length(n, TupleRow { at, tuples: chunks(indices), named: [a, b], from, across })
        }
        [a, b, c] => {
            dispatch_by_length(n, TupleRow { at, tuples: chunks(indices), named: [a, b, c], from, across })
        }
        [a, b, c, d] => {
            dispatch_by_length(n, TupleRow { at, tuples: chunks(indices), named: [a, b, c, d], from, across })
        }
        _ => {
            let mut inside = !named.is_empty();
            let mut from = from;
            for (at, tuple) in at.iter_mut().zip(indices.chunks(named.len().max(1))) {
                inside &= position(at, tuple, named, from);
                from = from.wrapping_add(across);
            }
            inside
        }
    }
}

/// Returns the indices as tuples of `N`.
fn chunks<I, const N: usize>(indices: &[I]) -> &[[I; N]] {
    indices.as_chunks().0
}

/// Computes the position of one tuple. Returns whether its indices are in range.
#[inline(always)]
fn position<I: Copy + Into<i64>>(at: &mut usize, tuple: &[I], named: &[Dim<1>], from: isize) -> bool {
    let (mut inside, mut sum) = (true, from);
    for (&index, dim) in tuple.iter().zip(named) {
        let (index, extent): (i64, i64) = (index.into(), dim.extent as i64);
        let index = if index < 0 { index.wrapping_add(extent) } else { index };
        inside &= index.cast_unsigned() < extent.cast_unsigned();
        sum = sum.wrapping_add((index as isize).wrapping_mul(dim.strides[0]));
    }
    *at = sum.cast_unsigned();
    inside
}

/// A loop that computes the positions of neighbouring tuples of `N` indices.
struct TupleRow<'a, I, const N: usize> {
    at: &'a mut [usize],
    tuples: &'a [[I; N]],
    named: [Dim<1>; N],
    from: isize,
    across: isize,
}

impl<I: Copy + Into<i64>, const N: usize> VectorLoop for TupleRow<'_, I, N> {
    type Output = bool;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> bool {
        let mut inside = true;
        let mut from = self.from;
        for (at, tuple) in self.at.iter_mut().zip(self.tuples) {
            inside &= position(at, tuple, &self.named, from);
            from = from.wrapping_add(self.across);
        }
        inside
    }
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::level::{at, levels};

    fn dim(extent: usize, stride: isize) -> Dim<1> {
        Dim { extent, strides: [stride] }
    }

    fn collected(dims: &[Dim<1>], tuples: Tuples<'_>) -> Option<Vec<usize>> {
        let mut all = Vec::new();
        places(dims, tuples, 1, |at, _| all.extend_from_slice(at)).then_some(all)
    }

    #[test]
    fn positions_of_tuples_of_any_length_and_number() {
        let extents = [3, 5, 2, 7, 4];
        for size in 1..=5 {
            for [rows, cols] in [[1, 1], [2, 3], [1, 31], [3, 257], [700, 1], [2, 1100]] {
                let named: Vec<_> = (0..size).map(|i| dim(extents[i], [280, -56, 28, 4, 1][i])).collect();
                let index = |i: usize| {
                    let extent = extents[i % size];
                    ((i * 7919 + i / 3) % (2 * extent)).cast_signed() as i64 - extent as i64
                };
                let wide: Vec<i64> = (0..rows * cols * size).map(index).collect();
                let narrow: Vec<i32> = wide.iter().map(|&i| i as i32).collect();
                let dims = [dim(rows, 1000), dim(cols, -3)];
                let want: Vec<usize> = (0..rows * cols)
                    .map(|tuple| {
                        let of = |i: usize| {
                            let along = wide[tuple * size + i].rem_euclid(extents[i] as i64) as isize;
                            along * named[i].strides[0]
                        };
                        let first = (tuple / cols).cast_signed() * 1000 - (tuple % cols).cast_signed() * 3;
                        (first + (0..size).map(of).sum::<isize>()).cast_unsigned()
                    })
                    .collect();
                for level in levels() {
                    for indices in [Indices::Wide(&wide), Indices::Narrow(&narrow)] {
                        let got = at(level, || collected(&dims, Tuples { indices, named: &named }));
                        assert_eq!(got.as_ref(), Some(&want), "{level:?} {size} {rows} {cols}");
                    }
                }
            }
        }
    }

    #[test]
    fn an_index_out_of_range_gives_no_position() {
        let named = [dim(3, 1), dim(5, 10)];
        for (wrong, place) in [(3, 0), (-4, 40), (5, 1), (-6, 1299), (i64::MIN, 600), (i64::MAX, 601)] {
            let mut list = vec![-1i64; 1300];
            list[place] = wrong;
            let tuples = Tuples { indices: Indices::Wide(&list), named: &named };
            for level in levels() {
                let mut seen = 0;
                let inside = at(level, || places(&[dim(650, 0)], tuples, 1, |at, _| seen += at.len()));
                assert!(!inside && seen <= place / 2, "{level:?} {wrong}");
            }
            assert_eq!(tuples.refused(), Some((wrong, named[place % 2].extent)));
        }
        // Each index of a dimension without elements is out of range.
        let tuples = Tuples { indices: Indices::Narrow(&[0]), named: &[dim(0, 1)] };
        assert_eq!((collected(&[], tuples), tuples.refused()), (None, Some((0, 0))));
    }

    #[test]
    fn runs_come_whole_or_in_parts_that_follow_each_other() {
        for run in [3, STRETCH / 2, STRETCH, 2 * STRETCH + 5] {
            let tuples = Tuples { indices: Indices::Wide(&[2, 0, -1]), named: &[dim(4, run.cast_signed())] };
            let mut parts = Vec::new();
            assert!(places(&[dim(3, 0)], tuples, run, |at, part| {
                parts.extend(at.iter().map(|&at| (at, at + part)));
                assert!(at.len() * part <= STRETCH);
            }));
            let mut all = parts.iter().copied();
            for index in [2, 0, 3] {
                let mut next = index * run;
                while next < (index + 1) * run {
                    let (from, to) = all.next().unwrap_or_default();
                    assert_eq!(from, next, "{run}");
                    next = to;
                }
                assert_eq!(next, (index + 1) * run);
            }
            assert_eq!(all.next(), None);
        }
    }

    #[test]
    fn too_few_indices_give_no_positions() {
        let tuples = Tuples { indices: Indices::Wide(&[0; 5]), named: &[dim(3, 1)] };
        assert_eq!(collected(&[dim(2, 1), dim(3, 1)], tuples), None);
    }
}
