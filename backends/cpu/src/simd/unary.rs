//! Functions of one operand.

use super::element::{Math, MathFn, Number, Sign};
use super::{Strided, walk};

/// Computes `out[i, j] = op(x[i, j])`; `out` is dense.
///
/// # Safety
///
/// `x` covers `dims`; `out` has room for `rows * cols` elements and is disjoint from `x`, or is `x`
/// itself where that is dense.
pub unsafe fn sign<T: Number>(op: Sign, dims: [usize; 2], out: *mut T, x: Strided<T>) {
    let f = T::sign(op);
    // SAFETY: this function's contract.
    unsafe { walk::map(dims, out, x, 1 << 17, |o, x, n| f(o, x, n)) };
}

/// Computes `out[i, j] = op(x[i, j])` for floating-point numbers; `out` is dense.
///
/// # Safety
///
/// As for [`sign`].
pub unsafe fn math<T: Math>(op: MathFn, dims: [usize; 2], out: *mut T, x: Strided<T>) {
    let f = T::math(op);
    let grain = if op == MathFn::Sqrt { 1 << 16 } else { 1 << 15 };
    // SAFETY: this function's contract.
    unsafe { walk::map(dims, out, x, grain, |o, x, n| f(o, x, n)) };
}
