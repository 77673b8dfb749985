//! Host tensors. A host tensor has an element type, a shape, and shared bytes.
//!
//! All elements from other sources (models, frames, files) become a [`TensorData`] through [`TensorData::adopt`], which
//! validates the bytes.

#[cfg(feature = "ndarray")]
mod array;
mod elements;
mod host_element;
mod made;
mod npy;
mod packed;
mod strings;

pub(crate) use elements::{Check, ErrorMaker};
pub use host_element::HostElement;
pub use packed::unpack_into;
pub use strings::{Strings, StringsBuilder};

use crate::{DataType, Element, Error, Shape, mapped, memory};
use bytes::Bytes;
use elements::Elements;

#[cfg(target_endian = "big")]
compile_error!("tensors are viewed in place as little-endian elements");

/// The alignment in bytes of the buffers that `bb` allocates.
pub const ALIGNMENT: usize = 64;

/// A tensor in host memory, immutable and cheap to clone.
///
/// Elements are in row-major order, little-endian, without gaps; types of less than a byte are packed. Strings are stored as
/// `n + 1` little-endian `u64` offsets, followed by the UTF-8 bytes of all strings; string `i` consists of the bytes between
/// offsets `i` and `i + 1`. Booleans are bytes that are 0 or 1. Two tensors are equal if their types, shapes and bits are
/// equal: NaN equals itself, and 0 differs from -0.
///
/// Buffers that `bb` allocates are aligned to [`ALIGNMENT`] bytes. Adopted bytes are aligned for their element type when they
/// are first used, so that the weights of a mapped file are not read before. If a file states a checksum of the elements, it is
/// compared on first use: if the elements are damaged, every accessor returns the error, and comparisons treat the tensor as
/// unequal to every tensor.
#[derive(Clone)]
pub struct TensorData {
    dtype: DataType,
    shape: Shape,
    elements: Elements,
}

/// A key that identifies tensors without reading their elements: tensors with equal keys have the same bytes and the same
/// check.
///
/// The key is valid as long as one of these tensors exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    place: usize,
    length: usize,
    check: Option<usize>,
}

impl PartialEq for TensorData {
    /// Compares two tensors. Damaged elements do not equal any elements, not even themselves.
    fn eq(&self, other: &TensorData) -> bool {
        self.dtype == other.dtype
            && self.shape == other.shape
            && match (self.unaligned_bytes(), other.unaligned_bytes()) {
                (Ok(own), Ok(other)) => own == other,
                _ => false,
            }
    }
}

/// Returns the index and the value of the first byte that is neither 0 nor 1.
fn not_bool(bytes: &[u8]) -> Option<(usize, u8)> {
    /// The number of bytes that are scanned without branches, so that the compiler vectorizes the loop.
    const BLOCK: usize = 1 << 12;
    let block = bytes.chunks(BLOCK).position(|block| block.iter().fold(0, |all, b| all | b) > 1)?;
    let from = block * BLOCK;
    let within = bytes.get(from..)?.iter().position(|&b| b > 1)?;
    Some((from + within, *bytes.get(from + within)?))
}

impl TensorData {
    /// Copies `elements`, which are in row-major order, into a new tensor.
    ///
    /// # Errors
    ///
    /// [`Error::ByteLength`] if `shape` does not have `elements.len()` elements.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), bb_ir::Error> {
    /// use bb_ir::TensorData;
    /// let row = TensorData::new(&[1, 2], &[0.5f32, 1.5])?;
    /// assert_eq!(row.shape(), [1, 2]);
    /// let mask = TensorData::new(&[2], &[true, false])?;
    /// assert_eq!(mask.to_bools()?, [true, false]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn new<T: HostElement>(shape: &[usize], elements: &[T]) -> Result<TensorData, Error> {
        T::tensor(shape, elements)
    }

    /// Creates a tensor whose elements `element` computes from their indices, in row-major order.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] or [`Error::Memory`] if the elements do not fit in memory.
    pub fn from_fn<T: HostElement>(
        shape: &[usize],
        mut element: impl FnMut(&[usize]) -> T,
    ) -> Result<TensorData, Error> {
        const OP: &str = "making a tensor";
        let too_large =
            || Error::TooLarge { dtype: T::TENSOR_DTYPE, shape: shape.into(), limit: usize::MAX, name: None };
        let count = element_count(shape).ok_or_else(too_large)?;
        let mut elements = memory::room(OP, count)?;
        let mut at = Shape::from_elem(0, shape.len());
        for _ in 0..count {
            elements.push(element(&at));
            for (index, &extent) in at.iter_mut().zip(shape).rev() {
                *index += 1;
                if *index < extent {
                    break;
                }
                *index = 0;
            }
        }
        TensorData::new(shape, &elements)
    }

    /// Creates a tensor of booleans, which are in row-major order.
    ///
    /// # Errors
    ///
    /// [`Error::ByteLength`] if `shape` does not have `elements.len()` elements.
    pub fn bools(shape: &[usize], elements: &[bool]) -> Result<TensorData, Error> {
        let write = |out: &mut Vec<u8>| out.extend(elements.iter().map(|&b| u8::from(b)));
        let bytes = aligned("making a tensor", elements.len(), write)?;
        Self::adopt(DataType::Bool, shape, bytes)
    }

    /// Creates a tensor whose elements are all zero, false or the empty string.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] if the tensor would take more than `limit` bytes.
    pub fn zeros(dtype: DataType, shape: &[usize], limit: usize) -> Result<TensorData, Error> {
        let shape = Shape::from_slice(shape);
        let size = element_count(&shape).and_then(|n| match dtype {
            DataType::String => n.checked_add(1)?.checked_mul(8),
            _ => dtype.bytes_for(n),
        });
        match size {
            Some(size) if size <= limit => {
                let bytes = aligned("making a tensor", size, |out| out.resize(out.len() + size, 0))?;
                Ok(TensorData { dtype, shape, elements: Elements::Ready(bytes) })
            }
            _ => Err(Error::TooLarge { dtype, shape: shape.as_slice().into(), limit, name: None }),
        }
    }

    /// Creates a tensor of rank 0.
    pub fn scalar<T: Element>(value: T) -> TensorData {
        let bytes = bytemuck::bytes_of(&value);
        // If even these few bytes cannot be allocated, an error could not be reported either.
        let bytes = aligned_copy("making a tensor", bytes).unwrap_or_else(|_| Bytes::copy_from_slice(bytes));
        TensorData { dtype: T::DTYPE, shape: Shape::new(), elements: Elements::Ready(bytes) }
    }

    /// Creates a tensor from bytes that already have the layout that [`TensorData`] documents.
    ///
    /// The bytes are copied only if padding bits of the last packed byte must be cleared, or if the bytes are not aligned for
    /// the element type. Strings are copied immediately, all other types on first use. Numbers are not read, so the pages of a
    /// mapped file are not loaded.
    ///
    /// # Errors
    ///
    /// [`Error::ByteLength`] if the number of bytes does not match; [`Error::TooLarge`] if the number of elements overflows;
    /// [`Error::BoolByte`] for a boolean other than 0 and 1; [`Error::StringOffset`] if the offsets of strings do not ascend
    /// from 0 to the length of the text.
    pub fn adopt(dtype: DataType, shape: &[usize], bytes: Bytes) -> Result<TensorData, Error> {
        let shape = Shape::from_slice(shape);
        let too_large =
            || Error::TooLarge { dtype, shape: shape.as_slice().into(), limit: usize::MAX, name: None };
        let elements = element_count(&shape).ok_or_else(too_large)?;
        if dtype == DataType::String {
            strings::validate(&shape, elements, &bytes)?;
        } else {
            let expected = dtype.bytes_for(elements).ok_or_else(too_large)?;
            if bytes.len() != expected {
                return Err(Error::ByteLength {
                    dtype,
                    shape: shape.as_slice().into(),
                    expected,
                    got: bytes.len(),
                });
            }
        }
        if dtype == DataType::Bool
            && let Some((index, value)) = not_bool(&bytes)
        {
            return Err(Error::BoolByte { index, value });
        }
        let padding = packed::padding_mask(dtype, elements);
        let bytes = match bytes.split_last() {
            Some((&last, rest)) if padding != 0 && last & padding != 0 => {
                aligned("making a tensor", bytes.len(), |out| {
                    out.extend_from_slice(rest);
                    out.push(last & !padding);
                })?
            }
            _ => bytes,
        };
        let mut elements = Elements::unchecked(bytes, dtype.align());
        if dtype == DataType::String {
            elements = Elements::Ready(elements.aligned()?.clone());
        }
        Ok(TensorData { dtype, shape, elements })
    }

    /// Returns the same tensor with a check that runs before its elements are first used. Strings are checked immediately,
    /// because [`adopt`](Self::adopt) has already read them.
    ///
    /// # Errors
    ///
    /// The error of the check, for strings.
    pub(crate) fn checked_later(self, check: Option<Check>) -> Result<TensorData, Error> {
        let Some(check) = check else { return Ok(self) };
        if self.dtype == DataType::String {
            check(self.elements.checked()?).map_err(|refusal| refusal())?;
            return Ok(self);
        }
        let elements = self.elements.with_check(self.dtype.align(), check)?;
        Ok(TensorData { elements, ..self })
    }

    /// Does the deferred work: copies elements that are not aligned for their type, and compares elements in a file with the
    /// checksum that the model states.
    ///
    /// Every function that returns elements calls this itself, or does the part that it needs.
    ///
    /// # Errors
    ///
    /// [`Error::Memory`] if the system has no memory for the copy; [`Error::ExternalChecksum`],
    /// [`Error::SavedTensor`] or [`Error::ExternalIo`] if the tensor is in a file that is damaged or cannot be read. A tensor
    /// whose file is damaged stays damaged, and the file is not read again.
    pub fn prepare(&self) -> Result<(), Error> {
        self.elements.aligned().map(drop)
    }

    /// Does the deferred work, and returns a tensor with the same elements, aligned for their type.
    ///
    /// Unlike with [`prepare`](Self::prepare), a copy of the elements, if one is needed, is freed with its last handle instead
    /// of with this tensor. This is for callers that need the elements only until they have converted them to their own format.
    ///
    /// # Errors
    ///
    /// The errors of [`prepare`](Self::prepare).
    pub fn aligned(&self) -> Result<TensorData, Error> {
        let elements = Elements::Ready(self.elements.lent()?);
        Ok(TensorData { dtype: self.dtype, shape: self.shape.clone(), elements })
    }

    /// Returns the memory of elements in a mapped file to the system. The system reads the elements again when they are used.
    /// Does nothing for other elements.
    pub fn forget(&self) {
        self.elements.forget();
    }

    /// Returns a key that identifies this tensor's elements without reading them.
    pub fn identity(&self) -> Identity {
        let (place, check) = self.elements.place();
        Identity { place, length: self.byte_len(), check }
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DataType {
        self.dtype
    }

    /// Returns the shape, outermost extent first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the number of elements, which is the product of the extents; 1 for rank 0.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns whether there are no elements, because an extent is zero.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Returns the bytes in the layout that [`TensorData`] documents, aligned for the element type.
    ///
    /// # Errors
    ///
    /// The errors of [`prepare`](Self::prepare).
    pub fn bytes(&self) -> Result<&Bytes, Error> {
        self.elements.aligned()
    }

    /// Returns the bytes in the layout that [`TensorData`] documents, of any alignment, without copying them.
    ///
    /// # Errors
    ///
    /// The errors of [`prepare`](Self::prepare), except [`Error::Memory`].
    pub fn unaligned_bytes(&self) -> Result<&Bytes, Error> {
        self.elements.checked()
    }

    /// Returns the number of bytes.
    pub fn byte_len(&self) -> usize {
        self.elements.len()
    }

    /// Returns the elements in row-major order.
    ///
    /// # Errors
    ///
    /// [`Error::DataType`] if the elements are not of type `T`; else as [`prepare`](Self::prepare).
    pub fn as_slice<T: Element>(&self) -> Result<&[T], Error> {
        if self.dtype != T::DTYPE {
            return Err(Error::DataType { expected: T::DTYPE, got: self.dtype });
        }
        let bytes = self.bytes()?;
        if bytes.is_empty() {
            return Ok(&[]);
        }
        // The bytes are aligned for the element type, and every constructor checks their length.
        bytemuck::try_cast_slice(bytes).map_err(|_| Error::ByteLength {
            dtype: self.dtype,
            shape: self.shape.as_slice().into(),
            expected: self.len() * size_of::<T>(),
            got: bytes.len(),
        })
    }

    /// Returns the booleans in row-major order.
    ///
    /// # Errors
    ///
    /// [`Error::DataType`] if the elements are not booleans; else as [`prepare`](Self::prepare).
    pub fn to_bools(&self) -> Result<Vec<bool>, Error> {
        if self.dtype != DataType::Bool {
            return Err(Error::DataType { expected: DataType::Bool, got: self.dtype });
        }
        memory::collected("copying a tensor", self.unaligned_bytes()?.iter().map(|&b| b != 0))
    }

    /// Returns the same elements with another shape, without copying them.
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
        Ok(TensorData { shape: Shape::from_slice(shape), ..self.clone() })
    }
}

impl std::fmt::Debug for TensorData {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TensorData({}{:?}, {} bytes)", self.dtype, self.shape, self.byte_len())
    }
}

/// Returns the product of the extents; `None` if it overflows.
///
/// The product is 0 if an extent is 0. Even then, the product of the other extents must not exceed 2^26, because strides are
/// computed from them, and operators iterate over the other axes even if there are no elements.
///
/// # Examples
///
/// ```
/// use bb_ir::element_count;
/// assert_eq!(element_count(&[]), Some(1));
/// assert_eq!(element_count(&[2, 3]), Some(6));
/// assert_eq!(element_count(&[0, 1 << 26]), Some(0));
/// assert_eq!(element_count(&[0, 1 << 27]), None);
/// assert_eq!(element_count(&[usize::MAX, 2]), None);
/// ```
pub fn element_count(shape: &[usize]) -> Option<usize> {
    const MOST_BESIDE_NONE: usize = 1 << 26;
    let others = shape.iter().filter(|&&d| d != 0).try_fold(1usize, |n, &d| n.checked_mul(d))?;
    if shape.contains(&0) {
        return (others <= MOST_BESIDE_NONE).then_some(0);
    }
    isize::try_from(others).ok()?;
    Some(others)
}

/// Copies `bytes` into a buffer aligned to [`ALIGNMENT`].
fn aligned_copy(op: &'static str, bytes: &[u8]) -> Result<Bytes, Error> {
    aligned(op, bytes.len(), |out| memory::extend(out, bytes))
}

/// Creates a buffer that is aligned to [`ALIGNMENT`]. `write` appends its bytes, at most `size`.
pub(crate) fn aligned(
    op: &'static str,
    size: usize,
    write: impl FnOnce(&mut Vec<u8>),
) -> Result<Bytes, Error> {
    // The buffer has room for `ALIGNMENT` more bytes, so that its start can be aligned by slicing, without unsafe code.
    let mut buffer: Vec<u8> = memory::room(op, size.saturating_add(ALIGNMENT))?;
    let offset = buffer.as_ptr().align_offset(ALIGNMENT);
    buffer.resize(offset, 0);
    write(&mut buffer);
    debug_assert!(buffer.len() <= offset + size, "a longer buffer would move and lose its alignment");
    Ok(Bytes::from(buffer).slice(offset..))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn own_buffers_are_aligned() {
        let t = TensorData::new(&[3], &[1u8, 2, 3]).expect("three elements");
        assert_eq!(t.bytes().unwrap().as_ptr().align_offset(ALIGNMENT), 0);
    }

    #[test]
    fn adopting_copies_only_what_is_misaligned() {
        let store = Bytes::from(vec![0u8; 64]);
        let start = store.as_ptr().align_offset(8);
        let aligned = store.slice(start..start + 8);
        let kept = TensorData::adopt(DataType::F32, &[2], aligned.clone()).expect("8 bytes");
        assert_eq!(kept.bytes().unwrap().as_ptr(), aligned.as_ptr());
        let off = store.slice(start + 1..start + 9);
        let moved = TensorData::adopt(DataType::F32, &[2], off.clone()).expect("8 bytes");
        assert_ne!(moved.bytes().unwrap().as_ptr(), off.as_ptr());
        assert_eq!(moved.as_slice::<f32>().expect("f32"), [0.0, 0.0]);
    }

    #[test]
    fn a_byte_that_is_no_bool_is_named_with_its_index() {
        for length in [1usize, 63, 4096, 4097, 10_000] {
            for (index, value) in [(0, 2), (length / 2, 255), (length - 1, 128)] {
                let good: Vec<u8> = (0..length).map(|i| (i % 2) as u8).collect();
                let bad = good.iter().enumerate().map(|(i, &b)| match i {
                    i if i == index => value,
                    i if i + 1 == length => 3,
                    _ => b,
                });
                let adopt = |bytes: Vec<u8>| TensorData::adopt(DataType::Bool, &[length], bytes.into());
                let error = adopt(bad.collect()).expect_err("a byte is no bool");
                adopt(good).expect("bools");
                assert!(
                    matches!(error, Error::BoolByte { index: i, value: v } if (i, v) == (index, value)),
                    "{length}: {error}"
                );
            }
        }
    }

    #[test]
    fn overflowing_extents_are_an_error() {
        for shape in [[usize::MAX / 2 + 1, 4, 1], [usize::MAX, 2, 0]] {
            let tensor = TensorData::adopt(DataType::F32, &shape, Bytes::new());
            assert!(matches!(tensor, Err(Error::TooLarge { .. })), "{shape:?}");
        }
    }
}
