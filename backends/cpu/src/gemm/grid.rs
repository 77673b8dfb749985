//! Divides the result of a product into rectangles, which threads compute without waiting for each other.

use super::Dims;
use std::iter;
use std::ops::Range;

/// The maximum number of rectangles per thread. There are several, so that a thread that starts late computes fewer.
const EACH: usize = 4;

/// The minimum number of multiplications per rectangle. A smaller rectangle is not worth the cost of sharing.
const LEAST: usize = 1 << 17;

/// The cost of reading an operand's element from the second-level cache, and of first copying the element. Units:
/// multiplications.
const READ: usize = 4;
const COPY: usize = 12;

/// A result that is divided into rectangles of nearly equal extents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grid {
    rows: Axis,
    columns: Axis,
}

/// The rows or the columns of a result, divided into parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Axis {
    extent: usize,
    /// The rows or columns of one tile. Parts end at multiples of it.
    step: usize,
    parts: usize,
}

impl Axis {
    /// Returns the number of tiles.
    fn tiles(&self) -> usize {
        self.extent.div_ceil(self.step.max(1)).max(1)
    }

    /// Returns the rows or columns of a part.
    fn range(&self, part: usize) -> Range<usize> {
        let edge = |part: usize| (self.tiles() * part / self.parts * self.step).min(self.extent);
        edge(part)..edge(part + 1)
    }

    /// Returns the length of the longest part.
    fn longest(&self) -> usize {
        (self.tiles().div_ceil(self.parts) * self.step).min(self.extent)
    }
}

impl Grid {
    /// Chooses rectangles for `threads` threads. `copies` is whether a rectangle copies its rows of the left operand,
    /// and whether it copies its columns of the right operand.
    pub(super) fn new(dims: Dims, threads: usize, steps: [usize; 2], copies: [bool; 2]) -> Grid {
        let Dims { m, k, n } = dims;
        let [high, wide] = steps;
        let rows = Axis { extent: m, step: high, parts: 1 };
        let columns = Axis { extent: n, step: wide, parts: 1 };
        let product = m.saturating_mul(k).saturating_mul(n);
        let most = if threads < 2 { 1 } else { (EACH * threads).min(product / LEAST) };
        // Not every large number of parts is tried, to save time.
        let parts = iter::successors(Some(1), |parts| Some(parts + 1 + parts / 8));
        let all = parts.take_while(|&parts| parts <= most.min(rows.tiles())).flat_map(|high| {
            let wide = most / high;
            [wide, wide / 2].map(|wide| Grid {
                rows: Axis { parts: high, ..rows },
                columns: Axis { parts: wide.clamp(1, columns.tiles()), ..columns },
            })
        });
        all.min_by_key(|grid| grid.time(k, threads, copies)).unwrap_or(Grid { rows, columns })
    }

    /// Cuts the columns further, so that a rectangle has about `most` elements or fewer.
    pub(super) fn at_most(mut self, most: usize) -> Grid {
        let (rows, columns) = (self.rows, &mut self.columns);
        let high = rows.extent.div_ceil(rows.parts).max(1);
        let wide = (most / high).clamp(1, columns.extent.max(1)).next_multiple_of(64);
        columns.parts = columns.parts.max(columns.extent.div_ceil(wide)).min(columns.tiles());
        self
    }

    /// Returns the number of rectangles.
    pub(super) fn len(&self) -> usize {
        self.rows.parts * self.columns.parts
    }

    /// Returns the rows and columns of a rectangle.
    pub(super) fn at(&self, i: usize) -> [Range<usize>; 2] {
        let parts = self.columns.parts;
        [self.rows.range(i / parts), self.columns.range(i % parts)]
    }

    /// Returns the rows and columns of all rectangles.
    pub(super) fn all(&self) -> impl Iterator<Item = [Range<usize>; 2]> {
        (0..self.len()).map(|i| self.at(i))
    }

    /// Estimates the time that a product of depth `k` takes, in multiplications.
    fn time(&self, k: usize, threads: usize, copies: [bool; 2]) -> usize {
        let (rows, columns) = (self.rows.longest(), self.columns.longest());
        let [left, right] = copies.map(|copies| if copies { COPY } else { READ });
        let read = left.saturating_mul(rows).saturating_add(right.saturating_mul(columns));
        let each = rows.saturating_mul(columns).saturating_add(read).saturating_mul(k);
        self.len().div_ceil(threads.max(1)).saturating_mul(each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every element is in one rectangle, and no rectangle cuts a tile.
    #[test]
    fn rectangles_cover_the_result_once() {
        for (m, n) in
            [(1, 1), (512, 49), (512, 196), (64, 3136), (7, 5), (13, 1000), (0, 4), (4, 0), (1000, 3)]
        {
            for threads in [1, 2, 3, 8, 64] {
                for (steps, copies) in [([12, 32], [false; 2]), ([6, 16], [true; 2]), ([1, 1], [false; 2])] {
                    for most in [usize::MAX, 1 << 12, 1] {
                        let grid = Grid::new(Dims { m, k: 512, n }, threads, steps, copies).at_most(most);
                        let mut seen = vec![0u8; m * n];
                        for i in 0..grid.len() {
                            let [rows, columns] = grid.at(i);
                            for (range, (step, extent)) in
                                [&rows, &columns].into_iter().zip(steps.into_iter().zip([m, n]))
                            {
                                assert!(range.start.is_multiple_of(step), "{grid:?}");
                                assert!(range.end.is_multiple_of(step) || range.end == extent, "{grid:?}");
                            }
                            for row in rows {
                                let row = seen.iter_mut().skip(row * n + columns.start);
                                row.take(columns.len()).for_each(|times| *times += 1);
                            }
                        }
                        assert!(seen.iter().all(|&times| times == 1), "{grid:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn threads_have_equal_shares_of_what_is_large_enough() {
        let grid = |m, k, n, threads| Grid::new(Dims { m, k, n }, threads, [1, 32], [false; 2]);
        for [m, k, n] in
            [[512, 512, 196], [512, 512, 49], [64, 64, 3136], [32, 32, 12544], [1024, 1024, 1024]]
        {
            let grid = grid(m, k, n, 2);
            assert!([2, 4, 6, 8].contains(&grid.len()), "{grid:?}");
            let sizes: Vec<usize> =
                (0..grid.len()).map(|i| grid.at(i).map(|range| range.len()).iter().product()).collect();
            assert!(
                sizes.iter().max() < sizes.iter().min().map(|least| 3 * least).as_ref(),
                "{grid:?} {sizes:?}"
            );
        }
        assert_eq!(grid(512, 512, 49, 1).len(), 1);
        assert_eq!(grid(20, 20, 20, 8).len(), 1, "not worth it");
    }
}
