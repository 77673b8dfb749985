//! Reductions along axes.

use super::{dense, made, unsupported, views};
use crate::array::Array;
use crate::error::Result;
use crate::kernels::op::Reduction;
use crate::kernels::reduce::{self, Extents, Kernel};
use crate::layout::{Dim, collapse};
use crate::pool::Pool;
use bb::Tensor;
use bb::ir::{Error, infer};
use std::sync::Arc;

/// Reduces along `axes`, or along every axis if `axes` is empty.
pub(crate) fn reduce(
    pool: &Arc<Pool>,
    op: Reduction,
    x: &Array,
    axes: &[i64],
    keepdims: bool,
) -> Result<Array> {
    let (method, dtype) = (op.name(), x.dtype());
    let kernel = reduce::kernel(op, dtype).ok_or_else(|| unsupported(method, dtype))?;
    let r = infer::reduce(method, x.shape(), axes, keepdims)?;
    let count = r.count(x.shape());
    if count == 1 {
        return views::reshape(pool, x, &r.shape);
    }
    if count == 0 && op == Reduction::Mean && dtype.is_integer() && r.shape.iter().all(|&d| d != 0) {
        return Err(Error::DivisionByZero { op: method }.into());
    }
    along(pool, &kernel, &in_order(pool, op, x)?, r)
}

/// Computes the product along `axes`, or along every axis if `axes` is empty. Returns `None` for element types that have no
/// kernel.
pub(crate) fn product(pool: &Arc<Pool>, x: &Array, axes: &[i64], keepdims: bool) -> Result<Option<Array>> {
    let Some(kernel) = reduce::product(x.dtype()) else { return Ok(None) };
    let r = infer::reduce("reduce_prod", x.shape(), axes, keepdims)?;
    if r.count(x.shape()) == 1 {
        return views::reshape(pool, x, &r.shape).map(Some);
    }
    along(pool, &kernel, x, r).map(Some)
}

/// Reduces with a kernel that was selected for the element type.
fn along(pool: &Arc<Pool>, kernel: &Kernel, x: &Array, r: infer::Reduction<usize>) -> Result<Array> {
    let count = r.count(x.shape());
    let strides = x.strides();
    let part = |reduced: bool| {
        let dims = x.shape().iter().zip(&strides).zip(&r.reduced);
        collapse(
            dims.filter(|&(_, &gone)| gone == reduced).map(|((&extent, &s), _)| Dim { extent, strides: [s] }),
        )
    };
    let extents = Extents { kept: &part(false), reduced: &part(true), count };
    // SAFETY: the kernel was selected for the type of `x`, which has an element at every index of the extents, and
    // `out` has room for all results.
    made(pool, x.dtype(), r.shape, |out| unsafe { kernel.run(&extents, x.ptr(), out) })
}

/// Returns the operand with its elements in row-major order if the order affects the result. The order of a kernel's
/// additions depends on strides, but a float sum must not depend on whether its operand is a view.
///
/// A broadcast operand stays as it is, because a copy may be much larger.
fn in_order(pool: &Arc<Pool>, op: Reduction, x: &Array) -> Result<Array> {
    let adds = matches!(op, Reduction::Sum | Reduction::Mean) && x.dtype().is_float();
    let is_repeated =
        || x.shape().iter().zip(&x.strides()).any(|(&extent, &stride)| extent > 1 && stride == 0);
    if adds && !x.is_dense() && !is_repeated() { dense(pool, x) } else { Ok(x.clone()) }
}
