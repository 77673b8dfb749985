//! Gates, normalizations and mixes of streams, as ONNX Runtime's model builder writes them for language models.
//!
//! Operands may have other float types than the first operand, so these functions widen operands themselves, and round each
//! result once.

use super::{alike, none_from, only};
use bb_core::error::NodePart;
use bb_core::ext::{Extent, Extents, math};
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::graph::Dim;
use bb_ir::infer::rule::{self, NodeFacts, Types};
use bb_onnx::shared::operators;
use smallvec::smallvec;

operators! {
    "com.microsoft" {
        BranchwiseRMSNorm => Primitives(branchwise_rms_norm), infer: Same, halves: Once;
        EngramGate => Primitives(engram_gate), infer: By(engram_gate_types), halves: Once;
        GatedAdd => Primitives(gated_add), infer: Same, halves: Once;
        GatedRMSNorm => Primitives(gated_rms_norm), infer: Same, halves: Once;
        HyperConnectionPostMix => Primitives(post_mix), infer: Same, halves: Once;
        HyperConnectionPreMix => Primitives(pre_mix), infer: By(pre_mix_types), halves: Once;
        LinearAttentionGate => Primitives(linear_attention_gate), infer: By(linear_attention_gate_types), halves: Once;
        ScaledSiLU => Primitives(scaled_silu), infer: Same, halves: Once;
    }
}

/// Returns an operand in the type for the computation: `f64`, if the first operand is `f64`, otherwise `f32`.
fn wide(on: &Tracer, call: &Call<'_, TracedTensor>, index: usize) -> Result<TracedTensor, TraceStop> {
    let x = call.input(index)?;
    if !x.dtype().is_float() {
        let problem = format!("has elements of {}, expected floats", x.dtype());
        return Err(call.wrong(NodePart::Operand(index), problem).into());
    }
    let dtype = if call.input(0)?.dtype() == DataType::F64 { DataType::F64 } else { DataType::F32 };
    math::to(on, x, dtype)
}

/// Converts the result to the type of the first operand.
fn narrow(on: &Tracer, call: &Call<'_, TracedTensor>, y: TracedTensor) -> OpResult {
    Ok(one(math::narrowed(on, y, call.input(0)?.dtype())?))
}

/// Returns the reciprocal of the root mean square of each row.
fn inverse_root(on: &Tracer, x: &TracedTensor, epsilon: f64) -> Result<TracedTensor, TraceStop> {
    let mean = on.reduce_mean(&on.mul(x, x)?, &[-1], true)?;
    on.reciprocal(&on.sqrt(&math::plus(on, &mean, epsilon)?)?)
}

fn epsilon<T>(call: &Call<'_, T>) -> Result<f64, Error> {
    call.float_or("epsilon", f64::from(1e-5f32))
}

/// `GatedAdd`: adds a tensor with a gate for each row.
pub(crate) fn gated_add(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &[])?;
    none_from(call, 3)?;
    alike(call, 1)?;
    alike(call, 2)?;
    let (x, y, gate) = (wide(on, call, 0)?, wide(on, call, 1)?, wide(on, call, 2)?);
    let last = gate.rank().checked_sub(1).map(|axis| on.extent(&gate, axis));
    if gate.rank() != x.rank() || !last.is_some_and(|extent| extent.is(1)) {
        let problem =
            format!("has the shape {:?}, expected a number for each row of {:?}", gate.shape(), x.shape());
        return Err(call.wrong(NodePart::Operand(2), problem).into());
    }
    narrow(on, call, on.add(&x, &on.mul(&y, &gate)?)?)
}

/// `ScaledSiLU`: `z * sigmoid(z)`, where `z` is the scaled operand.
pub(crate) fn scaled_silu(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["alpha"])?;
    let x = wide(on, call, 0)?;
    let z = match call.optional(1) {
        Some(scale) if on.extents(scale).iter().all(|extent| extent.is(1)) => {
            on.mul(&x, &on.reshape(&wide(on, call, 1)?, &[])?)?
        }
        Some(scale) => {
            let problem = format!("has the shape {:?}, expected one number", scale.shape());
            return Err(call.wrong(NodePart::Operand(1), problem).into());
        }
        None => math::times(on, &x, call.float_or("alpha", 1.0)?)?,
    };
    narrow(on, call, on.swish(&z, 1.0)?)
}

/// `GatedRMSNorm`: normalizes groups of each row, and multiplies by an activation of the gate.
pub(crate) fn gated_rms_norm(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["activation", "epsilon"])?;
    let (x, scale, gate) = (wide(on, call, 0)?, wide(on, call, 1)?, wide(on, call, 2)?);
    let gate = match call.text_or("activation", "silu")? {
        "silu" | "swish" => on.swish(&gate, 1.0)?,
        "sigmoid" => on.sigmoid(&gate)?,
        other => {
            let problem = format!("is `{other}`, expected `silu`, `swish` or `sigmoid`");
            return Err(call.wrong("activation", problem).into());
        }
    };
    let (all, part) = (on.extents(&x), on.extents(&scale));
    let ([.., width], [part]) = (all.as_slice(), part.as_slice()) else {
        let problem = format!("has the shape {:?}, expected one dimension", scale.shape());
        return Err(call.wrong(NodePart::Operand(1), problem).into());
    };
    let parts = parted(call, &all, width, part)?;
    let split = on.reshape_to(&x, &parts)?;
    let normal = on.mul(&on.mul(&split, &inverse_root(on, &split, epsilon(call)?)?)?, &scale)?;
    narrow(on, call, on.mul(&on.reshape_to(&normal, &all)?, &gate)?)
}

/// Returns the shape after the last dimension is split into parts of equal size.
fn parted<T>(call: &Call<'_, T>, all: &[Extent], width: &Extent, part: &Extent) -> Result<Extents, Error> {
    let count = if part.is(0) { Extent::from(0i64) } else { width.floor_div(part) };
    if !count.times(part).equals(width) {
        let problem = format!("is {width} wide, which is no multiple of {part}");
        return Err(call.wrong(NodePart::Operand(0), problem));
    }
    let before = all.iter().take(all.len().saturating_sub(1)).cloned();
    Ok(before.chain([count, part.clone()]).collect())
}

/// Streams `[…, c, h]`, which may also be merged to `[…, c * h]` in the operand, with the extents `c` and `h`.
struct Streams {
    x: TracedTensor,
    count: Extent,
    width: Extent,
}

/// Reads operand 0 as streams.
fn streams(on: &Tracer, call: &Call<'_, TracedTensor>) -> Result<Streams, TraceStop> {
    let x = wide(on, call, 0)?;
    let all = on.extents(&x);
    let branches = call.int_or("num_branches", 0)?;
    if branches < 0 {
        return Err(call.wrong("num_branches", format!("is {branches}, expected a positive number")).into());
    }
    match all.as_slice() {
        [.., count, width] if branches == 0 => {
            let (count, width) = (count.clone(), width.clone());
            Ok(Streams { x, count, width })
        }
        [.., last] if branches > 0 => {
            let count = Extent::from(branches);
            let width = last.floor_div(&count);
            let parts = parted(call, &all, last, &width)?;
            let x = on.reshape_to(&x, &parts)?;
            if on.extent(&x, parts.len() - 2).equals(&count) {
                Ok(Streams { x, count, width })
            } else {
                let problem = format!("is {branches}; the operand is {last} wide");
                Err(call.wrong("num_branches", problem).into())
            }
        }
        _ => Err(call.wrong(NodePart::Operand(0), format!("has rank {}", x.rank())).into()),
    }
}

/// Reads a gate, `[…, c]`, `[…, c, 1]`, `[…, c, h]` or `[…, c * h]`, and reshapes it to broadcast with the streams.
fn gate(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    streams: &Streams,
    index: usize,
) -> Result<TracedTensor, TraceStop> {
    let x = wide(on, call, index)?;
    let extents = on.extents(&x);
    let Some(last) = extents.last().filter(|_| x.rank() + 1 == streams.x.rank()) else { return Ok(x) };
    if last.equals(&streams.count) {
        return on.unsqueeze(&x, &[-1]);
    }
    on.reshape_to(&x, &parted(call, &extents, last, &streams.width)?)
}

/// `BranchwiseRMSNorm`: divides each stream by its root mean square.
pub(crate) fn branchwise_rms_norm(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["epsilon", "num_branches"])?;
    let streams = streams(on, call)?;
    let x = &streams.x;
    let mut y = on.mul(x, &inverse_root(on, x, epsilon(call)?)?)?;
    if call.optional(1).is_some() {
        let scale = wide(on, call, 1)?;
        let flat = scale.rank() == 1 && !on.extent(&scale, 0).equals(&streams.width);
        let shape = [streams.count.clone(), streams.width.clone()];
        y = on.mul(&y, &if flat { on.reshape_to(&scale, &shape)? } else { scale })?;
    }
    let extents = on.extents(call.input(0)?);
    narrow(on, call, on.reshape_to(&y, &extents)?)
}

/// Infers the type of `HyperConnectionPreMix`: one stream.
fn pre_mix_types(at: NodeFacts<'_>) -> Option<Types> {
    let branches = at.int("num_branches", 0)?;
    let shape = |x: &[Dim]| match x {
        [before @ .., _, width] if branches == 0 => Some([before, std::slice::from_ref(width)].concat()),
        [before @ .., all] if branches > 0 => Some([before, &[rule::divided(all, branches)]].concat()),
        _ => None,
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// `HyperConnectionPreMix`: the sum of the streams, each multiplied by its gate.
pub(crate) fn pre_mix(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["num_branches", "reduction_scale"])?;
    let streams = streams(on, call)?;
    let mixed = on.mul(&streams.x, &gate(on, call, &streams, 1)?)?;
    let sum = on.reduce_sum(&mixed, &[-2], false)?;
    narrow(on, call, math::times(on, &sum, call.float_or("reduction_scale", 1.0)?)?)
}

/// `HyperConnectionPostMix`: mixes the streams by a matrix, and adds a multiple of another tensor to each.
pub(crate) fn post_mix(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["num_branches"])?;
    let streams = streams(on, call)?;
    let mixed = match call.optional(3) {
        Some(matrix) => {
            let rank = matrix.rank() as i64;
            if rank < 2 {
                return Err(call.wrong(NodePart::Operand(3), "has no rows and columns").into());
            }
            let perm: Vec<i64> = (0..rank - 2).chain([rank - 1, rank - 2]).collect();
            on.matmul(&on.transpose(&wide(on, call, 3)?, &perm)?, &streams.x)?
        }
        None => streams.x.clone(),
    };
    let added = on.unsqueeze(&wide(on, call, 1)?, &[-2])?;
    let y = on.add(&mixed, &on.mul(&gate(on, call, &streams, 2)?, &added)?)?;
    let extents = on.extents(call.input(0)?);
    narrow(on, call, on.reshape_to(&y, &extents)?)
}

/// Infers the types of `LinearAttentionGate`: each result has the type of the operand that it is computed from.
fn linear_attention_gate_types(at: NodeFacts<'_>) -> Option<Types> {
    Some(vec![at.ty(0).clone(), at.ty(3).clone()])
}

/// `LinearAttentionGate`: the decay and the update rate of linear attention.
pub(crate) fn linear_attention_gate(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &[])?;
    let (a, bias, scale) = (wide(on, call, 0)?, wide(on, call, 1)?, wide(on, call, 2)?);
    let decay = on.mul(&scale, &on.softplus(&on.add(&a, &bias)?)?)?;
    let dtype = call.input(0)?.dtype();
    let rate = match (call.wants(1), call.optional(3)) {
        (true, None) => {
            return Err(call.wrong(NodePart::Operand(3), "is missing; the second result needs it").into());
        }
        (true, Some(_)) => Some(math::narrowed(on, on.sigmoid(&wide(on, call, 3)?)?, dtype)?),
        (false, _) => None,
    };
    Ok(smallvec![Some(math::narrowed(on, decay, dtype)?), rate])
}

/// Infers the types of `EngramGate`: both results have the type of the keys.
fn engram_gate_types(at: NodeFacts<'_>) -> Option<Types> {
    Some(vec![at.ty(0).clone(), at.ty(0).clone()])
}

/// `EngramGate`: multiplies the values by a gate that is computed from keys and queries.
pub(crate) fn engram_gate(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["epsilon"])?;
    let epsilon = epsilon(call)?;
    let normal = |x: &TracedTensor, scale: usize| {
        on.mul(&on.mul(x, &inverse_root(on, x, epsilon)?)?, &wide(on, call, scale)?)
    };
    let (key, query) = (normal(&wide(on, call, 0)?, 3)?, normal(&wide(on, call, 1)?, 4)?);
    let width = key.shape().last().copied().unwrap_or(0) as f64;
    let dot = math::times(on, &on.reduce_sum(&on.mul(&key, &query)?, &[-1], true)?, 1.0 / width.sqrt())?;
    let size = on.maximum(&on.abs(&dot)?, &on.scalar_like(&dot, f64::from(1e-6f32))?)?;
    let gate = on.sigmoid(&on.mul(&on.sign(&dot)?, &on.sqrt(&size)?)?)?;
    let y = on.mul(&gate, &on.unsqueeze(&wide(on, call, 2)?, &[-2])?)?;
    let dtype = call.input(0)?.dtype();
    let second = match (call.wants(1), call.optional(5)) {
        (true, None) => {
            return Err(call.wrong(NodePart::Operand(5), "is missing; the second result needs it").into());
        }
        (true, Some(_)) => Some(math::narrowed(on, normal(&y, 5)?, dtype)?),
        (false, _) => None,
    };
    Ok(smallvec![Some(math::narrowed(on, y, dtype)?), second])
}
