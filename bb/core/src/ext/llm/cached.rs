//! Attention to a key-value cache that grows with each call.

use super::{Reach, reached};
use crate::ext::{AttentionOptions, CachedAttentionOptions, Extent, fail, types};
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{Error, Tensor};

const OP: &str = "cached_attention";

/// Returns the range of positions that a query may attend to.
pub(super) fn reach(op: &'static str, causal: bool, left: Option<i64>) -> Result<Reach, TraceStop> {
    match left {
        Some(left) if left < 0 => fail(Error::Operator {
            op: op.to_owned(),
            part: "left".into(),
            problem: format!("is {left}, expected 0 or more"),
        }),
        left => Ok(Reach { left, right: causal.then_some(0) }),
    }
}

/// Returns the bias of attention: `bias`, or 0, where a query may attend to a key, and minus infinity elsewhere.
///
/// # Errors
///
/// The backend's own errors.
pub fn excluding(
    on: &Tracer,
    allowed: &TracedTensor,
    bias: Option<&TracedTensor>,
    q: &TracedTensor,
) -> Result<TracedTensor, TraceStop> {
    let never = on.scalar_like(q, f64::NEG_INFINITY)?;
    match bias {
        Some(bias) => on.r#where(allowed, bias, &never),
        None => on.r#where(allowed, &on.scalar_like(q, 0.0)?, &never),
    }
}

/// The body of [`Llm::cached_attention`](crate::ext::Llm::cached_attention).
///
/// A single query needs no mask: the keys that it may attend to are consecutive, so they are sliced.
#[expect(clippy::too_many_arguments, reason = "the operands of the operation")]
pub fn cached_attention(
    on: &Tracer,
    q: &TracedTensor,
    k: &TracedTensor,
    v: &TracedTensor,
    past_k: Option<&TracedTensor>,
    past_v: Option<&TracedTensor>,
    bias: Option<&TracedTensor>,
    CachedAttentionOptions { causal, left, scale, softcap, precision }: CachedAttentionOptions,
) -> Result<Vec<TracedTensor>, TraceStop> {
    let reach = reach(OP, causal, left)?;
    for operand in [("q", q), ("k", k), ("v", v)] {
        types::ranked(OP, operand, 4)?;
    }
    if !on.extent(k, 2).equals(&on.extent(q, 2)) {
        let (left, right) = (q.shape().into(), k.shape().into());
        return fail(bb_ir::Error::Shapes { op: OP, left, right });
    }
    let (k, v) = match (past_k, past_v) {
        (Some(past_k), Some(past_v)) => (on.concat(&[past_k, k], 2)?, on.concat(&[past_v, v], 2)?),
        (None, None) => (on.identity(k)?, on.identity(v)?),
        _ => {
            return fail(Error::Operator {
                op: OP.to_owned(),
                part: "past".into(),
                problem: "has keys or values alone, expected both".to_owned(),
            });
        }
    };
    let options = AttentionOptions { scale, softcap, precision, excludes: false };
    let (count, all) = (on.extent(q, 2), on.extent(&k, 2));
    let y = if count.is(1) && causal && bias.is_none() {
        match left.map(|left| all.minus(&Extent::from(left.saturating_add(1)))) {
            Some(from) if !from.at_least(&Extent::from(1i64)) => on.attention(q, &k, &v, None, options)?,
            None => on.attention(q, &k, &v, None, options)?,
            Some(from) => {
                let near = |x: &TracedTensor| {
                    on.slice_to(x, std::slice::from_ref(&from), std::slice::from_ref(&all), &[2], &[])
                };
                on.attention(q, &near(&k)?, &near(&v)?, None, options)?
            }
        }
    } else {
        let offset = on.ints_of(&[], &[all.minus(&count)])?;
        match reached(on, [&count, &all], &offset, reach)? {
            Some(allowed) => {
                let bias = excluding(on, &allowed, bias, q)?;
                on.attention(q, &k, &v, Some(&bias), AttentionOptions { excludes: true, ..options })?
            }
            None => on.attention(q, &k, &v, bias, options)?,
        }
    };
    Ok(vec![y, k, v])
}
