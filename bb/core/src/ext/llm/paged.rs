//! Attention to keys and values that are stored in blocks. A table lists the blocks of each sequence.

use super::cached::{excluding, reach};
use super::reached;
use crate::ext::{AttentionOptions, Extent, PagedAttentionOptions, fail, math, types};
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{DataType, Tensor};

const OP: &str = "paged_attention";

/// The body of [`Llm::paged_attention`](crate::ext::Llm::paged_attention).
///
/// It gathers the blocks of each sequence, and masks positions beyond the length of the sequence.
pub fn paged_attention(
    on: &Tracer,
    q: &TracedTensor,
    k: &TracedTensor,
    v: &TracedTensor,
    table: &TracedTensor,
    lengths: &TracedTensor,
    PagedAttentionOptions { causal, left, scale, softcap, precision }: PagedAttentionOptions,
) -> Result<TracedTensor, TraceStop> {
    let reach = reach(OP, causal, left)?;
    for x in [table, lengths] {
        types::take(OP, x, types::INDICES)?;
    }
    let wrong = || bb_ir::Error::Shapes { op: OP, left: q.shape().into(), right: k.shape().into() };
    let [of_q, of_k, of_v, of_table, of_lengths] = [q, k, v, table, lengths].map(|x| on.extents(x));
    let ([b, h, s, _], [n, z, g, d], [v_blocks, v_size, v_heads, e], [rows, m], [sequences]) =
        (of_q.as_slice(), of_k.as_slice(), of_v.as_slice(), of_table.as_slice(), of_lengths.as_slice())
    else {
        return fail(wrong());
    };
    let fit = v_blocks.equals(n) && v_size.equals(z) && v_heads.equals(g);
    if !fit {
        return fail(bb_ir::Error::Shapes { op: OP, left: k.shape().into(), right: v.shape().into() });
    }
    if !rows.equals(b) || !sequences.equals(b) {
        let (left, right) = (table.shape().into(), lengths.shape().into());
        return fail(bb_ir::Error::Shapes { op: OP, left, right });
    }
    let keys = m.times(z);
    if keys.is(0) || b.is(0) {
        return on.full_to(&[b, h, s, e].map(Extent::clone), 0.0, q.dtype());
    }
    let (zero, one) = (Extent::from(0i64), Extent::from(1i64));
    let number = |n: &Extent| on.ints_of(&[], std::slice::from_ref(n));
    let nothing = on.host(&[], &[0i64])?;
    let (table, lengths) = (math::to(on, table, DataType::I64)?, math::to(on, lengths, DataType::I64)?);
    let of_row = on.unsqueeze(&lengths, &[1])?;
    // Whether each table entry refers to a block that is in use: `[b, m]`.
    let filled = on.less(&on.iota(&zero, z, m)?, &of_row)?;
    let used = on.and(&filled, &on.greater_or_equal(&table, &nothing)?)?;
    let blocks = on.r#where(&used, &table, &nothing)?;
    // A sequence that is longer than its table must not be truncated silently: an out-of-range index makes
    // the gather fail.
    let beyond = on.greater(&of_row, &number(&keys)?)?;
    let blocks = on.r#where(&beyond, &number(n)?, &blocks)?;
    // Whether each position exists: `[b, 1, 1, t]`.
    let places = on.iota(&zero, &one, &keys)?;
    let of_places = on.gather(&used, &on.div(&places, &number(z)?)?, 1)?;
    let there = on.and(&on.less(&places, &of_row)?, &of_places)?;
    let there = on.unsqueeze(&there, &[1, 2])?;
    // Unused positions may contain anything, also NaN, which would spread to every sum. So they are replaced
    // by zeros.
    let column = on.transpose(&there, &[0, 1, 3, 2])?;
    let laid_out = |x: &TracedTensor, width: &Extent| -> Result<TracedTensor, TraceStop> {
        let found = on.transpose(&on.gather(x, &blocks, 0)?, &[0, 3, 1, 2, 4])?;
        let found = on.reshape_to(&found, &[b, g, &keys, width].map(Extent::clone))?;
        on.r#where(&column, &found, &on.scalar_like(x, 0.0)?)
    };
    let (k, v) = (laid_out(k, d)?, laid_out(v, e)?);
    let offset = on.unsqueeze(&on.sub(&lengths, &number(s)?)?, &[1, 2, 3])?;
    let allowed = match reached(on, [s, &keys], &offset, reach)? {
        Some(near) => on.and(&near, &there)?,
        None => there,
    };
    let options = AttentionOptions { scale, softcap, precision, excludes: true };
    on.attention(q, &k, &v, Some(&excluding(on, &allowed, None, q)?), options)
}
