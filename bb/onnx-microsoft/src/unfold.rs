//! `UnfoldTensor`: sliding windows along an axis; and `SampleOp`, a copy operator of ONNX Runtime's tests.

use super::only;
use bb_core::Tensor;
use bb_core::ext::Extent;
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TracedTensor, Tracer};
use bb_ir::Axis;
use bb_ir::graph::Dim;
use bb_ir::infer::rule::{self, NodeFacts, Types};
use bb_onnx::shared::operators;

operators! {
    "com.microsoft" {
        SampleOp => Primitives(sample), infer: Same, halves: Moves;
        UnfoldTensor => Primitives(unfold), infer: By(unfold_tensor_types), halves: Moves;
    }
}

/// `SampleOp`: copies the operand.
pub(crate) fn sample(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &[])?;
    Ok(one(on.identity(call.input(0)?)?))
}

/// Infers the type of `UnfoldTensor`: windows along an axis, whose elements are a new last dimension.
fn unfold_tensor_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| {
        let (size, step) = (at.int("size", 0)?, at.int("step", 1)?);
        let mut out = x.to_vec();
        let dim = out.get_mut(rule::axis(at.int("dim", -1)?, x.len())?)?;
        if size < 1 || step < 1 {
            return None;
        }
        *dim = rule::shifted(&rule::divided(&rule::shifted(dim, size.checked_neg()?), step), 1);
        out.push(rule::extent(size));
        Some(out)
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// `UnfoldTensor`: windows of `size` elements of an axis, `step` elements apart. The elements of a window
/// are a new last dimension.
pub(crate) fn unfold(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["dim", "size", "step"])?;
    let x = call.input(0)?;
    let axis = Axis::new(call.int_or("dim", -1)?, x.rank()).map_err(bb_core::Error::from)?.get();
    let (size, step) = (call.int("size")?, call.int_or("step", 1)?);
    let (own, extent, distance) = (Extent::from(size), on.extent(x, axis), Extent::from(step));
    if size < 1 || !extent.at_least(&own) {
        return Err(call.wrong("size", format!("is {size}; the axis has an extent of {extent}")).into());
    }
    if step < 1 {
        return Err(call.wrong("step", format!("is {step}, expected a positive number")).into());
    }
    let count = extent.minus(&own).floor_div(&distance).plus(&Extent::from(1i64));
    let zero = Extent::from(0i64);
    let starts = on.unsqueeze(&on.iota(&zero, &distance, &count)?, &[1])?;
    let places = on.add(&starts, &on.iota(&zero, &Extent::from(1i64), &own)?)?;
    let windows = on.gather(x, &places, axis as i64)?;
    // Move the elements of each window from the dimension after the windows to the last dimension.
    let inner = axis as i64 + 1;
    let rank = x.rank() as i64 + 1;
    let perm: Vec<i64> = (0..inner).chain(inner + 1..rank).chain([inner]).collect();
    Ok(one(if perm.is_sorted() { windows } else { on.transpose(&windows, &perm)? }))
}
