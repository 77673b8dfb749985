//! Converts tensors to rten values and back.

use bb::{DataType, TensorData};
use rten::{Value, ValueView};
use rten_tensor::prelude::*;
use rten_tensor::{Tensor, TensorView};

/// The reason why a tensor cannot be converted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TensorError {
    /// A 64-bit integer does not fit into 32 bits.
    #[error("{number} does not fit into the 32-bit integers of rten")]
    TooWide {
        /// The integer.
        number: i64,
        /// The missing element type, as an error.
        #[source]
        source: bb::ir::Error,
    },

    /// rten does not support this element type.
    #[error("rten has no element type {0}")]
    Type(DataType),

    /// An input is not a tensor.
    #[error("expected a tensor, got {0}")]
    NotTensor(&'static str),

    /// rten returned another type than the model declares.
    #[error("expected {expected}, got a value of rten's type {got}")]
    Answer {
        /// The element type of the output.
        expected: DataType,
        /// The type that rten returned.
        got: String,
    },

    /// The elements do not fit the shape.
    #[error("the elements do not fit the shape")]
    Shape,

    /// The elements could not be read or written.
    #[error(transparent)]
    Elements(#[from] bb::Error),
}

/// A tensor as an input of rten: borrowed, or converted to 32-bit integers.
pub(crate) enum RtenInput<'a> {
    AsIs(&'a TensorData),
    Ints(&'a TensorData, Vec<i32>),
}

impl<'a> RtenInput<'a> {
    /// Borrows a tensor, or narrows its elements if rten lacks its element type.
    pub(crate) fn new(x: &'a TensorData) -> Result<RtenInput<'a>, TensorError> {
        match x.dtype() {
            DataType::I64 => {
                let wide = x.as_slice::<i64>().map_err(bb::Error::from)?;
                let narrow = wide.iter().map(|&number| {
                    i32::try_from(number).map_err(|_| TensorError::TooWide {
                        number,
                        source: bb::ir::Error::Unsupported { op: "rten", dtype: DataType::I64 },
                    })
                });
                Ok(RtenInput::Ints(x, narrow.collect::<Result<_, _>>()?))
            }
            DataType::Bool => {
                let truths = x.to_bools().map_err(bb::Error::from)?;
                Ok(RtenInput::Ints(x, truths.into_iter().map(i32::from).collect()))
            }
            _ => Ok(RtenInput::AsIs(x)),
        }
    }

    /// Returns the tensor as a view for rten.
    pub(crate) fn view(&self) -> Result<ValueView<'_>, TensorError> {
        fn of<'a, T>(x: &TensorData, elements: &'a [T]) -> Result<TensorView<'a, T>, TensorError> {
            TensorView::try_from_data(x.shape(), elements).map_err(|_| TensorError::Shape)
        }
        match self {
            RtenInput::Ints(x, elements) => Ok(ValueView::Int32Tensor(of(x, elements)?)),
            RtenInput::AsIs(x) => Ok(match x.dtype() {
                DataType::F32 => ValueView::FloatTensor(of(x, x.as_slice().map_err(bb::Error::from)?)?),
                DataType::I32 => ValueView::Int32Tensor(of(x, x.as_slice().map_err(bb::Error::from)?)?),
                DataType::I8 => ValueView::Int8Tensor(of(x, x.as_slice().map_err(bb::Error::from)?)?),
                DataType::U8 => ValueView::UInt8Tensor(of(x, x.as_slice().map_err(bb::Error::from)?)?),
                other => return Err(TensorError::Type(other)),
            }),
        }
    }
}

/// Converts a result of rten to a host tensor of this element type.
pub(crate) fn taken(x: Value, dtype: DataType) -> Result<TensorData, TensorError> {
    fn dense<T: bb::Element + Copy>(x: Tensor<T>) -> Result<TensorData, TensorError> {
        let shape = x.shape().to_vec();
        Ok(TensorData::new(&shape, &x.into_data()).map_err(bb::Error::from)?)
    }
    match (x, dtype) {
        (Value::FloatTensor(x), DataType::F32) => dense(x),
        (Value::Int32Tensor(x), DataType::I32) => dense(x),
        (Value::Int8Tensor(x), DataType::I8) => dense(x),
        (Value::UInt8Tensor(x), DataType::U8) => dense(x),
        (Value::Int32Tensor(x), DataType::I64) => dense(x.map(|n| i64::from(*n))),
        (Value::Int32Tensor(x), DataType::Bool) => {
            let shape = x.shape().to_vec();
            let truths: Vec<bool> = x.iter().map(|n| *n != 0).collect();
            Ok(TensorData::bools(&shape, &truths).map_err(bb::Error::from)?)
        }
        (other, expected) => Err(TensorError::Answer { expected, got: other.dtype().to_string() }),
    }
}
