//! `Quant`: operations on quantised tensors, whose integers represent multiples of a scale, counted from a zero point.

mod elements;
mod scales;

pub use crate::family::quant::*;
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
pub use elements::{less_one, numbers, quantized};
pub use elements::{lookup, qlinear_add, qlinear_mul};
pub use scales::along;
pub use scales::{dequantize, quantize, scaled_matmul};

use crate::ext::{ConvOptions, math, types};
use crate::{DataType, Tensor};
use DataType::{I2, I4, I8, I16, I32, U2, U4, U8, U16};

bb_ir::for_each_quant!(crate::ext::bodies::bodies, Quant, QuantOp, quant);

pub use super::n_bits::matmul_n_bits;

/// The integer types of quantised tensors.
const WHOLE: &[DataType] = &[I2, I4, I8, I16, I32, U2, U4, U8, U16];

/// The integer types that elementwise operations support.
pub const NUMBERS: &[DataType] = &[I8, I16, U8, U16];

/// Returns the minimum and the maximum value of a quantised integer type.
pub fn bounds(dtype: DataType) -> Option<(f64, f64)> {
    let bits = dtype.bits() as i32;
    match dtype {
        U2 | U4 | U8 | U16 => Some((0.0, 2f64.powi(bits) - 1.0)),
        I2 | I4 | I8 | I16 | I32 => Some((-2f64.powi(bits - 1), 2f64.powi(bits - 1) - 1.0)),
        _ => None,
    }
}

/// Clamps rounded numbers to the range of a type, and casts them.
fn saturated(
    on: &Tracer,
    y: &TracedTensor,
    [least, most]: [f64; 2],
    to: DataType,
) -> Result<TracedTensor, TraceStop> {
    let y = on.clip(y, Some(&on.scalar_like(y, least)?), Some(&on.scalar_like(y, most)?))?;
    math::to(on, &y, to)
}

/// The body of [`Quant::quantize_linear`].
pub fn quantize_linear(
    on: &Tracer,
    x: &TracedTensor,
    scale: &TracedTensor,
    zero: Option<&TracedTensor>,
    to: DataType,
    QuantizeLinearOptions { precision, saturate }: QuantizeLinearOptions,
) -> Result<TracedTensor, TraceStop> {
    // Products with integers of at most 16 bits are exact in `f32`.
    let wide = precision.unwrap_or(DataType::F32);
    let quotient = on.div(&math::to(on, x, wide)?, &math::to(on, scale, wide)?)?;
    let shifted = |y: TracedTensor| -> Result<TracedTensor, TraceStop> {
        match zero {
            Some(zero) => on.add(&y, &math::to(on, zero, wide)?),
            None => Ok(y),
        }
    };
    match bounds(to) {
        Some((least, most)) => saturated(on, &shifted(on.round(&quotient)?)?, [least, most], to),
        None => on.cast(&shifted(quotient)?, to, saturate, bb_ir::op::RoundMode::Up),
    }
}

/// The body of [`Quant::dequantize_linear`].
pub fn dequantize_linear(
    on: &Tracer,
    x: &TracedTensor,
    scale: &TracedTensor,
    zero: Option<&TracedTensor>,
    to: DataType,
) -> Result<TracedTensor, TraceStop> {
    let wide = DataType::F32;
    let y = match zero {
        None => x.clone(),
        // Differences of 32-bit integers are not exact in `f32`, so they are computed in `i32`.
        Some(zero) if x.dtype() == I32 => on.sub(x, zero)?,
        Some(zero) => on.sub(&math::to(on, x, wide)?, &math::to(on, zero, wide)?)?,
    };
    let product = on.mul(&math::to(on, &y, wide)?, &math::to(on, scale, wide)?)?;
    math::to(on, &product, to)
}

/// The body of [`Quant::dynamic_quantize_linear`].
pub fn dynamic_quantize_linear(on: &Tracer, x: &TracedTensor) -> Result<Vec<TracedTensor>, TraceStop> {
    Ok(by_range(on, x)?.into())
}

/// Quantises by the range of the elements. Returns the quantised tensor, the scale and the zero point.
fn by_range(on: &Tracer, x: &TracedTensor) -> Result<[TracedTensor; 3], TraceStop> {
    let (zero, top) = (on.scalar_like(x, 0.0)?, on.scalar_like(x, 255.0)?);
    let least = on.minimum(&on.reduce_min(x, &[], false)?, &zero)?;
    let most = on.maximum(&on.reduce_max(x, &[], false)?, &zero)?;
    let scale = on.div(&on.sub(&most, &least)?, &top)?;
    let flat = on.equal(&scale, &zero)?;
    let divisor = on.r#where(&flat, &on.scalar_like(x, 1.0)?, &scale)?;
    let point = on.round(&on.clip(&on.neg(&on.div(&least, &divisor)?)?, Some(&zero), Some(&top))?)?;
    let y = on.add(&on.round(&on.div(x, &divisor)?)?, &point)?;
    let y = math::to(on, &on.clip(&y, Some(&zero), Some(&top))?, U8)?;
    Ok([y, scale, math::to(on, &point, U8)?])
}

/// Returns a matrix of integers minus its zero point, as `i32`.
fn centred(
    on: &Tracer,
    x: &TracedTensor,
    zero: Option<&TracedTensor>,
    rows: bool,
) -> Result<TracedTensor, TraceStop> {
    types::take("matmul_integer", x, WHOLE)?;
    less_zero(on, x, zero, rows, I32)
}

/// Returns a matrix minus its zero point, in the type `wide`. A vector has one zero point per row or per column.
pub fn less_zero(
    on: &Tracer,
    x: &TracedTensor,
    zero: Option<&TracedTensor>,
    rows: bool,
    wide: DataType,
) -> Result<TracedTensor, TraceStop> {
    let x = math::to(on, x, wide)?;
    let Some(zero) = zero else { return Ok(x) };
    let zero = math::to(on, zero, wide)?;
    on.sub(
        &x,
        &match zero.rank() {
            0 => zero,
            _ if zero.shape().iter().all(|&extent| extent == 1) => on.reshape(&zero, &[])?,
            1 if rows && x.rank() > 1 => on.unsqueeze(&zero, &[1])?,
            _ => zero,
        },
    )
}

/// The body of [`Quant::matmul_integer`].
pub fn matmul_integer(
    on: &Tracer,
    a: &TracedTensor,
    b: &TracedTensor,
    a_zero: Option<&TracedTensor>,
    b_zero: Option<&TracedTensor>,
) -> Result<TracedTensor, TraceStop> {
    on.matmul(&centred(on, a, a_zero, true)?, &centred(on, b, b_zero, false)?)
}

/// The body of [`Quant::dynamic_matmul`].
pub fn dynamic_matmul(
    on: &Tracer,
    x: &TracedTensor,
    b: &TracedTensor,
    b_scale: &TracedTensor,
    b_zero: Option<&TracedTensor>,
    bias: Option<&TracedTensor>,
) -> Result<TracedTensor, TraceStop> {
    let [a, scale, zero] = by_range(on, x)?;
    let scale = on.mul(&scale, b_scale)?;
    let product = on.matmul(&centred(on, &a, Some(&zero), true)?, &centred(on, b, b_zero, false)?)?;
    let product = on.mul(&math::to(on, &product, scale.dtype())?, &scale)?;
    match bias {
        Some(bias) => on.add(&product, bias),
        None => Ok(product),
    }
}

/// The body of [`Quant::conv_integer`].
pub fn conv_integer(
    on: &Tracer,
    x: &TracedTensor,
    w: &TracedTensor,
    bias: Option<&TracedTensor>,
    x_zero: Option<&TracedTensor>,
    w_zero: Option<&TracedTensor>,
    ConvIntegerOptions { strides, pads, dilations, group }: ConvIntegerOptions<'_>,
) -> Result<TracedTensor, TraceStop> {
    let less =
        |x: &TracedTensor, zero: Option<&TracedTensor>, each: bool| -> Result<TracedTensor, TraceStop> {
            types::take("conv_integer", x, WHOLE)?;
            let x = math::to(on, x, I32)?;
            let Some(zero) = zero else { return Ok(x) };
            let zero = math::to(on, zero, I32)?;
            let trailing: Vec<i64> = (1..x.rank() as i64).collect();
            let several = each && zero.rank() == 1 && zero.shape() != [1] && !trailing.is_empty();
            on.sub(&x, &if several { on.unsqueeze(&zero, &trailing)? } else { on.reshape(&zero, &[])? })
        };
    let (x, w) = (less(x, x_zero, false)?, less(w, w_zero, true)?);
    on.conv(&x, &w, bias, ConvOptions { strides, pads, dilations, group })
}

/// The body of [`Quant::qlinear_conv`].
#[expect(clippy::too_many_arguments, reason = "the operands of the operation")]
pub fn qlinear_conv(
    on: &Tracer,
    x: &TracedTensor,
    w: &TracedTensor,
    bias: Option<&TracedTensor>,
    x_zero: &TracedTensor,
    w_zero: &TracedTensor,
    scale: &TracedTensor,
    y_scale: &TracedTensor,
    y_zero: &TracedTensor,
    QLinearConvOptions { strides, pads, dilations, group }: QLinearConvOptions<'_>,
) -> Result<TracedTensor, TraceStop> {
    let options = ConvIntegerOptions { strides, pads, dilations, group };
    let product = on.conv_integer(x, w, bias, Some(x_zero), Some(w_zero), options)?;
    on.requantize(&product, scale, y_scale, y_zero)
}

/// The body of [`Quant::requantize`].
pub fn requantize(
    on: &Tracer,
    x: &TracedTensor,
    scale: &TracedTensor,
    y_scale: &TracedTensor,
    y_zero: &TracedTensor,
) -> Result<TracedTensor, TraceStop> {
    let wide = |x: &TracedTensor| math::to(on, x, DataType::F32);
    let y = on.div(&on.mul(&wide(x)?, &wide(scale)?)?, &wide(y_scale)?)?;
    let to = y_zero.dtype();
    match bounds(to) {
        Some((least, most)) => saturated(on, &on.add(&on.round(&y)?, &wide(y_zero)?)?, [least, most], to),
        None => math::to(on, &on.add(&y, &wide(y_zero)?)?, to),
    }
}
