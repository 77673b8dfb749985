//! Primitives that change only shape and strides.

use super::dense;
use crate::array::Array;
use crate::error::Result;
use crate::layout::{Strides, reshape_strides};
use crate::pool::Pool;
use bb::ir::infer;
use bb::{Shape, Tensor};
use std::sync::Arc;

/// Changes the shape. The elements are copied only if no strides describe the result in place.
pub(crate) fn reshape(pool: &Arc<Pool>, x: &Array, shape: &[usize]) -> Result<Array> {
    let shape = infer::reshape(x.shape(), shape)?;
    reshaped(pool, x, shape)
}

fn reshaped(pool: &Arc<Pool>, x: &Array, shape: Shape) -> Result<Array> {
    if x.is_dense() {
        return Ok(x.view_dense(shape));
    }
    match reshape_strides(x.shape(), &x.strides(), &shape) {
        Some(strides) => Ok(x.view(shape, strides, 0)),
        None => Ok(dense(pool, x)?.view_dense(shape)),
    }
}

/// Removes dimensions of extent 1.
pub(crate) fn squeeze(pool: &Arc<Pool>, x: &Array, axes: &[i64]) -> Result<Array> {
    reshaped(pool, x, infer::squeeze(x.shape(), axes)?)
}

/// Inserts dimensions of extent 1.
pub(crate) fn unsqueeze(pool: &Arc<Pool>, x: &Array, axes: &[i64]) -> Result<Array> {
    reshaped(pool, x, infer::unsqueeze(x.shape(), axes)?)
}

/// Permutes the dimensions.
pub(crate) fn transpose(x: &Array, perm: &[i64]) -> Result<Array> {
    let transposed = infer::transpose(x.shape(), perm)?;
    let strides = x.strides();
    let permuted: Strides = transposed.perm.iter().map(|&p| strides.get(p).copied().unwrap_or(0)).collect();
    Ok(x.view(transposed.shape, permuted, 0))
}

/// Selects a range of indices, with a step, along some dimensions.
pub(crate) fn slice(x: &Array, starts: &[i64], ends: &[i64], axes: &[i64], steps: &[i64]) -> Result<Array> {
    let sliced = infer::slice(x.shape(), starts, ends, axes, steps)?;
    let mut strides = x.strides();
    let mut skip = 0;
    for (stride, dim) in strides.iter_mut().zip(&sliced.dims) {
        skip += dim.start.cast_signed() * *stride;
        *stride *= dim.step;
    }
    Ok(x.view(sliced.shape, strides, skip))
}

/// Splits an array along an axis into parts with these extents.
pub(crate) fn split(x: &Array, axis: i64, sizes: &[usize]) -> Result<Vec<Array>> {
    let axis = infer::split(x.shape(), axis, sizes)?.get();
    let strides = x.strides();
    let step = strides.get(axis).copied().unwrap_or(0);
    let mut start = 0;
    Ok(sizes
        .iter()
        .map(|&size| {
            let mut shape = Shape::from_slice(x.shape());
            if let Some(extent) = shape.get_mut(axis) {
                *extent = size;
            }
            let part = x.view(shape, strides.clone(), start * step);
            start += size.cast_signed();
            part
        })
        .collect())
}
