//! Reductions, whose axes moved from an attribute to an operand.

use super::attributes::Attributes;
use super::rows::operators;
use bb_core::ext::math;
use bb_core::ext::normalize::in_range;
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Tensor};
use bb_ir::graph::Dim;
use bb_ir::infer;
use bb_ir::infer::rule::{NodeFacts, Types};

operators! {
    "" {
        ArgMax => Primitives(arg_max), infer: By(arg_types), becomes: IndexOp::ArgMax, halves: Moves;
        ArgMin => Primitives(arg_min), infer: By(arg_types), becomes: IndexOp::ArgMin, halves: Moves;
        ReduceL1 => Primitives(l1), infer: By(reduce_types);
        ReduceL2 => Primitives(l2), infer: By(reduce_types);
        ReduceLogSum => Primitives(log_sum), infer: By(reduce_types);
        ReduceLogSumExp => Primitives(log_sum_exp), infer: By(reduce_types);
        ReduceMax => Primitives(max), infer: Primitive, becomes: Primitive::ReduceMax, halves: Moves;
        ReduceMean => Primitives(mean), infer: Primitive, becomes: Primitive::ReduceMean, halves: Once;
        ReduceMin => Primitives(min), infer: Primitive, becomes: Primitive::ReduceMin, halves: Moves;
        ReduceProd => Primitives(prod), infer: By(reduce_types), becomes: NnOp::ReduceProd, halves: Once;
        ReduceSum => Primitives(sum), infer: Primitive, becomes: Primitive::ReduceSum, halves: Once;
        ReduceSumSquare => Primitives(sum_square), infer: By(reduce_types);
    }
}

/// The axes of a reduction, and whether their dimensions are kept.
struct Reduced {
    /// The axes; all if empty.
    axes: Vec<i64>,
    /// Whether reduced dimensions are kept, with extent 1.
    keepdims: bool,
}

/// Reads the axes; `None` if nothing is reduced.
fn reduced(on: &Tracer, call: &Call<'_, TracedTensor>) -> Result<Option<Reduced>, TraceStop> {
    let axes = call.list(on, "axes", 1)?.unwrap_or_default();
    let (keepdims, noop) = (call.flag("keepdims", true)?, call.flag("noop_with_empty_axes", false)?);
    Ok((!axes.is_empty() || !noop).then_some(Reduced { axes, keepdims }))
}

/// Declares reductions by three parts: an expression of each element before, one primitive reduction, and an expression of
/// the result after.
///
/// Without axes to reduce, each element is a group by itself, so both expressions still apply.
macro_rules! reductions {
    ($( $name:ident = $method:ident, |$on:ident, $x:ident| $before:expr, |$y:ident| $after:expr; )*) => {$(
        pub(super) fn $name($on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
            let $x = call.input(0)?;
            let r = reduced($on, call)?;
            let before = $before;
            let $y = match r {
                Some(r) => $on.$method(&before, &r.axes, r.keepdims)?,
                None => $on.identity(&before)?,
            };
            Ok(one($after))
        }
    )*};
}

reductions! {
    max = reduce_max, |on, x| x.clone(), |y| y;
    mean = reduce_mean, |on, x| x.clone(), |y| y;
    min = reduce_min, |on, x| x.clone(), |y| y;
    sum = reduce_sum, |on, x| x.clone(), |y| y;
    l1 = reduce_sum, |on, x| on.abs(x)?, |y| y;
    log_sum = reduce_sum, |on, x| x.clone(), |y| in_floats(on, &y, |y| on.log(y))?;
    sum_square = reduce_sum, |on, x| on.mul(x, x)?, |y| y;
}

/// Applies a function of floats. Integers are converted to `f64` first, and the results are truncated to integers.
fn in_floats(
    on: &Tracer,
    x: &TracedTensor,
    f: impl FnOnce(&TracedTensor) -> Result<TracedTensor, TraceStop>,
) -> Result<TracedTensor, TraceStop> {
    if x.dtype().is_float() { f(x) } else { math::widened(on, x, DataType::F64, f) }
}

/// Infers the types of the reductions that are not primitives.
fn reduce_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = at.dims(0).and_then(|x| at.reduced("reduce", x));
    at.one(at.dtype(0), shape)
}

/// `ReduceL2`. Floats are scaled first, so that no square leaves the range of their type.
pub(super) fn l2(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    let r = reduced(on, call)?;
    if !x.dtype().is_float() {
        let squares = on.mul(x, x)?;
        let sum = match r {
            Some(r) => on.reduce_sum(&squares, &r.axes, r.keepdims)?,
            None => squares,
        };
        return Ok(one(in_floats(on, &sum, |y| on.sqrt(y))?));
    }
    let Some(r) = r else { return Ok(one(on.abs(x)?)) };
    let (scaled, scale) = in_range(on, x, &r.axes)?;
    let root = on.sqrt(&on.reduce_sum(&on.mul(&scaled, &scaled)?, &r.axes, true)?)?;
    let y = on.div(&root, &scale)?;
    Ok(one(if r.keepdims { y } else { without(on, &y, &r.axes)? }))
}

/// `ReduceLogSumExp`. The maximum is subtracted first, so that nothing overflows.
pub(super) fn log_sum_exp(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    let Some(r) = reduced(on, call)? else { return Ok(one(on.identity(x)?)) };
    Ok(one(in_floats(on, x, |x| log_sum_exp_along(on, x, &r))?))
}

fn log_sum_exp_along(on: &Tracer, x: &TracedTensor, r: &Reduced) -> Result<TracedTensor, TraceStop> {
    let most = on.reduce_max(x, &r.axes, true)?;
    // Do not shift by an infinite maximum, because the difference of two infinities is NaN.
    let zero = on.scalar_like(x, 0.0)?;
    let shift = on.r#where(&on.is_inf(&most, true, true)?, &zero, &most)?;
    let total = on.reduce_sum(&on.exp(&on.sub(x, &shift)?)?, &r.axes, true)?;
    let y = on.add(&on.log(&total)?, &shift)?;
    if r.keepdims { Ok(y) } else { without(on, &y, &r.axes) }
}

/// Removes reduced dimensions; removes all dimensions if no axis is listed.
fn without(on: &Tracer, y: &TracedTensor, axes: &[i64]) -> Result<TracedTensor, TraceStop> {
    match axes {
        [] if y.rank() == 0 => on.identity(y),
        [] => on.squeeze(y, &(0..y.rank() as i64).collect::<Vec<_>>()),
        axes => on.squeeze(y, axes),
    }
}

/// `ReduceProd`.
pub(super) fn prod(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    let Some(r) = reduced(on, call)? else { return Ok(one(on.identity(x)?)) };
    Ok(one(on.reduce_prod(x, &r.axes, r.keepdims)?))
}

/// Reads the axis of `ArgMax` or `ArgMin`, and whether its dimension is kept.
fn along<'a, A: Attributes<'a>>(node: &A) -> Result<(i64, bool), A::Error> {
    Ok((node.int_or("axis", 0)?, node.flag("keepdims", true)?))
}

fn arg(on: &Tracer, call: &Call<'_, TracedTensor>, least: bool) -> OpResult {
    let (axis, keep) = along(call)?;
    let (x, last) = (call.input(0)?, call.flag("select_last_index", false)?);
    let at = if least { on.arg_min(x, axis, last)? } else { on.arg_max(x, axis, last)? };
    Ok(one(if keep { at } else { on.squeeze(&at, &[axis])? }))
}

fn arg_types(at: NodeFacts<'_>) -> Option<Types> {
    let reduced = |x: &[Dim]| {
        let (axis, keep) = along(&at).ok()?;
        Some(infer::reduce("arg", x, &[axis], keep).ok()?.shape.into_vec())
    };
    at.one(Some(DataType::I64), at.dims(0).and_then(reduced))
}

/// `ArgMax`.
pub(super) fn arg_max(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    arg(on, call, false)
}

/// `ArgMin`.
pub(super) fn arg_min(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    arg(on, call, true)
}
