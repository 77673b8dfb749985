//! Attention and rotary embeddings, with their masks and caches.

use super::rows::operators;
use bb_core::error::NodePart;
use bb_core::ext::llm::{Reach, attend, excluding, reached};
use bb_core::ext::{AttentionOptions, Border, Extent, RotateOptions, math};
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::graph::Dim;
use bb_ir::infer::rule::{self, NodeFacts, Types};
use smallvec::smallvec;

operators! {
    "" {
        Attention => Primitives(attention), infer: By(attention_types), becomes: LlmOp::Attention, halves: Once;
        RotaryEmbedding => Primitives(rotary_embedding), infer: Same, halves: Once;
    }
}

/// Splits the last dimension of `[b, s, h * d]` into heads, `[b, h, s, d]`. A tensor with four dimensions is returned unchanged.
fn heads(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    x: &TracedTensor,
    name: &str,
) -> Result<TracedTensor, TraceStop> {
    let count = call.int_if_given(name)?;
    if x.rank() == 4 {
        return Ok(x.clone());
    }
    let count = count.ok_or_else(|| call.wrong(name, "is missing; operands of 3 dimensions need it"))?;
    let extents = on.extents(x);
    let [b, s, width] = extents.as_slice() else {
        return Err(call.wrong(NodePart::Operand(0), "has neither 3 nor 4 dimensions").into());
    };
    let h = Extent::from(count);
    if count <= 0 || !width.floor_div(&h).times(&h).equals(width) {
        return Err(call.wrong(name, format!("is {count}; the last extent is {width}")).into());
    }
    let each = width.floor_div(&h);
    on.transpose(&on.reshape_to(x, &[b.clone(), s.clone(), h, each])?, &[0, 2, 1, 3])
}

/// Joins the heads of `[b, h, s, d]` into `[b, s, h * d]`.
fn joined(on: &Tracer, y: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    let y = on.transpose(y, &[0, 2, 1, 3])?;
    match on.extents(&y).as_slice() {
        [b, s, h, d] => on.reshape_to(&y, &[b.clone(), s.clone(), h.times(d)]),
        _ => Ok(y),
    }
}

/// The dimensions of an operand that is split into heads: `[batch, heads, length, size]`.
pub type Heads = [Dim; 4];

/// Returns the dimensions by heads of `[batch, length, heads * size]`, or of an operand that is already split into heads.
pub fn by_heads(x: &[Dim], count: Option<i64>) -> Option<Heads> {
    match x {
        [batch, heads, length, size] => Some([batch.clone(), heads.clone(), length.clone(), size.clone()]),
        [batch, length, width] => {
            let (heads, size) = match count.filter(|n| *n > 0) {
                Some(count) => (rule::extent(count), rule::divided(width, count)),
                None => (Dim::Unknown, Dim::Unknown),
            };
            Some([batch.clone(), heads, length.clone(), size])
        }
        _ => None,
    }
}

/// Returns the dimensions of the new keys or values after they are appended to the operand `cache`, if it is present.
pub fn with_cached(at: NodeFacts<'_>, new: Option<&Heads>, cache: usize) -> Option<Vec<Dim>> {
    let [batch, heads, length, size] = new?;
    let total = if at.has(cache) { rule::sum(at.dims(cache)?.get(2)?, length) } else { length.clone() };
    Some(vec![batch.clone(), heads.clone(), total, size.clone()])
}

/// Infers the types of ONNX's `Attention`: the result, the keys and values with the cached ones, and the query-key products.
fn attention_types(at: NodeFacts<'_>) -> Option<Types> {
    let count = |name| at.int(name, 0);
    let by_heads = |input, name| by_heads(at.dims(input)?, count(name));
    let (q, k, v) = (by_heads(0, "q_num_heads"), by_heads(1, "kv_num_heads"), by_heads(2, "kv_num_heads"));
    let (keys, values) = (with_cached(at, k.as_ref(), 4), with_cached(at, v.as_ref(), 5));
    let y = match (&q, &v, at.dims(0).map(<[Dim]>::len)) {
        (Some([batch, heads, length, _]), Some([.., size]), Some(4)) => {
            Some(vec![batch.clone(), heads.clone(), length.clone(), size.clone()])
        }
        (Some([batch, heads, length, _]), Some([.., size]), Some(3)) => {
            Some(vec![batch.clone(), length.clone(), rule::product(&[heads.clone(), size.clone()])])
        }
        _ => None,
    };
    let products = match (&q, keys.as_deref()) {
        (Some([batch, heads, length, _]), Some([_, _, total, _])) => {
            Some(vec![batch.clone(), heads.clone(), length.clone(), total.clone()])
        }
        _ => None,
    };
    let dtype = at.dtype(0);
    Some(vec![
        rule::tensor(dtype, y),
        rule::tensor(dtype, keys),
        rule::tensor(at.dtype(2), values),
        rule::tensor(dtype, products),
    ])
}

/// `Attention`.
pub(super) fn attention(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let q = heads(on, call, call.input(0)?, "q_num_heads")?;
    let (mut k, mut v) =
        (heads(on, call, call.input(1)?, "kv_num_heads")?, heads(on, call, call.input(2)?, "kv_num_heads")?);
    if let (Some(past_k), Some(past_v)) = (call.optional(4), call.optional(5)) {
        k = on.concat(&[past_k, &k], 2)?;
        v = on.concat(&[past_v, &v], 2)?;
    }
    let Mask { bias, excludes } = mask(on, call, &q, &k)?;
    let options = AttentionOptions {
        scale: call.has("scale").then(|| call.float("scale")).transpose()?,
        softcap: call.float_or("softcap", 0.0)?,
        precision: call.dtype("softmax_precision")?,
        excludes,
    };
    let mode = call.int_or("qk_matmul_output_mode", 0)?;
    let (y, products) = if call.wants(3) {
        let attended = attend(on, &q, &k, &v, bias.as_ref(), options)?;
        let segment = usize::try_from(mode).ok().and_then(|m| attended.segments.into_iter().nth(m));
        let segment = segment
            .ok_or_else(|| call.wrong("qk_matmul_output_mode", format!("is {mode}, expected 0 to 3")))?;
        (attended.y, Some(segment))
    } else {
        (on.attention(&q, &k, &v, bias.as_ref(), options)?, None)
    };
    let y = if call.input(0)?.rank() == 3 { joined(on, &y)? } else { y };
    Ok(smallvec![Some(y), Some(k), Some(v), products])
}

/// The bias that is added to the query-key products.
struct Mask {
    bias: Option<TracedTensor>,
    /// Whether minus infinity in the bias excludes a key, even if its product is NaN or infinite. A boolean mask excludes keys; an
    /// additive mask does not.
    excludes: bool,
}

/// Returns the mask, with minus infinity for keys that are out of reach or are padding.
fn mask(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    q: &TracedTensor,
    k: &TracedTensor,
) -> Result<Mask, TraceStop> {
    let bound = |name| -> Result<Option<i64>, Error> { Ok(Some(call.int_or(name, -1)?).filter(|&w| w >= 0)) };
    let mut reach = Reach { left: bound("left_window_size")?, right: bound("right_window_size")? };
    if call.flag("is_causal", false)? {
        reach.right = Some(0);
    }
    let lengths = match call.optional(6) {
        Some(lengths) => {
            let lengths = math::to(on, lengths, DataType::I64)?;
            Some(on.unsqueeze(&lengths, &[1, 2, 3])?)
        }
        None => None,
    };
    let (mut added, mut allowed) = (None, Vec::new());
    if let Some(mask) = call.optional(3) {
        let mask = lengthened(on, mask, k)?;
        match mask.dtype() {
            DataType::Bool => allowed.push(mask),
            _ => added = Some(math::to(on, &mask, q.dtype())?),
        }
    }
    if reach.left.is_some() || reach.right.is_some() {
        if q.rank() != 4 || k.rank() != 4 {
            return Err(call.wrong(NodePart::Operand(0), "has no heads").into());
        }
        let (s, t) = (on.extent(q, 2), on.extent(k, 2));
        let offset = match (call.optional(4), &lengths) {
            (Some(past), _) => on.ints_of(&[], &[on.extent(past, 2)])?,
            (None, Some(lengths)) => on.sub(lengths, &on.ints_of(&[], std::slice::from_ref(&s))?)?,
            (None, None) => on.host(&[], &[0i64])?,
        };
        allowed.extend(reached(on, [&s, &t], &offset, reach)?);
    }
    if let Some(lengths) = &lengths {
        let places = on.iota(&Extent::from(0i64), &Extent::from(1i64), &on.extent(k, 2))?;
        allowed.push(on.less(&places, lengths)?);
    }
    let mut allowed = allowed.into_iter();
    let Some(first) = allowed.next() else { return Ok(Mask { bias: added, excludes: false }) };
    let allowed = allowed.try_fold(first, |all, part| on.and(&all, &part))?;
    Ok(Mask { bias: Some(excluding(on, &allowed, added.as_ref(), q)?), excludes: true })
}

/// Extends a mask that covers too few keys, so that it excludes the remaining keys.
fn lengthened(on: &Tracer, mask: &TracedTensor, k: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    if mask.rank() == 0 {
        return Ok(mask.clone());
    }
    let (have, keys) = (on.extent(mask, mask.rank() - 1), on.extent(k, 2));
    if have.at_least(&keys) {
        return Ok(mask.clone());
    }
    let value = if mask.dtype() == DataType::Bool { 0.0 } else { f64::NEG_INFINITY };
    let mut pads = vec![0; 2 * mask.rank()];
    if let Some(end) = pads.last_mut() {
        *end = keys.minus(&have).number();
    }
    on.pad(mask, Some(&on.scalar_like(mask, value)?), &pads, Border::Constant)
}

/// `RotaryEmbedding`.
pub(super) fn rotary_embedding(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let input = call.input(0)?;
    let x = heads(on, call, input, "num_heads")?;
    // The caches have no heads: [b, s, r / 2] gets a dimension for them.
    let cache = |index| -> Result<TracedTensor, TraceStop> {
        let table = call.input(index)?;
        let chosen = match call.optional(3) {
            Some(ids) => on.gather(table, ids, 0)?,
            None => table.clone(),
        };
        on.unsqueeze(&chosen, &[1])
    };
    let dim = Some(call.int_or("rotary_embedding_dim", 0)?).filter(|&d| d > 0);
    let options = RotateOptions { dim, interleaved: call.flag("interleaved", false)? };
    let y = on.rotate(&x, &cache(1)?, &cache(2)?, options)?;
    Ok(one(if input.rank() == 3 { joined(on, &y)? } else { y }))
}
