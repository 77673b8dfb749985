//! `PagedAttention`: attention of new tokens of several sequences. The past of the sequences is stored in blocks of a shared cache.

use super::group_query::count;
use super::{no_results_from, none_from, only, only_int, only_text};
use bb_core::DataType;
use bb_core::Tensor;
use bb_core::error::NodePart;
use bb_core::ext::llm::{Sequences, sequences};
use bb_core::ext::{Extent, RaggedAttentionOptions, RotateOptions, ScatterReduction, math};
use bb_core::operator::{Call, OpResult};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_ir::infer::rule::{self, NodeFacts, Types};
use bb_onnx::shared::operators;
use smallvec::smallvec;

operators! {
    "com.microsoft" {
        PagedAttention => Primitives(paged_attention), infer: By(paged_attention_types), becomes: LlmOp::RaggedAttention;
    }
}

/// The indices of the operands.
const CACHES: [usize; 2] = [3, 4];
const STARTS: usize = 5;
const PASTS: usize = 6;
const TABLE: usize = 7;
const ANGLES: [usize; 2] = [8, 9];
/// The scales of cached integer keys and values, one per element and head: `[blocks, size, heads]`.
const SCALES: [usize; 2] = [17, 18];

/// Attributes that are supported only with their defaults.
const INT_DEFAULTS: [(&str, i64); 3] = [("is_causal", 1), ("rotary_offset", 0), ("v_head_size", 0)];
const TEXT_DEFAULTS: [(&str, &str); 5] = [
    ("k_cache_dtype", ""),
    ("k_quant_type", "NONE"),
    ("kv_cache_layout", "SEPARATE"),
    ("v_cache_dtype", ""),
    ("v_quant_type", "NONE"),
];

/// Infers the types of `PagedAttention`: the result has the width of the queries, and the caches keep their shapes.
fn paged_attention_types(at: NodeFacts<'_>) -> Option<Types> {
    let (heads, shared) = (at.int("num_heads", 0)?, at.int("kv_num_heads", 0)?);
    if heads < 1 || shared < 1 {
        return None;
    }
    let shape = || {
        let [tokens, width] = at.dims(0)? else { return None };
        if at.has(1) {
            return Some(vec![tokens.clone(), width.clone()]);
        }
        let all = heads.checked_add(shared.checked_mul(2)?)?;
        Some(vec![tokens.clone(), rule::scaled(&rule::divided(width, all), heads)])
    };
    let [keys, values] = CACHES;
    Some(vec![rule::tensor(at.dtype(0), shape()), at.ty(keys).clone(), at.ty(values).clone()])
}

/// `PagedAttention`. With integer caches, new keys and values are used unrounded. ONNX Runtime's `k_quant_type` of `PER_TOKEN`, which
/// would round them, is refused.
pub(crate) fn paged_attention(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let known = [
        "num_heads",
        "kv_num_heads",
        "scale",
        "softcap",
        "local_window_size",
        "do_rotary",
        "rotary_interleaved",
        // Ignored, because it only affects normalization with weights, which is refused.
        "qk_norm_epsilon",
    ];
    only(
        call,
        &[&known[..], &INT_DEFAULTS.map(|(name, _)| name), &TEXT_DEFAULTS.map(|(name, _)| name)].concat(),
    )?;
    INT_DEFAULTS.iter().try_for_each(|&(name, default)| only_int(call, name, default))?;
    TEXT_DEFAULTS.iter().try_for_each(|&(name, default)| only_text(call, name, default))?;
    // The operands between these are not supported: slots, sinks, normalization weights, scales of whole caches, and a bias.
    let others = (ANGLES[1] + 1..SCALES[0]).find(|&at| call.optional(at).is_some());
    if let Some(at) = others {
        return Err(call.wrong(NodePart::Operand(at), "is not served").into());
    }
    none_from(call, SCALES[1] + 1)?;
    let (heads, shared) = (count(call, "num_heads")?, count(call, "kv_num_heads")?);
    let [q, k, v] = projections(on, call, heads, shared)?;
    let [past_k, past_v] = CACHES.map(|at| call.input(at));
    let (past_k, past_v) = (past_k?, past_v?);
    let [starts, pasts, table] = [STARTS, PASTS, TABLE].map(|at| call.input(at));
    let (starts, pasts, table) = (starts?, pasts?, table?);
    for (at, x, rank) in
        [(CACHES[0], past_k, 4), (CACHES[1], past_v, 4), (TABLE, table, 2), (PASTS, pasts, 1)]
    {
        if x.rank() != rank {
            let problem = format!("has rank {}, expected {rank}", x.rank());
            return Err(call.wrong(NodePart::Operand(at), problem).into());
        }
    }
    let [k_scale, v_scale] = SCALES.map(|at| call.optional(at));
    if k_scale.is_some() || v_scale.is_some() {
        // Updated integer caches are not supported: new values would have to be rounded, and the operator has no results for their
        // scales.
        no_results_from(call, 1)?;
    }
    let (rotates, writes) = (call.flag("do_rotary", false)?, call.wants(1) || call.wants(2));
    let numbers = if rotates || writes {
        let room = on.extent(table, 1).times(&on.extent(past_k, 1));
        Some(sequences(on, [starts, pasts], &on.extent(&q, 0), &room)?)
    } else {
        None
    };
    let (q, k) = match &numbers {
        Some(of) if rotates => (rotated(on, call, &q, of)?, rotated(on, call, &k, of)?),
        _ => (q, k),
    };
    let window = call.int_or("local_window_size", -1)?;
    let options = RaggedAttentionOptions {
        // The window includes the token itself.
        left: (window > 0).then(|| window - 1),
        scale: Some(call.float_or("scale", 0.0)?).filter(|&scale| scale != 0.0),
        softcap: call.float_or("softcap", 0.0)?,
    };
    let y =
        on.ragged_attention(&q, &k, &v, past_k, past_v, starts, pasts, table, k_scale, v_scale, options)?;
    let width = on.extent(&y, 1).times(&on.extent(&y, 2));
    let y = on.reshape_to(&y, &[on.extent(&y, 0), width])?;
    let written = |cache: &TracedTensor, new: &TracedTensor| match &numbers {
        Some(of) if writes => Ok(Some(written(on, cache, new, table, of)?)),
        _ => Ok::<_, TraceStop>(None),
    };
    Ok(smallvec![Some(y), written(past_k, &k)?, written(past_v, &v)?])
}

/// Returns queries, keys and values of the new tokens split into heads, `[tokens, heads, size]`. They may be packed into one operand.
fn projections(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    heads: usize,
    shared: usize,
) -> Result<[TracedTensor; 3], TraceStop> {
    let split = |at: usize, x: &TracedTensor, heads: usize| {
        let (tokens, width) = (on.extent(x, 0), on.extent(x, 1));
        let heads = Extent::from(heads);
        let size = width.floor_div(&heads);
        if x.rank() != 2 || !size.times(&heads).equals(&width) {
            let problem = format!("has the shape {:?}, expected [tokens, heads * size]", x.shape());
            return Err(call.wrong(NodePart::Operand(at), problem).into());
        }
        on.reshape_to(x, &[tokens, heads, size])
    };
    let query = call.input(0)?;
    if let (Some(k), Some(v)) = (call.optional(1), call.optional(2)) {
        return Ok([split(0, query, heads)?, split(1, k, shared)?, split(2, v, shared)?]);
    }
    let all = split(0, query, heads + 2 * shared)?;
    let (h, g) = (heads as i64, shared as i64);
    let part = |from: i64, to: i64| on.slice(&all, &[from], &[to], &[1], &[]);
    Ok([part(0, h)?, part(h, h + g)?, part(h + g, h + 2 * g)?])
}

/// Rotates queries or keys by the angles of their positions. The cosines and sines of the angles are in tables.
fn rotated(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    x: &TracedTensor,
    of: &Sequences,
) -> Result<TracedTensor, TraceStop> {
    let [cos, sin] = ANGLES.map(|at| call.input(at));
    let chosen = |table: &TracedTensor| on.unsqueeze(&on.gather(table, &of.places, 0)?, &[1]);
    let (cos, sin) = (chosen(cos?)?, chosen(sin?)?);
    let turning = cos.shape().last().map_or(0, |&half| 2 * half);
    let size = x.shape().last().copied().unwrap_or(0);
    let dim = (turning < size).then_some(turning as i64);
    on.rotate(x, &cos, &sin, RotateOptions { dim, interleaved: call.flag("rotary_interleaved", false)? })
}

/// Writes new keys or values, `[tokens, heads, size]`, into the blocks of their sequences.
fn written(
    on: &Tracer,
    cache: &TracedTensor,
    new: &TracedTensor,
    table: &TracedTensor,
    of: &Sequences,
) -> Result<TracedTensor, TraceStop> {
    let extents = on.extents(cache);
    let (size, all) = (on.extent(cache, 1), on.extent(cache, 0).times(&on.extent(cache, 1)));
    let rows: Vec<Extent> = std::iter::once(all).chain(extents.iter().skip(2).cloned()).collect();
    let size = on.ints_of(&[], &[size])?;
    let block = on.div(&of.places, &size)?;
    let within = on.sub(&of.places, &on.mul(&block, &size)?)?;
    let entry = on.concat(&[&on.unsqueeze(&of.of, &[1])?, &on.unsqueeze(&block, &[1])?], 1)?;
    let block = math::to(on, &on.gather_nd(table, &entry, 0)?, DataType::I64)?;
    let place = on.unsqueeze(&on.add(&on.mul(&block, &size)?, &within)?, &[1])?;
    let flat = on.reshape_to(cache, &rows)?;
    let flat = on.scatter_nd(&flat, &place, new, ScatterReduction::None)?;
    on.reshape_to(&flat, &extents)
}
