//! Host tensors: an element type, extents, and shared bytes.

use crate::{DataType, Element, Error, Shape};
use bytes::Bytes;

/// The alignment in bytes of the buffers that `bb` allocates itself.
pub const ALIGNMENT: usize = 64;

/// A tensor in host memory, immutable and cheap to clone.
///
/// Elements are in row-major order, little-endian, without gaps; types of less than a byte are
/// packed. Strings are `n + 1` little-endian `u64` offsets followed by the UTF-8 bytes they divide.
///
/// What `bb` allocates is aligned to [`ALIGNMENT`] bytes; bytes that were adopted are aligned for
/// their element type.
#[derive(Clone, PartialEq)]
pub struct TensorData {
    dtype: DataType,
    shape: Shape,
    bytes: Bytes,
}

impl TensorData {
    /// Makes a tensor of `elements`, in row-major order; copies them into an aligned buffer.
    ///
    /// # Errors
    ///
    /// [`Error::ByteLength`] if `shape` does not have `elements.len()` elements.
    pub fn new<T: Element>(shape: &[usize], elements: &[T]) -> Result<TensorData, Error> {
        let bytes: &[u8] = bytemuck::cast_slice(elements);
        Self::adopt(T::DTYPE, shape, aligned_copy(bytes))
    }

    /// Makes a tensor of truth values, in row-major order.
    ///
    /// # Errors
    ///
    /// [`Error::ByteLength`] if `shape` does not have `elements.len()` elements.
    pub fn bools(shape: &[usize], elements: &[bool]) -> Result<TensorData, Error> {
        let bytes: Vec<u8> = elements.iter().map(|&b| u8::from(b)).collect();
        Self::adopt(DataType::Bool, shape, aligned_copy(&bytes))
    }

    /// Makes a rank-0 tensor.
    pub fn scalar<T: Element>(value: T) -> TensorData {
        TensorData {
            dtype: T::DTYPE,
            shape: Shape::new(),
            bytes: aligned_copy(bytemuck::bytes_of(&value)),
        }
    }

    /// Takes over bytes that are already in the form described at [`TensorData`].
    ///
    /// Copies them only where they are not aligned for the element type.
    ///
    /// # Errors
    ///
    /// [`Error::ByteLength`] if their number does not match; [`Error::TooLarge`] if the extents
    /// overflow.
    pub fn adopt(dtype: DataType, shape: &[usize], bytes: Bytes) -> Result<TensorData, Error> {
        let shape = Shape::from_slice(shape);
        let too_large = || Error::TooLarge { dtype, shape: shape.as_slice().into(), limit: usize::MAX };
        let elements = element_count(&shape).ok_or_else(too_large)?;
        let expected = dtype.bytes_for(elements).ok_or_else(too_large)?;
        if bytes.len() != expected {
            return Err(Error::ByteLength { dtype, shape: shape.as_slice().into(), expected, got: bytes.len() });
        }
        let bytes = if bytes.as_ptr().align_offset(dtype.align()) == 0 || bytes.is_empty() {
            bytes
        } else {
            aligned_copy(&bytes)
        };
        Ok(TensorData { dtype, shape, bytes })
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DataType {
        self.dtype
    }

    /// Returns the extents, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the number of elements: the product of the extents, 1 for rank 0.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Tells whether an extent is zero.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Returns the bytes in the form described at [`TensorData`].
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the elements in row-major order.
    ///
    /// # Errors
    ///
    /// [`Error::DataType`] if the elements are not `T`.
    pub fn as_slice<T: Element>(&self) -> Result<&[T], Error> {
        if self.dtype != T::DTYPE {
            return Err(Error::DataType { expected: T::DTYPE, got: self.dtype });
        }
        if self.bytes.is_empty() {
            return Ok(&[]);
        }
        // Every constructor aligns the bytes for the element type and checks their number.
        bytemuck::try_cast_slice(&self.bytes).map_err(|_| Error::ByteLength {
            dtype: self.dtype,
            shape: self.shape.as_slice().into(),
            expected: self.len() * size_of::<T>(),
            got: self.bytes.len(),
        })
    }

    /// Returns the same elements under other extents, without copying.
    ///
    /// # Errors
    ///
    /// [`Error::Shapes`] if the number of elements differs.
    pub fn reshaped(&self, shape: &[usize]) -> Result<TensorData, Error> {
        if element_count(shape) != Some(self.len()) {
            return Err(Error::Shapes {
                op: "reshape",
                left: self.shape.as_slice().into(),
                right: shape.into(),
            });
        }
        Ok(TensorData { dtype: self.dtype, shape: Shape::from_slice(shape), bytes: self.bytes.clone() })
    }
}

impl std::fmt::Debug for TensorData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TensorData({}{:?}, {} bytes)", self.dtype, self.shape, self.bytes.len())
    }
}

/// Returns the product of the extents, `None` if it overflows; a zero extent makes it 0.
pub fn element_count(shape: &[usize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d))
}

/// Copies `bytes` into a buffer aligned to [`ALIGNMENT`].
fn aligned_copy(bytes: &[u8]) -> Bytes {
    // Over-allocating and slicing aligns the start without unsafe code.
    let mut buffer: Vec<u8> = Vec::with_capacity(bytes.len() + ALIGNMENT);
    let offset = buffer.as_ptr().align_offset(ALIGNMENT);
    buffer.resize(offset, 0);
    buffer.extend_from_slice(bytes);
    Bytes::from(buffer).slice(offset..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_buffers_are_aligned() {
        let t = TensorData::new(&[3], &[1u8, 2, 3]).expect("three elements");
        assert_eq!(t.bytes().as_ptr().align_offset(ALIGNMENT), 0);
    }

    #[test]
    fn adopting_copies_only_what_is_misaligned() {
        let store = Bytes::from(vec![0u8; 64]);
        let start = store.as_ptr().align_offset(8);
        let aligned = store.slice(start..start + 8);
        let kept = TensorData::adopt(DataType::F32, &[2], aligned.clone()).expect("8 bytes");
        assert_eq!(kept.bytes().as_ptr(), aligned.as_ptr());
        let off = store.slice(start + 1..start + 9);
        let moved = TensorData::adopt(DataType::F32, &[2], off.clone()).expect("8 bytes");
        assert_ne!(moved.bytes().as_ptr(), off.as_ptr());
        assert_eq!(moved.as_slice::<f32>().expect("f32"), [0.0, 0.0]);
    }

    #[test]
    fn overflowing_extents_are_an_error() {
        let shape = [usize::MAX / 2 + 1, 4];
        assert!(matches!(
            TensorData::adopt(DataType::F32, &shape, Bytes::new()),
            Err(Error::TooLarge { .. })
        ));
    }
}
