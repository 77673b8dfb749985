//! Weights of few bits, quantized in blocks that have a scale each.

use super::only;
use bb_core::error::NodePart;
use bb_core::ext::{MatMulNBitsOptions, math, n_bits::unpacked};
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::Axis;
use bb_ir::graph::Dim;
use bb_ir::infer::rule::{self, NodeFacts, Types};
use bb_onnx::shared::operators;

operators! {
    "com.microsoft" {
        GatherBlockQuantized => Primitives(gather_block_quantized), infer: By(gather_block_quantized_types), halves: Once;
        MatMulBnb4 => Primitives(matmul_bnb4), infer: By(matmul_bnb4_types), halves: Once;
        MatMulNBits => Primitives(matmul_n_bits), infer: By(matmul_n_bits_types), becomes: QuantOp::MatMulNBits, halves: Once;
    }
}

/// Reads an attribute that is a size.
fn extent<T>(call: &Call<'_, T>, name: &str) -> Result<usize, Error> {
    let value = call.int(name)?;
    let size = usize::try_from(value).ok().filter(|&n| (1..1 << 31).contains(&n));
    size.ok_or_else(|| call.wrong(name, format!("is {value}, expected a positive number")))
}

/// The `accuracy_level` of matrix products that may round their left operand to 8 bits. The levels 1 to 3 request 32-bit and 16-bit
/// floats; they are computed in 32 bits, as without the attribute.
const INTEGERS: i64 = 4;

/// Infers the type of a product with a matrix of few bits. The attribute `N` is the number of columns.
fn matmul_n_bits_types(at: NodeFacts<'_>) -> Option<Types> {
    let columns = rule::extent(at.int("N", -1)?);
    let shape = |x: &[Dim]| Some([x.get(..x.len().checked_sub(1)?)?, &[columns]].concat());
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// `MatMulNBits`: a product with a matrix of 2-bit, 4-bit or 8-bit integers, quantized by blocks along the inner dimension.
pub(crate) fn matmul_n_bits(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["K", "N", "bits", "block_size", "accuracy_level", "weight_prepacked"])?;
    if call.flag("weight_prepacked", false)? {
        return Err(call.wrong("weight_prepacked", "is not served: the order is one device's own").into());
    }
    let (inner, columns, block) = (extent(call, "K")?, extent(call, "N")?, extent(call, "block_size")?);
    let bits = call.int_or("bits", 4)?;
    if !matches!(bits, 2 | 4 | 8) {
        return Err(call.wrong("bits", format!("is {bits}, expected 2, 4 or 8")).into());
    }
    let blocks = inner.div_ceil(block);
    let (given, shape) = (call.input(1)?, [columns, blocks, block * bits as usize / 8]);
    // Avoid a reshape of a constant: it would run before kernels are prepared, and keep the original weights of all products in memory
    // until then.
    let weights = if *given.shape() == shape { given.clone() } else { on.reshape(given, &shape)? };
    let integers = match call.int_or("accuracy_level", 0)? {
        INTEGERS => true,
        0..INTEGERS => false,
        level => return Err(call.wrong("accuracy_level", format!("is {level}, expected 0 to 4")).into()),
    };
    let options = MatMulNBitsOptions { inner: inner as i64, bits, block: block as i64, integers };
    let (zeros, order) = (call.optional(3), call.optional(4));
    let (x, scales) = (call.input(0)?, call.input(2)?);
    let Some(bias) = call.optional(5) else {
        return Ok(one(on.matmul_n_bits(x, &weights, scales, zeros, order, options)?));
    };
    // Compute in `f32`, so that the sum of the product and the bias is rounded only once.
    super::alike(call, 5)?;
    let product = on.matmul_n_bits(&math::accumulated(on, x)?, &weights, scales, zeros, order, options)?;
    Ok(one(math::narrowed(on, on.add(&product, &math::accumulated(on, bias)?)?, x.dtype())?))
}

/// Returns the index of the block of each of `extent` elements.
fn block_of(on: &Tracer, extent: usize, block: usize) -> Result<TracedTensor, TraceStop> {
    on.host(&[extent], &(0..extent).map(|i| (i / block) as i64).collect::<Vec<_>>())
}

/// Infers the type of `GatherBlockQuantized`: entries of a table, whose last axis may have several numbers per byte.
fn gather_block_quantized_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = || {
        let (data, indices) = (at.dims(0)?, at.dims(1)?);
        let along = rule::axis(at.int("gather_axis", 0)?, data.len())?;
        let (before, after) = (data.get(..along)?, data.get(along + 1..)?);
        let mut out = [before, indices, after].concat();
        if at.dtype(0) == Some(DataType::U8) && !after.is_empty() {
            let last = out.last_mut()?;
            *last = rule::scaled(last, 8i64.checked_div(at.int("bits", 4)?)?);
        }
        Some(out)
    };
    at.one(at.dtype(2), shape())
}

/// `GatherBlockQuantized`: dequantized entries of a table; zeros for an index that is out of range. Entries are gathered before they are
/// unpacked, so that the work of a call is proportional to the number of entries.
pub(crate) fn gather_block_quantized(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["bits", "block_size", "gather_axis", "quantize_axis"])?;
    let (data, indices, scales) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let axis = |name: &str, default| Axis::new(call.int_or(name, default)?, data.rank()).map_err(Error::from);
    let (along, across) = (axis("gather_axis", 0)?.get(), axis("quantize_axis", 1)?.get());
    let bits = if data.dtype() == DataType::U8 { call.int_or("bits", 4)? } else { 8 };
    if !matches!(bits, 2 | 4 | 8) {
        return Err(call.wrong("bits", format!("is {bits}, expected 2, 4 or 8")).into());
    }
    let packed = bits < 8;
    if packed && (along == across || along + 1 == data.rank()) {
        let problem = format!("is {along}; bytes of several numbers lie along the last axis");
        return Err(call.wrong("gather_axis", problem).into());
    }
    let whole = matches!(data.dtype(), DataType::U8 | DataType::I4 | DataType::U4);
    let block = match call.int_or("block_size", 128)? {
        // 0 means a single block. Only types that need no zero point allow it.
        0 if !whole => usize::MAX,
        size => usize::try_from(size)
            .ok()
            .filter(|&n| n > 0)
            .ok_or_else(|| call.wrong("block_size", format!("is {size}, expected a positive number")))?,
    };
    let extent = on.host(&[], &[data.shape().get(along).copied().unwrap_or(0) as i64])?;
    let indices = math::to(on, indices, DataType::I64)?;
    let zero = on.scalar_like(&indices, 0.0)?;
    let from_end = on.less(&indices, &zero)?;
    let indices = on.r#where(&from_end, &on.add(&indices, &extent)?, &indices)?;
    let beyond = on.or(&on.less(&indices, &zero)?, &on.greater_or_equal(&indices, &extent)?)?;
    let indices = on.r#where(&beyond, &zero, &indices)?;

    let entries = |x: &TracedTensor, by: &TracedTensor| -> Result<TracedTensor, TraceStop> {
        // Backends store 4-bit integers as bytes, so this cast does not enlarge the table.
        let x = match x.dtype() {
            DataType::I4 => math::to(on, x, DataType::I8)?,
            DataType::U4 => math::to(on, x, DataType::U8)?,
            _ => math::numeric(on, x)?,
        };
        math::to(on, &on.gather(&x, by, along as i64)?, DataType::F32)
    };
    let mut q = if packed {
        math::to(on, &unpacked(on, &on.gather(data, &indices, along as i64)?, bits)?, DataType::F32)?
    } else {
        entries(data, &indices)?
    };
    // Gathers the scales or zero points of the entries, and repeats each for the elements of its block.
    let spread = |x: &TracedTensor| -> Result<TracedTensor, TraceStop> {
        if along == across {
            let size = on.host(&[], &[i64::try_from(block).unwrap_or(i64::MAX)])?;
            return entries(x, &on.div(&indices, &size)?);
        }
        // If there is a single scale along the gathered axis, it is used for all entries.
        let single = x.shape().get(along) == Some(&1);
        let x = entries(x, &if single { on.mul(&indices, &zero)? } else { indices.clone() })?;
        let at = if across < along { across } else { across + indices.rank() - 1 };
        let extent = q.shape().get(at).copied().unwrap_or(0);
        on.gather(&x, &block_of(on, extent, block)?, at as i64)
    };
    let factor = spread(scales)?;
    let point = match call.optional(3) {
        Some(_) if !whole => {
            return Err(call
                .wrong(NodePart::Operand(3), "is given, and these types have no zero point")
                .into());
        }
        Some(points) if packed => {
            // The last byte may have more zero points than there are scales, so the rest is dropped.
            let points = unpacked(on, points, bits)?;
            let count = scales.shape().last().copied().unwrap_or(0) as i64;
            Some(spread(&on.slice(&points, &[0], &[count], &[-1], &[])?)?)
        }
        Some(points) => Some(spread(points)?),
        None if data.dtype() == DataType::U8 => Some(on.scalar_like(&q, 2f64.powi(bits as i32 - 1))?),
        None => None,
    };
    if let Some(point) = point {
        q = on.sub(&q, &point)?;
    }
    let y = on.mul(&q, &factor)?;
    let trailing: Vec<i64> = (1..(data.rank() - along) as i64).map(|i| -i).rev().collect();
    let beyond = if trailing.is_empty() { beyond } else { on.unsqueeze(&beyond, &trailing)? };
    let y = on.r#where(&beyond, &on.scalar_like(&y, 0.0)?, &y)?;
    Ok(one(math::to(on, &y, scales.dtype())?))
}

/// The values of the 16 codes of 4 bits: 4-bit floats, or quantiles of the normal distribution.
///
/// Source: Dettmers and others: QLoRA, 2023; bitsandbytes.
const FOUR_BITS: [[f32; 16]; 2] = [
    [
        0.0,
        0.005_208_333_3,
        0.666_666_7,
        1.0,
        0.333_333_34,
        0.5,
        0.166_666_67,
        0.25,
        -0.0,
        -0.005_208_333_3,
        -0.666_666_7,
        -1.0,
        -0.333_333_34,
        -0.5,
        -0.166_666_67,
        -0.25,
    ],
    [
        -1.0,
        -0.696_192_8,
        -0.525_073_05,
        -0.394_917_5,
        -0.284_441_38,
        -0.184_773_43,
        -0.091_050_036,
        0.0,
        0.079_580_3,
        0.160_930_2,
        0.246_112_3,
        0.337_915_24,
        0.440_709_83,
        0.562_617,
        0.722_956_84,
        1.0,
    ],
];

/// Infers the type of `MatMulBnb4`. `N` is the number of columns; it is `K` if the matrix is not transposed.
fn matmul_bnb4_types(at: NodeFacts<'_>) -> Option<Types> {
    let columns = rule::extent(at.int(if at.int("transB", 1)? == 0 { "K" } else { "N" }, -1)?);
    let shape = |x: &[Dim]| Some([x.get(..x.len().checked_sub(1)?)?, &[columns]].concat());
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// `MatMulBnb4`: a product with a matrix of 4-bit codes.
pub(crate) fn matmul_bnb4(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["K", "N", "block_size", "quant_type", "training_mode", "transB"])?;
    let (inner, columns, block) = (extent(call, "K")?, extent(call, "N")?, extent(call, "block_size")?);
    let kind = call.int("quant_type")?;
    let table = usize::try_from(kind).ok().and_then(|kind| FOUR_BITS.get(kind));
    let table = table.ok_or_else(|| call.wrong("quant_type", format!("is {kind}, expected 0 or 1")))?;
    let count = inner.checked_mul(columns).ok_or_else(|| call.wrong("K", "and `N` make too many weights"))?;
    let (a, bytes) = (call.input(0)?, on.reshape(call.input(1)?, &[count.div_ceil(2), 1])?);
    let sixteen = on.scalar_like(&bytes, 16.0)?;
    let first = on.div(&bytes, &sixteen)?;
    let second = on.sub(&bytes, &on.mul(&first, &sixteen)?)?;
    let codes = on.reshape(&on.concat(&[&first, &second], 1)?, &[2 * count.div_ceil(2)])?;
    let codes = on.slice(&math::to(on, &codes, DataType::I32)?, &[0], &[count as i64], &[0], &[])?;
    let scales = math::to(on, call.input(2)?, DataType::F32)?;
    let scales = on.gather(&scales, &block_of(on, count, block)?, 0)?;
    let weights = on.mul(&on.gather(&on.host(&[16], table)?, &codes, 0)?, &scales)?;
    let rows = on.reshape(&weights, &[columns, inner])?;
    let matrix = if call.flag("transB", true)? { on.transpose(&rows, &[1, 0])? } else { rows };
    let wide = math::common(a.dtype(), DataType::F32);
    let product = on.matmul(&math::to(on, a, wide)?, &math::to(on, &matrix, wide)?)?;
    Ok(one(math::to(on, &product, a.dtype())?))
}
