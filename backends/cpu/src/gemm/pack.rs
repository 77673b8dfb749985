//! Copies blocks of operands into panels, which tiles read sequentially.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::NonNull;

use super::{Number, Strided};
use crate::kernels::dispatch::{VectorLoop, dispatch};
use crate::kernels::half::widen_all;
use crate::kernels::transpose;

/// A 64-byte aligned buffer that only grows.
#[derive(Debug)]
pub(crate) struct Scratch {
    ptr: NonNull<u8>,
    bytes: usize,
}

impl Scratch {
    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, 64).unwrap_or(Layout::new::<u8>())
    }

    const fn empty() -> Self {
        Self { ptr: NonNull::dangling(), bytes: 0 }
    }

    /// Returns uninitialised memory for `n` elements. Earlier contents are lost.
    pub(crate) fn room<T>(&mut self, n: usize) -> *mut T {
        let bytes = n * size_of::<T>();
        if bytes > self.bytes {
            let grown = bytes.next_multiple_of(4096);
            let layout = Self::layout(grown);
            *self = Self::empty();
            // SAFETY: the layout has a size above 0.
            let Some(ptr) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
            *self = Self { ptr, bytes: grown };
        }
        self.ptr.as_ptr().cast()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: the buffer was allocated with this layout.
            unsafe { dealloc(self.ptr.as_ptr(), Self::layout(self.bytes)) }
        }
    }
}

/// One of the buffers of a thread.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Slot {
    Left,
    Right,
    Sums,
    Part,
    Edge,
}

thread_local! {
    static SCRATCH: [Cell<Scratch>; 5] = const { [const { Cell::new(Scratch::empty()) }; 5] };
}

/// Passes a buffer of this thread to `f`. The next call for the slot reuses the buffer.
///
/// The buffer is removed from the slot while `f` runs, because a thread that waits for other threads may start another
/// product.
pub(crate) fn scratch<R>(slot: Slot, f: impl FnOnce(&mut Scratch) -> R) -> R {
    let cell = |cells: &[Cell<Scratch>; 5], back: Option<Scratch>| {
        let [left, right, sums, part, edge] = cells;
        let cell = match slot {
            Slot::Left => left,
            Slot::Right => right,
            Slot::Sums => sums,
            Slot::Part => part,
            Slot::Edge => edge,
        };
        cell.replace(back.unwrap_or(const { Scratch::empty() }))
    };
    let mut taken = SCRATCH.with(|cells| cell(cells, None));
    let result = f(&mut taken);
    SCRATCH.with(|cells| cell(cells, Some(taken)));
    result
}

/// Copies `width <= panel` columns of `k` rows to a panel whose rows have `panel` elements. The rest of each row is set
/// to zero.
///
/// # Safety
///
/// `x` covers `k` rows and `width` columns; `to` has room for `k * panel` elements.
pub(crate) unsafe fn panel<T: Number>(k: usize, width: usize, panel: usize, x: Strided<T>, to: *mut T::Sum) {
    let mut done = 0;
    // If `T` is as wide as the type of its sums, both are the same type.
    if x.row == 1 && x.col >= 0 && k >= 4 && size_of::<T>() == size_of::<T::Sum>() {
        // SAFETY: this function has the same contract.
        unsafe {
            transpose::block::<true>(
                size_of::<T>(),
                width,
                k,
                to.cast(),
                panel,
                x.ptr.cast(),
                x.col.unsigned_abs(),
            )
        };
        done = width;
    }
    // SAFETY: this function has the same contract, for the remaining columns.
    unsafe {
        let x = Strided { ptr: x.ptr.offset(done.cast_signed() * x.col), ..x };
        let (width, room, to) = (width - done, panel - done, to.add(done));
        if room > 0 {
            dispatch(Copy { k, width, room, panel, x, to });
        }
    }
}

struct Copy<T: Number> {
    k: usize,
    /// The number of columns to copy.
    width: usize,
    /// The number of columns to write. The columns after the copied ones are zero.
    room: usize,
    panel: usize,
    x: Strided<T>,
    to: *mut T::Sum,
}

impl<T: Number> VectorLoop for Copy<T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        // SAFETY: only `panel` creates this value, and its callers guarantee that the operands cover it.
        unsafe {
            let same = size_of::<T>() == size_of::<T::Sum>();
            match (same && self.x.col == 1 && self.width == self.panel, self.panel) {
                (true, 32) => self.whole::<32>(),
                (true, 16) => self.whole::<16>(),
                (true, 8) => self.whole::<8>(),
                _ => self.part(),
            }
        }
    }
}

impl<T: Number> Copy<T> {
    /// # Safety
    ///
    /// The rows have `N` contiguous elements in the source and in the panel, and `T` is the type of its sums.
    #[inline(always)]
    unsafe fn whole<const N: usize>(&self) {
        for p in 0..self.k {
            // SAFETY: this function has the same contract.
            unsafe {
                // If `T` is as wide as the type of its sums, both are the same type.
                let from = self.x.ptr.offset(p.cast_signed() * self.x.row).cast::<[T; N]>();
                self.to.add(p * N).cast::<[T; N]>().write(from.read());
            }
        }
    }

    /// # Safety
    ///
    /// Same as for [`panel`].
    #[inline(always)]
    unsafe fn part(&self) {
        let &Copy { k, width, room, panel, x, to } = self;
        for p in 0..k {
            // SAFETY: this function has the same contract.
            unsafe {
                let (from, to) = (x.ptr.offset(p.cast_signed() * x.row), to.add(p * panel));
                if x.col == 1 {
                    widen_all(to, from, width);
                } else {
                    for j in 0..width {
                        to.add(j).write((*from.offset(j.cast_signed() * x.col)).widen());
                    }
                }
                for j in width..room {
                    to.add(j).write(Default::default());
                }
            }
        }
    }
}
