//! The size of values in bytes, and the limit on it.

use super::Tensor;
use crate::Error;
use bb_ir::DataType;

/// Returns the number of bytes of a tensor's elements; `usize::MAX` if the number overflows.
///
/// A string counts as one byte here. Its characters are counted only on the host, where they are known.
#[inline]
pub(crate) fn bytes_of(dtype: DataType, shape: &[usize]) -> usize {
    let elements = bb_ir::element_count(shape).unwrap_or(usize::MAX);
    match dtype {
        DataType::String => elements,
        dtype => dtype.bytes_for(elements).unwrap_or(usize::MAX),
    }
}

/// The size of a tensor without its elements, in bytes. Without this constant, the size of a sequence of a million empty tensors would be
/// 0.
const TENSOR: usize = 64;

/// Returns the size of a tensor in bytes, including the tensor itself.
pub fn tensor_bytes<T: Tensor>(x: &T) -> usize {
    bytes_of(x.dtype(), x.shape()).saturating_add(TENSOR)
}

/// Returns how many elements of a type fit into a number of bytes, as [`bytes_of`] counts.
pub(crate) fn most_elements(dtype: DataType, bytes: usize) -> usize {
    match dtype {
        DataType::String => bytes,
        dtype => bytes.saturating_mul(8) / dtype.bits(),
    }
}

/// Returns an error if a value exceeds the limit on the bytes of one value.
///
/// # Errors
///
/// [`bb_ir::Error::TooLarge`].
pub fn check_value(dtype: DataType, shape: &[usize], value_bytes: usize) -> Result<(), Error> {
    if bb_ir::element_count(shape).is_some_and(|elements| elements <= most_elements(dtype, value_bytes)) {
        return Ok(());
    }
    Err(too_large(dtype, shape, value_bytes))
}

/// Returns the error for a value that exceeds the limit on the bytes of one value.
#[cold]
pub(crate) fn too_large(dtype: DataType, shape: &[usize], value_bytes: usize) -> Error {
    let (shape, name) = (shape.into(), Some("value_bytes"));
    Error::from(bb_ir::Error::TooLarge { dtype, shape, limit: value_bytes, name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_agree_with_the_limit() {
        let cases =
            [(DataType::F32, 3, 12), (DataType::U4, 3, 2), (DataType::Bool, 3, 3), (DataType::String, 3, 3)];
        for (dtype, n, bytes) in cases {
            assert_eq!(bytes_of(dtype, &[n]), bytes, "{dtype}");
            assert!(check_value(dtype, &[n], bytes).is_ok(), "{dtype}");
            assert!(check_value(dtype, &[n], bytes - 1).is_err(), "{dtype}");
        }
        assert_eq!(bytes_of(DataType::F32, &[usize::MAX, 2]), usize::MAX);
        assert!(check_value(DataType::F32, &[usize::MAX, 2], usize::MAX).is_err());
        assert!(check_value(DataType::F32, &[1 << 26, 0], 0).is_ok());
        assert!(
            check_value(DataType::F32, &[1 << 27, 0], 0).is_err(),
            "more than a shape without elements may have"
        );
    }
}
