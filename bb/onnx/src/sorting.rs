//! Operators that sort, and operators that scatter by index.

use super::rows::operators;
use bb_core::DataType;
use bb_core::ext::{ScatterElementsOptions, ScatterReduction, TopKOptions};
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TracedTensor, Tracer};
use bb_ir::graph::Dim;
use bb_ir::infer::rule::{self, NodeFacts, Types};

operators! {
    "" {
        Scatter => HostByDefault(scatter_elements), infer: Same, halves: Once;
        ScatterElements => HostByDefault(scatter_elements), infer: Same, becomes: IndexOp::ScatterElements, halves: Once;
        ScatterND => HostByDefault(scatter_nd), infer: Same, halves: Once;
        TopK => HostByDefault(top_k), infer: By(top_k_types), becomes: IndexOp::TopK, halves: Moves;
    }
}

fn top_k_types(at: NodeFacts<'_>) -> Option<Types> {
    let count = match at.int("k", -1) {
        Some(k @ 0..) => rule::extent(k),
        _ => at.extent(1),
    };
    let kept = |x: &[Dim]| at.with_axis(x, at.int("axis", -1)?, count);
    let shape = at.dims(0).and_then(kept);
    Some(vec![rule::tensor(at.dtype(0), shape.clone()), rule::tensor(Some(DataType::I64), shape)])
}

/// `TopK`. `k` is an attribute before opset 10, and an operand since.
pub(super) fn top_k(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let k = if call.opset() < 10 {
        call.int("k")?
    } else {
        match on.ints(call.input(1)?)?.as_slice() {
            &[k] => k,
            other => return Err(call.wrong("k", format!("is {other:?}, expected one number")).into()),
        }
    };
    let options = TopKOptions {
        axis: call.int_or("axis", -1)?,
        largest: call.flag("largest", true)?,
        sorted: call.flag("sorted", true)?,
    };
    Ok(on.top_k(call.input(0)?, k, options)?.into_iter().map(Some).collect())
}

/// `ScatterElements`, and `Scatter`, its name before opset 11.
pub(super) fn scatter_elements(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let (data, indices, updates) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let options = ScatterElementsOptions {
        axis: call.int_or("axis", 0)?,
        reduction: call.word("reduction", "none", ScatterReduction::of)?,
    };
    Ok(one(on.scatter_elements(data, indices, updates, options)?))
}

/// `ScatterND`.
pub(super) fn scatter_nd(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let reduction = call.word("reduction", "none", ScatterReduction::of)?;
    Ok(one(on.scatter_nd(call.input(0)?, call.input(1)?, call.input(2)?, reduction)?))
}
