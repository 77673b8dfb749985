//! Where elements go: by positions, whatever their type.

use crate::Error;
use bb_ir::infer;
use bb_ir::op::{Param, take};
use bb_ir::{DataType, Shape, TensorData};

/// The distance in elements to the next along each dimension.
pub(super) fn strides(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![0; shape.len()];
    let mut step = 1;
    for (stride, &extent) in strides.iter_mut().zip(shape).rev() {
        *stride = step;
        step *= extent as isize;
    }
    strides
}

/// The positions that a walk over `extents` in row-major order visits.
pub(super) fn walk(extents: &[usize], strides: &[isize], start: isize) -> Vec<usize> {
    // The extents before one of 0 may be as large as they like.
    let mut positions = if extents.contains(&0) { Vec::new() } else { vec![start] };
    for (&extent, &stride) in extents.iter().zip(strides) {
        positions =
            positions.iter().flat_map(|&p| (0..extent as isize).map(move |i| p + i * stride)).collect();
    }
    positions.into_iter().map(|p| p as usize).collect()
}

/// For each element of a broadcast result, the position of the operand's.
pub(super) fn spread(shape: &[usize], to: &[usize]) -> Vec<usize> {
    let missing = to.len().saturating_sub(shape.len());
    let own = strides(shape);
    let dims = shape.iter().zip(&own).map(|(&d, &s)| if d == 1 { 0 } else { s });
    let strides: Vec<isize> = std::iter::repeat_n(0, missing).chain(dims).collect();
    walk(to, &strides, 0)
}

/// The elements at `positions`, of any type of whole bytes.
pub(super) fn moved(
    x: &TensorData,
    shape: &[usize],
    positions: &[usize],
) -> Result<Option<TensorData>, Error> {
    if !x.dtype().bits().is_multiple_of(8) || x.dtype() == DataType::String {
        return Ok(None);
    }
    let size = x.dtype().bits() / 8;
    let bytes: Vec<u8> =
        positions.iter().filter_map(|p| x.bytes().get(p * size..(p + 1) * size)).flatten().copied().collect();
    Ok(Some(TensorData::adopt(x.dtype(), shape, bytes.into())?))
}

pub(super) fn split(
    x: &TensorData,
    results: &[(DataType, Shape)],
    params: &[Param<'_>],
) -> Result<Option<Vec<TensorData>>, Error> {
    let sizes = take::Extents("split", params.get(1))?;
    let axis = infer::split(x.shape(), take::Int("split", params.first())?, sizes)?.get();
    let own = strides(x.shape());
    let along = own.get(axis).copied().unwrap_or(0);
    let mut start = 0;
    let mut parts = Vec::new();
    for (&size, (_, shape)) in sizes.iter().zip(results) {
        let Some(part) = moved(x, shape, &walk(shape, &own, start))? else { return Ok(None) };
        parts.push(part);
        start += size as isize * along;
    }
    Ok(Some(parts))
}

pub(super) fn concat(xs: &[&TensorData], shape: &[usize], axis: i64) -> Result<Option<TensorData>, Error> {
    let axis = infer::concat(xs.iter().map(|x| x.shape()), axis)?.axis.get();
    let Some(dtype) = xs.first().map(|x| x.dtype()).filter(|d| d.bits() % 8 == 0 && *d != DataType::String)
    else {
        return Ok(None);
    };
    let outer: usize = shape.iter().take(axis).product();
    let mut bytes = Vec::new();
    for row in 0..outer {
        for x in xs {
            let chunk = x.bytes().len() / outer;
            bytes.extend_from_slice(x.bytes().get(row * chunk..(row + 1) * chunk).unwrap_or_default());
        }
    }
    Ok(Some(TensorData::adopt(dtype, shape, bytes.into())?))
}

pub(super) fn gather(
    data: &TensorData,
    indices: &TensorData,
    shape: &[usize],
    axis: i64,
) -> Result<Option<TensorData>, Error> {
    let axis = bb_ir::Axis::new(axis, data.shape().len())?.get();
    let extent = data.shape().get(axis).copied().unwrap_or(0);
    let indices: Vec<i64> = match indices.dtype() {
        DataType::I64 => indices.as_slice::<i64>()?.to_vec(),
        _ => indices.as_slice::<i32>()?.iter().map(|&i| i.into()).collect(),
    };
    let mut rows = Vec::with_capacity(indices.len());
    for index in indices {
        let from_start = if index < 0 { index + extent as i64 } else { index };
        let row = usize::try_from(from_start).ok().filter(|&i| i < extent);
        rows.push(row.ok_or(bb_ir::Error::Index { op: "gather", index, extent })?);
    }
    let outer: usize = data.shape().iter().take(axis).product();
    let inner: usize = data.shape().iter().skip(axis + 1).product();
    let rows = &rows;
    let positions: Vec<usize> = (0..outer)
        .flat_map(|o| rows.iter().flat_map(move |r| (0..inner).map(move |i| (o * extent + r) * inner + i)))
        .collect();
    moved(data, shape, &positions)
}
