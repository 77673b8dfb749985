//! Converts elements between any two element types, as ONNX's `Cast` does. All backends use this module.
//!
//! [`cast`] converts a host tensor. [`cast_into`] converts elements in the layout that backends use: little-endian, in whole bytes. An
//! element of less than a byte takes one byte: unsigned integers are zero-extended, signed integers are sign-extended, and floats have
//! their code in the low bits. Neither function requires alignment.
//!
//! A number is rounded only once, from its exact value, for all pairs of types. This includes an `f64`, a 64-bit integer or a decimal
//! string that becomes a float of at most 16 bits. The only exception is a conversion to `f8e8m0`, which rounds to `f32` first, as in
//! ONNX's evaluator and ONNX Runtime.
//!
//! ONNX leaves some conversions undefined. This module defines them as follows:
//!
//! | conversion | result |
//! |---|---|
//! | float to integer | truncated. The conversion to at most 16 bits goes through `i32`, and the conversion to `u32` goes through `i64`; both keep the low bits. A value that does not fit the intermediate type, and NaN, become the least value of that type, as in the conversion instructions of x86-64 (and in NumPy on x86-64) |
//! | integer to integer | the low bits |
//! | anything to bool | false for zero of either sign, true for everything else, including NaN; a string is true unless it is empty |
//! | float to `f8e8m0` | the sign is ignored |
//! | NaN to a float without NaN | zero |
//! | complex to real | the real part |
//! | string to integer | a decimal integer, or the integral part of a decimal float; an error if it is out of range |
//!
//! Source: ONNX `Cast`, opset 25.

mod decimal;
mod minifloat;
mod numeric;
mod odd;
mod summary;
mod text;

pub use minifloat::{decode_table, encode_small_float};
pub use numeric::{cast_into, unpacked_size};
pub use odd::{bf16_from_f64, f16_from_f64, f64_to_odd};
pub use summary::Summary;
pub use text::{format_elements, format_tensor, parse_elements};

use crate::op::RoundMode;
use crate::{DataType, Error, TensorData, memory};
use bytes::Bytes;

/// Options for values that a float type of at most 8 bits cannot represent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rounding {
    /// Whether out-of-range values become the maximum finite value instead of NaN or infinity. This only applies to the five 8-bit floats;
    /// types without NaN and infinity always saturate.
    pub saturate: bool,
    /// How a cast to `f8e8m0` rounds; all other types round to nearest, ties to even.
    pub mode: RoundMode,
}

impl Default for Rounding {
    fn default() -> Rounding {
        Rounding { saturate: true, mode: RoundMode::default() }
    }
}

/// Casts every element of `x` to the element type `to`.
///
/// Shapes: the result has the shape of `x`. If `x` already has the type `to`, the result shares its bytes.
///
/// # Errors
///
/// [`Error::CastText`] if a string is not a number of the type `to`; [`Error::Unsupported`] between strings
/// and complex numbers; [`Error::TooLarge`] if the result's size overflows; [`Error::Memory`] if the system
/// has no memory for the result.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), bb_ir::Error> {
/// use bb_ir::{DataType, TensorData, convert::{Rounding, cast}};
/// let x = TensorData::new(&[3], &[1.5f32, -300.0, f32::INFINITY])?;
/// let small = cast(&x, DataType::F8E4M3FN, Rounding::default())?;
/// assert_eq!(small.bytes().unwrap()[..], [0x3C, 0xF9, 0x7E]);
/// # Ok(())
/// # }
/// ```
///
/// Source: ONNX `Cast`, opset 25.
pub fn cast(x: &TensorData, to: DataType, rounding: Rounding) -> Result<TensorData, Error> {
    let from = x.dtype();
    if from == to {
        return Ok(x.clone());
    }
    let too_large = || Error::TooLarge { dtype: to, shape: x.shape().into(), limit: usize::MAX, name: None };
    if to == DataType::String {
        return format_tensor(from, x.shape(), &x.unpacked()?);
    }
    let size = x.len().checked_mul(unpacked_size(to)).ok_or_else(too_large)?;
    let mut out = memory::filled("cast", 0u8, size)?;
    if from == DataType::String {
        parse_elements(x.iter_str(), to, rounding, &mut out)?;
    } else {
        cast_into(from, &x.unpacked()?, to, rounding, &mut out)?;
    }
    if to.is_sub_byte() {
        TensorData::pack(to, x.shape(), &out)
    } else {
        TensorData::adopt(to, x.shape(), Bytes::from(out))
    }
}
