//! Squared distances between the rows of two matrices.
//!
//! Columns of the second matrix are brought side by side in blocks of rows, so that each vector holds as many distances.
//! Sums of a few dozen columns are added in `f64`.

use super::dispatch::{VectorLoop, dispatch};
use super::number::Float;
use super::{Shared, walk};
use crate::pace::Pace;

/// The number of rows of the second matrix whose distances are computed side by side.
pub(crate) const WIDTH: usize = 32;
/// The number of rows of the first matrix that share what is loaded of the second.
const HEIGHT: usize = 4;
/// The number of columns whose sum is kept in the element type.
const DEPTH: usize = 64;
/// The number of products below which a second thread costs more than it saves.
const GRAIN: usize = 1 << 15;

/// Brings rows of the second matrix side by side: for each block of `WIDTH` rows, one column after another. Missing rows
/// of the last block are zero.
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

/// The distances of a few rows to a block.
struct Tile<'a, T> {
    rows: [&'a [T]; HEIGHT],
    block: &'a [T],
}

impl<T: Float> VectorLoop for Tile<'_, T> {
    type Output = [[T; WIDTH]; HEIGHT];

    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "arrays of these extents")]
    fn run<const FMA: bool>(self) -> [[T; WIDTH]; HEIGHT] {
        let (sides, _) = self.block.as_chunks::<WIDTH>();
        if sides.len() <= DEPTH {
            return sums(self.rows, sides);
        }
        let mut totals = [[0f64; WIDTH]; HEIGHT];
        let mut first = 0;
        for sides in sides.chunks(DEPTH) {
            let part = sums(self.rows.map(|row| row.get(first..).unwrap_or_default()), sides);
            for i in 0..HEIGHT {
                for j in 0..WIDTH {
                    totals[i][j] += part[i][j].to_f64();
                }
            }
            first += DEPTH;
        }
        totals.map(|row| row.map(T::from_f64))
    }
}

/// Sums the squared differences of a few columns.
#[inline(always)]
#[expect(clippy::indexing_slicing, reason = "arrays of these extents")]
fn sums<T: Float>(rows: [&[T]; HEIGHT], sides: &[[T; WIDTH]]) -> [[T; WIDTH]; HEIGHT] {
    let mut sums = [[T::default(); WIDTH]; HEIGHT];
    let [a, b, c, d] = rows;
    for ((((side, &a), &b), &c), &d) in sides.iter().zip(a).zip(b).zip(c).zip(d) {
        for (sums, x) in sums.iter_mut().zip([a, b, c, d]) {
            for j in 0..WIDTH {
                let apart = x.sub(side[j]);
                sums[j] = sums[j].add(apart.mul(apart));
            }
        }
    }
    sums
}

/// Writes the distances of each row of `a: [n, columns]` to each of `m` rows, which are packed.
///
/// # Safety
///
/// `a` and `packed` have these extents, `columns` is not zero, and `out` has room for `n * m` elements.
pub(crate) unsafe fn run<T: Float>(
    [n, m, columns]: [usize; 3],
    out: *mut T,
    a: &[T],
    packed: &[T],
) {
    let shared = Shared(out);
    let tiles = n.div_ceil(HEIGHT);
    walk::split(tiles, m.saturating_mul(columns).saturating_mul(HEIGHT), GRAIN, |from, to| {
        let out = shared.get();
        let mut pace = Pace::new();
        for (at, block) in packed.chunks_exact(columns * WIDTH).enumerate() {
            let width = WIDTH.min(m - at * WIDTH);
            for tile in from..to {
                pace.step(HEIGHT * columns * WIDTH / 8);
                let first = tile * HEIGHT;
                let row = |i: usize| a.chunks_exact(columns).nth((first + i).min(n - 1)).unwrap_or_default();
                let distances = dispatch(Tile { rows: [row(0), row(1), row(2), row(3)], block });
                for (i, distances) in distances.iter().enumerate().take(n - first) {
                    // SAFETY: the row and the columns are in the result, and no other call writes them.
                    unsafe {
                        let out = out.add((first + i) * m + at * WIDTH);
                        std::ptr::copy_nonoverlapping(distances.as_ptr(), out, width);
                    }
                }
            }
        }
    });
}
