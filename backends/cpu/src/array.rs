//! The tensor type of this backend: an `Arc` of the element type, shape, strides and shared elements.

use crate::layout::{Strides, dense_strides, is_dense};
use crate::storage::Storage;
use bb::{DataType, Shape, SlotValue, Tensor};
use bytes::Bytes;
use std::any::Any;
use std::sync::Arc;

/// A tensor in host memory. It is a cheap handle; several arrays may share the same elements.
///
/// An element type of less than 8 bits uses one byte for each element.
#[derive(Debug, Clone)]
pub struct Array(Arc<Inner>);

/// The contents of an [`Array`]. An erased tensor points to the same contents.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) storage: Storage,
    /// The distance in bytes from the start of the storage to the element at index 0 of every dimension.
    offset: usize,
    len: usize,
    shape: Shape,
    /// The strides in elements; empty if the elements are contiguous in row-major order.
    strides: Strides,
    dtype: DataType,
    dense: bool,
    /// The characters of all string elements; each element is a range of this text. `None` for other types.
    text: Option<Arc<Bytes>>,
}

impl SlotValue for Inner {
    fn dtype(&self) -> DataType {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }
}

impl Tensor for Array {
    #[inline]
    fn dtype(&self) -> DataType {
        self.0.dtype
    }

    #[inline]
    fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    #[inline]
    fn erase(self) -> Arc<dyn SlotValue> {
        self.0
    }

    #[inline]
    fn restore(value: &Arc<dyn SlotValue>) -> Option<Array> {
        let any: &dyn Any = value.as_ref();
        if !any.is::<Inner>() {
            return None;
        }
        let any: Arc<dyn Any + Send + Sync> = value.clone();
        any.downcast().ok().map(Array)
    }
}

/// Returns the size in bytes of an element in an array. A string element is a range of the array's text: two `u64`.
#[inline]
pub(crate) const fn element_size(dtype: DataType) -> usize {
    match dtype {
        DataType::String => 16,
        _ => bb::ir::convert::unpacked_size(dtype),
    }
}

impl Array {
    /// Creates an array of contiguous row-major elements that begin `offset` bytes into `storage`.
    #[inline]
    pub(crate) fn dense_at(
        dtype: DataType,
        shape: Shape,
        len: usize,
        storage: Storage,
        offset: usize,
    ) -> Array {
        Array(Arc::new(Inner {
            storage,
            offset,
            len,
            shape,
            strides: Strides::new(),
            dtype,
            dense: true,
            text: None,
        }))
    }

    /// Creates an array of the contiguous row-major elements at the start of `storage`.
    #[inline]
    pub(crate) fn dense(dtype: DataType, shape: Shape, len: usize, storage: Storage) -> Array {
        Array::dense_at(dtype, shape, len, storage, 0)
    }

    /// Returns the array with its text replaced; the ranges of its strings stay the same.
    pub(crate) fn with_text(self, text: Option<Arc<Bytes>>) -> Array {
        match Arc::try_unwrap(self.0) {
            Ok(inner) => Array(Arc::new(Inner { text, ..inner })),
            Err(shared) => Array(Arc::new(Inner {
                storage: shared.storage.clone(),
                shape: shared.shape.clone(),
                strides: shared.strides.clone(),
                text,
                ..*shared
            })),
        }
    }

    /// Returns a view of the same storage with another shape and other strides. The view begins `skip` elements later.
    pub(crate) fn view(&self, shape: Shape, strides: Strides, skip: isize) -> Array {
        let dense = is_dense(&shape, &strides);
        let len = shape.iter().product();
        let skip = skip * element_size(self.0.dtype).cast_signed();
        Array(Arc::new(Inner {
            storage: self.0.storage.clone(),
            offset: if len == 0 { 0 } else { self.0.offset.wrapping_add_signed(skip) },
            len,
            shape,
            strides: if dense { Strides::new() } else { strides },
            dtype: self.0.dtype,
            dense,
            text: self.0.text.clone(),
        }))
    }

    /// Returns a view of the contiguous elements with another shape that has the same number of elements.
    pub(crate) fn view_dense(&self, shape: Shape) -> Array {
        debug_assert!(self.0.dense);
        Array(Arc::new(Inner {
            storage: self.0.storage.clone(),
            shape,
            strides: Strides::new(),
            text: self.0.text.clone(),
            ..*self.0
        }))
    }

    /// Returns the number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Returns whether the array has no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// Returns whether the elements are contiguous in row-major order.
    #[inline]
    pub fn is_dense(&self) -> bool {
        self.0.dense
    }

    /// Returns the stride of each dimension, in elements.
    pub(crate) fn strides(&self) -> Strides {
        if self.0.dense { dense_strides(&self.0.shape) } else { self.0.strides.clone() }
    }

    /// Returns a pointer to the element at index 0 of every dimension.
    #[inline]
    pub(crate) fn ptr(&self) -> *const u8 {
        // The addition wraps because the pointer of an empty array need not point into an allocation.
        self.0.storage.ptr().wrapping_add(self.0.offset)
    }

    /// Returns a writable pointer to the contiguous elements, if they are in a block of the pool and no other handle shares the array or
    /// the block.
    pub(crate) fn sole(&mut self) -> Option<*mut u8> {
        let inner = Arc::get_mut(&mut self.0).filter(|inner| inner.dense)?;
        match &inner.storage {
            Storage::Pooled(block) if block.is_sole() => Some(block.ptr().wrapping_add(inner.offset)),
            Storage::Pooled(_) | Storage::Inline(_) | Storage::Adopted(_) => None,
        }
    }

    /// Returns a writable pointer to the contiguous elements as [`sole`](Self::sole) does, but also if they are stored inline. Returns
    /// `None` for strings and for an empty array.
    pub(crate) fn sole_room(&mut self) -> Option<*mut u8> {
        if self.0.text.is_some() || self.0.dtype == DataType::String || self.0.len == 0 {
            return None;
        }
        let inner = Arc::get_mut(&mut self.0).filter(|inner| inner.dense)?;
        match &mut inner.storage {
            Storage::Pooled(block) if block.is_sole() => Some(block.ptr().wrapping_add(inner.offset)),
            Storage::Inline(words) => Some(words.as_mut_ptr().cast::<u8>().wrapping_add(inner.offset)),
            Storage::Pooled(_) | Storage::Adopted(_) => None,
        }
    }

    /// Converts the array to writable elements without copying them.
    ///
    /// # Errors
    ///
    /// Returns the array itself if its elements are not contiguous, are at most 32 bytes or are strings, or if another array, a plan or a
    /// host tensor shares them.
    pub fn into_sole(mut self) -> Result<SoleElements, Array> {
        if self.0.text.is_some() || self.sole().is_none() {
            return Err(self);
        }
        Ok(SoleElements(self))
    }

    /// Returns the distance in bytes from the start of the storage to the first element.
    pub(crate) fn offset(&self) -> usize {
        self.0.offset
    }

    pub(crate) fn storage(&self) -> &Storage {
        &self.0.storage
    }

    pub(crate) fn text(&self) -> Option<&Arc<Bytes>> {
        self.0.text.as_ref()
    }
}

/// The elements of an array with a single owner, returned by [`Array::into_sole`]. Their memory returns to the backend's pool when this
/// value is dropped.
///
/// An element type of less than 8 bits uses one byte for each element.
#[derive(Debug)]
pub struct SoleElements(Array);

impl SoleElements {
    /// Returns the element type.
    pub fn dtype(&self) -> DataType {
        self.0.0.dtype
    }

    /// Returns the shape, outermost dimension first.
    pub fn shape(&self) -> &[usize] {
        &self.0.0.shape
    }

    /// Returns the size of all elements in bytes.
    pub fn byte_len(&self) -> usize {
        self.0.len() * element_size(self.dtype())
    }

    /// Returns a pointer to the elements in row-major order, aligned for their type. The pointer stays valid until this value is dropped.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        // This value owns the only handle and nothing can clone it, so no other code reads the elements.
        self.0.ptr().cast_mut()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use crate::Cpu;
    use bb::{Backend, Tensor, TensorData};

    #[test]
    fn only_elements_that_nobody_else_holds_are_given_away() {
        let cpu = Cpu::default();
        let x = cpu.constant(&TensorData::new(&[4, 4], &[1f32; 16]).unwrap()).unwrap();
        assert!(x.clone().into_sole().is_err(), "they belong to a host tensor");
        let sum = cpu.add(&x, &x).unwrap();
        let view = cpu.transpose(&sum, &[1, 0]).unwrap();
        let sum = sum.into_sole().unwrap_err();
        assert!(view.into_sole().is_err());
        let mut own = sum.into_sole().unwrap();
        assert_eq!((own.byte_len(), own.shape()), (64, &[4, 4][..]));
        assert!(own.as_mut_ptr().cast::<f32>().is_aligned());
        let few = cpu.constant(&TensorData::scalar(1f32)).unwrap();
        assert!(few.into_sole().unwrap_err().shape().is_empty());
    }
}
