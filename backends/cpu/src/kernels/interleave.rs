//! Transposes matrices with few rows or few columns, for example the channels of images, by interleaving the elements
//! of rows.

use super::dispatch::{VectorLoop, dispatch};
use crate::pace::{Pace, STRETCH};

/// A function that moves elements between separate rows and memory that interleaves their elements. The arguments are
/// the length of a row, the rows, the distance between rows, and the interleaved memory. Lengths and distances are in
/// elements, which may be unaligned.
///
/// # Safety of calls
///
/// The rows and the memory have these elements, and do not overlap.
pub(super) type Kernel = unsafe fn(usize, *mut u8, usize, *mut u8);

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
unsafe fn turns<T: Copy, const N: usize, const JOIN: bool>(
    cols: usize,
    apart: *mut u8,
    row: usize,
    joined: *mut u8,
) {
    let (apart, joined) = (apart.cast::<T>(), joined.cast::<T>());
    let mut pace = Pace::new();
    for first in (0..cols).step_by(STRETCH / N) {
        let cols = (cols - first).min(STRETCH / N);
        pace.step(cols * N);
        // SAFETY: the caller guarantees that the elements of these columns are valid.
        let (apart, joined) = unsafe { (apart.add(first), joined.add(first * N)) };
        dispatch(Turns::<T, N, JOIN> { cols, apart, row, joined });
    }
}

/// A loop over some columns of `N` rows.
struct Turns<T, const N: usize, const JOIN: bool> {
    cols: usize,
    apart: *mut T,
    row: usize,
    joined: *mut T,
}

impl<T: Copy, const N: usize, const JOIN: bool> VectorLoop for Turns<T, N, JOIN> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for j in 0..self.cols {
            for i in 0..N {
                // SAFETY: the creator of this value guarantees that the elements of these columns are valid.
                unsafe {
                    let (apart, joined) = (self.apart.add(i * self.row + j), self.joined.add(j * N + i));
                    if JOIN {
                        joined.write_unaligned(apart.read_unaligned());
                    } else {
                        apart.write_unaligned(joined.read_unaligned());
                    }
                }
            }
        }
    }
}
