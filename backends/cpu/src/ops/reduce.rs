//! Reductions over axes.

use super::{made, unsupported, views};
use crate::array::Array;
use crate::error::Result;
use crate::kernels::reduce::{self, Kind};
use crate::kernels::vector::{self, FEW};
use crate::layout::{Dim, collapse};
use crate::pool::Pool;
use bb::ir::{Error, infer};
use bb::{Primitive, Tensor};
use std::sync::Arc;

/// Reduces over `axes`, or over every axis when they are empty.
pub(crate) fn reduce(
    pool: &Arc<Pool>,
    op: Primitive,
    kind: Kind,
    x: &Array,
    axes: &[i64],
    keepdims: bool,
) -> Result<Array> {
    let method = op.spec().method;
    let dtype = x.dtype();
    let kernel = match reduce::kernel(kind, dtype) {
        Some(kernel) if infer::accepts(op, 0, dtype) => kernel,
        _ => return Err(unsupported(method, dtype)),
    };
    let r = infer::reduce(method, x.shape(), axes, keepdims)?;
    let count = r.count(x.shape());
    if count == 1 {
        return views::reshape(pool, x, &r.shape);
    }
    if count == 0 && kind == Kind::Mean && dtype.is_integer() && r.shape.iter().all(|&d| d != 0) {
        return Err(Error::DivisionByZero { op: method }.into());
    }
    let strides = x.strides();
    let part = |reduced: bool| {
        let dims = x.shape().iter().zip(&strides).zip(&r.reduced);
        collapse(
            dims.filter(|&(_, &gone)| gone == reduced).map(|((&extent, &s), _)| Dim { extent, strides: [s] }),
        )
    };
    let (kept, reduced) = (part(false), part(true));
    if dtype.is_float()
        && count >= FEW
        && let [Dim { extent: len, strides: [middle] }] = reduced[..]
        && let Some((extents, strides)) = around(&kept, len, middle)
    {
        // SAFETY: these are the extents and strides of `x`, and there is room for all results.
        return made(pool, dtype, r.shape, |out| unsafe {
            vector::reduce(kind, dtype, extents, strides, x.ptr(), out);
        });
    }
    // SAFETY: `x` has an element at every index of both, and there is room for all results.
    made(pool, dtype, r.shape, |out| unsafe {
        kernel(&kept, &reduced, count, x.ptr(), out);
    })
}

/// Returns the dimensions outside, reduced and inside, if there are no more.
fn around(kept: &[Dim<1>], len: usize, middle: isize) -> Option<([usize; 3], [isize; 3])> {
    match *kept {
        [] => Some(([1, len, 1], [0, middle, 0])),
        [Dim { extent, strides: [s] }] if s.unsigned_abs() < middle.unsigned_abs() => {
            Some(([1, len, extent], [0, middle, s]))
        }
        [Dim { extent, strides: [s] }] => Some(([extent, len, 1], [s, middle, 0])),
        [Dim { extent: outer, strides: [so] }, Dim { extent: inner, strides: [si] }] => {
            Some(([outer, len, inner], [so, middle, si]))
        }
        _ => None,
    }
}
