//! Quantisation: integers that stand for multiples of a scale.

use super::call::{Call, OpResult, one};
use super::infer;
use super::rows::operators;
use crate::ext::{Ops, math};
use crate::{DataType, Error, Tensor};
use bb_ir::Axis;

operators! {
    "" {
        DequantizeLinear => Primitives(dequantize), infer: By(infer::elements::dequantize);
        DynamicQuantizeLinear => Primitives(dynamic_quantize), infer: By(infer::elements::dynamic_quantize);
        MatMulInteger => Primitives(matmul_integer), infer: By(infer::products::matmul_integer);
        QLinearConv => Primitives(qlinear_conv), infer: By(infer::windows::qlinear_conv);
        QLinearMatMul => Primitives(qlinear_matmul), infer: By(infer::products::qlinear_matmul);
        QuantizeLinear => Primitives(quantize), infer: By(infer::elements::quantize);
    }
}

/// Gives a scale or zero point the dimensions of `x`: along `axis`, or by blocks along it.
fn along<B: Ops + ?Sized>(
    on: &B,
    call: &Call<'_, B::Tensor>,
    x: &B::Tensor,
    scale: &B::Tensor,
) -> Result<B::Tensor, B::Error> {
    let (axis, block) = (call.int_or("axis", 1)?, call.int_or("block_size", 0)?);
    if scale.rank() == 0 || (scale.rank() == 1 && scale.shape() == [1]) {
        return on.reshape(scale, &[]);
    }
    let axis = Axis::new(axis, x.rank()).map_err(Error::from)?.get();
    if scale.rank() == 1 {
        let trailing: Vec<i64> = (1..(x.rank() - axis) as i64).collect();
        return if trailing.is_empty() { on.identity(scale) } else { on.unsqueeze(scale, &trailing) };
    }
    if block <= 0 {
        return Ok(scale.clone());
    }
    // Each scale serves the next `block` elements; the last block may be short.
    let extent = x.shape().get(axis).copied().unwrap_or(0) as i64;
    let indices: Vec<i64> = (0..extent).map(|i| i / block).collect();
    on.gather(scale, &on.host(&[indices.len()], &indices)?, axis as i64)
}

/// The least and the greatest value of a quantised integer type.
fn bounds(dtype: DataType) -> Option<(f64, f64)> {
    let bits = dtype.bits() as i32;
    match dtype {
        DataType::U2 | DataType::U4 | DataType::U8 | DataType::U16 => Some((0.0, 2f64.powi(bits) - 1.0)),
        DataType::I2 | DataType::I4 | DataType::I8 | DataType::I16 | DataType::I32 => {
            Some((-2f64.powi(bits - 1), 2f64.powi(bits - 1) - 1.0))
        }
        _ => None,
    }
}

/// `QuantizeLinear`: `round(x / scale) + zero`, within the type.
pub(super) fn quantize<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let zero = call.optional(2);
    let declared = call.int_if_given("output_dtype")?.filter(|&d| d != 0);
    let to = match (zero, declared) {
        (Some(zero), _) => zero.dtype(),
        (None, Some(_)) => call.dtype("output_dtype")?.unwrap_or(DataType::U8),
        (None, None) => DataType::U8,
    };
    // Products with integers of up to 16 bits are exact in `f32`.
    let precision = call.int_if_given("precision")?.filter(|&p| p != 0);
    let wide = match precision {
        Some(_) => call.dtype("precision")?.unwrap_or(DataType::F32),
        None => DataType::F32,
    };
    let scale = math::to(on, &along(on, call, x, scale)?, wide)?;
    let quotient = on.div(&math::to(on, x, wide)?, &scale)?;
    let shifted = |y: B::Tensor| -> Result<B::Tensor, B::Error> {
        match zero {
            Some(zero) => on.add(&y, &math::to(on, &along(on, call, x, zero)?, wide)?),
            None => Ok(y),
        }
    };
    let Some((least, most)) = bounds(to) else {
        let y = shifted(quotient)?;
        return Ok(one(on.cast(&y, to, call.flag("saturate", true)?, bb_ir::op::RoundMode::Up)?));
    };
    let y = shifted(on.round(&quotient)?)?;
    let y = on.clip(&y, Some(&on.scalar_like(&y, least)?), Some(&on.scalar_like(&y, most)?))?;
    Ok(one(math::to(on, &y, to)?))
}

/// `DequantizeLinear`: `(x - zero) * scale`.
pub(super) fn dequantize<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let to = match call.int_if_given("output_dtype")?.filter(|&d| d != 0) {
        Some(_) => call.dtype("output_dtype")?.unwrap_or(scale.dtype()),
        None => scale.dtype(),
    };
    let wide = DataType::F32;
    let mut y = match x.dtype() {
        // Differences of 32-bit integers need their own type.
        DataType::I32 => match call.optional(2) {
            Some(zero) => on.sub(x, &along(on, call, x, zero)?)?,
            None => x.clone(),
        },
        _ => math::to(on, x, wide)?,
    };
    if let (Some(zero), true) = (call.optional(2), x.dtype() != DataType::I32) {
        y = on.sub(&y, &math::to(on, &along(on, call, x, zero)?, wide)?)?;
    }
    let product = on.mul(&math::to(on, &y, wide)?, &math::to(on, &along(on, call, x, scale)?, wide)?)?;
    Ok(one(math::to(on, &product, to)?))
}

/// `DynamicQuantizeLinear`: to `u8`, by the range of the data, which includes 0.
pub(super) fn dynamic_quantize<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    Ok(by_range(on, call.input(0)?)?.into_iter().map(Some).collect())
}

/// Quantises to `u8` by the range of the data, which includes 0; with the scale and the zero point.
pub(super) fn by_range<B: Ops + ?Sized>(on: &B, x: &B::Tensor) -> Result<[B::Tensor; 3], B::Error> {
    let (zero, top) = (on.scalar_like(x, 0.0)?, on.scalar_like(x, 255.0)?);
    let least = on.minimum(&on.reduce_min(x, &[], false)?, &zero)?;
    let most = on.maximum(&on.reduce_max(x, &[], false)?, &zero)?;
    let scale = on.div(&on.sub(&most, &least)?, &top)?;
    let flat = on.equal(&scale, &zero)?;
    let divisor = on.r#where(&flat, &on.scalar_like(x, 1.0)?, &scale)?;
    let point = on.round(&on.clip(&on.neg(&on.div(&least, &divisor)?)?, Some(&zero), Some(&top))?)?;
    let y = on.add(&on.round(&on.div(x, &divisor)?)?, &point)?;
    let y = math::to(on, &on.clip(&y, Some(&zero), Some(&top))?, DataType::U8)?;
    Ok([y, scale, math::to(on, &point, DataType::U8)?])
}

/// A matrix in `wide`, less its zero point: one number, or one for each row (of `a`) or column (of `b`).
fn centred<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    zero: Option<&B::Tensor>,
    rows: bool,
    wide: DataType,
) -> Result<B::Tensor, B::Error> {
    let x = math::to(on, x, wide)?;
    let Some(zero) = zero else { return Ok(x) };
    let zero = math::to(on, zero, wide)?;
    let zero = if rows && zero.rank() == 1 && x.rank() > 1 { on.unsqueeze(&zero, &[1])? } else { zero };
    on.sub(&x, &zero)
}

/// `MatMulInteger`.
pub(super) fn matmul_integer<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let a = centred(on, call.input(0)?, call.optional(2), true, DataType::I32)?;
    let b = centred(on, call.input(1)?, call.optional(3), false, DataType::I32)?;
    Ok(one(on.matmul(&a, &b)?))
}

/// Scales a product to a quantised type; to integers it is rounded and saturates, to floats it is cast.
pub(super) fn requantized<B: Ops + ?Sized>(
    on: &B,
    product: &B::Tensor,
    scale: &B::Tensor,
    y_scale: &B::Tensor,
    y_zero: &B::Tensor,
) -> Result<B::Tensor, B::Error> {
    let wide = |x: &B::Tensor| math::to(on, x, DataType::F32);
    let y = on.div(&on.mul(&wide(product)?, &wide(scale)?)?, &wide(y_scale)?)?;
    let Some((least, most)) = bounds(y_zero.dtype()) else {
        return math::to(on, &on.add(&y, &wide(y_zero)?)?, y_zero.dtype());
    };
    let y = on.add(&on.round(&y)?, &wide(y_zero)?)?;
    let y = on.clip(&y, Some(&on.scalar_like(&y, least)?), Some(&on.scalar_like(&y, most)?))?;
    math::to(on, &y, y_zero.dtype())
}

/// `QLinearMatMul`.
pub(super) fn qlinear_matmul<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let (a, b) = (call.input(0)?, call.input(3)?);
    // Products of integers of 8 bits are exact in `i32`, those of floats in `f32`.
    let whole = bounds(a.dtype()).is_some() && bounds(b.dtype()).is_some();
    let wide = if whole { DataType::I32 } else { DataType::F32 };
    let a = centred(on, a, Some(call.input(2)?), true, wide)?;
    let b = centred(on, b, Some(call.input(5)?), false, wide)?;
    let a_scale = math::to(on, call.input(1)?, DataType::F32)?;
    let a_scale = if a_scale.rank() == 1 { on.unsqueeze(&a_scale, &[1])? } else { a_scale };
    let scale = on.mul(&a_scale, &math::to(on, call.input(4)?, DataType::F32)?)?;
    Ok(one(requantized(on, &on.matmul(&a, &b)?, &scale, call.input(6)?, call.input(7)?)?))
}

/// `QLinearConv`.
pub(super) fn qlinear_conv<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    Ok(one(plain_qlinear_conv(on, call, call.input(0)?)?))
}

/// A convolution of a quantised operand in place of the call's first one.
pub(super) fn plain_qlinear_conv<B: Ops + ?Sized>(
    on: &B,
    call: &Call<'_, B::Tensor>,
    x: &B::Tensor,
) -> Result<B::Tensor, B::Error> {
    let per_filter = |v: &B::Tensor, trailing: usize| -> Result<B::Tensor, B::Error> {
        if v.rank() == 0 || v.shape() == [1] {
            return on.reshape(v, &[]);
        }
        on.unsqueeze(v, &(1..=trailing as i64).collect::<Vec<_>>())
    };
    let wide = |x: &B::Tensor| math::to(on, x, DataType::I32);
    let spatial = x.rank().saturating_sub(2);
    let a = on.sub(&wide(x)?, &per_filter(&wide(call.input(2)?)?, 0)?)?;
    let b = on.sub(&wide(call.input(3)?)?, &per_filter(&wide(call.input(5)?)?, spatial + 1)?)?;
    let product = super::window::plain_conv(on, call, &a, &b, call.optional(8))?;
    let scale = on.mul(&per_filter(call.input(1)?, 0)?, &per_filter(call.input(4)?, spatial)?)?;
    let (y_scale, y_zero) = (per_filter(call.input(6)?, 0)?, per_filter(call.input(7)?, 0)?);
    requantized(on, &product, &scale, &y_scale, &y_zero)
}
