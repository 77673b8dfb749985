//! The primitives. Each function determines element types, shapes and strides. It then returns a view, or allocates the
//! result and calls a kernel.

pub(crate) mod convert;
pub(crate) mod cumulative;
pub(crate) mod elementwise;
pub(crate) mod host;
pub(crate) mod indexed;
pub(crate) mod join;
pub(crate) mod matmul;
pub(crate) mod power;
pub(crate) mod reduce;
pub(crate) mod text;
pub(crate) mod views;

use crate::array::{Array, element_size};
use crate::error::{CpuError, Result};
use crate::kernels::moves;
use crate::layout::{Dim, Strides, collapse, dense_strides};
use crate::pool::Pool;
use crate::storage::Storage;
use bb::{DataType, Shape, Tensor};
use bytes::Bytes;
use std::sync::Arc;

/// Returns the error for an element type that an operation does not support.
#[cold]
pub(crate) fn unsupported(op: &'static str, dtype: DataType) -> CpuError {
    bb::ir::Error::Unsupported { op, dtype }.into()
}

/// Allocates storage for `len` elements.
#[inline]
pub(crate) fn room(pool: &Arc<Pool>, dtype: DataType, len: usize) -> Result<Storage> {
    match len.checked_mul(element_size(dtype)) {
        Some(bytes) => Storage::new(pool, bytes),
        None => Err(CpuError::no_memory(usize::MAX)),
    }
}

/// Returns the number of elements of a shape; `None` if it overflows.
fn count(shape: &[usize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1usize, |count, &extent| count.checked_mul(extent))
}

/// Creates an array of `shape`. `fill` writes its elements in row-major order.
///
/// # Errors
///
/// [`CpuError::Memory`] if the system has no memory for the array, or if the number of elements overflows.
pub(crate) fn made(
    pool: &Arc<Pool>,
    dtype: DataType,
    shape: Shape,
    fill: impl FnOnce(*mut u8),
) -> Result<Array> {
    // The extents may come from several operands, so their product can overflow although each operand exists.
    let Some(len) = count(&shape) else { return Err(CpuError::no_memory(usize::MAX)) };
    let mut storage = room(pool, dtype, len)?;
    if len > 0 {
        let room = storage.room();
        pool.run(|| fill(room))?;
    }
    Ok(Array::dense(dtype, shape, len, storage))
}

/// Copies `x` to `dst`, whose elements have these strides.
///
/// # Safety
///
/// `dst` has room for an element at every index of `x`'s shape with these strides.
unsafe fn copy_to(x: &Array, dst: *mut u8, strides: &Strides) {
    if x.is_empty() {
        return;
    }
    let from = x.strides();
    let dims = collapse(
        x.shape().iter().zip(strides).zip(&from).map(|((&extent, &d), &s)| Dim { extent, strides: [d, s] }),
    );
    // SAFETY: `x` has an element at each of its indices; the caller guarantees the room in `dst`.
    unsafe { moves::copy(&dims, element_size(x.dtype()), dst, x.ptr()) }
}

/// Returns the array itself if its elements are contiguous in row-major order, otherwise a contiguous copy.
pub(crate) fn dense(pool: &Arc<Pool>, x: &Array) -> Result<Array> {
    if x.is_dense() { Ok(x.clone()) } else { duplicate(pool, x) }
}

/// Returns a contiguous copy in memory of its own.
pub(crate) fn duplicate(pool: &Arc<Pool>, x: &Array) -> Result<Array> {
    let shape = Shape::from_slice(x.shape());
    let strides = dense_strides(&shape);
    // SAFETY: `out` has room for all elements of `x`, in row-major order.
    let copy = made(pool, x.dtype(), shape, |out| unsafe { copy_to(x, out, &strides) })?;
    Ok(copied(copy, x.text().cloned()))
}

/// Creates an array of zeros whose memory begins at a multiple of `alignment` bytes. `alignment` is a power of two.
///
/// # Errors
///
/// [`CpuError::Memory`] if the system has no memory for the array.
pub(crate) fn aligned(pool: &Arc<Pool>, dtype: DataType, shape: &[usize], alignment: usize) -> Result<Array> {
    let none = || CpuError::no_memory(usize::MAX);
    let len = count(shape).ok_or_else(none)?;
    let bytes = len.checked_mul(element_size(dtype)).ok_or_else(none)?;
    // The bytes of a block are aligned to `ALIGNMENT`, so only larger alignments need extra room.
    let spare = if alignment > crate::pool::ALIGNMENT { alignment } else { 0 };
    let block = pool.take(bytes.checked_add(spare).ok_or_else(none)?)?;
    let offset = block.ptr().cast_const().addr().wrapping_neg() & (alignment - 1);
    // SAFETY: the block has room for the bytes behind the offset, which is less than `spare`, or 0. Nothing else holds it.
    unsafe { block.ptr().add(offset).write_bytes(0, bytes) };
    Ok(Array::dense_at(dtype, Shape::from_slice(shape), len, Storage::Pooled(block), offset))
}

/// Attaches the text to an array of copied ranges if its elements are strings.
pub(crate) fn copied(x: Array, text: Option<Arc<Bytes>>) -> Array {
    if text.is_some() { x.with_text(text) } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads;

    #[test]
    fn a_shape_without_a_number_of_elements_has_no_room() {
        let pool = Pool::new(0, None);
        for (shape, fits) in
            [(&[1 << 33, 1 << 33][..], false), (&[usize::MAX], false), (&[1 << 33, 1 << 33, 0], true)]
        {
            let made = made(&pool, DataType::U8, Shape::from_slice(shape), |_| ());
            assert_eq!(matches!(made, Err(CpuError::Memory(_))), !fits, "{shape:?}");
        }
    }

    #[test]
    fn results_are_made_on_the_backends_own_threads() {
        let own = crate::team::Team::new(3).expect("threads");
        let pool = Pool::new(0, Some(Arc::new(own)));
        let mut count = 0;
        let made = made(&pool, DataType::U8, Shape::from_slice(&[1]), |_| count = threads::count());
        assert!(made.is_ok());
        assert_eq!(count, 3);
    }
}
