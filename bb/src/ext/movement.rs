//! Bodies of operations that move elements: padding, and selecting by index tensors.

use crate::ext::{Ops, fail, math};
use crate::{DataType, Error, Tensor};
use bb_ir::{Axis, Shape, memory};

/// The body of [`Nn::pad`](super::Nn::pad).
pub fn pad<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    value: Option<&B::Tensor>,
    pads: &[i64],
    mode: &str,
) -> Result<B::Tensor, B::Error> {
    let wrong = |problem| bb_ir::Error::Param { op: "pad", param: "pads", problem, shape: x.shape().into() };
    let rank = x.rank();
    if pads.len() != 2 * rank {
        return fail::<B, _>(wrong("must have a start and an end for each dimension"));
    }
    let (starts, ends) = pads.split_at(rank);
    if pads.iter().all(|&p| p == 0) {
        return on.identity(x);
    }
    let mut y = cropped(on, x, starts, ends)?;
    for (axis, (&before, &after)) in starts.iter().zip(ends).enumerate() {
        let (before, after) = (before.max(0) as usize, after.max(0) as usize);
        if before == 0 && after == 0 {
            continue;
        }
        if before.max(after) > isize::MAX as usize / 4 {
            return fail::<B, _>(wrong("exceeds what an address can count"));
        }
        y = if mode == "constant" {
            let part = |count: usize| -> Result<B::Tensor, B::Error> {
                let mut shape = Shape::from_slice(y.shape());
                if let Some(extent) = shape.get_mut(axis) {
                    *extent = count;
                }
                match value {
                    Some(value) if value.rank() == 0 => on.expand(value, &shape),
                    Some(value) => on.expand(&on.reshape(value, &[])?, &shape),
                    None if x.dtype() == DataType::String => {
                        on.expand(&super::sample::blank_like(on, x)?, &shape)
                    }
                    None => on.zeros(&shape, x.dtype()),
                }
            };
            let mut parts = Vec::with_capacity(3);
            if before > 0 {
                parts.push(part(before)?);
            }
            parts.push(y.clone());
            if after > 0 {
                parts.push(part(after)?);
            }
            on.concat(&parts.iter().collect::<Vec<_>>(), axis as i64)?
        } else {
            let extent = y.shape().get(axis).copied().unwrap_or(0) as i64;
            if extent == 0 {
                return fail::<B, _>(wrong("enlarges an extent of 0 from nothing"));
            }
            // What lies beside may have no elements, so that nothing else bounds the indices.
            if extent.saturating_add_unsigned(before as u64).saturating_add_unsigned(after as u64) > 1 << 28 {
                return fail::<B, _>(wrong("enlarges more than memory can hold"));
            }
            let inside = |i: i64| match mode {
                "edge" => Some(i.clamp(0, extent - 1)),
                "wrap" => Some(i.rem_euclid(extent)),
                "reflect" if extent == 1 => Some(0),
                "reflect" => {
                    let i = i.rem_euclid(2 * (extent - 1));
                    Some(i.min(2 * (extent - 1) - i))
                }
                _ => None,
            };
            let unknown = || Error::Operator {
                op: "pad".to_owned(),
                what: "mode".to_owned(),
                problem: format!("is `{mode}`, expected `constant`, `reflect`, `edge` or `wrap`"),
            };
            let places = (-(before as i64)..extent + after as i64).map(|i| inside(i).ok_or_else(unknown));
            let indices: Vec<i64> = memory::try_collected("pad", places)?;
            on.gather(&y, &on.host(&[indices.len()], &indices)?, axis as i64)?
        };
    }
    Ok(y)
}

/// Cuts where paddings are negative.
fn cropped<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    starts: &[i64],
    ends: &[i64],
) -> Result<B::Tensor, B::Error> {
    if starts.iter().chain(ends).all(|&p| p >= 0) {
        return Ok(x.clone());
    }
    let from: Vec<i64> = starts.iter().map(|&p| p.min(0).saturating_neg()).collect();
    let to: Vec<i64> =
        x.shape().iter().zip(ends).map(|(&d, &p)| (d as i64).saturating_add(p.min(0)).max(0)).collect();
    on.slice(x, &from, &to, &[], &[])
}

/// Makes negative indices count from the start, as `i64`.
pub(crate) fn from_start<B: Ops + ?Sized>(
    on: &B,
    indices: &B::Tensor,
    extents: &B::Tensor,
) -> Result<B::Tensor, B::Error> {
    let indices = math::to(on, indices, DataType::I64)?;
    let negative = on.less(&indices, &on.scalar_like(&indices, 0.0)?)?;
    on.r#where(&negative, &on.add(&indices, extents)?, &indices)
}

/// The distance in elements to the next along each dimension.
pub(crate) fn strides(shape: &[usize]) -> Vec<i64> {
    let mut strides = vec![0; shape.len()];
    let mut step = 1i64;
    for (stride, &extent) in strides.iter_mut().zip(shape).rev() {
        *stride = step;
        // Extents beside one of 0 may be as large as they like.
        step = step.saturating_mul(extent as i64);
    }
    strides
}

/// The positions in row-major order of `to`'s coordinates in a tensor of these strides, as a broadcasting sum.
pub(crate) fn positions<B: Ops + ?Sized>(
    on: &B,
    to: &[usize],
    strides: &[i64],
    but: Option<usize>,
) -> Result<Option<B::Tensor>, B::Error> {
    let mut sum: Option<B::Tensor> = None;
    for (axis, (&extent, &stride)) in to.iter().zip(strides).enumerate() {
        if Some(axis) == but || extent == 1 {
            continue;
        }
        let mut shape = vec![1; to.len()];
        if let Some(slot) = shape.get_mut(axis) {
            *slot = extent;
        }
        let steps = (0..extent as i64).map(|i| i.saturating_mul(stride));
        let steps = memory::collected("positions", steps).map_err(Error::from)?;
        let steps = on.host(&shape, &steps)?;
        sum = Some(match sum {
            Some(sum) => on.add(&sum, &steps)?,
            None => steps,
        });
    }
    Ok(sum)
}

/// The body of [`Nn::gather_elements`](super::Nn::gather_elements): a gather by positions in row-major order.
pub fn gather_elements<B: Ops + ?Sized>(
    on: &B,
    data: &B::Tensor,
    indices: &B::Tensor,
    axis: i64,
) -> Result<B::Tensor, B::Error> {
    let axis = Axis::new(axis, data.rank()).map_err(Error::from)?.get();
    let mut extents = data.shape().iter().zip(indices.shape()).enumerate();
    if data.rank() != indices.rank() || extents.any(|(at, (have, asked))| at != axis && asked > have) {
        let (left, right) = (data.shape().into(), indices.shape().into());
        return fail::<B, _>(bb_ir::Error::Shapes { op: "gather_elements", left, right });
    }
    let flat = element_positions(on, data.shape(), indices, axis)?;
    on.gather(&on.reshape(data, &[bb_ir::element_count(data.shape()).unwrap_or(0)])?, &flat, 0)
}

/// For each index along `axis`, the position of the element it names among all of a tensor of `shape`.
pub(crate) fn element_positions<B: Ops + ?Sized>(
    on: &B,
    shape: &[usize],
    indices: &B::Tensor,
    axis: usize,
) -> Result<B::Tensor, B::Error> {
    let strides = strides(shape);
    let extent = on.host(&[], &[shape.get(axis).copied().unwrap_or(0) as i64])?;
    let indices = from_start(on, indices, &extent)?;
    let along = on.mul(&indices, &on.host(&[], &[strides.get(axis).copied().unwrap_or(1)])?)?;
    let flat = match positions(on, indices.shape(), &strides, Some(axis))? {
        Some(others) => on.add(&along, &others)?,
        None => along,
    };
    refused(on, &flat, &out_of_range(on, &indices, &extent)?, shape)
}

/// Where indices that count from the start are not below their extents, or were too far below 0.
fn out_of_range<B: Ops + ?Sized>(
    on: &B,
    indices: &B::Tensor,
    extents: &B::Tensor,
) -> Result<B::Tensor, B::Error> {
    let negative = on.less(indices, &on.scalar_like(indices, 0.0)?)?;
    on.or(&negative, &on.greater_or_equal(indices, extents)?)
}

/// Positions in a tensor of `shape`, of which those that are `wrong` become ones that a gather refuses.
fn refused<B: Ops + ?Sized>(
    on: &B,
    positions: &B::Tensor,
    wrong: &B::Tensor,
    shape: &[usize],
) -> Result<B::Tensor, B::Error> {
    let end = on.host(&[], &[bb_ir::element_count(shape).unwrap_or(0) as i64])?;
    on.r#where(wrong, &end, positions)
}

/// The body of [`Nn::gather_nd`](super::Nn::gather_nd): a gather by positions in row-major order.
pub fn gather_nd<B: Ops + ?Sized>(
    on: &B,
    data: &B::Tensor,
    indices: &B::Tensor,
    batch_dims: i64,
) -> Result<B::Tensor, B::Error> {
    let shapes =
        || bb_ir::Error::Shapes { op: "gather_nd", left: data.shape().into(), right: indices.shape().into() };
    let (shape, index_shape) = (data.shape(), indices.shape());
    let Some((&tuple, lead)) = index_shape.split_last() else { return fail::<B, _>(shapes()) };
    let batch = usize::try_from(batch_dims).ok().filter(|&b| b <= lead.len() && b + tuple <= shape.len());
    let Some(batch) = batch else { return fail::<B, _>(shapes()) };
    let (outer, rest) = shape.split_at(batch);
    let (named, slice) = rest.split_at(tuple);
    let flat = tuple_positions(on, outer, named, indices)?;
    let rows: Vec<usize> =
        std::iter::once(outer.iter().chain(named).product()).chain(slice.iter().copied()).collect();
    on.gather(&on.reshape(data, &rows)?, &flat, 0)
}

/// For each index tuple, the position of the slice it names among all that `outer` and `named` extents count.
pub(crate) fn tuple_positions<B: Ops + ?Sized>(
    on: &B,
    outer: &[usize],
    named: &[usize],
    indices: &B::Tensor,
) -> Result<B::Tensor, B::Error> {
    let extents: Vec<i64> = named.iter().map(|&d| d as i64).collect();
    let extents = on.host(&[extents.len()], &extents)?;
    let indices = from_start(on, indices, &extents)?;
    let scaled = on.mul(&indices, &on.host(&[named.len()], &strides(named))?)?;
    let flat = on.reduce_sum(&scaled, &[-1], false)?;
    let size = named.iter().product::<usize>() as i64;
    let steps: Vec<i64> = strides(outer).iter().map(|s| s * size).collect();
    let flat = match positions(on, outer, &steps, None)? {
        Some(batches) => {
            let trailing: Vec<i64> = (outer.len() as i64..flat.rank() as i64).collect();
            let batches = if trailing.is_empty() { batches } else { on.unsqueeze(&batches, &trailing)? };
            on.add(&flat, &batches)?
        }
        None => flat,
    };
    let wrong = on.reduce_max(&out_of_range(on, &indices, &extents)?, &[-1], false)?;
    refused(on, &flat, &wrong, &[outer, named].concat())
}
