//! Attention for new positions of several sequences, whose earlier positions (pasts) are stored in blocks.

use super::cached::{excluding, reach};
use crate::ext::{AttentionOptions, Extent, RaggedAttentionOptions, fail, math, types};
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{DataType, Error, Tensor};

const OP: &str = "ragged_attention";

/// The assignment of new positions to sequences in [`Llm::ragged_attention`](crate::ext::Llm::ragged_attention).
pub struct Sequences {
    /// The index of the sequence of each new position: `[n]`.
    pub of: TracedTensor,
    /// The index of each new position in its sequence: `[n]`.
    pub places: TracedTensor,
    /// The number of past positions of each sequence: `[b]`.
    pub pasts: TracedTensor,
}

/// The body of [`Llm::ragged_attention`](crate::ext::Llm::ragged_attention).
///
/// It gathers the pasts of all sequences, computes the scores for all of them, and masks the scores for other
/// sequences.
#[expect(clippy::too_many_arguments, reason = "the operands of the operation")]
pub fn ragged_attention(
    on: &Tracer,
    q: &TracedTensor,
    k: &TracedTensor,
    v: &TracedTensor,
    past_k: &TracedTensor,
    past_v: &TracedTensor,
    starts: &TracedTensor,
    pasts: &TracedTensor,
    table: &TracedTensor,
    past_k_scale: Option<&TracedTensor>,
    past_v_scale: Option<&TracedTensor>,
    RaggedAttentionOptions { left, scale, softcap }: RaggedAttentionOptions,
) -> Result<TracedTensor, TraceStop> {
    let left = reach(OP, true, left)?.left;
    for x in [starts, pasts, table] {
        types::take(OP, x, types::INDICES)?;
    }
    for x in [q, k] {
        types::take(OP, x, types::FLOATS)?;
    }
    types::alike(v, k)?;
    let scales = scales([past_k_scale, past_v_scale])?;
    for x in [past_k, past_v] {
        match scales {
            Some(_) => types::take(OP, x, &[DataType::I8])?,
            None => types::alike(x, k)?,
        }
    }
    let ranks = [("q", q, 3), ("k", k, 3), ("v", v, 3), ("past_k", past_k, 4), ("past_v", past_v, 4)];
    let [k_scale, v_scale] = scales.map_or([None, None], |scales| scales.map(Some));
    let ranked_scales = [("past_k_scale", k_scale), ("past_v_scale", v_scale)];
    let scale_ranks = ranked_scales.into_iter().filter_map(|(name, x)| Some((name, x?, 3)));
    let numbers = [("starts", starts, 1), ("pasts", pasts, 1), ("table", table, 2)];
    for (name, x, rank) in ranks.into_iter().chain(numbers).chain(scale_ranks) {
        types::ranked(OP, (name, x), rank)?;
    }
    let shapes = |a: &TracedTensor, b: &TracedTensor| bb_ir::Error::Shapes {
        op: OP,
        left: a.shape().into(),
        right: b.shape().into(),
    };
    let alike = |a: &TracedTensor, b: &TracedTensor, axes: &[(usize, usize)]| {
        axes.iter().all(|&(i, j)| on.extent(a, i).equals(&on.extent(b, j)))
    };
    for (a, b, axes) in [
        (k, q, &[(0, 0), (2, 2)][..]),
        (v, k, &[(0, 0), (1, 1)]),
        (past_k, k, &[(2, 1), (3, 2)]),
        (past_v, v, &[(2, 1), (3, 2)]),
        (past_v, past_k, &[(0, 0), (1, 1)]),
        (table, pasts, &[(0, 0)]),
    ] {
        if !alike(a, b, axes) {
            return fail(shapes(a, b));
        }
    }
    for scale in scales.into_iter().flatten() {
        if !alike(scale, past_k, &[(0, 0), (1, 1), (2, 2)]) {
            return fail(shapes(scale, past_k));
        }
    }
    let one = Extent::from(1i64);
    if !on.extent(starts, 0).equals(&on.extent(pasts, 0).plus(&one)) {
        return fail(shapes(starts, pasts));
    }
    let room = on.extent(table, 1).times(&on.extent(past_k, 1));
    let sequences = sequences(on, [starts, pasts], &on.extent(q, 0), &room)?;
    let (mut keys, mut values) = (math::to(on, k, q.dtype())?, math::to(on, v, q.dtype())?);
    let mut allowed = among(on, &sequences, left)?;
    if !(room.is(0) || on.extent(past_k, 0).is(0) || on.extent(pasts, 0).is(0)) {
        let before = Past { blocks: [past_k, past_v], scales: [k_scale, v_scale], table, room: &room };
        let (reached, [past_k, past_v]) = before.found(on, &sequences, left)?;
        let (past_k, past_v) = (math::to(on, &past_k, q.dtype())?, math::to(on, &past_v, q.dtype())?);
        allowed = on.concat(&[&reached, &allowed], 1)?;
        (keys, values) = (on.concat(&[&past_k, &keys], 0)?, on.concat(&[&past_v, &values], 0)?);
    }
    let bias = excluding(on, &allowed, None, q)?;
    let by_heads = |x: &TracedTensor| on.unsqueeze(&on.transpose(x, &[1, 0, 2])?, &[0]);
    let options = AttentionOptions { scale, softcap, precision: None, excludes: true };
    let y = on.attention(&by_heads(q)?, &by_heads(&keys)?, &by_heads(&values)?, Some(&bias), options)?;
    on.transpose(&on.squeeze(&y, &[0])?, &[1, 0, 2])
}

/// Returns the scales of keys and values, if there are any.
fn scales(given: [Option<&TracedTensor>; 2]) -> Result<Option<[&TracedTensor; 2]>, TraceStop> {
    match given {
        [None, None] => Ok(None),
        [Some(keys), Some(values)] => {
            types::take(OP, keys, &[DataType::F32])?;
            types::take(OP, values, &[DataType::F32])?;
            Ok(Some([keys, values]))
        }
        _ => fail(Error::Operator {
            op: OP.to_owned(),
            part: "scales".into(),
            problem: "are those of keys or of values alone, expected both".to_owned(),
        }),
    }
}

/// Finds the sequence of each of `count` new positions, and its index in the sequence. A past has at most `room`
/// positions. If starts or pasts are invalid, an out-of-range index makes the gather fail.
///
/// # Errors
///
/// The backend's own errors.
pub fn sequences(
    on: &Tracer,
    [starts, pasts]: [&TracedTensor; 2],
    count: &Extent,
    room: &Extent,
) -> Result<Sequences, TraceStop> {
    let (zero, one) = (Extent::from(0i64), Extent::from(1i64));
    let number = |n: &Extent| on.ints_of(&[], std::slice::from_ref(n));
    let (starts, pasts) = (math::to(on, starts, DataType::I64)?, math::to(on, pasts, DataType::I64)?);
    let all = on.extent(&pasts, 0);
    let firsts = on.slice_to(&starts, std::slice::from_ref(&zero), std::slice::from_ref(&all), &[0], &[])?;
    let ends = on.slice_to(&starts, std::slice::from_ref(&one), &[all.plus(&one)], &[0], &[])?;
    let index = on.iota(&zero, &one, count)?;
    let counted =
        |x: &TracedTensor, axis: i64| on.reduce_sum(&math::to(on, x, DataType::I64)?, &[axis], false);
    // The index of a position's sequence equals the number of sequences that end at or before the position.
    let of = counted(&on.less_or_equal(&on.unsqueeze(&ends, &[0])?, &on.unsqueeze(&index, &[1])?)?, 1)?;
    let nothing = number(&zero)?;
    let first = on.slice(&starts, &[0], &[1], &[0], &[])?;
    let last = on.slice_to(&starts, std::slice::from_ref(&all), &[all.plus(&one)], &[0], &[])?;
    let wrong = [
        counted(&on.not(&on.equal(&first, &nothing)?)?, 0)?,
        counted(&on.not(&on.equal(&last, &number(count)?)?)?, 0)?,
        counted(&on.less(&ends, &firsts)?, 0)?,
        counted(&on.less(&pasts, &nothing)?, 0)?,
        counted(&on.greater(&pasts, &number(room)?)?, 0)?,
    ];
    let mut wrongs = number(&zero)?;
    for wrong in &wrong {
        wrongs = on.add(&wrongs, wrong)?;
    }
    let behind = on.mul(&wrongs, &number(&all.plus(&one))?)?;
    let offsets = on.gather(&on.sub(&pasts, &firsts)?, &on.add(&of, &behind)?, 0)?;
    Ok(Sequences { places: on.add(&index, &offsets)?, of, pasts })
}

/// Returns the mask of attention among the new positions, with queries as rows and keys as columns: `[n, n]`.
fn among(
    on: &Tracer,
    Sequences { of, places, .. }: &Sequences,
    left: Option<i64>,
) -> Result<TracedTensor, TraceStop> {
    let pair = |x: &TracedTensor| Ok::<_, TraceStop>((on.unsqueeze(x, &[1])?, on.unsqueeze(x, &[0])?));
    let ((of_queries, of_keys), (queries, keys)) = (pair(of)?, pair(places)?);
    let same = on.and(&on.equal(&of_queries, &of_keys)?, &on.less_or_equal(&keys, &queries)?)?;
    match left {
        Some(left) => {
            let least = on.sub(&queries, &on.host(&[], &[left])?)?;
            on.and(&same, &on.greater_or_equal(&keys, &least)?)
        }
        None => Ok(same),
    }
}

/// The stored pasts of all sequences.
struct Past<'a> {
    /// The keys and the values: `[c, z, g, d]` each.
    blocks: [&'a TracedTensor; 2],
    /// The scales of quantized keys and values: `[c, z, g]` each.
    scales: [Option<&'a TracedTensor>; 2],
    table: &'a TracedTensor,
    /// The maximum number of past positions of a sequence, which the table's size determines.
    room: &'a Extent,
}

impl Past<'_> {
    /// Returns the mask of attention from the new positions to the pasts, `[n, b * room]`, and the keys and values of
    /// the pasts, `[b * room, g, d]` each.
    fn found(
        &self,
        on: &Tracer,
        Sequences { of, places, pasts }: &Sequences,
        left: Option<i64>,
    ) -> Result<(TracedTensor, [TracedTensor; 2]), TraceStop> {
        let (zero, one) = (Extent::from(0i64), Extent::from(1i64));
        let number = |n: &Extent| on.ints_of(&[], std::slice::from_ref(n));
        let [keys, values] = self.blocks;
        let [blocks, size] = [0, 1].map(|axis| on.extent(keys, axis));
        let batch = on.extent(pasts, 0);
        let all = batch.times(self.room);
        let nothing = number(&zero)?;
        let of_row = on.unsqueeze(pasts, &[1])?;
        let table = math::to(on, self.table, DataType::I64)?;
        let used = on.less(&on.iota(&zero, &size, &on.extent(&table, 1))?, &of_row)?;
        // A negative entry would count from the end, so it is replaced by an out-of-range index, which makes the gather
        // fail.
        let table = on.r#where(&on.less(&table, &nothing)?, &number(&blocks)?, &table)?;
        let table = on.r#where(&used, &table, &nothing)?;
        let column = on.iota(&zero, &one, self.room)?;
        let there = on.less(&column, &of_row)?;
        let filled = on.reshape_to(&there, &[all.clone(), one.clone(), one.clone()])?;
        let rows = |x: &TracedTensor| -> Result<TracedTensor, TraceStop> {
            let extents = on.extents(x);
            let rest = extents.iter().skip(2).cloned();
            let shape: Vec<Extent> = std::iter::once(all.clone()).chain(rest).collect();
            on.reshape_to(&on.gather(x, &table, 0)?, &shape)
        };
        let gathered = |x: &TracedTensor, scale: Option<&TracedTensor>| -> Result<TracedTensor, TraceStop> {
            let mut x = rows(x)?;
            if let Some(scale) = scale {
                x = on.mul(&math::to(on, &x, DataType::F32)?, &on.unsqueeze(&rows(scale)?, &[2])?)?;
            }
            // Unused positions may contain anything, also NaN, which would spread to every sum. So they are replaced by
            // zeros.
            on.r#where(&filled, &x, &on.scalar_like(&x, 0.0)?)
        };
        let [k_scale, v_scale] = self.scales;
        let found = [gathered(keys, k_scale)?, gathered(values, v_scale)?];
        let own = on.equal(&on.unsqueeze(of, &[1])?, &on.iota(&zero, &one, &batch)?)?;
        let mut reached = on.and(&on.unsqueeze(&own, &[2])?, &on.unsqueeze(&there, &[0])?)?;
        if let Some(left) = left {
            let least = on.sub(places, &on.host(&[], &[left])?)?;
            reached = on.and(&reached, &on.greater_or_equal(&column, &on.unsqueeze(&least, &[1, 2])?)?)?;
        }
        let reached = on.reshape_to(&reached, &[on.extent(of, 0), all.clone()])?;
        Ok((reached, found))
    }
}
