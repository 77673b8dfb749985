//! Copies blocks of operands into panels that tiles read in order.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::NonNull;

use super::{Element, Strided};

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
    // SAFETY: this function's contract.
    unsafe {
        if x.col == 1 {
            for p in 0..k {
                let from = x.ptr.offset(p as isize * x.row);
                let to = to.add(p * panel);
                if width == panel {
                    for j in 0..panel {
                        to.add(j).write((*from.add(j)).widen());
                    }
                } else {
                    for j in 0..width {
                        to.add(j).write((*from.add(j)).widen());
                    }
                    for j in width..panel {
                        to.add(j).write(Default::default());
                    }
                }
            }
            return;
        }
        // Eight rows at a time, so that a line of the source is used whole while it is near.
        for top in (0..k).step_by(8) {
            let rows = 8.min(k - top);
            for j in 0..width {
                let from = x.ptr.offset(top as isize * x.row + j as isize * x.col);
                let to = to.add(top * panel + j);
                if rows == 8 && x.row == 1 {
                    for p in 0..8 {
                        to.add(p * panel).write((*from.add(p)).widen());
                    }
                } else {
                    for p in 0..rows {
                        to.add(p * panel).write((*from.offset(p as isize * x.row)).widen());
                    }
                }
            }
            for j in width..panel {
                for p in 0..rows {
                    to.add((top + p) * panel + j).write(Default::default());
                }
            }
        }
    }
}
