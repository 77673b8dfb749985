//! Squared distances between the rows of two matrices.
//!
//! Rows of the second matrix are packed side by side in blocks, so that each vector has several distances. The squares
//! of a few dozen columns are summed in the element type, and these sums are added in `f64`.

use super::dispatch::{VectorLoop, dispatch};
use super::number::Float;
use super::{Shared, walk};
use crate::pace::Pace;

/// The number of rows of the second matrix whose distances are computed together.
pub(crate) const WIDTH: usize = 16;
/// The number of rows of the first matrix that share each load of the second matrix.
const HEIGHT: usize = 4;
/// The number of columns whose squares are summed in the element type.
const DEPTH: usize = 64;
/// The number of multiplications below which a second thread costs more than it saves.
const GRAIN: usize = 1 << 15;

/// Packs rows of the second matrix in blocks of `WIDTH` rows. A block has one column after another. Missing rows of the
/// last block are zero.
pub(crate) fn pack<T: Float>(packed: &mut [T], b: &[T], columns: usize) {
    for (block, rows) in packed.chunks_exact_mut(columns * WIDTH).zip(b.chunks(columns * WIDTH)) {
        for (lane, row) in rows.chunks_exact(columns).enumerate() {
            for (side, &x) in block.chunks_exact_mut(WIDTH).zip(row) {
                if let Some(slot) = side.get_mut(lane) {
                    *slot = x;
                }
            }
        }
    }
}

/// A loop that computes the distances of some rows to a block.
struct DistanceBlock<'a, T> {
    /// The rows, one after another.
    a: &'a [T],
    columns: usize,
    block: &'a [T],
    /// The first element of the result, the stride of its rows, and the number of columns to write.
    out: *mut T,
    row: usize,
    width: usize,
}

impl<T: Float> VectorLoop for DistanceBlock<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let (sides, _) = self.block.as_chunks::<WIDTH>();
        let mut pace = Pace::new();
        for (tile, rows) in self.a.chunks(HEIGHT * self.columns).enumerate() {
            pace.step(rows.len() * WIDTH / 4);
            let count = rows.len() / self.columns;
            let mut each = rows.chunks_exact(self.columns);
            let first = each.next().unwrap_or_default();
            // Missing rows at the end repeat the first row, and their results are not written.
            let mut next = || each.next().unwrap_or(first);
            let distances = whole([first, next(), next(), next()], sides);
            for (i, distances) in distances.iter().enumerate().take(count) {
                // SAFETY: only `run` creates this value; the row and the columns are in the result, and no other call
                // writes them.
                unsafe {
                    let out = self.out.add((tile * HEIGHT + i) * self.row);
                    if self.width == WIDTH {
                        out.cast::<[T; WIDTH]>().write_unaligned(*distances);
                    } else {
                        std::ptr::copy_nonoverlapping(distances.as_ptr(), out, self.width);
                    }
                }
            }
        }
    }
}

/// Sums the squared differences over all columns.
#[inline(always)]
fn whole<T: Float>(rows: [&[T]; HEIGHT], sides: &[[T; WIDTH]]) -> [[T; WIDTH]; HEIGHT] {
    if sides.len() <= DEPTH {
        return sums(rows, sides);
    }
    let mut totals = [[0f64; WIDTH]; HEIGHT];
    for (part, sides) in sides.chunks(DEPTH).enumerate() {
        let sums = sums(rows.map(|row| row.get(part * DEPTH..).unwrap_or_default()), sides);
        for (totals, sums) in totals.iter_mut().zip(sums) {
            totals.iter_mut().zip(sums).for_each(|(total, sum)| *total += sum.to_f64());
        }
    }
    totals.map(|row| row.map(T::from_f64))
}

/// Sums the squared differences over a few columns.
#[inline(always)]
fn sums<T: Float>(rows: [&[T]; HEIGHT], sides: &[[T; WIDTH]]) -> [[T; WIDTH]; HEIGHT] {
    let [mut s0, mut s1, mut s2, mut s3] = [[T::default(); WIDTH]; HEIGHT];
    let [r0, r1, r2, r3] = rows;
    for ((((side, &x0), &x1), &x2), &x3) in sides.iter().zip(r0).zip(r1).zip(r2).zip(r3) {
        s0 = plus(&s0, side, x0);
        s1 = plus(&s1, side, x1);
        s2 = plus(&s2, side, x2);
        s3 = plus(&s3, side, x3);
    }
    [s0, s1, s2, s3]
}

/// Adds the squared differences between `x` and `side` to the sums.
///
/// Returns a new array because the compiler would not keep a modified array in registers.
#[inline(always)]
#[expect(clippy::indexing_slicing, reason = "arrays of `WIDTH` elements")]
fn plus<T: Float>(sums: &[T; WIDTH], side: &[T; WIDTH], x: T) -> [T; WIDTH] {
    std::array::from_fn(|j| {
        let apart = x.sub(side[j]);
        sums[j].add(apart.mul(apart))
    })
}

/// Writes the distances of each row of `a: [n, columns]` to each of the `m` packed rows.
///
/// # Safety
///
/// `a` and `packed` have these extents, `columns` is not zero, and `out` has room for `n * m` elements.
pub(crate) unsafe fn run<T: Float>([n, m, columns]: [usize; 3], out: *mut T, a: &[T], packed: &[T]) {
    let shared = Shared(out);
    walk::split(n, m.saturating_mul(columns), GRAIN, |from, to| {
        let Some(a) = a.get(from * columns..to * columns) else { return };
        for (at, block) in packed.chunks_exact(columns * WIDTH).enumerate() {
            let width = WIDTH.min(m - at * WIDTH);
            let out = shared.get().wrapping_add(from * m + at * WIDTH);
            dispatch(DistanceBlock { a, columns, block, out, row: m, width });
        }
    });
}

#[cfg(test)]
mod tests {
    #![expect(clippy::indexing_slicing, reason = "tests")]

    use super::*;
    use crate::level::{at, levels};
    use crate::threads::as_if;

    #[test]
    fn distances_are_sums_of_squares() {
        for [n, m, columns] in [[1, 1, 1], [3, 17, 5], [4, 16, 64], [9, 33, 65], [6, 40, 200]] {
            let number = |i: usize| ((i * 7919 + 13) % 2003) as f64 / 400.6 - 2.5;
            let a: Vec<f32> = (0..n * columns).map(|i| number(i) as f32).collect();
            let b: Vec<f32> = (0..m * columns).map(|i| number(3 * i + 5) as f32).collect();
            let mut packed = vec![0f32; m.div_ceil(WIDTH) * WIDTH * columns];
            pack(&mut packed, &b, columns);
            for (level, threads) in levels().into_iter().flat_map(|level| [(level, 1), (level, 3)]) {
                let mut out = vec![f32::NAN; n * m];
                // SAFETY: the operands and the result have these extents.
                at(level, || {
                    as_if(threads, || unsafe { run([n, m, columns], out.as_mut_ptr(), &a, &packed) })
                });
                for (i, a) in a.chunks(columns).enumerate() {
                    for (j, b) in b.chunks(columns).enumerate() {
                        let want: f64 =
                            a.iter().zip(b).map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum();
                        let got = f64::from(out[i * m + j]);
                        assert!(
                            (got - want).abs() <= 1e-5 * want,
                            "{level:?} {n} {m} {columns}: {got} {want}"
                        );
                    }
                }
            }
        }
    }
}
