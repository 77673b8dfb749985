//! `reshape transpose squeeze unsqueeze identity concat slice split`. These operations only move elements or change
//! the shape, so they support every element type.

use crate::tensor::{array, blank};
use crate::{Error, Tensor};
use bb::Shape;
use bb::ir::{infer, memory};
use bb::{Primitive, Tensor as _};
use ndarray::{Axis, IxDyn, Slice};

pub(crate) fn reshape(x: &Tensor, shape: &[usize]) -> Result<Tensor, Error> {
    with_extents("reshape", x, infer::reshape(x.shape(), shape)?)
}

pub(crate) fn squeeze(x: &Tensor, axes: &[i64]) -> Result<Tensor, Error> {
    with_extents("squeeze", x, infer::squeeze(x.shape(), axes)?)
}

pub(crate) fn unsqueeze(x: &Tensor, axes: &[i64]) -> Result<Tensor, Error> {
    with_extents("unsqueeze", x, infer::unsqueeze(x.shape(), axes)?)
}

/// Reshapes a tensor. The elements are copied only if they are not in row-major order.
fn with_extents(op: &'static str, x: &Tensor, shape: Shape) -> Result<Tensor, Error> {
    any!(op, x.dtype(), T => {
        let elements = x.array::<T>(x.dtype())?;
        if !elements.is_standard_layout() {
            return Ok(Tensor::new(x.dtype(), array(&shape, memory::collected(op, elements.iter().cloned())?)?));
        }
        let reshaped = elements.clone().into_shape_clone(IxDyn(&shape));
        let array = reshaped.map_err(|source| Error::Extents { shape: shape.as_slice().into(), source })?;
        Ok(Tensor::new(x.dtype(), array))
    })
}

pub(crate) fn transpose(x: &Tensor, perm: &[i64]) -> Result<Tensor, Error> {
    let transposed = infer::transpose(x.shape(), perm)?;
    any!("transpose", x.dtype(), T => {
        let elements = x.array::<T>(x.dtype())?.clone();
        Ok(Tensor::new(x.dtype(), elements.permuted_axes(&transposed.perm[..])))
    })
}

pub(crate) fn slice(
    x: &Tensor,
    starts: &[i64],
    ends: &[i64],
    axes: &[i64],
    steps: &[i64],
) -> Result<Tensor, Error> {
    let sliced = infer::slice(x.shape(), starts, ends, axes, steps)?;
    any!("slice", x.dtype(), T => {
        let mut part = x.array::<T>(x.dtype())?.clone();
        for (axis, dim) in sliced.dims.iter().enumerate() {
            let last = dim.start.saturating_add_signed(dim.step * (dim.count.saturating_sub(1)) as isize);
            // ndarray first selects a range, and then walks it backwards if the step is negative.
            let range = if dim.count == 0 { 0..0 } else { dim.start.min(last)..dim.start.max(last) + 1 };
            part.slice_axis_inplace(Axis(axis), Slice::from(range).step_by(dim.step));
        }
        Ok(Tensor::new(x.dtype(), part))
    })
}

pub(crate) fn split(x: &Tensor, axis: i64, sizes: &[usize]) -> Result<Vec<Tensor>, Error> {
    let axis = infer::split(x.shape(), axis, sizes)?.get();
    any!("split", x.dtype(), T => {
        let mut start = 0;
        let parts = sizes.iter().map(|&size| {
            let mut part = x.array::<T>(x.dtype())?.clone();
            part.slice_axis_inplace(Axis(axis), Slice::from(start..start + size));
            start += size;
            Ok(Tensor::new(x.dtype(), part))
        });
        parts.collect()
    })
}

pub(crate) fn concat(xs: &[&Tensor], axis: i64) -> Result<Tensor, Error> {
    let shapes: Vec<_> = xs.iter().map(|x| x.shape()).collect();
    let joined = infer::concat(shapes.iter().copied(), axis)?;
    let dtypes: Vec<_> = xs.iter().map(|x| x.dtype()).collect();
    let dtype = infer::dtype(Primitive::Concat, &dtypes, &[])?;
    let axis = Axis(joined.axis.get());
    any!("concat", dtype, T => {
        let mut all = blank::<T>("concat", &joined.shape)?;
        let mut start = 0;
        for x in xs {
            let end = start + x.shape().get(axis.0).copied().unwrap_or(0);
            all.slice_axis_mut(axis, Slice::from(start..end)).assign(x.array::<T>(dtype)?);
            start = end;
        }
        Ok(Tensor::new(dtype, all.into_shared()))
    })
}
