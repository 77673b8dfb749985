//! Operators that move elements without changing their values.

use super::rows::operators;
use bb_core::ext::Extent;
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{Error, Tensor};
use bb_ir::Axis;
use bb_ir::infer::{self, Target};

operators! {
    "" {
        Concat => Primitives(concat), infer: Primitive, becomes: Primitive::Concat, halves: Moves;
        Gather => Primitives(gather), infer: Primitive, becomes: Primitive::Gather, halves: Moves;
        Reshape => Primitives(reshape), infer: Primitive, becomes: Primitive::Reshape, halves: Moves;
        Slice => Primitives(slice), infer: Primitive, becomes: Primitive::Slice, halves: Moves;
        Split => Primitives(split), infer: Primitive, becomes: Primitive::Split, halves: Moves;
        Squeeze => Primitives(squeeze), infer: Primitive, becomes: Primitive::Squeeze, halves: Moves;
        Transpose => Primitives(transpose), infer: Primitive, becomes: Primitive::Transpose, halves: Moves;
        Unsqueeze => Primitives(unsqueeze), infer: Primitive, becomes: Primitive::Unsqueeze, halves: Moves;
    }
}

/// `Reshape`: 0 copies an extent unless `allowzero`; -1 is computed from the remaining elements.
pub(super) fn reshape(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    let to = call.extents(on, "shape", 1)?.ok_or_else(|| call.wrong("shape", "is missing"))?;
    let allow_zero = call.flag("allowzero", false)?;
    // If no extent of the result depends on the operand's extents, reshape without reading them.
    if to.iter().all(|d| d.is_fixed() && (d.present() > 0 || d.present() == 0 && allow_zero)) {
        return Ok(one(on.reshape_to(x, &to)?));
    }
    let from = on.extents(x);
    let target = |(axis, d): (usize, &Extent)| match from.get(axis) {
        Some(own) if own.is_same(d) => Some(Target::Extent(d.clone())),
        _ if d.is(0) || d.is(-1) => Target::of(d.present(), allow_zero),
        _ => d.at_least(&Extent::from(0i64)).then(|| Target::Extent(d.clone())),
    };
    let targets: Option<Vec<Target<Extent>>> = to.iter().enumerate().map(target).collect();
    let below = || {
        let to: Vec<i64> = to.iter().map(Extent::present).collect();
        call.wrong("shape", format!("has an extent below -1 in {to:?}"))
    };
    let shape = infer::reshape_to(&from, &targets.ok_or_else(below)?).map_err(Error::from)?;
    Ok(one(on.reshape_to(x, &shape)?))
}

/// `Transpose`: without `perm`, the dimensions are reversed.
pub(super) fn transpose(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    Ok(one(on.transpose(call.input(0)?, call.ints("perm")?.unwrap_or_default())?))
}

/// `Concat`. In opset 1, `axis` has the default 1.
pub(super) fn concat(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let axis = if call.opset() < 4 { call.int_or("axis", 1)? } else { call.int("axis")? };
    Ok(one(on.concat(&call.all()?, axis)?))
}

/// `Gather`.
pub(super) fn gather(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    Ok(one(on.gather(call.input(0)?, call.input(1)?, call.int_or("axis", 0)?)?))
}

/// `Slice`. Starts and ends are attributes before opset 10, and operands since.
pub(super) fn slice(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let missing = |name| call.wrong(name, "is missing; the operator needs it");
    let starts = call.extents(on, "starts", 1)?.ok_or_else(|| missing("starts"))?;
    let ends = call.extents(on, "ends", 2)?.ok_or_else(|| missing("ends"))?;
    let axes = call.list(on, "axes", 3)?.unwrap_or_default();
    let steps = call.list(on, "steps", 4)?.unwrap_or_default();
    Ok(one(on.slice_to(call.input(0)?, &starts, &ends, &axes, &steps)?))
}

/// `Split`. The sizes come from an attribute, an operand, the number of parts, or the number of results.
pub(super) fn split(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    let axis = call.int_or("axis", 0)?;
    let sizes = match call.extents(on, "split", 1)? {
        Some(sizes) => {
            if let Some(size) = sizes.iter().find(|size| size.present() < 0) {
                return Err(call.wrong("split", format!("has a part of extent {size}")).into());
            }
            sizes
        }
        None => even_parts(on, call, x, axis)?,
    };
    Ok(on.split_to(x, axis, &sizes)?.into_iter().map(Some).collect())
}

/// Cuts an extent into equal parts. The last part may be smaller.
fn even_parts(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    x: &TracedTensor,
    axis: i64,
) -> Result<Vec<Extent>, TraceStop> {
    let count = call.int_or("num_outputs", call.results() as i64)?;
    let parts = usize::try_from(count).ok().filter(|&n| n > 0 && n <= call.results().max(1));
    let parts = parts.ok_or_else(|| {
        call.wrong("num_outputs", format!("is {count}; the node names {} results", call.results()))
    })?;
    let axis = Axis::new(axis, x.rank()).map_err(Error::from)?.get();
    let extent = on.extent(x, axis);
    let each = Extent::from(parts);
    let part = extent.ceil_div(&each);
    if part.times(&each).equals(&extent) {
        return Ok(vec![part; parts]);
    }
    if !call.has("num_outputs") && call.opset() < 18 {
        let problem = format!("is left out, and {extent} is no multiple of {parts}");
        return Err(call.wrong("split", problem).into());
    }
    Ok(infer::split_evenly(&extent, parts).map_err(Error::from)?.into_vec())
}

/// `Squeeze`. The axes are an attribute before opset 13, and an operand since.
pub(super) fn squeeze(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    match call.list(on, "axes", 1)? {
        // An empty operand `axes` squeezes no dimension. The primitive's empty list, like an empty attribute, squeezes all dimensions of
        // extent 1. ONNX's evaluator and ONNX Runtime do the same.
        Some(axes) if axes.is_empty() && call.opset() >= 13 => Ok(one(on.identity(x)?)),
        Some(axes) if !axes.is_empty() => Ok(one(on.squeeze(x, &axes)?)),
        _ => {
            // The extents determine which axes have extent 1, and with it the result's rank.
            let axes: Vec<i64> =
                (0i64..).zip(&on.extents(x)).filter(|(_, d)| d.is(1)).map(|(i, _)| i).collect();
            Ok(one(if axes.is_empty() { on.identity(x)? } else { on.squeeze(x, &axes)? }))
        }
    }
}

/// `Unsqueeze`. The axes are an attribute before opset 13, and an operand since.
pub(super) fn unsqueeze(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let axes =
        call.list(on, "axes", 1)?.ok_or_else(|| call.wrong("axes", "is missing; the operator needs it"))?;
    Ok(one(on.unsqueeze(call.input(0)?, &axes)?))
}
