//! `SparseAttention`: attention restricted to blocks of the sequence that a layout selects for each head.
//!
//! Source: the schema of ONNX Runtime 1.32. A layout is a compressed sparse row (CSR) matrix with one row for each block of
//! queries.

use super::attention::join_heads;
use super::group_query::{Extents, cached, count, group_query_attention_types, projections, rotated};
use super::{none_from, only};
use bb_core::error::NodePart;
use bb_core::ext::llm::excluding;
use bb_core::ext::{AttentionOptions, counted, math};
use bb_core::operator::{Call, OpResult};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::infer::rule::{self, NodeFacts, Types};
use bb_ir::{TensorData, memory};
use bb_onnx::shared::operators;
use smallvec::smallvec;

operators! {
    "com.microsoft" {
        SparseAttention => Primitives(sparse_attention), infer: By(sparse_attention_types);
    }
}

const OP: &str = "SparseAttention";

/// The indices of the operands.
const STARTS: usize = 5;
const COLUMNS: usize = 6;
const TOTAL: usize = 7;
const TOTALS: usize = 8;

/// Infers the types of ONNX Runtime's `SparseAttention`. The caches keep their shapes.
fn sparse_attention_types(at: NodeFacts<'_>) -> Option<Types> {
    let y = group_query_attention_types(at).and_then(|types| types.into_iter().next());
    Some(vec![y.unwrap_or_else(|| rule::tensor(at.dtype(0), None)), at.ty(3).clone(), at.ty(4).clone()])
}

/// `SparseAttention`.
pub(crate) fn sparse_attention(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(
        call,
        &["num_heads", "kv_num_heads", "sparse_block_size", "scale", "do_rotary", "rotary_interleaved"],
    )?;
    none_from(call, 11)?;
    let (heads, shared) = (count(call, "num_heads")?, count(call, "kv_num_heads")?);
    let ([q, k, v], [batch, new, size]) = projections(on, call, heads, shared)?;
    let (old_k, old_v) = (call.input(3)?, call.input(4)?);
    let room = old_k.shape().get(2).copied().unwrap_or(0);
    let totals = on.ints(call.input(TOTAL)?)?;
    let total = totals.first().and_then(|&t| usize::try_from(t).ok()).filter(|t| (new..=room).contains(t));
    let total = total.ok_or_else(|| {
        let problem = format!("is {totals:?}; {new} positions are new, and the cache has {room}");
        call.wrong(NodePart::Operand(TOTAL), problem)
    })?;
    let e = Extents { batch, new, room, total };
    // In the first call, shorter sequences are padded at their ends, so all new elements begin at 0.
    let before = if total == new || batch == 1 {
        on.host(&[batch, 1], &vec![(total - new) as i64; batch])?
    } else {
        let each = on.reshape(&math::to(on, call.input(TOTALS)?, DataType::I64)?, &[batch, 1])?;
        on.sub(&each, &on.host(&[], &[new as i64])?)?
    };
    let (q, k) = if call.flag("do_rotary", false)? {
        let tables = [call.input(9)?, call.input(10)?];
        let turned = |x: &TracedTensor| rotated(on, call, tables, None, x, &before, size);
        (turned(&q)?, turned(&k)?)
    } else {
        (q, k)
    };
    let k = cached(on, call, TOTAL, old_k, &k, e, &before)?;
    let v = cached(on, call, TOTAL, old_v, &v, e, &before)?;
    let reached = reached(on, call, e, heads, &before)?;
    let bias = excluding(on, &reached, None, &q)?;
    let within = |x: &TracedTensor| on.slice(x, &[0], &[total as i64], &[2], &[]);
    let scale = Some(call.float_or("scale", 0.0)?).filter(|&s| s != 0.0);
    let options = AttentionOptions { scale, excludes: true, ..Default::default() };
    let y = on.attention(&q, &within(&k)?, &within(&v)?, Some(&bias), options)?;
    Ok(smallvec![Some(join_heads(on, &y)?), Some(on.identity(&k)?), Some(on.identity(&v)?)])
}

/// Returns, for each sequence, head, new element and cache element, whether the new element attends to the cache element.
fn reached(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    e: Extents,
    heads: usize,
    before: &TracedTensor,
) -> Result<TracedTensor, TraceStop> {
    let size = call.int("sparse_block_size")?;
    let block = usize::try_from(size).ok().filter(|&size| size > 0);
    let block = block
        .ok_or_else(|| call.wrong("sparse_block_size", format!("is {size}, expected a positive number")))?;
    let (layouts, table) = layouts(on, call, e.total.div_ceil(block), block, e.total)?;
    if layouts == 0 || !heads.is_multiple_of(layouts) {
        let problem = format!("has {layouts} layouts, which do not fit {heads} heads");
        return Err(call.wrong(NodePart::Operand(STARTS), problem).into());
    }
    let own = on.add(before, &counted(on, &[e.new], 1)?)?;
    // Gather the layout row of each new element, `[layouts, batch, new, total]`. Then choose a layout for each head; heads use
    // the layouts in turn.
    let rows = on.div(&own, &on.host(&[], &[block as i64])?)?;
    let table = on.gather(&table, &rows, 1)?;
    let order = on.host(&[heads], &(0..heads).map(|head| (head % layouts) as i64).collect::<Vec<_>>())?;
    let chosen = on.transpose(&on.gather(&table, &order, 0)?, &[1, 0, 2, 3])?;
    let place = counted(on, &[e.total], 1)?;
    on.and(&chosen, &on.less_or_equal(&place, &on.unsqueeze(&own, &[1, 3])?)?)
}

/// Returns the number of layouts, and for each layout, row of blocks and element, whether the row contains the element's block.
fn layouts(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    blocks: usize,
    block: usize,
    total: usize,
) -> Result<(usize, TracedTensor), TraceStop> {
    let (starts, columns) = (call.input(STARTS)?, call.input(COLUMNS)?);
    let (&[layouts, ends], &[same, entries]) = (starts.shape(), columns.shape()) else {
        return Err(call.wrong(NodePart::Operand(STARTS), "or the columns have another rank than 2").into());
    };
    if same != layouts || ends <= blocks {
        let problem = format!(
            "has {layouts} layouts of {ends} entries, and there are {same} layouts of columns; expected more entries than {blocks} blocks"
        );
        return Err(call.wrong(NodePart::Operand(STARTS), problem).into());
    }
    let (starts, columns) = (on.ints(starts)?, on.ints(columns)?);
    let count = layouts.checked_mul(blocks).and_then(|rows| rows.checked_mul(total));
    let count = count.ok_or_else(|| call.wrong(NodePart::Operand(STARTS), "has too many layouts"))?;
    let mut table = memory::filled(OP, false, count).map_err(Error::from)?;
    let mut rows = table.chunks_mut(total.max(1));
    let of_layouts = starts.chunks(ends.max(1)).zip(columns.chunks(entries.max(1)));
    for (starts, columns) in of_layouts {
        for row in starts.windows(2).take(blocks) {
            let place = |at: usize| row.get(at).and_then(|&place| usize::try_from(place).ok());
            let own = place(0).zip(place(1)).and_then(|(from, to)| columns.get(from..to));
            let own = own.ok_or_else(|| {
                let problem = format!("has a row from {row:?}, and there are {entries} columns");
                call.wrong(NodePart::Operand(STARTS), problem)
            })?;
            let Some(marks) = rows.next() else { break };
            for column in own.iter().filter_map(|&column| usize::try_from(column).ok()) {
                marks.iter_mut().skip(column.saturating_mul(block)).take(block).for_each(|mark| *mark = true);
            }
        }
    }
    let table = TensorData::new(&[layouts, blocks, total], &table).map_err(Error::from)?;
    Ok((layouts, on.constant(&table)?))
}
