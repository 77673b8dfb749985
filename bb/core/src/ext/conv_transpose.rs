//! The transposed convolution: each element of the operand is multiplied with the filters, and overlapping products are
//! summed.
//!
//! An ordinary convolution of the operand with zeros inserted between its elements would give the same result, except
//! that the product of an inserted zero and an infinite filter element is NaN.

use super::fold::fold;
use super::window::{REACH, Windows};
use super::{ConvTransposeOptions, Extent, fail, math, open_results, types};
use crate::error::NodePart;
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{DataType, Error, Tensor};
use bb_ir::Shape;
use bb_ir::infer::{Padding, Step};

/// The body of [`Nn::conv_transpose`](super::Nn::conv_transpose): one matrix product, whose elements are summed where
/// they overlap.
pub fn conv_transpose(
    on: &Tracer,
    x: &TracedTensor,
    w: &TracedTensor,
    bias: Option<&TracedTensor>,
    ConvTransposeOptions { strides, pads, dilations, output_padding, group }: ConvTransposeOptions<'_>,
) -> Result<TracedTensor, TraceStop> {
    let shapes =
        || bb_ir::Error::Shapes { op: "conv_transpose", left: x.shape().into(), right: w.shape().into() };
    // The number of images may be symbolic, but the windows need numbers.
    let numbers = |extents: &[Extent]| -> Vec<usize> {
        extents.iter().map(|extent| usize::try_from(extent.number()).unwrap_or(0)).collect()
    };
    let (images, filters) = (on.extents(x), on.extents(w));
    let (image, filters) = (numbers(images.get(1..).unwrap_or_default()), numbers(&filters));
    let (Some(batch), [c, spatial @ ..], [depth, m, kernel @ ..]) =
        (images.first(), &image[..], &filters[..])
    else {
        return fail(shapes());
    };
    let n = spatial.len();
    if let (Some(bias), Ok(group)) = (bias, usize::try_from(group)) {
        types::vector(on, "conv_transpose", (2, bias), &Extent::from(group.saturating_mul(*m)))?;
    }
    let g = usize::try_from(group).ok().filter(|&g| g > 0 && c.is_multiple_of(g) && c == depth);
    let fits = kernel.len() == n && (output_padding.is_empty() || output_padding.len() == n);
    let (Some(g), true) = (g, fits) else { return fail(shapes()) };
    let numbers = [strides, pads, dilations, output_padding].into_iter().flatten().map(|v| v.unsigned_abs());
    if let Some(v) = strides.iter().chain(dilations).find(|&&v| v < 1) {
        return fail(Error::Operator {
            op: "conv_transpose".to_owned(),
            part: NodePart::other("strides and dilations"),
            problem: format!("have {v}, expected positive numbers"),
        });
    }
    if numbers.chain(spatial.iter().chain(kernel).map(|&d| d as u64)).any(|v| v >= REACH) {
        return fail(shapes());
    }
    let Some(steps) = Step::of(kernel, strides, pads, dilations) else { return fail(shapes()) };
    let mut all = Vec::with_capacity(n);
    for ((i, (&out, &kernel)), step) in spatial.iter().zip(kernel).enumerate().zip(steps) {
        // Here the windows cover the result, and each window corresponds to an element of the operand. So the extent of
        // the result is computed from the number of windows.
        let more = output_padding.get(i).copied().unwrap_or(0);
        let Step { stride, dilation, before, after, .. } = step;
        let step = Step { kernel: kernel as i64, stride, dilation, before, after };
        let extent = step.grown(&(out as i64), Padding::Given, more);
        let extent = extent.and_then(|extent| usize::try_from(extent).ok()).filter(|_| kernel > 0);
        let positive = |v: i64| usize::try_from(v).ok();
        let (Some(extent), Some(stride), Some(dilation)) = (extent, positive(stride), positive(dilation))
        else {
            return fail(shapes());
        };
        all.push(Windows { extent, kernel, stride, dilation, before, after, out });
    }
    let extents: Vec<Extent> = [batch.clone(), Extent::from(g * m)]
        .into_iter()
        .chain(all.iter().map(|w| Extent::from(w.extent)))
        .collect();
    if let Some([result]) = open_results(on, &[(x.dtype(), &extents)]).as_deref() {
        return Ok(result.clone());
    }
    // 16-bit floats are summed in `f32` and rounded once.
    let wide = match x.dtype() {
        DataType::F16 | DataType::BF16 => DataType::F32,
        other => other,
    };
    let (depth, batch) = (c / g, usize::try_from(batch.number()).unwrap_or(0));
    let places: usize = kernel.iter().product();
    let elements: usize = spatial.iter().product();
    let filters = on.reshape(&math::to(on, w, wide)?, &[g, depth, m * places])?;
    let columns = on.matmul(
        &on.transpose(&filters, &[0, 2, 1])?,
        &on.reshape(&math::to(on, x, wide)?, &[batch, g, depth, elements])?,
    )?;
    let columns = on.reshape(&columns, &[batch * g * m, places, elements])?;
    let y = fold(on, &columns, &all)?;
    let shape: Shape = [batch, g * m].into_iter().chain(all.iter().map(|w| w.extent)).collect();
    let mut y = on.reshape(&y, &shape)?;
    if let Some(bias) = bias {
        let bias = super::normalize::per_channel(on, &math::to(on, bias, wide)?, shape.len())?;
        y = on.add(&y, &bias)?;
    }
    math::to(on, &y, x.dtype())
}
