//! Reductions across rows. Neighbours in memory belong to different results, which are computed together.

use super::rows::{pairs, prefetch};
use crate::kernels::dispatch::{VectorLoop, dispatch};
use crate::kernels::number::Number;
use crate::kernels::op::Reduction;
use crate::pace::{self, STRETCH};
use std::mem::MaybeUninit;

/// The maximum number of columns that are reduced together. Their sums stay in the first-level cache.
pub(super) const COLUMNS: usize = 1024;
/// The number of rows that are added to the sums in one pass.
const ROWS: usize = 4;
/// The number of columns whose sums stay in registers while rows are added.
const LANES: usize = 64;

struct SumColumns<'a, T, F, const N: usize> {
    sums: &'a mut [T],
    rows: [&'a [T]; N],
    /// The distance to the elements that are prefetched, in elements.
    ahead: isize,
    f: F,
}

impl<T: Copy, F: Fn(T, T) -> T, const N: usize> VectorLoop for SumColumns<'_, T, F, N> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let rows = self.rows.map(|row| row.as_chunks::<LANES>());
        let (sums, rest) = self.sums.as_chunks_mut::<LANES>();
        for (at, sums) in sums.iter_mut().enumerate() {
            let mut folded = *sums;
            for (blocks, _) in &rows {
                let Some(block) = blocks.get(at) else { return };
                prefetch(block, self.ahead.wrapping_mul(size_of::<T>().cast_signed()));
                folded = pairs(&folded, block, &self.f);
            }
            *sums = folded;
        }
        for (j, sum) in rest.iter_mut().enumerate() {
            *sum = rows.iter().fold(*sum, |sum, (_, rest)| rest.get(j).map_or(sum, |&v| (self.f)(sum, v)));
        }
    }
}

/// Folds `len` rows of `width` columns into `sums`. Many rows are split into halves that are folded separately
/// (pairwise summation).
///
/// # Safety
///
/// `x` covers the rows, which are `row` elements apart; `width <= COLUMNS`; `sums` holds `width` elements.
unsafe fn columns<T: Number>(
    len: usize,
    width: usize,
    x: *const T,
    row: isize,
    sums: *mut T,
    f: impl Fn(T, T) -> T + Copy,
) {
    // SAFETY: the caller guarantees that the rows are valid; both halves are part of them. The sums of the other half
    // have their own memory, which is written before it is read.
    unsafe {
        if len > 128 {
            if len.saturating_mul(width) > STRETCH {
                pace::look();
            }
            let half = len / 2;
            let mut other = [const { MaybeUninit::<T>::uninit() }; COLUMNS];
            let other = other.as_mut_ptr().cast::<T>();
            columns(half, width, x, row, sums, f);
            columns(len - half, width, x.offset(half.cast_signed() * row), row, other, f);
            let sums = std::slice::from_raw_parts_mut(sums, width);
            let other = std::slice::from_raw_parts(other, width);
            return dispatch(SumColumns { sums, rows: [other], ahead: 0, f });
        }
        std::ptr::copy_nonoverlapping(x, sums, width);
        let sums = std::slice::from_raw_parts_mut(sums, width);
        let ahead = row.saturating_mul(ROWS.cast_signed());
        let row = |l: usize| std::slice::from_raw_parts(x.offset(l.cast_signed() * row), width);
        let mut l = 1;
        while l + ROWS <= len {
            let rows: [_; ROWS] = std::array::from_fn(|i| row(l + i));
            dispatch(SumColumns { sums: &mut *sums, rows, ahead, f });
            l += ROWS;
        }
        while l < len {
            dispatch(SumColumns { sums: &mut *sums, rows: [row(l)], ahead, f });
            l += 1;
        }
    }
}

/// Reduces `len` rows, which are `row` elements apart, to one row of `width` columns.
///
/// # Safety
///
/// `x` covers the rows; `len` and `width` are at least 1; `width` is at most [`COLUMNS`]; and `out` has room for the
/// columns.
pub(super) unsafe fn by_columns<T: Number>(
    op: Reduction,
    [len, width]: [usize; 2],
    x: *const u8,
    row: isize,
    out: *mut u8,
) {
    let (x, out) = (x.cast::<T>(), out.cast::<T>());
    // SAFETY: this function's contract includes that of `columns`, which writes all sums.
    unsafe {
        match op {
            Reduction::Max => columns(len, width, x, row, out, T::max),
            Reduction::Min => columns(len, width, x, row, out, T::min),
            Reduction::Sum | Reduction::Mean => columns(len, width, x, row, out, T::add),
        }
        if op == Reduction::Mean {
            for sum in std::slice::from_raw_parts_mut(out, width) {
                *sum = T::mean(sum.widen(), len);
            }
        }
    }
}
