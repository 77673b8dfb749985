//! Bodies of operations that move elements: padding, and selection by index tensors.

use crate::ext::{Border, Extent, fail, math, product};
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{DataType, Error, Tensor};
use bb_ir::{Axis, memory};

/// The body of [`Nn::pad`](super::Nn::pad).
pub fn pad(
    on: &Tracer,
    x: &TracedTensor,
    value: Option<&TracedTensor>,
    pads: &[i64],
    mode: Border,
) -> Result<TracedTensor, TraceStop> {
    let wrong = |problem| bb_ir::Error::Param { op: "pad", param: "pads", problem, shape: x.shape().into() };
    let rank = x.rank();
    if pads.len() != 2 * rank {
        return fail(wrong("must have a start and an end for each dimension"));
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
            return fail(wrong("exceeds what an address can count"));
        }
        y = if mode == Border::Constant {
            let part = |count: usize| -> Result<TracedTensor, TraceStop> {
                let mut shape = on.extents(&y);
                if let Some(extent) = shape.get_mut(axis) {
                    *extent = count.into();
                }
                match value {
                    Some(value) if value.rank() == 0 => on.expand_to(value, &shape),
                    Some(value) => on.expand_to(&on.reshape(value, &[])?, &shape),
                    None if x.dtype() == DataType::String => {
                        on.expand_to(&super::sample::blank_like(on, x)?, &shape)
                    }
                    None => on.full_to(&shape, 0.0, x.dtype()),
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
            let extent = on.extent(&y, axis).number();
            if extent == 0 {
                return fail(wrong("enlarges an extent of 0 from nothing"));
            }
            // The other dimensions may have the extent 0, so nothing else limits the number of indices.
            if extent.saturating_add_unsigned(before as u64).saturating_add_unsigned(after as u64) > 1 << 28 {
                return fail(wrong("enlarges more than memory can hold"));
            }
            let inside = |i: i64| match mode {
                // In this mode, the loop overwrites the elements outside with the value.
                Border::Constant | Border::Edge => i.clamp(0, extent - 1),
                Border::Wrap => i.rem_euclid(extent),
                Border::Reflect if extent == 1 => 0,
                Border::Reflect => {
                    let i = i.rem_euclid(2 * (extent - 1));
                    i.min(2 * (extent - 1) - i)
                }
            };
            // The elements inside are copied as a block, because that is faster than a gather.
            let part = |places: std::ops::Range<i64>| -> Result<Option<TracedTensor>, TraceStop> {
                if places.is_empty() {
                    return Ok(None);
                }
                let indices: Vec<i64> = memory::collected("pad", places.map(inside)).map_err(Error::from)?;
                on.gather(&y, &on.host(&[indices.len()], &indices)?, axis as i64).map(Some)
            };
            let [start, end] = [part(-(before as i64)..0)?, part(extent..extent + after as i64)?];
            let parts: Vec<&TracedTensor> = start.iter().chain([&y]).chain(&end).collect();
            on.concat(&parts, axis as i64)?
        };
    }
    Ok(y)
}

/// Removes elements where the padding is negative.
fn cropped(on: &Tracer, x: &TracedTensor, starts: &[i64], ends: &[i64]) -> Result<TracedTensor, TraceStop> {
    if starts.iter().chain(ends).all(|&p| p >= 0) {
        return Ok(x.clone());
    }
    let from: Vec<i64> = starts.iter().map(|&p| p.min(0).saturating_neg()).collect();
    // A negative end of a slice counts from the end of the dimension.
    let to: Vec<i64> = ends.iter().map(|&p| if p < 0 { p } else { i64::MAX }).collect();
    on.slice(x, &from, &to, &[], &[])
}

/// Converts negative indices to indices that count from the start, as `i64`.
pub(crate) fn from_start(
    on: &Tracer,
    indices: &TracedTensor,
    extents: &TracedTensor,
) -> Result<TracedTensor, TraceStop> {
    let indices = math::to(on, indices, DataType::I64)?;
    let negative = on.less(&indices, &on.scalar_like(&indices, 0.0)?)?;
    on.r#where(&negative, &on.add(&indices, extents)?, &indices)
}

/// Returns the row-major strides of a shape, in elements.
pub(crate) fn strides(shape: &[usize]) -> Vec<i64> {
    let mut strides = vec![0; shape.len()];
    let mut step = 1i64;
    for (stride, &extent) in strides.iter_mut().zip(shape).rev() {
        *stride = step;
        // If an extent is 0, the product of the others may overflow.
        step = step.saturating_mul(extent as i64);
    }
    strides
}

/// Computes the [`strides`] of symbolic extents.
fn steps(shape: &[Extent]) -> Vec<Extent> {
    let mut step = Extent::from(1i64);
    let mut steps: Vec<Extent> = shape
        .iter()
        .rev()
        .map(|extent| {
            let next = step.times(extent);
            std::mem::replace(&mut step, next)
        })
        .collect();
    steps.reverse();
    steps
}

/// Returns, for each coordinate of `to`, its row-major offset in a tensor with these strides, as a sum that broadcasts.
/// The dimension `but` is left out.
pub(crate) fn positions(
    on: &Tracer,
    to: &[Extent],
    strides: &[Extent],
    but: Option<usize>,
) -> Result<Option<TracedTensor>, TraceStop> {
    let mut sum: Option<TracedTensor> = None;
    for (axis, (extent, stride)) in to.iter().zip(strides).enumerate() {
        // A symbolic extent that is 1 now may be greater in another run, so its offsets are added too, although they
        // are 0 now.
        if Some(axis) == but || extent.is_fixed() && extent.present() == 1 {
            continue;
        }
        let others: Vec<i64> =
            (0..to.len()).filter(|&other| other != axis).map(|other| other as i64).collect();
        let steps = on.iota(&Extent::from(0i64), stride, extent)?;
        let steps = if others.is_empty() { steps } else { on.unsqueeze(&steps, &others)? };
        sum = Some(match sum {
            Some(sum) => on.add(&sum, &steps)?,
            None => steps,
        });
    }
    Ok(sum)
}

/// The body of [`Nn::gather_elements`](super::Nn::gather_elements): a gather by row-major offsets.
pub fn gather_elements(
    on: &Tracer,
    data: &TracedTensor,
    indices: &TracedTensor,
    axis: i64,
) -> Result<TracedTensor, TraceStop> {
    let axis = Axis::new(axis, data.rank()).map_err(Error::from)?.get();
    let (shape, asked) = (on.extents(data), on.extents(indices));
    let mut extents = shape.iter().zip(&asked).enumerate();
    if data.rank() != indices.rank() || extents.any(|(at, (have, asked))| at != axis && !have.at_least(asked))
    {
        let (left, right) = (data.shape().into(), indices.shape().into());
        return fail(bb_ir::Error::Shapes { op: "gather_elements", left, right });
    }
    let flat = element_positions(on, &shape, indices, axis)?;
    on.gather(&on.reshape_to(data, &[product(&shape)])?, &flat, 0)
}

/// Returns, for each index along `axis`, the row-major offset of the selected element in a tensor of `shape`.
pub(crate) fn element_positions(
    on: &Tracer,
    shape: &[Extent],
    indices: &TracedTensor,
    axis: usize,
) -> Result<TracedTensor, TraceStop> {
    let strides = steps(shape);
    let one = |of: &[Extent]| on.ints_of(&[], of.get(axis..axis + 1).unwrap_or_default());
    let extent = one(shape)?;
    let indices = from_start(on, indices, &extent)?;
    let along = on.mul(&indices, &one(&strides)?)?;
    let flat = match positions(on, &on.extents(&indices), &strides, Some(axis))? {
        Some(others) => on.add(&along, &others)?,
        None => along,
    };
    refused(on, &flat, &out_of_range(on, &indices, &extent)?, shape)
}

/// Returns whether each index is out of range. Negative indices have already been converted to count from the start.
fn out_of_range(
    on: &Tracer,
    indices: &TracedTensor,
    extents: &TracedTensor,
) -> Result<TracedTensor, TraceStop> {
    let negative = on.less(indices, &on.scalar_like(indices, 0.0)?)?;
    on.or(&negative, &on.greater_or_equal(indices, extents)?)
}

/// Replaces the offsets that are `wrong` by an offset that is out of range for `shape`, so that the gather fails.
fn refused(
    on: &Tracer,
    positions: &TracedTensor,
    wrong: &TracedTensor,
    shape: &[Extent],
) -> Result<TracedTensor, TraceStop> {
    let end = on.ints_of(&[], &[product(shape)])?;
    on.r#where(wrong, &end, positions)
}

/// The body of [`Nn::gather_nd`](super::Nn::gather_nd): a gather by row-major offsets.
pub fn gather_nd(
    on: &Tracer,
    data: &TracedTensor,
    indices: &TracedTensor,
    batch_dims: i64,
) -> Result<TracedTensor, TraceStop> {
    let shapes =
        || bb_ir::Error::Shapes { op: "gather_nd", left: data.shape().into(), right: indices.shape().into() };
    let (shape, index_shape) = (on.extents(data), on.extents(indices));
    let Some((tuple, lead)) = index_shape.split_last() else { return fail(shapes()) };
    let tuple = usize::try_from(tuple.number()).unwrap_or(0);
    let batch = usize::try_from(batch_dims).ok().filter(|&b| b <= lead.len() && b + tuple <= shape.len());
    let Some(batch) = batch else { return fail(shapes()) };
    let (outer, rest) = shape.split_at(batch);
    if !outer.iter().zip(lead).all(|(a, b)| a.equals(b)) {
        return fail(shapes());
    }
    let (named, slice) = rest.split_at(tuple);
    let flat = tuple_positions(on, outer, named, indices)?;
    let rows: Vec<Extent> =
        std::iter::once(product(outer.iter().chain(named))).chain(slice.iter().cloned()).collect();
    on.gather(&on.reshape_to(data, &rows)?, &flat, 0)
}

/// Returns, for each tuple of indices, the index of the selected slice. The dimensions of the slices are `outer` and
/// then `named`.
pub(crate) fn tuple_positions(
    on: &Tracer,
    outer: &[Extent],
    named: &[Extent],
    indices: &TracedTensor,
) -> Result<TracedTensor, TraceStop> {
    let extents = on.ints_of(&[named.len()], named)?;
    let indices = from_start(on, indices, &extents)?;
    let scaled = on.mul(&indices, &on.ints_of(&[named.len()], &steps(named))?)?;
    let flat = on.reduce_sum(&scaled, &[-1], false)?;
    let size = product(named);
    let batches: Vec<Extent> = steps(outer).iter().map(|s| s.times(&size)).collect();
    let flat = match positions(on, outer, &batches, None)? {
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
