//! Reductions across rows: neighbours in memory belong to different results, which are folded side by side.

use super::dispatch::{Kernel, dispatch};
use super::element::Number;
use super::level;
use super::reduce::{Reduce, pairs, prefetch};
use std::mem::MaybeUninit;

/// The most columns folded side by side: their sums stay in the first cache.
pub(crate) const COLUMNS: usize = 1024;
/// Rows that are folded into columns at once.
const ROWS: usize = 4;
/// Columns whose sums stay in registers meanwhile.
const LANES: usize = 64;

struct Columns<'a, T, F, const N: usize> {
    sums: &'a mut [T],
    rows: [&'a [T]; N],
    /// The distance of what is folded next, in elements.
    ahead: isize,
    f: F,
}

impl<T: Copy, F: Fn(T, T) -> T, const N: usize> Kernel for Columns<'_, T, F, N> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let rows = self.rows.map(|row| row.as_chunks::<LANES>());
        let (sums, rest) = self.sums.as_chunks_mut::<LANES>();
        for (at, sums) in sums.iter_mut().enumerate() {
            let mut folded = *sums;
            for (blocks, _) in &rows {
                let Some(block) = blocks.get(at) else { return };
                prefetch(block, self.ahead.wrapping_mul(size_of::<T>() as isize));
                folded = pairs(&folded, block, &self.f);
            }
            *sums = folded;
        }
        for (j, sum) in rest.iter_mut().enumerate() {
            *sum = rows.iter().fold(*sum, |sum, (_, rest)| rest.get(j).map_or(sum, |&v| (self.f)(sum, v)));
        }
    }
}

/// Folds `len` rows of `width` columns into `sums`, pairwise where they are many.
///
/// # Safety
///
/// `x` covers the rows, `row` elements apart; `width <= COLUMNS`; `sums` holds `width` elements.
unsafe fn columns<T: Number>(
    len: usize,
    width: usize,
    x: *const T,
    row: isize,
    sums: *mut T,
    f: impl Fn(T, T) -> T + Copy,
) {
    // SAFETY: this function's contract; the other half has room of its own, and is written before it is read.
    unsafe {
        if len > 128 {
            let half = len / 2;
            let mut other = [const { MaybeUninit::<T>::uninit() }; COLUMNS];
            let other = other.as_mut_ptr().cast::<T>();
            columns(half, width, x, row, sums, f);
            columns(len - half, width, x.offset(half as isize * row), row, other, f);
            let sums = std::slice::from_raw_parts_mut(sums, width);
            let other = std::slice::from_raw_parts(other, width);
            return dispatch(level(), Columns { sums, rows: [other], ahead: 0, f });
        }
        std::ptr::copy_nonoverlapping(x, sums, width);
        let sums = std::slice::from_raw_parts_mut(sums, width);
        let ahead = row.saturating_mul(ROWS as isize);
        let row = |l: usize| std::slice::from_raw_parts(x.offset(l as isize * row), width);
        let mut l = 1;
        while l + ROWS <= len {
            dispatch(
                level(),
                Columns::<_, _, ROWS> {
                    sums: &mut *sums,
                    rows: std::array::from_fn(|i| row(l + i)),
                    ahead,
                    f,
                },
            );
            l += ROWS;
        }
        while l < len {
            dispatch(level(), Columns { sums: &mut *sums, rows: [row(l)], ahead, f });
            l += 1;
        }
    }
}

/// Reduces columns of a type whose sums are of that type; `mean` divides a sum.
///
/// # Safety
///
/// As for [`columns`], with `out` for the sums.
pub(crate) unsafe fn by_columns<T: Number>(
    op: Reduce,
    len: usize,
    width: usize,
    x: *const T,
    row: isize,
    out: *mut T,
    mean: impl Fn(T) -> T,
) {
    // SAFETY: this function's contract.
    unsafe {
        match op {
            Reduce::Max => columns(len, width, x, row, out, T::max),
            Reduce::Min => columns(len, width, x, row, out, T::min),
            Reduce::Sum => columns(len, width, x, row, out, T::add),
            Reduce::Mean => {
                columns(len, width, x, row, out, T::add);
                for sum in std::slice::from_raw_parts_mut(out, width) {
                    *sum = mean(*sum);
                }
            }
        }
    }
}
