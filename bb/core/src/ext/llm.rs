//! `Llm`: operations of language models.

mod append;
mod cached;
mod linear;
mod paged;
mod ragged;
mod sampling;
#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests;

pub use crate::family::llm::*;
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
pub use append::kv_append;
pub use cached::{cached_attention, excluding};
pub use linear::{linear, quantized_linear};
pub use paged::paged_attention;
pub use ragged::{Sequences, ragged_attention, sequences};
pub use sampling::sample_token;

use crate::Tensor;
use crate::ext::{Extent, math, normalize, types};

bb_ir::for_each_llm!(crate::ext::bodies::bodies, Llm, LlmOp, llm);

/// The body of [`Llm::rms_normalization`]. 16-bit floats are computed in `f32`, and rounded once if the scale has the
/// same type.
pub fn rms_normalization(
    on: &Tracer,
    x: &TracedTensor,
    scale: &TracedTensor,
    axis: i64,
    epsilon: f64,
) -> Result<TracedTensor, TraceStop> {
    types::take("rms_normalization", x, types::FLOATS)?;
    types::take("rms_normalization", scale, types::FLOATS)?;
    types::fits(on, "rms_normalization", scale, x)?;
    let axes = normalize::axes_from(x, axis)?;
    let wide = math::accumulated(on, x)?;
    let mean = on.reduce_mean(&on.mul(&wide, &wide)?, &axes, true)?;
    let normal = on.div(&wide, &on.sqrt(&on.add(&mean, &on.scalar_like(&mean, epsilon)?)?)?)?;
    if scale.dtype() == x.dtype() {
        let y = on.mul(&normal, &math::to(on, scale, normal.dtype())?)?;
        return math::narrowed(on, y, x.dtype());
    }
    // If the scale has another type, the result is first rounded to the operand's type, as in ONNX's function body of
    // this operator.
    let normal = math::narrowed(on, normal, x.dtype())?;
    on.mul(&math::to(on, &normal, scale.dtype())?, scale)
}

/// The body of [`Llm::skip_rms_norm`].
pub fn skip_rms_norm(
    on: &Tracer,
    x: &TracedTensor,
    skip: &TracedTensor,
    scale: &TracedTensor,
    bias: Option<&TracedTensor>,
    epsilon: f64,
) -> Result<Vec<TracedTensor>, TraceStop> {
    const OP: &str = "skip_rms_norm";
    types::take(OP, x, types::FLOATS)?;
    for other in [Some(skip), Some(scale), bias].into_iter().flatten() {
        types::alike(other, x)?;
        types::fits(on, OP, other, x)?;
    }
    let wide = |x: &TracedTensor| math::accumulated(on, x);
    let mut sum = on.add(&wide(x)?, &wide(skip)?)?;
    if let Some(bias) = bias {
        sum = on.add(&sum, &wide(bias)?)?;
    }
    let y = on.rms_normalization(&sum, &wide(scale)?, -1, epsilon)?;
    Ok(vec![math::narrowed(on, y, x.dtype())?, math::narrowed(on, sum, x.dtype())?])
}

/// The body of [`Llm::silu_mul`].
pub fn silu_mul(on: &Tracer, gate: &TracedTensor, up: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    types::take("silu_mul", gate, types::FLOATS)?;
    types::alike(up, gate)?;
    let product = on.mul(&on.swish(&math::accumulated(on, gate)?, 1.0)?, &math::accumulated(on, up)?)?;
    math::narrowed(on, product, gate.dtype())
}

/// The body of [`Llm::rotate`].
pub fn rotate(
    on: &Tracer,
    x: &TracedTensor,
    cos: &TracedTensor,
    sin: &TracedTensor,
    RotateOptions { dim, interleaved }: RotateOptions,
) -> Result<TracedTensor, TraceStop> {
    types::take("rotate", x, types::FLOATS)?;
    let last = [x.rank() as i64 - 1];
    let full = i64::MAX;
    let (turning, rest) = match dim {
        None => (x.clone(), None),
        Some(dim) => {
            (on.slice(x, &[0], &[dim], &last, &[])?, Some(on.slice(x, &[dim], &[full], &last, &[])?))
        }
    };
    let (a, b) = if interleaved {
        (on.slice(&turning, &[0], &[full], &last, &[2])?, on.slice(&turning, &[1], &[full], &last, &[2])?)
    } else {
        let half = on.extent(&turning, x.rank().saturating_sub(1)).floor_div(&Extent::from(2i64));
        let (zero, full) = (Extent::from(0i64), Extent::from(full));
        (
            on.slice_to(&turning, &[zero], std::slice::from_ref(&half), &last, &[])?,
            on.slice_to(&turning, &[half], &[full], &last, &[])?,
        )
    };
    for (angles, half) in [(cos, &a), (sin, &b)] {
        types::fits(on, "rotate", angles, half)?;
    }
    for angles in [cos, sin] {
        types::alike(angles, x)?;
    }
    let [a, b, cos, sin] = [&a, &b, cos, sin].map(|x| math::accumulated(on, x));
    let (a, b, cos, sin) = (a?, b?, cos?, sin?);
    let real = on.sub(&on.mul(&cos, &a)?, &on.mul(&sin, &b)?)?;
    let imaginary = on.add(&on.mul(&sin, &a)?, &on.mul(&cos, &b)?)?;
    let (real, imaginary) = (math::narrowed(on, real, x.dtype())?, math::narrowed(on, imaginary, x.dtype())?);
    let turned = if interleaved {
        let pair = [last[0] + 1];
        let pairs = on.concat(&[&on.unsqueeze(&real, &pair)?, &on.unsqueeze(&imaginary, &pair)?], pair[0])?;
        on.reshape_to(&pairs, &on.extents(&turning))?
    } else {
        on.concat(&[&real, &imaginary], last[0])?
    };
    match rest {
        Some(rest) => on.concat(&[&turned, &rest], last[0]),
        None => Ok(turned),
    }
}

/// The intermediate results and the result of attention.
pub struct Attended {
    /// The weighted averages of the values.
    pub y: TracedTensor,
    /// The scores in four stages: scaled, after the softcap, after adding the bias, and after the softmax.
    pub segments: [TracedTensor; 4],
}

/// Returns the factors for queries and for keys whose product is the scale of attention.
///
/// Each factor is the square root of the scale, as in ONNX's definition of attention. For a negative scale ONNX's
/// function returns NaN; here the factor of the queries gets the sign.
pub fn split_scale(scale: f64) -> [f64; 2] {
    let root = scale.abs().sqrt();
    [root.copysign(scale), root]
}

/// Computes attention and its intermediate results. 16-bit floats are computed in `f32`, and each result is rounded
/// once.
pub fn attend(
    on: &Tracer,
    q: &TracedTensor,
    k: &TracedTensor,
    v: &TracedTensor,
    bias: Option<&TracedTensor>,
    how: AttentionOptions,
) -> Result<Attended, TraceStop> {
    for x in [q, k, v] {
        types::take("attention", x, types::FLOATS)?;
    }
    if [q, k, v].into_iter().any(|x| math::is_half(x.dtype())) {
        let wide = widened(on, [q, k, v], bias)?;
        let [of_q, of_k, of_v] = &wide.operands;
        let Attended { y, segments } = attend(on, of_q, of_k, of_v, wide.bias.as_ref(), how)?;
        let [product, bounded, biased, weights] = segments.map(|x| math::narrowed(on, x, q.dtype()));
        let y = math::narrowed(on, y, q.dtype())?;
        return Ok(Attended { y, segments: [product?, bounded?, biased?, weights?] });
    }
    let wrong = || bb_ir::Error::Shapes { op: "attention", left: q.shape().into(), right: k.shape().into() };
    let [of_q, of_k, of_v] = [q, k, v].map(|x| on.extents(x));
    let ([b, h, s, d], [k_batch, g, t, _], [v_batch, v_heads, _, e]) =
        (of_q.as_slice(), of_k.as_slice(), of_v.as_slice())
    else {
        return crate::ext::fail(wrong());
    };
    let (same, shared) = (h.equals(g), h.floor_div(g));
    // The matrix product would silently broadcast these dimensions, so they are checked here.
    let fit = k_batch.equals(b) && v_batch.equals(b) && v_heads.equals(g);
    if !fit || (!same && !shared.times(g).equals(h)) {
        return crate::ext::fail(wrong());
    }
    let [of_q, of_k] = split_scale(how.scale.unwrap_or_else(|| 1.0 / (d.number() as f64).sqrt()));
    let scaled = |x: &TracedTensor, factor: f64| on.mul(x, &on.scalar_like(x, factor)?);
    let transposed = on.transpose(k, &[0, 1, 3, 2])?;
    let (q, k, v) = (scaled(q, of_q)?, scaled(&transposed, of_k)?, v.clone());
    let product = if same {
        on.matmul(&q, &k)?
    } else {
        // Query heads that share a key head become another batch dimension. The keys broadcast along it.
        let grouped = [b, g, &shared, s, d].map(Extent::clone);
        let grouped = on.reshape_to(&q, &grouped)?;
        let product = on.matmul(&grouped, &on.unsqueeze(&k, &[2])?)?;
        on.reshape_to(&product, &[b, h, s, t].map(Extent::clone))?
    };
    let bounded = if how.softcap > 0.0 {
        let cap = on.scalar_like(&product, how.softcap)?;
        on.mul(&on.tanh(&on.div(&product, &cap)?)?, &cap)?
    } else {
        product.clone()
    };
    let biased = match bias {
        Some(bias) if how.excludes => {
            let out = on.is_inf(bias, true, false)?;
            on.r#where(&out, &on.scalar_like(&bounded, f64::NEG_INFINITY)?, &on.add(&bounded, bias)?)?
        }
        Some(bias) => on.add(&bounded, bias)?,
        None => bounded.clone(),
    };
    // 16-bit weights would lose digits if the result has a wider type.
    let precision = how.precision.filter(|precision| !math::is_half(*precision));
    let precise = math::to(on, &biased, precision.unwrap_or(biased.dtype()))?;
    let mut weights = math::to(on, &on.softmax(&precise, -1)?, q.dtype())?;
    if let Some(bias) = bias {
        let most = on.reduce_max(bias, &[-1], true)?;
        let masked = on.is_inf(&most, true, false)?;
        weights = on.r#where(&masked, &on.scalar_like(&weights, 0.0)?, &weights)?;
    }
    let wide = math::common(weights.dtype(), v.dtype());
    let (shares, v) = (math::to(on, &weights, wide)?, math::to(on, &v, wide)?);
    let y = if same {
        on.matmul(&shares, &v)?
    } else {
        let grouped = on.reshape_to(&shares, &[b, g, &shared, s, t].map(Extent::clone))?;
        let product = on.matmul(&grouped, &on.unsqueeze(&v, &[2])?)?;
        on.reshape_to(&product, &[b, h, s, e].map(Extent::clone))?
    };
    let y = math::to(on, &y, weights.dtype())?;
    Ok(Attended { y, segments: [product, bounded, biased, weights] })
}

/// The operands of attention, with 16-bit floats converted to `f32`.
struct Widened {
    operands: [TracedTensor; 3],
    bias: Option<TracedTensor>,
}

/// Converts the operands of attention from 16-bit floats to `f32`.
fn widened(
    on: &Tracer,
    [q, k, v]: [&TracedTensor; 3],
    bias: Option<&TracedTensor>,
) -> Result<Widened, TraceStop> {
    types::alike(k, q)?;
    if let Some(bias) = bias {
        types::alike(bias, q)?;
    }
    let wide = |x: &TracedTensor| math::accumulated(on, x);
    let operands = [wide(q)?, wide(k)?, wide(v)?];
    Ok(Widened { operands, bias: bias.map(wide).transpose()? })
}

/// The body of [`Llm::attention`].
pub fn attention(
    on: &Tracer,
    q: &TracedTensor,
    k: &TracedTensor,
    v: &TracedTensor,
    bias: Option<&TracedTensor>,
    options: AttentionOptions,
) -> Result<TracedTensor, TraceStop> {
    const OP: &str = "attention";
    let rank = q.rank();
    if !(2..=4).contains(&rank) {
        return crate::ext::fail(crate::Error::Operator {
            op: OP.to_owned(),
            part: "q".into(),
            problem: format!(
                "has rank {rank}, expected 4: [batch, heads, positions, size], or 3 or 2 without heads"
            ),
        });
    }
    for operand in [("k", k), ("v", v)] {
        types::ranked(OP, operand, rank)?;
    }
    if rank < 4 {
        let added: &[i64] = if rank == 3 { &[1] } else { &[0, 1] };
        if let Some(bias) = bias.filter(|bias| bias.rank() > rank) {
            types::ranked(OP, ("bias", bias), rank)?;
        }
        let [q, k, v] = [q, k, v].map(|x| on.unsqueeze(x, added));
        // A bias of lower rank broadcasts without a new dimension.
        let bias =
            bias.map(|bias| if bias.rank() == 3 { on.unsqueeze(bias, added) } else { on.identity(bias) });
        let y = on.attention(&q?, &k?, &v?, bias.transpose()?.as_ref(), options)?;
        return on.squeeze(&y, added);
    }
    if [q, k, v].into_iter().any(|x| math::is_half(x.dtype())) {
        for x in [q, k, v] {
            types::take("attention", x, types::FLOATS)?;
        }
        let wide = widened(on, [q, k, v], bias)?;
        let [of_q, of_k, of_v] = &wide.operands;
        return math::narrowed(on, on.attention(of_q, of_k, of_v, wide.bias.as_ref(), options)?, q.dtype());
    }
    Ok(attend(on, q, k, v, bias, options)?.y)
}

/// The keys that a query may attend to: the keys `j` whose distance `i + offset - j` is within bounds.
#[derive(Debug, Clone, Copy)]
pub struct Reach {
    /// The maximum number of positions back; `None` if there is no limit.
    pub left: Option<i64>,
    /// The maximum number of positions ahead; `None` if there is no limit.
    pub right: Option<i64>,
}

/// Returns whether query `i` of `s` may attend to key `j` of `t`. The result is `[s, t]`, or `[b, 1, s, t]` for offsets
/// of the shape `[b, 1, 1, 1]`.
pub fn reached(
    on: &Tracer,
    [s, t]: [&Extent; 2],
    offset: &TracedTensor,
    reach: Reach,
) -> Result<Option<TracedTensor>, TraceStop> {
    let count =
        |n: &Extent, axis| on.unsqueeze(&on.iota(&Extent::from(0i64), &Extent::from(1i64), n)?, &[axis]);
    let i = on.add(&count(s, 1)?, offset)?;
    let back = on.sub(&i, &count(t, 0)?)?;
    let left = reach.left.map(|most| on.less_or_equal(&back, &on.host(&[], &[most])?)).transpose()?;
    let right = reach.right.map(|most| on.greater_or_equal(&back, &on.host(&[], &[-most])?)).transpose()?;
    Ok(match (left, right) {
        (Some(left), Some(right)) => Some(on.and(&left, &right)?),
        (one, other) => one.or(other),
    })
}
