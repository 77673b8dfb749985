//! Normalization operators, and matrix products with a bias.

use super::attributes::Attributes;
use super::rows::operators;
use bb_core::error::NodePart;
use bb_core::ext::normalize::{in_range, moments, per_channel};
use bb_core::ext::{LayerNormalizationOptions, counted, math, product};
use bb_core::operator::{Call, OpOutputs, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::Axis;
use bb_ir::graph::{Dim, ValueType};
use bb_ir::infer::rule::{self, NodeFacts, Types};
use smallvec::smallvec;

operators! {
    "" {
        BatchNormalization => Primitives(batch_normalization), infer: By(batch_normalization_types), becomes: NnOp::BatchNormalization, halves: Once;
        Gemm => Primitives(gemm), infer: By(gemm_types), halves: Once, ignores: { "broadcast": "the third operand is broadcast wherever it fits" };
        GroupNormalization => Primitives(group_normalization), infer: Same;
        Hardmax => Primitives(hardmax), infer: Same, halves: Moves;
        InstanceNormalization => Primitives(instance_normalization), infer: Same, halves: Once;
        LRN => Primitives(lrn), infer: Same;
        LayerNormalization => Primitives(layer_normalization), infer: By(layer_normalization_types), becomes: NnOp::LayerNormalization, halves: Once;
        LogSoftmax: 1 => Primitives(joint_log_softmax), 13 => Primitives(log_softmax), infer: Same, becomes: NnOp::LogSoftmax, halves: Once;
        LpNormalization => Primitives(lp_normalization), infer: Same;
        MeanVarianceNormalization: 1 => Primitives(mean_variance_by_channel), 9 => Primitives(mean_variance_normalization), infer: Same;
        RMSNormalization => Primitives(rms_normalization), infer: By(rms_normalization_types), halves: Once;
        Softmax: 1 => Primitives(joint_softmax), 13 => Primitives(softmax), infer: Same, becomes: NnOp::Softmax, halves: Once;
    }
}

/// Reshapes a vector with one element per channel so that it broadcasts along the channels of `x`.
pub(super) fn channel_operand(
    on: &Tracer,
    v: &TracedTensor,
    x: &TracedTensor,
) -> Result<TracedTensor, TraceStop> {
    per_channel(on, v, x.rank())
}

/// Applies an operation to all axes from `axis` on together, as the opsets below 13 do. They become the last axis, so that
/// the operation runs on a backend's kernel.
fn joint(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    operation: impl FnOnce(&TracedTensor, i64) -> Result<TracedTensor, TraceStop>,
) -> OpResult {
    let x = call.input(0)?;
    let from = Axis::new(call.int_or("axis", 1)?, x.rank().max(1)).map_err(Error::from)?.get();
    if from + 1 == x.rank() {
        return Ok(one(operation(x, -1)?));
    }
    let extents = on.extents(x);
    let (kept, joined) = extents.split_at(from.min(extents.len()));
    let flat = on.reshape_to(x, &[kept, &[product(joined)]].concat())?;
    Ok(one(on.reshape_to(&operation(&flat, -1)?, &extents)?))
}

/// `Softmax` from opset 13 on.
pub(super) fn softmax(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    Ok(one(on.softmax(call.input(0)?, call.int_or("axis", -1)?)?))
}

/// `Softmax` before opset 13, which normalizes over all dimensions from `axis` on.
pub(super) fn joint_softmax(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    joint(on, call, |x, axis| on.softmax(x, axis))
}

/// `LogSoftmax` from opset 13 on.
pub(super) fn log_softmax(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    Ok(one(on.log_softmax(call.input(0)?, call.int_or("axis", -1)?)?))
}

/// `LogSoftmax` before opset 13, which normalizes over all dimensions from `axis` on.
pub(super) fn joint_log_softmax(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    joint(on, call, |x, axis| on.log_softmax(x, axis))
}

/// Infers the types of `LayerNormalization`: the normalized tensor, the mean, and the inverse standard deviation.
pub fn layer_normalization_types(at: NodeFacts<'_>) -> Option<Types> {
    let moments = |x: &[Dim]| {
        let from = rule::axis(at.int("axis", -1)?, x.len())?;
        let one = |(i, d): (usize, &Dim)| if i < from { d.clone() } else { Dim::Known(1) };
        Some(x.iter().enumerate().map(one).collect::<Vec<_>>())
    };
    let moments =
        rule::tensor(at.type_attribute("stash_type", Some(DataType::F32)), at.dims(0).and_then(moments));
    Some(vec![at.ty(0).clone(), moments.clone(), moments])
}

/// `LayerNormalization`, with the mean and the inverse standard deviation if requested.
pub fn layer_normalization(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let (x, scale, bias) = (call.input(0)?, call.input(1)?, call.optional(2));
    let (axis, epsilon) = (call.int_or("axis", -1)?, call.float_or("epsilon", 1e-5)?);
    let stash = stash(call)?;
    let y = in_stash(on, x, stash, |wide| {
        let bias = bias.map(|bias| alike(on, bias, x, wide)).transpose()?;
        let scale = alike(on, scale, x, wide)?;
        on.layer_normalization(wide, &scale, bias.as_ref(), LayerNormalizationOptions { axis, epsilon })
    })?;
    if !call.wants(1) && !call.wants(2) {
        return Ok(one(y));
    }
    let axes = bb_core::ext::normalize::axes_from(x, axis)?;
    let m = moments(on, &math::to(on, x, stash)?, &axes, epsilon)?;
    Ok(smallvec![Some(y), Some(m.mean), Some(m.inverse)])
}

/// Reads the attribute for the type that moments are computed in.
fn stash<T>(call: &Call<'_, T>) -> Result<DataType, Error> {
    let number = call.int_or("stash_type", DataType::F32 as i64)?;
    let dtype = i32::try_from(number).ok().and_then(DataType::from_onnx).filter(|dtype| dtype.is_float());
    dtype.ok_or_else(|| call.wrong("stash_type", format!("is {number}, which numbers no type of floats")))
}

/// Computes `f` in `f64` if `stash` requires it. `f` always computes in `f32` or wider, which is sufficient for the narrower
/// types.
fn in_stash(
    on: &Tracer,
    x: &TracedTensor,
    stash: DataType,
    f: impl FnOnce(&TracedTensor) -> Result<TracedTensor, TraceStop>,
) -> Result<TracedTensor, TraceStop> {
    if stash == DataType::F64 { math::widened(on, x, stash, f) } else { f(x) }
}

/// Converts an operand that is used together with `x` to the type of `wide`, if that type differs from the type of `x`.
fn alike(
    on: &Tracer,
    operand: &TracedTensor,
    x: &TracedTensor,
    wide: &TracedTensor,
) -> Result<TracedTensor, TraceStop> {
    if wide.dtype() == x.dtype() { Ok(operand.clone()) } else { math::to(on, operand, wide.dtype()) }
}

/// Infers the type of `RMSNormalization`: the extents of the first operand, and the element type of the second.
fn rms_normalization_types(at: NodeFacts<'_>) -> Option<Types> {
    at.one(at.dtype(1), at.same())
}

/// `RMSNormalization`.
pub(super) fn rms_normalization(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let (axis, epsilon) = (call.int_or("axis", -1)?, call.float_or("epsilon", 1e-5)?);
    let (x, scale) = (call.input(0)?, call.input(1)?);
    Ok(one(in_stash(on, x, stash(call)?, |wide| {
        on.rms_normalization(wide, &alike(on, scale, x, wide)?, axis, epsilon)
    })?))
}

/// Infers the types of `BatchNormalization`. In training, the moments are also results, of the running moments' type.
fn batch_normalization_types(at: NodeFacts<'_>) -> Option<Types> {
    let moment = |input| at.ty(input).clone();
    let (mean, variance): (ValueType, ValueType) = (moment(3), moment(4));
    Some(vec![at.ty(0).clone(), mean.clone(), variance.clone(), mean, variance])
}

/// `BatchNormalization`. In training, it normalizes by the moments of the batch and updates the running moments.
pub(super) fn batch_normalization(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let (x, scale, bias) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let (mean, variance) = (call.input(3)?, call.input(4)?);
    let (epsilon, momentum) = (call.float_or("epsilon", 1e-5)?, call.float_or("momentum", 0.9)?);
    let more = (1..5).any(|index| call.wants(index));
    let training = match call.opset() {
        ..7 => !call.flag("is_test", false)? && more,
        7..14 => more,
        _ => call.flag("training_mode", false)?,
    };
    // Without `spatial`, each feature has its own moments. The model ArcFace nevertheless has moments for each channel.
    let spatial = call.opset() >= 9 || call.flag("spatial", true)?;
    if !training {
        return Ok(one(on.batch_normalization(x, scale, bias, mean, variance, epsilon)?));
    }
    if !spatial && mean.rank() + 1 != x.rank() {
        let problem = format!("has rank {}; each of the features has a mean of its own", mean.rank());
        return Err(call.wrong(NodePart::Operand(3), problem).into());
    }
    let axes: Vec<i64> = if spatial { (0..x.rank() as i64).filter(|&a| a != 1).collect() } else { vec![0] };
    let kept = mean.dtype();
    let (mean, variance) = (&math::accumulated(on, mean)?, &math::accumulated(on, variance)?);
    let wide = math::to(on, x, mean.dtype())?;
    let now = on.reduce_mean(&wide, &axes, true)?;
    let apart = on.sub(&wide, &now)?;
    // The mean of the differences is the rounding error of the mean, so subtract it. Division by a small deviation would
    // magnify the error.
    let rest = on.reduce_mean(&apart, &axes, true)?;
    let (now, apart) = (on.add(&now, &rest)?, on.sub(&apart, &rest)?);
    let spread = on.reduce_mean(&on.mul(&apart, &apart)?, &axes, false)?;
    let now = on.squeeze(&now, &axes)?;
    let y = on.batch_normalization(x, scale, bias, &now, &spread, epsilon)?;
    let moved = |old: &TracedTensor, new: &TracedTensor| -> Result<TracedTensor, TraceStop> {
        let share = on.mul(old, &on.scalar_like(old, momentum)?)?;
        let sum = on.add(&share, &on.mul(new, &on.scalar_like(new, 1.0 - momentum)?)?)?;
        math::narrowed(on, sum, kept)
    };
    let mut results: OpOutputs<TracedTensor> =
        smallvec![Some(y), Some(moved(mean, &now)?), Some(moved(variance, &spread)?)];
    // Opsets below 14 also return the moments of the batch.
    let own = [math::narrowed(on, now, kept)?, math::narrowed(on, spread, kept)?];
    results.extend(own.map(Some));
    Ok(results)
}

/// `InstanceNormalization`: normalizes each channel of each batch entry by its own moments.
pub(super) fn instance_normalization(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    let epsilon = call.float_or("epsilon", 1e-5)?;
    if x.rank() < 2 {
        let problem = format!("has rank {}, expected 2 or more: the batch and the channels first", x.rank());
        return Err(call.wrong(NodePart::Operand(0), problem).into());
    }
    let normalized = |x: &TracedTensor| -> Result<TracedTensor, TraceStop> {
        let [scale, bias] = channel_operands(on, call, x)?;
        let options = LayerNormalizationOptions { axis: 2, epsilon };
        on.layer_normalization(x, &scale, Some(&bias), options)
    };
    if x.rank() == 2 {
        // A channel with one element needs a spatial dimension of extent 1 for the normalization.
        return Ok(one(on.squeeze(&normalized(&on.unsqueeze(x, &[2])?)?, &[2])?));
    }
    Ok(one(normalized(x)?))
}

/// Returns the operands 1 and 2, which have one element per channel of `y`, reshaped so that they broadcast along the
/// channels.
fn channel_operands(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    y: &TracedTensor,
) -> Result<[TracedTensor; 2], TraceStop> {
    let (scale, bias) = (channel_operand(on, call.input(1)?, y)?, channel_operand(on, call.input(2)?, y)?);
    for (at, operand) in [(1, &scale), (2, &bias)] {
        if !on.broadcasts_to(operand, y) {
            return Err(call.wrong(NodePart::Operand(at), "has not one element for each channel").into());
        }
    }
    Ok([scale, bias])
}

/// Scales and shifts each channel of `y` by the elements of the operands 1 and 2.
fn scaled_and_shifted(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    y: &TracedTensor,
) -> Result<TracedTensor, TraceStop> {
    let [scale, bias] = channel_operands(on, call, y)?;
    on.add(&on.mul(y, &scale)?, &bias)
}

/// `GroupNormalization`: normalizes each group of channels by its moments. Before opset 21, the scale is also per group.
pub(super) fn group_normalization(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    let groups = call.int("num_groups")?;
    let [n, c, rest @ ..] = x.shape() else {
        return Err(call.wrong(NodePart::Operand(0), "has fewer than two dimensions").into());
    };
    let g = usize::try_from(groups).ok().filter(|&g| g > 0 && c.is_multiple_of(g));
    let g = g.ok_or_else(|| {
        call.wrong("num_groups", format!("is {groups}, of which {c} channels are no multiple"))
    })?;
    let size = c / g * rest.iter().product::<usize>();
    let epsilon = call.float_or("epsilon", 1e-5)?;
    let grouped = on.reshape(x, &[*n, g, size])?;
    let stash = if call.opset() < 21 { DataType::F32 } else { stash(call)? };
    let normal = in_stash(on, &grouped, stash, |x| {
        math::widened(on, x, DataType::F32, |x| Ok(moments(on, x, &[2], epsilon)?.normal))
    })?;
    if call.opset() < 21 {
        let y = scaled_and_shifted(on, call, &normal)?;
        return Ok(one(on.reshape(&y, x.shape())?));
    }
    Ok(one(scaled_and_shifted(on, call, &on.reshape(&normal, x.shape())?)?))
}

/// `MeanVarianceNormalization`: normalizes by the moments over `axes`.
pub(super) fn mean_variance_normalization(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let axes = call.ints("axes")?.unwrap_or(&[0, 2, 3]);
    // The operator has a fixed epsilon, which is no attribute.
    Ok(one(moments(on, call.input(0)?, axes, 1e-9)?.normal))
}

/// `MeanVarianceNormalization` before opset 9, when it was experimental. It normalizes each channel separately, or all
/// together.
pub(super) fn mean_variance_by_channel(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    crate::served::only(call, &["across_channels", "normalize_variance"])?;
    let x = call.input(0)?;
    let together = call.flag("across_channels", false)?;
    let axes: Vec<i64> = (0..x.rank() as i64).filter(|&axis| together || axis != 1).collect();
    // This version has no epsilon.
    let moments = moments(on, x, &axes, 0.0)?;
    if call.flag("normalize_variance", true)? {
        return Ok(one(moments.normal));
    }
    Ok(one(on.sub(x, &moments.mean)?))
}

/// `LpNormalization`: divides by the norm along `axis`; elements whose norm is 0 stay 0.
pub(super) fn lp_normalization(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let axis = [call.int_or("axis", -1)?];
    let p = call.int_or("p", 2)?;
    // Scale both sides of the quotient by the same factor, to keep the norm in the range of the type.
    let (x, _) = in_range(on, call.input(0)?, &axis)?;
    let norm = match p {
        1 => on.reduce_sum(&on.abs(&x)?, &axis, true)?,
        2 => on.sqrt(&on.reduce_sum(&on.mul(&x, &x)?, &axis, true)?)?,
        p => return Err(call.wrong("p", format!("is {p}, expected 1 or 2")).into()),
    };
    let zero = on.scalar_like(&x, 0.0)?;
    Ok(one(on.r#where(&on.equal(&norm, &zero)?, &zero, &on.div(&x, &norm)?)?))
}

/// `LRN`: divides by a power of the mean square of neighbouring channels.
pub(super) fn lrn(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    let size = call.int("size")?;
    if !(1..1 << 31).contains(&size) {
        return Err(call.wrong("size", format!("is {size}, expected a positive number")).into());
    }
    let (alpha, beta) = (call.float_or("alpha", 1e-4)?, call.float_or("beta", 0.75)?);
    let bias = call.float_or("bias", 1.0)?;
    let sums = neighbours(on, &on.mul(x, x)?, size)?;
    let base =
        on.add(&on.mul(&sums, &on.scalar_like(x, alpha / size as f64)?)?, &on.scalar_like(x, bias)?)?;
    Ok(one(on.div(x, &on.pow(&base, &on.scalar_like(x, beta)?)?)?))
}

/// Sums each channel and its neighbours, `size` channels in all, or fewer at the borders.
///
/// Computes the sums of 1, 2, 4, ... channels by doubling, and combines the sums whose lengths add up to `size`.
fn neighbours(on: &Tracer, x: &TracedTensor, size: i64) -> Result<TracedTensor, TraceStop> {
    let at = Axis::new(1, x.rank()).map_err(Error::from)?.get();
    let channels = x.shape().get(at).copied().unwrap_or(0) as i64;
    if x.shape().contains(&0) {
        return Ok(x.clone());
    }
    let before = ((size - 1) / 2).min(channels - 1);
    let after = (size / 2).min(channels - 1);
    let size = before + 1 + after;
    let zeros = |count: i64| {
        let mut shape = x.shape().to_vec();
        if let Some(extent) = shape.get_mut(at) {
            *extent = count as usize;
        }
        on.full(&shape, 0.0, x.dtype())
    };
    let part = |x: &TracedTensor, from: i64, to: i64| on.slice(x, &[from], &[to], &[at as i64], &[]);
    let mut sums = on.concat(&[&zeros(before)?, x, &zeros(after)?], at as i64)?;
    let (mut many, mut extent) = (1, channels + size - 1);
    let mut covered = 0;
    let mut total: Option<TracedTensor> = None;
    loop {
        if size & many != 0 {
            let more = part(&sums, covered, covered + channels)?;
            total = Some(total.map_or_else(|| Ok(more.clone()), |total| on.add(&total, &more))?);
            covered += many;
        }
        if covered == size {
            return Ok(total.unwrap_or(sums));
        }
        extent -= many;
        sums = on.add(&part(&sums, 0, extent)?, &part(&sums, many, many + extent)?)?;
        many *= 2;
    }
}

/// Reads whether the left and the right operand of a matrix product are transposed.
pub fn transposed<'a, A: Attributes<'a>>(node: &A) -> Result<[bool; 2], A::Error> {
    Ok([node.flag("transA", false)?, node.flag("transB", false)?])
}

/// Infers the extents of the matrix product of the operands 0 and `right`, each possibly transposed.
pub fn gemm_shape(at: NodeFacts<'_>, right: usize) -> Option<Vec<Dim>> {
    let ([a, b], [c, d]) = (at.dims(0)?, at.dims(right)?) else { return None };
    let [left, right] = transposed(&at).ok()?;
    let (rows, columns) = (if left { b } else { a }, if right { c } else { d });
    Some(vec![rows.clone(), columns.clone()])
}

/// Infers the type of `Gemm`.
pub fn gemm_types(at: NodeFacts<'_>) -> Option<Types> {
    at.one(at.dtype(0), gemm_shape(at, 1))
}

/// `Gemm`.
pub(super) fn gemm(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    Ok(one(plain_gemm(on, call)?))
}

/// `Gemm`: `alpha * a * b + beta * c`, where either matrix may be transposed. 16-bit floats are rounded once: a plain
/// product is one operation, and any other result is computed in `f32`.
pub fn plain_gemm(on: &Tracer, call: &Call<'_, TracedTensor>) -> Result<TracedTensor, TraceStop> {
    let (alpha, beta) = (call.float_or("alpha", 1.0)?, call.float_or("beta", 1.0)?);
    let dtype = call.input(0)?.dtype();
    let wide = |x: &TracedTensor| -> Result<TracedTensor, TraceStop> {
        let alone = alpha == 1.0 && call.optional(2).is_none();
        if alone || x.dtype() != dtype { Ok(x.clone()) } else { math::accumulated(on, x) }
    };
    let side = |index, transposed| -> Result<TracedTensor, TraceStop> {
        let x = &wide(call.input(index)?)?;
        if x.rank() != 2 {
            let problem = format!("has rank {}, expected 2", x.rank());
            return Err(call.wrong(NodePart::Operand(index), problem).into());
        }
        if transposed { on.transpose(x, &[1, 0]) } else { Ok(x.clone()) }
    };
    let scaled =
        |x: TracedTensor, by: f64| if by == 1.0 { Ok(x) } else { on.mul(&x, &on.scalar_like(&x, by)?) };
    if math::is_half(dtype)
        && let Some(other) =
            [1, 2].into_iter().find(|&i| call.optional(i).is_some_and(|x| x.dtype() != dtype))
    {
        let problem = format!("has elements of another type than the first operand's {dtype}");
        return Err(call.wrong(NodePart::Operand(other), problem).into());
    }
    let [left, right] = transposed(call)?;
    let product = scaled(on.matmul(&side(0, left)?, &side(1, right)?)?, alpha)?;
    let y = match call.optional(2) {
        Some(c) if c.rank() > 2 => {
            return Err(call
                .wrong(NodePart::Operand(2), format!("has rank {}, expected at most 2", c.rank()))
                .into());
        }
        Some(c) => {
            let (of_c, of_y) = (on.extents(c), on.extents(&product));
            // `c` must broadcast to the product; the product must not broadcast to `c`.
            if !of_c.iter().rev().zip(of_y.iter().rev()).all(|(own, all)| own.is(1) || own.equals(all)) {
                let problem = format!("has the shape {:?}; the product has {:?}", c.shape(), product.shape());
                return Err(call.wrong(NodePart::Operand(2), problem).into());
            }
            on.add(&product, &scaled(wide(c)?, beta)?)
        }
        None => Ok(product),
    }?;
    math::narrowed(on, y, dtype)
}

/// `Hardmax`: 1 at the first maximum along an axis, 0 elsewhere.
pub(super) fn hardmax(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    if call.opset() >= 13 {
        return Ok(one(first_maximum(on, x, call.int_or("axis", -1)?)?));
    }
    let from = Axis::new(call.int_or("axis", 1)?, x.rank().max(1)).map_err(Error::from)?.get();
    let (outer, inner) = x.shape().split_at(from);
    let flat = on.reshape(x, &[outer.iter().product(), inner.iter().product()])?;
    Ok(one(on.reshape(&first_maximum(on, &flat, 1)?, x.shape())?))
}

fn first_maximum(on: &Tracer, x: &TracedTensor, axis: i64) -> Result<TracedTensor, TraceStop> {
    let at = on.arg_max(x, axis, false)?;
    let axis = Axis::new(axis, x.rank()).map_err(Error::from)?.get();
    let extent = x.shape().get(axis).copied().unwrap_or(0);
    let mut shape = vec![1; x.rank()];
    if let Some(slot) = shape.get_mut(axis) {
        *slot = extent;
    }
    let steps = counted(on, &shape, 1)?;
    math::to(on, &on.equal(&at, &steps)?, x.dtype())
}
