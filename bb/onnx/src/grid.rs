//! Samples images at positions that tensors specify: `GridSample`, `AffineGrid`, and deformable
//! convolutions.

use super::rows::operators;
use super::window::{conv_shape, filter_kernel, numbers};
use bb_core::error::NodePart;
use bb_core::ext::{DeformConvOptions, GridSampleOptions, Interpolation, SamplePadding, math};
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::graph::Dim;
use bb_ir::infer::rule::{NodeFacts, Types};
use bb_ir::memory;

operators! {
    "" {
        AffineGrid => Primitives(affine_grid), infer: By(affine_grid_types);
        DeformConv => Primitives(deform_conv), infer: By(deform_conv_types), becomes: ImageOp::DeformConv, halves: Once;
        GridSample => Primitives(grid_sample), infer: By(grid_sample_types), becomes: ImageOp::GridSample, halves: Once;
    }
}

/// Infers the type of `GridSample`, with the spatial extents of the grid and the channels of the image.
pub fn grid_sample_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = || {
        let ([n, c, ..], [_, spatial @ .., _]) = (at.dims(0)?, at.dims(1)?) else { return None };
        Some([&[n.clone(), c.clone()], spatial].concat())
    };
    at.one(at.dtype(0), shape())
}

/// `GridSample`. The modes had other names before opset 20.
pub fn grid_sample(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let default = if call.opset() < 20 { "bilinear" } else { "linear" };
    let mode = call.word("mode", default, |op, text| match text {
        "bilinear" => Ok(Interpolation::Linear),
        "bicubic" => Ok(Interpolation::Cubic),
        text => Interpolation::of(op, text),
    })?;
    let padding = call.word("padding_mode", "zeros", SamplePadding::of)?;
    let options = GridSampleOptions { mode, padding, align_corners: call.flag("align_corners", false)? };
    Ok(one(on.grid_sample(call.input(0)?, call.input(1)?, options)?))
}

fn affine_grid_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = || {
        let size = at.extents(1).or_else(|| at.open_extents(1))?;
        let [n, _, spatial @ ..] = size.as_slice() else { return None };
        let n = if *n == Dim::Unknown { at.dims(0)?.first()? } else { n };
        Some([std::slice::from_ref(n), spatial, &[Dim::Known(spatial.len())]].concat())
    };
    at.one(at.dtype(0), shape())
}

/// `AffineGrid`: the coordinates of a grid, each transformed by an affine matrix.
pub(super) fn affine_grid(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let theta = call.input(0)?;
    let size = super::shape::sizes(on, call, 1)?;
    let (&[n, rows, columns], [_, _, dims @ ..]) = (theta.shape(), &size[..]) else {
        return Err(call
            .wrong(NodePart::Operand(0), format!("has rank {}, expected 3", theta.rank()))
            .into());
    };
    if rows != dims.len() || columns != rows + 1 || rows == 0 {
        let problem = format!("is {size:?}, which does not fit matrices of {rows} times {columns}");
        return Err(call.wrong("size", problem).into());
    }
    let centres = call.flag("align_corners", false)?;
    let count = bb_ir::element_count(dims).and_then(|n| n.checked_mul(columns)).filter(|&n| n <= MOST);
    let count =
        count.ok_or_else(|| call.wrong("size", format!("is {size:?}, too many positions")))? / columns;
    let mut points = memory::filled("AffineGrid", 1.0, count * columns).map_err(Error::from)?;
    let mut inner = 1;
    // The coordinates are in reverse order of the dimensions: the innermost dimension is the first one.
    for (coordinate, &extent) in dims.iter().rev().enumerate() {
        for (place, point) in points.chunks_mut(columns).enumerate() {
            let i = (place / inner % extent) as f64;
            let value = match (centres, extent) {
                (true, 1) => -1.0,
                (true, _) => -1.0 + 2.0 * i / (extent as f64 - 1.0),
                (false, _) => -1.0 + (2.0 * i + 1.0) / extent as f64,
            };
            if let Some(slot) = point.get_mut(coordinate) {
                *slot = value;
            }
        }
        inner *= extent;
    }
    let y = math::widened(on, theta, DataType::F32, |theta| {
        let points = math::to(on, &on.host(&[count, columns], &points)?, theta.dtype())?;
        on.matmul(&points, &on.transpose(theta, &[0, 2, 1])?)
    })?;
    let shape: Vec<usize> = [n].into_iter().chain(dims.iter().copied()).chain([rows]).collect();
    Ok(one(on.reshape(&y, &shape)?))
}

/// The maximum number of elements of a grid.
const MOST: usize = 1 << 26;

fn deform_conv_types(at: NodeFacts<'_>) -> Option<Types> {
    at.one(at.dtype(0), at.dims(0).and_then(|x| conv_shape(at, x, 1)))
}

/// `DeformConv`: a convolution that reads the elements of each window at positions shifted by offsets.
pub(super) fn deform_conv(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let (x, w, offset) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let rank = x.rank().saturating_sub(2);
    let list = |name: &str, count: usize, default: i64| numbers(call, name, count, default);
    let (strides, dilations, pads) =
        (list("strides", rank, 1)?, list("dilations", rank, 1)?, list("pads", 2 * rank, 0)?);
    let options = DeformConvOptions {
        strides: &strides,
        pads: &pads,
        dilations: &dilations,
        group: call.int_or("group", 1)?,
        offset_group: call.int_or("offset_group", 1)?,
    };
    let (bias, mask) = (call.optional(3), call.optional(4));
    filter_kernel(call, w)?;
    Ok(one(on.deform_conv(x, w, offset, bias, mask, options)?))
}
