//! Operators on quantized tensors: integers that represent multiples of a scale.

use super::channels_last::{last_or_second, second};
use super::only;
use bb_core::error::NodePart;
use bb_core::ext::{math, quant, types};
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Tensor};
use bb_ir::graph::Dim;
use bb_ir::infer;
use bb_ir::infer::rule::{NodeFacts, Types};
use bb_onnx::shared::operators;
use bb_onnx::shared::quant::{self as onnx_quant, product_shape};
use bb_onnx::shared::{normalize, recurrent, window};

operators! {
    "com.microsoft" {
        DequantizeLinear => Primitives(dequantize), infer: By(dequantize_types), becomes: QuantOp::DequantizeLinear, halves: Once;
        DynamicQuantizeLSTM => Primitives(dynamic_quantize_lstm), infer: By(lstm_types), halves: Once;
        DynamicQuantizeMatMul => Primitives(dynamic_quantize_matmul), infer: By(scaled_product_types);
        MatMulInteger16 => Primitives(matmul_integer16), infer: By(matmul_integer16_types), halves: Once;
        MatMulIntegerToFloat => Primitives(matmul_integer_to_float), infer: By(scaled_product_types);
        QGemm => Primitives(q_gemm), infer: By(q_gemm_types), halves: Once;
        QLinearAdd => Primitives(qlinear_add), infer: By(element_types), becomes: QuantOp::QLinearAdd, halves: Once;
        QLinearAveragePool => Primitives(qlinear_average_pool), infer: By(average_pool_types), halves: Once;
        QLinearConcat => Primitives(concat), infer: By(concat_types), halves: Moves;
        QLinearConv => Primitives(conv), infer: By(conv_types), becomes: QuantOp::QLinearConv, halves: Once;
        QLinearGlobalAveragePool => Primitives(global_average_pool), infer: By(global_average_pool_types), halves: Once;
        QLinearLeakyRelu => Primitives(leaky_relu), infer: Same, halves: Once;
        QLinearMul => Primitives(qlinear_mul), infer: By(element_types), becomes: QuantOp::QLinearMul, halves: Once;
        QLinearReduceMean => Primitives(reduce_mean), infer: By(reduce_mean_types), halves: Once;
        QLinearSigmoid => Primitives(sigmoid), infer: Same, halves: Once;
        QLinearSoftmax => Primitives(softmax), infer: Same, halves: Once;
        QLinearWhere => Primitives(select), infer: By(where_types), halves: Moves;
        QuantizeLinear => Primitives(quantize), infer: By(quantize_types), becomes: QuantOp::QuantizeLinear, halves: Once;
    }
}

/// Dequantizes operand `index` by the scale and the zero point in the next two operands, which have one element each.
fn numbers(on: &Tracer, call: &Call<'_, TracedTensor>, index: usize) -> Result<TracedTensor, TraceStop> {
    let scale = on.reshape(call.input(index + 1)?, &[])?;
    let zero = call.optional(index + 2).map(|zero| on.reshape(zero, &[])).transpose()?;
    on.dequantize_linear(call.input(index)?, &scale, zero.as_ref(), DataType::F32)
}

/// Returns the zero point in operand `index`, which must have the type `dtype`; 0 if it is omitted.
fn zero_point(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    index: usize,
    dtype: DataType,
) -> Result<TracedTensor, TraceStop> {
    match call.optional(index) {
        Some(zero) if zero.dtype() != dtype => {
            let problem = format!("has elements of {}, expected those of the result, {dtype}", zero.dtype());
            Err(call.wrong(NodePart::Operand(index), problem).into())
        }
        Some(zero) => Ok(zero.clone()),
        None => on.zeros(&[], dtype),
    }
}

/// Quantizes `y` to `dtype`, by the scale in operand `index` and the zero point in the next operand.
fn quantized(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    y: &TracedTensor,
    index: usize,
    dtype: DataType,
) -> OpResult {
    let zero = zero_point(on, call, index + 1, dtype)?;
    Ok(one(quant::quantized(on, y, call.input(index)?, &zero)?))
}

/// Applies `f` to the dequantized operand `index`, and quantizes the results by the scale and the zero point from
/// operand `to` on.
///
/// An 8-bit type has only 256 values, so `f` is computed once for each value, and the results are looked up.
fn mapped(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    [index, to]: [usize; 2],
    dtype: DataType,
    f: impl FnOnce(&TracedTensor) -> Result<TracedTensor, TraceStop>,
) -> Result<TracedTensor, TraceStop> {
    let x = call.input(index)?;
    let (scale, zero) = (call.input(index + 1)?, call.optional(index + 2));
    let y_zero = zero_point(on, call, to + 1, dtype)?;
    let all = match x.dtype() {
        DataType::U8 => on.host(&[256], &(0..=u8::MAX).collect::<Vec<_>>())?,
        DataType::I8 => on.host(&[256], &(i8::MIN..=i8::MAX).collect::<Vec<_>>())?,
        _ => {
            let y = f(&quant::numbers(on, x, scale, zero)?)?;
            return quant::quantized(on, &y, call.input(to)?, &y_zero);
        }
    };
    let table = quant::quantized(on, &f(&quant::numbers(on, &all, scale, zero)?)?, call.input(to)?, &y_zero)?;
    on.lookup(x, &table)
}

/// Returns the matrix product of integers after subtracting their zero points. A zero point is one number, or for `b`
/// one per column.
pub(super) fn product(
    on: &Tracer,
    [a, b]: [&TracedTensor; 2],
    [a_zero, b_zero]: [Option<&TracedTensor>; 2],
) -> Result<TracedTensor, TraceStop> {
    let single = |zero: &TracedTensor| zero.shape().iter().all(|&extent| extent == 1);
    if a_zero.is_some_and(|zero| !single(zero)) {
        return on.matmul(&quant::less_one(on, a, a_zero)?, &quant::less_one(on, b, b_zero)?);
    }
    for x in [Some(a), Some(b), a_zero, b_zero].into_iter().flatten() {
        types::take("dequantize", x, quant::NUMBERS)?;
    }
    on.matmul_integer(a, b, a_zero, b_zero)
}

/// Returns a scaled integer product, plus a bias if there is one.
pub(super) fn scaled(
    on: &Tracer,
    product: &TracedTensor,
    scale: &TracedTensor,
    bias: Option<&TracedTensor>,
) -> Result<TracedTensor, TraceStop> {
    let product = on.mul(&math::to(on, product, scale.dtype())?, scale)?;
    super::plus(on, &product, bias)
}

/// Calls an operation on two quantized tensors. Its eight operands are both tensors and the result's quantization,
/// with scales and zero points.
fn of_two(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    f: impl FnOnce([&TracedTensor; 8]) -> Result<TracedTensor, TraceStop>,
) -> OpResult {
    let (a, b) = (call.input(0)?, call.input(3)?);
    let zero = |index: usize, like: &TracedTensor| match call.optional(index) {
        Some(zero) => Ok(zero.clone()),
        None => on.zeros(&[], like.dtype()),
    };
    let (a_zero, b_zero, y_zero) = (zero(2, a)?, zero(5, b)?, zero_point(on, call, 7, a.dtype())?);
    let (a_scale, b_scale, y_scale) = (call.input(1)?, call.input(4)?, call.input(6)?);
    Ok(one(f([a, a_scale, &a_zero, b, b_scale, &b_zero, y_scale, &y_zero])?))
}

/// Infers the type of an element-wise operation on two quantized tensors, each with a scale and a zero point.
fn element_types(at: NodeFacts<'_>) -> Option<Types> {
    at.one(at.dtype(0), at.broadcast_of(&[0, 3]))
}

/// `QLinearAdd`.
pub(crate) fn qlinear_add(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &[])?;
    of_two(on, call, |[a, sa, za, b, sb, zb, sy, zy]| on.qlinear_add(a, sa, za, b, sb, zb, sy, zy))
}

/// `QLinearMul`.
pub(crate) fn qlinear_mul(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &[])?;
    of_two(on, call, |[a, sa, za, b, sb, zb, sy, zy]| on.qlinear_mul(a, sa, za, b, sb, zb, sy, zy))
}

/// `QLinearSigmoid`.
pub(crate) fn sigmoid(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &[])?;
    Ok(one(mapped(on, call, [0, 3], call.input(0)?.dtype(), |x| on.sigmoid(x))?))
}

/// `QLinearLeakyRelu`.
pub(crate) fn leaky_relu(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["alpha"])?;
    let alpha = call.float_or("alpha", 0.01)?;
    Ok(one(mapped(on, call, [0, 3], call.input(0)?.dtype(), |x| on.leaky_relu(x, alpha))?))
}

/// `QLinearSoftmax`. If `opset` is below 13, the softmax is over all dimensions from the axis on.
pub(crate) fn softmax(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["axis", "opset"])?;
    let x = numbers(on, call, 0)?;
    let axis = call.int_or("axis", -1)?;
    let y = if call.int("opset")? < 13 {
        let axes = bb_core::ext::normalize::axes_from(&x, axis)?;
        bb_core::ext::normalize::softmax_over(on, &x, &axes)?
    } else {
        on.softmax(&x, axis)?
    };
    quantized(on, call, &y, 3, call.input(0)?.dtype())
}

/// Applies `f` to `x` with the channels moved to the second dimension.
fn channels_second(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    x: &TracedTensor,
    f: impl FnOnce(&TracedTensor) -> Result<TracedTensor, TraceStop>,
) -> Result<TracedTensor, TraceStop> {
    if !call.flag("channels_last", false)? || x.rank() < 3 {
        return f(x);
    }
    second(on, x, f)
}

/// Applies `pool` to the dequantized operand 0 with the channels second, and quantizes the result.
fn pooled(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    pool: impl FnOnce(&TracedTensor) -> Result<TracedTensor, TraceStop>,
) -> OpResult {
    let y = channels_second(on, call, &numbers(on, call, 0)?, pool)?;
    quantized(on, call, &y, 3, call.input(0)?.dtype())
}

fn average_pool_types(at: NodeFacts<'_>) -> Option<Types> {
    at.one(at.dtype(0), last_or_second(at, |x| window::pool_shape(at, x)))
}

/// `QLinearAveragePool`.
pub(crate) fn qlinear_average_pool(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(
        call,
        &["ceil_mode", "pads", "auto_pad", "strides", "kernel_shape", "channels_last", "count_include_pad"],
    )?;
    pooled(on, call, |x| window::plain_average_pool(on, call, x))
}

fn global_average_pool_types(at: NodeFacts<'_>) -> Option<Types> {
    at.one(at.dtype(0), last_or_second(at, window::global_pool_shape))
}

/// `QLinearGlobalAveragePool`.
pub(crate) fn global_average_pool(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["channels_last"])?;
    pooled(on, call, |x| window::over_space(on, call, x, |x, axes| on.reduce_mean(x, axes, true)))
}

/// Infers the type of `QLinearConcat`, whose operands each have a scale and a zero point.
fn concat_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = || {
        let shapes = (2..at.node.inputs.len()).step_by(3).map(|input| at.dims(input));
        let shapes = shapes.collect::<Option<Vec<_>>>()?;
        Some(infer::concat(shapes, at.int("axis", 0)?).ok()?.shape.into_vec())
    };
    at.one(at.dtype(1), shape())
}

/// `QLinearConcat`, whose operands each have a scale and a zero point.
pub(crate) fn concat(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["axis"])?;
    if call.len() < 5 || !(call.len() - 2).is_multiple_of(3) {
        let problem = format!("are {}, expected 2 and three for each tensor", call.len());
        return Err(call.wrong(NodePart::other("the operands"), problem).into());
    }
    let dtype = call.input(1)?.dtype();
    let parts = (2..call.len()).step_by(3).map(|at| mapped(on, call, [at, 0], dtype, |x| Ok(x.clone())));
    let parts = parts.collect::<Result<Vec<_>, _>>()?;
    Ok(one(on.concat(&parts.iter().collect::<Vec<_>>(), call.int("axis")?)?))
}

/// Infers the type of a matrix product that is converted to the type of the scale.
fn scaled_product_types(at: NodeFacts<'_>) -> Option<Types> {
    at.one(at.dtype(2), product_shape(at, 1))
}

/// `DynamicQuantizeMatMul`: a product with a quantized matrix. The left operand is quantized by its own range.
pub(crate) fn dynamic_quantize_matmul(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &[])?;
    for x in [Some(call.input(1)?), call.optional(3)].into_iter().flatten() {
        types::take("dequantize", x, quant::NUMBERS)?;
    }
    let (x, b, scale) = (call.input(0)?, call.input(1)?, call.input(2)?);
    Ok(one(on.dynamic_matmul(x, b, scale, call.optional(3), call.optional(4))?))
}

fn lstm_types(at: NodeFacts<'_>) -> Option<Types> {
    recurrent::recurrent_types(at)
}

/// `DynamicQuantizeLSTM`: an LSTM with quantized weights. The other operand of each matrix product is quantized by
/// its own range.
pub(crate) fn dynamic_quantize_lstm(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(
        call,
        &[
            "activation_alpha",
            "activation_beta",
            "activations",
            "clip",
            "direction",
            "hidden_size",
            "input_forget",
        ],
    )?;
    recurrent::quantized_lstm(on, call)
}

/// Infers the type of `MatMulInteger16`: 32-bit integers, unsigned if both operands are unsigned.
fn matmul_integer16_types(at: NodeFacts<'_>) -> Option<Types> {
    let dtype = match (at.dtype(0)?, at.dtype(1)?) {
        (DataType::U16, DataType::U16) => DataType::U32,
        _ => DataType::I32,
    };
    at.one(Some(dtype), product_shape(at, 1))
}

/// `MatMulInteger16`: a matrix product of 16-bit integers with 32-bit sums.
pub(crate) fn matmul_integer16(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &[])?;
    let (a, b) = (call.input(0)?, call.input(1)?);
    for (index, x) in [(0, a), (1, b)] {
        if !matches!(x.dtype(), DataType::I16 | DataType::U16) {
            let problem = format!("has elements of {}, expected i16 or u16", x.dtype());
            return Err(call.wrong(NodePart::Operand(index), problem).into());
        }
    }
    let unsigned = a.dtype() == DataType::U16 && b.dtype() == DataType::U16;
    let dtype = if unsigned { DataType::U32 } else { DataType::I32 };
    Ok(one(on.matmul(&math::to(on, a, dtype)?, &math::to(on, b, dtype)?)?))
}

/// `MatMulIntegerToFloat`.
pub(crate) fn matmul_integer_to_float(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &[])?;
    let zeros = [call.optional(4), call.optional(5)];
    let product = product(on, [call.input(0)?, call.input(1)?], zeros)?;
    let scale = on.mul(call.input(2)?, call.input(3)?)?;
    Ok(one(scaled(on, &product, &scale, call.optional(6))?))
}

fn quantize_types(at: NodeFacts<'_>) -> Option<Types> {
    onnx_quant::quantize_types(at)
}

/// `QuantizeLinear`. Without an axis, there is one scale for the whole tensor.
pub(crate) fn quantize(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["axis"])?;
    onnx_quant::quantize(on, call)
}

/// Infers the type of `DequantizeLinear`: the type of the scale, with the operand's shape.
fn dequantize_types(at: NodeFacts<'_>) -> Option<Types> {
    at.one(at.dtype(1), at.same())
}

/// `DequantizeLinear`. Without an axis, there is one scale for the whole tensor.
pub(crate) fn dequantize(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["axis"])?;
    onnx_quant::dequantize(on, call)
}

/// Infers the type of `QGemm`: the type of the zero point, or the type of the scale if the result is not quantized.
fn q_gemm_types(at: NodeFacts<'_>) -> Option<Types> {
    let dtype = match (at.has(7), at.has(8)) {
        (false, _) => at.dtype(1),
        (true, true) => at.dtype(8),
        (true, false) => at.dtype(0),
    };
    at.one(dtype, normalize::gemm_shape(at, 3))
}

/// `QGemm`. The result is quantized, or consists of floats if it has no scale.
pub(crate) fn q_gemm(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["transA", "transB", "alpha"])?;
    let side = |index: usize, transposed: bool| -> Result<TracedTensor, TraceStop> {
        let x = call.input(index)?;
        if x.rank() != 2 {
            let problem = format!("has rank {}, expected 2", x.rank());
            return Err(call.wrong(NodePart::Operand(index), problem).into());
        }
        if transposed { on.transpose(x, &[1, 0]) } else { Ok(x.clone()) }
    };
    let [left, right] = normalize::transposed(call)?;
    let (a, b) = (side(0, left)?, side(3, right)?);
    let product = product(on, [&a, &b], [call.optional(2), call.optional(5)])?;
    // The bias has the scale of the product, so it is added before scaling.
    let sum = super::plus(on, &product, call.optional(6))?;
    let scale = on.mul(&on.reshape(call.input(1)?, &[])?, call.input(4)?)?;
    let scale = on.mul(&scale, &on.scalar_like(&scale, call.float_or("alpha", 1.0)?)?)?;
    let y = on.mul(&math::to(on, &sum, scale.dtype())?, &scale)?;
    if call.optional(7).is_none() {
        return Ok(one(y));
    }
    let dtype = call.optional(8).map_or(call.input(0)?.dtype(), Tensor::dtype);
    quantized(on, call, &y, 7, dtype)
}

fn conv_types(at: NodeFacts<'_>) -> Option<Types> {
    at.one(at.dtype(7), last_or_second(at, |x| window::conv_shape(at, x, 3)))
}

/// `QLinearConv`, whose channels may be last.
pub(crate) fn conv(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["auto_pad", "channels_last", "dilations", "group", "kernel_shape", "pads", "strides"])?;
    let x = call.input(0)?;
    Ok(one(channels_second(on, call, x, |x| onnx_quant::plain_qlinear_conv(on, call, x))?))
}

/// Infers the type of `QLinearWhere`: a condition, then two quantized tensors with scales and zero points.
fn where_types(at: NodeFacts<'_>) -> Option<Types> {
    at.one(at.dtype(1), at.broadcast_of(&[0, 1, 4]))
}

/// `QLinearWhere`.
pub(crate) fn select(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &[])?;
    let y = on.r#where(call.input(0)?, &numbers(on, call, 1)?, &numbers(on, call, 4)?)?;
    quantized(on, call, &y, 7, call.input(1)?.dtype())
}

/// Infers the type of `QLinearReduceMean`. The axes are an attribute in every opset.
fn reduce_mean_types(at: NodeFacts<'_>) -> Option<Types> {
    let reduced = |x: &[Dim]| {
        let kept = at.int("keepdims", 1)? != 0;
        let reduction = infer::reduce("reduce", x, at.ints("axes").unwrap_or_default(), kept);
        Some(reduction.ok()?.shape.into_vec())
    };
    at.one(at.dtype(0), at.dims(0).and_then(reduced))
}

/// `QLinearReduceMean`.
pub(crate) fn reduce_mean(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["axes", "keepdims"])?;
    let axes = call.ints("axes")?.unwrap_or_default();
    let y = on.reduce_mean(&numbers(on, call, 0)?, axes, call.flag("keepdims", true)?)?;
    quantized(on, call, &y, 3, call.input(0)?.dtype())
}
