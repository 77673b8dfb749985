//! Converts values to ONNX Runtime values and back.

use crate::calls;
use bb::onnx::OnnxValue;
use bb::{DataType, Element, TensorData, bf16, f16};
use bb_engines::PortType;
use ort::session::SessionInputValue;
use ort::value::{DynTensorValueType, DynValue, PrimitiveTensorElementType, Tensor, TensorRef};

/// The reason why a tensor cannot be converted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TensorError {
    /// ONNX Runtime does not support this element type.
    #[error("tensors of {0} are not given to ONNX Runtime")]
    Type(DataType),

    /// A boolean has a byte other than 0 and 1.
    #[error("truth values have bytes other than 0 and 1")]
    Truth,

    /// The value is a map, or is absent without being an optional.
    #[error("expected a tensor, a sequence or an optional, got {0}")]
    Kind(&'static str),

    /// A string is not valid UTF-8.
    #[error(
        "expected strings of valid UTF-8 for ONNX Runtime, got other bytes in the string at index {index}"
    )]
    Utf8 {
        /// The index of the string.
        index: usize,
        /// The position of the bytes.
        #[source]
        source: std::str::Utf8Error,
    },

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

/// Converts a value to an input. Returns `None` for an absent optional, which is not passed to ONNX Runtime. `empty` creates an
/// empty sequence of tensors of an element type.
pub(crate) fn input<'a>(
    x: &OnnxValue<&'a TensorData>,
    ty: &PortType,
    empty: &impl Fn(DataType) -> Result<DynValue, TensorError>,
) -> Result<Option<SessionInputValue<'a>>, TensorError> {
    match (x, ty) {
        (OnnxValue::Absent, PortType::Optional(_)) => Ok(None),
        (x, PortType::Optional(of)) => input(x, of, empty),
        (OnnxValue::Tensor(x), _) => lent(x).map(Some),
        (OnnxValue::Sequence(items), ty) if items.is_empty() => Ok(Some(empty(ty.dtype())?.into())),
        (OnnxValue::Sequence(items), ty) => {
            let of = if let PortType::Sequence(of) = ty { of } else { ty };
            let items = items.iter().filter_map(|item| input(item, of, empty).transpose());
            Ok(Some(calls::sequence(items.collect::<Result<Vec<_>, _>>()?)?))
        }
        (other @ (OnnxValue::Absent | OnnxValue::Map { .. }), _) => Err(TensorError::Kind(other.kind())),
    }
}

/// Copies a result to the host. `None` is an absent optional.
pub(crate) fn output(x: Option<&DynValue>, ty: &PortType) -> Result<OnnxValue<TensorData>, TensorError> {
    let Some(x) = x else { return Ok(OnnxValue::Absent) };
    match ty {
        PortType::Tensor(dtype) => taken(x, *dtype).map(OnnxValue::Tensor),
        PortType::Optional(of) => output(Some(x), of),
        PortType::Sequence(of) => {
            let items = x.try_extract_sequence::<DynTensorValueType>()?;
            let items = items.into_iter().map(|item| output(Some(&item.into_dyn()), of));
            Ok(OnnxValue::Sequence(items.collect::<Result<_, _>>()?))
        }
    }
}

/// Converts a tensor to an input. Numbers and booleans are borrowed, strings are copied.
fn lent(x: &TensorData) -> Result<SessionInputValue<'_>, TensorError> {
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
    if x.dtype() == DataType::String {
        return Ok(Tensor::from_string_array((x.shape().to_vec(), &*texts(x)?))?.into());
    }
    by_type!(x.dtype(), elements(x))
}

/// Returns the strings of a tensor.
fn texts(x: &TensorData) -> Result<Vec<String>, TensorError> {
    let text = |(index, bytes)| match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(source) => Err(TensorError::Utf8 { index, source }),
    };
    x.iter_bytes().enumerate().map(text).collect()
}

/// Copies a result to a host tensor.
fn taken(x: &DynValue, dtype: DataType) -> Result<TensorData, TensorError> {
    fn elements<T: Element + PrimitiveTensorElementType>(x: &DynValue) -> Result<TensorData, TensorError> {
        let (shape, elements) = x.try_extract_tensor::<T>()?;
        Ok(TensorData::new(&extents(shape), elements).map_err(bb::Error::from)?)
    }
    if dtype == DataType::Bool {
        let (shape, truths) = x.try_extract_tensor::<bool>()?;
        return Ok(TensorData::bools(&extents(shape), truths).map_err(bb::Error::from)?);
    }
    if dtype == DataType::String {
        let (shape, texts) = x.try_extract_strings()?;
        return Ok(TensorData::strings(&extents(shape), &texts).map_err(bb::Error::from)?);
    }
    by_type!(dtype, elements(x))
}

/// Converts extents. A tensor that exists has no negative extents.
fn extents(shape: &[i64]) -> Vec<usize> {
    shape.iter().map(|&extent| usize::try_from(extent).unwrap_or(0)).collect()
}
