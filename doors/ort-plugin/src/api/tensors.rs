//! Reads and writes the elements of tensors.

use super::{Api, Result};
use crate::error::PluginError;
use crate::lending::Lending;
use crate::raw::OrtValue;
use bb::{DataType, TensorData};
use bb_core::ir::StringsBuilder;
use bytes::Bytes;
use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};

/// `ONNX_TYPE_TENSOR`.
const TENSOR: c_int = 1;

/// Whether the elements of an ONNX Runtime tensor are copied or borrowed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Elements<'a> {
    /// The elements are copied.
    Copied,
    /// The elements are borrowed if they have more than this number of bytes, else copied.
    Lent(&'a Lending, usize),
}

/// Functions that access tensors.
///
/// # Safety
///
/// For all functions: ONNX Runtime passed the value to the running call, and its elements are not written during the call.
impl Api {
    /// Returns the element type and the shape of a tensor.
    unsafe fn front(&self, value: *const OrtValue) -> Result<(DataType, Vec<usize>)> {
        // SAFETY: the caller upholds the safety contract of this function.
        let kind = self.got(0, |to| unsafe { self.table.value_type(value, to) })?;
        if kind != TENSOR {
            return Err(PluginError::Kind { number: kind });
        }
        // SAFETY: the value is a tensor.
        let info = self.got(null_mut(), |to| unsafe { self.table.tensor_type_and_shape(value, to) })?;
        // SAFETY: the function created it for this caller.
        let front = unsafe { self.element_and_extents(info) };
        // SAFETY: this is the only release.
        unsafe { self.table.release_tensor_info(info) };
        let (dtype, extents) = front?;
        let dtype = dtype.map_err(|number| PluginError::Element { number })?;
        Ok((dtype, extents.into_iter().map(|extent| usize::try_from(extent).unwrap_or(0)).collect()))
    }

    /// Returns a tensor with copied or borrowed elements.
    pub(crate) unsafe fn tensor(&self, value: *const OrtValue, elements: Elements<'_>) -> Result<TensorData> {
        // SAFETY: the caller upholds the safety contract of this function.
        let (dtype, shape) = unsafe { self.front(value)? };
        if dtype == DataType::String {
            // SAFETY: the tensor has strings as elements.
            return unsafe { self.strings(value, &shape) };
        }
        let too_large = || bb::ir::Error::TooLarge {
            dtype,
            shape: shape.as_slice().into(),
            limit: usize::MAX,
            name: None,
        };
        let count = bb_core::ir::element_count(&shape).ok_or_else(too_large)?;
        let length = dtype.bytes_for(count).ok_or_else(too_large)?;
        if length == 0 {
            return Ok(TensorData::adopt(dtype, &shape, Bytes::new())?);
        }
        // SAFETY: the value is a tensor with elements.
        let first = self.got(null(), |to| unsafe { self.table.tensor_data(value, to) })?.cast::<u8>();
        if first.is_null() {
            return Err(PluginError::Null { what: "the memory of a tensor" });
        }
        let bytes = match elements {
            Elements::Lent(lending, least) if length > least => {
                // SAFETY: the caller upholds the safety contract, and the tensor has `length` bytes.
                unsafe { lending.lend(first, length) }
            }
            // SAFETY: the tensor has `length` bytes.
            _ => Bytes::copy_from_slice(unsafe { std::slice::from_raw_parts(first, length) }),
        };
        Ok(TensorData::adopt(dtype, &shape, bytes)?)
    }

    unsafe fn strings(&self, value: *const OrtValue, shape: &[usize]) -> Result<TensorData> {
        let count: usize = shape.iter().product();
        let mut texts = StringsBuilder::with_room("a tensor of ONNX Runtime", count)?;
        if count > 0 {
            // SAFETY: the caller upholds the safety contract of this function.
            let length = self.got(0usize, |to| unsafe { self.table.string_tensor_length(value, to) })?;
            let (mut bytes, mut offsets) = (vec![0u8; length], vec![0usize; count]);
            // SAFETY: the buffers have room for the bytes and offsets of the tensor.
            self.checked(unsafe {
                let to = bytes.as_mut_ptr().cast::<c_void>();
                self.table.string_tensor_content(value, to, length, offsets.as_mut_ptr(), count)
            })?;
            let ends = offsets.iter().skip(1).copied().chain([length]);
            for (&begin, end) in offsets.iter().zip(ends) {
                texts.push(bytes.get(begin..end).unwrap_or_default())?;
            }
        }
        Ok(texts.finish(shape)?)
    }

    /// Writes a host tensor into an ONNX Runtime tensor of the same element type and shape.
    pub(crate) unsafe fn fill(&self, value: *mut OrtValue, data: &TensorData) -> Result<()> {
        if data.dtype() == DataType::String {
            for (at, text) in data.iter_bytes().enumerate() {
                // SAFETY: both tensors have the same number of elements.
                let to =
                    self.got(null_mut(), |to| unsafe { self.table.string_room(value, at, text.len(), to) })?;
                if !text.is_empty() {
                    // SAFETY: the function allocated this number of bytes.
                    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), to.cast::<u8>(), text.len()) };
                }
            }
            return Ok(());
        }
        let bytes = data.unaligned_bytes()?;
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: the caller upholds the safety contract of this function.
        let to = self.got(null_mut(), |to| unsafe { self.table.tensor_mutable_data(value, to) })?;
        if to.is_null() {
            return Err(PluginError::Null { what: "the memory of a result" });
        }
        // SAFETY: ONNX Runtime allocated the tensor for this element type and shape, so it has this number of bytes. It does not overlap
        // the host tensor, because that existed when it was allocated.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast::<u8>(), bytes.len()) };
        Ok(())
    }
}
