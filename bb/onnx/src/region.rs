//! Pooling over regions of interest.

use super::attributes::Attributes;
use super::rows::operators;
use bb_core::Error;
use bb_core::ext::RoiAlignOptions;
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TracedTensor, Tracer};
use bb_ir::infer::rule::{self, NodeFacts, Types};

operators! {
    "" {
        MaxRoiPool => HostByDefault(max_roi_pool), infer: By(max_roi_pool_types), becomes: ImageOp::MaxRoiPool, halves: Once;
        RoiAlign => HostByDefault(roi_align), infer: By(roi_align_types), becomes: ImageOp::RoiAlign, halves: Once;
    }
}

/// Checks an attribute that is a number of bins.
fn bin_count<T>(call: &Call<'_, T>, name: &str, value: i64) -> Result<usize, Error> {
    usize::try_from(value).map_err(|_| call.wrong(name, format!("is {value}, expected a positive number")))
}

/// Reads the numbers of bins of `RoiAlign`, height and width.
fn bins_of<'a, A: Attributes<'a>>(node: &A) -> Result<[i64; 2], A::Error> {
    Ok([node.int_or("output_height", 1)?, node.int_or("output_width", 1)?])
}

fn roi_align_types(at: NodeFacts<'_>) -> Option<Types> {
    region_types(at, bins_of(&at).ok()?)
}

/// `RoiAlign`: pools each bin from interpolated samples.
pub(super) fn roi_align(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let (x, rois, images) = (call.input(0)?, call.input(1)?, call.input(2)?);
    let max = match call.text_or("mode", "avg")? {
        "avg" => false,
        "max" => true,
        other => return Err(call.wrong("mode", format!("is `{other}`, expected `avg` or `max`")).into()),
    };
    let default = if call.opset() < 16 { "output_half_pixel" } else { "half_pixel" };
    let shift = match call.text_or("coordinate_transformation_mode", default)? {
        "half_pixel" => 0.5,
        "output_half_pixel" => 0.0,
        other => {
            let problem = format!("is `{other}`, expected `half_pixel` or `output_half_pixel`");
            return Err(call.wrong("coordinate_transformation_mode", problem).into());
        }
    };
    let [height, width] = bins_of(call)?;
    let bins = [bin_count(call, "output_height", height)?, bin_count(call, "output_width", width)?];
    let (ratio, scale) = (call.int_or("sampling_ratio", 0)?, call.float_or("spatial_scale", 1.0)?);
    Ok(one(on.roi_align(x, rois, images, RoiAlignOptions { bins: &bins, ratio, scale, shift, max })?))
}

/// Infers the result of an operator on regions: for each region, an image with this number of bins.
fn region_types(at: NodeFacts<'_>, bins: [i64; 2]) -> Option<Types> {
    let shape = || {
        let ([_, channels, ..], [count, ..]) = (at.dims(0)?, at.dims(1)?) else { return None };
        let [height, width] = bins.map(rule::extent);
        Some(vec![count.clone(), channels.clone(), height, width])
    };
    at.one(at.dtype(0), shape())
}

fn max_roi_pool_types(at: NodeFacts<'_>) -> Option<Types> {
    let [height, width] = at.ints("pooled_shape")? else { return None };
    region_types(at, [*height, *width])
}

/// `MaxRoiPool`: the maximum of each bin.
pub(super) fn max_roi_pool(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let (x, rois) = (call.input(0)?, call.input(1)?);
    let bins = match call.ints("pooled_shape")? {
        Some(&[rows, columns]) => {
            [bin_count(call, "pooled_shape", rows)?, bin_count(call, "pooled_shape", columns)?]
        }
        other => {
            let count = other.map_or(0, <[i64]>::len);
            return Err(call.wrong("pooled_shape", format!("has {count} numbers, expected 2")).into());
        }
    };
    Ok(one(on.max_roi_pool(x, rois, &bins, call.float_or("spatial_scale", 1.0)?)?))
}
