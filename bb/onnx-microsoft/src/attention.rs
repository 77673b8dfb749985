//! Attention with merged or separate projections, its masks and caches, and rotary embeddings.

use super::quantized::{product, scaled};
use super::{no_results_from, none_from, only, only_int, plus};
use bb_core::error::NodePart;
use bb_core::ext::llm::excluding;
use bb_core::ext::{AttentionOptions, RotateOptions, counted, math};
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::graph::Dim;
use bb_ir::infer::rule::{self, NodeFacts, Types};
use bb_onnx::shared::attention::{by_heads, with_cached};
use bb_onnx::shared::operators;
use smallvec::smallvec;

operators! {
    "com.microsoft" {
        Attention => Primitives(attention), infer: By(merged_types);
        MultiHeadAttention => Primitives(multi_head_attention), infer: By(multi_head_attention_types);
        QAttention => Primitives(q_attention), infer: By(merged_types);
        RotaryEmbedding => Primitives(rotary_embedding), infer: Same, halves: Once;
    }
}

/// Queries, keys and values split into heads, `[batch, heads, length, size]`.
pub(super) struct Heads {
    pub(super) q: TracedTensor,
    pub(super) k: TracedTensor,
    pub(super) v: TracedTensor,
}

/// Reads the number of heads.
pub(super) fn heads<T>(call: &Call<'_, T>) -> Result<usize, Error> {
    let count = call.int("num_heads")?;
    usize::try_from(count)
        .ok()
        .filter(|&n| (1..1 << 20).contains(&n))
        .ok_or_else(|| call.wrong("num_heads", format!("is {count}, expected a positive number")))
}

/// Splits `[batch, length, heads * size]` into heads, `[batch, heads, length, size]`.
pub(super) fn split_heads(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    x: &TracedTensor,
    heads: usize,
) -> Result<TracedTensor, TraceStop> {
    match *x.shape() {
        [batch, length, width] if width.is_multiple_of(heads) => {
            on.transpose(&on.reshape(x, &[batch, length, heads, width / heads])?, &[0, 2, 1, 3])
        }
        _ => {
            let problem = format!("is {heads}; an operand has the extents {:?}", x.shape());
            Err(call.wrong("num_heads", problem).into())
        }
    }
}

/// Joins the heads of `[batch, heads, length, size]` into `[batch, length, heads * size]`.
pub(super) fn join_heads(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    let y = on.transpose(x, &[0, 2, 1, 3])?;
    match *y.shape() {
        [batch, length, heads, size] => on.reshape(&y, &[batch, length, heads * size]),
        _ => Ok(y),
    }
}

/// Computes attention over the keys that the mask keeps. The first `past` keys come from a cache, and every query attends to
/// them.
fn attend(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    h: &Heads,
    past: usize,
    mask: Option<&TracedTensor>,
    added: Option<&TracedTensor>,
) -> Result<TracedTensor, TraceStop> {
    let (&[batch, _, s, _], &[_, _, t, _]) = (h.q.shape(), h.k.shape()) else {
        return Err(call.wrong(NodePart::Operand(0), "has no heads").into());
    };
    // The bias of masked keys is finite, so that a fully masked row still has a finite average.
    let filter = call.float_or("mask_filter_value", -10000.0)?;
    let mut bias = match mask {
        Some(mask) => {
            let kept = kept(on, call, mask, [batch, s, t])?;
            Some(on.r#where(&kept, &on.scalar_like(&h.q, 0.0)?, &on.scalar_like(&h.q, filter)?)?)
        }
        None => None,
    };
    if let Some(added) = added {
        bias = Some(plus(on, added, bias.as_ref())?);
    }
    let excludes = call.flag("unidirectional", false)?;
    if excludes {
        let count = |from: usize, to: usize| (from..to).map(|i| i as i64).collect::<Vec<_>>();
        let (last, places) = (on.host(&[s, 1], &count(past, past + s))?, on.host(&[1, t], &count(0, t))?);
        bias = Some(excluding(on, &on.less_or_equal(&places, &last)?, bias.as_ref(), &h.q)?);
    }
    let scale = Some(call.float_or("scale", 0.0)?).filter(|&s| s != 0.0);
    let options = AttentionOptions { scale, excludes, ..Default::default() };
    join_heads(on, &on.attention(&h.q, &h.k, &h.v, bias.as_ref(), options)?)
}

/// Returns which keys a mask keeps for each query, as a tensor that broadcasts to `[batch, heads, s, t]`.
fn kept(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    mask: &TracedTensor,
    [batch, s, t]: [usize; 3],
) -> Result<TracedTensor, TraceStop> {
    let zero = on.scalar_like(mask, 0.0)?;
    let places = math::to(on, &counted(on, &[t], 1)?, mask.dtype())?;
    let bounds = |from: usize| -> Result<TracedTensor, TraceStop> {
        let part = on.slice(mask, &[from as i64], &[(from + batch) as i64], &[0], &[])?;
        on.reshape(&part, &[batch, 1, 1, 1])
    };
    let packed = batch.checked_mul(3).and_then(|three| three.checked_add(2));
    match *mask.shape() {
        // A mask of `[batch]` has the ends of the sequences. A mask of `[2 * batch]` has the ends, then the starts. The first
        // elements of `[3 * batch + 2]` are the ends; the rest has the starts of sequences in a batch without padding, which
        // does not apply here.
        [n] if n == batch || Some(n) == packed => on.less(&places, &bounds(0)?),
        [n] if n == 2 * batch => {
            on.and(&on.less(&places, &bounds(0)?)?, &on.greater_or_equal(&places, &bounds(batch)?)?)
        }
        [_, n] if n == t => on.greater(&on.unsqueeze(mask, &[1, 2])?, &zero),
        [_, rows, n] if rows == s && n == t => on.greater(&on.unsqueeze(mask, &[1])?, &zero),
        [_, _, rows, n] if rows >= t && n >= t => {
            let part = on.slice(mask, &[(t - s) as i64, 0], &[t as i64, t as i64], &[2, 3], &[])?;
            on.greater(&part, &zero)
        }
        _ => {
            let problem = format!("has the extents {:?}, which none of the served forms has", mask.shape());
            Err(call.wrong(NodePart::other("the mask"), problem).into())
        }
    }
}

/// Puts cached keys and values, the operand `[2, batch, heads, past, size]`, before the new ones. Also returns the number of
/// cached keys.
fn remember(on: &Tracer, h: Heads, past: Option<&TracedTensor>) -> Result<(Heads, usize), TraceStop> {
    let Some(past) = past else { return Ok((h, 0)) };
    let part = |at: i64| on.squeeze(&on.slice(past, &[at], &[at + 1], &[0], &[])?, &[0]);
    let (k, v) = (on.concat(&[&part(0)?, &h.k], 2)?, on.concat(&[&part(1)?, &h.v], 2)?);
    Ok((Heads { q: h.q, k, v }, past.shape().get(3).copied().unwrap_or(0)))
}

/// Stacks keys and values into one tensor, `[2, batch, heads, length, size]`.
fn present(on: &Tracer, h: &Heads) -> Result<TracedTensor, TraceStop> {
    on.concat(&[&on.unsqueeze(&h.k, &[0])?, &on.unsqueeze(&h.v, &[0])?], 0)
}

/// Reads an operand that has a single integer.
pub(super) fn number(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    index: usize,
) -> Result<Option<usize>, TraceStop> {
    let Some(x) = call.optional(index) else { return Ok(None) };
    let ints = on.ints(x)?;
    let count = if let [only] = ints.as_slice() { usize::try_from(*only).ok() } else { None };
    let wrong =
        || call.wrong(NodePart::Operand(index), format!("is {ints:?}, expected one number from 0 on"));
    Ok(Some(count.ok_or_else(wrong)?))
}

/// Adds new keys or values to a cache, `[batch, heads, room, size]`. If `shared`, overwrites the elements from index `past`
/// on; otherwise appends at the end.
pub(super) fn appended(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    cache: &TracedTensor,
    new: &TracedTensor,
    past: usize,
    shared: bool,
) -> Result<TracedTensor, TraceStop> {
    if !shared {
        return on.concat(&[cache, new], 2);
    }
    let room = cache.shape().get(2).copied().unwrap_or(0);
    let count = new.shape().get(2).copied().unwrap_or(0);
    let Some(end) = past.checked_add(count).filter(|end| *end <= room) else {
        let problem = format!("is {past}; the cache has {room} positions and {count} are new");
        return Err(call.wrong("past_sequence_length", problem).into());
    };
    let part = |from: usize, to: usize| on.slice(cache, &[from as i64], &[to as i64], &[2], &[]);
    on.concat(&[&part(0, past)?, new, &part(end, room)?], 2)
}

/// Splits the merged projections `[batch, length, …]` into queries, keys and values, and these into heads.
pub(super) fn cut(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    merged: &TracedTensor,
) -> Result<Heads, TraceStop> {
    let width = merged.shape().last().copied().unwrap_or(0);
    let sizes: Vec<usize> = match call.ints("qkv_hidden_sizes")? {
        Some(sizes) => sizes.iter().map(|&s| usize::try_from(s).unwrap_or(0)).collect(),
        None => vec![width / 3; 3],
    };
    if sizes.len() != 3 || sizes.iter().try_fold(0usize, |sum, &s| sum.checked_add(s)) != Some(width) {
        let problem = format!("is {sizes:?}; the projections are {width} wide");
        return Err(call.wrong("qkv_hidden_sizes", problem).into());
    }
    let count = heads(call)?;
    let parts = on.split(merged, -1, &sizes)?;
    let mut parts = parts.iter().map(|part| split_heads(on, call, part, count));
    match (parts.next().transpose()?, parts.next().transpose()?, parts.next().transpose()?) {
        (Some(q), Some(k), Some(v)) => Ok(Heads { q, k, v }),
        _ => Err(call.wrong(NodePart::Operand(1), "has no three parts").into()),
    }
}

/// Infers the types of ONNX Runtime's `Attention` and `QAttention`, whose projections are one matrix product.
fn merged_types(at: NodeFacts<'_>) -> Option<Types> {
    let quantised = at.node.op_type == "QAttention";
    let count = at.int("num_heads", 0).filter(|n| *n > 0)?;
    let width = at.dims(1).and_then(|w| w.get(1)).cloned().unwrap_or(Dim::Unknown);
    let sizes = match at.ints("qkv_hidden_sizes") {
        Some([_, keys, values]) => [rule::extent(*keys), rule::extent(*values)],
        Some(_) => return None,
        None => [rule::divided(&width, 3), rule::divided(&width, 3)],
    };
    let [keys, values] = &sizes;
    let dtype = if quantised { at.dtype(3) } else { at.dtype(0) };
    let past = if quantised { 8 } else { 4 };
    let y = at.dims(0).and_then(|x| match x {
        [batch, length, _] => Some(vec![batch.clone(), length.clone(), values.clone()]),
        _ => None,
    });
    let present = || {
        let [batch, length, _] = at.dims(0)? else { return None };
        let shared = !quantised && at.int("past_present_share_buffer", 0)? != 0;
        let total = match at.has(past) {
            true if shared => at.dims(past)?.get(3)?.clone(),
            true => rule::sum(at.dims(past)?.get(3)?, length),
            false => length.clone(),
        };
        Some(vec![Dim::Known(2), batch.clone(), rule::extent(count), total, rule::divided(keys, count)])
    };
    Some(vec![rule::tensor(dtype, y), rule::tensor(dtype, present())])
}

/// Refuses rotary embeddings, because no operand has their angles. Without them, `rotary_embedding_dim` has no effect.
fn not_rotated<T>(call: &Call<'_, T>) -> Result<(), Error> {
    only_int(call, "do_rotary", 0)?;
    call.int_or("rotary_embedding_dim", 0).map(|_| ())
}

/// `Attention`, whose projections are one matrix product.
pub(crate) fn attention(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(
        call,
        &[
            "num_heads",
            "unidirectional",
            "scale",
            "mask_filter_value",
            "qkv_hidden_sizes",
            "past_present_share_buffer",
            "do_rotary",
            "rotary_embedding_dim",
        ],
    )?;
    not_rotated(call)?;
    none_from(call, 7)?;
    let merged = plus(on, &on.matmul(call.input(0)?, call.input(1)?)?, call.optional(2))?;
    if call.flag("past_present_share_buffer", false)? {
        return shared_attention(on, call, cut(on, call, &merged)?);
    }
    none_from(call, 6)?;
    let (h, past) = remember(on, cut(on, call, &merged)?, call.optional(4))?;
    let y = attend(on, call, &h, past, call.optional(3), call.optional(5))?;
    let present = call.wants(1).then(|| present(on, &h)).transpose()?;
    Ok(smallvec![Some(y), present])
}

/// `Attention` with a preallocated cache. Operand 6 is the number of used elements of the cache.
fn shared_attention(on: &Tracer, call: &Call<'_, TracedTensor>, new: Heads) -> OpResult {
    let (past, length) = (call.input(4)?, new.k.shape().get(2).copied().unwrap_or(0));
    let missing = || call.wrong(NodePart::Operand(6), "is missing; a cache with room needs it");
    let used = number(on, call, 6)?.ok_or_else(missing)?;
    if past.rank() != 5 {
        return Err(call.wrong(NodePart::Operand(4), format!("has rank {}, expected 5", past.rank())).into());
    }
    let part = |at: i64| on.squeeze(&on.slice(past, &[at], &[at + 1], &[0], &[])?, &[0]);
    let k = appended(on, call, &part(0)?, &new.k, used, true)?;
    let v = appended(on, call, &part(1)?, &new.v, used, true)?;
    let seen = |x: &TracedTensor| on.slice(x, &[0], &[(used + length) as i64], &[2], &[]);
    let h = Heads { q: new.q, k: seen(&k)?, v: seen(&v)? };
    let y = attend(on, call, &h, used, call.optional(3), call.optional(5))?;
    let present = call.wants(1).then(|| present(on, &Heads { q: h.q.clone(), k, v })).transpose()?;
    Ok(smallvec![Some(y), present])
}

/// `QAttention`, whose projections are one product of quantized matrices.
pub(crate) fn q_attention(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let known = [
        "num_heads",
        "unidirectional",
        "scale",
        "mask_filter_value",
        "do_rotary",
        "past_present_share_buffer",
    ];
    only(call, &known)?;
    for name in ["do_rotary", "past_present_share_buffer"] {
        only_int(call, name, 0)?;
    }
    let zeros = [call.optional(6), call.optional(7)];
    let product = product(on, [call.input(0)?, call.input(1)?], zeros)?;
    let scale = on.mul(call.input(3)?, call.input(4)?)?;
    let merged = scaled(on, &product, &scale, Some(call.input(2)?))?;
    let (h, past) = remember(on, cut(on, call, &merged)?, call.optional(8))?;
    let y = attend(on, call, &h, past, call.optional(5), None)?;
    let present = call.wants(1).then(|| present(on, &h)).transpose()?;
    Ok(smallvec![Some(y), present])
}

/// Infers the types of ONNX Runtime's `MultiHeadAttention`. Its projections are separate operands, packed by heads, or from a
/// cache.
fn multi_head_attention_types(at: NodeFacts<'_>) -> Option<Types> {
    let count = at.int("num_heads", 0).filter(|n| *n > 0)?;
    // Packed operands have the shape `[batch, length, heads, parts, size]`.
    let part = |x: &[Dim]| match x {
        [batch, length, heads, _, size] => Some([batch.clone(), heads.clone(), length.clone(), size.clone()]),
        _ => by_heads(x, Some(count)),
    };
    let q = at.dims(0).and_then(part);
    let k = if at.has(1) { at.dims(1).and_then(part) } else { q.clone() };
    let v = match (at.has(2), at.has(1)) {
        (true, _) => at.dims(2).and_then(part),
        (false, true) => k.clone(),
        (false, false) => q.clone(),
    };
    let (keys, values) = (with_cached(at, k.as_ref(), 6), with_cached(at, v.as_ref(), 7));
    let y = match (&q, &v) {
        (Some([batch, _, length, _]), Some([.., size])) => {
            Some(vec![batch.clone(), length.clone(), rule::scaled(size, count)])
        }
        _ => None,
    };
    let dtype = at.dtype(0);
    Some(vec![rule::tensor(dtype, y), rule::tensor(dtype, keys), rule::tensor(dtype, values)])
}

/// `MultiHeadAttention`, whose projections are separate operands, packed by heads, or from a cache.
pub(crate) fn multi_head_attention(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["num_heads", "unidirectional", "scale", "mask_filter_value"])?;
    none_from(call, 8)?;
    no_results_from(call, 3)?;
    let query = call.input(0)?;
    let count = heads(call)?;
    let bias = match call.optional(3) {
        Some(bias) => {
            let all = bias.shape().first().copied().unwrap_or(0);
            let own = match *query.shape() {
                [_, _, width] => width,
                _ => all / 3,
            };
            let Some(rest) = own.checked_mul(2).and_then(|two| all.checked_sub(two)) else {
                let problem = format!("has {all} elements, expected {own} for each of queries and keys");
                return Err(call.wrong(NodePart::Operand(3), problem).into());
            };
            on.split(bias, 0, &[own, own, rest])?
        }
        None => Vec::new(),
    };
    let projected =
        |x: &TracedTensor, part: usize| split_heads(on, call, &plus(on, x, bias.get(part))?, count);
    // Packed operands have the shape `[batch, length, heads, parts, size]`.
    let packed = |x: &TracedTensor, at: i64, part: usize| -> Result<TracedTensor, TraceStop> {
        let own = on.squeeze(&on.slice(x, &[at], &[at + 1], &[3], &[])?, &[3])?;
        match *own.shape() {
            [batch, length, heads, size] => {
                projected(&on.reshape(&own, &[batch, length, heads * size])?, part)
            }
            _ => Err(call.wrong(NodePart::Operand(0), "is not packed by heads").into()),
        }
    };
    let h = match (call.optional(1), call.optional(2)) {
        (None, None) if query.rank() == 5 => {
            Heads { q: packed(query, 0, 0)?, k: packed(query, 1, 1)?, v: packed(query, 2, 2)? }
        }
        (Some(pairs), None) if pairs.rank() == 5 => {
            Heads { q: projected(query, 0)?, k: packed(pairs, 0, 1)?, v: packed(pairs, 1, 2)? }
        }
        // Keys and values from a cache are already projected.
        (Some(k), Some(v)) if k.rank() == 4 && v.rank() == 4 => {
            Heads { q: projected(query, 0)?, k: k.clone(), v: v.clone() }
        }
        (Some(k), Some(v)) => Heads { q: projected(query, 0)?, k: projected(k, 1)?, v: projected(v, 2)? },
        _ => {
            return Err(call
                .wrong(NodePart::other("operands 1 and 2"), "are missing, and operand 0 is not packed")
                .into());
        }
    };
    let (h, past) = match (call.optional(6), call.optional(7)) {
        (Some(k), Some(v)) => {
            let past = k.shape().get(2).copied().unwrap_or(0);
            (Heads { q: h.q, k: on.concat(&[k, &h.k], 2)?, v: on.concat(&[v, &h.v], 2)? }, past)
        }
        _ => (h, 0),
    };
    let y = attend(on, call, &h, past, call.optional(4), call.optional(5))?;
    Ok(smallvec![Some(y), Some(on.identity(&h.k)?), Some(on.identity(&h.v)?)])
}

/// `RotaryEmbedding`. The operand of position ids contains one id for each position of each sequence, or only the id of the
/// first position.
pub(crate) fn rotary_embedding(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["num_heads", "rotary_embedding_dim", "interleaved", "is_packed_batching", "scale"])?;
    if call.flag("is_packed_batching", false)? {
        return Err(call.wrong("is_packed_batching", "is not served").into());
    }
    let (ids, cos, sin) = (call.input(1)?, call.input(2)?, call.input(3)?);
    let by_heads = to_rotate(on, call, cos)?;
    let length = by_heads.shape().get(2).copied().unwrap_or(0);
    let ids = if ids.rank() == 1 {
        let steps = counted(on, &[1, length], 1)?;
        on.add(&math::to(on, ids, DataType::I64)?, &steps)?
    } else {
        ids.clone()
    };
    let chosen = |table: &TracedTensor| on.gather(table, &ids, 0);
    rotated(on, call, &by_heads, [&chosen(cos)?, &chosen(sin)?])
}

/// Reads the number of elements of a head that are rotated; `None` means all.
fn rotated_size<T>(call: &Call<'_, T>) -> Result<Option<i64>, Error> {
    Ok(Some(call.int_or("rotary_embedding_dim", 0)?).filter(|&d| d > 0))
}

/// Returns operand 0 split into heads. The size of a head follows from the table of cosines.
pub(super) fn to_rotate(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    cos: &TracedTensor,
) -> Result<TracedTensor, TraceStop> {
    let x = call.input(0)?;
    match *x.shape() {
        [_, _, _, _] => Ok(x.clone()),
        [_, _, width] => {
            let count = if rotated_size(call)?.is_some() {
                heads(call)?
            } else {
                // The tables have one angle for each pair of elements of a head.
                let size = 2 * cos.shape().last().copied().unwrap_or(0);
                width.checked_div(size).unwrap_or(0).max(1)
            };
            split_heads(on, call, x, count)
        }
        _ => Err(call.wrong(NodePart::Operand(0), format!("has rank {}, expected 3 or 4", x.rank())).into()),
    }
}

/// Rotates pairs of elements by angles whose cosines and sines are `[batch, length, pairs]`. Joins the heads again if operand
/// 0 is not split into heads.
pub(super) fn rotated(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    by_heads: &TracedTensor,
    [cos, sin]: [&TracedTensor; 2],
) -> OpResult {
    let options = RotateOptions { dim: rotated_size(call)?, interleaved: call.flag("interleaved", false)? };
    let y = on.rotate(by_heads, &on.unsqueeze(cos, &[1])?, &on.unsqueeze(sin, &[1])?, options)?;
    let scale = call.float_or("scale", 1.0)?;
    let y = if scale == 1.0 { y } else { on.mul(&y, &on.scalar_like(&y, scale)?)? };
    Ok(one(if call.input(0)?.rank() == 3 { join_heads(on, &y)? } else { y }))
}
