//! Losses of classification: what log-probabilities say of the classes that labels name.

use super::call::{Call, OpResult, one};
use super::infer;
use super::rows::operators;
use crate::error::NodePart;
use crate::ext::normalize::log_softmax_over;
use crate::ext::{Ops, math};
use crate::{DataType, Tensor};
use smallvec::smallvec;

operators! {
    "" {
        NegativeLogLikelihoodLoss => Primitives(negative_log_likelihood), infer: By(infer::products::loss);
        SoftmaxCrossEntropyLoss => Primitives(softmax_cross_entropy), infer: By(infer::products::loss);
    }
}

/// `NegativeLogLikelihoodLoss`.
pub(super) fn negative_log_likelihood<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let x = call.input(0)?;
    Ok(one(math::widened(on, x, DataType::F32, |log| loss(on, call, log))?))
}

/// `SoftmaxCrossEntropyLoss`, with the logarithms of the probabilities where they are wanted.
pub(super) fn softmax_cross_entropy<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let x = call.input(0)?;
    let wide = if x.dtype() == DataType::F64 { DataType::F64 } else { DataType::F32 };
    let log = log_softmax_over(on, &math::to(on, x, wide)?, &[1])?;
    let loss = math::to(on, &loss(on, call, &log)?, x.dtype())?;
    let log = call.wants(1).then(|| math::to(on, &log, x.dtype())).transpose()?;
    Ok(smallvec![Some(loss), log])
}

/// The loss of log-probabilities `[n, c, …]` for labels `[n, …]`, reduced as asked.
fn loss<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>, log: &B::Tensor) -> Result<B::Tensor, B::Error> {
    let labels = call.input(1)?;
    let &[n, classes, ref rest @ ..] = log.shape() else {
        return Err(call
            .wrong(NodePart::Operand(0), format!("has rank {}, expected 2 or more", log.rank()))
            .into());
    };
    let expected: Vec<usize> = std::iter::once(n).chain(rest.iter().copied()).collect();
    if labels.shape() != expected {
        let problem = format!("has the extents {:?}, expected {expected:?}", labels.shape());
        return Err(call.wrong(NodePart::Operand(1), problem).into());
    }
    let ignored = match call.int_if_given("ignore_index")? {
        Some(index) => Some(on.equal(&math::to(on, labels, DataType::I64)?, &on.host(&[], &[index])?)?),
        None => None,
    };
    let unless_ignored = |x: &B::Tensor| match &ignored {
        Some(ignored) => on.r#where(ignored, &on.scalar_like(x, 0.0)?, x),
        None => on.identity(x),
    };
    // An ignored label may be out of range; any other that is fails as an index of the weights.
    let labels = unless_ignored(labels)?;
    let weights = match call.optional(2) {
        Some(weights) => math::to(on, weights, log.dtype())?,
        None => on.ones(&[classes], log.dtype())?,
    };
    let weights = unless_ignored(&on.gather(&weights, &labels, 0)?)?;
    let chosen = on.gather_elements(log, &on.unsqueeze(&labels, &[1])?, 1)?;
    let losses = unless_ignored(&on.mul(&on.neg(&on.squeeze(&chosen, &[1])?)?, &weights)?)?;
    match call.text_or("reduction", "mean")? {
        "none" => Ok(losses),
        "sum" => on.reduce_sum(&losses, &[], false),
        "mean" => on.div(&on.reduce_sum(&losses, &[], false)?, &on.reduce_sum(&weights, &[], false)?),
        other => {
            Err(call.wrong("reduction", format!("is `{other}`, expected `none`, `sum` or `mean`")).into())
        }
    }
}
