//! Operators whose channels are the last dimension. They are in `com.microsoft`, and in a domain that ONNX Runtime uses for ONNX's
//! operators if a device prefers this order.

use super::fused::{CONV, by_list};
use super::{only, plus};
use bb_core::Tensor;
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_ir::graph::Dim;
use bb_ir::infer::rule::{NodeFacts, Types};
use bb_onnx::shared::operators;
use bb_onnx::shared::window;

operators! {
    "com.microsoft" {
        NhwcConv => Primitives(conv), infer: By(channels_last_conv_types);
        NhwcFusedConv => Primitives(fused_conv), infer: By(conv_types);
        NhwcMaxPool => Primitives(max_pool), infer: By(pool_types), halves: Moves;
    }
    "com.ms.internal.nhwc" {
        AveragePool => Primitives(average_pool), infer: By(pool_types), halves: Once;
        Conv => Primitives(fused_conv), infer: By(conv_types);
        GlobalAveragePool => Primitives(global_average_pool), infer: By(global_pool_types), halves: Once;
        GlobalMaxPool => Primitives(global_max_pool), infer: By(global_pool_types), halves: Moves;
        MaxPool => Primitives(max_pool), infer: By(pool_types), halves: Moves;
    }
}

/// Applies `f` to `x` with the channels moved to the second dimension, and moves them back to the last.
pub(super) fn second(
    on: &Tracer,
    x: &TracedTensor,
    f: impl FnOnce(&TracedTensor) -> Result<TracedTensor, TraceStop>,
) -> Result<TracedTensor, TraceStop> {
    let last = x.rank().max(2) as i64 - 1;
    let back: Vec<i64> = std::iter::once(0).chain(2..=last).chain([1]).collect();
    on.transpose(&f(&to_second(on, x)?)?, &back)
}

/// Moves the last dimension to the second.
fn to_second(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    let last = x.rank().max(2) as i64 - 1;
    let to: Vec<i64> = [0, last].into_iter().chain(1..last).collect();
    on.transpose(x, &to)
}

/// Applies `f` to a shape with the channels second. The argument and the result of this function have them last.
pub(super) fn last(x: &[Dim], f: impl FnOnce(&[Dim]) -> Option<Vec<Dim>>) -> Option<Vec<Dim>> {
    let [n, spatial @ .., c] = x else { return None };
    let y = f(&[&[n.clone(), c.clone()], spatial].concat())?;
    let [n, c, spatial @ ..] = y.as_slice() else { return None };
    Some([std::slice::from_ref(n), spatial, std::slice::from_ref(c)].concat())
}

/// Applies `f` to the shape of operand 0, whose channels are last if `channels_last` is set.
pub(super) fn last_or_second(
    at: NodeFacts<'_>,
    f: impl FnOnce(&[Dim]) -> Option<Vec<Dim>>,
) -> Option<Vec<Dim>> {
    let x = at.dims(0)?;
    if at.int("channels_last", 0)? == 0 { f(x) } else { last(x, f) }
}

/// Infers the type of a convolution whose channels are last, except in the filters.
fn conv_types(at: NodeFacts<'_>) -> Option<Types> {
    at.one(at.dtype(0), at.dims(0).and_then(|x| last(x, |x| window::conv_shape(at, x, 1))))
}

/// Infers the type of a convolution whose channels are last, also in the filters.
fn channels_last_conv_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = || {
        let [count, kernel @ .., channels] = at.dims(1)? else { return None };
        let weights = [&[count.clone(), channels.clone()], kernel].concat();
        last(at.dims(0)?, |x| window::conv_shape_of(at, x, &weights))
    };
    at.one(at.dtype(0), shape())
}

/// `NhwcConv`.
///
/// The filters are `[m, kH, kW, c / group]`, because the only exporter of this operator (`fusion_nhwc_conv` of
/// `onnxruntime.transformers`) writes this order, and ONNX Runtime's only kernel, for CUDA, reads it. The documentation of the schema
/// instead has ONNX's order.
pub(crate) fn conv(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"])?;
    super::none_from(call, 3)?;
    let w = to_second(on, call.input(1)?)?;
    Ok(one(second(on, call.input(0)?, |x| window::plain_conv(on, call, x, &w, call.optional(2)))?))
}

/// `NhwcFusedConv`, and `Conv` of the internal domain: applies an activation to the sum of a convolution and another operand. The
/// filters are in ONNX's order.
pub(crate) fn fused_conv(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &CONV)?;
    let y =
        second(on, call.input(0)?, |x| window::plain_conv(on, call, x, call.input(1)?, call.optional(2)))?;
    Ok(one(by_list(on, call, plus(on, &y, call.optional(3))?)?))
}

/// Infers the type of `NhwcMaxPool`.
fn pool_types(at: NodeFacts<'_>) -> Option<Types> {
    at.one(at.dtype(0), at.dims(0).and_then(|x| last(x, |x| window::pool_shape(at, x))))
}

/// `NhwcMaxPool`, and `MaxPool` without indices.
pub(crate) fn max_pool(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "storage_order", "strides"])?;
    super::no_results_from(call, 1)?;
    Ok(one(second(on, call.input(0)?, |x| window::plain_max_pool(on, call, x))?))
}

/// `AveragePool`.
pub(crate) fn average_pool(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(
        call,
        &["auto_pad", "ceil_mode", "count_include_pad", "dilations", "kernel_shape", "pads", "strides"],
    )?;
    Ok(one(second(on, call.input(0)?, |x| window::plain_average_pool(on, call, x))?))
}

/// Returns the axes between the first and the last.
fn spatial<T: Tensor>(x: &T) -> Vec<i64> {
    (1..x.rank() as i64 - 1).collect()
}

/// Infers the type of global pooling with the channels last.
fn global_pool_types(at: NodeFacts<'_>) -> Option<Types> {
    at.one(at.dtype(0), at.dims(0).and_then(|x| last(x, window::global_pool_shape)))
}

/// `GlobalAveragePool`.
pub(crate) fn global_average_pool(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &[])?;
    let x = call.input(0)?;
    Ok(one(on.reduce_mean(x, &spatial(x), true)?))
}

/// `GlobalMaxPool`.
pub(crate) fn global_max_pool(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &[])?;
    let x = call.input(0)?;
    Ok(one(on.reduce_max(x, &spatial(x), true)?))
}
