//! Chooses between two operands, element by element.

use super::{Shared, Strided, dispatch::Kernel, dispatch::dispatch, level, walk};

/// Writes `a[i, j]` where `condition[i, j]` is not 0, else `b[i, j]`; `out` is dense.
///
/// Any element type of the same size serves: elements are moved, not computed with.
///
/// # Safety
///
/// Each operand covers `dims`; `out` has room for `rows * cols` elements and is disjoint from them.
pub unsafe fn select<T: Copy + Send + Sync>(
    [rows, cols]: [usize; 2],
    out: *mut T,
    condition: Strided<u8>,
    a: Strided<T>,
    b: Strided<T>,
) {
    let shared = Shared((out, condition, a, b));
    walk::split(rows, cols.max(1), 1 << 17, |from, to| {
        let (out, condition, a, b) = shared.get();
        for i in from..to {
            // SAFETY: row `i` lies in each operand, and no other call writes it.
            unsafe {
                row(cols, out.add(i * cols), condition.at_row(i), a.at_row(i), b.at_row(i));
            }
        }
    });
}

struct Select<'a, T> {
    out: &'a mut [T],
    condition: &'a [u8],
    a: &'a [T],
    b: &'a [T],
}

impl<T: Copy> Kernel for Select<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let operands = self.condition.iter().zip(self.a).zip(self.b);
        for (o, ((&c, &a), &b)) in self.out.iter_mut().zip(operands) {
            *o = if c != 0 { a } else { b };
        }
    }
}

/// # Safety
///
/// The operands have `n` columns; `out` has room for `n` elements and is disjoint from them.
unsafe fn row<T: Copy>(n: usize, out: *mut T, condition: Strided<u8>, a: Strided<T>, b: Strided<T>) {
    if condition.col == 1 && a.col == 1 && b.col == 1 {
        // SAFETY: this function's contract, and all are contiguous.
        let kernel = unsafe {
            Select {
                out: std::slice::from_raw_parts_mut(out, n),
                condition: std::slice::from_raw_parts(condition.ptr, n),
                a: std::slice::from_raw_parts(a.ptr, n),
                b: std::slice::from_raw_parts(b.ptr, n),
            }
        };
        return dispatch(level(), kernel);
    }
    for j in 0..n {
        let at = j as isize;
        // SAFETY: this function's contract.
        unsafe {
            let from = if *condition.ptr.offset(at * condition.col) != 0 {
                a.ptr.offset(at * a.col)
            } else {
                b.ptr.offset(at * b.col)
            };
            out.add(j).write(*from);
        }
    }
}
