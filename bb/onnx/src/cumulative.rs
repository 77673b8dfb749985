//! Cumulative sums and products along an axis.

use super::rows::operators;
use bb_core::ext::cumulate;
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};

operators! {
    "" {
        CumProd => Primitives(cum_prod), infer: Same, halves: Once;
        CumSum => Primitives(cum_sum), infer: Same, becomes: NnOp::CumSum, halves: Once;
    }
}

/// `CumSum`.
pub(super) fn cum_sum(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let (axis, [exclusive, reverse]) = (axis(on, call)?, flags(call)?);
    Ok(one(on.cum_sum(call.input(0)?, axis, exclusive, reverse)?))
}

/// `CumProd`.
pub(super) fn cum_prod(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let (axis, flags) = (axis(on, call)?, flags(call)?);
    Ok(one(cumulate::cumulative(on, call.input(0)?, axis, flags, 1.0, |a, b| on.mul(a, b))?))
}

/// Reads the axis, which is an input of the node.
fn axis(on: &Tracer, call: &Call<'_, TracedTensor>) -> Result<i64, TraceStop> {
    let axes = on.ints(call.input(1)?)?;
    match axes.as_slice() {
        &[axis] => Ok(axis),
        _ => Err(call.wrong("axis", format!("has {} elements, expected 1", axes.len())).into()),
    }
}

/// Reads the attributes `exclusive` and `reverse`.
fn flags<T: bb_core::Tensor>(call: &Call<'_, T>) -> Result<[bool; 2], bb_core::Error> {
    Ok([call.flag("exclusive", false)?, call.flag("reverse", false)?])
}
