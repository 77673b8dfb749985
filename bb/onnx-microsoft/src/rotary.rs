//! `MRotaryEmbedding`: rotary embeddings by three position ids per token, as in vision-language models of the Qwen
//! family.

use super::attention::{rotated, to_rotate};
use super::only;
use bb_core::error::NodePart;
use bb_core::operator::{Call, OpResult};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{Error, Tensor};
use bb_onnx::shared::operators;

operators! {
    "com.microsoft" {
        MRotaryEmbedding => Primitives(mrotary_embedding), infer: Same, halves: Once;
    }
}

/// Returns, for each pair of elements of a head, which of the three position ids determines its angle.
fn positions<T>(call: &Call<'_, T>, pairs: usize) -> Result<Vec<usize>, Error> {
    let sections = call.ints("mrope_section")?.unwrap_or_default();
    let sizes: Vec<usize> = sections.iter().filter_map(|&n| usize::try_from(n).ok()).collect();
    let sum = sizes.iter().try_fold(0usize, |sum, &n| sum.checked_add(n));
    let (&[first, second, third], true) = (sizes.as_slice(), sections.len() == 3 && sum == Some(pairs))
    else {
        let problem = format!("is {sections:?}, expected three numbers whose sum is {pairs}");
        return Err(call.wrong("mrope_section", problem));
    };
    match call.int_or("mrope_layout", 0)? {
        0 => Ok((0..pairs).map(|at| usize::from(at >= first) + usize::from(at >= first + second)).collect()),
        1 => Ok((0..pairs)
            .map(|at| match at % 3 {
                1 if at < second.saturating_mul(3) => 1,
                2 if at < third.saturating_mul(3) => 2,
                _ => 0,
            })
            .collect()),
        other => Err(call.wrong("mrope_layout", format!("is {other}, expected 0 or 1"))),
    }
}

/// `MRotaryEmbedding`.
pub(crate) fn mrotary_embedding(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(
        call,
        &[
            "interleaved",
            "is_packed_batching",
            "mrope_layout",
            "mrope_section",
            "num_heads",
            "rotary_embedding_dim",
            "scale",
        ],
    )?;
    if call.flag("is_packed_batching", false)? {
        return Err(call.wrong("is_packed_batching", "is not served").into());
    }
    let (ids, cos, sin) = (call.input(1)?, call.input(2)?, call.input(3)?);
    if ids.rank() != 3 || !on.extent(ids, 0).is(3) {
        let problem = format!("has the shape {:?}, expected [3, batch, length]", ids.shape());
        return Err(call.wrong(NodePart::Operand(1), problem).into());
    }
    let pairs = cos.shape().last().copied().unwrap_or(0);
    let of = positions(call, pairs)?;
    let by_heads = to_rotate(on, call, cos)?;
    // Gather the table rows of all three position ids. Then choose, for each column, the row of its position id.
    let chosen = |table: &TracedTensor| -> Result<TracedTensor, TraceStop> {
        let rows = on.gather(table, ids, 0)?;
        let part = |at: i64| on.squeeze(&on.slice(&rows, &[at], &[at + 1], &[0], &[])?, &[0]);
        let mut y = part(0)?;
        for position in [1, 2] {
            let own: Vec<bool> = of.iter().map(|&of| of == position).collect();
            if own.contains(&true) {
                let own = bb_ir::TensorData::bools(&[pairs], &own).map_err(Error::from)?;
                y = on.r#where(&on.constant(&own)?, &part(position as i64)?, &y)?;
            }
        }
        Ok(y)
    };
    rotated(on, call, &by_heads, [&chosen(cos)?, &chosen(sin)?])
}
