//! `Llm`: operations of language models.

mod append;
mod cached;
mod grouped;
mod linear;
mod paged;
mod sampling;
#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests;

pub use append::kv_append;
pub use cached::cached_attention;
pub use grouped::grouped_keys;
pub use linear::{linear, quantized_linear};
pub use paged::paged_attention;
pub use sampling::sample_token;

use crate::Tensor;
use crate::ext::{Extent, Ops, math, normalize, types};

crate::ext::family::family! { [
    /// Operations of language models.
    Llm, LlmOp, llm]

    /// Divides by the root mean square over the dimensions from `axis` on, and multiplies by `scale`.
    ///
    /// Shapes: `scale` broadcasts to `x`.
    ///
    /// Source: ONNX `RMSNormalization`, opset 23.
    RmsNormalization 23 = rms_normalization(x: Tensor, scale: Tensor; axis: Int = -1, epsilon: Float = 1e-5) -> Tensor;

    /// Rotates pairs of elements of the last dimension by angles (rotary position embedding).
    ///
    /// Shapes: `x: [.., s, d]`; `cos` and `sin` broadcast to `[.., s, r / 2]`. The first `r` elements of the last
    /// dimension are rotated.
    ///
    /// Source: ONNX `RotaryEmbedding`, opset 23.
    Rotate 23 = rotate(x: Tensor, cos: Tensor, sin: Tensor) with options: RotateOptions {
        /// The number `r` of elements that are rotated; all of the last dimension if there is none.
        dim: OptInt = None,
        /// Whether a pair is two neighbours. Otherwise it has one element from each half.
        interleaved: Bool = false,
    } -> Tensor;

    /// Computes attention: the averages of `v`, weighted by the softmax of the scaled products of `q` and `k`.
    ///
    /// Shapes: `q: [b, h, s, d]`, `k: [b, g, t, d]`, `v: [b, g, t, e]` with `h` a multiple of `g`, to `[b, h, s, e]`.
    /// `bias`, of the type of `q`, is added to the products `[b, h, s, t]`. A row whose bias is minus infinity
    /// everywhere yields 0. Operands of rank 3, `[b, s, d]` and so on, have one head, and those of rank 2 also one batch; so has the
    /// result, and the products to which the bias is added.
    ///
    /// Source: ONNX `Attention`, opset 24.
    Attention 24 = attention(q: Tensor, k: Tensor, v: Tensor, bias: Optional) with options: AttentionOptions {
        /// The factor of the products; `1 / sqrt(d)` if there is none.
        scale: OptFloat = None,
        /// If it is above 0, the products are bounded by `softcap * tanh(product / softcap)`.
        softcap: Float = 0.0,
        /// The element type in which the softmax is computed; that of the products if there is none. 16-bit floats are
        /// computed in `f32` in any case, and each result is rounded once.
        precision: OptType = None,
    } -> Tensor;

    /// Adds `skip` and `bias` to `x`, and normalises the sum by [`rms_normalization`](Self::rms_normalization) over its
    /// last dimension. The results are what was normalised, and the sum.
    ///
    /// Shapes: `skip` and `bias` broadcast to `x`, and `scale` to its last dimension. Types: floats, all alike. 16-bit floats are
    /// computed in `f32`: what is normalised is the sum before it is rounded.
    ///
    /// Source: ONNX Runtime's `SkipSimplifiedLayerNormalization`, whose epsilon is 1e-12 by default.
    SkipRmsNorm 1 = skip_rms_norm(x: Tensor, skip: Tensor, scale: Tensor, bias: Optional; epsilon: Float = 1e-5) -> Tensors;

    /// Computes `gate / (1 + exp(-gate)) * up`: the product of a SwiGLU layer.
    ///
    /// Shapes: the operands broadcast. Types: floats, both alike. 16-bit floats are computed in `f32` and rounded once;
    /// PyTorch's `silu(gate) * up` rounds them twice.
    ///
    /// Source: PyTorch's `torch.nn.functional.silu`.
    SiluMul 1 = silu_mul(gate: Tensor, up: Tensor) -> Tensor;

    /// Multiplies with a matrix whose rows are the columns of the product, `x·Wᵀ`, and adds `bias`.
    ///
    /// Shapes: `x: [.., inner]`, `w: [columns, inner]` and `bias: [columns]` to `[.., columns]`; `w: [inner]` without a bias
    /// to `[..]`. Types: those of `matmul`, all alike.
    ///
    /// Source: PyTorch's `torch.nn.functional.linear`.
    Linear 1 = linear(x: Tensor, w: Tensor, bias: Optional) -> Tensor;

    /// Computes [`linear`](Self::linear) with weights that are integers, with a scale and a zero point for each block of a row.
    ///
    /// Shapes: `x: [.., inner]` and `bias: [columns]` to `[.., columns]`. Weights have one of two layouts:
    ///
    /// - packed, `w: [columns, blocks, block * bits / 8]` of `u8`, as [`matmul_n_bits`](crate::ext::Quant::matmul_n_bits) has
    ///   them. Without `zeros`, the zero point is `2^(bits - 1)`.
    /// - one integer an element, `w: [columns, inner]` of `i4`, `u4`, `i8` or `u8`, as ONNX's `DequantizeLinear` has them. `zeros`
    ///   has the type of `w`. Without it, the zero point is 0.
    ///
    /// `scales` and `zeros` are `[columns, blocks]`. Types: `x`, `scales` and `bias` are floats, `bias` of the type of `x`. Products
    /// are computed in `f32`, or in `f64` if `x` is `f64`.
    ///
    /// Source: ONNX Runtime's `MatMulNBits`, and ONNX `DequantizeLinear`, opset 25, with `block_size`.
    QuantizedLinear 1 = quantized_linear(
        x: Tensor, w: Tensor, scales: Tensor, zeros: Optional, bias: Optional
    ) with options: QuantizedLinearOptions {
        /// The bits of a number of packed weights: 2, 4 or 8. For others, their element type says it.
        bits: Int = 4,
        /// How many numbers a block has; 0 for a whole row.
        block: Int = 32,
    } -> Tensor;

    /// Computes [`attention`](Self::attention) of new positions to all positions so far, which a cache holds. The results are
    /// the averages of the values, and the keys and the values with the new ones behind: the cache of the next call.
    ///
    /// Shapes: `q: [b, h, s, d]`, `k: [b, g, s, d]`, `v: [b, g, s, e]`, `past_k: [b, g, p, d]`, `past_v: [b, g, p, e]` with `h` a multiple
    /// of `g`, to `[b, h, s, e]`, `[b, g, p + s, d]`, `[b, g, p + s, e]`. `bias`, of the type of `q`, is added to the products
    /// `[b, h, s, p + s]`. Query `i` has the position `p + i`. A query that may attend to nothing yields 0.
    ///
    /// Source: ONNX `Attention`, opset 24, with a past and a present; its later `left_window_size` is `left`. A sliding window of
    /// `w` in Mistral's sense, which counts the query's own position, is `left: Some(w - 1)`.
    CachedAttention 24 = cached_attention(
        q: Tensor, k: Tensor, v: Tensor, past_k: Optional, past_v: Optional, bias: Optional
    ) with options: CachedAttentionOptions {
        /// Whether a query attends to no position behind its own.
        causal: Bool = true,
        /// To how many positions before its own a query attends at most; all if there is none.
        left: OptInt = None,
        /// As [`AttentionOptions::scale`].
        scale: OptFloat = None,
        /// As [`AttentionOptions::softcap`].
        softcap: Float = 0.0,
        /// As [`AttentionOptions::precision`].
        precision: OptType = None,
    } -> Tensors;

    /// Computes [`attention`](Self::attention) to keys and values that lie in blocks, which a table finds for each sequence.
    ///
    /// Shapes: `q: [b, h, s, d]`, `k: [n, z, g, d]`, `v: [n, z, g, e]`, `table: [b, m]`, `lengths: [b]`, to `[b, h, s, e]`. Position `j` of a
    /// sequence lies in the block `table[j / z]`, at `j % z`. A sequence has `lengths` positions, of which the queries are the
    /// last `s`. What lies behind is not looked at, and neither are such entries of the table. A negative entry is a gap: nobody
    /// attends to its positions. A query that may attend to nothing yields 0. Types: `table` and `lengths` are `i32` or `i64`.
    ///
    /// Errors: a block that does not exist; a length beyond the table. A graph that was traced reports both when it runs.
    ///
    /// Source: the layout of FlashAttention's `flash_attn_with_kvcache` with a `block_table`. vLLM's own kernels split `d` for
    /// their loads instead.
    PagedAttention 1 = paged_attention(q: Tensor, k: Tensor, v: Tensor, table: Tensor, lengths: Tensor) with options: PagedAttentionOptions {
        /// As [`CachedAttentionOptions::causal`].
        causal: Bool = true,
        /// As [`CachedAttentionOptions::left`].
        left: OptInt = None,
        /// As [`AttentionOptions::scale`].
        scale: OptFloat = None,
        /// As [`AttentionOptions::softcap`].
        softcap: Float = 0.0,
        /// As [`AttentionOptions::precision`].
        precision: OptType = None,
    } -> Tensor;

    /// Appends new keys or values to a cache: behind its positions, so that it grows, or from the positions `at` on, so that its
    /// size stays.
    ///
    /// Shapes: `cache: [b, .., t, d]`, `new: [b, .., s, d]`, and `at` has a position for each sequence, `[b]`, or one for all, `[]`.
    /// Without `at`, the result is `[b, .., t + s, d]`. Otherwise it has the shape of `cache`. Types: all of whole bytes; `at` is
    /// `i32` or `i64`. If `circular`, what would go beyond the end goes to the start.
    ///
    /// Errors: `s` exceeds `t`; what is new goes beyond the end, or `at` is negative, if it is not `circular`.
    ///
    /// Source: the present of ONNX `Attention`, opset 24; with `at`, ONNX `TensorScatter`, opset 24.
    KvAppend 24 = kv_append(cache: Tensor, new: Tensor, at: Optional; circular: Bool = false) -> Tensor;

    /// Draws a token for each row of logits, on the host.
    ///
    /// In this order: a logit of a token in `previous` is divided by `repetition_penalty` if it is positive, and else multiplied by
    /// it; `presence_penalty` is subtracted from it, and `frequency_penalty` for each time that the token is there; logits are divided by `temperature`; the `top_k` most probable tokens stay; of these, the fewest whose probabilities
    /// reach `top_p` together; and one of them is drawn by its probability. Of equal tokens the first counts as more probable.
    ///
    /// Shapes: `logits: [.., n]` and `previous: [.., p]`, where a negative token is none, to `[..]` of `i64`. Types: `logits` are
    /// floats, and are computed in `f64`; `previous` is `i32` or `i64`. Logits of infinity share all probability; those of minus
    /// infinity have none.
    ///
    /// Errors: a logit is NaN; no token is possible; a token in `previous` is not below `n`; an option is out of range.
    ///
    /// Source: Hugging Face Transformers' `RepetitionPenaltyLogitsProcessor`, `TemperatureLogitsWarper`, `TopKLogitsWarper` and
    /// `TopPLogitsWarper`, in this order; OpenAI's `frequency_penalty` and `presence_penalty`, which vLLM applies behind the first.
    /// llama.cpp applies the temperature last by default. The generator is
    /// [`Mersenne`](crate::ext::Mersenne): one number of 53 bits for each row, in the order of the rows.
    SampleToken 1 = sample_token(logits: Tensor, previous: Optional) with options: SampleTokenOptions {
        /// What logits are divided by. 0 takes the most probable token, without drawing.
        temperature: Float = 1.0,
        /// How many of the most probable tokens may be drawn; 0 for all.
        top_k: Int = 0,
        /// The probability that the tokens which may be drawn reach together. 0 leaves the most probable one, 1 leaves all.
        top_p: Float = 1.0,
        /// How much less probable the tokens in `previous` become; 1 for not at all.
        repetition_penalty: Float = 1.0,
        /// What a logit loses for each time that its token is in `previous`. Negative numbers make such tokens more probable.
        frequency_penalty: Float = 0.0,
        /// What a logit loses if its token is in `previous`, however often.
        presence_penalty: Float = 0.0,
        /// The seed. Equal seeds draw equal tokens; without one, every run draws others. Each step of a generation needs a
        /// seed of its own.
        seed: OptInt = None,
    } -> Tensor;
}

/// The body of [`Llm::rms_normalization`]. 16-bit floats are computed in `f32`, and rounded once if the scale has the
/// same type.
pub fn rms_normalization<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    scale: &B::Tensor,
    axis: i64,
    epsilon: f64,
) -> Result<B::Tensor, B::Error> {
    types::take::<B>("rms_normalization", x, types::FLOATS)?;
    types::take::<B>("rms_normalization", scale, types::FLOATS)?;
    types::fits(on, "rms_normalization", scale, x)?;
    let axes = normalize::axes_from(x, axis)?;
    let wide = math::accumulated(on, x)?;
    let mean = on.reduce_mean(&on.mul(&wide, &wide)?, &axes, true)?;
    let normal = on.div(&wide, &on.sqrt(&on.add(&mean, &on.scalar_like(&mean, epsilon)?)?)?)?;
    if scale.dtype() == x.dtype() {
        let y = on.mul(&normal, &math::to(on, scale, normal.dtype())?)?;
        return math::narrowed(on, y, x.dtype());
    }
    // A scale of another type multiplies what was rounded to the operand's, as in the function by which ONNX defines this.
    let normal = math::narrowed(on, normal, x.dtype())?;
    on.mul(&math::to(on, &normal, scale.dtype())?, scale)
}

/// The body of [`Llm::skip_rms_norm`].
pub fn skip_rms_norm<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    skip: &B::Tensor,
    scale: &B::Tensor,
    bias: Option<&B::Tensor>,
    epsilon: f64,
) -> Result<Vec<B::Tensor>, B::Error> {
    const OP: &str = "skip_rms_norm";
    types::take::<B>(OP, x, types::FLOATS)?;
    for other in [Some(skip), Some(scale), bias].into_iter().flatten() {
        types::alike::<B>(other, x)?;
        types::fits(on, OP, other, x)?;
    }
    let wide = |x: &B::Tensor| math::accumulated(on, x);
    let mut sum = on.add(&wide(x)?, &wide(skip)?)?;
    if let Some(bias) = bias {
        sum = on.add(&sum, &wide(bias)?)?;
    }
    let y = on.rms_normalization(&sum, &wide(scale)?, -1, epsilon)?;
    Ok(vec![math::narrowed(on, y, x.dtype())?, math::narrowed(on, sum, x.dtype())?])
}

/// The body of [`Llm::silu_mul`].
pub fn silu_mul<B: Ops + ?Sized>(on: &B, gate: &B::Tensor, up: &B::Tensor) -> Result<B::Tensor, B::Error> {
    types::take::<B>("silu_mul", gate, types::FLOATS)?;
    types::alike::<B>(up, gate)?;
    let product = on.mul(&on.swish(&math::accumulated(on, gate)?, 1.0)?, &math::accumulated(on, up)?)?;
    math::narrowed(on, product, gate.dtype())
}

/// The body of [`Llm::rotate`].
pub fn rotate<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    cos: &B::Tensor,
    sin: &B::Tensor,
    RotateOptions { dim, interleaved }: RotateOptions,
) -> Result<B::Tensor, B::Error> {
    types::take::<B>("rotate", x, types::FLOATS)?;
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
        types::alike::<B>(angles, x)?;
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

/// The intermediate and final results of attention.
pub struct Attended<T> {
    /// The weighted averages of the values.
    pub y: T,
    /// The scaled products; the same after the softcap; the same with the bias; their softmax.
    pub segments: [T; 4],
}

/// Computes attention and its intermediate results. 16-bit floats are computed in `f32`, and each result is rounded once.
pub fn attend<B: Ops + ?Sized>(
    on: &B,
    q: &B::Tensor,
    k: &B::Tensor,
    v: &B::Tensor,
    bias: Option<&B::Tensor>,
    how: AttentionOptions,
) -> Result<Attended<B::Tensor>, B::Error> {
    for x in [q, k, v] {
        types::take::<B>("attention", x, types::FLOATS)?;
    }
    if [q, k, v].into_iter().any(|x| math::is_half(x.dtype())) {
        let (wide, how) = widened(on, [q, k, v], bias, how)?;
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
        return crate::ext::fail::<B, _>(wrong());
    };
    let (same, shared) = (h.equals(g), h.floor_div(g));
    // A product would broadcast them.
    let fit = k_batch.equals(b) && v_batch.equals(b) && v_heads.equals(g);
    if !fit || (!same && !shared.times(g).equals(h)) {
        return crate::ext::fail::<B, _>(wrong());
    }
    // Each of `q` and `k` is multiplied by the square root of the factor, as in the function by which ONNX defines this.
    let factor = how.scale.unwrap_or_else(|| 1.0 / (d.number() as f64).sqrt()).sqrt();
    let scaled = |x: &B::Tensor| on.mul(x, &on.scalar_like(x, factor)?);
    let transposed = on.transpose(k, &[0, 1, 3, 2])?;
    let (q, k, v) = (scaled(q)?, scaled(&transposed)?, v.clone());
    let product = if same {
        on.matmul(&q, &k)?
    } else {
        // Query heads that share keys become another batch dimension, along which the keys broadcast.
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
    let biased = bias.map_or_else(|| Ok(bounded.clone()), |bias| on.add(&bounded, bias))?;
    let precise = math::to(on, &biased, how.precision.unwrap_or(biased.dtype()))?;
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

/// Operands of attention in place of others that have 16-bit floats.
struct Widened<T> {
    operands: [T; 3],
    bias: Option<T>,
}

/// Returns the operands of attention without 16-bit floats, and the options for them.
fn widened<B: Ops + ?Sized>(
    on: &B,
    [q, k, v]: [&B::Tensor; 3],
    bias: Option<&B::Tensor>,
    how: AttentionOptions,
) -> Result<(Widened<B::Tensor>, AttentionOptions), B::Error> {
    types::alike::<B>(k, q)?;
    if let Some(bias) = bias {
        types::alike::<B>(bias, q)?;
    }
    let wide = |x: &B::Tensor| math::accumulated(on, x);
    let operands = [wide(q)?, wide(k)?, wide(v)?];
    let precision = how.precision.filter(|precision| !math::is_half(*precision));
    Ok((Widened { operands, bias: bias.map(wide).transpose()? }, AttentionOptions { precision, ..how }))
}

/// The body of [`Llm::attention`].
pub fn attention<B: Ops + ?Sized>(
    on: &B,
    q: &B::Tensor,
    k: &B::Tensor,
    v: &B::Tensor,
    bias: Option<&B::Tensor>,
    options: AttentionOptions,
) -> Result<B::Tensor, B::Error> {
    const OP: &str = "attention";
    let rank = q.rank();
    if !(2..=4).contains(&rank) {
        return crate::ext::fail::<B, _>(crate::Error::Operator {
            op: OP.to_owned(),
            part: "q".into(),
            problem: format!(
                "has rank {rank}, expected 4: [batch, heads, positions, size], or 3 or 2 without heads"
            ),
        });
    }
    for operand in [("k", k), ("v", v)] {
        types::ranked::<B>(OP, operand, rank)?;
    }
    if rank < 4 {
        let added: &[i64] = if rank == 3 { &[1] } else { &[0, 1] };
        if let Some(bias) = bias.filter(|bias| bias.rank() > rank) {
            types::ranked::<B>(OP, ("bias", bias), rank)?;
        }
        let [q, k, v] = [q, k, v].map(|x| on.unsqueeze(x, added));
        // A bias of lower rank broadcasts as it is.
        let bias =
            bias.map(|bias| if bias.rank() == 3 { on.unsqueeze(bias, added) } else { on.identity(bias) });
        let y = on.attention(&q?, &k?, &v?, bias.transpose()?.as_ref(), options)?;
        return on.squeeze(&y, added);
    }
    if [q, k, v].into_iter().any(|x| math::is_half(x.dtype())) {
        for x in [q, k, v] {
            types::take::<B>("attention", x, types::FLOATS)?;
        }
        let (wide, options) = widened(on, [q, k, v], bias, options)?;
        let [of_q, of_k, of_v] = &wide.operands;
        return math::narrowed(on, on.attention(of_q, of_k, of_v, wide.bias.as_ref(), options)?, q.dtype());
    }
    Ok(attend(on, q, k, v, bias, options)?.y)
}

/// Which keys a query may attend to, by position: those for which `i + offset - j` is within bounds.
#[derive(Debug, Clone, Copy)]
pub struct Reach {
    /// The greatest number of positions back; `None` without bound.
    pub left: Option<i64>,
    /// The greatest number of positions ahead; `None` without bound.
    pub right: Option<i64>,
}

/// Tells whether query `i` of `s` may attend to key `j` of `t`. The result is `[s, t]`, or `[b, 1, s, t]` for offsets
/// `[b, 1, 1, 1]`.
pub fn reached<B: Ops + ?Sized>(
    on: &B,
    [s, t]: [&Extent; 2],
    offset: &B::Tensor,
    reach: Reach,
) -> Result<Option<B::Tensor>, B::Error> {
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
