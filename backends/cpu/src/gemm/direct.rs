//! Products that read their operands in place, because they are small or have few rows or columns.

use super::end::Around;
use super::pack::{self, Slot, scratch};
use super::tile::{Args, Compute, TileKernels};
use super::{Dims, Strided, dot, stream};
use crate::level::level;
use std::mem::MaybeUninit;

/// The number of rows of the right operand that are processed in one pass if its rows are long. It is small enough for
/// the processor to prefetch each row as one stream.
const DEPTH: usize = 64;

/// The value of [`DEPTH`] for short rows. It limits how many terms are added one after another.
const LONGEST: usize = 512;

/// The number of columns that are summed before the next columns are read, if the result has a single row. Their sums
/// stay in the first-level cache.
const COLUMNS: usize = 4096;

/// The number of columns whose dot products with all rows are computed before the next columns are read. It is a
/// multiple of the columns per step of every kernel.
const GROUP: usize = 8;

/// Computes a part of a product whose right operand has contiguous rows. `whole` are the extents of the whole product.
/// They determine the order of the sums, so that the order does not depend on how threads divide the work. The steps in
/// `around` are applied if the product has several rows; a single row has none.
///
/// # Safety
///
/// Same as for [`gemm`](super::gemm); `b.col` is 1.
#[expect(clippy::too_many_arguments, reason = "the operands of a product, and where they are used")]
pub(crate) unsafe fn direct<T: Compute>(
    kernels: &TileKernels<T>,
    whole: Dims,
    Dims { m, k, n }: Dims,
    c: *mut T,
    c_row: usize,
    a: Strided<T>,
    b: Strided<T>,
    around: Around<T>,
) {
    let wide = whole.n * size_of::<T>() > 1024;
    if whole.m == 1 && wide {
        // SAFETY: this function has the same contract.
        return unsafe { single(kernels, k, n, c, a, b) };
    }
    // In a wide matrix each row is on another page, so a pass processes fewer rows.
    let depth = if wide { DEPTH } else { LONGEST };
    for from in (0..k).step_by(depth) {
        let part = Dims { m, k: depth.min(k - from), n };
        // SAFETY: the part is in the operands.
        unsafe {
            let a = Strided { ptr: a.ptr.offset(from.cast_signed() * a.col), ..a };
            let b = Strided { ptr: b.ptr.offset(from.cast_signed() * b.row), ..b };
            sweep(kernels, part, c, c_row, a, b, from > 0, around.pass(from == 0, from + depth >= k));
        }
    }
}

/// Computes a product with a single row, one block of columns after another.
///
/// # Safety
///
/// Same as for [`direct`], with one row.
unsafe fn single<T: Compute>(
    kernels: &TileKernels<T>,
    k: usize,
    n: usize,
    c: *mut T,
    a: Strided<T>,
    b: Strided<T>,
) {
    let mut part = [const { MaybeUninit::<T>::uninit() }; COLUMNS];
    let part = part.as_mut_ptr().cast::<T>();
    for left in (0..n).step_by(COLUMNS) {
        let width = COLUMNS.min(n - left);
        // SAFETY: these are columns of the result.
        let c = unsafe { c.add(left) };
        for top in (0..k).step_by(LONGEST) {
            // The sums of the first rows are written to `c`. The sums of later rows are written to a buffer and then
            // added to `c`.
            let sums = if top == 0 { c } else { part };
            for from in (top..k.min(top + LONGEST)).step_by(kernels.streams.len().max(1)) {
                let rows = kernels.streams.len().min(k - from);
                let Some(stream) = rows.checked_sub(1).and_then(|i| kernels.streams.get(i)) else { continue };
                // SAFETY: the columns and these rows are in the operands, and there is room for the sums.
                unsafe {
                    stream(&stream::StreamArgs {
                        n: width,
                        a: a.ptr.offset(from.cast_signed() * a.col),
                        a_col: a.col,
                        b: b.ptr.offset(from.cast_signed() * b.row).add(left),
                        b_row: b.row,
                        c: sums,
                        accumulate: from > top,
                    });
                }
            }
            if top > 0 {
                // SAFETY: the sums of the first rows have been written to `c`, the sums of these rows to `part`.
                let (c, part) = unsafe {
                    (std::slice::from_raw_parts_mut(c, width), std::slice::from_raw_parts(part, width))
                };
                c.iter_mut().zip(part).for_each(|(c, &part)| *c = c.add(part));
            }
        }
    }
}

/// Computes the product as [`direct`] does, without other steps. The rows of the result are contiguous.
///
/// # Safety
///
/// Same as for [`direct`].
pub(crate) unsafe fn row<T: Compute>(
    kernels: &TileKernels<T>,
    whole: Dims,
    dims: Dims,
    c: *mut T,
    [c_row, _]: [usize; 2],
    a: Strided<T>,
    b: Strided<T>,
) {
    // SAFETY: this function has the same contract.
    unsafe { direct(kernels, whole, dims, c, c_row, a, b, Around::NONE) }
}

/// Computes a product whose right operand has contiguous rows, or adds it to `c` if `accumulate`. The terms of each sum
/// are added in the order of the inner dimension, so that rounding does not depend on the extents.
///
/// # Safety
///
/// Same as for [`gemm`](super::gemm); `b.col` is 1, and `c` is initialised if `accumulate`.
pub(crate) unsafe fn ordered<T: Compute>(
    dims: Dims,
    c: *mut T,
    c_row: usize,
    a: Strided<T>,
    b: Strided<T>,
    accumulate: bool,
) {
    // SAFETY: this function has the same contract.
    unsafe { sweep(T::kernels(level()), dims, c, c_row, a, b, accumulate, Around::NONE) }
}

/// Covers the result with tiles.
///
/// # Safety
///
/// Same as for [`direct`]; if `accumulate`, `c` is initialised.
#[expect(clippy::too_many_arguments, reason = "the operands of a product, and where they are used")]
pub(crate) unsafe fn sweep<T: Compute>(
    kernels: &TileKernels<T>,
    Dims { m, k, n }: Dims,
    c: *mut T,
    c_row: usize,
    a: Strided<T>,
    b: Strided<T>,
    accumulate: bool,
    around: Around<T>,
) {
    let lanes = kernels.lanes;
    // If memory is the limit, vectors that cross a cache line cost twice. So a short first vector aligns all further
    // vectors.
    let head = if m == 1 { b.ptr.align_offset(64).min(lanes - 1).min(n) } else { 0 };
    let mut left = 0;
    while left < n {
        let vectors = if left < head { 1 } else { (n - left).div_ceil(lanes) };
        let (tiles, vectors) = if vectors >= 8 && m <= kernels.broad.len() {
            (kernels.broad, 8)
        } else if vectors >= 4 && m <= kernels.flat.len() {
            (kernels.flat, 4)
        } else if vectors >= 2 {
            (kernels.wide, 2)
        } else {
            (kernels.narrow, 1)
        };
        let end = if left < head { head } else { n };
        let width = (vectors * lanes).min(end - left);
        let args = Args {
            k,
            a: a.ptr,
            a_row: a.row,
            a_col: a.col,
            // SAFETY: `left` is a column.
            b: unsafe { b.ptr.add(left) },
            b_row: b.row,
            last: width - (vectors - 1) * lanes,
            filled: false,
            c,
            c_row,
            accumulate,
            around,
            panel: 0,
        };
        // The tiles have nearly equal heights, so that each is high enough to hide the latency of its sums.
        let blocks = m.div_ceil(tiles.len().max(1));
        let cover = |mut args: Args<T>| {
            for block in 0..blocks {
                let (top, end) = (m * block / blocks, m * (block + 1) / blocks);
                if let Some(tile) = (end - top).checked_sub(1).and_then(|i| tiles.get(i)) {
                    // SAFETY: rows `top..end` and `width` columns are in the operands.
                    unsafe {
                        args.a = a.ptr.offset(top.cast_signed() * a.row);
                        args.c = c.add(top * c_row + left);
                        args.around = around.at_row(top);
                        args.whole(kernels, *tile, [end - top, width]);
                    }
                }
            }
        };
        if kernels.copies_edges && args.last < lanes && blocks > 2 {
            scratch(Slot::Edge, |room| {
                let panel = vectors * lanes;
                let to = room.room::<T>(k * panel);
                // SAFETY: the columns are in the operand, and the room has as many rows of whole vectors.
                unsafe { pack::panel(k, width, panel, Strided { ptr: args.b, ..b }, to) };
                cover(Args { b: to, b_row: panel.cast_signed(), filled: true, ..args });
            });
        } else {
            cover(args);
        }
        left += width;
    }
}

/// Computes the product of contiguous rows of `a` and contiguous columns of `b` as dot products. The rows of the result
/// are `c_row` elements apart, its columns are `c_col` elements apart.
///
/// # Safety
///
/// Same as for [`gemm`](super::gemm); `a.col` and `b.row` are 1.
pub(crate) unsafe fn dots<T: Compute>(
    kernels: &TileKernels<T>,
    _: Dims,
    Dims { m, k, n }: Dims,
    c: *mut T,
    [c_row, c_col]: [usize; 2],
    a: Strided<T>,
    b: Strided<T>,
) {
    let blocks = m.div_ceil(kernels.dots.len().max(1));
    let columns = if blocks == 1 { n } else { GROUP };
    for left in (0..n).step_by(columns.max(1)) {
        for block in 0..blocks {
            let (top, end) = (m * block / blocks, m * (block + 1) / blocks);
            let Some(dots) = (end - top).checked_sub(1).and_then(|i| kernels.dots.get(i)) else { continue };
            // SAFETY: the rows and the columns are in the operands.
            unsafe {
                dots(&dot::DotArgs {
                    k,
                    n: columns.min(n - left),
                    a: a.at_row(top).ptr,
                    a_row: a.row,
                    b: b.ptr.offset(left.cast_signed() * b.col),
                    b_col: b.col,
                    c: c.add(top * c_row + left * c_col),
                    c_row,
                    c_col,
                });
            }
        }
    }
}
