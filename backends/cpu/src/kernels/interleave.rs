//! Transposes matrices with few rows or few columns, for example the channels of images, by interleaving the elements
//! of rows.

use super::dispatch::{VectorLoop, dispatch};
use crate::pace::{Pace, STRETCH};
use std::marker::PhantomData;

/// Matrices whose rows are separate on one side, and interleaved without gaps on the other side. Lengths and distances
/// are in elements, which may be unaligned.
#[derive(Clone, Copy)]
pub(super) struct Matrices {
    /// The length of a row.
    pub(super) cols: usize,
    /// The separate rows of the first matrix, and the distance between them.
    pub(super) apart: *mut u8,
    pub(super) row: usize,
    /// The interleaved elements of the first matrix.
    pub(super) joined: *mut u8,
    pub(super) count: usize,
    /// The distances between matrices, of the separate rows and of the interleaved elements.
    pub(super) steps: [isize; 2],
}

/// A function that moves elements between separate and interleaved rows.
///
/// # Safety of calls
///
/// Both sides have these elements, and do not overlap.
pub(super) type Kernel = unsafe fn(Matrices);

/// Returns the kernel that writes `joined[j * rows + i] = apart[i * row + j]` if `JOIN`, and otherwise the kernel that
/// writes `apart[i * row + j] = joined[j * rows + i]`, for elements of `size` bytes. Returns `None` unless there are
/// two to four rows and `size` is 1, 2, 4 or 8.
pub(super) fn kernel<const JOIN: bool>(size: usize, rows: usize) -> Option<Kernel> {
    macro_rules! each {
        ($($size:literal $t:ty),*) => {
            match (size, rows) {
                $(
                    ($size, 2) => turns::<$t, 2, JOIN>,
                    ($size, 3) => turns::<$t, 3, JOIN>,
                    ($size, 4) => turns::<$t, 4, JOIN>,
                )*
                _ => return None,
            }
        };
    }
    Some(each!(1 u8, 2 u16, 4 u32, 8 u64))
}

/// # Safety
///
/// As for [`Kernel`], with `N` rows of elements of type `T`.
unsafe fn turns<T: Copy, const N: usize, const JOIN: bool>(all: Matrices) {
    let mut pace = Pace::new();
    let together = (STRETCH / N / all.cols.max(1)).max(1);
    for at in (0..all.count).step_by(together) {
        let (count, steps) = (together.min(all.count - at), all.steps.map(|step| step * at.cast_signed()));
        for first in (0..all.cols).step_by(STRETCH / N) {
            let cols = (all.cols - first).min(STRETCH / N);
            pace.step(count * cols * N);
            let apart = all.apart.cast::<T>().wrapping_offset(steps[0]).wrapping_add(first).cast();
            let joined = all.joined.cast::<T>().wrapping_offset(steps[1]).wrapping_add(first * N).cast();
            dispatch(Turns::<T, N, JOIN>(Matrices { cols, apart, joined, count, ..all }, PhantomData));
        }
    }
}

/// A loop over matrices of `N` rows of elements of type `T`.
struct Turns<T, const N: usize, const JOIN: bool>(Matrices, PhantomData<T>);

impl<T: Copy, const N: usize, const JOIN: bool> VectorLoop for Turns<T, N, JOIN> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Matrices { cols, apart, row, joined, count, steps } = self.0;
        let (mut apart, mut joined) = (apart.cast::<T>(), joined.cast::<T>());
        for _ in 0..count {
            for j in 0..cols {
                for i in 0..N {
                    // SAFETY: the creator of this value guarantees that the elements of these matrices are valid.
                    unsafe {
                        let (apart, joined) = (apart.add(i * row + j), joined.add(j * N + i));
                        if JOIN {
                            joined.write_unaligned(apart.read_unaligned());
                        } else {
                            apart.write_unaligned(joined.read_unaligned());
                        }
                    }
                }
            }
            (apart, joined) = (apart.wrapping_offset(steps[0]), joined.wrapping_offset(steps[1]));
        }
    }
}
