//! Powers, whose operands may differ in type.
//!
//! What neither operand's type computes is computed in `f64` and converted as a cast does.

use super::elementwise::{self, joint, rows};
use super::{convert, unsupported};
use crate::array::{Array, element_size};
use crate::error::Result;
use crate::kernels::binary::{self, Kind};
use crate::layout::for_each_index;
use crate::pool::Pool;
use bb::ir::{Error, infer};
use bb::{DataType, Primitive, RoundMode, Tensor};
use std::sync::Arc;

/// Raises `a` to the power `b`.
pub(crate) fn pow(pool: &Arc<Pool>, a: &Array, b: &Array) -> Result<Array> {
    let op = Primitive::Pow;
    let (base, exponent) = (a.dtype(), b.dtype());
    for (i, dtype) in [base, exponent].into_iter().enumerate() {
        if !infer::accepts(op, i, dtype) {
            return Err(unsupported("pow", dtype));
        }
    }
    if base == exponent && base.is_float() {
        return elementwise::binary(pool, op, Kind::Pow, a, b);
    }
    if base.is_integer() && exponent.is_integer() {
        let unsigned = exponent == DataType::U64;
        let wide = if unsigned { DataType::U64 } else { DataType::I64 };
        let b = convert::cast(pool, b, wide, true, RoundMode::Up)?;
        if !unsigned {
            refuse_reciprocal_of_zero(a, &b)?;
        }
        return match binary::integer_power(base, unsigned) {
            Some(kernel) => {
                let shape = infer::broadcast("pow", &[a.shape(), b.shape()])?;
                rows(pool, kernel, base, a, &b, shape)
            }
            None => Err(unsupported("pow", base)),
        };
    }
    let [a, b] = [a, b].map(|x| convert::cast(pool, x, DataType::F64, true, RoundMode::Up));
    let power = elementwise::binary(pool, op, Kind::Pow, &a?, &b?)?;
    convert::cast(pool, &power, base, true, RoundMode::Up)
}

/// Refuses 0 to a negative power; `b` is of `i64`.
fn refuse_reciprocal_of_zero(a: &Array, b: &Array) -> Result<()> {
    let shape = infer::broadcast("pow", &[a.shape(), b.shape()])?;
    let size = element_size(a.dtype()) as isize;
    let dims = joint([a, b], &shape);
    let mut refused = false;
    for_each_index(&dims, |[i, j]| {
        // SAFETY: `i` and `j` are indices of the operands; bases are `i32` or `i64`.
        unsafe {
            let negative = *b.ptr().cast::<i64>().offset(j) < 0;
            let at = a.ptr().offset(i * size);
            refused |= negative && if size == 4 { *at.cast::<i32>() == 0 } else { *at.cast::<i64>() == 0 };
        }
    });
    if refused { Err(Error::DivisionByZero { op: "pow" }.into()) } else { Ok(()) }
}
