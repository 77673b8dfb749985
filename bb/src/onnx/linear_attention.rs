//! Attention by a state that is carried along: linear attention, and the convolution that goes before it.

use super::call::{Call, OpResult};
use super::infer;
use super::rows::operators;
use crate::error::NodePart;
use crate::ext::recurrent::MOST_STEPS;
use crate::ext::{ConvOptions, Ops, math, product};
use crate::onnx::microsoft;
use crate::{DataType, Error, Tensor};
use smallvec::smallvec;

operators! {
    "" {
        CausalConvWithState => Primitives(causal_conv), infer: By(infer::attention::causal_conv);
        LinearAttention => Primitives(linear_attention), infer: By(infer::attention::linear), halves: Once, ignores: { "chunk_size": "it tells how to compute, and changes no result" };
    }
    "com.microsoft" {
        CausalConvWithState => Primitives(causal_conv_of_runtime), infer: By(infer::attention::causal_conv_of_runtime);
        LinearAttention => Primitives(linear_attention_of_runtime), infer: By(infer::attention::linear), halves: Once;
    }
}

/// `CausalConvWithState`: each channel by a filter of its own, over what came before and what comes.
pub(super) fn causal_conv<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let (y, state) = convolved(on, call, call.input(0)?, call.optional(3), 1)?;
    Ok(smallvec![Some(y), Some(state)])
}

/// `CausalConvWithState` of ONNX Runtime, whose channels may be last and its filters dilated.
pub(super) fn causal_conv_of_runtime<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let names = ["activation", "channels_last", "dilation", "ndim", "state_window"];
    microsoft::only(call, &names)?;
    let dilation = call.int_or("dilation", 1)?;
    if !(1..1 << 31).contains(&dilation) {
        return Err(call.wrong("dilation", format!("is {dilation}, expected a positive number")).into());
    }
    for (name, served) in [("ndim", 1), ("state_window", 0)] {
        let value = call.int_or(name, served)?;
        if value != served {
            return Err(call
                .wrong(name, format!("is {value}, which is not served; expected {served}"))
                .into());
        }
    }
    let (x, past) = (call.input(0)?, call.optional(3));
    if !call.flag("channels_last", false)? {
        let (y, state) = convolved(on, call, x, past, dilation)?;
        return Ok(smallvec![Some(y), Some(state)]);
    }
    // All dimensions behind the first two are the channels.
    let extents = on.extents(x);
    let Some((_, channels)) = extents.split_at_checked(2).filter(|(_, channels)| !channels.is_empty()) else {
        let problem = format!("has rank {}, expected at least 3", x.rank());
        return Err(call.wrong(NodePart::Operand(0), problem).into());
    };
    let second = |x: &B::Tensor| {
        let length = on.extent(x, 1);
        let flat = on.reshape_to(x, &[on.extent(x, 0), length, product(channels)])?;
        on.transpose(&flat, &[0, 2, 1])
    };
    let last = |y: &B::Tensor| {
        let shape = [&[on.extent(y, 0), on.extent(y, 2)], channels].concat();
        on.reshape_to(&on.transpose(y, &[0, 2, 1])?, &shape)
    };
    let past = past.map(second).transpose()?;
    let (y, state) = convolved(on, call, &second(x)?, past.as_ref(), dilation)?;
    Ok(smallvec![Some(last(&y)?), Some(last(&state)?)])
}

/// Convolves a sequence with what came before, and returns what the next one needs of both.
fn convolved<B: Ops + ?Sized>(
    on: &B,
    call: &Call<'_, B::Tensor>,
    x: &B::Tensor,
    past: Option<&B::Tensor>,
    dilation: i64,
) -> Result<(B::Tensor, B::Tensor), B::Error> {
    let filters = call.input(1)?;
    let (&[batch, channels, _], &[_, _, width]) = (x.shape(), filters.shape()) else {
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
        Some(past) => past.clone(),
        None => on.zeros(&[batch, channels, before], x.dtype())?,
    };
    let all = on.concat(&[&past, x], 2)?;
    let dilations = [dilation];
    let options = ConvOptions { group: channels as i64, dilations: &dilations, ..Default::default() };
    let mut y = on.conv(&all, filters, call.optional(2), options)?;
    if swish {
        y = math::widened(on, &y, DataType::F32, |y| on.swish(y, 1.0))?;
    }
    let length = all.shape().last().copied().unwrap_or(0);
    let state = on.slice(&all, &[length.saturating_sub(before) as i64], &[length as i64], &[2], &[])?;
    Ok((y, state))
}

/// How the state follows from the last one.
#[derive(Debug, Clone, Copy)]
struct Rule {
    /// Whether it decays.
    gated: bool,
    /// Whether what it holds for a key is corrected rather than added to.
    delta: bool,
}

/// `LinearAttention`.
pub(super) fn linear_attention<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    stepped(on, call)
}

/// `LinearAttention` of ONNX Runtime, without a window of states.
pub(super) fn linear_attention_of_runtime<B: Ops + ?Sized>(
    on: &B,
    call: &Call<'_, B::Tensor>,
) -> OpResult<B> {
    let names = ["chunk_size", "kv_num_heads", "q_num_heads", "scale", "state_window", "update_rule"];
    microsoft::only(call, &names)?;
    let window = call.int_or("state_window", 0)?;
    if window != 0 {
        return Err(call
            .wrong("state_window", format!("is {window}, which is not served; expected 0"))
            .into());
    }
    stepped(on, call)
}

/// One step for each position, in `f32`.
fn stepped<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
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
        if call.optional(index).is_some() != needed {
            let problem = if needed {
                "is missing; the update rule needs it"
            } else {
                "has no place in the update rule"
            };
            return Err(call.wrong(NodePart::Operand(index), problem).into());
        }
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
    // Each step is `[1, batch, heads, …]`, rows of keys and columns of values.
    let by_step = |index: usize, shape: [usize; 3]| -> Result<Vec<B::Tensor>, B::Error> {
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
        Some(past) => on.unsqueeze(&math::to(on, past, DataType::F32)?, &[0])?,
        None => on.zeros(&[1, batch, heads, keys, values], DataType::F32)?,
    };
    let mut outputs = Vec::with_capacity(steps);
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
    Ok(smallvec![
        Some(math::to(on, &y, query.dtype())?),
        Some(math::to(on, &on.squeeze(&state, &[0])?, kept)?)
    ])
}

/// Reads a number of heads.
fn count<T>(call: &Call<'_, T>, name: &str) -> Result<usize, Error> {
    let count = call.int(name)?;
    usize::try_from(count)
        .ok()
        .filter(|&n| (1..1 << 20).contains(&n))
        .ok_or_else(|| call.wrong(name, format!("is {count}, expected a positive number")))
}
