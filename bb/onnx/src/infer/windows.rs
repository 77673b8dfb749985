//! Rules of operators that move windows over images: convolution, pooling, regions, grids.

use bb_ir::DataType;
use bb_ir::graph::Dim;
use bb_ir::infer::rule::{At, Types, tensor};
use bb_ir::infer::rule::{divided, extent, product, scaled, shifted, told};
use bb_ir::infer::{self, Extent, Padding, Step};

/// Reads how a window of these extents moves, and who says how much padding there is.
fn steps(at: At<'_>, kernel: &[Dim]) -> Option<(Vec<Step<Dim>>, Padding)> {
    let list = |name| at.ints(name).unwrap_or_default();
    let steps = Step::of(kernel, list("strides"), list("pads"), list("dilations"))?;
    Some((steps.collect(), Padding::of(at.text("auto_pad", "NOTSET")?)?))
}

fn windows(at: At<'_>, spatial: &[Dim], kernel: &[Dim], ceil: bool) -> Option<Vec<Dim>> {
    let (steps, padding) = steps(at, kernel)?;
    infer::windows(spatial, &steps, padding, ceil).map(infer::Extents::into_vec)
}

fn kernel(at: At<'_>) -> Option<Vec<Dim>> {
    Some(at.ints("kernel_shape")?.iter().map(|&k| extent(k)).collect())
}

/// What pooling makes of these extents, the channels second.
fn pooled(at: At<'_>, x: &[Dim]) -> Option<Vec<Dim>> {
    let [n, c, spatial @ ..] = x else { return None };
    let pooled = windows(at, spatial, &kernel(at)?, at.int("ceil_mode", 0)? != 0)?;
    Some([&[n.clone(), c.clone()], pooled.as_slice()].concat())
}

pub(crate) fn pool(at: At<'_>) -> Option<Types> {
    let shape = at.dims(0).and_then(|x| pooled(at, x));
    Some(vec![tensor(at.dtype(0), shape.clone()), tensor(Some(DataType::I64), shape)])
}

fn whole(x: &[Dim]) -> Option<Vec<Dim>> {
    let [n, c, spatial @ ..] = x else { return None };
    Some([&[n.clone(), c.clone()], vec![Dim::Known(1); spatial.len()].as_slice()].concat())
}

pub(crate) fn global_pool(at: At<'_>) -> Option<Types> {
    at.one(at.dtype(0), at.dims(0).and_then(whole))
}

/// What `f` makes of the extents with the channels second, which are last before and after.
fn last(x: &[Dim], f: impl FnOnce(&[Dim]) -> Option<Vec<Dim>>) -> Option<Vec<Dim>> {
    let [n, spatial @ .., c] = x else { return None };
    let y = f(&[&[n.clone(), c.clone()], spatial].concat())?;
    let [n, c, spatial @ ..] = y.as_slice() else { return None };
    Some([std::slice::from_ref(n), spatial, std::slice::from_ref(c)].concat())
}

/// What `f` makes of the extents, the channels of which may be last.
fn last_or_second(at: At<'_>, f: impl FnOnce(&[Dim]) -> Option<Vec<Dim>>) -> Option<Vec<Dim>> {
    let x = at.dims(0)?;
    if at.int("channels_last", 0)? == 0 { f(x) } else { last(x, f) }
}

pub(crate) fn qlinear_pool(at: At<'_>) -> Option<Types> {
    at.one(at.dtype(0), last_or_second(at, |x| pooled(at, x)))
}

pub(crate) fn qlinear_global_pool(at: At<'_>) -> Option<Types> {
    at.one(at.dtype(0), last_or_second(at, whole))
}

/// `NhwcMaxPool`: the channels last.
pub(crate) fn nhwc_pool(at: At<'_>) -> Option<Types> {
    at.one(at.dtype(0), at.dims(0).and_then(|x| last(x, |x| pooled(at, x))))
}

/// Pooling of all that is between the first dimension and the last, the channels.
pub(crate) fn nhwc_global_pool(at: At<'_>) -> Option<Types> {
    at.one(at.dtype(0), at.dims(0).and_then(|x| last(x, whole)))
}

/// A convolution whose channels are last, but for those of the filters.
pub(crate) fn nhwc_conv(at: At<'_>) -> Option<Types> {
    at.one(at.dtype(0), at.dims(0).and_then(|x| last(x, |x| convolved(at, x, 1))))
}

/// `ReorderInput`: the channels second, and as many as whole blocks have, of a size that the graph tells or the processor.
pub(crate) fn reorder_input(at: At<'_>) -> Option<Types> {
    let shape = || {
        let [n, rest @ ..] = at.dims(0)? else { return None };
        let [a, b, c] = rest else { return None };
        let [c, h, w] = if at.int("channels_last", 0)? == 0 { [a, b, c] } else { [c, a, b] };
        let whole = c.number().is_some_and(|c| c % 16 == 0);
        Some(vec![n.clone(), if whole { c.clone() } else { Dim::Unknown }, h.clone(), w.clone()])
    };
    at.one(at.dtype(0), shape())
}

/// `ReorderOutput`: as many channels as are told.
pub(crate) fn reorder_output(at: At<'_>) -> Option<Types> {
    let shape = || {
        let [n, _, h, w] = at.dims(0)? else { return None };
        let c = extent(at.int("channels", 0)?);
        Some(match at.int("channels_last", 0)? != 0 {
            true => vec![n.clone(), h.clone(), w.clone(), c],
            false => vec![n.clone(), c, h.clone(), w.clone()],
        })
    };
    at.one(at.dtype(0), shape())
}

/// `Upsample` of blocks of channels: each extent so many times.
pub(crate) fn scaled_by_ints(at: At<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| {
        let scales = at.ints("scales")?;
        (scales.len() == x.len()).then(|| x.iter().zip(scales).map(|(d, &n)| scaled(d, n)).collect())
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// The extents of the convolution of `x` with the kernels that are the operand `weights`.
fn convolved(at: At<'_>, x: &[Dim], weights: usize) -> Option<Vec<Dim>> {
    let [n, _, spatial @ ..] = x else { return None };
    let [channels, _, kernel @ ..] = at.dims(weights)? else { return None };
    Some([&[n.clone(), channels.clone()], windows(at, spatial, kernel, false)?.as_slice()].concat())
}

pub(crate) fn conv(at: At<'_>) -> Option<Types> {
    at.one(at.dtype(0), at.dims(0).and_then(|x| convolved(at, x, 1)))
}

pub(crate) fn conv_integer(at: At<'_>) -> Option<Types> {
    at.one(Some(DataType::I32), at.dims(0).and_then(|x| convolved(at, x, 1)))
}

pub(crate) fn qlinear_conv(at: At<'_>) -> Option<Types> {
    at.one(at.dtype(7), last_or_second(at, |x| convolved(at, x, 3)))
}

/// What a transposed convolution with these steps makes of the spatial extents.
fn grown(at: At<'_>, spatial: &[Dim], steps: &[Step<Dim>], padding: Padding) -> Option<Vec<Dim>> {
    let more = at.ints("output_padding").filter(|v| !v.is_empty());
    let more = more.map_or_else(|| vec![0; steps.len()], <[i64]>::to_vec);
    if more.len() != steps.len() || spatial.len() != steps.len() {
        return None;
    }
    let lists = spatial.iter().zip(steps).zip(more);
    Some(lists.map(|((extent, step), more)| told(step.grown(extent, padding, more))).collect())
}

pub(crate) fn conv_transpose(at: At<'_>) -> Option<Types> {
    let shape = || {
        let [n, _, spatial @ ..] = at.dims(0)? else { return None };
        let [_, channels, kernel @ ..] = at.dims(1)? else { return None };
        let channels = scaled(channels, at.int("group", 1)?);
        let spatial: Vec<Dim> = if let Some(given) = at.ints("output_shape").filter(|s| !s.is_empty()) {
            // Some list the extents of all dimensions.
            let from = given.len().checked_sub(kernel.len()).filter(|_| spatial.len() == kernel.len())?;
            given.get(from..)?.iter().map(|&d| extent(d)).collect()
        } else {
            let (steps, padding) = steps(at, kernel)?;
            grown(at, spatial, &steps, padding)?
        };
        Some([&[n.clone(), channels], spatial.as_slice()].concat())
    };
    at.one(at.dtype(0), shape())
}

/// `ConvTransposeWithDynamicPads`: the paddings are operand 2.
pub(crate) fn conv_transpose_with_pads(at: At<'_>) -> Option<Types> {
    let shape = || {
        let [n, _, spatial @ ..] = at.dims(0)? else { return None };
        let [_, channels, kernel @ ..] = at.dims(1)? else { return None };
        let known = || {
            let pads = if at.has(2) { at.list("pads", 2)? } else { Vec::new() };
            let list = |name| at.ints(name).unwrap_or_default();
            let steps = Step::of(kernel, list("strides"), &pads, list("dilations"))?;
            let steps: Vec<Step<Dim>> = steps.collect();
            grown(at, spatial, &steps, Padding::of(at.text("auto_pad", "NOTSET")?)?)
        };
        let spatial = known().unwrap_or_else(|| vec![Dim::Unknown; kernel.len()]);
        Some([&[n.clone(), scaled(channels, at.int("group", 1)?)], spatial.as_slice()].concat())
    };
    at.one(at.dtype(0), shape())
}

/// `CropAndResize`: an image for each box, of a size that is operand 3.
pub(crate) fn crop_and_resize(at: At<'_>) -> Option<Types> {
    let shape = || {
        let ([_, channels, ..], [count, _]) = (at.dims(0)?, at.dims(1)?) else { return None };
        let size = at.extents(3).filter(|size| size.len() == 2).unwrap_or_else(|| vec![Dim::Unknown; 2]);
        Some([&[count.clone(), channels.clone()], size.as_slice()].concat())
    };
    at.one(at.dtype(0), shape())
}

pub(crate) fn deform_conv(at: At<'_>) -> Option<Types> {
    at.one(at.dtype(0), at.dims(0).and_then(|x| convolved(at, x, 1)))
}

/// `MaxUnpool`: the extents that are an operand, or those of which pooling makes the operand's.
pub(crate) fn max_unpool(at: At<'_>) -> Option<Types> {
    let shape = || {
        let x = at.dims(0)?;
        if at.has(2) {
            let given = at.extents(2).filter(|given| given.len() == x.len());
            return Some(given.unwrap_or_else(|| vec![Dim::Unknown; x.len()]));
        }
        let [n, c, spatial @ ..] = x else { return None };
        // Dilations have no part in it.
        let list = |name| at.ints(name).unwrap_or_default();
        let kernel = kernel(at)?;
        let steps = Step::of(&kernel, list("strides"), list("pads"), &[])?;
        if steps.len() != spatial.len() {
            return None;
        }
        let lists = spatial.iter().zip(steps);
        let spatial: Vec<Dim> = lists.map(|(n, step)| told(step.grown(n, Padding::Given, 0))).collect();
        Some([&[n.clone(), c.clone()], spatial.as_slice()].concat())
    };
    at.one(at.dtype(0), shape())
}

/// `Col2Im`: blocks of the operand 2 make an image of the operand 1.
pub(crate) fn col2im(at: At<'_>) -> Option<Types> {
    let shape = || {
        let [n, depth, _] = at.dims(0)? else { return None };
        // As many as there are strides, where their number is not their operand's.
        let listed = |name| at.ints(name).map(<[i64]>::len);
        let rank = listed("strides").or(listed("dilations")).or(listed("pads").map(|n| n / 2));
        let image = at.extents(1).or_else(|| at.open_extents(1)).or(rank.map(|n| vec![Dim::Unknown; n]))?;
        let block = at.extents(2).map_or(Dim::Unknown, |block| product(&block));
        let channels = told(depth.exact_div(&block));
        Some([&[n.clone(), channels], image.as_slice()].concat())
    };
    at.one(at.dtype(0), shape())
}

fn regions(at: At<'_>, spatial: [Dim; 2]) -> Option<Types> {
    let shape = || {
        let ([_, channels, ..], [count, ..]) = (at.dims(0)?, at.dims(1)?) else { return None };
        let [height, width] = spatial;
        Some(vec![count.clone(), channels.clone(), height, width])
    };
    at.one(at.dtype(0), shape())
}

pub(crate) fn roi_align(at: At<'_>) -> Option<Types> {
    regions(at, [extent(at.int("output_height", 1)?), extent(at.int("output_width", 1)?)])
}

pub(crate) fn max_roi_pool(at: At<'_>) -> Option<Types> {
    let [height, width] = at.ints("pooled_shape")? else { return None };
    regions(at, [extent(*height), extent(*width)])
}

pub(crate) fn grid_sample(at: At<'_>) -> Option<Types> {
    let shape = || {
        let ([n, c, ..], [_, spatial @ .., _]) = (at.dims(0)?, at.dims(1)?) else { return None };
        Some([&[n.clone(), c.clone()], spatial].concat())
    };
    at.one(at.dtype(0), shape())
}

pub(crate) fn affine_grid(at: At<'_>) -> Option<Types> {
    let shape = || {
        let size = at.extents(1).or_else(|| at.open_extents(1))?;
        let [n, _, spatial @ ..] = size.as_slice() else { return None };
        let n = if *n == Dim::Unknown { at.dims(0)?.first()? } else { n };
        Some([std::slice::from_ref(n), spatial, &[Dim::Known(spatial.len())]].concat())
    };
    at.one(at.dtype(0), shape())
}

/// `CenterCropPad`: the extents that are an operand, for the axes that are named.
pub(crate) fn center_crop_pad(at: At<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| {
        let Some(axes) = at.ints("axes") else {
            return Some(at.extents(1).unwrap_or_else(|| vec![Dim::Unknown; x.len()]));
        };
        let wanted = at.extents(1).unwrap_or_else(|| vec![Dim::Unknown; axes.len()]);
        at.with_axes(x, axes, &wanted)
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// Three channels, or one where the pixels are grey, of an image whose extents its bytes tell.
pub(crate) fn image_decoder(at: At<'_>) -> Option<Types> {
    let channels = if at.text("pixel_format", "RGB")? == "Grayscale" { 1 } else { 3 };
    at.one(Some(DataType::U8), Some(vec![Dim::Unknown, Dim::Unknown, Dim::Known(channels)]))
}

/// `STFT`: a transform of each frame of a signal.
pub(crate) fn stft(at: At<'_>) -> Option<Types> {
    let shape = || {
        let [batch, samples, ..] = at.dims(0)? else { return None };
        let length = if at.has(3) { at.extent(3) } else { at.dims(2).map_or(Dim::Unknown, product) };
        let frames = match at.scalar(1) {
            Some(step @ 1..) => {
                let whole = Step { kernel: length.clone(), stride: step, dilation: 1, before: 0, after: 0 };
                told(whole.count(samples, Padding::Given, false))
            }
            _ => Dim::Unknown,
        };
        let bins = if at.int("onesided", 1)? == 0 { length } else { shifted(&divided(&length, 2), 1) };
        Some(vec![batch.clone(), frames, bins, Dim::Known(2)])
    };
    at.one(at.dtype(0), shape())
}

/// `DFT`: of as many frequencies as it is long, or half of them, or back.
pub(crate) fn dft(at: At<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| {
        let axis = if at.node.opset < 20 {
            at.int("axis", 1)?
        } else if at.has(2) {
            match at.scalar(2) {
                Some(axis) => axis,
                None => return of_some_axis(at, x),
            }
        } else {
            -2
        };
        let axis = bb_ir::infer::rule::axis(axis, x.len())?;
        let (inverse, onesided) = (at.int("inverse", 0)? != 0, at.int("onesided", 0)? != 0);
        let own = x.get(axis)?;
        let length = match (at.has(1), inverse && onesided) {
            (true, _) => at.extent(1),
            (false, true) => scaled(&shifted(own, -1), 2),
            (false, false) => own.clone(),
        };
        let mut out = x.to_vec();
        *out.get_mut(axis)? = if onesided && !inverse { shifted(&divided(&length, 2), 1) } else { length };
        // Of half the frequencies a real signal comes back.
        *out.last_mut()? = Dim::Known(if inverse && onesided { 1 } else { 2 });
        Some(out)
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// What is known of a transform although its axis is not.
fn of_some_axis(at: At<'_>, x: &[Dim]) -> Option<Vec<Dim>> {
    let (inverse, onesided) = (at.int("inverse", 0)? != 0, at.int("onesided", 0)? != 0);
    let keeps = !at.has(1) && !onesided;
    let mut out = if keeps { x.to_vec() } else { vec![Dim::Unknown; x.len()] };
    *out.last_mut()? = Dim::Known(if inverse && onesided { 1 } else { 2 });
    Some(out)
}

pub(crate) fn mel_weights(at: At<'_>) -> Option<Types> {
    let bins = shifted(&divided(&at.extent(1), 2), 1);
    at.one(at.type_attribute("output_datatype", Some(DataType::F32)), Some(vec![bins, at.extent(0)]))
}
