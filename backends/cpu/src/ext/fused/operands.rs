//! Reads the elements of tensors for a block of results, as contiguous `f32`.

use super::{BLOCK, Block, TENSORS};
use crate::array::Array;
use crate::kernels::chain::{PLACES, Place};
use crate::kernels::dispatch::{VectorLoop, dispatch};
use crate::kernels::half::Half;
use crate::layout::{self, Dim};
use bb::Tensor;
use smallvec::SmallVec;
use std::mem::MaybeUninit;

/// The layout of a tensor's elements, relative to the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Contiguous, in the order of the results.
    Same,
    /// A single element for all results.
    Single,
    /// Any other layout: rows whose dimensions have strides.
    Strided,
}

/// A tensor of a program.
#[derive(Debug)]
struct ProgramTensor {
    pointer: *const u8,
    order: Order,
    /// The conversion of 16-bit floats.
    half: Option<&'static Half>,
    /// The dimensions of a loop over this tensor only, merged as far as its strides allow.
    dims: layout::Dims<1>,
}

/// The tensors of a program.
#[derive(Debug)]
pub(super) struct Operands(SmallVec<[ProgramTensor; TENSORS]>);

// SAFETY: elements are only read through this, by threads that the arrays outlive. If results replace a tensor, each thread
// reads only the elements of its own blocks, before it writes there.
unsafe impl Sync for Operands {}

impl Operands {
    /// Describes tensors for a loop over these dimensions.
    pub(super) fn new(xs: &[&Array], dims: &[Dim<TENSORS>]) -> Operands {
        let operand = |(tensor, x): (usize, &&Array)| {
            let stride = |dim: &Dim<TENSORS>| dim.strides.get(tensor).copied().unwrap_or(0);
            let own = dims.iter().map(|dim| Dim { extent: dim.extent, strides: [stride(dim)] });
            let dims = layout::collapse(own);
            let order = match dims.as_slice() {
                [] | [Dim { strides: [0], .. }] => Order::Single,
                [Dim { strides: [1], .. }] => Order::Same,
                _ => Order::Strided,
            };
            ProgramTensor { pointer: x.ptr(), order, half: Half::of(x.dtype()), dims }
        };
        Operands(xs.iter().enumerate().map(operand).collect())
    }

    /// Returns cursors for reading blocks from result `first` on. Converts the single elements to `f32`.
    ///
    /// # Safety
    ///
    /// The tensors have their elements.
    pub(super) unsafe fn begin(&self, copies: &mut [Block; TENSORS], first: usize) -> Cursors {
        let mut cursors = Cursors::new();
        for (operand, copy) in self.0.iter().zip(copies) {
            let mut cursor = Cursor::default();
            match (operand.order, operand.half) {
                (Order::Single, Some(half)) => {
                    // SAFETY: the tensor has an element, and the copy room for a block.
                    unsafe { (half.widen)(copy.as_mut_ptr().cast(), [operand.pointer], 1) }
                }
                (Order::Strided, _) => cursor = Cursor::at(&operand.dims, first),
                (Order::Single | Order::Same, _) => {}
            }
            cursors.push(cursor);
        }
        cursors
    }

    /// Returns a tensor's elements for `n` results from result `first` on. They are copied unless they are already contiguous
    /// `f32`.
    ///
    /// # Safety
    ///
    /// The tensor exists and has these elements, at most [`BLOCK`]. Blocks are read in order since [`begin`](Self::begin),
    /// which wrote `copy`.
    pub(super) unsafe fn block(
        &self,
        tensor: usize,
        cursor: &mut Cursor,
        [first, n]: [usize; 2],
        copy: &mut Block,
        bits: &mut Bits,
    ) -> Place {
        let Some(ProgramTensor { pointer, order, half, dims }) = self.0.get(tensor) else {
            return Place::NONE;
        };
        let to = copy.as_mut_ptr().cast::<u8>();
        // SAFETY: this function's contract.
        unsafe {
            let (from, single) = match (order, half) {
                (Order::Single, None) => (*pointer, true),
                (Order::Single, Some(_)) => (to.cast_const(), true),
                (Order::Same, None) => (pointer.cast::<f32>().add(first).cast(), false),
                (Order::Same, Some(half)) => {
                    (half.widen)(to, [pointer.cast::<u16>().add(first).cast()], n);
                    (to.cast_const(), false)
                }
                (Order::Strided, None) => cursor.read(dims, n, pointer.cast::<f32>(), to.cast()),
                (Order::Strided, Some(half)) => {
                    let (from, single) =
                        cursor.read(dims, n, pointer.cast(), bits.as_mut_ptr().cast::<u16>());
                    (half.widen)(to, [from], if single { 1 } else { n });
                    (to.cast_const(), single)
                }
            };
            Place { ptr: from.cast::<f32>().cast_mut(), single }
        }
    }
}

/// The elements of `f32` tensors along rows. A row is the common innermost dimension.
pub(super) struct RowWise<'a> {
    operands: &'a Operands,
    /// The outer dimensions, and the innermost dimension.
    outer: &'a [Dim<TENSORS>],
    inner: Dim<TENSORS>,
    pub(super) count: usize,
    pub(super) length: usize,
}

/// The minimum length of rows that are processed row by row.
const ROW: usize = 256;

impl Operands {
    /// Returns the rows of the tensors for a loop over these dimensions. Returns `None` if rows are short, or if elements must
    /// be copied to be contiguous `f32`.
    pub(super) fn rows<'a>(&'a self, dims: &'a [Dim<TENSORS>]) -> Option<RowWise<'a>> {
        let (inner, outer) = dims.split_last()?;
        let there = |(tensor, operand): (usize, &ProgramTensor)| {
            operand.half.is_none() && matches!(inner.strides.get(tensor), Some(0 | 1))
        };
        let rows = inner.extent >= ROW && self.0.iter().enumerate().all(there);
        let count = outer.iter().map(|dim| dim.extent).product();
        rows.then_some(RowWise { operands: self, outer, inner: *inner, count, length: inner.extent })
    }
}

impl RowWise<'_> {
    /// Returns the tensors' elements for a row, starting at index `first` of the row.
    ///
    /// # Safety
    ///
    /// The row exists and has an element at this index.
    pub(super) unsafe fn places(&self, row: usize, first: usize) -> [Place; PLACES] {
        let mut offsets = [0isize; TENSORS];
        let mut left = row;
        for Dim { extent, strides } in self.outer.iter().rev() {
            for (offset, stride) in offsets.iter_mut().zip(strides) {
                *offset += (left % extent).cast_signed() * stride;
            }
            left /= extent;
        }
        let mut places = [Place::NONE; PLACES];
        let strides = self.inner.strides.into_iter().zip(offsets);
        for ((place, operand), (stride, offset)) in places.iter_mut().zip(&self.operands.0).zip(strides) {
            // SAFETY: this function's contract.
            let ptr = unsafe {
                operand.pointer.cast::<f32>().offset(offset + first.cast_signed() * stride).cast_mut()
            };
            *place = Place { ptr, single: stride == 0 };
        }
        places
    }
}

/// Memory for a block of 16-bit floats.
pub(super) type Bits = MaybeUninit<[u16; BLOCK]>;

/// The cursors of the tensors of a program.
pub(super) type Cursors = SmallVec<[Cursor; TENSORS]>;

/// A position in the rows of a tensor.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    /// The index of the row in each outer dimension, and the row's offset from the first element.
    index: SmallVec<[usize; 4]>,
    row: isize,
    /// The index within the row.
    column: usize,
}

impl Cursor {
    /// Finds the element with this row-major index.
    fn at(dims: &[Dim<1>], position: usize) -> Cursor {
        let (outer, inner) = layout::innermost(dims);
        let (mut left, column) = (position / inner.extent, position % inner.extent);
        let mut cursor = Cursor { index: SmallVec::from_elem(0, outer.len()), row: 0, column };
        for (index, &Dim { extent, strides: [stride] }) in cursor.index.iter_mut().zip(outer).rev() {
            *index = left % extent;
            left /= extent;
            cursor.row += index.cast_signed() * stride;
        }
        cursor
    }

    /// Moves to the start of the next row. After the last row comes the first row again.
    #[inline(always)]
    fn next_row(&mut self, outer: &[Dim<1>]) {
        self.column = 0;
        for (index, &Dim { extent, strides: [stride] }) in self.index.iter_mut().zip(outer).rev() {
            *index += 1;
            if *index < extent {
                self.row += stride;
                return;
            }
            self.row -= stride * (extent - 1).cast_signed();
            *index = 0;
        }
    }

    /// Moves forward by `n` elements, which are in one row.
    fn advance(&mut self, outer: &[Dim<1>], extent: usize, n: usize) {
        self.column += n;
        if self.column == extent {
            self.next_row(outer);
        }
    }

    /// Returns a pointer to the next `n` elements, and whether a single element represents all of them. If the elements are
    /// contiguous within a row, the pointer is into the tensor; otherwise they are copied to `to`. Moves the cursor behind
    /// them.
    ///
    /// # Safety
    ///
    /// `from` has these elements, and `to` has room for them.
    unsafe fn read<T: Copy>(
        &mut self,
        dims: &[Dim<1>],
        n: usize,
        from: *const T,
        to: *mut T,
    ) -> (*const u8, bool) {
        let (outer, inner) = layout::innermost(dims);
        let Dim { extent, strides: [stride] } = inner;
        if self.column + n <= extent && matches!(stride, 0 | 1) {
            // SAFETY: this function's contract.
            let there = unsafe { from.offset(self.row).add(self.column * stride.unsigned_abs()) };
            self.advance(outer, extent, n);
            return (there.cast(), stride == 0);
        }
        if stride == 1 && extent <= n && matches!(outer, [Dim { strides: [0], .. }]) {
            // SAFETY: this function's contract; all rows are the same one, and shorter than `n`.
            unsafe { periodic(from, extent, self.column, to, n) };
            self.column = (self.column + n) % extent;
        } else {
            dispatch(ProgramRows { cursor: self, outer, extent, stride, from, to, n });
        }
        (to.cast_const().cast(), false)
    }
}

/// Writes `n` elements of a repeated row, starting at a column. Copies one row, and then doubles the elements written so far.
///
/// # Safety
///
/// `from` has a row of `extent` elements, which are no more than `n`; `to` has room for `n`.
unsafe fn periodic<T: Copy>(from: *const T, extent: usize, column: usize, to: *mut T, n: usize) {
    let head = extent - column;
    // SAFETY: this function's contract. Each copy reads elements that are entirely before its destination.
    unsafe {
        to.copy_from_nonoverlapping(from.add(column), head);
        to.add(head).copy_from_nonoverlapping(from, column);
        let mut done = extent;
        while done < n {
            let count = done.min(n - done);
            to.add(done).copy_from_nonoverlapping(to.cast_const(), count);
            done += count;
        }
    }
}

/// Elements to copy row by row.
struct ProgramRows<'a, T> {
    cursor: &'a mut Cursor,
    outer: &'a [Dim<1>],
    /// The number of columns, and the stride between them.
    extent: usize,
    stride: isize,
    from: *const T,
    to: *mut T,
    n: usize,
}

impl<T: Copy> VectorLoop for ProgramRows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let ProgramRows { cursor, outer, extent, stride, from, to, n } = self;
        let mut done = 0;
        while done < n {
            let count = (extent - cursor.column).min(n - done);
            // SAFETY: only `read` creates this value, and its callers guarantee that the elements are valid and there is enough
            // room.
            unsafe {
                let from = from.offset(cursor.row + cursor.column.cast_signed() * stride);
                let to = to.add(done);
                match stride {
                    0 => {
                        let value = *from;
                        for j in 0..count {
                            to.add(j).write(value);
                        }
                    }
                    1 => {
                        for j in 0..count {
                            to.add(j).write(*from.add(j));
                        }
                    }
                    _ => {
                        for j in 0..count {
                            to.add(j).write(*from.offset(j.cast_signed() * stride));
                        }
                    }
                }
            }
            (done, cursor.column) = (done + count, cursor.column + count);
            if cursor.column == extent {
                cursor.next_row(outer);
            }
        }
    }
}
