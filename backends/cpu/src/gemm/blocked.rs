//! Large matrix products. Each thread computes rectangles of the result, and packs the columns of the right operand
//! that its rectangle needs. If there are too few columns for that, the threads pack the right operand together, block
//! by block, and all use the packed blocks.
//!
//! Two kinds of operands are not packed, because tiles can read them efficiently in place: a left operand with
//! contiguous rows, whose elements are read one at a time, and a small right operand with contiguous rows.

use std::cmp;
use std::ops::Range;

use super::end::Around;
use super::grid::Grid;
use super::pack::{Slot, panel, scratch};
use super::phases::share;
use super::tile::{Args, Compute, TileKernels};
use super::{Dims, Number, Strided};
use crate::caches::second_level;
use crate::kernels::Shared;
use crate::kernels::half::widen_all;
use crate::level::level;
use crate::{pace, threads};

/// The maximum number of rows of a right panel. It is large because each further pass reads and writes the result
/// again, and the rows of the result tend to compete for the same lines of the first-level cache.
pub(super) const DEPTH: usize = 1024;
/// The maximum number of rows of a block of the left operand, and the share of the second-level cache that a block of
/// [`DEPTH`] columns may use, as numerator and denominator. The rest of the cache is for the panels, so that they do
/// not evict the block.
const ROWS: usize = 96;
const PART: [usize; 2] = [3, 8];
/// The number of columns of the right operand that are packed in one pass. With `DEPTH` rows, they have about the size
/// of a second-level cache.
const COLUMNS: usize = 256;
/// The maximum number of elements of a right operand with contiguous rows that tiles read in place.
pub(super) const UNPACKED: usize = 256 * 512;
/// The number of multiplications below which a second thread costs more than it saves.
const GRAIN: usize = 1 << 19;

/// Returns the maximum number of rows of the left operand that stay in the second-level cache.
fn rows<T>() -> usize {
    let [part, whole] = PART;
    (second_level() / whole * part / (DEPTH * size_of::<T>()).max(1)).clamp(ROWS / 4, ROWS)
}

/// The associativity of a first-level cache (lines per set), and its number of sets.
const WAYS: usize = 8;
const PLACES: usize = 64;
/// The number of cache lines of a row in a panel.
const LINES: usize = 4;

/// Returns whether the rows of a panel, which start `distance` bytes apart, stay in the first-level cache while tiles
/// read them.
fn stay(rows: usize, distance: usize) -> bool {
    let lines = distance / 64;
    // The number of different cache sets that rows begin in. Rows that are `begins` apart begin in the same set.
    let begins = PLACES >> cmp::min(lines.trailing_zeros(), PLACES.ilog2());
    rows <= cmp::min(begins, PLACES / LINES) * WAYS
}

/// The right operand of a large product.
pub(crate) enum Wide<T: Number> {
    /// A matrix, which is packed unless tiles read it in place.
    Strided(Strided<T>),
    /// Panels in the layout that [`packed`] reads. The last panel has elements for its full width.
    Panels(*const T::Sum),
}

impl<T: Number> Clone for Wide<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Number> Copy for Wide<T> {}

impl<T: Number> Wide<T> {
    /// Returns whether tiles read the operand in place.
    fn in_place(&self, k: usize, n: usize) -> bool {
        // If `T` is as wide as the type of its sums, both are the same type.
        let same = size_of::<T>() == size_of::<T::Sum>();
        match self {
            Wide::Strided(b) => {
                let small = k.saturating_mul(n) <= UNPACKED;
                same && b.col == 1 && (small || stay(k, b.row.unsigned_abs() * size_of::<T>()))
            }
            Wide::Panels(_) => true,
        }
    }
}

/// A large product. The result has the type of the sums.
pub(crate) struct Large<'a, T: Number> {
    pub(crate) kernels: &'a TileKernels<T::Sum>,
    pub(crate) dims: Dims,
    pub(crate) c: *mut T::Sum,
    pub(crate) c_row: usize,
    pub(crate) a: Strided<T>,
    pub(crate) b: Wide<T>,
    pub(crate) around: Around<T::Sum>,
}

impl<T: Number> Clone for Large<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Number> Copy for Large<'_, T> {}

impl<T: Number> Large<'_, T>
where
    T::Sum: Compute,
{
    /// Computes the product and applies the steps in `around`.
    ///
    /// # Safety
    ///
    /// Same as for [`gemm`](super::gemm); `around.plus` is null or points to `m` elements. Panels have `k` rows and `n`
    /// columns.
    pub(crate) unsafe fn compute(&self) {
        // SAFETY: this function has the same contract.
        unsafe { self.compute_parts(usize::MAX, &|_| ()) }
    }

    /// Computes the product as [`compute`](Self::compute) does, in rectangles of about `most` elements or fewer. After
    /// each rectangle, its thread calls `done` with the rectangle's rows and columns.
    ///
    /// # Safety
    ///
    /// Same as for [`compute`](Self::compute).
    pub(crate) unsafe fn compute_parts(&self, most: usize, done: &(dyn Fn([Range<usize>; 2]) + Sync)) {
        let Dims { m, k, n } = self.dims;
        let TileKernels { lanes, large, .. } = *self.kernels;
        let one = Grid::new(self.dims, 1, [m, lanes], [false; 2]).at_most(most);
        let [_, columns] = one.at(0);
        let in_place = self.b.in_place(k, columns.len());
        let packs = !in_place;
        let threads = (m.saturating_mul(n).saturating_mul(k) / GRAIN).min(threads::count()).max(1);
        // If columns are packed, the rows are not cut: rectangles below each other would pack the same columns again.
        let steps = match self.b {
            Wide::Strided(_) if in_place => [1, 2 * lanes],
            Wide::Strided(_) => [m, large * lanes],
            Wide::Panels(_) => [1, large * lanes],
        };
        let grid = Grid::new(self.dims, threads, steps, [is_packed(self.a), packs]).at_most(most);
        let together = packs && grid.len() < 2 * threads;
        let (grid, each) = if together { (one, threads) } else { (grid, 1) };
        let shared = Shared(*self);
        share(
            if together { 1 } else { threads },
            0,
            |_| (),
            grid.len(),
            |i| {
                let at = grid.at(i);
                // SAFETY: this function's contract. No other call writes the rectangle.
                unsafe { shared.get().part(&at).compute_on(each, in_place) };
                done(at);
            },
        );
    }

    /// Returns the part of the product that is in a rectangle. The rectangle begins at the edge of a panel.
    ///
    /// # Safety
    ///
    /// The rectangle is in the result.
    unsafe fn part(&self, [rows, columns]: &[Range<usize>; 2]) -> Self {
        let (top, left) = (rows.start, columns.start);
        // SAFETY: this function's contract.
        unsafe {
            Large {
                dims: Dims { m: rows.len(), k: self.dims.k, n: columns.len() },
                c: self.c.add(top * self.c_row + left),
                a: self.a.at_row(top),
                b: match self.b {
                    Wide::Strided(b) => {
                        Wide::Strided(Strided { ptr: b.ptr.offset(left.cast_signed() * b.col), ..b })
                    }
                    Wide::Panels(panels) => Wide::Panels(panels.add(left * self.dims.k)),
                },
                around: self.around.at_row(top),
                ..*self
            }
        }
    }

    /// Computes the product on `threads` threads, which pack the right operand together unless it is read in place.
    ///
    /// # Safety
    ///
    /// Same as for [`compute`](Self::compute).
    unsafe fn compute_on(&self, threads: usize, in_place: bool) {
        let Large { kernels, dims: Dims { m, k, n }, c, c_row, a, b, around } = *self;
        let around = Shared(around);
        let width = kernels.large * kernels.lanes;
        for left in (0..n).step_by(COLUMNS) {
            let columns = COLUMNS.min(n - left);
            let panels = columns.div_ceil(width);
            // All passes have nearly the same depth.
            let passes = k.div_ceil(DEPTH);
            for pass in 0..passes {
                let (from, end) = (k * pass / passes, k * (pass + 1) / passes);
                let depth = end - from;
                // Blocks that threads share have few rows and nearly equal heights, so that no thread waits long for
                // the last block. Otherwise a block consists of whole slices.
                let most = rows::<T::Sum>();
                let (most, step) =
                    if threads > 1 { (most / 2, 1) } else { (most, kernels.wide.len().max(1)) };
                let blocks = m.div_ceil(most);
                let edge = |block: usize| m.min(m.div_ceil(step) * block / blocks * step);
                // If there are few blocks, their panels are also divided into groups, so that all threads have work.
                let groups = if threads > 1 { (2 * threads).div_ceil(blocks).min(panels) } else { 1 };
                scratch(Slot::Right, |right| {
                    let room = if in_place { 0 } else { panels };
                    let right = Shared(right.room::<T::Sum>(room * width * depth));
                    let operands = Shared((a, b, c));
                    let pack = |j: usize| {
                        let (_, Wide::Strided(b), _) = operands.get() else { return };
                        let first = left + j * width;
                        // SAFETY: the panel's columns are in `b`, and each panel has its own memory.
                        unsafe {
                            let from = b.ptr.offset(from.cast_signed() * b.row + first.cast_signed() * b.col);
                            let x = Strided { ptr: from, ..b };
                            panel(depth, width.min(n - first), width, x, right.get().add(j * width * depth));
                        }
                    };
                    let multiply = |i: usize| {
                        let (a, b, c) = operands.get();
                        let (block, group) = (i / groups, i % groups);
                        let (top, bottom) = (edge(block), edge(block + 1));
                        let (panel, last) = (panels * group / groups, panels * (group + 1) / groups);
                        let first = panel * width;
                        let block = Block {
                            kernels,
                            rows: bottom - top,
                            depth,
                            columns: columns.min(last * width) - first,
                            accumulate: from > 0,
                            around: around.get().pass(pass == 0, pass + 1 == passes).at_row(top),
                        };
                        // SAFETY: the block's rows and columns are in `a`, `b` and `c`, and no other block writes them.
                        unsafe {
                            let x = Strided {
                                ptr: a.ptr.offset(top.cast_signed() * a.row + from.cast_signed() * a.col),
                                ..a
                            };
                            let right = match b {
                                Wide::Strided(b) if in_place => {
                                    let from = b.ptr.offset(from.cast_signed() * b.row).add(left + first);
                                    Right {
                                        ptr: from.cast::<T::Sum>(),
                                        row: b.row,
                                        width,
                                        panel: width,
                                        filled: false,
                                    }
                                }
                                Wide::Strided(_) => {
                                    let ptr = right.get().add(panel * width * depth).cast_const();
                                    Right {
                                        ptr,
                                        row: width.cast_signed(),
                                        width,
                                        panel: width * depth,
                                        filled: true,
                                    }
                                }
                                Wide::Panels(panels) => {
                                    // `left` is the first column of a panel, because `COLUMNS` is a multiple of their width.
                                    let ptr = panels.add((left + first) * k + from * width);
                                    Right {
                                        ptr,
                                        row: width.cast_signed(),
                                        width,
                                        panel: width * k,
                                        filled: true,
                                    }
                                }
                            };
                            block.compute(x, right, c.add(top * c_row + left + first), c_row);
                        }
                    };
                    share(threads, room, pack, blocks * groups, multiply);
                });
            }
        }
    }
}

/// Returns the width of the panels that [`packed`] reads, in columns.
pub(crate) fn panel_width<T: Compute>() -> usize {
    let kernels = T::kernels(level());
    kernels.large * kernels.lanes
}

/// Computes the product with a right operand that is stored in panels of [`panel_width`] columns. Each panel has `k`
/// contiguous rows. Padding elements of the last panel are not read.
///
/// If `accumulate`, the product is added to `c`. The steps in `around` are applied.
///
/// # Safety
///
/// Same as for [`gemm`](super::gemm); `c` is initialised if `accumulate`; `around.plus` is null or points to `m`
/// elements.
pub(crate) unsafe fn packed<T: Compute>(
    Dims { m, k, n }: Dims,
    c: *mut T,
    c_row: usize,
    a: Strided<T>,
    panels: *const T,
    around: Around<T>,
    accumulate: bool,
) {
    let kernels = T::kernels(level());
    let width = panel_width::<T>();
    let blocks = m.div_ceil(rows::<T>());
    for i in 0..blocks {
        pace::look();
        let (top, bottom) = (m * i / blocks, m * (i + 1) / blocks);
        let around = around.at_row(top);
        let block = Block { kernels, rows: bottom - top, depth: k, columns: n, accumulate, around };
        let right = Right { ptr: panels, row: width.cast_signed(), width, panel: width * k, filled: false };
        // SAFETY: this function has the same contract, for these rows.
        unsafe { block.compute(a.at_row(top), right, c.add(top * c_row), c_row) };
    }
}

/// The maximum size in bytes of a right operand that stays in the first-level cache while tiles read all of it several times.
const SMALL: usize = 1 << 14;

/// The number of elements between widened rows.
const PADDING: usize = 16;

/// Returns whether blocks pack their rows of the left operand. Tiles read it in place only if its rows are contiguous
/// and its elements have the type of the sums.
fn is_packed<T: Number>(a: Strided<T>) -> bool {
    a.col != 1 || size_of::<T>() != size_of::<T::Sum>()
}

/// Returns the number of parts that `rows` rows are divided into, if a part has at most `most` rows.
#[inline(always)]
fn parts_of(rows: usize, most: usize) -> usize {
    // Avoids the division where possible: it takes as long as a few rows of a tile, and most products with few rows
    // have one part.
    if rows <= most { 1 } else { rows.div_ceil(most) }
}

/// Returns the first row of a part. The parts have nearly equal heights.
#[inline(always)]
fn edge(rows: usize, part: usize, parts: usize) -> usize {
    match part {
        0 => 0,
        part if part == parts => rows,
        part => rows * part / parts,
    }
}

/// The right operand in the layout that tiles read. Distances are in elements.
#[derive(Clone, Copy)]
pub(super) struct Right<T> {
    pub(super) ptr: *const T,
    /// The distance from one row to the next.
    pub(super) row: isize,
    /// The number of columns of a panel.
    pub(super) width: usize,
    /// The distance from one panel to the next.
    pub(super) panel: usize,
    /// Whether the last panel has elements for its full width.
    pub(super) filled: bool,
}

/// The product of some rows of the left operand with the right operand.
pub(super) struct Block<'a, T: 'static> {
    pub(super) kernels: &'a TileKernels<T>,
    pub(super) rows: usize,
    pub(super) depth: usize,
    pub(super) columns: usize,
    pub(super) accumulate: bool,
    /// The steps around the product.
    pub(super) around: Around<T>,
}

impl<T: Compute> Block<'_, T> {
    /// Returns the number of slices into which the rows are divided. Slices have nearly equal heights, so that each is
    /// high enough to hide the latency of its sums.
    fn slices(&self) -> usize {
        parts_of(self.rows, self.kernels.wide.len().max(1))
    }

    /// Returns the first row of a slice.
    fn edge(&self, slice: usize) -> usize {
        edge(self.rows, slice, self.slices())
    }

    /// # Safety
    ///
    /// `a` covers the block's rows and depth, `right` its columns, and `c` its rows and columns.
    pub(super) unsafe fn compute<S: Number<Sum = T>>(
        &self,
        a: Strided<S>,
        right: Right<T>,
        c: *mut T,
        c_row: usize,
    ) {
        if !is_packed(a) {
            // SAFETY: this function has the same contract. If `T` is as wide as the type of its sums, both are the same
            // type.
            return unsafe {
                let left = |slice| Strided { ptr: a.at_row(self.edge(slice)).ptr.cast(), row: a.row, col: 1 };
                self.sweep(left, right, c, c_row)
            };
        }
        if a.col == 1 {
            // The rows are widened. They are a little longer, because rows whose distance is a power of two evict each other
            // from the first-level cache.
            let row = self.depth + PADDING;
            return scratch(Slot::Left, |room| {
                let room = room.room::<T>(self.rows * row);
                for i in 0..self.rows {
                    // SAFETY: the row is in `a`, and there is room for it.
                    unsafe { widen_all::<S>(room.add(i * row), a.at_row(i).ptr, self.depth) };
                }
                let left = |slice| {
                    let ptr = room.wrapping_add(self.edge(slice) * row).cast_const();
                    Strided { ptr, row: row.cast_signed(), col: 1 }
                };
                // SAFETY: the rows were widened above.
                unsafe { self.sweep(left, right, c, c_row) }
            });
        }
        let height = self.kernels.wide.len();
        scratch(Slot::Left, |room| {
            let room = room.room::<T>(self.slices() * height * self.depth);
            for slice in 0..self.slices() {
                let (top, end) = (self.edge(slice), self.edge(slice + 1));
                // SAFETY: the rows are in `a`, and each panel has its own memory.
                unsafe {
                    let to = room.add(slice * height * self.depth);
                    panel(self.depth, end - top, height, a.at_row(top).transposed(), to);
                }
            }
            let left = |slice| Strided {
                ptr: room.wrapping_add(slice * height * self.depth).cast_const(),
                row: 1,
                col: height.cast_signed(),
            };
            // SAFETY: the panels were packed above.
            unsafe { self.sweep(left, right, c, c_row) }
        });
    }

    /// Covers the block's part of the result with tiles. `left` returns the left operand's rows of a slice.
    ///
    /// # Safety
    ///
    /// Same as for [`compute`](Self::compute).
    #[inline(always)]
    unsafe fn sweep(&self, left: impl Fn(usize) -> Strided<T>, right: Right<T>, c: *mut T, c_row: usize) {
        let TileKernels { lanes, large, flat, wide, narrow, .. } = *self.kernels;
        // If the right operand stays in the first-level cache, the result is written a few rows at a time. Otherwise many rows, each
        // on a page of its own, would be written at once.
        let is_small = self.depth * self.columns * size_of::<T>() <= SMALL;
        let together = if is_small { 1 } else { self.slices().max(1) };
        for slices in (0..self.slices()).step_by(together) {
            let slices = slices..self.slices().min(slices + together);
            let mut first = 0;
            while first < self.columns {
                let (tiles, vectors) = match self.columns - first {
                    rest if rest <= lanes => (narrow, 1),
                    rest if large == 4 && rest > 3 * lanes => (flat, 4),
                    _ => (wide, 2),
                };
                let width = (vectors * lanes).min(self.columns - first);
                let (panel, column) =
                    if first < right.width { (0, first) } else { (first / right.width, first % right.width) };
                for slice in slices.clone() {
                    let (from, a) = (self.edge(slice), left(slice));
                    let rows = self.edge(slice + 1) - from;
                    let parts = parts_of(rows, tiles.len().max(1));
                    for part in 0..parts {
                        let (top, end) = (edge(rows, part, parts), edge(rows, part + 1, parts));
                        let Some(tile) = (end - top).checked_sub(1).and_then(|i| tiles.get(i)) else {
                            continue;
                        };
                        // SAFETY: the operands cover the tile, which is in `c`.
                        unsafe {
                            let args = Args {
                                k: self.depth,
                                a: a.at_row(top).ptr,
                                a_row: a.row,
                                a_col: a.col,
                                b: right.ptr.add(panel * right.panel + column),
                                b_row: right.row,
                                last: width - (vectors - 1) * lanes,
                                filled: right.filled,
                                c: c.add((from + top) * c_row + first),
                                c_row,
                                accumulate: self.accumulate,
                                around: self.around.at_row(from + top),
                                panel: right.panel,
                            };
                            args.whole(self.kernels, *tile, [end - top, width]);
                        }
                    }
                }
                first += width;
            }
        }
    }
}
