//! Rules of operators that move windows over images: convolution, pooling, regions, grids, resizing.

use super::operators::{At, Types, tensor, with};
use crate::DataType;
use crate::graph::Dim;

/// How a window moves along one dimension.
struct Step {
    kernel: Dim,
    stride: usize,
    dilation: usize,
    pads: usize,
}

/// Reads how a window of these extents moves; none where a list has another length.
fn steps(at: At<'_>, kernel: &[Dim]) -> Option<Vec<Step>> {
    let rank = kernel.len();
    let list = |name, default: i64, count: usize| -> Option<Vec<usize>> {
        let given = at.ints(name).filter(|v| !v.is_empty());
        let list = given.map_or_else(|| vec![default; count], <[i64]>::to_vec);
        let sizes = list.iter().map(|&v| usize::try_from(v).ok()).collect::<Option<Vec<_>>>()?;
        (sizes.len() == count).then_some(sizes)
    };
    let (strides, dilations) = (list("strides", 1, rank)?, list("dilations", 1, rank)?);
    let pads = list("pads", 0, rank.checked_mul(2)?)?;
    let (before, after) = pads.split_at_checked(rank)?;
    let pads = before.iter().zip(after).map(|(a, b)| a.checked_add(*b)).collect::<Option<Vec<_>>>()?;
    let lists = strides.into_iter().zip(dilations).zip(pads);
    Some(
        kernel
            .iter()
            .zip(lists)
            .map(|(kernel, ((stride, dilation), pads))| Step {
                kernel: kernel.clone(),
                stride,
                dilation,
                pads,
            })
            .collect(),
    )
}

/// How many windows there are along one dimension.
fn count(at: At<'_>, extent: &Dim, step: &Step) -> Option<Dim> {
    let stride = step.stride;
    Some(match at.text("auto_pad", "NOTSET")? {
        "SAME_UPPER" | "SAME_LOWER" => with(extent, |n| (stride > 0).then(|| n.div_ceil(stride))),
        word => {
            let Dim::Known(kernel) = step.kernel else { return Some(Dim::Unknown) };
            let pads = if word == "VALID" { 0 } else { step.pads };
            with(extent, |n| {
                let span = kernel.checked_sub(1)?.checked_mul(step.dilation)?.checked_add(1)?;
                let room = n.checked_add(pads)?.checked_sub(span)?;
                room.checked_div(stride)?.checked_add(1)
            })
        }
    })
}

fn windows(at: At<'_>, spatial: &[Dim], kernel: &[Dim]) -> Option<Vec<Dim>> {
    if spatial.len() != kernel.len() {
        return None;
    }
    let steps = steps(at, kernel)?;
    spatial.iter().zip(&steps).map(|(extent, step)| count(at, extent, step)).collect()
}

fn kernel(at: At<'_>) -> Option<Vec<Dim>> {
    at.ints("kernel_shape")?.iter().map(|&k| usize::try_from(k).ok().map(Dim::Known)).collect()
}

/// Pooling; a mode that rounds up is left to whoever runs it, as it depends on the padding where the last window begins.
pub(super) fn pool(at: At<'_>) -> Option<Types> {
    let shape = || {
        let [n, c, spatial @ ..] = at.dims(0)? else { return None };
        let pooled = match at.int("ceil_mode", 0)? {
            0 => windows(at, spatial, &kernel(at)?)?,
            _ => vec![Dim::Unknown; spatial.len()],
        };
        Some([&[n.clone(), c.clone()], pooled.as_slice()].concat())
    };
    let shape = shape();
    Some(vec![tensor(at.dtype(0), shape.clone()), tensor(Some(DataType::I64), shape)])
}

pub(super) fn global_pool(at: At<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| {
        let [n, c, spatial @ ..] = x else { return None };
        Some([&[n.clone(), c.clone()], vec![Dim::Known(1); spatial.len()].as_slice()].concat())
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// The extents of the convolution of the operand 0 with the kernels that are the operand `weights`.
fn convolved(at: At<'_>, weights: usize) -> Option<Vec<Dim>> {
    let [n, _, spatial @ ..] = at.dims(0)? else { return None };
    let [channels, _, kernel @ ..] = at.dims(weights)? else { return None };
    Some([&[n.clone(), channels.clone()], windows(at, spatial, kernel)?.as_slice()].concat())
}

pub(super) fn conv(at: At<'_>) -> Option<Types> {
    at.one(at.dtype(0), convolved(at, 1))
}

pub(super) fn conv_integer(at: At<'_>) -> Option<Types> {
    at.one(Some(DataType::I32), convolved(at, 1))
}

pub(super) fn qlinear_conv(at: At<'_>) -> Option<Types> {
    at.one(at.dtype(7), convolved(at, 3))
}

pub(super) fn conv_transpose(at: At<'_>) -> Option<Types> {
    let shape = || {
        let [n, _, spatial @ ..] = at.dims(0)? else { return None };
        let [_, channels, kernel @ ..] = at.dims(1)? else { return None };
        let group = usize::try_from(at.int("group", 1)?).ok()?;
        let channels = with(channels, |c| c.checked_mul(group));
        let plain = at.text("auto_pad", "NOTSET") == Some("NOTSET") && at.ints("output_shape").is_none();
        if !plain || spatial.len() != kernel.len() {
            return Some([&[n.clone(), channels], vec![Dim::Unknown; spatial.len()].as_slice()].concat());
        }
        let more = at.ints("output_padding").map_or_else(|| vec![0; kernel.len()], <[i64]>::to_vec);
        let grown = |((extent, step), more): ((&Dim, &Step), &i64)| {
            let Dim::Known(kernel) = step.kernel else { return Dim::Unknown };
            with(extent, |n| {
                let span = kernel.checked_sub(1)?.checked_mul(step.dilation)?.checked_add(1)?;
                let whole = n.checked_sub(1)?.checked_mul(step.stride)?.checked_add(span)?;
                whole.checked_add(usize::try_from(*more).ok()?)?.checked_sub(step.pads)
            })
        };
        let steps = steps(at, kernel)?;
        let spatial: Vec<Dim> = spatial.iter().zip(&steps).zip(&more).map(grown).collect();
        (spatial.len() == kernel.len()).then(|| [&[n.clone(), channels], spatial.as_slice()].concat())
    };
    at.one(at.dtype(0), shape())
}

/// The extents that `sizes` sets, where they are set for all dimensions as they are; otherwise the rank alone.
pub(super) fn resize(at: At<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| {
        let plain = at.node.attributes.get("axes").is_none()
            && at.text("keep_aspect_ratio_policy", "stretch") == Some("stretch");
        let sizes = if plain { at.extents(3).filter(|s| s.len() == x.len()) } else { None };
        sizes.unwrap_or_else(|| vec![Dim::Unknown; x.len()])
    };
    at.one(at.dtype(0), at.dims(0).map(shape))
}

fn regions(at: At<'_>, spatial: [Dim; 2]) -> Option<Types> {
    let shape = || {
        let ([_, channels, ..], [count, ..]) = (at.dims(0)?, at.dims(1)?) else { return None };
        let [height, width] = spatial;
        Some(vec![count.clone(), channels.clone(), height, width])
    };
    at.one(at.dtype(0), shape())
}

pub(super) fn roi_align(at: At<'_>) -> Option<Types> {
    let extent = |name| usize::try_from(at.int(name, 1)?).ok().map(Dim::Known);
    regions(at, [extent("output_height")?, extent("output_width")?])
}

pub(super) fn max_roi_pool(at: At<'_>) -> Option<Types> {
    let [height, width] = at.ints("pooled_shape")? else { return None };
    let extent = |v: &i64| usize::try_from(*v).ok().map(Dim::Known);
    regions(at, [extent(height)?, extent(width)?])
}

pub(super) fn grid_sample(at: At<'_>) -> Option<Types> {
    let shape = || {
        let ([n, c, ..], [_, spatial @ .., _]) = (at.dims(0)?, at.dims(1)?) else { return None };
        Some([&[n.clone(), c.clone()], spatial].concat())
    };
    at.one(at.dtype(0), shape())
}

pub(super) fn affine_grid(at: At<'_>) -> Option<Types> {
    let shape = || {
        let size = at.extents(1)?;
        let [n, _, spatial @ ..] = size.as_slice() else { return None };
        Some([std::slice::from_ref(n), spatial, &[Dim::Known(spatial.len())]].concat())
    };
    at.one(at.dtype(0), shape())
}
