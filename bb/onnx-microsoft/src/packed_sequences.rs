//! Sequences of several requests, one after another in one tensor. Serving engines for language models use this
//! layout.

use super::{no_results_from, none_from, only};
use bb_core::Tensor;
use bb_core::error::NodePart;
use bb_core::ext::recurrent::MOST_STEPS;
use bb_core::operator::{Call, OpResult};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_ir::infer::rule::{self, NodeFacts, Types};
use bb_onnx::shared::linear_attention::convolved;
use bb_onnx::shared::operators;
use smallvec::smallvec;

operators! {
    "com.microsoft" {
        VarlenCausalConvWithState => Primitives(varlen_causal_conv), infer: By(varlen_causal_conv_types);
    }
}

/// Reads the start and end of each sequence among `total` tokens.
fn sequences(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    index: usize,
    total: usize,
) -> Result<Vec<(usize, usize)>, TraceStop> {
    let ends = on.ints(call.input(index)?)?;
    let pairs = ends.windows(2).map(|pair| match *pair {
        [start, end] => {
            Some((usize::try_from(start).ok()?, usize::try_from(end).ok()?)).filter(|(a, b)| a < b)
        }
        _ => None,
    });
    let pairs: Option<Vec<(usize, usize)>> = pairs.collect();
    let whole = ends.first() == Some(&0) && ends.last().is_some_and(|&end| usize::try_from(end) == Ok(total));
    let pairs = pairs.filter(|pairs| whole && pairs.len() <= MOST_STEPS);
    Ok(pairs.ok_or_else(|| {
        let problem = format!("is {ends:?}, expected to rise from 0 to {total}, the number of tokens");
        call.wrong(NodePart::Operand(index), problem)
    })?)
}

/// Infers the types of `VarlenCausalConvWithState`: the result, the states, and some tokens of each sequence as
/// state updates.
fn varlen_causal_conv_types(at: NodeFacts<'_>) -> Option<Types> {
    let updates = || {
        let ([_, channels], [batch, _, _]) = (at.dims(0)?, at.dims(4)?) else { return None };
        Some(vec![batch.clone(), rule::extent(at.int("state_update_capacity", 0)?), channels.clone()])
    };
    Some(vec![at.ty(0).clone(), at.ty(4).clone(), rule::tensor(at.dtype(0), updates())])
}

/// `VarlenCausalConvWithState`: convolves each sequence with its past state.
pub(crate) fn varlen_causal_conv(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["activation", "delta_offset", "dilation", "group_size", "state_update_capacity"])?;
    none_from(call, 6)?;
    let dilation = call.int_or("dilation", 1)?;
    if !(1..1 << 31).contains(&dilation) {
        return Err(call.wrong("dilation", format!("is {dilation}, expected a positive number")).into());
    }
    let capacity = call.int_or("state_update_capacity", 0)?;
    let capacity = usize::try_from(capacity)
        .ok()
        .filter(|capacity| *capacity <= 8)
        .ok_or_else(|| call.wrong("state_update_capacity", format!("is {capacity}, expected 0 to 8")))?;
    let (x, past) = (call.input(0)?, call.input(4)?);
    let &[total, channels] = x.shape() else {
        return Err(call.wrong(NodePart::Operand(0), format!("has rank {}, expected 2", x.rank())).into());
    };
    let sequences = sequences(on, call, 2, total)?;
    let captured = if capacity > 0 {
        let counts = on.ints(call.input(5)?)?;
        if counts.len() != sequences.len() {
            let problem = format!("has {} numbers, expected {}", counts.len(), sequences.len());
            return Err(call.wrong(NodePart::Operand(5), problem).into());
        }
        counts
    } else {
        no_results_from(call, 2)?;
        none_from(call, 5)?;
        Vec::new()
    };
    if past.shape().first() != Some(&sequences.len()) {
        let problem = format!("has the shape {:?}, expected {} states", past.shape(), sequences.len());
        return Err(call.wrong(NodePart::Operand(4), problem).into());
    }
    let part =
        |x: &TracedTensor, from: usize, to: usize| on.slice(x, &[from as i64], &[to as i64], &[0], &[]);
    let (mut outputs, mut states, mut updates) = (Vec::new(), Vec::new(), Vec::new());
    for (at, &(start, end)) in sequences.iter().enumerate() {
        let own = part(x, start, end)?;
        let line = on.unsqueeze(&on.transpose(&own, &[1, 0])?, &[0])?;
        let before = part(past, at, at + 1)?;
        let c = convolved(on, call, [3, 4], &line, Some(&before), dilation)?;
        states.push(c.state(on, c.steps)?);
        outputs.push(on.transpose(&on.squeeze(&c.y, &[0])?, &[1, 0])?);
        if let Some(&count) = captured.get(at) {
            let count = usize::try_from(count).unwrap_or(0).min(capacity).min(end - start);
            let rest = on.zeros(&[capacity - count, channels], x.dtype())?;
            updates.push(on.unsqueeze(&on.concat(&[&part(&own, 0, count)?, &rest], 0)?, &[0])?);
        }
    }
    if outputs.is_empty() {
        return Err(call.wrong(NodePart::Operand(2), "has no sequence").into());
    }
    let joined = |parts: &[TracedTensor]| on.concat(&parts.iter().collect::<Vec<_>>(), 0);
    let update = if updates.is_empty() { None } else { Some(joined(&updates)?) };
    Ok(smallvec![Some(joined(&outputs)?), Some(joined(&states)?), update])
}
