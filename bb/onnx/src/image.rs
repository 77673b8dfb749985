//! Operators on images that crop, pad, fold or unpool.

use super::rows::operators;
use super::window::{Pooling, numbers};
use bb_core::error::NodePart;
use bb_core::ext::sample::blank;
use bb_core::ext::{Border, math};
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::graph::Dim;
use bb_ir::infer;
use bb_ir::infer::Extent as _;
use bb_ir::infer::rule::{self, NodeFacts, Types};
use bb_ir::{Axis, Shape};

operators! {
    "" {
        CenterCropPad => Primitives(center_crop_pad), infer: By(center_crop_pad_types), halves: Moves;
        Col2Im => Primitives(col2im), infer: By(col2im_types);
        MaxUnpool => HostByDefault(max_unpool), infer: By(max_unpool_types), becomes: ImageOp::MaxUnpool, halves: Moves;
    }
}

/// Infers the type of `CenterCropPad`: the extents in the second operand, for the axes in `axes`.
fn center_crop_pad_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| {
        let Some(axes) = at.ints("axes") else {
            return Some(at.extents(1).unwrap_or_else(|| vec![Dim::Unknown; x.len()]));
        };
        let wanted = at.extents(1).unwrap_or_else(|| vec![Dim::Unknown; axes.len()]);
        at.with_axes(x, axes, &wanted)
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// `CenterCropPad`: pads each axis. A negative padding crops.
pub(super) fn center_crop_pad(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    let wanted = super::shape::sizes(on, call, 1)?;
    let axes: Vec<usize> = match call.ints("axes")? {
        Some(axes) => {
            axes.iter().map(|&a| Ok(Axis::new(a, x.rank())?.get())).collect::<Result<_, Error>>()?
        }
        None => (0..x.rank()).collect(),
    };
    if wanted.len() != axes.len() {
        let problem = format!("has {} extents for {} axes", wanted.len(), axes.len());
        return Err(call.wrong("shape", problem).into());
    }
    let mut pads = vec![0; 2 * x.rank()];
    for (&axis, &to) in axes.iter().zip(&wanted) {
        let from = x.shape().get(axis).copied().unwrap_or(0);
        // If the difference is odd, the end gets one element more.
        let (before, after) = if to < from {
            let cut = (from - to) as i64;
            (-(cut / 2), cut / 2 - cut)
        } else {
            let more = i64::try_from(to - from).map_err(|_| call.wrong("shape", "is out of range"))?;
            (more / 2, more - more / 2)
        };
        for (at, pad) in [(axis, before), (x.rank() + axis, after)] {
            if let Some(slot) = pads.get_mut(at) {
                *slot = pad;
            }
        }
    }
    let zero = on.constant(&blank(x.dtype(), &[])?)?;
    Ok(one(on.pad(x, Some(&zero), &pads, Border::Constant)?))
}

/// Infers the type of `Col2Im`: an image with the extents in the second operand, from blocks with the
/// extents in the third.
fn col2im_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = || {
        let [n, depth, _] = at.dims(0)? else { return None };
        // If the image's rank is not known from an operand, an attribute with one element per axis
        // determines it.
        let listed = |name| at.ints(name).map(<[i64]>::len);
        let rank = listed("strides").or(listed("dilations")).or(listed("pads").map(|n| n / 2));
        let image = at.extents(1).or_else(|| at.open_extents(1)).or(rank.map(|n| vec![Dim::Unknown; n]))?;
        let block = at.extents(2).map_or(Dim::Unknown, |block| rule::product(&block));
        let channels = rule::told(depth.exact_div(&block));
        Some([&[n.clone(), channels], image.as_slice()].concat())
    };
    at.one(at.dtype(0), shape())
}

/// `Col2Im`: each element of the image is the sum of the block elements that cover it. One axis is folded
/// at a time.
pub(super) fn col2im(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    let (image, block) = (super::shape::sizes(on, call, 1)?, super::shape::sizes(on, call, 2)?);
    let n = image.len();
    let &[batch, depth, blocks] = x.shape() else {
        return Err(call.wrong(NodePart::Operand(0), format!("has rank {}, expected 3", x.rank())).into());
    };
    let list = |name: &str, count: usize, default: i64| numbers(call, name, count, default);
    let (strides, dilations, pads) =
        (list("strides", n, 1)?, list("dilations", n, 1)?, list("pads", 2 * n, 0)?);
    let shape: Vec<usize> = [batch, 1].into_iter().chain(image.iter().copied()).collect();
    let all = bb_core::ext::window::windows("col2im", &shape, &block, &strides, &pads, &dilations, false)?;
    let places = bb_ir::element_count(&block).filter(|&p| p > 0 && depth.is_multiple_of(p));
    let count: Option<usize> = all.iter().try_fold(1usize, |n, w| n.checked_mul(w.out));
    let (Some(places), true) = (places, count == Some(blocks)) else {
        let problem =
            format!("has the shape {:?}; an image of {image:?} has {count:?} blocks of {block:?}", x.shape());
        return Err(call.wrong(NodePart::Operand(0), problem).into());
    };
    let channels = depth / places;
    // Types that the reduction lacks are summed in a wider type; the sums wrap when they are narrowed.
    let summed = match x.dtype() {
        DataType::Bool | DataType::U8 | DataType::U16 => DataType::U32,
        DataType::I8 | DataType::I16 => DataType::I32,
        DataType::F16 | DataType::BF16 => DataType::F32,
        other => other,
    };
    let columns = on.reshape(&math::to(on, x, summed)?, &[batch * channels, places, blocks])?;
    let y = bb_core::ext::fold::fold(on, &columns, &all)?;
    let shape: Vec<usize> = [batch, channels].into_iter().chain(image.iter().copied()).collect();
    Ok(one(math::to(on, &on.reshape(&y, &shape)?, x.dtype())?))
}

/// Infers the type of `MaxUnpool`: the extents in the third operand, or the extents that pooling would
/// reduce to the operand's extents.
fn max_unpool_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = || {
        let x = at.dims(0)?;
        if at.has(2) {
            let given = at.extents(2).filter(|given| given.len() == x.len());
            return Some(given.unwrap_or_else(|| vec![Dim::Unknown; x.len()]));
        }
        let [n, c, spatial @ ..] = x else { return None };
        // `MaxUnpool` has no dilations.
        let pooling = Pooling::of(&at).ok()?;
        let mut movement = pooling.movement;
        movement.dilations = None;
        let steps = movement.steps(&pooling.told_kernel()?)?;
        if steps.len() != spatial.len() {
            return None;
        }
        let lists = spatial.iter().zip(steps);
        let spatial: Vec<Dim> =
            lists.map(|(n, step)| rule::told(step.grown(n, infer::Padding::Given, 0))).collect();
        Some([&[n.clone(), c.clone()], spatial.as_slice()].concat())
    };
    at.one(at.dtype(0), shape())
}

/// `MaxUnpool`: indices refer to the extents that follow from the kernel. If `output_shape` is larger,
/// zeros follow.
pub(super) fn max_unpool(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let (x, indices) = (call.input(0)?, call.input(1)?);
    let kernel = call.ints("kernel_shape")?.ok_or_else(|| call.wrong("kernel_shape", "is missing"))?;
    let n = kernel.len();
    if x.rank() != n + 2 || x.shape() != indices.shape() || indices.dtype() != DataType::I64 {
        let problem = format!("has the shape {:?}; the indices have {:?}", x.shape(), indices.shape());
        return Err(call.wrong(NodePart::Operand(0), problem).into());
    }
    let ones = vec![1; n];
    let zeros = vec![0; 2 * n];
    let strides = call.ints("strides")?.unwrap_or(&ones);
    let pads = call.ints("pads")?.unwrap_or(&zeros);
    if strides.len() != n || pads.len() != 2 * n {
        return Err(call.wrong("strides", format!("and `pads` do not fit {n} dimensions")).into());
    }
    let (starts, ends) = pads.split_at(n);
    let mut shape = Shape::from_iter(x.shape().iter().take(2).copied());
    let lists = x.shape().iter().skip(2).zip(kernel).zip(strides).zip(starts.iter().zip(ends));
    for (((&extent, &kernel), &stride), (&before, &after)) in lists {
        let reach = (extent as i64 - 1).checked_mul(stride).and_then(|r| r.checked_add(kernel));
        let made = reach.and_then(|r| r.checked_sub(before)?.checked_sub(after)?.try_into().ok());
        shape.push(made.ok_or_else(|| call.wrong("pads", "leave a negative extent"))?);
    }
    let y = on.max_unpool(x, indices, &shape)?;
    let Some(wanted) = call.optional(2) else { return Ok(one(y)) };
    let wanted = on.ints(wanted)?;
    let ends: Option<Vec<i64>> = (wanted.len() == shape.len())
        .then(|| wanted.iter().zip(&shape).map(|(w, &d)| w - d as i64).collect());
    let ends = ends.filter(|ends| ends.iter().all(|&e| e >= 0));
    let ends =
        ends.ok_or_else(|| call.wrong("output_shape", format!("is {wanted:?}; the kernel makes {shape:?}")))?;
    let pads: Vec<i64> = std::iter::repeat_n(0, shape.len()).chain(ends).collect();
    Ok(one(on.pad(&y, None, &pads, Border::Constant)?))
}
