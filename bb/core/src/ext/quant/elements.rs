//! Element-wise operations on quantised tensors, and tables of them.

use super::NUMBERS;
use crate::ext::{Ops, math, types};
use crate::{DataType, Error, Tensor};
use DataType::{I8, I32, U8};

/// Returns the dequantized numbers of a tensor, by one scale and zero point.
pub fn numbers<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    scale: &B::Tensor,
    zero: Option<&B::Tensor>,
) -> Result<B::Tensor, B::Error> {
    let wide = math::to(on, &less_one(on, x, zero)?, DataType::F32)?;
    on.mul(&wide, &on.reshape(scale, &[])?)
}

/// A tensor as `i32`, less its zero point: one number, or what broadcasts to the tensor.
pub fn less_one<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    zero: Option<&B::Tensor>,
) -> Result<B::Tensor, B::Error> {
    types::take::<B>("dequantize", x, NUMBERS)?;
    let wide = math::to(on, x, I32)?;
    let Some(zero) = zero else { return Ok(wide) };
    types::take::<B>("dequantize", zero, NUMBERS)?;
    let zero = math::to(on, zero, I32)?;
    let single = zero.shape().iter().all(|&extent| extent == 1);
    on.sub(&wide, &if single { on.reshape(&zero, &[])? } else { zero })
}

/// Quantises by one scale and zero point.
pub fn quantized<B: Ops + ?Sized>(
    on: &B,
    y: &B::Tensor,
    scale: &B::Tensor,
    zero: &B::Tensor,
) -> Result<B::Tensor, B::Error> {
    let unit = on.scalar_like(y, 1.0)?;
    on.requantize(y, &unit, &on.reshape(scale, &[])?, &on.reshape(zero, &[])?)
}

/// The body of [`Quant::qlinear_add`](crate::ext::Quant::qlinear_add).
#[expect(clippy::too_many_arguments, reason = "the operands of the operation")]
pub fn qlinear_add<B: Ops + ?Sized>(
    on: &B,
    a: &B::Tensor,
    a_scale: &B::Tensor,
    a_zero: &B::Tensor,
    b: &B::Tensor,
    b_scale: &B::Tensor,
    b_zero: &B::Tensor,
    y_scale: &B::Tensor,
    y_zero: &B::Tensor,
) -> Result<B::Tensor, B::Error> {
    let y = on.add(&numbers(on, a, a_scale, Some(a_zero))?, &numbers(on, b, b_scale, Some(b_zero))?)?;
    quantized(on, &y, y_scale, y_zero)
}

/// The body of [`Quant::qlinear_mul`](crate::ext::Quant::qlinear_mul).
#[expect(clippy::too_many_arguments, reason = "the operands of the operation")]
pub fn qlinear_mul<B: Ops + ?Sized>(
    on: &B,
    a: &B::Tensor,
    a_scale: &B::Tensor,
    a_zero: &B::Tensor,
    b: &B::Tensor,
    b_scale: &B::Tensor,
    b_zero: &B::Tensor,
    y_scale: &B::Tensor,
    y_zero: &B::Tensor,
) -> Result<B::Tensor, B::Error> {
    let y = on.mul(&numbers(on, a, a_scale, Some(a_zero))?, &numbers(on, b, b_scale, Some(b_zero))?)?;
    quantized(on, &y, y_scale, y_zero)
}

/// The body of [`Quant::lookup`](crate::ext::Quant::lookup).
pub fn lookup<B: Ops + ?Sized>(on: &B, x: &B::Tensor, table: &B::Tensor) -> Result<B::Tensor, B::Error> {
    types::take::<B>("lookup", x, &[U8, I8])?;
    if table.shape() != [256] {
        let problem = format!("has the extents {:?}, expected 256", table.shape());
        return crate::ext::fail::<B, _>(Error::Operator {
            op: "lookup".to_owned(),
            part: "table".into(),
            problem,
        });
    }
    let index = math::to(on, x, I32)?;
    let index = if x.dtype() == I8 { on.add(&index, &on.scalar_like(&index, 128.0)?)? } else { index };
    on.gather(table, &index, 0)
}
