//! Attention of one new element to a cache with spare room, as decoders use it.
//!
//! In beam search, the cache of each beam stays in place. For each beam and position, a table has the beam of the same batch
//! element whose cache contains the position.
//!
//! In `DecoderMaskedMultiHeadAttention`, the cache has ONNX's memory layout, as in ONNX Runtime's CPU kernel. In
//! `DecoderMaskedSelfAttention`, which has no CPU kernel in ONNX Runtime, keys have the layout that the schema describes.

use super::attention::{appended, cut, heads, join_heads, number, split_heads};
use super::grouped::grouped_keys;
use super::{none_from, only, plus};
use bb_core::error::NodePart;
use bb_core::ext::llm;
use bb_core::ext::{AttentionOptions, counted, math};
use bb_core::operator::{Call, OpResult};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::graph::Dim;
use bb_ir::infer::rule::{self, NodeFacts, Types};
use bb_onnx::shared::operators;
use smallvec::smallvec;

operators! {
    "com.microsoft" {
        DecoderMaskedMultiHeadAttention => Primitives(multi_head), infer: By(multi_head_types);
        DecoderMaskedSelfAttention => Primitives(self_attention), infer: By(self_attention_types), halves: Once;
    }
}

/// The indices of the operands that both operators have.
struct MaskedOperands {
    mask: usize,
    added: usize,
    past_length: usize,
    beam_width: usize,
    indirection: usize,
}

/// Returns the keys or values that each sequence attends to, `[batch, heads, total, size]`.
fn seen(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    cache: &TracedTensor,
    places: &MaskedOperands,
    total: usize,
) -> Result<TracedTensor, TraceStop> {
    let own = on.slice(cache, &[0], &[total as i64], &[2], &[])?;
    let width = number(on, call, places.beam_width)?.unwrap_or(1);
    let Some(table) = call.optional(places.indirection).filter(|_| width > 1) else {
        if width > 1 {
            let problem = format!("is missing; there are {width} sequences for each element of the batch");
            return Err(call.wrong(NodePart::Operand(places.indirection), problem).into());
        }
        return Ok(own);
    };
    let rows = own.shape().first().copied().unwrap_or(0);
    let fits = matches!(*table.shape(), [batch, beams, room]
        if beams == width && batch.checked_mul(width) == Some(rows) && room >= total);
    if !fits {
        let problem = format!(
            "has the extents {:?}, expected [{}, {width}, {total}] or more positions",
            table.shape(),
            rows / width
        );
        return Err(call.wrong(NodePart::Operand(places.indirection), problem).into());
    }
    let table = math::to(on, &on.slice(table, &[0], &[total as i64], &[2], &[])?, DataType::I64)?;
    // The first row of the batch element that each row belongs to.
    let first: Vec<i64> = (0..rows).map(|row| (row - row % width) as i64).collect();
    let row = on.add(&on.reshape(&table, &[rows, total])?, &on.host(&[rows, 1], &first)?)?;
    // The new element is always in the row's own cache.
    let last: Vec<i64> = (0..rows as i64).collect();
    let row = on
        .concat(&[&on.slice(&row, &[0], &[total as i64 - 1], &[1], &[])?, &on.host(&[rows, 1], &last)?], 1)?;
    let place = on.add(&on.mul(&row, &on.scalar_like(&row, 0.0)?)?, &counted(on, &[total], 1)?)?;
    let index = on.concat(&[&on.unsqueeze(&row, &[2])?, &on.unsqueeze(&place, &[2])?], 2)?;
    let by_position = on.transpose(&own, &[0, 2, 1, 3])?;
    on.transpose(&on.gather_nd(&by_position, &index, 0)?, &[0, 2, 1, 3])
}

/// Returns the bias of the query-key products: the filter value where the mask is 0, plus the call's own bias.
fn bias(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    q: &TracedTensor,
    places: &MaskedOperands,
    total: usize,
) -> Result<Option<TracedTensor>, TraceStop> {
    let filter = call.float_or("mask_filter_value", -10000.0)?;
    let mut bias = match call.optional(places.mask) {
        None => None,
        Some(mask) if mask.rank() == 2 && mask.shape().last() == Some(&total) => {
            let kept = on.greater(&on.unsqueeze(mask, &[1, 2])?, &on.scalar_like(mask, 0.0)?)?;
            Some(on.r#where(&kept, &on.scalar_like(q, 0.0)?, &on.scalar_like(q, filter)?)?)
        }
        Some(mask) => {
            let problem = format!("has the extents {:?}, expected [batch, {total}]", mask.shape());
            return Err(call.wrong(NodePart::Operand(places.mask), problem).into());
        }
    };
    if let Some(added) = call.optional(places.added) {
        bias = Some(plus(on, &math::to(on, added, q.dtype())?, bias.as_ref())?);
    }
    Ok(bias)
}

fn options<T>(call: &Call<'_, T>) -> Result<AttentionOptions, Error> {
    let scale = Some(call.float_or("scale", 0.0)?).filter(|&scale| scale != 0.0);
    Ok(AttentionOptions { scale, ..Default::default() })
}

/// Refuses queries of more than one element.
fn single<T: Tensor>(call: &Call<'_, T>) -> Result<(), Error> {
    match *call.input(0)?.shape() {
        [_, 1, _] => Ok(()),
        ref shape => {
            let problem = format!("has the extents {shape:?}, expected [batch, 1, size]");
            Err(call.wrong(NodePart::Operand(0), problem))
        }
    }
}

/// Infers the types of `DecoderMaskedMultiHeadAttention`: the result for one element, and the caches including it.
fn multi_head_types(at: NodeFacts<'_>) -> Option<Types> {
    let count = at.int("num_heads", 0).filter(|n| *n > 0)?;
    let shared = at.int("past_present_share_buffer", 0)? != 0;
    let crosses = !at.has(5) && at.dims(1).map(<[Dim]>::len) == Some(4);
    let width = || match at.dims(0)? {
        [_, _, all] if !at.has(1) => Some(rule::divided(all, 3)),
        [_, _, own] if crosses || !at.has(2) => Some(own.clone()),
        _ => at.dims(2)?.last().cloned(),
    };
    let y = || {
        let ([batch, length, _], width) = (at.dims(0)?, width()?) else { return None };
        Some(vec![batch.clone(), length.clone(), width])
    };
    let cache = |input: usize| {
        if !at.has(input) && !crosses {
            // Without a cache operand, the result has only the new element.
            let [batch, _, width] = at.dims(if at.has(1) { input - 4 } else { 0 })? else { return None };
            let parts = if at.has(1) { count } else { count.checked_mul(3)? };
            return Some(vec![
                batch.clone(),
                rule::extent(count),
                Dim::Known(1),
                rule::divided(width, parts),
            ]);
        }
        let [batch, heads, room, size] = at.dims(input)? else { return None };
        let room = if shared { room.clone() } else { rule::sum(room, &Dim::Known(1)) };
        Some(vec![batch.clone(), heads.clone(), room, size.clone()])
    };
    let products = || {
        let [batch, length, _] = at.dims(0)? else { return None };
        let total = match (crosses, at.has(5)) {
            (true, _) => at.dims(1)?.get(2)?.clone(),
            (false, true) => Dim::Unknown,
            (false, false) => Dim::Known(1),
        };
        Some(vec![batch.clone(), rule::extent(count), length.clone(), total])
    };
    let dtype = at.dtype(0);
    let of_cache = |input: usize| if at.has(input) { at.dtype(input) } else { dtype };
    Some(vec![
        rule::tensor(dtype, y()),
        rule::tensor(of_cache(5), cache(5)),
        rule::tensor(of_cache(6), cache(6)),
        rule::tensor(dtype, products()),
    ])
}

/// `DecoderMaskedMultiHeadAttention`.
pub(crate) fn multi_head(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    const PLACES: MaskedOperands =
        MaskedOperands { mask: 3, added: 4, past_length: 7, beam_width: 8, indirection: 9 };
    only(call, &["num_heads", "past_present_share_buffer", "scale", "mask_filter_value", "output_qk"])?;
    none_from(call, 11)?;
    single(call)?;
    let count = heads(call)?;
    let query = call.input(0)?;
    let crosses = call.optional(5).is_none() && call.optional(1).is_some_and(|k| k.rank() == 4);
    let width = query.shape().last().copied().unwrap_or(0);
    // Queries, keys and values are packed into one operand if the other two are omitted.
    let [q, k, v] = match (call.optional(1), call.optional(2)) {
        (Some(k), Some(v)) => [query.clone(), k.clone(), v.clone()],
        (None, None) if width.is_multiple_of(3) => {
            let parts = on.split(query, -1, &[width / 3; 3])?;
            <[TracedTensor; 3]>::try_from(parts.into_iter().collect::<Vec<_>>())
                .map_err(|_| Error::excluded("three parts of three"))?
        }
        _ => {
            let problem = "are missing, and operand 0 has no three parts";
            return Err(call.wrong(NodePart::other("operands 1 and 2"), problem).into());
        }
    };
    let own = q.shape().last().copied().unwrap_or(0);
    let with_bias = |x: &TracedTensor, part: usize| -> Result<TracedTensor, TraceStop> {
        let Some(bias) = call.optional(10) else { return split_heads(on, call, x, count) };
        let size = x.shape().last().copied().unwrap_or(0);
        let from = (part * own) as i64;
        let part = on.slice(bias, &[from], &[from + size as i64], &[0], &[])?;
        split_heads(on, call, &on.add(x, &part)?, count)
    };
    let q = with_bias(&q, 0)?;
    let (k, v, seen_k, seen_v) = if crosses {
        (k.clone(), v.clone(), k, v)
    } else {
        let (new_k, new_v) = (with_bias(&k, 1)?, with_bias(&v, 2)?);
        let shared = call.flag("past_present_share_buffer", false)?;
        let (k, v, past) = match (call.optional(5), call.optional(6)) {
            (Some(past_k), Some(past_v)) => {
                let room = past_k.shape().get(2).copied().unwrap_or(0);
                let past = match (shared, number(on, call, PLACES.past_length)?) {
                    (true, Some(past)) => past,
                    (true, None) => return Err(call.wrong(NodePart::Operand(7), "is missing").into()),
                    (false, _) => room,
                };
                let k = appended(on, call, past_k, &new_k, past, shared)?;
                (k, appended(on, call, past_v, &new_v, past, shared)?, past)
            }
            // Without a cache, this is the first element.
            (None, None) if !shared => (new_k, new_v, 0),
            (past_k, _) => {
                let missing = if past_k.is_some() { 6 } else { 5 };
                let problem =
                    "is missing; keys and values of a cache come together, and a shared buffer needs them";
                return Err(call.wrong(NodePart::Operand(missing), problem).into());
            }
        };
        let (seen_k, seen_v) =
            (seen(on, call, &k, &PLACES, past + 1)?, seen(on, call, &v, &PLACES, past + 1)?);
        (k, v, seen_k, seen_v)
    };
    let total = seen_k.shape().get(2).copied().unwrap_or(0);
    let bias = bias(on, call, &q, &PLACES, total)?;
    let (y, products) = if call.wants(3) {
        let attended = llm::attend(on, &q, &seen_k, &seen_v, bias.as_ref(), options(call)?)?;
        // Return the products after the mask is added, before the softmax.
        (attended.y, attended.segments.into_iter().nth(2))
    } else {
        (on.attention(&q, &seen_k, &seen_v, bias.as_ref(), options(call)?)?, None)
    };
    let y = join_heads(on, &y)?;
    if crosses {
        return Ok(smallvec![Some(y), None, None, products]);
    }
    Ok(smallvec![Some(y), Some(on.identity(&k)?), Some(on.identity(&v)?), products])
}

/// Infers the types of `DecoderMaskedSelfAttention`: the result for one element, and the cache including it.
fn self_attention_types(at: NodeFacts<'_>) -> Option<Types> {
    let shared = at.int("past_present_share_buffer", 0)? != 0;
    let y = || {
        let ([batch, length, _], [_, width]) = (at.dims(0)?, at.dims(1)?) else { return None };
        Some(vec![batch.clone(), length.clone(), rule::divided(width, 3)])
    };
    let present = || {
        let [two, batch, heads, room, size] = at.dims(4)? else { return None };
        let room = if shared { room.clone() } else { rule::sum(room, &Dim::Known(1)) };
        Some(vec![two.clone(), batch.clone(), heads.clone(), room, size.clone()])
    };
    let dtype = at.dtype(0);
    Some(vec![rule::tensor(dtype, y()), rule::tensor(dtype, present())])
}

/// `DecoderMaskedSelfAttention`, whose projections are one matrix product.
pub(crate) fn self_attention(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    const PLACES: MaskedOperands =
        MaskedOperands { mask: 3, added: 5, past_length: 6, beam_width: 7, indirection: 8 };
    only(call, &["num_heads", "past_present_share_buffer", "scale", "mask_filter_value", "do_rotary"])?;
    none_from(call, 9)?;
    single(call)?;
    if call.flag("do_rotary", false)? {
        return Err(call.wrong("do_rotary", "is not served: nothing tells the angles").into());
    }
    let dtype = call.input(0)?.dtype();
    let wide = |index: usize| -> Result<TracedTensor, TraceStop> {
        let x = call.input(index)?;
        if math::is_half(x.dtype()) { math::to(on, x, DataType::F32) } else { Ok(x.clone()) }
    };
    let merged = on.add(&on.matmul(&wide(0)?, &wide(1)?)?, &wide(2)?)?;
    let new = cut(on, call, &merged)?;
    let past = wide(4)?;
    if past.rank() != 5 {
        return Err(call.wrong(NodePart::Operand(4), format!("has rank {}, expected 5", past.rank())).into());
    }
    let part = |at: i64| on.squeeze(&on.slice(&past, &[at], &[at + 1], &[0], &[])?, &[0]);
    let shared = call.flag("past_present_share_buffer", false)?;
    let (past_k, past_v) = (part(0)?, part(1)?);
    let past_k = if shared { grouped_keys(on, &past_k, dtype, true)? } else { past_k };
    let used = match number(on, call, PLACES.past_length)? {
        Some(used) if shared => used,
        _ => past_k.shape().get(2).copied().unwrap_or(0),
    };
    let k = appended(on, call, &past_k, &new.k, used, shared)?;
    let v = appended(on, call, &past_v, &new.v, used, shared)?;
    let bias = bias(on, call, &new.q, &PLACES, used + 1)?;
    let (seen_k, seen_v) = (seen(on, call, &k, &PLACES, used + 1)?, seen(on, call, &v, &PLACES, used + 1)?);
    let y = on.attention(&new.q, &seen_k, &seen_v, bias.as_ref(), options(call)?)?;
    let y = math::narrowed(on, join_heads(on, &y)?, dtype)?;
    let k = if shared { grouped_keys(on, &k, dtype, false)? } else { k };
    let present = on.concat(&[&on.unsqueeze(&k, &[0])?, &on.unsqueeze(&v, &[0])?], 0)?;
    Ok(smallvec![Some(y), Some(math::narrowed(on, present, dtype)?)])
}
