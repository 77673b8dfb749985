//! Powers. The base and the exponent may have different types.
//!
//! If one operand is a float and the other an integer, the power is computed in `f64` and then converted to the
//! base's type like a cast.

use super::elementwise::{self, joint, results};
use super::{convert, unsupported};
use crate::array::Array;
use crate::error::Result;
use crate::kernels::elementwise::integer_power;
use crate::kernels::op::Binary;
use crate::layout::{for_each_index, innermost};
use crate::pace::Pace;
use crate::pool::Pool;
use bb::ir::{Error, infer};
use bb::{DataType, Primitive, RoundMode, Tensor};
use std::sync::Arc;

/// Raises `a` to the power `b`.
pub(crate) fn pow(pool: &Arc<Pool>, a: &Array, b: &Array) -> Result<Array> {
    let op = Primitive::Pow;
    let (base, exponent) = (a.dtype(), b.dtype());
    if base == exponent && base.is_float() {
        match small_power(b) {
            // Squares of `f32` are exact in `f64` and cubes nearly so; only the final conversion rounds.
            Some(2.0) if base == DataType::F32 => {
                return elementwise::map_f32(pool, a, |x| (f64::from(x) * f64::from(x)) as f32);
            }
            Some(3.0) if base == DataType::F32 => {
                return elementwise::map_f32(pool, a, |x| {
                    let x = f64::from(x);
                    (x * x * x) as f32
                });
            }
            _ => {}
        }
        return elementwise::binary(pool, Binary::Pow, a, b);
    }
    for (i, dtype) in [base, exponent].into_iter().enumerate() {
        if !infer::accepts(op, i, dtype) {
            return Err(unsupported("pow", dtype));
        }
    }
    if base.is_integer() && exponent.is_integer() {
        let unsigned = exponent == DataType::U64;
        let wide = if unsigned { DataType::U64 } else { DataType::I64 };
        let b = convert::cast(pool, b, wide, true, RoundMode::Up)?;
        if !unsigned {
            pool.run(|| refuse_reciprocal_of_zero(a, &b))??;
        }
        let kernel = integer_power(base, unsigned).ok_or_else(|| unsupported("pow", base))?;
        let shape = infer::broadcast("pow", &[a.shape(), b.shape()])?;
        let dims = joint([a, &b], &shape);
        // SAFETY: the kernel was chosen for these two types, and the operands have elements at every index of `dims`.
        return unsafe { results(pool, &kernel, base, shape, &dims, [a.ptr(), b.ptr()]) };
    }
    let [a, b] = [a, b].map(|x| convert::cast(pool, x, DataType::F64, true, RoundMode::Up));
    let power = elementwise::binary(pool, Binary::Pow, &a?, &b?)?;
    convert::cast(pool, &power, base, true, RoundMode::Up)
}

/// Returns the exponent if it is an `f32` scalar.
fn small_power(b: &Array) -> Option<f32> {
    // SAFETY: the array has one element of this type.
    (b.shape().is_empty() && b.dtype() == DataType::F32).then(|| unsafe { *b.ptr().cast::<f32>() })
}

/// Returns an error if the power is the reciprocal of 0 for any element. `a` is of type `i32` or `i64`, and `b` of
/// type `i64`.
fn refuse_reciprocal_of_zero(a: &Array, b: &Array) -> Result<()> {
    let shape = infer::broadcast("pow", &[a.shape(), b.shape()])?;
    let dims = joint([a, b], &shape);
    let (outer, row) = innermost(&dims);
    let narrow = a.dtype() == DataType::I32;
    let mut refused = false;
    let mut pace = Pace::new();
    for_each_index(outer, |[i, j]| {
        pace.step(row.extent);
        let [sa, sb] = row.strides;
        refused |= (0..row.extent.cast_signed()).any(|k| {
            let (i, j) = (i + k * sa, j + k * sb);
            // SAFETY: `i` and `j` are indices of the operands, which have the types named above.
            unsafe {
                let zero = if narrow {
                    *a.ptr().cast::<i32>().offset(i) == 0
                } else {
                    *a.ptr().cast::<i64>().offset(i) == 0
                };
                zero && *b.ptr().cast::<i64>().offset(j) < 0
            }
        });
    });
    if refused { Err(Error::DivisionByZero { op: "pow" }.into()) } else { Ok(()) }
}
