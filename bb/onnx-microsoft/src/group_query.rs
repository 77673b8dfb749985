//! `GroupQueryAttention`: several query heads share a key head; the cache has sequences of different lengths; rotary embeddings
//! are optional.

use super::attention::{join_heads, split_heads};
use super::{no_operand, no_results_from, none_from, only, only_int, only_text};
use bb_core::error::NodePart;
use bb_core::ext::llm::excluding;
use bb_core::ext::{AttentionOptions, Border, RotateOptions, counted, math};
use bb_core::operator::{Call, OpResult};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::graph::Dim;
use bb_ir::infer;
use bb_ir::infer::rule::{self, NodeFacts, Types};
use bb_onnx::shared::operators;
use smallvec::smallvec;

operators! {
    "com.microsoft" {
        GroupQueryAttention => Primitives(group_query_attention), infer: By(group_query_attention_types);
    }
}

/// The sizes of a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extents {
    pub(super) batch: usize,
    /// The number of new elements of each sequence.
    pub(super) new: usize,
    /// The number of elements that fit each sequence of the cache.
    pub(super) room: usize,
    /// The length of the longest sequence, including the new elements.
    pub(super) total: usize,
}

/// Infers the types of ONNX Runtime's `GroupQueryAttention`. The cache may have room for new elements.
pub(super) fn group_query_attention_types(at: NodeFacts<'_>) -> Option<Types> {
    let (queries, shared) = (at.int("num_heads", 0)?, at.int("kv_num_heads", 0)?);
    if queries < 1 || shared < 1 {
        return None;
    }
    let packed = !at.has(1);
    let size = |input: usize, count: i64| {
        let [_, _, width] = at.dims(input)? else { return None };
        Some(rule::divided(width, count))
    };
    let all = queries.checked_add(shared.checked_mul(2)?)?;
    let keys = if packed { size(0, all) } else { size(1, shared) };
    let values = if packed { size(0, all) } else { size(2, shared) };
    let [batch, length, _] = at.dims(0)? else { return None };
    let y = values.as_ref().map(|size| vec![batch.clone(), length.clone(), rule::scaled(size, queries)]);
    let total = if at.has(3) {
        let room = at.dims(3).and_then(|past| past.get(2)).cloned().unwrap_or(Dim::Unknown);
        rule::told(infer::Extent::max(&room, &at.extent(6)))
    } else {
        length.clone()
    };
    let cache = |size: Option<Dim>| Some(vec![batch.clone(), rule::extent(shared), total.clone(), size?]);
    let dtype = at.dtype(0);
    let kept = |past: usize| if at.has(past) { at.dtype(past) } else { dtype };
    Some(vec![
        rule::tensor(dtype, y),
        rule::tensor(kept(3), cache(keys)),
        rule::tensor(kept(4), cache(values)),
    ])
}

/// `GroupQueryAttention`, without quantized caches.
pub(crate) fn group_query_attention(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(
        call,
        &[
            "num_heads",
            "kv_num_heads",
            "scale",
            "softcap",
            "local_window_size",
            "do_rotary",
            "rotary_interleaved",
            "causal",
            "smooth_softmax",
            "qk_norm_epsilon",
            "q_norm_epsilon",
            "k_norm_epsilon",
            "k_quant_type",
            "v_quant_type",
            "kv_cache_bit_width",
            "qk_output",
            "sliding_window_cache",
        ],
    )?;
    for name in ["k_quant_type", "v_quant_type"] {
        only_text(call, name, "NONE")?;
    }
    for name in ["kv_cache_bit_width", "qk_output", "sliding_window_cache"] {
        only_int(call, name, 0)?;
    }
    for scales in [12, 13] {
        no_operand(call, scales)?;
    }
    none_from(call, 16)?;
    no_results_from(call, 3)?;
    let (heads, shared) = (count(call, "num_heads")?, count(call, "kv_num_heads")?);
    let ([q, k, v], [batch, new, size]) = projections(on, call, heads, shared)?;
    let [q, k] = normal(on, call, [q, k])?;
    let totals = on.ints(call.input(6)?)?;
    let total = totals.first().and_then(|&t| usize::try_from(t).ok()).filter(|&t| t >= new);
    let total = total
        .ok_or_else(|| call.wrong(NodePart::Operand(6), format!("is {totals:?}; {new} positions are new")))?;
    let past = call.optional(3).zip(call.optional(4));
    let room = past.and_then(|(k, _)| k.shape().get(2).copied()).unwrap_or(0);
    let e = Extents { batch, new, room, total };
    let before = before(on, call, e)?;
    let (q, k) = if call.flag("do_rotary", false)? {
        let (tables, ids) = ([call.input(7)?, call.input(8)?], call.optional(9));
        let turned = |x: &TracedTensor| rotated(on, call, tables, ids, x, &before, size);
        (turned(&q)?, turned(&k)?)
    } else {
        (q, k)
    };
    // If the cache has another float type than the queries, attention is computed in `f32`, and the new elements are rounded to
    // the cache's type afterwards, as in ONNX Runtime.
    let (dtype, cache) = (q.dtype(), past.map_or(q.dtype(), |(old, _)| old.dtype()));
    if !cache.is_float() {
        let problem = format!("has the element type {cache}, expected floats");
        return Err(call.wrong(NodePart::Operand(3), problem).into());
    }
    if let Some((_, old)) = past.filter(|(_, old)| old.dtype() != cache) {
        let problem =
            format!("has the element type {}, expected {cache} as the cached keys have", old.dtype());
        return Err(call.wrong(NodePart::Operand(4), problem).into());
    }
    let wide = |x: &TracedTensor| math::to(on, x, if cache == dtype { dtype } else { DataType::F32 });
    let (q, k, v) = (wide(&q)?, wide(&k)?, wide(&v)?);
    let (k, v) = match past {
        Some((old_k, old_v)) => {
            let put =
                |old: &TracedTensor, new: &TracedTensor| cached(on, call, 6, &wide(old)?, new, e, &before);
            (put(old_k, &k)?, put(old_v, &v)?)
        }
        None => (k, v),
    };
    let bias = bias(on, call, &q, e, &before)?;
    let within = |x: &TracedTensor| on.slice(x, &[0], &[total as i64], &[2], &[]);
    let scale = Some(call.float_or("scale", 0.0)?).filter(|&s| s != 0.0);
    let softcap = call.float_or("softcap", 0.0)?;
    let options = AttentionOptions { scale, softcap, excludes: true, ..Default::default() };
    let (seen_k, seen_v) = (within(&k)?, within(&v)?);
    let y = match sink(on, call, &q, heads)? {
        None => on.attention(&q, &seen_k, &seen_v, Some(&bias), options)?,
        Some(sink) => {
            // Append a key and a value of zeros. The value adds nothing, so the sink only takes a share of the softmax.
            let (k, v) = (nothing_behind(on, &seen_k)?, nothing_behind(on, &seen_v)?);
            let reach = on.expand(&bias, &[batch, heads, new, total])?;
            let bias = on.concat(&[&reach, &on.expand(&wide(&sink)?, &[batch, heads, new, 1])?], 3)?;
            on.attention(&q, &k, &v, Some(&bias), options)?
        }
    };
    let present = |x: &TracedTensor| math::to(on, x, cache);
    Ok(smallvec![Some(math::to(on, &join_heads(on, &y)?, dtype)?), Some(present(&k)?), Some(present(&v)?)])
}

/// Divides each head of queries and keys by its root mean square, and scales it, if the weights for that are present.
fn normal(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    [q, k]: [TracedTensor; 2],
) -> Result<[TracedTensor; 2], TraceStop> {
    let (of_q, of_k) = match (call.optional(14), call.optional(15)) {
        (None, None) => return Ok([q, k]),
        (Some(of_q), Some(of_k)) => (of_q, of_k),
        (of_q, _) => {
            let missing = if of_q.is_some() { 15 } else { 14 };
            let problem = "is missing; the weights of queries and of keys come together";
            return Err(call.wrong(NodePart::Operand(missing), problem).into());
        }
    };
    let both = call.float_or("qk_norm_epsilon", f64::from(1e-6f32))?;
    let one = |x: &TracedTensor, at: usize, weight: &TracedTensor, name: &str| {
        let size = x.shape().last().copied().unwrap_or(0);
        if *weight.shape() != [size] {
            let problem = format!("has the shape {:?}, expected [{size}]", weight.shape());
            return Err(call.wrong(NodePart::Operand(at), problem).into());
        }
        let epsilon = call.float_if_given(name)?.map_or(both, f64::from);
        if !(epsilon > 0.0 && epsilon.is_finite()) {
            let problem = format!("is {epsilon}, expected a positive number");
            return Err(call.wrong(name, problem).into());
        }
        on.rms_normalization(x, weight, -1, epsilon)
    };
    Ok([one(&q, 14, of_q, "q_norm_epsilon")?, one(&k, 15, of_k, "k_norm_epsilon")?])
}

/// Returns an additional logit for each head's softmax, `[1, heads, 1, 1]`.
fn sink(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    q: &TracedTensor,
    heads: usize,
) -> Result<Option<TracedTensor>, TraceStop> {
    match call.optional(11) {
        Some(sinks) => Ok(Some(on.reshape(sinks, &[1, heads, 1, 1])?)),
        None => match call.int_or("smooth_softmax", -1)? {
            1 => Ok(Some(on.reshape(&on.scalar_like(q, 0.0)?, &[1, 1, 1, 1])?)),
            -1 | 0 => Ok(None),
            other => Err(call.wrong("smooth_softmax", format!("is {other}, expected -1, 0 or 1")).into()),
        },
    }
}

/// Appends an element of zeros to each sequence of keys or values, `[batch, heads, length, size]`.
fn nothing_behind(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    on.pad(x, None, &[0, 0, 0, 0, 0, 0, 1, 0], Border::Constant)
}

/// Reads an attribute that is a number of heads.
pub(super) fn count<T>(call: &Call<'_, T>, name: &str) -> Result<usize, Error> {
    let count = call.int(name)?;
    usize::try_from(count)
        .ok()
        .filter(|&n| (1..1 << 20).contains(&n))
        .ok_or_else(|| call.wrong(name, format!("is {count}, expected a positive number")))
}

/// Queries, keys and values split into heads, with the number of sequences, their length and the size of a head.
type Projections<T> = ([T; 3], [usize; 3]);

/// Returns queries, keys and values split into heads. They may be packed into one operand.
pub(super) fn projections(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    heads: usize,
    shared: usize,
) -> Result<Projections<TracedTensor>, TraceStop> {
    let query = call.input(0)?;
    let [q, k, v] = if let (Some(k), Some(v)) = (call.optional(1), call.optional(2)) {
        [
            split_heads(on, call, query, heads)?,
            split_heads(on, call, k, shared)?,
            split_heads(on, call, v, shared)?,
        ]
    } else {
        let all = split_heads(on, call, query, heads + 2 * shared)?;
        let (h, g) = (heads as i64, shared as i64);
        let part = |from: i64, to: i64| on.slice(&all, &[from], &[to], &[1], &[]);
        [part(0, h)?, part(h, h + g)?, part(h + g, h + 2 * g)?]
    };
    let &[batch, _, new, size] = q.shape() else {
        return Err(call.wrong(NodePart::Operand(0), "has no heads").into());
    };
    for (at, x) in [(1, &k), (2, &v)] {
        if !matches!(*x.shape(), [own, _, count, _] if own == batch && count == new) {
            let expected =
                format!("has the shape {:?}, expected a batch of {batch} with {new} positions", x.shape());
            return Err(call.wrong(NodePart::Operand(at), expected).into());
        }
    }
    Ok(([q, k, v], [batch, new, size]))
}

/// Returns the number of elements of each sequence before the new ones, `[batch, 1]`.
fn before(on: &Tracer, call: &Call<'_, TracedTensor>, e: Extents) -> Result<TracedTensor, TraceStop> {
    // In the first call, shorter sequences are padded at their ends, so all new elements begin at 0.
    if e.total == e.new || e.batch == 1 {
        return on.host(&[e.batch, 1], &vec![(e.total - e.new) as i64; e.batch]);
    }
    let last = on.reshape(&math::to(on, call.input(5)?, DataType::I64)?, &[e.batch, 1])?;
    on.add(&last, &on.host(&[], &[1 - e.new as i64])?)
}

/// Rotates queries or keys by the angles of their positions. The cosines and sines of the angles are in tables.
pub(super) fn rotated(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    [cos, sin]: [&TracedTensor; 2],
    ids: Option<&TracedTensor>,
    x: &TracedTensor,
    before: &TracedTensor,
    size: usize,
) -> Result<TracedTensor, TraceStop> {
    let ids = match ids {
        Some(ids) => ids.clone(),
        None => on.add(before, &counted(on, &[x.shape().get(2).copied().unwrap_or(0)], 1)?)?,
    };
    let chosen = |table: &TracedTensor| on.unsqueeze(&on.gather(table, &ids, 0)?, &[1]);
    let turning = 2 * cos.shape().last().copied().unwrap_or(0);
    let dim = (turning < size).then_some(turning as i64);
    let options = RotateOptions { dim, interleaved: call.flag("rotary_interleaved", false)? };
    on.rotate(x, &chosen(cos)?, &chosen(sin)?, options)
}

/// Writes the new elements of each sequence into the cache, after its existing elements. The operand at `at` has their number.
pub(super) fn cached(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    at: usize,
    old: &TracedTensor,
    new: &TracedTensor,
    e: Extents,
    before: &TracedTensor,
) -> Result<TracedTensor, TraceStop> {
    let part = |from: usize, to: usize| on.slice(old, &[from as i64], &[to as i64], &[2], &[]);
    let first = e.total - e.new;
    if e.total > e.room + e.new {
        let problem = format!("is {}; the cache has {} positions and {} are new", e.total, e.room, e.new);
        return Err(call.wrong(NodePart::Operand(at), problem).into());
    }
    if e.batch == 1 || first == 0 {
        return match e.room > e.total {
            true => on.concat(&[&part(0, first)?, new, &part(e.total, e.room)?], 2),
            false => on.concat(&[&part(0, first)?, new], 2),
        };
    }
    // For each cache element, compute an index into the concatenation of the old cache and the new elements.
    let both = on.transpose(&on.concat(&[old, new], 2)?, &[0, 2, 1, 3])?;
    let extent = e.room.max(e.total);
    let place = counted(on, &[extent], 1)?;
    let offset = on.sub(&place, before)?;
    let number = |n: usize| on.host(&[], &[n as i64]);
    let is_new = on.and(&on.greater_or_equal(&offset, &number(0)?)?, &on.less(&offset, &number(e.new)?)?)?;
    let own = on.minimum(&place, &number(e.room.saturating_sub(1))?)?;
    let index = on.r#where(&is_new, &on.add(&offset, &number(e.room)?)?, &own)?;
    let index = on.unsqueeze(&index, &[2])?;
    on.transpose(&on.gather_nd(&both, &index, 1)?, &[0, 2, 1, 3])
}

/// Returns the bias of the query-key products: minus infinity for keys that a query does not reach, plus the call's own bias.
fn bias(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    q: &TracedTensor,
    e: Extents,
    before: &TracedTensor,
) -> Result<TracedTensor, TraceStop> {
    let own = on.unsqueeze(&on.add(before, &counted(on, &[e.new], 1)?)?, &[1, 3])?;
    let place = counted(on, &[e.total], 1)?;
    let mut reached = if call.flag("causal", true)? {
        on.less_or_equal(&place, &own)?
    } else {
        let ends = on.add(before, &on.host(&[], &[e.new as i64])?)?;
        on.less(&place, &on.unsqueeze(&ends, &[2, 3])?)?
    };
    let window = call.int_or("local_window_size", -1)?;
    if window > 0 {
        let least = on.sub(&own, &on.host(&[], &[window])?)?;
        reached = on.and(&reached, &on.greater(&place, &least)?)?;
    }
    let added = call.optional(10).map(|added| math::to(on, added, q.dtype())).transpose()?;
    excluding(on, &reached, added.as_ref(), q)
}
