//! Attention with a recurrent state, and the causal convolution in front of it, which can return several of the last states.

use super::{only, only_int};
use bb_core::error::NodePart;
use bb_core::ext::product;
use bb_core::operator::{Call, OpResult};
use bb_core::prelude::*;
use bb_core::trace::{TracedTensor, Tracer};
use bb_core::{Error, Tensor};
use bb_ir::infer::rule::{self, NodeFacts, Types};
use bb_onnx::shared::{Attributes, linear_attention, operators};
use smallvec::smallvec;

operators! {
    "com.microsoft" {
        CausalConvWithState => Primitives(causal_conv), infer: By(causal_conv_types);
        LinearAttention => Primitives(linear_attention), infer: By(linear_attention_types), halves: Once;
    }
}

/// The attributes of the convolution that affect its shapes.
struct Filters {
    channels_last: bool,
    dilation: i64,
}

impl Filters {
    fn of<'a, A: Attributes<'a>>(node: &A) -> Result<Filters, A::Error> {
        Ok(Filters {
            channels_last: node.flag("channels_last", false)?,
            dilation: node.int_or("dilation", 1)?,
        })
    }
}

/// Infers the types of ONNX Runtime's `CausalConvWithState`, whose channels may be last.
fn causal_conv_types(at: NodeFacts<'_>) -> Option<Types> {
    let filters = Filters::of(&at).ok()?;
    let state = || {
        let (x, [_, _, width]) = (at.dims(0)?, at.dims(1)?) else { return None };
        let kept = rule::scaled(&rule::shifted(width, -1), filters.dilation);
        let mut state = x.to_vec();
        *state.get_mut(if filters.channels_last { 1 } else { 2 })? = kept;
        linear_attention::several_states(at, state)
    };
    Some(vec![at.ty(0).clone(), rule::tensor(at.dtype(0), state())])
}

/// `CausalConvWithState` of ONNX Runtime. The channels may be last, and the filters may be dilated.
pub(crate) fn causal_conv(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let names = ["activation", "channels_last", "dilation", "ndim", "state_window"];
    // Other values are refused, because ONNX Runtime has kernels for them only on GPUs.
    let defaults = [
        ("input_channel_offset", 0),
        ("input_channels", 0),
        ("state_channels_last", -1),
        ("state_length", 0),
        ("state_update_capacity", 0),
    ];
    only(call, &[&names[..], &defaults.map(|(name, _)| name)].concat())?;
    defaults.iter().try_for_each(|&(name, default)| only_int(call, name, default))?;
    let Filters { channels_last, dilation } = Filters::of(call)?;
    if !(1..1 << 31).contains(&dilation) {
        return Err(call.wrong("dilation", format!("is {dilation}, expected a positive number")).into());
    }
    only_int(call, "ndim", 1)?;
    let window = window(call)?;
    let (x, past) = (call.input(0)?, call.optional(3));
    let past = past.map(|past| linear_attention::latest(on, past, window)).transpose()?;
    if !channels_last {
        let c = linear_attention::convolved(on, call, linear_attention::PLACES, x, past.as_ref(), dilation)?;
        let state = linear_attention::windowed(on, window, c.steps, |step| c.state(on, step))?;
        return Ok(smallvec![Some(c.y), Some(state)]);
    }
    // All dimensions after the first two are flattened into the channels.
    let extents = on.extents(x);
    let Some((_, channels)) = extents.split_at_checked(2).filter(|(_, channels)| !channels.is_empty()) else {
        let problem = format!("has rank {}, expected at least 3", x.rank());
        return Err(call.wrong(NodePart::Operand(0), problem).into());
    };
    let second = |x: &TracedTensor| {
        let length = on.extent(x, 1);
        let flat = on.reshape_to(x, &[on.extent(x, 0), length, product(channels)])?;
        on.transpose(&flat, &[0, 2, 1])
    };
    let last = |y: &TracedTensor| {
        let shape = [&[on.extent(y, 0), on.extent(y, 2)], channels].concat();
        on.reshape_to(&on.transpose(y, &[0, 2, 1])?, &shape)
    };
    let past = past.as_ref().map(second).transpose()?;
    let c = linear_attention::convolved(
        on,
        call,
        linear_attention::PLACES,
        &second(x)?,
        past.as_ref(),
        dilation,
    )?;
    let state = linear_attention::windowed(on, window, c.steps, |step| last(&c.state(on, step)?))?;
    Ok(smallvec![Some(last(&c.y)?), Some(state)])
}

/// Reads the number of states to return, one after each of the last steps. 0 means only the last state, without an extra
/// dimension.
fn window<T>(call: &Call<'_, T>) -> Result<usize, Error> {
    let window = call.int_or("state_window", 0)?;
    usize::try_from(window)
        .ok()
        .filter(|window| *window <= 8)
        .ok_or_else(|| call.wrong("state_window", format!("is {window}, expected 0 to 8")))
}

fn linear_attention_types(at: NodeFacts<'_>) -> Option<Types> {
    linear_attention::linear_attention_types(at)
}

/// `LinearAttention` of ONNX Runtime.
pub(crate) fn linear_attention(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let names = ["chunk_size", "kv_num_heads", "q_num_heads", "scale", "state_window", "update_rule"];
    only(call, &names)?;
    linear_attention::stepped(on, call, window(call)?, linear_attention::Unread::Ignored)
}
