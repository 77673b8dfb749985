//! Element-wise operations on quantised tensors, and lookup tables.

use super::NUMBERS;
use crate::ext::{math, types};
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{DataType, Error, Tensor};
use DataType::{I8, I32, U8};

/// Returns the dequantized elements of a tensor, with one scale and zero point.
pub fn numbers(
    on: &Tracer,
    x: &TracedTensor,
    scale: &TracedTensor,
    zero: Option<&TracedTensor>,
) -> Result<TracedTensor, TraceStop> {
    let wide = math::to(on, &less_one(on, x, zero)?, DataType::F32)?;
    on.mul(&wide, &on.reshape(scale, &[])?)
}

/// Returns a tensor minus its zero point, as `i32`. The zero point is a scalar or broadcasts to the tensor.
pub fn less_one(
    on: &Tracer,
    x: &TracedTensor,
    zero: Option<&TracedTensor>,
) -> Result<TracedTensor, TraceStop> {
    types::take("dequantize", x, NUMBERS)?;
    let wide = math::to(on, x, I32)?;
    let Some(zero) = zero else { return Ok(wide) };
    types::take("dequantize", zero, NUMBERS)?;
    let zero = math::to(on, zero, I32)?;
    let single = zero.shape().iter().all(|&extent| extent == 1);
    on.sub(&wide, &if single { on.reshape(&zero, &[])? } else { zero })
}

/// Quantises with one scale and zero point.
pub fn quantized(
    on: &Tracer,
    y: &TracedTensor,
    scale: &TracedTensor,
    zero: &TracedTensor,
) -> Result<TracedTensor, TraceStop> {
    let unit = on.scalar_like(y, 1.0)?;
    on.requantize(y, &unit, &on.reshape(scale, &[])?, &on.reshape(zero, &[])?)
}

/// The body of [`Quant::qlinear_add`](crate::ext::Quant::qlinear_add).
#[expect(clippy::too_many_arguments, reason = "the operands of the operation")]
pub fn qlinear_add(
    on: &Tracer,
    a: &TracedTensor,
    a_scale: &TracedTensor,
    a_zero: &TracedTensor,
    b: &TracedTensor,
    b_scale: &TracedTensor,
    b_zero: &TracedTensor,
    y_scale: &TracedTensor,
    y_zero: &TracedTensor,
) -> Result<TracedTensor, TraceStop> {
    let y = on.add(&numbers(on, a, a_scale, Some(a_zero))?, &numbers(on, b, b_scale, Some(b_zero))?)?;
    quantized(on, &y, y_scale, y_zero)
}

/// The body of [`Quant::qlinear_mul`](crate::ext::Quant::qlinear_mul).
#[expect(clippy::too_many_arguments, reason = "the operands of the operation")]
pub fn qlinear_mul(
    on: &Tracer,
    a: &TracedTensor,
    a_scale: &TracedTensor,
    a_zero: &TracedTensor,
    b: &TracedTensor,
    b_scale: &TracedTensor,
    b_zero: &TracedTensor,
    y_scale: &TracedTensor,
    y_zero: &TracedTensor,
) -> Result<TracedTensor, TraceStop> {
    let y = on.mul(&numbers(on, a, a_scale, Some(a_zero))?, &numbers(on, b, b_scale, Some(b_zero))?)?;
    quantized(on, &y, y_scale, y_zero)
}

/// The body of [`Quant::lookup`](crate::ext::Quant::lookup).
pub fn lookup(on: &Tracer, x: &TracedTensor, table: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    types::take("lookup", x, &[U8, I8])?;
    if table.shape() != [256] {
        let problem = format!("has the extents {:?}, expected 256", table.shape());
        return crate::ext::fail(Error::Operator { op: "lookup".to_owned(), part: "table".into(), problem });
    }
    let index = math::to(on, x, I32)?;
    let index = if x.dtype() == I8 { on.add(&index, &on.scalar_like(&index, 128.0)?)? } else { index };
    on.gather(table, &index, 0)
}
