//! Classification losses, computed from log-probabilities and labels. `bb::ext::Train` implements them.

use super::rows::operators;
use bb_core::ext::normalize::log_softmax_over;
use bb_core::ext::{CrossEntropyOptions, NegativeLogLikelihoodOptions, Reduction, math};
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::graph::Dim;
use bb_ir::infer::rule::{self, NodeFacts, Types};
use smallvec::smallvec;

operators! {
    "" {
        NegativeLogLikelihoodLoss => Primitives(negative_log_likelihood), infer: By(loss_types), halves: Once;
        SoftmaxCrossEntropyLoss => Primitives(softmax_cross_entropy), infer: By(loss_types), halves: Once;
    }
}

/// Reads the attribute `reduction`.
fn reduction(call: &Call<'_, TracedTensor>) -> Result<Reduction, Error> {
    let name = call.text_or("reduction", "mean")?;
    Reduction::ALL
        .iter()
        .copied()
        .find(|reduction| reduction.name() == name)
        .ok_or_else(|| call.wrong("reduction", format!("is `{name}`, expected `none`, `sum` or `mean`")))
}

/// Computes the loss of log-probabilities.
fn loss(on: &Tracer, call: &Call<'_, TracedTensor>, log: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    let options = NegativeLogLikelihoodOptions {
        reduction: reduction(call)?,
        ignored: call.int_if_given("ignore_index")?,
    };
    on.negative_log_likelihood(log, call.input(1)?, call.optional(2), options)
}

/// Infers the types of the loss and of the second result, the logarithm of the softmax.
fn loss_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = match at.text("reduction", "mean")? {
        "none" => at.dims(1).map(<[Dim]>::to_vec),
        _ => Some(Vec::new()),
    };
    Some(vec![rule::tensor(at.dtype(0), shape), at.ty(0).clone()])
}

/// `NegativeLogLikelihoodLoss`.
pub(super) fn negative_log_likelihood(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    Ok(one(loss(on, call, call.input(0)?)?))
}

/// `SoftmaxCrossEntropyLoss`, with the logarithms of the probabilities if requested.
pub(super) fn softmax_cross_entropy(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    if !call.wants(1) {
        let options =
            CrossEntropyOptions { reduction: reduction(call)?, ignored: call.int_if_given("ignore_index")? };
        return Ok(one(on.cross_entropy(x, call.input(1)?, call.optional(2), options)?));
    }
    let wide = if x.dtype() == DataType::F64 { DataType::F64 } else { DataType::F32 };
    let log = log_softmax_over(on, &math::to(on, x, wide)?, &[1])?;
    let loss = math::to(on, &loss(on, call, &log)?, x.dtype())?;
    Ok(smallvec![Some(loss), Some(math::to(on, &log, x.dtype())?)])
}
