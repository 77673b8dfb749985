//! Converts scalars to tensors of one element and back.

use crate::number::{Number, NumberError};
use crate::{DataType, Error, TensorData};
use bb_ir::convert::{Rounding, cast};

impl Number {
    /// Converts the scalar to a constant of rank 0 with this element type.
    ///
    /// An integer becomes an element of an integer type if it is in range, a boolean if it is 0 or 1, or the nearest
    /// float. A float becomes the nearest float of the type; it becomes an integer only if it is whole. A string
    /// becomes a string.
    ///
    /// # Errors
    ///
    /// [`Error::Number`] with [`NumberError::NoElement`] if the type cannot represent the value: it is out of range,
    /// fractional, infinite or NaN, or exactly one of value and type is a string. The same error for all types except
    /// `f16`, `bf16`, `f32`, `f64`, the integers of 8 to 64 bits, `bool` and strings.
    pub fn to_tensor(&self, dtype: DataType) -> Result<TensorData, Error> {
        let refused = || Error::from(NumberError::NoElement { value: self.clone(), dtype });
        let takes =
            dtype.is_float() || dtype.is_integer() || matches!(dtype, DataType::Bool | DataType::String);
        let wide = match self {
            _ if !takes => return Err(refused()),
            Number::Text(text) if dtype == DataType::String => {
                return Ok(TensorData::strings(&[], &[text.as_str()])?);
            }
            Number::Text(_) => return Err(refused()),
            _ if dtype == DataType::String => return Err(refused()),
            Number::Float(value) if !value.is_finite() => return Err(refused()),
            Number::Float(value) if !dtype.is_float() && value.fract() != 0.0 => return Err(refused()),
            Number::Float(value) => TensorData::scalar(*value),
            Number::Integer(value) => TensorData::scalar(*value),
        };
        let narrow = cast(&wide, dtype, Rounding::default()).map_err(|_| refused())?;
        // Converting back must return the same value. A float type may round the value, but not to infinity.
        let same = match &Number::of_tensor(&narrow)? {
            Number::Float(value) => value.is_finite(),
            back => back.equal(self).unwrap_or(false),
        };
        if same { Ok(narrow) } else { Err(refused()) }
    }

    /// Reads a tensor of one element as a scalar. Integers and booleans become an integer, floats a float, and strings
    /// a string.
    ///
    /// # Errors
    ///
    /// [`Error::Number`] with [`NumberError::NoNumber`] if the tensor does not have exactly one element, for an integer
    /// out of the range of `i64`, and for the types that [`to_tensor`](Self::to_tensor) does not support.
    pub fn of_tensor(x: &TensorData) -> Result<Number, Error> {
        let (dtype, shape) = (x.dtype(), x.shape());
        let refused = || Error::from(NumberError::NoNumber { dtype, shape: shape.into() });
        if x.len() != 1
            || !(dtype.is_float() || dtype.is_integer() || matches!(dtype, DataType::Bool | DataType::String))
        {
            return Err(refused());
        }
        if dtype == DataType::String {
            return Ok(Number::Text(x.iter_str().next().ok_or_else(refused)?.into_owned()));
        }
        if dtype == DataType::U64 {
            let &value = x.as_slice::<u64>()?.first().ok_or_else(refused)?;
            return i64::try_from(value).map(Number::Integer).map_err(|_| refused());
        }
        let wide = if dtype.is_float() { DataType::F64 } else { DataType::I64 };
        let x = cast(x, wide, Rounding::default())?;
        match wide {
            DataType::F64 => Ok(Number::Float(*x.as_slice::<f64>()?.first().ok_or_else(refused)?)),
            _ => Ok(Number::Integer(*x.as_slice::<i64>()?.first().ok_or_else(refused)?)),
        }
    }
}
