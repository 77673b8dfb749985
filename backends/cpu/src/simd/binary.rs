//! Arithmetic on two operands of one type.

use super::element::{Binary, Number};
use super::{Strided, walk};

/// Elements below which a second thread costs more than it brings.
const GRAIN: usize = 1 << 17;

/// Computes `out[i, j] = op(a[i, j], b[i, j])`; `out` is dense, `rows * cols` elements.
///
/// Integers wrap; a zero divisor gives 0, so look for one with [`contains_zero`] first.
///
/// # Safety
///
/// Each operand covers `dims`. `out` is disjoint from the operands, or dense operands may be `out`
/// itself.
pub unsafe fn binary<T: Number>(op: Binary, dims: [usize; 2], out: *mut T, a: Strided<T>, b: Strided<T>) {
    let f = T::binary(op);
    let grain = if op == Binary::Pow { GRAIN / 16 } else { GRAIN };
    // SAFETY: this function's contract; `f` takes any contiguous runs.
    unsafe { walk::zip(dims, out, a, b, grain, |o, a, b, n| f(o, a, b, n), true) };
}

/// Tells whether any element of the operand is zero.
///
/// # Safety
///
/// The operand covers `dims`.
pub unsafe fn contains_zero<T: Number>([rows, cols]: [usize; 2], x: Strided<T>) -> bool {
    let zero = T::default();
    (0..rows).any(|i| {
        // SAFETY: the operand covers `dims`.
        let row = unsafe { x.at_row(i) };
        if row.col == 1 {
            // SAFETY: as above, and the row is contiguous.
            let row = unsafe { std::slice::from_raw_parts(row.ptr, cols) };
            row.chunks(256).any(|chunk| chunk.iter().fold(false, |any, &v| any | (v == zero)))
        } else {
            // SAFETY: as above.
            (0..cols).any(|j| unsafe { *row.ptr.offset(j as isize * row.col) } == zero)
        }
    })
}
