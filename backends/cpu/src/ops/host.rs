//! Copies to and from the host.

use super::convert::elements;
use super::{copy_to, dense, made, text, unsupported};
use crate::array::{Array, element_size};
use crate::error::Result;
use crate::layout::dense_strides;
use crate::pool::Pool;
use crate::storage::{INLINE, Storage};
use bb::ir::unpack_into;
use bb::{DataType, Shape, Tensor, TensorData};
use bytes::Bytes;
use std::slice;
use std::sync::Arc;

/// Creates an array from a host tensor. It shares the tensor's bytes, also bytes of a mapped file, unless the elements are
/// packed, strings, or small enough to be stored inline.
pub(crate) fn constant(pool: &Arc<Pool>, value: &TensorData) -> Result<Array> {
    let (dtype, len) = (value.dtype(), value.len());
    let shape = Shape::from_slice(value.shape());
    if dtype == DataType::String {
        return text::from_host(pool, value);
    }
    let bytes = value.bytes()?;
    if dtype.is_sub_byte() {
        return made(pool, dtype, shape, |out| {
            // SAFETY: `out` has room for `len` bytes, which are written before they become a slice.
            let out = unsafe {
                out.write_bytes(0, len);
                slice::from_raw_parts_mut(out, len)
            };
            unpack_into(dtype, bytes, out);
        });
    }
    if bytes.len() <= INLINE {
        return made(pool, dtype, shape, |out| {
            // SAFETY: `out` has room for all elements.
            unsafe { out.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
        });
    }
    Ok(Array::dense(dtype, shape, len, Storage::Adopted(bytes.clone())))
}

/// Keeps an array alive while a `Bytes` refers to its memory.
struct Owner(Array);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: only contiguous arrays are wrapped.
        unsafe { elements(&self.0) }
    }
}

/// Converts an array to a host tensor. The two share the elements if these are contiguous and if the host format does not
/// pack them.
pub(crate) fn to_host(pool: &Arc<Pool>, x: &Array) -> Result<TensorData> {
    let dtype = x.dtype();
    if dtype == DataType::String {
        return text::to_host(pool, x);
    }
    let x = dense(pool, x)?;
    // SAFETY: `x` is contiguous.
    let bytes = unsafe { elements(&x) };
    if dtype.is_sub_byte() {
        return Ok(TensorData::pack(dtype, x.shape(), bytes)?);
    }
    let bytes = match x.storage() {
        Storage::Adopted(all) => all.slice(x.offset()..x.offset() + x.len() * element_size(dtype)),
        Storage::Inline(_) => return Ok(TensorData::pack(dtype, x.shape(), bytes)?),
        Storage::Pooled(_) => Bytes::from_owner(Owner(x.clone())),
    };
    Ok(TensorData::adopt(dtype, x.shape(), bytes)?)
}

/// Returns the writable bytes of contiguous elements; `None` for strings, or if the memory is shared. An element type of less
/// than 8 bits uses one byte for each element.
pub(crate) fn sole_bytes(x: &mut Array) -> Option<&mut [u8]> {
    if x.is_empty() && x.dtype() != DataType::String {
        return Some(&mut []);
    }
    let size = x.len() * element_size(x.dtype());
    let room = x.sole_room()?;
    // SAFETY: the memory has the array's elements, which were written when it was created. The array is its only holder, and
    // the result borrows the array.
    Some(unsafe { slice::from_raw_parts_mut(room, size) })
}

/// Copies the elements of an array to `into`, in row-major order. No intermediate copy is created, except for packed element
/// types.
pub(crate) fn read_into(pool: &Arc<Pool>, x: &Array, into: &mut [u8]) -> Result<()> {
    let dtype = x.dtype();
    let expected = match dtype {
        DataType::String => return Err(unsupported("read_into", dtype)),
        _ if dtype.is_sub_byte() => {
            let packed = to_host(pool, x)?;
            if packed.byte_len() == into.len() {
                into.copy_from_slice(packed.unaligned_bytes()?);
                return Ok(());
            }
            packed.byte_len()
        }
        _ => x.len() * element_size(dtype),
    };
    if expected != into.len() {
        let (shape, got) = (x.shape().into(), into.len());
        return Err(bb::ir::Error::ByteLength { dtype, shape, expected, got }.into());
    }
    let (out, strides) = (into.as_mut_ptr(), dense_strides(x.shape()));
    // SAFETY: `into` has room for all elements of `x` in row-major order; nothing else refers to it. Copying needs
    // no alignment.
    pool.run(|| unsafe { copy_to(x, out, &strides) })
}
