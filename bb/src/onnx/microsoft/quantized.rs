//! Operators on quantised tensors: integers that stand for multiples of a scale.

use super::only;
use crate::ext::{Ops, math};
use crate::onnx::call::{Answer, Call, one};
use crate::onnx::{quant, recurrent, window};
use crate::{DataType, Error, Tensor};

/// The numbers that operand `index` stands for, by the scale and zero point after it.
fn numbers<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>, index: usize) -> Result<B::Tensor, B::Error> {
    let wide = math::to(on, &centred(on, call.input(index)?, call.optional(index + 2))?, DataType::F32)?;
    on.mul(&wide, &on.reshape(call.input(index + 1)?, &[])?)
}

/// Quantises to the scale and zero point at `index`, of the type `dtype`.
fn quantized<B: Ops + ?Sized>(
    on: &B,
    call: &Call<'_, B::Tensor>,
    y: &B::Tensor,
    index: usize,
    dtype: DataType,
) -> Answer<B> {
    let zero = match call.optional(index + 1) {
        Some(zero) => on.reshape(zero, &[])?,
        None => on.zeros(&[], dtype)?,
    };
    let one_of_unit = on.scalar_like(y, 1.0)?;
    Ok(one(quant::requantized(on, y, &one_of_unit, &on.reshape(call.input(index)?, &[])?, &zero)?))
}

/// A matrix as `i32`, less its zero point: one number, or one for each column.
pub(super) fn centred<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    zero: Option<&B::Tensor>,
) -> Result<B::Tensor, B::Error> {
    let wide = math::to(on, x, DataType::I32)?;
    let Some(zero) = zero else { return Ok(wide) };
    let zero = math::to(on, zero, DataType::I32)?;
    let single = zero.shape().iter().all(|&extent| extent == 1);
    on.sub(&wide, &if single { on.reshape(&zero, &[])? } else { zero })
}

/// The product of integer matrices, scaled, and a bias added.
pub(super) fn scaled_product<B: Ops + ?Sized>(
    on: &B,
    a: &B::Tensor,
    b: &B::Tensor,
    scale: &B::Tensor,
    bias: Option<&B::Tensor>,
) -> Result<B::Tensor, B::Error> {
    let product = on.mul(&math::to(on, &on.matmul(a, b)?, scale.dtype())?, scale)?;
    super::plus(on, &product, bias)
}

/// `QLinearAdd`.
pub(in crate::onnx) fn qlinear_add<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> Answer<B> {
    only(call, &[])?;
    let y = on.add(&numbers(on, call, 0)?, &numbers(on, call, 3)?)?;
    quantized(on, call, &y, 6, call.input(0)?.dtype())
}

/// `QLinearMul`.
pub(in crate::onnx) fn qlinear_mul<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> Answer<B> {
    only(call, &[])?;
    let y = on.mul(&numbers(on, call, 0)?, &numbers(on, call, 3)?)?;
    quantized(on, call, &y, 6, call.input(0)?.dtype())
}

/// `QLinearSigmoid`.
pub(in crate::onnx) fn sigmoid<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> Answer<B> {
    only(call, &[])?;
    quantized(on, call, &on.sigmoid(&numbers(on, call, 0)?)?, 3, call.input(0)?.dtype())
}

/// `QLinearLeakyRelu`.
pub(in crate::onnx) fn leaky_relu<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> Answer<B> {
    only(call, &["alpha"])?;
    let y = on.leaky_relu(&numbers(on, call, 0)?, call.float_or("alpha", 0.01)?)?;
    quantized(on, call, &y, 3, call.input(0)?.dtype())
}

/// `QLinearSoftmax`; before the Softmax of opset 13, over all dimensions from the axis on.
pub(in crate::onnx) fn softmax<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> Answer<B> {
    only(call, &["axis", "opset"])?;
    let x = numbers(on, call, 0)?;
    let axis = call.int_or("axis", -1)?;
    let y = if call.int("opset")? < 13 {
        let axes = crate::ext::normalize::axes_from(&x, axis)?;
        crate::ext::normalize::softmax_over(on, &x, &axes)?
    } else {
        on.softmax(&x, axis)?
    };
    quantized(on, call, &y, 3, call.input(0)?.dtype())
}

/// The order of dimensions that has the channels second, if they are last, and the order back.
fn channels<T: Tensor>(call: &Call<'_, T>, rank: usize) -> Result<Option<[Vec<i64>; 2]>, Error> {
    if !call.flag("channels_last", false)? || rank < 3 {
        return Ok(None);
    }
    let last = rank as i64 - 1;
    let to = [0, last].into_iter().chain(1..last).collect();
    let back = std::iter::once(0).chain(2..=last).chain([1]).collect();
    Ok(Some([to, back]))
}

/// Applies `pool` to the numbers of operand 0, the channels second.
fn pooled<B: Ops + ?Sized>(
    on: &B,
    call: &Call<'_, B::Tensor>,
    pool: impl FnOnce(B::Tensor) -> Result<B::Tensor, B::Error>,
) -> Answer<B> {
    let x = numbers(on, call, 0)?;
    let y = match channels(call, x.rank())? {
        Some([to, back]) => on.transpose(&pool(on.transpose(&x, &to)?)?, &back)?,
        None => pool(x)?,
    };
    quantized(on, call, &y, 3, call.input(0)?.dtype())
}

/// `QLinearAveragePool`.
pub(in crate::onnx) fn qlinear_average_pool<B: Ops + ?Sized>(
    on: &B,
    call: &Call<'_, B::Tensor>,
) -> Answer<B> {
    only(
        call,
        &["ceil_mode", "pads", "auto_pad", "strides", "kernel_shape", "channels_last", "count_include_pad"],
    )?;
    pooled(on, call, |x| window::plain_average_pool(on, call, &x))
}

/// `QLinearGlobalAveragePool`.
pub(in crate::onnx) fn global_average_pool<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> Answer<B> {
    only(call, &["channels_last"])?;
    pooled(on, call, |x| on.reduce_mean(&x, &(2..x.rank() as i64).collect::<Vec<_>>(), true))
}

/// `QLinearConcat`: each operand comes with a scale and a zero point.
pub(in crate::onnx) fn concat<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> Answer<B> {
    only(call, &["axis"])?;
    if call.len() < 5 || !(call.len() - 2).is_multiple_of(3) {
        let problem = format!("are {}, expected 2 and three for each tensor", call.len());
        return Err(call.wrong("the operands", problem).into());
    }
    let parts = (2..call.len()).step_by(3).map(|at| numbers(on, call, at)).collect::<Result<Vec<_>, _>>()?;
    let y = on.concat(&parts.iter().collect::<Vec<_>>(), call.int("axis")?)?;
    quantized(on, call, &y, 0, call.input(1)?.dtype())
}

/// `DynamicQuantizeMatMul`: a product with a quantised matrix, the other quantised by its own range.
pub(in crate::onnx) fn dynamic_quantize_matmul<B: Ops + ?Sized>(
    on: &B,
    call: &Call<'_, B::Tensor>,
) -> Answer<B> {
    only(call, &[])?;
    let [a, scale, zero] = quant::by_range(on, call.input(0)?)?;
    let a = centred(on, &a, Some(&zero))?;
    let b = centred(on, call.input(1)?, call.optional(3))?;
    Ok(one(scaled_product(on, &a, &b, &on.mul(&scale, call.input(2)?)?, call.optional(4))?))
}

/// `DynamicQuantizeLSTM`: what the weights multiply is quantised by its own range.
pub(in crate::onnx) fn dynamic_quantize_lstm<B: Ops + ?Sized>(
    on: &B,
    call: &Call<'_, B::Tensor>,
) -> Answer<B> {
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

/// `MatMulIntegerToFloat`.
pub(in crate::onnx) fn matmul_integer_to_float<B: Ops + ?Sized>(
    on: &B,
    call: &Call<'_, B::Tensor>,
) -> Answer<B> {
    only(call, &[])?;
    let a = centred(on, call.input(0)?, call.optional(4))?;
    let b = centred(on, call.input(1)?, call.optional(5))?;
    let scale = on.mul(call.input(2)?, call.input(3)?)?;
    Ok(one(scaled_product(on, &a, &b, &scale, call.optional(6))?))
}

/// `MatMulNBits`: a product with a matrix of 2, 4 or 8 bits, quantised by blocks of its rows.
pub(in crate::onnx) fn matmul_n_bits<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> Answer<B> {
    only(call, &["K", "N", "bits", "block_size", "accuracy_level"])?;
    let extent = |name: &str| -> Result<usize, Error> {
        let value = call.int(name)?;
        let size = usize::try_from(value).ok().filter(|&n| (1..1 << 31).contains(&n));
        size.ok_or_else(|| call.wrong(name, format!("is {value}, expected a positive number")))
    };
    let (inner, columns, block) = (extent("K")?, extent("N")?, extent("block_size")?);
    let bits = call.int_or("bits", 4)?;
    if !matches!(bits, 2 | 4 | 8) {
        return Err(call.wrong("bits", format!("is {bits}, expected 2, 4 or 8")).into());
    }
    let (a, scales) = (call.input(0)?, call.input(2)?);
    let blocks = inner.div_ceil(block);
    let weights = unpacked(on, call.input(1)?, bits)?;
    let weights = on.reshape(&math::to(on, &weights, DataType::F32)?, &[columns, blocks * block])?;
    let weights = on.slice(&weights, &[0], &[inner as i64], &[1], &[])?;
    // The block that each number belongs to: its own place's, or the one that operand 4 says.
    let of_block = match call.optional(4) {
        Some(order) => on.slice(order, &[0], &[inner as i64], &[0], &[])?,
        None => on.host(&[inner], &(0..inner).map(|i| (i / block) as i64).collect::<Vec<_>>())?,
    };
    let spread = |x: &B::Tensor| {
        on.gather(&math::to(on, &on.reshape(x, &[columns, blocks])?, DataType::F32)?, &of_block, 1)
    };
    let zeros = match call.optional(3) {
        None => on.scalar_like(&weights, 2f64.powi(bits as i32 - 1))?,
        Some(zeros) if zeros.dtype() == DataType::U8 => {
            // Each row of zero points starts with a byte of its own.
            let row = (blocks * bits as usize).div_ceil(8);
            let rows = unpacked(on, &on.reshape(zeros, &[columns, row])?, bits)?;
            spread(&on.slice(&rows, &[0], &[blocks as i64], &[1], &[])?)?
        }
        Some(zeros) => spread(zeros)?,
    };
    let rows = on.mul(&on.sub(&weights, &zeros)?, &spread(scales)?)?;
    let matrix = on.transpose(&rows, &[1, 0])?;
    // Halves hold no weight of 8 bits exactly.
    let wide = math::common(a.dtype(), DataType::F32);
    let product = on.matmul(&math::to(on, a, wide)?, &math::to(on, &matrix, wide)?)?;
    Ok(one(super::plus(on, &math::to(on, &product, a.dtype())?, call.optional(5))?))
}

/// The numbers of `bits` bits that the bytes of the last dimension hold, the low ones first.
fn unpacked<B: Ops + ?Sized>(on: &B, x: &B::Tensor, bits: i64) -> Result<B::Tensor, B::Error> {
    let Some((&last, outer)) = x.shape().split_last().filter(|_| bits < 8) else { return Ok(x.clone()) };
    let base = on.scalar_like(x, 2f64.powi(bits as i32))?;
    let mut rest = on.unsqueeze(x, &[-1])?;
    let mut parts = Vec::new();
    for _ in 0..8 / bits {
        let above = on.div(&rest, &base)?;
        parts.push(on.sub(&rest, &on.mul(&above, &base)?)?);
        rest = above;
    }
    let all = on.concat(&parts.iter().collect::<Vec<_>>(), -1)?;
    on.reshape(&all, &[outer, &[last * parts.len()]].concat())
}

/// `QuantizeLinear`; without an axis, by one scale.
pub(in crate::onnx) fn quantize<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> Answer<B> {
    only(call, &["axis"])?;
    quant::quantize(on, call)
}

/// `DequantizeLinear`; without an axis, by one scale.
pub(in crate::onnx) fn dequantize<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> Answer<B> {
    only(call, &["axis"])?;
    quant::dequantize(on, call)
}
