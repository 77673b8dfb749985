//! Operators that ONNX Runtime had before ONNX had them, or has with another operand.

use super::only;
use crate::infer;
use crate::rows::operators;
use crate::{grid, selection, shape, window};
use bb_core::Error;
use bb_core::error::NodePart;
use bb_core::ext::Ops;
use bb_core::operator::{Call, OpOutputs, OpResult, one};
use bb_ir::TensorData;

operators! {
    "com.microsoft" {
        ConvTransposeWithDynamicPads => Primitives(conv_transpose_with_dynamic_pads), infer: By(infer::windows::conv_transpose_with_pads), halves: Once;
        ExpandDims => Primitives(expand_dims), infer: By(infer::movement::expand_dims), halves: Moves;
        GatherND => Primitives(gather_nd), infer: By(infer::movement::gather_nd), halves: Moves;
        GridSample => Primitives(grid_sample), infer: By(infer::windows::grid_sample), becomes: ImageOp::GridSample, halves: Once;
        Pad => Primitives(pad), infer: By(infer::movement::pad), becomes: NnOp::Pad, halves: Moves;
        Range => Primitives(range), infer: By(infer::movement::range), becomes: CreateOp::Range, halves: Once;
        Trilu => Primitives(trilu), infer: Same, halves: Moves;
        Unique => Host(unique), infer: By(infer::ml::unique_in_order);
    }
}

/// `ConvTransposeWithDynamicPads`: `ConvTranspose`, whose paddings are operand 2.
pub(crate) fn conv_transpose_with_dynamic_pads<B: Ops + ?Sized>(
    on: &B,
    call: &Call<'_, B::Tensor>,
) -> OpResult<B> {
    only(call, &["auto_pad", "dilations", "group", "kernel_shape", "output_padding", "strides"])?;
    let pads = call.optional(2).map(|pads| on.ints(pads)).transpose()?;
    Ok(one(window::plain_conv_transpose(on, call, pads, call.optional(3))?))
}

/// `ExpandDims`: a new dimension of one element.
pub(crate) fn expand_dims<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    only(call, &[])?;
    match on.ints(call.input(1)?)?.as_slice() {
        &[axis] => Ok(one(on.unsqueeze(call.input(0)?, &[axis])?)),
        axes => Err(call.wrong("axis", format!("has {} elements, expected 1", axes.len())).into()),
    }
}

/// `GatherND`.
pub(crate) fn gather_nd<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    only(call, &[])?;
    shape::gather_nd(on, call)
}

/// `GridSample`.
pub(crate) fn grid_sample<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    only(call, &["align_corners", "mode", "padding_mode"])?;
    grid::grid_sample(on, call)
}

/// `Pad`: the paddings may be a row of a matrix.
pub(crate) fn pad<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    only(call, &["mode"])?;
    shape::pad(on, call)
}

/// `Range`: by steps of 1 unless they are given.
pub(crate) fn range<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    only(call, &[])?;
    let (first, last) = (call.input(0)?, call.input(1)?);
    match call.optional(2) {
        Some(step) => shape::range_of(on, call, first, last, step),
        None => shape::range_of(on, call, first, last, &on.scalar_like(first, 1.0)?),
    }
}

/// `Trilu`.
pub(crate) fn trilu<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    only(call, &["upper"])?;
    shape::trilu(on, call)
}

/// `Unique`: the elements of a vector in the order in which they come first, which each is, and how often it occurs.
pub(crate) fn unique(call: &Call<'_, TensorData>) -> Result<OpOutputs<TensorData>, Error> {
    only(call, &[])?;
    let x = call.input(0)?;
    if x.shape().len() != 1 {
        let problem = format!("has the shape {:?}, expected a vector", x.shape());
        return Err(call.wrong(NodePart::Operand(0), problem));
    }
    let found = selection::unique_by(x, 0, false)?;
    Ok([0, 2, 3].into_iter().map(|result| found.get(result).cloned().flatten()).collect())
}
