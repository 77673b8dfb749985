//! Vector kernels over plain memory: what an operation does to elements, without tensors.
//!
//! A kernel takes pointers, extents and strides in elements. It splits its work over the threads of
//! the current rayon pool where that was measured to pay, and picks the widest instruction set the
//! processor has. It does not check shapes, resolve broadcasting of more than two dimensions, or
//! allocate results: callers collapse their dimensions to the two or three that a kernel knows.
//!
//! Outputs are written, never read, so they may be uninitialised. Where a function says so, the
//! output may be one of the inputs.

pub(crate) mod columns;
pub(crate) mod dispatch;
mod level;
pub(crate) mod loops;
pub(crate) mod walk;

pub mod binary;
pub mod cast;
pub mod compare;
pub mod element;
pub mod reduce;
pub mod rows;
pub mod select;
pub mod transpose;
pub mod unary;

pub use level::{Level, level};

#[cfg(test)]
pub(crate) use level::{at, levels};

/// A two-dimensional operand: element `(i, j)` lies `i * row + j * col` elements after `ptr`.
///
/// A stride of 0 repeats: `col` 0 is one value per row, both 0 a single scalar.
#[derive(Debug)]
pub struct Strided<T> {
    /// Element `(0, 0)`.
    pub ptr: *const T,
    /// Distance between rows, in elements.
    pub row: isize,
    /// Distance between columns, in elements.
    pub col: isize,
}

impl<T> Clone for Strided<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Strided<T> {}

impl<T> Strided<T> {
    /// Describes rows of `cols` elements that follow each other without gaps.
    pub const fn dense(ptr: *const T, cols: usize) -> Self {
        Self { ptr, row: cols as isize, col: 1 }
    }

    /// Describes one value that every element repeats.
    pub const fn scalar(ptr: *const T) -> Self {
        Self { ptr, row: 0, col: 0 }
    }

    /// Describes the operand with rows and columns exchanged.
    pub const fn transposed(self) -> Self {
        Self { ptr: self.ptr, row: self.col, col: self.row }
    }

    /// Points at row `i`.
    ///
    /// # Safety
    ///
    /// Row `i` lies in the same allocation as `ptr`.
    pub(crate) const unsafe fn at_row(self, i: usize) -> Self {
        Self {
            // SAFETY: the caller keeps the row inside the allocation.
            ptr: unsafe { self.ptr.offset(self.row * i as isize) },
            ..self
        }
    }
}

/// A pointer that threads may share because each of them touches its own part.
#[derive(Debug)]
pub(crate) struct Shared<P>(pub(crate) P);

impl<P: Copy> Clone for Shared<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Copy> Copy for Shared<P> {}

impl<P: Copy> Shared<P> {
    /// Returns the pointer; a method, so that closures capture the wrapper and not its field.
    pub(crate) fn get(self) -> P {
        self.0
    }
}

// SAFETY: the wrapper only moves an address; whoever dereferences it keeps to a disjoint part.
unsafe impl<P> Send for Shared<P> {}
// SAFETY: as above.
unsafe impl<P> Sync for Shared<P> {}

#[cfg(test)]
mod element_tests;
