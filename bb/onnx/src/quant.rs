//! Quantization: integers that represent multiples of a scale.

use super::rows::operators;
use super::window;
use bb_core::ext::quant::{bounds, less_zero};
use bb_core::ext::{ConvOptions, QLinearConvOptions, QuantizeLinearOptions, math};
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Tensor};
use bb_ir::graph::Dim;
use bb_ir::infer;
use bb_ir::infer::rule::{self, NodeFacts, Types};

operators! {
    "" {
        DequantizeLinear => Primitives(dequantize), infer: By(dequantize_types), becomes: QuantOp::DequantizeLinear, halves: Once;
        DynamicQuantizeLinear => Primitives(dynamic_quantize), infer: By(dynamic_quantize_types), becomes: QuantOp::DynamicQuantizeLinear, halves: Once;
        MatMulInteger => Primitives(matmul_integer), infer: By(matmul_integer_types), becomes: QuantOp::MatMulInteger, halves: Once;
        QLinearConv => Primitives(qlinear_conv), infer: By(qlinear_conv_types), becomes: QuantOp::QLinearConv, halves: Once;
        QLinearMatMul => Primitives(qlinear_matmul), infer: By(qlinear_matmul_types), halves: Once;
        QuantizeLinear => Primitives(quantize), infer: By(quantize_types), becomes: QuantOp::QuantizeLinear, halves: Once;
    }
}

/// Reshapes a scale or zero point to broadcast with `x`, along `axis` or by blocks along `axis`.
fn along(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    x: &TracedTensor,
    scale: &TracedTensor,
) -> Result<TracedTensor, TraceStop> {
    bb_core::ext::quant::along(on, x, scale, call.int_or("axis", 1)?, call.int_or("block_size", 0)?)
}

/// Infers the type of `QuantizeLinear`: the requested type, or else the zero point's type.
pub fn quantize_types(at: NodeFacts<'_>) -> Option<Types> {
    // ONNX treats 0 like an absent attribute here.
    let given = at.type_attribute("output_dtype", None);
    let zero_point = if at.has(2) { at.dtype(2) } else { Some(DataType::U8) };
    at.one(given.or(zero_point), at.same())
}

/// `QuantizeLinear`: `round(x / scale) + zero`, saturated to the range of the type.
pub fn quantize(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let zero = call.optional(2);
    let declared = match call.int_if_given("output_dtype")?.filter(|&d| d != 0) {
        Some(_) => call.dtype("output_dtype")?,
        None => None,
    };
    let to = match (zero.map(Tensor::dtype), declared) {
        (Some(own), Some(declared)) if own != declared => {
            let problem = format!("is {declared}, but the zero point has elements of {own}");
            return Err(call.wrong("output_dtype", problem).into());
        }
        (own, declared) => own.or(declared).unwrap_or(DataType::U8),
    };
    let precision = match call.int_if_given("precision")?.filter(|&p| p != 0) {
        Some(_) => call.dtype("precision")?,
        None => None,
    };
    let options = QuantizeLinearOptions { precision, saturate: call.flag("saturate", true)? };
    let zero = zero.map(|zero| along(on, call, x, zero)).transpose()?;
    Ok(one(on.quantize_linear(x, &along(on, call, x, scale)?, zero.as_ref(), to, options)?))
}

fn dequantize_types(at: NodeFacts<'_>) -> Option<Types> {
    // ONNX treats 0 like an absent attribute here.
    let given = at.type_attribute("output_dtype", None);
    at.one(given.or(at.dtype(1)), at.same())
}

/// `DequantizeLinear`: `(x - zero) * scale`.
pub fn dequantize(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let to = match call.int_if_given("output_dtype")?.filter(|&d| d != 0) {
        Some(_) => call.dtype("output_dtype")?.unwrap_or(scale.dtype()),
        None => scale.dtype(),
    };
    let zero = call.optional(2).map(|zero| along(on, call, x, zero)).transpose()?;
    Ok(one(on.dequantize_linear(x, &along(on, call, x, scale)?, zero.as_ref(), to)?))
}

fn dynamic_quantize_types(at: NodeFacts<'_>) -> Option<Types> {
    let scalar = |dtype| rule::tensor(Some(dtype), Some(Vec::new()));
    Some(vec![rule::tensor(Some(DataType::U8), at.same()), scalar(DataType::F32), scalar(DataType::U8)])
}

/// `DynamicQuantizeLinear`: quantizes to `u8`, by the range of the data extended to include 0.
pub(super) fn dynamic_quantize(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    Ok(on.dynamic_quantize_linear(call.input(0)?)?.into_iter().map(Some).collect())
}

/// Infers the extents of the matrix product of the operands 0 and `right`.
pub fn product_shape(at: NodeFacts<'_>, right: usize) -> Option<Vec<Dim>> {
    Some(infer::matmul(at.dims(0)?, at.dims(right)?).ok()?.shape.into_vec())
}

fn matmul_integer_types(at: NodeFacts<'_>) -> Option<Types> {
    at.one(Some(DataType::I32), product_shape(at, 1))
}

/// `MatMulInteger`.
pub(super) fn matmul_integer(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    Ok(one(on.matmul_integer(call.input(0)?, call.input(1)?, call.optional(2), call.optional(3))?))
}

fn qlinear_matmul_types(at: NodeFacts<'_>) -> Option<Types> {
    at.one(at.dtype(7), product_shape(at, 3))
}

/// `QLinearMatMul`.
pub(super) fn qlinear_matmul(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let (a, b) = (call.input(0)?, call.input(3)?);
    let (a_zero, b_zero) = (call.input(2)?, call.input(5)?);
    // Products of 8-bit integers are exact in `i32`, products of 8-bit floats in `f32`.
    let product = if bounds(a.dtype()).is_some() && bounds(b.dtype()).is_some() {
        on.matmul_integer(a, b, Some(a_zero), Some(b_zero))?
    } else {
        let a = less_zero(on, a, Some(a_zero), true, DataType::F32)?;
        on.matmul(&a, &less_zero(on, b, Some(b_zero), false, DataType::F32)?)?
    };
    // A scale or zero point of one element applies to the whole operand. Without dimensions, it adds none
    // to a product of vectors.
    let whole = |v: &TracedTensor| match v.shape().iter().all(|&extent| extent == 1) {
        true => on.reshape(v, &[]),
        false => on.identity(v),
    };
    let a_scale = whole(&math::to(on, call.input(1)?, DataType::F32)?)?;
    let a_scale = if a_scale.rank() == 1 { on.unsqueeze(&a_scale, &[1])? } else { a_scale };
    let scale = on.mul(&a_scale, &whole(&math::to(on, call.input(4)?, DataType::F32)?)?)?;
    Ok(one(on.requantize(&product, &scale, &whole(call.input(6)?)?, &whole(call.input(7)?)?)?))
}

fn qlinear_conv_types(at: NodeFacts<'_>) -> Option<Types> {
    at.one(at.dtype(7), at.dims(0).and_then(|x| window::conv_shape(at, x, 3)))
}

/// `QLinearConv`.
pub(super) fn qlinear_conv(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    Ok(one(plain_qlinear_conv(on, call, call.input(0)?)?))
}

/// Convolves the quantized tensor `x`, which replaces the first operand of the call.
pub fn plain_qlinear_conv(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    x: &TracedTensor,
) -> Result<TracedTensor, TraceStop> {
    let per_filter = |v: &TracedTensor, trailing: usize| -> Result<TracedTensor, TraceStop> {
        if v.rank() == 0 || v.shape() == [1] {
            return on.reshape(v, &[]);
        }
        on.unsqueeze(v, &(1..=trailing as i64).collect::<Vec<_>>())
    };
    let spatial = x.rank().saturating_sub(2);
    let scale = on.mul(&per_filter(call.input(1)?, 0)?, &per_filter(call.input(4)?, spatial)?)?;
    let (y_scale, y_zero) = (per_filter(call.input(6)?, 0)?, per_filter(call.input(7)?, 0)?);
    let (w, x_zero, w_zero) = (call.input(3)?, call.input(2)?, call.input(5)?);
    super::window::with_conv_options(on, call, x, w, |ConvOptions { strides, pads, dilations, group }| {
        let options = QLinearConvOptions { strides, pads, dilations, group };
        on.qlinear_conv(x, w, call.optional(8), x_zero, w_zero, &scale, &y_scale, &y_zero, options)
    })
}
