//! The inner kernel for contiguous rows and contiguous columns. It computes dot products as vectors of partial sums,
//! which are added up at the end.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

#[cfg(target_arch = "x86_64")]
use super::stream::AHEAD;
use super::vector::Vector;

/// The operands and results of the dot products of some rows with `n` columns of `k` elements each. Distances are in
/// elements.
#[derive(Debug)]
pub(crate) struct DotArgs<T> {
    pub(crate) k: usize,
    pub(crate) n: usize,
    pub(crate) a: *const T,
    pub(crate) a_row: isize,
    pub(crate) b: *const T,
    pub(crate) b_col: isize,
    pub(crate) c: *mut T,
    pub(crate) c_row: usize,
    pub(crate) c_col: usize,
}

/// A function that computes the dot products of a fixed number of rows with all columns.
pub(crate) type Dots<T> = unsafe fn(&DotArgs<T>);

/// Returns the number of columns that are processed together for this number of rows. A single row is limited by memory
/// bandwidth, and the processor prefetches two streams best.
pub(crate) const fn columns(rows: usize) -> usize {
    if rows == 1 { 2 } else { 4 }
}

/// # Safety
///
/// The operands cover `ROWS` rows and `n` columns, and `c` has room for their results.
#[inline(always)]
pub(crate) unsafe fn dots<V: Vector, const ROWS: usize, const COLUMNS: usize, const RUN: usize>(
    args: &DotArgs<V::Item>,
) {
    let mut j = 0;
    while j < args.n {
        // SAFETY: this function has the same contract.
        unsafe {
            if args.n - j >= COLUMNS {
                group::<V, ROWS, COLUMNS, RUN>(args, j);
                j += COLUMNS;
            } else {
                group::<V, ROWS, 1, RUN>(args, j);
                j += 1;
            }
        }
    }
}

/// Computes the dot products with `COLUMNS` columns, from `first` on.
///
/// # Safety
///
/// Same as for [`dots`]; the operands have `COLUMNS` columns from `first` on.
#[inline(always)]
unsafe fn group<V: Vector, const ROWS: usize, const COLUMNS: usize, const RUN: usize>(
    args: &DotArgs<V::Item>,
    first: usize,
) {
    let &DotArgs { k, a, a_row, b_col, c_row, c_col, .. } = args;
    let lanes = V::LANES;
    // SAFETY: the contract covers each access: the last, partial vector is masked, and a prefetch does not read.
    unsafe {
        let (b, c) = (args.b.offset(first.cast_signed() * b_col), args.c.add(first * c_col));
        let mut sums = [[[V::zero(); RUN]; COLUMNS]; ROWS];
        // Vectors start at the beginning of the column, even if they then cross cache lines. With aligned vectors, the
        // order of the sum would depend on the address.
        let mut p = 0;
        while p + RUN * lanes <= k {
            for h in 0..RUN {
                let at = p + h * lanes;
                let mut right = [V::zero(); COLUMNS];
                for (j, right) in right.iter_mut().enumerate() {
                    let from = b.offset(j.cast_signed() * b_col).add(at);
                    #[cfg(target_arch = "x86_64")]
                    if ROWS == 1 {
                        _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(AHEAD).cast());
                    }
                    *right = V::load(from);
                }
                for (i, sums) in sums.iter_mut().enumerate() {
                    let left = V::load(a.offset(i.cast_signed() * a_row).add(at));
                    for (runs, right) in sums.iter_mut().zip(right) {
                        if let Some(sum) = runs.get_mut(h) {
                            *sum = sum.mul_add(left, right);
                        }
                    }
                }
            }
            p += RUN * lanes;
        }
        while p < k {
            let n = lanes.min(k - p);
            part(args, b, &mut sums, p, n);
            p += n;
        }
        for (i, sums) in sums.into_iter().enumerate() {
            for (j, runs) in sums.into_iter().enumerate() {
                let mut sum = V::zero();
                for run in runs {
                    sum = sum.add(run);
                }
                c.add(i * c_row + j * c_col).write(sum.total());
            }
        }
    }
}

/// Adds the products of the elements `p..p + n` of the rows and of the columns from `b` on to `sums`. `n` is at most
/// the length of a vector.
///
/// # Safety
///
/// Same as for [`group`]; `p + n <= k`.
#[inline(always)]
unsafe fn part<V: Vector, const ROWS: usize, const COLUMNS: usize, const RUN: usize>(
    args: &DotArgs<V::Item>,
    b: *const V::Item,
    sums: &mut [[[V; RUN]; COLUMNS]; ROWS],
    p: usize,
    n: usize,
) {
    // SAFETY: this function's contract; elements beyond it are masked.
    unsafe {
        let mask = V::mask(n);
        let mut right = [V::zero(); COLUMNS];
        for (j, right) in right.iter_mut().enumerate() {
            *right = V::load_some(b.offset(j.cast_signed() * args.b_col).add(p), mask);
        }
        for (i, sums) in sums.iter_mut().enumerate() {
            let left = V::load_some(args.a.offset(i.cast_signed() * args.a_row).add(p), mask);
            for (runs, right) in sums.iter_mut().zip(right) {
                if let Some(sum) = runs.first_mut() {
                    *sum = sum.mul_add(left, right);
                }
            }
        }
    }
}
