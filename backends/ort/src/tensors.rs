//! Converts tensors to ONNX Runtime values and back.

use bb::{DataType, Element, TensorData, bf16, f16};
use ort::session::SessionInputValue;
use ort::value::{DynValue, PrimitiveTensorElementType, TensorRef};

/// The reason why a tensor cannot be converted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TensorError {
    /// ONNX Runtime does not support this element type.
    #[error("tensors of {0} are not given to ONNX Runtime")]
    Type(DataType),

    /// A boolean has a byte other than 0 and 1.
    #[error("truth values have bytes other than 0 and 1")]
    Truth,

    /// ONNX Runtime refused the tensor.
    #[error(transparent)]
    Engine(#[from] ort::Error),

    /// The elements could not be read or written.
    #[error(transparent)]
    Elements(#[from] bb::Error),
}

/// Calls `$do::<T>` with the Rust type of an element type.
macro_rules! by_type {
    ($dtype:expr, $do:ident($($argument:expr),*)) => {
        match $dtype {
            DataType::F32 => $do::<f32>($($argument),*),
            DataType::F64 => $do::<f64>($($argument),*),
            DataType::F16 => $do::<f16>($($argument),*),
            DataType::BF16 => $do::<bf16>($($argument),*),
            DataType::I8 => $do::<i8>($($argument),*),
            DataType::I16 => $do::<i16>($($argument),*),
            DataType::I32 => $do::<i32>($($argument),*),
            DataType::I64 => $do::<i64>($($argument),*),
            DataType::U8 => $do::<u8>($($argument),*),
            DataType::U16 => $do::<u16>($($argument),*),
            DataType::U32 => $do::<u32>($($argument),*),
            DataType::U64 => $do::<u64>($($argument),*),
            other => Err(TensorError::Type(other)),
        }
    };
}

/// Borrows a tensor as an input, without a copy.
pub(crate) fn lent(x: &TensorData) -> Result<SessionInputValue<'_>, TensorError> {
    fn elements<T: Element + PrimitiveTensorElementType + std::fmt::Debug>(
        x: &TensorData,
    ) -> Result<SessionInputValue<'_>, TensorError> {
        let elements: &[T] = x.as_slice().map_err(bb::Error::from)?;
        Ok(TensorRef::from_array_view((x.shape().to_vec(), elements))?.into())
    }
    if x.dtype() == DataType::Bool {
        let truths: &[bool] = bytemuck::checked::try_cast_slice(x.bytes().map_err(bb::Error::from)?)
            .map_err(|_| TensorError::Truth)?;
        return Ok(TensorRef::from_array_view((x.shape().to_vec(), truths))?.into());
    }
    by_type!(x.dtype(), elements(x))
}

/// Copies a result to a host tensor.
pub(crate) fn taken(x: &DynValue, dtype: DataType) -> Result<TensorData, TensorError> {
    fn elements<T: Element + PrimitiveTensorElementType>(x: &DynValue) -> Result<TensorData, TensorError> {
        let (shape, elements) = x.try_extract_tensor::<T>()?;
        Ok(TensorData::new(&extents(shape), elements).map_err(bb::Error::from)?)
    }
    if dtype == DataType::Bool {
        let (shape, truths) = x.try_extract_tensor::<bool>()?;
        return Ok(TensorData::bools(&extents(shape), truths).map_err(bb::Error::from)?);
    }
    by_type!(dtype, elements(x))
}

/// Converts extents. A tensor that exists has no negative extents.
fn extents(shape: &[i64]) -> Vec<usize> {
    shape.iter().map(|&extent| usize::try_from(extent).unwrap_or(0)).collect()
}
