//! `reshape transpose squeeze unsqueeze concat slice split`. Only `concat`, and `reshape` of a view, copy elements.

use super::arithmetic::{dense, place};
use super::{own, result};
use crate::device::Gpu;
use crate::elem::Elem;
use crate::layout::{Strides, reshaped, row_major};
use crate::{Result, Tensor};
use bb::ir::infer;
use bb::{Primitive, Shape, Tensor as _};
use smallvec::SmallVec;
use std::sync::Arc;

pub(crate) fn reshape(gpu: &Arc<Gpu>, x: &Tensor, shape: &[usize]) -> Result<Tensor> {
    with_extents(gpu, "reshape", x, infer::reshape(x.shape(), shape)?)
}

pub(crate) fn squeeze(gpu: &Arc<Gpu>, x: &Tensor, axes: &[i64]) -> Result<Tensor> {
    with_extents(gpu, "squeeze", x, infer::squeeze(x.shape(), axes)?)
}

pub(crate) fn unsqueeze(gpu: &Arc<Gpu>, x: &Tensor, axes: &[i64]) -> Result<Tensor> {
    with_extents(gpu, "unsqueeze", x, infer::unsqueeze(x.shape(), axes)?)
}

fn with_extents(gpu: &Arc<Gpu>, op: &'static str, x: &Tensor, shape: Shape) -> Result<Tensor> {
    own(gpu, op, &[x])?;
    if shape.contains(&0) || x.is_dense() {
        let strides = row_major(&shape);
        return Ok(x.with_extents(shape, strides));
    }
    if let Some(strides) = reshaped(x.shape(), &x.0.strides, &shape) {
        return Ok(x.with_extents(shape, strides));
    }
    let x = dense(gpu, op, x)?;
    let strides = row_major(&shape);
    Ok(x.with_extents(shape, strides))
}

pub(crate) fn transpose(gpu: &Arc<Gpu>, x: &Tensor, perm: &[i64]) -> Result<Tensor> {
    own(gpu, "transpose", &[x])?;
    let transposed = infer::transpose(x.shape(), perm)?;
    let strides: Strides =
        transposed.perm.iter().map(|&from| x.0.strides.get(from).copied().unwrap_or(0)).collect();
    Ok(x.view(transposed.shape, strides, x.0.offset))
}

pub(crate) fn slice(
    gpu: &Arc<Gpu>,
    x: &Tensor,
    starts: &[i64],
    ends: &[i64],
    axes: &[i64],
    steps: &[i64],
) -> Result<Tensor> {
    own(gpu, "slice", &[x])?;
    let sliced = infer::slice(x.shape(), starts, ends, axes, steps)?;
    let mut offset = x.0.offset as isize;
    let mut strides = Strides::new();
    for (dim, &stride) in sliced.dims.iter().zip(&x.0.strides) {
        offset += dim.start as isize * stride;
        // The stride of a dimension with one element is never used, and the product may overflow.
        strides.push(if dim.count > 1 { dim.step * stride } else { stride });
    }
    let offset = if sliced.shape.contains(&0) { 0 } else { offset.unsigned_abs() };
    Ok(x.view(sliced.shape, strides, offset))
}

pub(crate) fn split(gpu: &Arc<Gpu>, x: &Tensor, axis: i64, sizes: &[usize]) -> Result<Vec<Tensor>> {
    own(gpu, "split", &[x])?;
    let axis = infer::split(x.shape(), axis, sizes)?.get();
    let stride = x.0.strides.get(axis).copied().unwrap_or(0);
    let mut start = 0isize;
    let parts = sizes.iter().map(|&size| {
        let mut shape: Shape = x.shape().into();
        if let Some(extent) = shape.get_mut(axis) {
            *extent = size;
        }
        let offset = (x.0.offset as isize + start * stride).unsigned_abs();
        start += size as isize;
        x.view(shape, x.0.strides.clone(), offset)
    });
    Ok(parts.collect())
}

pub(crate) fn concat(gpu: &Arc<Gpu>, xs: &[&Tensor], axis: i64) -> Result<Tensor> {
    own(gpu, "concat", xs)?;
    let shapes: SmallVec<[&[usize]; 8]> = xs.iter().map(|x| x.shape()).collect();
    let joined = infer::concat(shapes.iter().copied(), axis)?;
    let dtypes: SmallVec<[_; 8]> = xs.iter().map(|x| x.dtype()).collect();
    let dtype = infer::dtype(Primitive::Concat, &dtypes, &[])?;
    let y = result(gpu, "concat", Elem::of("concat", dtype)?, joined.shape)?;
    let axis = joined.axis.get();
    let stride = y.0.strides.get(axis).copied().unwrap_or(0);
    let mut start = 0usize;
    for x in xs {
        if x.len() > 0 {
            place(gpu, "concat", &y, start * stride.unsigned_abs(), x)?;
        }
        start += x.shape().get(axis).copied().unwrap_or(0);
    }
    Ok(y)
}
