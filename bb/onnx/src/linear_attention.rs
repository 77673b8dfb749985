//! Attention with a recurrent state: linear attention, and the causal convolution in front of it.

use super::rows::operators;
use bb_core::error::NodePart;
use bb_core::ext::recurrent::MOST_STEPS;
use bb_core::ext::{ConvOptions, math};
use bb_core::operator::{Call, OpResult};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::graph::Dim;
use bb_ir::infer::rule::{self, NodeFacts, Types};
use smallvec::smallvec;

operators! {
    "" {
        CausalConvWithState => Primitives(causal_conv), infer: By(causal_conv_types);
        LinearAttention => Primitives(linear_attention), infer: By(linear_attention_types), halves: Once, ignores: { "chunk_size": "it tells how to compute, and changes no result" };
    }
}

/// Infers the types of `CausalConvWithState`: a result with the operand's shape, and the state for the next call, which
/// is the end of the sequence.
fn causal_conv_types(at: NodeFacts<'_>) -> Option<Types> {
    let state = || {
        let ([batch, channels, _], [_, _, width]) = (at.dims(0)?, at.dims(1)?) else { return None };
        Some(vec![batch.clone(), channels.clone(), rule::shifted(width, -1)])
    };
    Some(vec![at.ty(0).clone(), rule::tensor(at.dtype(0), state())])
}

/// `CausalConvWithState`: convolves each channel with its own filter, over the past state and the sequence.
pub(super) fn causal_conv(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let c = convolved(on, call, PLACES, call.input(0)?, call.optional(3), 1)?;
    let state = c.state(on, c.steps)?;
    Ok(smallvec![Some(c.y), Some(state)])
}

/// Returns the last of the past states; with `window` 0, `past` is the only state.
pub fn latest(on: &Tracer, past: &TracedTensor, window: usize) -> Result<TracedTensor, TraceStop> {
    match window as i64 {
        0 => Ok(past.clone()),
        window => on.squeeze(&on.slice(past, &[window - 1], &[window], &[0], &[])?, &[0]),
    }
}

/// Stacks the states after each of the last `window` steps. If the sequence has fewer steps, the missing states are
/// zeros.
pub fn windowed(
    on: &Tracer,
    window: usize,
    steps: usize,
    state: impl Fn(usize) -> Result<TracedTensor, TraceStop>,
) -> Result<TracedTensor, TraceStop> {
    let last = state(steps)?;
    if window == 0 {
        return Ok(last);
    }
    let slot = |at: usize| match (steps + at + 1).checked_sub(window) {
        Some(step @ 1..) => state(step),
        _ => on.zeros_like(&last, None),
    };
    let slots: Vec<TracedTensor> =
        (0..window).map(|at| on.unsqueeze(&slot(at)?, &[0])).collect::<Result<_, TraceStop>>()?;
    on.concat(&slots.iter().collect::<Vec<_>>(), 0)
}

/// A convolution over a past state and a sequence.
pub struct Convolved {
    /// The result.
    pub y: TracedTensor,
    /// The past state, followed by the sequence.
    all: TracedTensor,
    /// The number of earlier elements that each step reads.
    before: usize,
    /// The number of steps of the sequence.
    pub steps: usize,
}

impl Convolved {
    /// Returns the state for the step after the first `steps` steps.
    pub fn state(&self, on: &Tracer, steps: usize) -> Result<TracedTensor, TraceStop> {
        on.slice(&self.all, &[steps as i64], &[(steps + self.before) as i64], &[2], &[])
    }
}

/// The indices of the bias and the past state among the operands of `CausalConvWithState`.
pub const PLACES: [usize; 2] = [2, 3];

/// Convolves a sequence that is preceded by its past state. `[bias, before_at]` are the operand indices of the bias and
/// of the past state.
pub fn convolved(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    [bias, before_at]: [usize; 2],
    x: &TracedTensor,
    past: Option<&TracedTensor>,
    dilation: i64,
) -> Result<Convolved, TraceStop> {
    let filters = call.input(1)?;
    let (&[batch, channels, steps], &[_, _, width]) = (x.shape(), filters.shape()) else {
        return Err(call
            .wrong(NodePart::other("operands"), "of rank 3 are expected: the sequence and the filters")
            .into());
    };
    let Some(before) = width.checked_sub(1).and_then(|steps| steps.checked_mul(dilation as usize)) else {
        return Err(call.wrong(NodePart::Operand(1), "has filters of no elements, or too large ones").into());
    };
    let swish = match call.text_or("activation", "none")? {
        "none" => false,
        "silu" | "swish" => true,
        other => {
            let problem = format!("is `{other}`, expected `none`, `silu` or `swish`");
            return Err(call.wrong("activation", problem).into());
        }
    };
    let past = match past {
        Some(past) if past.shape().last() != Some(&before) => {
            let problem = format!("has the shape {:?}, expected {before} steps", past.shape());
            return Err(call.wrong(NodePart::Operand(before_at), problem).into());
        }
        Some(past) => past.clone(),
        None => on.zeros(&[batch, channels, before], x.dtype())?,
    };
    let all = on.concat(&[&past, x], 2)?;
    let dilations = [dilation];
    let options = ConvOptions { group: channels as i64, dilations: &dilations, ..Default::default() };
    // Skip the convolution of an empty sequence, because a dilated filter may be longer than the padded input.
    let mut y =
        if steps == 0 { on.identity(x)? } else { on.conv(&all, filters, call.optional(bias), options)? };
    if swish {
        y = math::widened(on, &y, DataType::F32, |y| on.swish(y, 1.0))?;
    }
    Ok(Convolved { y, all, before, steps })
}

/// How each step updates the state.
#[derive(Debug, Clone, Copy)]
struct Rule {
    /// Whether the state decays before the update.
    gated: bool,
    /// Whether the update replaces the value stored for a key (delta rule) instead of adding to it.
    delta: bool,
}

/// Adds a leading dimension to the state's dimensions if the node requests several states.
pub fn several_states(at: NodeFacts<'_>, mut state: Vec<Dim>) -> Option<Vec<Dim>> {
    let window = at.int("state_window", 0)?;
    if window > 0 {
        state.insert(0, rule::extent(window));
    }
    Some(state)
}

/// Infers the types of `LinearAttention`: a result for each step, and the state after the last step.
pub fn linear_attention_types(at: NodeFacts<'_>) -> Option<Types> {
    let (queries, shared) = (at.int("q_num_heads", 0)?, at.int("kv_num_heads", 0)?);
    if queries < 1 || shared < 1 {
        return None;
    }
    let value = at.dims(2).and_then(<[Dim]>::last).map_or(Dim::Unknown, |width| rule::divided(width, shared));
    let y = || {
        let [batch, steps, _] = at.dims(0)? else { return None };
        Some(vec![batch.clone(), steps.clone(), rule::scaled(&value, queries)])
    };
    let state = || {
        let [batch, _, width] = at.dims(0)? else { return None };
        several_states(
            at,
            vec![batch.clone(), rule::extent(shared), rule::divided(width, queries), value.clone()],
        )
    };
    let kept = if at.has(3) { at.dtype(3) } else { at.dtype(0) };
    Some(vec![rule::tensor(at.dtype(0), y()), rule::tensor(kept, state())])
}

/// `LinearAttention`.
pub(super) fn linear_attention(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    stepped(on, call, 0, Unread::Refused)
}

/// How to treat a decay or an update rate that the update rule does not use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// Refuses the operand, as ONNX does.
    Refused,
    /// Ignores the operand, as ONNX Runtime does.
    Ignored,
}

/// Computes one step for each element of the sequence, in `f32`.
pub fn stepped(on: &Tracer, call: &Call<'_, TracedTensor>, window: usize, unread: Unread) -> OpResult {
    let rule = match call.text_or("update_rule", "gated_delta")? {
        "linear" => Rule { gated: false, delta: false },
        "gated" => Rule { gated: true, delta: false },
        "delta" => Rule { gated: false, delta: true },
        "gated_delta" => Rule { gated: true, delta: true },
        other => {
            let problem = format!("is `{other}`, expected `linear`, `gated`, `delta` or `gated_delta`");
            return Err(call.wrong("update_rule", problem).into());
        }
    };
    for (index, needed) in [(4, rule.gated), (5, rule.delta)] {
        let problem = match (needed, call.optional(index).is_some()) {
            (true, false) => "is missing; the update rule needs it",
            (false, true) if unread == Unread::Refused => "has no place in the update rule",
            _ => continue,
        };
        return Err(call.wrong(NodePart::Operand(index), problem).into());
    }
    let query = call.input(0)?;
    let &[batch, steps, _] = query.shape() else {
        return Err(call
            .wrong(NodePart::Operand(0), format!("has rank {}, expected 3", query.rank()))
            .into());
    };
    if steps > MOST_STEPS {
        return Err(call
            .wrong(NodePart::Operand(0), format!("has {steps} steps, more than {MOST_STEPS}"))
            .into());
    }
    let (queries, heads) = (count(call, "q_num_heads")?, count(call, "kv_num_heads")?);
    if !queries.is_multiple_of(heads) {
        return Err(call.wrong("q_num_heads", format!("is {queries}, no multiple of {heads}")).into());
    }
    let shared = queries / heads;
    let width = |index: usize, parts: usize| -> Result<usize, Error> {
        let last = call.input(index)?.shape().last().copied().unwrap_or(0);
        let problem =
            || call.wrong(NodePart::Operand(index), format!("is {last} wide, no multiple of {parts}"));
        last.checked_div(parts).filter(|size| size * parts == last).ok_or_else(problem)
    };
    let (keys, values) = (width(0, queries)?, width(2, heads)?);
    // Each step has the shape `[1, batch, heads, …]`; keys are rows, values are columns.
    let by_step = |index: usize, shape: [usize; 3]| -> Result<Vec<TracedTensor>, TraceStop> {
        let x = math::to(on, call.input(index)?, DataType::F32)?;
        let [a, b, c] = shape;
        let x = on.transpose(&on.reshape(&x, &[batch, steps, a, b, c])?, &[1, 0, 2, 3, 4])?;
        let x = if index == 4 { on.exp(&x)? } else { x };
        on.split(&x, 0, &vec![1; steps])
    };
    let (q, k) = (by_step(0, [heads, shared, keys])?, by_step(1, [heads, 1, keys])?);
    let (columns, v) = (by_step(1, [heads, keys, 1])?, by_step(2, [heads, 1, values])?);
    let decay = if rule.gated { by_step(4, [heads, width(4, heads)?, 1])? } else { Vec::new() };
    let beta = if rule.delta { by_step(5, [width(5, 1)?, 1, 1])? } else { Vec::new() };
    let mut state = match call.optional(3) {
        Some(past) => on.unsqueeze(&math::to(on, &latest(on, past, window)?, DataType::F32)?, &[0])?,
        None => on.zeros(&[1, batch, heads, keys, values], DataType::F32)?,
    };
    let mut outputs = Vec::with_capacity(steps);
    // The states that are part of the results.
    let mut states = vec![state.clone()];
    for (step, (((q, k), column), v)) in q.iter().zip(&k).zip(&columns).zip(&v).enumerate() {
        if let Some(decay) = decay.get(step) {
            state = on.mul(&state, decay)?;
        }
        let update = match beta.get(step) {
            Some(beta) => on.mul(beta, &on.sub(v, &on.matmul(k, &state)?)?)?,
            None => v.clone(),
        };
        state = on.add(&state, &on.mul(column, &update)?)?;
        outputs.push(on.matmul(q, &state)?);
        states.push(state.clone());
        if states.len() > window.max(1) {
            states.remove(0);
        }
    }
    let scale =
        Some(call.float_or("scale", 0.0)?).filter(|&s| s != 0.0).unwrap_or(1.0 / (keys as f64).sqrt());
    let y = if outputs.is_empty() {
        on.zeros(&[batch, 0, queries * values], DataType::F32)?
    } else {
        let all = on.transpose(&on.concat(&outputs.iter().collect::<Vec<_>>(), 0)?, &[1, 0, 2, 3, 4])?;
        on.reshape(&on.mul(&all, &on.scalar_like(&all, scale)?)?, &[batch, steps, queries * values])?
    };
    let kept = call.optional(3).map_or(query.dtype(), Tensor::dtype);
    let state = windowed(on, window, steps, |step| {
        let state = states.iter().rev().nth(steps - step).unwrap_or(&state);
        math::to(on, &on.squeeze(state, &[0])?, kept)
    })?;
    Ok(smallvec![Some(math::to(on, &y, query.dtype())?), Some(state)])
}

/// Reads an attribute that is a number of heads.
fn count<T>(call: &Call<'_, T>, name: &str) -> Result<usize, Error> {
    let count = call.int(name)?;
    usize::try_from(count)
        .ok()
        .filter(|&n| (1..1 << 20).contains(&n))
        .ok_or_else(|| call.wrong(name, format!("is {count}, expected a positive number")))
}
