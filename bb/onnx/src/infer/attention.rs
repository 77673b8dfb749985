//! Rules of attention, its caches and the convolution that goes before it, as ONNX and ONNX Runtime have them.

use bb_ir::DataType;
use bb_ir::graph::{Dim, ValueType};
use bb_ir::infer::Extent;
use bb_ir::infer::rule::{At, Types, axis, tensor};
use bb_ir::infer::rule::{divided, extent, product, scaled, sum, told};

/// An operand by heads: `[batch, heads, length, size]`.
type Heads = [Dim; 4];

/// Reads `[batch, length, heads * size]`, or heads as they are.
fn heads(x: &[Dim], count: Option<i64>) -> Option<Heads> {
    match x {
        [batch, heads, length, size] => Some([batch.clone(), heads.clone(), length.clone(), size.clone()]),
        [batch, length, width] => {
            let (heads, size) = match count.filter(|n| *n > 0) {
                Some(count) => (extent(count), divided(width, count)),
                None => (Dim::Unknown, Dim::Unknown),
            };
            Some([batch.clone(), heads, length.clone(), size])
        }
        _ => None,
    }
}

/// What is new after what the operand `cache` holds already, if it is given.
fn joined(at: At<'_>, new: Option<&Heads>, cache: usize) -> Option<Vec<Dim>> {
    let [batch, heads, length, size] = new?;
    let total = if at.has(cache) { sum(at.dims(cache)?.get(2)?, length) } else { length.clone() };
    Some(vec![batch.clone(), heads.clone(), total, size.clone()])
}

/// `Attention` of ONNX: the result, keys and values with those that were cached, and the products.
pub(crate) fn attention(at: At<'_>) -> Option<Types> {
    let count = |name| at.int(name, 0);
    let by_heads = |input, name| heads(at.dims(input)?, count(name));
    let (q, k, v) = (by_heads(0, "q_num_heads"), by_heads(1, "kv_num_heads"), by_heads(2, "kv_num_heads"));
    let (keys, values) = (joined(at, k.as_ref(), 4), joined(at, v.as_ref(), 5));
    let y = match (&q, &v, at.dims(0).map(<[Dim]>::len)) {
        (Some([batch, heads, length, _]), Some([.., size]), Some(4)) => {
            Some(vec![batch.clone(), heads.clone(), length.clone(), size.clone()])
        }
        (Some([batch, heads, length, _]), Some([.., size]), Some(3)) => {
            Some(vec![batch.clone(), length.clone(), product(&[heads.clone(), size.clone()])])
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
    Some(vec![tensor(dtype, y), tensor(dtype, keys), tensor(at.dtype(2), values), tensor(dtype, products)])
}

/// `FlexAttention`: as long as the queries, as wide as the values.
pub(crate) fn flex(at: At<'_>) -> Option<Types> {
    let shape = || {
        let ([batch, heads, length, _], [.., size]) = (at.dims(0)?, at.dims(2)?) else { return None };
        Some(vec![batch.clone(), heads.clone(), length.clone(), size.clone()])
    };
    at.one(at.dtype(2), shape())
}

/// `LinearAttention`: a step for each position, and the state after the last.
pub(crate) fn linear(at: At<'_>) -> Option<Types> {
    let (queries, shared) = (at.int("q_num_heads", 0)?, at.int("kv_num_heads", 0)?);
    if queries < 1 || shared < 1 {
        return None;
    }
    let value = at.dims(2).and_then(<[Dim]>::last).map_or(Dim::Unknown, |width| divided(width, shared));
    let y = || {
        let [batch, steps, _] = at.dims(0)? else { return None };
        Some(vec![batch.clone(), steps.clone(), scaled(&value, queries)])
    };
    let state = || {
        let [batch, _, width] = at.dims(0)? else { return None };
        windowed(at, vec![batch.clone(), extent(shared), divided(width, queries), value.clone()])
    };
    let kept = if at.has(3) { at.dtype(3) } else { at.dtype(0) };
    Some(vec![tensor(at.dtype(0), y()), tensor(kept, state())])
}

/// `CausalConvWithState`: as long as the operand, and as much of its end as the next call needs.
pub(crate) fn causal_conv(at: At<'_>) -> Option<Types> {
    let state = || {
        let ([batch, channels, _], [_, _, width]) = (at.dims(0)?, at.dims(1)?) else { return None };
        Some(vec![batch.clone(), channels.clone(), bb_ir::infer::rule::shifted(width, -1)])
    };
    Some(vec![at.ty(0).clone(), tensor(at.dtype(0), state())])
}

/// `VarlenCausalConvWithState`: like the operand and the states, and of each sequence some tokens.
pub(crate) fn varlen_causal_conv(at: At<'_>) -> Option<Types> {
    let updates = || {
        let ([_, channels], [batch, _, _]) = (at.dims(0)?, at.dims(4)?) else { return None };
        Some(vec![batch.clone(), extent(at.int("state_update_capacity", 0)?), channels.clone()])
    };
    Some(vec![at.ty(0).clone(), at.ty(4).clone(), tensor(at.dtype(0), updates())])
}

/// The extents of several states, if the node asks for more than the last.
fn windowed(at: At<'_>, mut state: Vec<Dim>) -> Option<Vec<Dim>> {
    let window = at.int("state_window", 0)?;
    if window > 0 {
        state.insert(0, extent(window));
    }
    Some(state)
}

/// `CausalConvWithState` of ONNX Runtime, whose channels may be last.
pub(crate) fn causal_conv_of_runtime(at: At<'_>) -> Option<Types> {
    let last = at.int("channels_last", 0)? != 0;
    let state = || {
        let (x, [_, _, width]) = (at.dims(0)?, at.dims(1)?) else { return None };
        let kept = scaled(&bb_ir::infer::rule::shifted(width, -1), at.int("dilation", 1)?);
        let mut state = x.to_vec();
        *state.get_mut(if last { 1 } else { 2 })? = kept;
        windowed(at, state)
    };
    Some(vec![at.ty(0).clone(), tensor(at.dtype(0), state())])
}

/// `WordConvEmbedding`: a vector for each word.
pub(crate) fn words(at: At<'_>) -> Option<Types> {
    let shape = || Some(vec![at.dims(0)?.first()?.clone(), at.dims(1)?.first()?.clone()]);
    at.one(at.dtype(1), shape())
}

/// `MoEGroupRouter`: a row for each token, a column for each expert.
pub(crate) fn routes(at: At<'_>) -> Option<Types> {
    let shape = || {
        let (rows, experts) = (at.dims(0)?.split_last()?.1, at.dims(1)?.first()?);
        Some(vec![product(rows), experts.clone()])
    };
    let full = tensor(Some(DataType::F32), shape());
    Some(vec![tensor(at.dtype(0), shape()), full.clone(), full])
}

/// `NGramHashMapping`: hashes by size and head of each token, and the last tokens.
pub(crate) fn ngram_hashes(at: At<'_>) -> Option<Types> {
    let (history, heads) = (at.int("max_ngram_size", 0)?.checked_sub(1)?, at.int("n_head_per_ngram", 0)?);
    let shape = |last: Dim, length: bool| {
        let [batch, steps] = at.dims(0)? else { return None };
        Some(if length { vec![batch.clone(), steps.clone(), last] } else { vec![batch.clone(), last] })
    };
    let width = extent(history.checked_mul(heads)?);
    Some(vec![tensor(at.dtype(0), shape(width, true)), tensor(at.dtype(0), shape(extent(history), false))])
}

/// `NGramRepeatBlock`: like the scores, which are operand 1.
pub(crate) fn scores(at: At<'_>) -> Option<Types> {
    Some(vec![at.ty(1).clone()])
}

/// `LinearAttentionGate`: two results like the operands of which they are made.
pub(crate) fn gates(at: At<'_>) -> Option<Types> {
    Some(vec![at.ty(0).clone(), at.ty(3).clone()])
}

/// `EngramGate`: two results like the keys.
pub(crate) fn engram(at: At<'_>) -> Option<Types> {
    Some(vec![at.ty(0).clone(), at.ty(0).clone()])
}

/// `HyperConnectionPreMix`: one stream of several.
pub(crate) fn pre_mix(at: At<'_>) -> Option<Types> {
    let branches = at.int("num_branches", 0)?;
    let shape = |x: &[Dim]| match x {
        [before @ .., _, width] if branches == 0 => Some([before, std::slice::from_ref(width)].concat()),
        [before @ .., all] if branches > 0 => Some([before, &[divided(all, branches)]].concat()),
        _ => None,
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// `Attention` and `QAttention` of ONNX Runtime, whose projections are one product.
pub(crate) fn merged(at: At<'_>) -> Option<Types> {
    let quantised = at.node.op_type == "QAttention";
    let count = at.int("num_heads", 0).filter(|n| *n > 0)?;
    let width = at.dims(1).and_then(|w| w.get(1)).cloned().unwrap_or(Dim::Unknown);
    let sizes = match at.ints("qkv_hidden_sizes") {
        Some([_, keys, values]) => [extent(*keys), extent(*values)],
        Some(_) => return None,
        None => [divided(&width, 3), divided(&width, 3)],
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
            true => sum(at.dims(past)?.get(3)?, length),
            false => length.clone(),
        };
        Some(vec![Dim::Known(2), batch.clone(), extent(count), total, divided(keys, count)])
    };
    Some(vec![tensor(dtype, y), tensor(dtype, present())])
}

/// `MultiHeadAttention` of ONNX Runtime: projections come apart, packed by heads, or from a cache.
pub(crate) fn multi_head(at: At<'_>) -> Option<Types> {
    let count = at.int("num_heads", 0).filter(|n| *n > 0)?;
    // `[batch, length, heads, parts, size]` where they are packed.
    let part = |x: &[Dim]| match x {
        [batch, length, heads, _, size] => Some([batch.clone(), heads.clone(), length.clone(), size.clone()]),
        _ => heads(x, Some(count)),
    };
    let q = at.dims(0).and_then(part);
    let k = if at.has(1) { at.dims(1).and_then(part) } else { q.clone() };
    let v = match (at.has(2), at.has(1)) {
        (true, _) => at.dims(2).and_then(part),
        (false, true) => k.clone(),
        (false, false) => q.clone(),
    };
    let (keys, values) = (joined(at, k.as_ref(), 6), joined(at, v.as_ref(), 7));
    let y = match (&q, &v) {
        (Some([batch, _, length, _]), Some([.., size])) => {
            Some(vec![batch.clone(), length.clone(), scaled(size, count)])
        }
        _ => None,
    };
    let dtype = at.dtype(0);
    Some(vec![tensor(dtype, y), tensor(dtype, keys), tensor(dtype, values)])
}

/// `DecoderMaskedMultiHeadAttention`: one position, and the caches with it.
pub(crate) fn masked_multi_head(at: At<'_>) -> Option<Types> {
    let count = at.int("num_heads", 0).filter(|n| *n > 0)?;
    let shared = at.int("past_present_share_buffer", 0)? != 0;
    let crosses = !at.has(5) && at.dims(1).map(<[Dim]>::len) == Some(4);
    let width = || match at.dims(0)? {
        [_, _, all] if !at.has(1) => Some(divided(all, 3)),
        [_, _, own] if crosses || !at.has(2) => Some(own.clone()),
        _ => at.dims(2)?.last().cloned(),
    };
    let y = || {
        let ([batch, length, _], width) = (at.dims(0)?, width()?) else { return None };
        Some(vec![batch.clone(), length.clone(), width])
    };
    let cache = |input: usize| {
        let [batch, heads, room, size] = at.dims(input)? else { return None };
        let room = if shared { room.clone() } else { sum(room, &Dim::Known(1)) };
        Some(vec![batch.clone(), heads.clone(), room, size.clone()])
    };
    let products = || {
        let [batch, length, _] = at.dims(0)? else { return None };
        let total = if crosses { at.dims(1)?.get(2)?.clone() } else { Dim::Unknown };
        Some(vec![batch.clone(), extent(count), length.clone(), total])
    };
    let dtype = at.dtype(0);
    Some(vec![
        tensor(dtype, y()),
        tensor(at.dtype(5), cache(5)),
        tensor(at.dtype(6), cache(6)),
        tensor(dtype, products()),
    ])
}

/// `DecoderMaskedSelfAttention`: one position, and the cache with it.
pub(crate) fn masked_self(at: At<'_>) -> Option<Types> {
    let shared = at.int("past_present_share_buffer", 0)? != 0;
    let y = || {
        let ([batch, length, _], [_, width]) = (at.dims(0)?, at.dims(1)?) else { return None };
        Some(vec![batch.clone(), length.clone(), divided(width, 3)])
    };
    let present = || {
        let [two, batch, heads, room, size] = at.dims(4)? else { return None };
        let room = if shared { room.clone() } else { sum(room, &Dim::Known(1)) };
        Some(vec![two.clone(), batch.clone(), heads.clone(), room, size.clone()])
    };
    let dtype = at.dtype(0);
    Some(vec![tensor(dtype, y()), tensor(dtype, present())])
}

/// `GroupQueryAttention` of ONNX Runtime: heads share keys; the cache has room for what comes.
pub(crate) fn group_query(at: At<'_>) -> Option<Types> {
    let (queries, shared) = (at.int("num_heads", 0)?, at.int("kv_num_heads", 0)?);
    if queries < 1 || shared < 1 {
        return None;
    }
    let packed = !at.has(1);
    let size = |input: usize, count: i64| {
        let [_, _, width] = at.dims(input)? else { return None };
        Some(divided(width, count))
    };
    let all = queries.checked_add(shared.checked_mul(2)?)?;
    let keys = if packed { size(0, all) } else { size(1, shared) };
    let values = if packed { size(0, all) } else { size(2, shared) };
    let [batch, length, _] = at.dims(0)? else { return None };
    let y = values.as_ref().map(|size| vec![batch.clone(), length.clone(), scaled(size, queries)]);
    let total = if at.has(3) {
        let room = at.dims(3).and_then(|past| past.get(2)).cloned().unwrap_or(Dim::Unknown);
        told(Extent::max(&room, &at.extent(6)))
    } else {
        length.clone()
    };
    let cache = |size: Option<Dim>| Some(vec![batch.clone(), extent(shared), total.clone(), size?]);
    let dtype = at.dtype(0);
    Some(vec![tensor(dtype, y), tensor(dtype, cache(keys)), tensor(dtype, cache(values))])
}

/// `SparseAttention` of ONNX Runtime: the caches keep their extents.
pub(crate) fn sparse(at: At<'_>) -> Option<Types> {
    let y = group_query(at).and_then(|types| types.into_iter().next());
    Some(vec![y.unwrap_or_else(|| tensor(at.dtype(0), None)), at.ty(3).clone(), at.ty(4).clone()])
}

/// Normalisation over the dimensions from an axis on: what is normal, the mean, and one over the deviation.
pub(crate) fn normalization(at: At<'_>) -> Option<Types> {
    let moments = |x: &[Dim]| {
        let from = axis(at.int("axis", -1)?, x.len())?;
        let one = |(i, d): (usize, &Dim)| if i < from { d.clone() } else { Dim::Known(1) };
        Some(x.iter().enumerate().map(one).collect::<Vec<_>>())
    };
    let moments = tensor(at.type_attribute("stash_type", Some(DataType::F32)), at.dims(0).and_then(moments));
    Some(vec![at.ty(0).clone(), moments.clone(), moments])
}

/// Normalisation by the mean square: what is normal, and one over its root.
pub(crate) fn simplified_normalization(at: At<'_>) -> Option<Types> {
    let [_, moments, _] = <[_; 3]>::try_from(normalization(at)?).ok()?;
    let wide = if at.dtype(0) == Some(DataType::F64) { DataType::F64 } else { DataType::F32 };
    let moments = match moments {
        ValueType::Tensor { shape, .. } => tensor(Some(wide), shape),
        other => other,
    };
    Some(vec![tensor(at.dtype(1), at.same()), moments])
}

/// Normalisation of a sum over the last dimension: what is normal, the mean, one over the deviation, and the sum.
pub(crate) fn skip_normalization(at: At<'_>) -> Option<Types> {
    let shape = at.broadcast_of(&[0, 1]);
    let moments = shape.clone().and_then(|mut dims| {
        *dims.last_mut()? = Dim::Known(1);
        Some(dims)
    });
    let (sum, moments) = (tensor(at.dtype(0), shape), tensor(Some(DataType::F32), moments));
    Some(vec![sum.clone(), moments.clone(), moments, sum])
}

/// `EmbedLayerNormalization`: a vector for each word, how many words of each sequence count, and the sum.
pub(crate) fn embedding(at: At<'_>) -> Option<Types> {
    let shape = || {
        let ([batch, length], [_, width]) = (at.dims(0)?, at.dims(2)?) else { return None };
        Some(vec![batch.clone(), length.clone(), width.clone()])
    };
    let numbers = if at.node.op_type == "QEmbedLayerNormalization" { at.dtype(8) } else { at.dtype(2) };
    let y = tensor(numbers, shape());
    let counts = at.dims(0).and_then(|ids| Some(vec![ids.first()?.clone()]));
    let lengths = tensor(if at.has(7) { at.dtype(7) } else { at.dtype(0) }, counts);
    Some(vec![y.clone(), lengths, y])
}
