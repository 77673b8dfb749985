//! Operators that ONNX Runtime had before ONNX, or that it has with different operands.

use super::only;
use bb_core::error::NodePart;
use bb_core::operator::{Call, OpOutputs, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TracedTensor, Tracer};
use bb_core::{DataType, Error};
use bb_ir::TensorData;
use bb_ir::graph::Dim;
use bb_ir::infer::rule::{self, NodeFacts, Types};
use bb_onnx::shared::operators;
use bb_onnx::shared::{grid, selection, shape, window};

operators! {
    "com.microsoft" {
        ConvTransposeWithDynamicPads => Primitives(conv_transpose_with_dynamic_pads), infer: By(conv_transpose_types), halves: Once;
        ExpandDims => Primitives(expand_dims), infer: By(expand_dims_types), halves: Moves;
        GatherND => Primitives(gather_nd), infer: By(gather_nd_types), halves: Moves;
        GridSample => Primitives(grid_sample), infer: By(grid_sample_types), becomes: ImageOp::GridSample, halves: Once;
        Pad => Primitives(pad), infer: By(pad_types), becomes: NnOp::Pad, halves: Moves;
        Range => Primitives(range), infer: By(range_types), becomes: CreateOp::Range, halves: Once;
        Trilu => Primitives(trilu), infer: Same, halves: Moves;
        Unique => Host(unique), infer: By(unique_types);
    }
}

/// Infers the type of `ConvTransposeWithDynamicPads`. The paddings are operand 2.
fn conv_transpose_types(at: NodeFacts<'_>) -> Option<Types> {
    let pads = if at.has(2) { at.list("pads", 2) } else { Some(Vec::new()) };
    at.one(at.dtype(0), window::transposed_shape(at, pads.as_deref()))
}

/// `ConvTransposeWithDynamicPads`: `ConvTranspose` with the paddings as operand 2.
pub(crate) fn conv_transpose_with_dynamic_pads(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["auto_pad", "dilations", "group", "kernel_shape", "output_padding", "strides"])?;
    let pads = call.optional(2).map(|pads| on.ints(pads)).transpose()?;
    Ok(one(window::plain_conv_transpose(on, call, pads, call.optional(3))?))
}

/// Infers the type of `ExpandDims`: a new dimension of extent 1.
fn expand_dims_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| {
        let mut out = x.to_vec();
        match at.scalar(1) {
            Some(at) => out.insert(rule::axis(at, x.len() + 1)?, Dim::Known(1)),
            None => out = vec![Dim::Unknown; x.len() + 1],
        }
        Some(out)
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// `ExpandDims`: inserts a dimension of extent 1.
pub(crate) fn expand_dims(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &[])?;
    match on.ints(call.input(1)?)?.as_slice() {
        &[axis] => Ok(one(on.unsqueeze(call.input(0)?, &[axis])?)),
        axes => Err(call.wrong("axis", format!("has {} elements, expected 1", axes.len())).into()),
    }
}

fn gather_nd_types(at: NodeFacts<'_>) -> Option<Types> {
    shape::gather_nd_types(at)
}

/// `GatherND`.
pub(crate) fn gather_nd(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &[])?;
    shape::gather_nd(on, call)
}

fn grid_sample_types(at: NodeFacts<'_>) -> Option<Types> {
    grid::grid_sample_types(at)
}

/// `GridSample`.
pub(crate) fn grid_sample(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["align_corners", "mode", "padding_mode"])?;
    grid::grid_sample(on, call)
}

fn pad_types(at: NodeFacts<'_>) -> Option<Types> {
    shape::pad_types(at)
}

/// `Pad`. The paddings may be a matrix with one row.
pub(crate) fn pad(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["mode"])?;
    shape::pad(on, call)
}

fn range_types(at: NodeFacts<'_>) -> Option<Types> {
    shape::range_types(at)
}

/// `Range`. Without a step operand, the step is 1.
pub(crate) fn range(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &[])?;
    let (first, last) = (call.input(0)?, call.input(1)?);
    match call.optional(2) {
        Some(step) => shape::range_of(on, call, first, last, step),
        None => shape::range_of(on, call, first, last, &on.scalar_like(first, 1.0)?),
    }
}

/// `Trilu`.
pub(crate) fn trilu(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["upper"])?;
    shape::trilu(on, call)
}

/// Infers the types of ONNX Runtime's `Unique`, for a vector. Unlike ONNX's, it has no indices of first occurrences.
fn unique_types(at: NodeFacts<'_>) -> Option<Types> {
    let list = |dtype, shape| rule::tensor(dtype, shape);
    let open = Some(vec![Dim::Unknown]);
    Some(vec![
        list(at.dtype(0), open.clone()),
        list(Some(DataType::I64), at.same()),
        list(Some(DataType::I64), open),
    ])
}

/// `Unique`: the distinct elements of a vector in order of first occurrence, the index of each element among them, and their counts.
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
