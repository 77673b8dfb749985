//! Copies blocks of operands into panels that tiles read in order.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::NonNull;

use super::{Element, Strided};
use crate::simd::dispatch::{Kernel, dispatch};
use crate::simd::{level, transpose};

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

    /// Returns room for `n` elements, uninitialised; earlier contents are lost.
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

/// Which of a thread's buffers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Slot {
    Left,
    Right,
    Sums,
}

thread_local! {
    static SCRATCH: [Cell<Scratch>; 3] =
        const { [Cell::new(Scratch::empty()), Cell::new(Scratch::empty()), Cell::new(Scratch::empty())] };
}

/// Lends `f` a buffer of this thread, which is reused by the next call.
///
/// The buffer is taken out meanwhile: a thread that waits for others may run another product.
pub(crate) fn scratch<R>(slot: Slot, f: impl FnOnce(&mut Scratch) -> R) -> R {
    let cell = |cells: &[Cell<Scratch>; 3], back: Option<Scratch>| {
        let [left, right, sums] = cells;
        let cell = match slot {
            Slot::Left => left,
            Slot::Right => right,
            Slot::Sums => sums,
        };
        cell.replace(back.unwrap_or(const { Scratch::empty() }))
    };
    let mut taken = SCRATCH.with(|cells| cell(cells, None));
    let result = f(&mut taken);
    SCRATCH.with(|cells| cell(cells, Some(taken)));
    result
}

/// Copies `width <= panel` columns of `k` rows to a panel whose rows have `panel` elements; the rest
/// of each row is zero.
///
/// # Safety
///
/// `x` covers `k` rows and `width` columns; `to` has room for `k * panel` elements.
pub(crate) unsafe fn panel<T: Element>(k: usize, width: usize, panel: usize, x: Strided<T>, to: *mut T::Acc) {
    let mut done = 0;
    // Types as wide as their sums are their sums' bits.
    if x.row == 1 && x.col >= 0 && k >= 4 && size_of::<T>() == size_of::<T::Acc>() {
        // SAFETY: this function's contract.
        unsafe { transpose::block::<T, true>(width, k, to.cast::<T>(), panel, x.ptr, x.col as usize) };
        done = width;
    }
    // SAFETY: this function's contract, for the columns that are left.
    unsafe {
        let x = Strided { ptr: x.ptr.offset(done as isize * x.col), ..x };
        let (width, room, to) = (width - done, panel - done, to.add(done));
        if room > 0 {
            dispatch(level(), Copy { k, width, room, panel, x, to });
        }
    }
}

struct Copy<T: Element> {
    k: usize,
    /// Columns to copy.
    width: usize,
    /// Columns to write; the rest is zero.
    room: usize,
    panel: usize,
    x: Strided<T>,
    to: *mut T::Acc,
}

impl<T: Element> Kernel for Copy<T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        // SAFETY: `panel` checked nothing but was promised that all of this lies in its operands.
        unsafe {
            match (self.x.col == 1 && self.width == self.panel, self.panel) {
                (true, 32) => self.whole::<32>(),
                (true, 16) => self.whole::<16>(),
                (true, 8) => self.whole::<8>(),
                _ => self.part(),
            }
        }
    }
}

impl<T: Element> Copy<T> {
    /// # Safety
    ///
    /// The rows have `N` contiguous elements on both sides.
    #[inline(always)]
    unsafe fn whole<const N: usize>(&self) {
        for p in 0..self.k {
            // SAFETY: this function's contract.
            unsafe {
                let from = self.x.ptr.offset(p as isize * self.x.row).cast::<[T; N]>();
                let to = self.to.add(p * N);
                if size_of::<T>() == size_of::<T::Acc>() {
                    // Types as wide as their sums are their sums' bits.
                    to.cast::<[T; N]>().write(from.read());
                } else {
                    to.cast::<[T::Acc; N]>().write(from.read().map(T::widen));
                }
            }
        }
    }

    /// # Safety
    ///
    /// As for [`panel`].
    #[inline(always)]
    unsafe fn part(&self) {
        let &Copy { k, width, room, panel, x, to } = self;
        for p in 0..k {
            // SAFETY: this function's contract.
            unsafe {
                let (from, to) = (x.ptr.offset(p as isize * x.row), to.add(p * panel));
                if x.col == 1 {
                    for j in 0..width {
                        to.add(j).write((*from.add(j)).widen());
                    }
                } else {
                    for j in 0..width {
                        to.add(j).write((*from.offset(j as isize * x.col)).widen());
                    }
                }
                for j in width..room {
                    to.add(j).write(Default::default());
                }
            }
        }
    }
}
