//! The Rust types of host tensor elements.

use super::{TensorData, aligned_copy};
use crate::{DataType, Element, Error};

/// A Rust type of host tensor elements: every [`Element`], and `bool`.
///
/// The trait is sealed: only these types implement it.
pub trait HostElement: sealed::Sealed + Copy {
    /// The element type of tensors with elements of type `Self`.
    const TENSOR_DTYPE: DataType;

    /// Copies elements, which are in row-major order, into a new tensor.
    #[doc(hidden)]
    fn tensor(shape: &[usize], elements: &[Self]) -> Result<TensorData, Error>;
}

mod sealed {
    pub trait Sealed {}
    impl<T: crate::Element> Sealed for T {}
    impl Sealed for bool {}
}

impl<T: Element> HostElement for T {
    const TENSOR_DTYPE: DataType = T::DTYPE;

    fn tensor(shape: &[usize], elements: &[T]) -> Result<TensorData, Error> {
        let bytes: &[u8] = bytemuck::cast_slice(elements);
        TensorData::adopt(T::DTYPE, shape, aligned_copy("making a tensor", bytes)?)
    }
}

impl HostElement for bool {
    const TENSOR_DTYPE: DataType = DataType::Bool;

    fn tensor(shape: &[usize], elements: &[bool]) -> Result<TensorData, Error> {
        TensorData::bools(shape, elements)
    }
}
