//! Large products: the right operand is packed block by block, and threads share it.
//!
//! What tiles can read where it lies is not packed: a left operand with contiguous rows, whose elements are read one at
//! a time, and a right one that is small.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::pack::{Slot, panel, scratch};
use super::tile::{Args, Compute, Kernels};
use super::{Dims, Element, Strided};
use crate::simd::Shared;

/// Rows of a right panel: a left panel of that depth stays in the first cache, and the result is read
/// and written seldom.
const DEPTH: usize = 512;
/// Rows of the left operand that stay in the second cache.
const ROWS: usize = 96;
/// Columns of the right operand that are packed at once: with the depth above, about a second cache.
const COLUMNS: usize = 512;
/// Elements of a right operand with contiguous rows up to which tiles read it where it lies.
const UNPACKED: usize = 256 * 512;
/// Multiplications below which a second thread costs more than it brings.
const GRAIN: usize = 1 << 19;

/// Computes the product in the type sums are kept in.
///
/// # Safety
///
/// As for [`gemm`](super::gemm).
pub(crate) unsafe fn blocked<T: Element>(
    kernels: &Kernels<T::Acc>,
    Dims { m, k, n }: Dims,
    c: *mut T::Acc,
    c_row: usize,
    a: Strided<T>,
    b: Strided<T>,
) where
    T::Acc: Compute,
{
    let width = 2 * kernels.lanes;
    let height = kernels.wide.len();
    // Types as wide as their sums are their sums' bits.
    let same = size_of::<T>() == size_of::<T::Acc>();
    let unpacked = same && b.col == 1 && k.saturating_mul(n) <= UNPACKED;
    let threads = (m.saturating_mul(n).saturating_mul(k) / GRAIN).min(rayon::current_num_threads()).max(1);
    for left in (0..n).step_by(COLUMNS) {
        let columns = COLUMNS.min(n - left);
        let panels = columns.div_ceil(width);
        for from in (0..k).step_by(DEPTH) {
            let depth = DEPTH.min(k - from);
            scratch(Slot::Right, |right| {
                let room = if unpacked { 0 } else { panels };
                let right = Shared(right.room::<T::Acc>(room * width * depth));
                let operands = Shared((a, b, c));
                each(room, if panels * width * depth < 1 << 16 { 1 } else { threads }, |j| {
                    let (_, b, _) = operands.get();
                    let first = left + j * width;
                    // SAFETY: the panel's columns lie in `b`, and each panel has its own room.
                    unsafe {
                        let from = b.ptr.offset(from as isize * b.row + first as isize * b.col);
                        let x = Strided { ptr: from, ..b };
                        panel(depth, width.min(n - first), width, x, right.get().add(j * width * depth));
                    }
                });
                // Low blocks when threads share them, or one thread would wait for the other's last.
                let rows = (if threads > 1 { ROWS / 2 } else { ROWS }).next_multiple_of(height);
                each(m.div_ceil(rows), threads, |i| {
                    let (a, b, c) = operands.get();
                    let top = i * rows;
                    let block =
                        Block { kernels, rows: rows.min(m - top), depth, columns, accumulate: from > 0 };
                    // SAFETY: the block's rows lie in `a` and `c`, and no other block writes them; the columns lie in `b`.
                    unsafe {
                        let x =
                            Strided { ptr: a.ptr.offset(top as isize * a.row + from as isize * a.col), ..a };
                        let right = if unpacked {
                            let from = b.ptr.offset(from as isize * b.row).add(left);
                            Right { ptr: from.cast::<T::Acc>(), row: b.row, panel: width }
                        } else {
                            Right { ptr: right.get().cast_const(), row: width as isize, panel: width * depth }
                        };
                        block.compute(x, right, c.add(top * c_row + left), c_row);
                    }
                });
            });
        }
    }
}

/// The right operand as tiles read it; distances in elements.
#[derive(Clone, Copy)]
struct Right<T> {
    ptr: *const T,
    /// From a row to the next.
    row: isize,
    /// From the columns of a tile to those of the next.
    panel: usize,
}

/// Some rows of the left operand against the right one.
struct Block<'a, T: 'static> {
    kernels: &'a Kernels<T>,
    rows: usize,
    depth: usize,
    columns: usize,
    accumulate: bool,
}

impl<T: Compute> Block<'_, T> {
    /// # Safety
    ///
    /// `a` covers the block's rows and depth, `right` its columns, `c` its rows and columns.
    unsafe fn compute<S: Element<Acc = T>>(&self, a: Strided<S>, right: Right<T>, c: *mut T, c_row: usize) {
        let height = self.kernels.wide.len();
        let blocks = self.rows.div_ceil(height);
        let edge = |block: usize| self.rows * block / blocks;
        if a.col == 1 && size_of::<S>() == size_of::<T>() {
            // SAFETY: this function's contract; types as wide as their sums are their sums' bits.
            return unsafe {
                self.sweep(|top| (a.ptr.offset(top as isize * a.row).cast(), a.row, 1), right, c, c_row)
            };
        }
        scratch(Slot::Left, |left| {
            let left = left.room::<T>(blocks * height * self.depth);
            for block in 0..blocks {
                let rows = edge(block + 1) - edge(block);
                // SAFETY: the rows lie in `a`, and each panel has its own room.
                unsafe {
                    let x = Strided { ptr: a.ptr.offset(edge(block) as isize * a.row), ..a }.transposed();
                    panel(self.depth, rows, height, x, left.add(block * height * self.depth));
                }
            }
            // Panels begin at the edges, in order.
            let packed = |top: usize| {
                let block = (top * blocks).div_ceil(self.rows);
                (left.wrapping_add(block * height * self.depth).cast_const(), 1, height as isize)
            };
            // SAFETY: the panels were packed above.
            unsafe { self.sweep(packed, right, c, c_row) }
        });
    }

    /// Covers the block's part of the result with tiles. `left` says where the rows from one on lie, and how far apart
    /// their rows and columns are.
    ///
    /// # Safety
    ///
    /// As for [`compute`](Self::compute).
    #[inline(always)]
    unsafe fn sweep(
        &self,
        left: impl Fn(usize) -> (*const T, isize, isize),
        right: Right<T>,
        c: *mut T,
        c_row: usize,
    ) {
        let (lanes, height) = (self.kernels.lanes, self.kernels.wide.len());
        let blocks = self.rows.div_ceil(height);
        let edge = |block: usize| self.rows * block / blocks;
        for (at, first) in (0..self.columns).step_by(2 * lanes).enumerate() {
            let width = (2 * lanes).min(self.columns - first);
            let (tiles, whole) =
                if width > lanes { (self.kernels.wide, lanes) } else { (self.kernels.narrow, 0) };
            for block in 0..blocks {
                let (top, end) = (edge(block), edge(block + 1));
                let Some(tile) = (end - top).checked_sub(1).and_then(|i| tiles.get(i)) else { continue };
                let (a, a_row, a_col) = left(top);
                // SAFETY: the operands cover the tile, which lies in `c`.
                unsafe {
                    tile(&Args {
                        k: self.depth,
                        a,
                        a_row,
                        a_col,
                        b: right.ptr.add(at * right.panel),
                        b_row: right.row,
                        last: width - whole,
                        c: c.add(top * c_row + first),
                        c_row,
                        accumulate: self.accumulate,
                    });
                }
            }
        }
    }
}

/// Calls `f` for each of `n` units on up to `threads` threads, which take the next unit when free.
fn each(n: usize, threads: usize, f: impl Fn(usize) + Sync) {
    if threads < 2 || n < 2 {
        return (0..n).for_each(f);
    }
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= n {
                break;
            }
            f(i);
        }
    };
    fork(threads.min(n), &work);
}

fn fork(threads: usize, work: &(impl Fn() + Sync)) {
    if threads < 2 {
        return work();
    }
    rayon::join(|| fork(threads / 2, work), || fork(threads - threads / 2, work));
}
