//! One row times a matrix whose rows are contiguous, which is read once, as fast as memory gives it.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

use super::vector::Vector;

/// Elements ahead at which operands are prefetched where memory is the limit.
#[cfg(target_arch = "x86_64")]
pub(crate) const AHEAD: usize = 256;

/// Columns below which the rows that come next are prefetched, at the same columns: of shorter rows, and of those that
/// threads share, too little lies ahead.
#[cfg(target_arch = "x86_64")]
const NARROW: usize = 2048;

/// The operands of sums of multiples of rows; distances in elements.
#[derive(Debug)]
pub(crate) struct Args<T> {
    /// Columns.
    pub(crate) n: usize,
    pub(crate) a: *const T,
    pub(crate) a_col: isize,
    pub(crate) b: *const T,
    pub(crate) b_row: isize,
    pub(crate) c: *mut T,
    /// Whether to add to `c` instead of overwriting it.
    pub(crate) accumulate: bool,
}

/// Sums the multiples of a fixed number of rows.
pub(crate) type Stream<T> = unsafe fn(&Args<T>);

/// # Safety
///
/// `a` has `ROWS` elements, `b` as many rows of `n` elements, and `c` `n` elements, initialised if they are added to.
#[inline(always)]
pub(crate) unsafe fn stream<V: Vector, const ROWS: usize>(args: &Args<V::Item>) {
    let &Args { n, a, a_col, b, b_row, c, accumulate } = args;
    // SAFETY: the caller's promise covers each access: partial vectors are masked, and prefetching reads nothing.
    unsafe {
        let mut left = [V::zero(); ROWS];
        for (p, left) in left.iter_mut().enumerate() {
            *left = V::splat(a.offset(p.cast_signed() * a_col));
        }
        #[cfg(target_arch = "x86_64")]
        let ahead = if n < NARROW { b_row * ROWS.cast_signed() } else { AHEAD.cast_signed() };
        // A short first vector keeps the others from straddling lines.
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

/// Does the columns from `j` to `j + n`, at most a vector of them.
///
/// # Safety
///
/// As for [`stream`]; `j + n` is at most its `n`.
#[inline(always)]
unsafe fn part<V: Vector, const ROWS: usize>(args: &Args<V::Item>, left: [V; ROWS], j: usize, n: usize) {
    // SAFETY: the caller's promise; what lies beyond is masked.
    unsafe {
        let mask = V::mask(n);
        let mut sum = if args.accumulate { V::load_some(args.c.add(j), mask) } else { V::zero() };
        for (p, left) in left.into_iter().enumerate() {
            sum = sum.mul_add(left, V::load_some(args.b.offset(p.cast_signed() * args.b_row).add(j), mask));
        }
        sum.store_some(args.c.add(j), mask);
    }
}
