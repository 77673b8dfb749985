//! Operators of `com.microsoft.nchwc`. They occur in models that ONNX Runtime optimized at its highest level for a processor.
//!
//! A tensor of this domain has the shape `[n, c, h, w]`, but in memory it is `[n, c / block, h, w, block]`: the channels are
//! divided into blocks, and the elements of a block are contiguous. If the channels do not fill the last block, it is padded with
//! zeros. Operators of other domains, like `Relu` and `Concat`, work on blocked tensors unchanged. Each function here converts its
//! operand to plain channels, computes, and converts the result to blocks. Optimization passes remove the inverse conversions
//! between consecutive operators.
//!
//! Filters are in blocks, too: `[o / block, i / block, h, w, block of i, block of o]`. `i` is not in blocks if the convolution is
//! depthwise, or if the operand is not in blocks because it has fewer channels than a block.
//!
//! Source: the operators and the graph transformer `NchwcTransformer` of ONNX Runtime 1.32.

use super::fused::{CONV, by_list};
use super::nchwc_block::block;
use super::{no_results_from, only, plus};
use bb_core::error::NodePart;
use bb_core::ext::Extent;
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{Error, Tensor};
use bb_ir::graph::Dim;
use bb_ir::infer::Extent as _;
use bb_ir::infer::rule::{self, NodeFacts, Types};
use bb_onnx::shared::operators;
use bb_onnx::shared::{resize, window};

operators! {
    "com.microsoft.nchwc" {
        AveragePool => Primitives(average_pool), infer: By(pool_types), halves: Once;
        Conv => Primitives(conv), infer: By(conv_types);
        GlobalAveragePool => Primitives(global_average_pool), infer: By(global_pool_types), halves: Once;
        GlobalMaxPool => Primitives(global_max_pool), infer: By(global_pool_types), halves: Moves;
        MaxPool => Primitives(max_pool), infer: By(pool_types), halves: Moves;
        ReorderInput => Primitives(reorder_input), infer: By(reorder_input_types), halves: Moves;
        ReorderOutput => Primitives(reorder_output), infer: By(reorder_output_types), halves: Moves;
        Upsample => Primitives(upsample), infer: By(upsample_types);
    }
}

/// Returns the shape of an operand, which must have four dimensions.
fn extents(on: &Tracer, call: &Call<'_, TracedTensor>, x: &TracedTensor) -> Result<[Extent; 4], Error> {
    <[Extent; 4]>::try_from(on.extents(x).into_vec()).map_err(|extents| {
        let problem = format!("of rank {} came, expected 4", extents.len());
        call.wrong(NodePart::other("an operand"), problem)
    })
}

/// Returns the number of blocks of channels, which must divide the channels evenly.
fn blocks<T>(call: &Call<'_, T>, channels: &Extent, block: usize) -> Result<Extent, Error> {
    let block = Extent::from(block);
    let count = channels.floor_div(&block);
    if count.times(&block).equals(channels) {
        Ok(count)
    } else {
        let problem = format!("has {channels} channels, which are no blocks of {block}");
        Err(call.wrong(NodePart::Operand(0), problem))
    }
}

/// Converts blocked channels to plain order.
fn in_order(on: &Tracer, call: &Call<'_, TracedTensor>, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    let (block, [n, c, h, w]) = (block(call)?, extents(on, call, x)?);
    let shape = [n.clone(), blocks(call, &c, block)?, h.clone(), w.clone(), block.into()];
    moved(on, x, shape, &[0, 1, 4, 2, 3], [n, c, h, w])
}

/// Converts channels in plain order to blocks.
fn in_blocks(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    x: &TracedTensor,
) -> Result<TracedTensor, TraceStop> {
    let (block, [n, c, h, w]) = (block(call)?, extents(on, call, x)?);
    let shape = [n.clone(), blocks(call, &c, block)?, block.into(), h.clone(), w.clone()];
    moved(on, x, shape, &[0, 1, 3, 4, 2], [n, c, h, w])
}

/// Reshapes `x` to `from`, permutes the dimensions, and reshapes the result to `to`.
fn moved(
    on: &Tracer,
    x: &TracedTensor,
    from: [Extent; 5],
    order: &[i64],
    to: [Extent; 4],
) -> Result<TracedTensor, TraceStop> {
    on.reshape_to(&on.transpose(&on.reshape_to(x, &from)?, order)?, &to)
}

/// Applies `f` to operand 0 with its channels in plain order, and converts the result to blocks.
fn ordered(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    f: impl FnOnce(&TracedTensor) -> Result<TracedTensor, TraceStop>,
) -> OpResult {
    let y = f(&in_order(on, call, call.input(0)?)?)?;
    Ok(one(in_blocks(on, call, &y)?))
}

/// Infers the type of `ReorderInput`: the channels are second, rounded up to whole blocks. The block size follows from the graph
/// or the processor.
fn reorder_input_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = || {
        let [n, rest @ ..] = at.dims(0)? else { return None };
        let [a, b, c] = rest else { return None };
        let [c, h, w] = if at.int("channels_last", 0)? == 0 { [a, b, c] } else { [c, a, b] };
        let whole = c.number().is_some_and(|c| c % 16 == 0);
        Some(vec![n.clone(), if whole { c.clone() } else { Dim::Unknown }, h.clone(), w.clone()])
    };
    at.one(at.dtype(0), shape())
}

/// `ReorderInput`: converts channels to blocks. The last block is padded with zeros.
pub(crate) fn reorder_input(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["channels_last"])?;
    let x = call.input(0)?;
    let last = call.flag("channels_last", false)?;
    let mut x = if last { on.transpose(x, &[0, 3, 1, 2])? } else { x.clone() };
    let [n, c, h, w] = extents(on, call, &x)?;
    let block = Extent::from(block(call)?);
    let missing = c.ceil_div(&block).times(&block).minus(&c);
    if !missing.is(0) {
        let zeros = on.full_to(&[n, missing, h, w], 0.0, x.dtype())?;
        x = on.concat(&[&x, &zeros], 1)?;
    }
    Ok(one(in_blocks(on, call, &x)?))
}

/// Infers the type of `ReorderOutput`. The number of channels is an attribute.
fn reorder_output_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = || {
        let [n, _, h, w] = at.dims(0)? else { return None };
        let c = rule::extent(at.int("channels", 0)?);
        Some(match at.int("channels_last", 0)? != 0 {
            true => vec![n.clone(), h.clone(), w.clone(), c],
            false => vec![n.clone(), c, h.clone(), w.clone()],
        })
    };
    at.one(at.dtype(0), shape())
}

/// `ReorderOutput`: converts blocks to channels in plain order, and removes the padding of the last block.
pub(crate) fn reorder_output(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["channels", "channels_last"])?;
    let x = in_order(on, call, call.input(0)?)?;
    let (channels, block) = (call.int_or("channels", 0)?, block(call)?);
    let (there, wanted) = (on.extent(&x, 1), Extent::from(channels));
    if channels < 1 || !there.at_least(&wanted) || there.minus(&wanted).at_least(&Extent::from(block)) {
        let problem = format!("is {channels}; the operand has {there}, in blocks of {block}");
        return Err(call.wrong("channels", problem).into());
    }
    let x = if there.equals(&wanted) { x } else { on.slice(&x, &[0], &[channels], &[1], &[])? };
    let last = call.flag("channels_last", false)?;
    Ok(one(if last { on.transpose(&x, &[0, 2, 3, 1])? } else { x }))
}

/// Converts filters to ONNX's order. `has_blocks` says whether their input channels are in blocks, too.
fn filters(on: &Tracer, call: &Call<'_, TracedTensor>, has_blocks: bool) -> Result<TracedTensor, TraceStop> {
    let (w, block) = (call.input(1)?, block(call)?);
    let &[o, i, height, width] = w.shape() else {
        return Err(call.wrong(NodePart::Operand(1), format!("has rank {}, expected 4", w.rank())).into());
    };
    if !o.is_multiple_of(block) || (has_blocks && !i.is_multiple_of(block)) {
        let problem = format!("has the shape {:?}, which is in no blocks of {block}", w.shape());
        return Err(call.wrong(NodePart::Operand(1), problem).into());
    }
    let split = if has_blocks {
        let split = on.reshape(w, &[o / block, i / block, height, width, block, block])?;
        on.transpose(&split, &[0, 5, 1, 4, 2, 3])?
    } else {
        on.transpose(&on.reshape(w, &[o / block, i, height, width, block])?, &[0, 4, 1, 2, 3])?
    };
    on.reshape(&split, &[o, i, height, width])
}

fn conv_types(at: NodeFacts<'_>) -> Option<Types> {
    window::conv_types(at)
}

/// `Conv`: a convolution, an addition, and an activation of the sum.
pub(crate) fn conv(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &CONV)?;
    let (x, w, block) = (call.input(0)?, call.input(1)?, block(call)?);
    let [_, channels, ..] = extents(on, call, x)?;
    let (of_each, groups) = (w.shape().get(1).copied().unwrap_or(0), call.int_or("group", 1)?);
    let by_channel = of_each == 1 && groups > 1 && on.extent(w, 0).is(groups);
    // A tensor with fewer channels than a block is not blocked.
    let is_blocked = channels.at_least(&Extent::from(block));
    let w = filters(on, call, is_blocked && !by_channel)?;
    let x = if is_blocked { in_order(on, call, x)? } else { x.clone() };
    let mut y = window::plain_conv(on, call, &x, &w, call.optional(2))?;
    if let Some(added) = call.optional(3) {
        y = plus(on, &y, Some(&in_order(on, call, added)?))?;
    }
    let y = by_list(on, call, y)?;
    Ok(one(in_blocks(on, call, &y)?))
}

/// `MaxPool`.
pub(crate) fn max_pool(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "storage_order", "strides"])?;
    no_results_from(call, 1)?;
    ordered(on, call, |x| window::plain_max_pool(on, call, x))
}

fn pool_types(at: NodeFacts<'_>) -> Option<Types> {
    window::pool_types(at)
}

/// `AveragePool`.
pub(crate) fn average_pool(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(
        call,
        &["auto_pad", "ceil_mode", "count_include_pad", "dilations", "kernel_shape", "pads", "strides"],
    )?;
    ordered(on, call, |x| window::plain_average_pool(on, call, x))
}

/// `GlobalMaxPool`.
pub(crate) fn global_max_pool(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &[])?;
    ordered(on, call, |x| on.reduce_max(x, &[2, 3], true))
}

fn global_pool_types(at: NodeFacts<'_>) -> Option<Types> {
    window::global_pool_types(at)
}

/// `GlobalAveragePool`.
pub(crate) fn global_average_pool(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &[])?;
    ordered(on, call, |x| on.reduce_mean(x, &[2, 3], true))
}

/// Infers the type of `Upsample` of blocked channels: each extent is multiplied by its scale.
fn upsample_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| {
        let scales = at.ints("scales")?;
        (scales.len() == x.len()).then(|| x.iter().zip(scales).map(|(d, &n)| rule::scaled(d, n)).collect())
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// `Upsample`: repeats elements, or interpolates linearly between them.
pub(crate) fn upsample(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["coordinate_transformation_mode", "mode", "scales"])?;
    let scales = call.ints("scales")?.unwrap_or(&[1; 4]);
    if scales.len() != 4 || scales.first_chunk() != Some(&[1, 1]) || scales.iter().any(|&n| n < 1) {
        let problem = format!("is {scales:?}, expected 1, 1 and two positive numbers");
        return Err(call.wrong("scales", problem).into());
    }
    let transform = call.text_or("coordinate_transformation_mode", "asymmetric")?;
    match call.text_or("mode", "nearest")? {
        "nearest" => ordered(on, call, |x| resize::repeated(on, x, scales)),
        "linear" => ordered(on, call, |x| resize::stretched(on, call, x, scales, transform)),
        other => {
            let problem = format!("is `{other}`, expected `nearest` or `linear`");
            Err(call.wrong("mode", problem).into())
        }
    }
}
