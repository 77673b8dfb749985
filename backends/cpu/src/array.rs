//! The tensor of this backend: one `Arc` of type, extents, strides and shared elements.

use crate::layout::{Strides, dense_strides, is_dense};
use crate::storage::Storage;
use bb::{DataType, Shape, SlotValue, Tensor};
use bytes::Bytes;
use std::any::Any;
use std::sync::Arc;

/// A tensor in host memory: a cheap handle to elements that other arrays may share.
///
/// Elements of less than a byte have a byte of their own.
#[derive(Debug, Clone)]
pub struct Array(Arc<Inner>);

/// The contents of an [`Array`]. An erased tensor points to the same contents.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) storage: Storage,
    /// Bytes from the storage's start to the element at index 0 of every dimension.
    offset: usize,
    len: usize,
    shape: Shape,
    /// In elements; empty where the elements are row-major without gaps.
    strides: Strides,
    dtype: DataType,
    dense: bool,
    /// The text that the elements are ranges of, if they are strings.
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

/// Returns the bytes that one element takes in an array; a string is a range of its text.
#[inline]
pub(crate) const fn element_size(dtype: DataType) -> usize {
    match dtype {
        DataType::String => 16,
        _ => bb::ir::convert::unpacked_size(dtype),
    }
}

impl Array {
    /// Makes an array of row-major elements without gaps; `storage` has them from `offset` bytes on.
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

    /// Makes an array of the row-major elements that `storage` begins with.
    #[inline]
    pub(crate) fn dense(dtype: DataType, shape: Shape, len: usize, storage: Storage) -> Array {
        Array::dense_at(dtype, shape, len, storage, 0)
    }

    /// Returns the array with another text that its strings are ranges of.
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

    /// Returns the same elements under other extents and strides, beginning `skip` elements later.
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

    /// Returns the same row-major elements under other extents of the same number of elements.
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

    /// Tells whether an extent is zero.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// Tells whether the elements are row-major without gaps.
    #[inline]
    pub fn is_dense(&self) -> bool {
        self.0.dense
    }

    /// Returns the distances in elements between neighbours along each dimension.
    pub(crate) fn strides(&self) -> Strides {
        if self.0.dense { dense_strides(&self.0.shape) } else { self.0.strides.clone() }
    }

    /// Points at the element at index 0 of every dimension.
    #[inline]
    pub(crate) fn ptr(&self) -> *const u8 {
        // Wrapping, because an empty array has no element to point at.
        self.0.storage.ptr().wrapping_add(self.0.offset)
    }

    /// Returns the bytes from the storage's start to the first element.
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
