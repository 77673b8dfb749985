//! `FlexAttention`: attention whose query-key products and weights are modified by subgraphs of the node.

use super::inline::inline;
use super::rows::operators;
use bb_core::error::NodePart;
use bb_core::ext::llm::split_scale;
use bb_core::ext::{counted, math};
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Tensor};
use bb_ir::infer::rule::{NodeFacts, Types};

operators! {
    "ai.onnx.preview" {
        FlexAttention => Primitives(flex_attention), infer: By(flex_attention_types), halves: Once;
    }
}

/// Infers the type of `FlexAttention`: the length of the queries, and the width of the values.
fn flex_attention_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = || {
        let ([batch, heads, length, _], [.., size]) = (at.dims(0)?, at.dims(2)?) else { return None };
        Some(vec![batch.clone(), heads.clone(), length.clone(), size.clone()])
    };
    at.one(at.dtype(2), shape())
}

/// `FlexAttention`. The softmax is computed in `softmax_precision`; for `f16` and `bf16` the default is `f32`.
pub(super) fn flex_attention(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let (q, k, v) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let (&[_, heads, _, width], &[_, shared, ..], 4) = (q.shape(), k.shape(), v.rank()) else {
        return Err(call.wrong(NodePart::other("operands"), "of rank 4 are expected").into());
    };
    let shares = if heads == shared { Some(1) } else { heads.checked_div(shared) };
    let Some(repeat) = shares.filter(|r| r * shared == heads) else {
        let problem = format!("has {shared} heads, of which {heads} are no multiple");
        return Err(call.wrong(NodePart::Operand(1), problem).into());
    };
    let repeated = |x: &TracedTensor| -> Result<TracedTensor, TraceStop> {
        if repeat == 1 {
            return Ok(x.clone());
        }
        let indices = on.div(&counted(on, &[heads], 1)?, &on.host(&[], &[repeat as i64])?)?;
        on.gather(x, &indices, 1)
    };
    let scale = match call.has("scale") {
        true => call.float("scale")?,
        false => 1.0 / (width as f64).sqrt(),
    };
    // Each side is scaled by the square root of the factor, as in the function that defines the operator in ONNX. `f16`
    // and `bf16` are computed in `f32`.
    let scaled = |x: &TracedTensor, factor: f64| {
        let x = math::accumulated(on, x)?;
        on.mul(&x, &on.scalar_like(&x, factor)?)
    };
    let [of_q, of_k] = split_scale(scale);
    let keys = on.transpose(&scaled(&repeated(k)?, of_k)?, &[0, 1, 3, 2])?;
    let products = on.matmul(&scaled(q, of_q)?, &keys)?;
    let wide = match (call.dtype("softmax_precision")?, q.dtype()) {
        (Some(precision), _) => precision,
        (None, DataType::F64) => DataType::F64,
        (None, _) => DataType::F32,
    };
    let changed = |x: TracedTensor, name: &str| -> Result<TracedTensor, TraceStop> {
        let Some(graph) = call.graph(name)? else { return Ok(x) };
        match inline(on, graph, &[x], &|problem| call.wrong(name, problem))?.as_slice() {
            [y] => math::to(on, y, wide),
            other => Err(call.wrong(name, format!("has {} outputs, expected 1", other.len())).into()),
        }
    };
    let products = changed(math::to(on, &products, wide)?, "score_mod")?;
    let weights = changed(on.softmax(&products, -1)?, "prob_mod")?;
    let y = on.matmul(&weights, &math::to(on, &repeated(v)?, wide)?)?;
    Ok(one(math::to(on, &y, v.dtype())?))
}
