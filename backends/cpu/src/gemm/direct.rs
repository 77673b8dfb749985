//! Products that read their operands where they are: small, flat, and narrow ones.

use super::tile::{Args, Compute, Kernels};
use super::{Dims, Strided};

/// Rows of the right operand walked at once where its rows are long: few enough that each is read as
/// one stream.
const DEPTH: usize = 64;

/// The same for one row of the left operand, where memory is the limit: each row of the right one is a stream of its
/// own, of which the processor follows about so many.
const STREAMS: usize = 8;

/// Computes the product from a right operand with contiguous rows.
///
/// # Safety
///
/// As for [`gemm`](super::gemm); `b.col` is 1.
pub(crate) unsafe fn direct<T: Compute>(
    kernels: &Kernels<T>,
    dims: Dims,
    c: *mut T,
    c_row: usize,
    a: Strided<T>,
    b: Strided<T>,
) {
    let Dims { m, k, n } = dims;
    // A tall walk down a wide matrix would touch a new page at each step.
    let depth = match n * size_of::<T>() {
        ..=1024 => k,
        _ if m == 1 => STREAMS,
        _ => DEPTH,
    };
    for from in (0..k).step_by(depth.max(1)) {
        let part = Dims { m, k: depth.min(k - from), n };
        // SAFETY: the part lies in the operands.
        unsafe {
            let a = Strided { ptr: a.ptr.offset(from as isize * a.col), ..a };
            let b = Strided { ptr: b.ptr.offset(from as isize * b.row), ..b };
            sweep(kernels, part, c, c_row, a, b, from > 0);
        }
    }
}

/// Computes the product as [`direct`] does; the result's columns are contiguous.
///
/// # Safety
///
/// As for [`direct`].
pub(crate) unsafe fn row<T: Compute>(
    kernels: &Kernels<T>,
    dims: Dims,
    c: *mut T,
    [c_row, _]: [usize; 2],
    a: Strided<T>,
    b: Strided<T>,
) {
    // SAFETY: this function's contract.
    unsafe { direct(kernels, dims, c, c_row, a, b) }
}

/// Covers the result with tiles.
///
/// # Safety
///
/// As for [`direct`]; if `accumulate`, `c` is initialised.
pub(crate) unsafe fn sweep<T: Compute>(
    kernels: &Kernels<T>,
    Dims { m, k, n }: Dims,
    c: *mut T,
    c_row: usize,
    a: Strided<T>,
    b: Strided<T>,
    accumulate: bool,
) {
    let lanes = kernels.lanes;
    // Where memory is the limit, vectors that straddle lines cost twice; a short first one puts the others in place.
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
        let mut args = Args {
            k,
            a: a.ptr,
            a_row: a.row,
            a_col: a.col,
            // SAFETY: `left` is a column.
            b: unsafe { b.ptr.add(left) },
            b_row: b.row,
            last: width - (vectors - 1) * lanes,
            c,
            c_row,
            accumulate,
        };
        // Tiles of nearly equal height, so that none is too low to hide the latency of its sums.
        let blocks = m.div_ceil(tiles.len().max(1));
        for block in 0..blocks {
            let (top, end) = (m * block / blocks, m * (block + 1) / blocks);
            if let Some(tile) = (end - top).checked_sub(1).and_then(|i| tiles.get(i)) {
                // SAFETY: rows `top..end` and `width` columns lie in the operands.
                unsafe {
                    args.a = a.ptr.offset(top as isize * a.row);
                    args.c = c.add(top * c_row + left);
                    tile(&args);
                }
            }
        }
        left += width;
    }
}

/// Computes the product from contiguous rows of `a` and contiguous columns of `b`, as dot products;
/// the result's elements lie `c_row` and `c_col` apart.
///
/// # Safety
///
/// As for [`gemm`](super::gemm); `a.col` and `b.row` are 1.
pub(crate) unsafe fn dots<T: Compute>(
    kernels: &Kernels<T>,
    Dims { m, k, n }: Dims,
    c: *mut T,
    [c_row, c_col]: [usize; 2],
    a: Strided<T>,
    b: Strided<T>,
) {
    for left in (0..n).step_by(4) {
        let width = 4.min(n - left);
        for i in 0..m {
            // SAFETY: row `i` and four columns, or the last one repeated, lie in the operands.
            unsafe {
                let row = a.ptr.offset(i as isize * a.row);
                let column = |j: usize| b.ptr.offset((left + j) as isize * b.col);
                if width == 4 {
                    let sums = (kernels.dots)(k, row, column(0), b.col);
                    for (j, sum) in sums.into_iter().enumerate() {
                        c.add(i * c_row + (left + j) * c_col).write(sum);
                    }
                } else {
                    for j in 0..width {
                        let [sum, ..] = (kernels.dots)(k, row, column(j), 0);
                        c.add(i * c_row + (left + j) * c_col).write(sum);
                    }
                }
            }
        }
    }
}
