//! `Quant`: operations on quantised tensors, whose integers stand for multiples of a scale, counted from a zero point.

mod elements;
mod scales;

pub use elements::{less_one, numbers, quantized};
pub use elements::{lookup, qlinear_add, qlinear_mul};
pub use scales::along;
pub use scales::{dequantize, quantize, scaled_matmul};

use crate::ext::{ConvOptions, Ops, math, types};
use crate::{DataType, Tensor};
use DataType::{I2, I4, I8, I16, I32, U2, U4, U8, U16};

crate::ext::family::family! { [
    /// Operations on quantised tensors, whose integers stand for multiples of a scale, counted from a zero point.
    Quant, QuantOp, quant]

    /// Computes `round(x / scale) + zero` within the range of the type `to`, that of `zero` if it is given.
    ///
    /// Shapes: `scale` and `zero` broadcast to `x`. Halves are rounded to even. To a float type, `x / scale + zero` is
    /// cast.
    ///
    /// Source: ONNX `QuantizeLinear`, opset 25.
    QuantizeLinear 25 = quantize_linear(x: Tensor, scale: Tensor, zero: Optional; to: Type) with options: QuantizeLinearOptions {
        /// The type in which the quotient is computed; `f32` if there is none.
        precision: OptType = None,
        /// Whether a float that is too large becomes the greatest of the type.
        saturate: Bool = true,
    } -> Tensor;

    /// Computes `(x - zero) * scale` in `f32`, and casts it to the type `to`.
    ///
    /// Shapes: `scale` and `zero` broadcast to `x`.
    ///
    /// Source: ONNX `DequantizeLinear`, opset 25.
    DequantizeLinear 25 = dequantize_linear(x: Tensor, scale: Tensor, zero: Optional; to: Type) -> Tensor;

    /// Quantises to `u8` by the range of the elements, which is extended to include 0. The results are the integers,
    /// the scale and the zero point.
    ///
    /// Source: ONNX `DynamicQuantizeLinear`, opset 11.
    DynamicQuantizeLinear 11 = dynamic_quantize_linear(x: Tensor) -> Tensors;

    /// Multiplies matrices of integers, from which their zero points are subtracted. The result is `i32`, and wraps.
    ///
    /// Shapes: those of `matmul`. A zero point is a scalar or one element; a vector with one element for each row of `a`
    /// or each column of `b`; or a tensor that broadcasts to the operand.
    ///
    /// Source: ONNX `MatMulInteger`, opset 10.
    MatMulInteger 10 = matmul_integer(a: Tensor, b: Tensor, a_zero: Optional, b_zero: Optional) -> Tensor;

    /// Quantises `x` by its range, multiplies it with a matrix of integers, scales the product, and adds the bias.
    ///
    /// Shapes: those of [`matmul_integer`](Self::matmul_integer). `b_scale` and `bias` broadcast to the product.
    ///
    /// Source: ONNX Runtime's `DynamicQuantizeMatMul`.
    DynamicMatMul 1 = dynamic_matmul(x: Tensor, b: Tensor, b_scale: Tensor, b_zero: Optional, bias: Optional) -> Tensor;

    /// Multiplies with a matrix of integers of few bits, whose columns are quantised by blocks.
    ///
    /// A column of the matrix is a row of `b`. Its numbers follow each other in blocks, from the low bits of each byte to the
    /// high ones, and the last block is filled up. A block stands for its integers, less its zero point, times its scale.
    /// `order` says for each number of a column the block whose scale and zero point it has, in place of its own.
    ///
    /// Shapes: `a: [.., inner]`, `b: [columns, blocks, block * bits / 8]` and `scales: [columns, blocks]` to
    /// `[.., columns]`. `zeros` are floats like `scales`, or `u8`, as packed as `b`: `[columns, bytes]`, where the blocks of
    /// each column start with a byte of their own. Without them the zero point is `2^(bits - 1)`. `order: [places]` has an
    /// integer for each place at least. Types: `a` is a float, `b` is `u8`, and `scales` are floats.
    ///
    /// Errors: `b` does not have blocks of this size.
    ///
    /// Source: ONNX Runtime's `MatMulNBits`.
    MatMulNBits 1 = matmul_n_bits(
        a: Tensor, b: Tensor, scales: Tensor, zeros: Optional, order: Optional
    ) with options: MatMulNBitsOptions {
        /// How many numbers each column has; 0 if the blocks have no others.
        inner: Int = 0,
        /// The bits of a number: 2, 4 or 8.
        bits: Int = 4,
        /// How many numbers a block has.
        block: Int = 32,
    } -> Tensor;

    /// Correlates integers with filters, after their zero points are subtracted. The result is `i32`, and wraps.
    ///
    /// Shapes: those of [`Nn::conv`](crate::ext::Nn::conv). `x_zero` has one element, `w_zero` has one or one for each filter. Padding
    /// is the zero point. `bias` is `i32`.
    ///
    /// Source: ONNX `ConvInteger`, opset 10.
    ConvInteger 10 = conv_integer(x: Tensor, w: Tensor, bias: Optional, x_zero: Optional, w_zero: Optional) with options: ConvIntegerOptions<'a> {
        /// As [`ConvOptions::strides`](crate::ext::ConvOptions::strides).
        strides: Ints = &[],
        /// As [`ConvOptions::pads`](crate::ext::ConvOptions::pads).
        pads: Ints = &[],
        /// As [`ConvOptions::dilations`](crate::ext::ConvOptions::dilations).
        dilations: Ints = &[],
        /// As [`ConvOptions::group`](crate::ext::ConvOptions::group).
        group: Int = 1,
    } -> Tensor;

    /// Computes [`requantize`](Self::requantize) of the result of [`conv_integer`](Self::conv_integer).
    ///
    /// Source: ONNX `QLinearConv`, opset 10.
    QLinearConv 10 = qlinear_conv(x: Tensor, w: Tensor, bias: Optional, x_zero: Tensor, w_zero: Tensor, scale: Tensor, y_scale: Tensor, y_zero: Tensor) with options: QLinearConvOptions<'a> {
        /// As [`ConvOptions::strides`](crate::ext::ConvOptions::strides).
        strides: Ints = &[],
        /// As [`ConvOptions::pads`](crate::ext::ConvOptions::pads).
        pads: Ints = &[],
        /// As [`ConvOptions::dilations`](crate::ext::ConvOptions::dilations).
        dilations: Ints = &[],
        /// As [`ConvOptions::group`](crate::ext::ConvOptions::group).
        group: Int = 1,
    } -> Tensor;

    /// Computes `round(x * scale / y_scale) + y_zero` in `f32`, within the range of the type of `y_zero`.
    ///
    /// Shapes: the last three operands broadcast to `x`. Halves are rounded to even. If `y_zero` is a float,
    /// `x * scale / y_scale + y_zero` is cast to its type.
    ///
    /// Source: ONNX `QLinearMatMul`, opset 21.
    Requantize 21 = requantize(x: Tensor, scale: Tensor, y_scale: Tensor, y_zero: Tensor) -> Tensor;

    /// Adds the numbers that two tensors stand for, and quantises the sums.
    ///
    /// Shapes: `a` and `b` broadcast to each other. Each scale and zero point has one element. Types: `i8`, `u8`, `i16` and `u16`.
    ///
    /// Source: ONNX Runtime's `QLinearAdd`.
    QLinearAdd 1 = qlinear_add(a: Tensor, a_scale: Tensor, a_zero: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor, y_scale: Tensor, y_zero: Tensor) -> Tensor;

    /// Multiplies the numbers that two tensors stand for, and quantises the products.
    ///
    /// Shapes and types: those of [`qlinear_add`](Self::qlinear_add).
    ///
    /// Source: ONNX Runtime's `QLinearMul`.
    QLinearMul 1 = qlinear_mul(a: Tensor, a_scale: Tensor, a_zero: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor, y_scale: Tensor, y_zero: Tensor) -> Tensor;

    /// Replaces each element by the entry of a table that it counts to, from the least element of its type on.
    ///
    /// Shapes: `table: [256]`; the result has those of `x`. Types: `x` is `u8` or `i8`.
    Lookup 1 = lookup(x: Tensor, table: Tensor) -> Tensor;

    /// Quantises floats by one scale for all, one for each entry along `axis`, or one for each block along `axis`:
    /// `round(x / scale) + zero` within the range of the type `to`, as [`quantize_linear`](Self::quantize_linear).
    ///
    /// Shapes: `scale` is `[]` or `[1]`; or `[n]` for the extent `n` along `axis`; or it has the extents of `x`, but
    /// `ceil(n / block)` along `axis`. `zero` has those of `scale`. Types: `to` is any integer of up to 16 bits, `i32`, or a float of
    /// 4 to 16 bits, and the type of `zero`.
    ///
    /// Errors: `scale` has other extents; `block` is negative, or 0 where `scale` has the rank of `x`.
    ///
    /// Source: ONNX `QuantizeLinear`, opset 25. Halves are rounded to even, as ONNX and PyTorch's `quantize_per_channel` round them.
    Quantize 25 = quantize(x: Tensor, scale: Tensor, zero: Optional; to: Type) with options: QuantizeOptions {
        /// The dimension along which scales differ. If it is negative, it counts from the end.
        axis: Int = 1,
        /// How many elements along `axis` share a scale that has the rank of `x`.
        block: Int = 0,
        /// As [`QuantizeLinearOptions::precision`].
        precision: OptType = None,
        /// As [`QuantizeLinearOptions::saturate`].
        saturate: Bool = true,
    } -> Tensor;

    /// Computes what integers stand for: `(x - zero) * scale`, with scales as [`quantize`](Self::quantize) has them.
    ///
    /// Shapes and errors: those of `quantize`. Types: `x` has those that `quantize` makes, and `to` is a float.
    ///
    /// Source: ONNX `DequantizeLinear`, opset 25.
    Dequantize 25 = dequantize(x: Tensor, scale: Tensor, zero: Optional; to: Type) with options: DequantizeOptions {
        /// As [`QuantizeOptions::axis`].
        axis: Int = 1,
        /// As [`QuantizeOptions::block`].
        block: Int = 0,
    } -> Tensor;

    /// Multiplies matrices of integers, or of floats of 8 bits and fewer, from which their zero points are subtracted; multiplies the
    /// product by both scales, and adds `bias`.
    ///
    /// Shapes: those of [`matmul_integer`](Self::matmul_integer). `a_scale` is `[]`, `[1]`, or has one for each row of `a`, `[m]`;
    /// `b_scale` likewise one for each column of `b`, `[n]`. `bias` broadcasts to the product. Types: the scales and `bias` are one
    /// float type, which is that of the result. Integers are added up in `i32`, floats in `f32`.
    ///
    /// Source: ONNX Runtime's `MatMulIntegerToFloat`; with floats, PyTorch's `torch._scaled_mm`, whose scales multiply alike.
    ScaledMatMul 1 = scaled_matmul(
        a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor, a_zero: Optional, b_zero: Optional, bias: Optional
    ) -> Tensor;
}

pub use super::n_bits::matmul_n_bits;

/// The integers that are quantised.
const WHOLE: &[DataType] = &[I2, I4, I8, I16, I32, U2, U4, U8, U16];

/// The integers that elementwise operations take.
pub const NUMBERS: &[DataType] = &[I8, I16, U8, U16];

/// The least and the greatest value of a quantised integer type.
pub fn bounds(dtype: DataType) -> Option<(f64, f64)> {
    let bits = dtype.bits() as i32;
    match dtype {
        U2 | U4 | U8 | U16 => Some((0.0, 2f64.powi(bits) - 1.0)),
        I2 | I4 | I8 | I16 | I32 => Some((-2f64.powi(bits - 1), 2f64.powi(bits - 1) - 1.0)),
        _ => None,
    }
}

/// Limits rounded numbers to the range of a type, and casts them.
fn saturated<B: Ops + ?Sized>(
    on: &B,
    y: &B::Tensor,
    [least, most]: [f64; 2],
    to: DataType,
) -> Result<B::Tensor, B::Error> {
    let y = on.clip(y, Some(&on.scalar_like(y, least)?), Some(&on.scalar_like(y, most)?))?;
    math::to(on, &y, to)
}

/// The body of [`Quant::quantize_linear`].
pub fn quantize_linear<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    scale: &B::Tensor,
    zero: Option<&B::Tensor>,
    to: DataType,
    QuantizeLinearOptions { precision, saturate }: QuantizeLinearOptions,
) -> Result<B::Tensor, B::Error> {
    // Products with integers of up to 16 bits are exact in `f32`.
    let wide = precision.unwrap_or(DataType::F32);
    let quotient = on.div(&math::to(on, x, wide)?, &math::to(on, scale, wide)?)?;
    let shifted = |y: B::Tensor| -> Result<B::Tensor, B::Error> {
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
pub fn dequantize_linear<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    scale: &B::Tensor,
    zero: Option<&B::Tensor>,
    to: DataType,
) -> Result<B::Tensor, B::Error> {
    let wide = DataType::F32;
    let y = match zero {
        None => x.clone(),
        // Differences of 32-bit integers need their own type.
        Some(zero) if x.dtype() == I32 => on.sub(x, zero)?,
        Some(zero) => on.sub(&math::to(on, x, wide)?, &math::to(on, zero, wide)?)?,
    };
    let product = on.mul(&math::to(on, &y, wide)?, &math::to(on, scale, wide)?)?;
    math::to(on, &product, to)
}

/// The body of [`Quant::dynamic_quantize_linear`].
pub fn dynamic_quantize_linear<B: Ops + ?Sized>(on: &B, x: &B::Tensor) -> Result<Vec<B::Tensor>, B::Error> {
    Ok(by_range(on, x)?.into())
}

/// Quantises by the range of the elements; with the scale and the zero point.
fn by_range<B: Ops + ?Sized>(on: &B, x: &B::Tensor) -> Result<[B::Tensor; 3], B::Error> {
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

/// A matrix of integers as `i32`, less its zero point.
fn centred<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    zero: Option<&B::Tensor>,
    rows: bool,
) -> Result<B::Tensor, B::Error> {
    types::take::<B>("matmul_integer", x, WHOLE)?;
    less_zero(on, x, zero, rows, I32)
}

/// A matrix in the type `wide`, less its zero point. A vector has one for each row, or one for each column.
pub fn less_zero<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    zero: Option<&B::Tensor>,
    rows: bool,
    wide: DataType,
) -> Result<B::Tensor, B::Error> {
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
pub fn matmul_integer<B: Ops + ?Sized>(
    on: &B,
    a: &B::Tensor,
    b: &B::Tensor,
    a_zero: Option<&B::Tensor>,
    b_zero: Option<&B::Tensor>,
) -> Result<B::Tensor, B::Error> {
    on.matmul(&centred(on, a, a_zero, true)?, &centred(on, b, b_zero, false)?)
}

/// The body of [`Quant::dynamic_matmul`].
pub fn dynamic_matmul<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    b: &B::Tensor,
    b_scale: &B::Tensor,
    b_zero: Option<&B::Tensor>,
    bias: Option<&B::Tensor>,
) -> Result<B::Tensor, B::Error> {
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
pub fn conv_integer<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    w: &B::Tensor,
    bias: Option<&B::Tensor>,
    x_zero: Option<&B::Tensor>,
    w_zero: Option<&B::Tensor>,
    ConvIntegerOptions { strides, pads, dilations, group }: ConvIntegerOptions<'_>,
) -> Result<B::Tensor, B::Error> {
    let less = |x: &B::Tensor, zero: Option<&B::Tensor>, each: bool| -> Result<B::Tensor, B::Error> {
        types::take::<B>("conv_integer", x, WHOLE)?;
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
pub fn qlinear_conv<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    w: &B::Tensor,
    bias: Option<&B::Tensor>,
    x_zero: &B::Tensor,
    w_zero: &B::Tensor,
    scale: &B::Tensor,
    y_scale: &B::Tensor,
    y_zero: &B::Tensor,
    QLinearConvOptions { strides, pads, dilations, group }: QLinearConvOptions<'_>,
) -> Result<B::Tensor, B::Error> {
    let options = ConvIntegerOptions { strides, pads, dilations, group };
    let product = on.conv_integer(x, w, bias, Some(x_zero), Some(w_zero), options)?;
    on.requantize(&product, scale, y_scale, y_zero)
}

/// The body of [`Quant::requantize`].
pub fn requantize<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    scale: &B::Tensor,
    y_scale: &B::Tensor,
    y_zero: &B::Tensor,
) -> Result<B::Tensor, B::Error> {
    let wide = |x: &B::Tensor| math::to(on, x, DataType::F32);
    let y = on.div(&on.mul(&wide(x)?, &wide(scale)?)?, &wide(y_scale)?)?;
    let to = y_zero.dtype();
    match bounds(to) {
        Some((least, most)) => saturated(on, &on.add(&on.round(&y)?, &wide(y_zero)?)?, [least, most], to),
        None => math::to(on, &on.add(&y, &wide(y_zero)?)?, to),
    }
}
