//! The product of one row with a matrix whose rows are contiguous. The matrix is read only once, so memory bandwidth
//! limits the speed.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

use super::vector::Vector;

/// The prefetch distance within a row, if memory is the limit. Units: elements.
#[cfg(target_arch = "x86_64")]
pub(crate) const AHEAD: usize = 256;

/// Rows with fewer columns prefetch the same columns of the next rows instead, because too few elements follow in short
/// rows and in rows that threads share.
#[cfg(target_arch = "x86_64")]
const NARROW: usize = 2048;

/// The operands of a sum of multiples of rows. Distances are in elements.
#[derive(Debug)]
pub(crate) struct StreamArgs<T> {
    /// The number of columns.
    pub(crate) n: usize,
    pub(crate) a: *const T,
    pub(crate) a_col: isize,
    pub(crate) b: *const T,
    pub(crate) b_row: isize,
    pub(crate) c: *mut T,
    /// Whether to add to `c` instead of overwriting it.
    pub(crate) accumulate: bool,
}

/// A function that computes the sum of multiples of a fixed number of rows.
pub(crate) type StreamKernel<T> = unsafe fn(&StreamArgs<T>);

/// # Safety
///
/// `a` has `ROWS` elements, `b` has `ROWS` rows of `n` elements, and `c` has `n` elements, which are initialised if
/// `accumulate`.
#[inline(always)]
pub(crate) unsafe fn stream<V: Vector, const ROWS: usize>(args: &StreamArgs<V::Item>) {
    let &StreamArgs { n, a, a_col, b, b_row, c, accumulate } = args;
    // SAFETY: the contract covers each access: partial vectors are masked, and a prefetch does not read.
    unsafe {
        let mut left = [V::zero(); ROWS];
        for (p, left) in left.iter_mut().enumerate() {
            *left = V::splat(a.offset(p.cast_signed() * a_col));
        }
        #[cfg(target_arch = "x86_64")]
        let ahead = if n < NARROW { b_row * ROWS.cast_signed() } else { AHEAD.cast_signed() };
        // A short first vector keeps all further vectors from crossing cache lines.
        let head = b.align_offset(64).min(V::LANES - 1).min(n);
        if head > 0 {
            part(args, left, 0, head);
        }
        let mut j = head;
        while j + V::LANES <= n {
            let mut sum = if accumulate { V::load(c.add(j)) } else { V::zero() };
            for (p, &left) in left.iter().enumerate() {
                let from = b.offset(p.cast_signed() * b_row).add(j);
                #[cfg(target_arch = "x86_64")]
                _mm_prefetch::<_MM_HINT_T0>(from.wrapping_offset(ahead).cast());
                sum = sum.mul_add(left, V::load(from));
            }
            sum.store(c.add(j));
            j += V::LANES;
        }
        if j < n {
            part(args, left, j, n - j);
        }
    }
}

/// Computes the columns `j..j + n`. `n` is at most the length of a vector.
///
/// # Safety
///
/// Same as for [`stream`]; `j + n` is at most the number of columns.
#[inline(always)]
unsafe fn part<V: Vector, const ROWS: usize>(
    args: &StreamArgs<V::Item>,
    left: [V; ROWS],
    j: usize,
    n: usize,
) {
    // SAFETY: this function's contract; elements beyond it are masked.
    unsafe {
        let mask = V::mask(n);
        let mut sum = if args.accumulate { V::load_some(args.c.add(j), mask) } else { V::zero() };
        for (p, left) in left.into_iter().enumerate() {
            sum = sum.mul_add(left, V::load_some(args.b.offset(p.cast_signed() * args.b_row).add(j), mask));
        }
        sum.store_some(args.c.add(j), mask);
    }
}
