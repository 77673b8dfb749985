//! `MoEGroupRouter`: chooses the experts of each token, among the experts of the best groups.

use super::only;
use bb_core::error::NodePart;
use bb_core::ext::{Extent, TopKOptions, math};
use bb_core::operator::{Call, OpResult};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::infer::rule::{self, NodeFacts, Types};
use bb_onnx::shared::operators;
use smallvec::smallvec;

operators! {
    "com.microsoft" {
        MoEGroupRouter => HostByDefault(moe_group_router), infer: By(moe_group_router_types), halves: Once;
    }
}

/// Checks that a number of experts or groups is positive and at most `most`.
fn count<T>(call: &Call<'_, T>, name: &str, value: i64, most: usize) -> Result<usize, Error> {
    usize::try_from(value)
        .ok()
        .filter(|n| (1..=most).contains(n))
        .ok_or_else(|| call.wrong(name, format!("is {value}, expected a positive number, at most {most}")))
}

/// Returns whether each of the `count` elements of the last dimension is among the `k` greatest.
fn among_greatest(on: &Tracer, x: &TracedTensor, count: usize, k: usize) -> Result<TracedTensor, TraceStop> {
    let mut found = on.top_k(x, k as i64, TopKOptions::default())?.into_iter();
    let (Some(_), Some(places)) = (found.next(), found.next()) else {
        return Err(Error::Results { op: "top_k".to_owned(), expected: 2, got: found.len() }.into());
    };
    let all = on.iota(&Extent::from(0i64), &Extent::from(1i64), &Extent::from(count))?;
    let hits = on.equal(&on.unsqueeze(&places, &[-1])?, &all)?;
    let hits = on.reduce_max(&math::to(on, &hits, DataType::I32)?, &[-2], false)?;
    on.greater(&hits, &on.scalar_like(&hits, 0.0)?)
}

/// Infers the types of `MoEGroupRouter`: a row for each token, a column for each expert.
fn moe_group_router_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = || {
        let (rows, experts) = (at.dims(0)?.split_last()?.1, at.dims(1)?.first()?);
        Some(vec![rule::product(rows), experts.clone()])
    };
    let full = rule::tensor(Some(DataType::F32), shape());
    Some(vec![rule::tensor(at.dtype(0), shape()), full.clone(), full])
}

/// `MoEGroupRouter`.
pub(crate) fn moe_group_router(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["group_topk", "n_group", "router_sentinel", "top_k", "topk_group"])?;
    let (x, bias) = (call.input(0)?, math::to(on, call.input(1)?, DataType::F32)?);
    let &[experts] = bias.shape() else {
        let problem = format!("has the shape {:?}, expected a vector", bias.shape());
        return Err(call.wrong(NodePart::Operand(1), problem).into());
    };
    let groups = count(call, "n_group", call.int_or("n_group", 1)?, experts)?;
    if !experts.is_multiple_of(groups) {
        return Err(call.wrong("n_group", format!("is {groups}, which does not divide {experts}")).into());
    }
    let of_each = experts / groups;
    let open = call.int_or("topk_group", 1)?;
    let open = count(call, "topk_group", open, groups)?;
    let summed = count(call, "group_topk", call.int_or("group_topk", 2)?, usize::MAX)?.min(of_each);
    let chosen = count(call, "top_k", call.int("top_k")?, open * of_each)?;
    let mut logits = math::to(on, x, DataType::F32)?;
    if call.optional(2).is_some() {
        let weights = math::to(on, call.input(2)?, DataType::F32)?;
        logits = on.matmul(&logits, &on.transpose(&weights, &[1, 0])?)?;
    }
    let all = on.extents(&logits);
    let rows = bb_core::ext::product(all.iter().take(all.len().saturating_sub(1)));
    let logits = on.reshape_to(&logits, &[rows.clone(), experts.into()])?;
    let weights = on.sigmoid(&logits)?;
    let scores = on.add(&weights, &bias)?;
    let probabilities = if call.wants(0) {
        let by_group = on.reshape_to(&scores, &[rows.clone(), groups.into(), of_each.into()])?;
        let best = on.top_k(&by_group, summed as i64, TopKOptions::default())?;
        let best = best.first().ok_or_else(|| call.wrong("group_topk", "has no result"))?;
        let is_open = among_greatest(on, &on.reduce_sum(best, &[-1], false)?, groups, open)?;
        let closed = on.scalar_like(&by_group, f64::NEG_INFINITY)?;
        let left = on.r#where(&on.unsqueeze(&is_open, &[-1])?, &by_group, &closed)?;
        let left = on.reshape_to(&left, &[rows, experts.into()])?;
        let chosen = among_greatest(on, &left, experts, chosen)?;
        let logs = on.log(&on.maximum(&weights, &on.scalar_like(&weights, 1e-20)?)?)?;
        let other = on.scalar_like(&logs, call.float_or("router_sentinel", -10000.0)?)?;
        Some(math::narrowed(on, on.r#where(&chosen, &logs, &other)?, x.dtype())?)
    } else {
        None
    };
    Ok(smallvec![probabilities, Some(scores), Some(weights)])
}
