//! How a product is cut into rectangles of its result, which threads compute without waiting for each other.

use super::Dims;
use std::ops::Range;

/// The rectangles for each thread: a thread that comes late takes fewer of them.
const EACH: usize = 4;

/// The number of multiplications below which a rectangle is not worth being handed out.
const LEAST: usize = 1 << 17;

/// How many multiplications take as long as reading an element of an operand from the second-level cache, and as copying it
/// before.
const READ: usize = 4;
const COPY: usize = 12;

/// A result in rectangles of nearly equal extents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grid {
    extents: [usize; 2],
    /// The rows and columns of a tile, which are not cut.
    steps: [usize; 2],
    /// How many rectangles there are below each other and side by side.
    parts: [usize; 2],
}

impl Grid {
    /// Chooses rectangles for so many threads. `copies` tells whether each copies its rows of the left operand, and its columns of
    /// the right one.
    pub(super) fn new(dims: Dims, threads: usize, steps: [usize; 2], copies: [bool; 2]) -> Grid {
        let Dims { m, k, n } = dims;
        let whole = Grid { extents: [m, n], steps, parts: [1, 1] };
        let product = m.saturating_mul(k).saturating_mul(n);
        let most = if threads < 2 { 1 } else { (EACH * threads).min(product / LEAST) };
        let [high, wide] = [whole.tiles(0), whole.tiles(1)];
        let all = (1..=most.min(high)).flat_map(|rows| {
            (1..=(most / rows).min(wide)).map(move |columns| Grid { parts: [rows, columns], ..whole })
        });
        all.min_by_key(|grid| grid.time(k, threads, copies)).unwrap_or(whole)
    }

    /// Cuts the columns further, so that a rectangle has about `most` elements or fewer.
    pub(super) fn at_most(mut self, most: usize) -> Grid {
        let ([m, n], [rows, columns]) = (self.extents, self.parts);
        let wide = (most / m.div_ceil(rows).max(1)).clamp(1, n.max(1)).next_multiple_of(64);
        self.parts = [rows, columns.max(n.div_ceil(wide)).min(self.tiles(1))];
        self
    }

    /// Returns the number of rectangles.
    pub(super) fn len(&self) -> usize {
        let [rows, columns] = self.parts;
        rows * columns
    }

    /// Returns the rows and columns of a rectangle.
    pub(super) fn at(&self, i: usize) -> [Range<usize>; 2] {
        let [_, columns] = self.parts;
        [self.range(0, i / columns), self.range(1, i % columns)]
    }

    /// Returns the rows and columns of all rectangles.
    pub(super) fn all(&self) -> impl Iterator<Item = [Range<usize>; 2]> {
        (0..self.len()).map(|i| self.at(i))
    }

    /// Returns the number of tiles along an axis.
    fn tiles(&self, axis: usize) -> usize {
        self.extents[axis].div_ceil(self.steps[axis].max(1)).max(1)
    }

    fn range(&self, axis: usize, part: usize) -> Range<usize> {
        let edge = |part: usize| {
            (self.tiles(axis) * part / self.parts[axis] * self.steps[axis]).min(self.extents[axis])
        };
        edge(part)..edge(part + 1)
    }

    /// Estimates the time that a product of depth `k` takes, in multiplications.
    fn time(&self, k: usize, threads: usize, copies: [bool; 2]) -> usize {
        let extent = |axis: usize| {
            (self.tiles(axis).div_ceil(self.parts[axis]) * self.steps[axis]).min(self.extents[axis])
        };
        let [rows, columns] = [0, 1].map(extent);
        let [left, right] = copies.map(|copies| if copies { COPY } else { READ });
        let each =
            (rows * columns).saturating_add(left * rows).saturating_add(right * columns).saturating_mul(k);
        self.len().div_ceil(threads.max(1)).saturating_mul(each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every element is in one rectangle, none of which cuts a tile.
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
                                columns.clone().for_each(|column| seen[row * n + column] += 1);
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
