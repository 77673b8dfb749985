//! The body of [`Quant::matmul_n_bits`](super::Quant::matmul_n_bits), and the unpacking of packed integers from
//! bytes.

use super::{Border, Extent, MatMulNBitsOptions, fail, math, types};
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{DataType, Error, Tensor};

const OP: &str = "matmul_n_bits";

fn wrong(part: &'static str, problem: String) -> Error {
    Error::Operator { op: OP.to_owned(), part: part.into(), problem }
}

/// The body of [`Quant::matmul_n_bits`](super::Quant::matmul_n_bits).
pub fn matmul_n_bits(
    on: &Tracer,
    a: &TracedTensor,
    b: &TracedTensor,
    scales: &TracedTensor,
    zeros: Option<&TracedTensor>,
    order: Option<&TracedTensor>,
    MatMulNBitsOptions { inner, bits, block, integers }: MatMulNBitsOptions,
) -> Result<TracedTensor, TraceStop> {
    types::take(OP, a, types::FLOATS)?;
    types::take(OP, b, &[DataType::U8])?;
    types::take(OP, scales, types::FLOATS)?;
    if !matches!(bits, 2 | 4 | 8) {
        return fail(wrong("bits", format!("is {bits}, expected 2, 4 or 8")));
    }
    let &[columns, blocks, bytes] = b.shape() else {
        return fail(wrong("b", format!("has the rank {}, expected 3", b.rank())));
    };
    let places = bytes.checked_mul(8 / bits as usize).filter(|&places| i64::try_from(places) == Ok(block));
    let all = places.and_then(|places| places.checked_mul(blocks)).filter(|_| block > 0);
    let Some(all) = all else {
        let problem = format!("has blocks of {bytes} bytes, expected {block} numbers of {bits} bits");
        return fail(wrong("b", problem));
    };
    let inner = if inner == 0 { all } else { usize::try_from(inner).unwrap_or(usize::MAX) };
    if inner > all || all - inner >= (block as usize).max(1) {
        return fail(wrong("b", format!("has blocks for {all} numbers, expected {inner}")));
    }
    let weights = unpacked(on, b, bits)?;
    let weights = on.reshape(&math::to(on, &weights, DataType::F32)?, &[columns, all])?;
    let weights = on.slice(&weights, &[0], &[inner as i64], &[1], &[])?;
    // The block of each weight: the block at its position, or the block that `order` specifies.
    let of_block = match order {
        Some(order) => on.slice(order, &[0], &[inner as i64], &[0], &[])?,
        None => on.host(&[inner], &(0..inner).map(|i| i as i64 / block).collect::<Vec<_>>())?,
    };
    let spread = |x: &TracedTensor| {
        on.gather(&math::to(on, &on.reshape(x, &[columns, blocks])?, DataType::F32)?, &of_block, 1)
    };
    let zeros = match zeros {
        None => on.scalar_like(&weights, 2f64.powi(bits as i32 - 1))?,
        Some(zeros) if zeros.dtype() == DataType::U8 => {
            // Each row of zero points starts at a byte boundary.
            let row = (blocks * bits as usize).div_ceil(8);
            let rows = unpacked(on, &on.reshape(zeros, &[columns, row])?, bits)?;
            spread(&on.slice(&rows, &[0], &[blocks as i64], &[1], &[])?)?
        }
        Some(zeros) => spread(zeros)?,
    };
    let rows = on.mul(&on.sub(&weights, &zeros)?, &spread(scales)?)?;
    let matrix = on.transpose(&rows, &[1, 0])?;
    // 16-bit floats cannot represent 8-bit weights exactly, so the product is computed in at least `f32`.
    let wide = math::common(a.dtype(), DataType::F32);
    let left = math::to(on, a, wide)?;
    let left = if integers && order.is_none() && wide == DataType::F32 {
        rounded(on, &left, [inner, block as usize, all])?
    } else {
        left
    };
    let product = on.matmul(&left, &math::to(on, &matrix, wide)?)?;
    math::to(on, &product, a.dtype())
}

/// Rounds each block of the last dimension to 8 bits, as [`MatMulNBitsOptions::integers`] specifies, and returns the
/// dequantized numbers.
fn rounded(
    on: &Tracer,
    a: &TracedTensor,
    [inner, block, all]: [usize; 3],
) -> Result<TracedTensor, TraceStop> {
    // The other extents are not read, so that a plan is valid for all of them.
    let mut shape = on.extents(a);
    let Some(last) =
        a.rank().checked_sub(1).filter(|&last| shape.get(last).is_some_and(|n| n.is(inner as i64)))
    else {
        // The extent is wrong. The matrix product reports the error.
        return Ok(a.clone());
    };
    let mut pads = vec![0; 2 * a.rank()];
    if let Some(end) = pads.last_mut() {
        *end = (all - inner) as i64;
    }
    shape.truncate(last);
    shape.extend([all / block, block].map(Extent::from));
    let x = on.reshape_to(&on.pad(a, None, &pads, Border::Constant)?, &shape)?;
    let most = on.reduce_max(&on.abs(&x)?, &[-1], true)?;
    let scale = on.div(&most, &on.scalar_like(&most, 127.0)?)?;
    let is_small = on.less(&scale, &on.scalar_like(&scale, f32::MIN_POSITIVE.into())?)?;
    let scale = on.r#where(&is_small, &on.scalar_like(&scale, 1.0)?, &scale)?;
    // The difference is 0, or NaN if the scale is infinite. So an infinite scale becomes NaN.
    let scale = on.add(&scale, &on.sub(&scale, &scale)?)?;
    // No quotient exceeds 127, so the integers equal the result of `quantize_linear`, which needs no clamping here.
    let y = on.mul(&on.round(&on.div(&x, &scale)?)?, &scale)?;
    shape.truncate(last);
    shape.push(Extent::from(all));
    on.slice(&on.reshape_to(&y, &shape)?, &[0], &[inner as i64], &[-1], &[])
}

/// Unpacks integers of `bits` bits from the bytes of the last dimension, starting with the low bits.
pub fn unpacked(on: &Tracer, x: &TracedTensor, bits: i64) -> Result<TracedTensor, TraceStop> {
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
