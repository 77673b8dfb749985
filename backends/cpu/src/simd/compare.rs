//! Comparisons, whose results are bytes: 1 for true, 0 for false.

use super::{Strided, loops, walk};

const GRAIN: usize = 1 << 17;

/// A comparison of two elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compare {
    /// `a == b`.
    Equal,
    /// `a > b`.
    Greater,
    /// `a < b`.
    Less,
}

/// Writes 1 where `a[i, j]` compares with `b[i, j]` as asked, else 0; `out` is dense.
///
/// NaN equals nothing and is neither greater nor less. Bytes of bool compare as `u8`.
///
/// # Safety
///
/// Each operand covers `dims`; `out` is disjoint from them.
pub unsafe fn compare<T: Copy + PartialOrd + Send + Sync>(
    op: Compare,
    dims: [usize; 2],
    out: *mut u8,
    a: Strided<T>,
    b: Strided<T>,
) {
    // SAFETY: this function's contract.
    unsafe {
        match op {
            Compare::Equal => walk::zip(
                dims,
                out,
                a,
                b,
                GRAIN,
                |o, a, b, n| loops::zip(o, a, b, n, |x: T, y: T| u8::from(x == y)),
                true,
            ),
            Compare::Greater => walk::zip(
                dims,
                out,
                a,
                b,
                GRAIN,
                |o, a, b, n| loops::zip(o, a, b, n, |x: T, y: T| u8::from(x > y)),
                true,
            ),
            Compare::Less => walk::zip(
                dims,
                out,
                a,
                b,
                GRAIN,
                |o, a, b, n| loops::zip(o, a, b, n, |x: T, y: T| u8::from(x < y)),
                true,
            ),
        }
    }
}
