//! Converts numbers to float parameters.

use super::{Number, NumberError};

/// A number type that float parameters accept: any integer or float type, or a [`Number`]. Values that `f64` cannot
/// represent are rounded to the nearest, ties to even.
///
/// The methods of values and handles accept it, as in `x.brightness(2)`.
pub trait FloatParam {
    /// Converts to the float.
    ///
    /// # Errors
    ///
    /// [`NumberError::NoFloat`] for a string.
    fn to_float(self) -> Result<f64, NumberError>;
}

macro_rules! float_params {
    ($($type:ty)+) => { $(
        impl FloatParam for $type {
            #[inline]
            fn to_float(self) -> Result<f64, NumberError> {
                Ok(self as f64)
            }
        }
    )+ };
}

float_params!(f64 f32 i8 i16 i32 i64 u8 u16 u32 u64 usize);

impl FloatParam for &Number {
    fn to_float(self) -> Result<f64, NumberError> {
        match self {
            Number::Float(value) => Ok(*value),
            Number::Integer(value) => Ok(*value as f64),
            Number::Text(_) => Err(NumberError::NoFloat { value: self.clone() }),
        }
    }
}

impl FloatParam for Number {
    fn to_float(self) -> Result<f64, NumberError> {
        (&self).to_float()
    }
}
