//! The body of [`Nn::reduce_prod`](super::Nn::reduce_prod). It multiplies the two halves of an axis until one element
//! is left.

use super::math;
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{Error, Tensor};
use bb_ir::Axis;

/// The body of [`Nn::reduce_prod`](super::Nn::reduce_prod).
pub fn reduce_prod(
    on: &Tracer,
    x: &TracedTensor,
    axes: &[i64],
    keepdims: bool,
) -> Result<TracedTensor, TraceStop> {
    bb_ir::infer::reduce("reduce_prod", x.shape(), axes, keepdims).map_err(Error::from)?;
    let all: Vec<i64> = if axes.is_empty() { (0..x.rank() as i64).collect() } else { axes.to_vec() };
    // 16-bit floats are multiplied in `f32` and rounded once.
    let mut y = math::accumulated(on, x)?;
    for &axis in &all {
        let at = Axis::new(axis, x.rank()).map_err(Error::from)?.get();
        let mut extent = x.shape().get(at).copied().unwrap_or(1) as i64;
        if extent == 0 {
            let mut shape = y.shape().to_vec();
            if let Some(slot) = shape.get_mut(at) {
                *slot = 1;
            }
            y = on.ones(&shape, y.dtype())?;
        }
        while extent > 1 {
            let half = extent / 2;
            let product = on.mul(&part(on, &y, 0, half, axis)?, &part(on, &y, half, 2 * half, axis)?)?;
            y = if extent % 2 == 0 {
                product
            } else {
                on.concat(&[&product, &part(on, &y, 2 * half, extent, axis)?], axis)?
            };
            extent = half + extent % 2;
        }
    }
    let y = if keepdims || all.is_empty() { on.identity(&y)? } else { on.squeeze(&y, &all)? };
    math::narrowed(on, y, x.dtype())
}

fn part(on: &Tracer, x: &TracedTensor, from: i64, to: i64, axis: i64) -> Result<TracedTensor, TraceStop> {
    on.slice(x, &[from], &[to], &[axis], &[])
}
