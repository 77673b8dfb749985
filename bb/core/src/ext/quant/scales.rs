//! Quantisation with scales per tensor, per entry of a dimension, or per block.

use super::{bounds, less_zero};
use crate::error::NodePart;
use crate::ext::{DequantizeOptions, Extent, QuantizeLinearOptions, QuantizeOptions, fail, math, types};
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{DataType, Error, Tensor};
use DataType::{
    BF16, F4E2M1, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0, F16, I2, I4, I8, I16, I32, U2, U4, U8,
    U16,
};

/// The element types of quantised tensors.
const QUANTIZED: &[DataType] = &[
    I2, I4, I8, I16, I32, U2, U4, U8, U16, F4E2M1, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0, F16,
    BF16,
];

/// Reshapes a scale or zero point so that it broadcasts to `x`: per entry of `axis`, or per block along
/// `axis`.
pub fn along(
    on: &Tracer,
    x: &TracedTensor,
    scale: &TracedTensor,
    axis: i64,
    block: i64,
) -> Result<TracedTensor, TraceStop> {
    if scale.rank() == 0 || (scale.rank() == 1 && scale.shape() == [1]) {
        return on.reshape(scale, &[]);
    }
    let axis = bb_ir::Axis::new(axis, x.rank()).map_err(Error::from)?.get();
    if scale.rank() == 1 {
        let trailing: Vec<i64> = (1..(x.rank() - axis) as i64).collect();
        return if trailing.is_empty() { on.identity(scale) } else { on.unsqueeze(scale, &trailing) };
    }
    if block <= 0 {
        return Ok(scale.clone());
    }
    // If one block contains all elements, the scale broadcasts without a gather, because kernels are faster
    // for that.
    if on.extent(scale, axis).is(1) && Extent::from(block).at_least(&on.extent(x, axis)) {
        return on.identity(scale);
    }
    // Each scale applies to `block` elements. The last block may be shorter.
    let places = on.iota(&0i64.into(), &1i64.into(), &on.extent(x, axis))?;
    let blocks = on.div(&places, &on.host(&[], &[block])?)?;
    on.gather(scale, &blocks, axis as i64)
}

/// Returns an error if the shape of a scale or zero point does not match the tensor.
fn checked(
    on: &Tracer,
    op: &'static str,
    (name, scale): (&'static str, &TracedTensor),
    x: &TracedTensor,
    (axis, block): (i64, i64),
) -> Result<(), TraceStop> {
    let wrong = |part: &'static str, problem: String| {
        fail(Error::Operator { op: op.to_owned(), part: NodePart::Other(part.into()), problem })
    };
    if block < 0 {
        return wrong("block", format!("is {block}, expected 0 or more"));
    }
    let own = on.extents(scale);
    if own.is_empty() || (own.len() == 1 && own.iter().all(|extent| extent.is(1))) {
        return Ok(());
    }
    let axis = bb_ir::Axis::new(axis, x.rank()).map_err(Error::from)?.get();
    let of_x = on.extents(x);
    let fits = if own.len() == 1 {
        own.iter().zip(of_x.get(axis)).all(|(own, all)| own.equals(all))
    } else {
        let size = Extent::from(block);
        let blocks = |at: usize, all: &Extent| if at == axis { all.ceil_div(&size) } else { all.clone() };
        block > 0
            && own.len() == of_x.len()
            && own.iter().zip(of_x.iter().enumerate()).all(|(own, (at, all))| own.equals(&blocks(at, all)))
    };
    if fits {
        return Ok(());
    }
    let problem = format!(
        "has the shape {:?}, which is no shape of scales for {:?} along the axis {axis} in blocks of {block}",
        scale.shape(),
        x.shape()
    );
    wrong(name, problem)
}

/// The body of [`Quant::quantize`](crate::ext::Quant::quantize).
pub fn quantize(
    on: &Tracer,
    x: &TracedTensor,
    scale: &TracedTensor,
    zero: Option<&TracedTensor>,
    to: DataType,
    QuantizeOptions { axis, block, precision, saturate }: QuantizeOptions,
) -> Result<TracedTensor, TraceStop> {
    const OP: &str = "quantize";
    if !QUANTIZED.contains(&to) {
        return fail(bb_ir::Error::ElementType { op: OP, expected: QUANTIZED, got: to });
    }
    if let Some(got) = zero.map(Tensor::dtype).filter(|&got| got != to) {
        return fail(bb_ir::Error::DataType { expected: to, got });
    }
    let [scale, zero] = placed(on, OP, x, [Some(scale), zero], (axis, block))?;
    let scale = scale.map_or_else(|| on.scalar_like(x, 1.0), Ok)?;
    on.quantize_linear(x, &scale, zero.as_ref(), to, QuantizeLinearOptions { precision, saturate })
}

/// The body of [`Quant::dequantize`](crate::ext::Quant::dequantize).
pub fn dequantize(
    on: &Tracer,
    x: &TracedTensor,
    scale: &TracedTensor,
    zero: Option<&TracedTensor>,
    to: DataType,
    DequantizeOptions { axis, block }: DequantizeOptions,
) -> Result<TracedTensor, TraceStop> {
    const OP: &str = "dequantize";
    types::take(OP, x, QUANTIZED)?;
    if !types::FLOATS.contains(&to) {
        return fail(bb_ir::Error::ElementType { op: OP, expected: types::FLOATS, got: to });
    }
    if let Some(zero) = zero {
        types::alike(zero, x)?;
    }
    let [scale, zero] = placed(on, OP, x, [Some(scale), zero], (axis, block))?;
    let scale = scale.map_or_else(|| on.scalar_like(x, 1.0), Ok)?;
    on.dequantize_linear(x, &scale, zero.as_ref(), to)
}

/// Reshapes a scale and a zero point so that they broadcast to `x`.
fn placed(
    on: &Tracer,
    op: &'static str,
    x: &TracedTensor,
    given: [Option<&TracedTensor>; 2],
    layout: (i64, i64),
) -> Result<[Option<TracedTensor>; 2], TraceStop> {
    let place =
        |name: &'static str, given: Option<&TracedTensor>| -> Result<Option<TracedTensor>, TraceStop> {
            let Some(given) = given else { return Ok(None) };
            checked(on, op, (name, given), x, layout)?;
            let dtype = given.dtype();
            // Backends may lack storage types, so their values are moved in a wider type.
            let held = match dtype {
                _ if dtype.is_compute() || layout.1 == 0 => dtype,
                _ if bounds(dtype).is_some() => I32,
                _ => DataType::F32,
            };
            let placed = along(on, x, &math::to(on, given, held)?, layout.0, layout.1)?;
            math::narrowed(on, placed, dtype).map(Some)
        };
    let [scale, zero] = given;
    Ok([place("scale", scale)?, place("zero", zero)?])
}

/// The body of [`Quant::scaled_matmul`](crate::ext::Quant::scaled_matmul).
#[expect(clippy::too_many_arguments, reason = "the operands of the operation")]
pub fn scaled_matmul(
    on: &Tracer,
    a: &TracedTensor,
    b: &TracedTensor,
    a_scale: &TracedTensor,
    b_scale: &TracedTensor,
    a_zero: Option<&TracedTensor>,
    b_zero: Option<&TracedTensor>,
    bias: Option<&TracedTensor>,
) -> Result<TracedTensor, TraceStop> {
    const OP: &str = "scaled_matmul";
    for x in [a, b] {
        types::take(OP, x, QUANTIZED)?;
    }
    types::take(OP, a_scale, types::FLOATS)?;
    for other in [Some(b_scale), bias].into_iter().flatten() {
        types::alike(other, a_scale)?;
    }
    let product = if bounds(a.dtype()).is_some() && bounds(b.dtype()).is_some() {
        on.matmul_integer(a, b, a_zero, b_zero)?
    } else {
        let a = less_zero(on, a, a_zero, true, DataType::F32)?;
        on.matmul(&a, &less_zero(on, b, b_zero, false, DataType::F32)?)?
    };
    // 16-bit scales and their product are applied in `f32`, and the result is rounded once.
    let wide = math::common(a_scale.dtype(), DataType::F32);
    let by_row = match a_scale.rank() {
        1 if a.rank() > 1 && a_scale.shape() != [1] => on.unsqueeze(a_scale, &[1])?,
        1 if a_scale.shape() == [1] => on.reshape(a_scale, &[])?,
        _ => a_scale.clone(),
    };
    let by_column = if b_scale.shape() == [1] { on.reshape(b_scale, &[])? } else { b_scale.clone() };
    let scale = on.mul(&math::to(on, &by_row, wide)?, &math::to(on, &by_column, wide)?)?;
    types::fits(on, OP, &scale, &product)?;
    let mut y = on.mul(&math::to(on, &product, wide)?, &scale)?;
    if let Some(bias) = bias {
        types::fits(on, OP, bias, &y)?;
        y = on.add(&y, &math::to(on, bias, wide)?)?;
    }
    math::to(on, &y, a_scale.dtype())
}
