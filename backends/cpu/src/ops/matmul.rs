//! Batched matrix products.

use super::{made, unsupported};
use crate::array::Array;
use crate::error::Result;
use crate::gemm::{self, Matrix};
use crate::layout::{Dim, broadcast_strides, collapse};
use crate::pool::Pool;
use bb::Tensor;
use bb::ir::{Error, infer};
use std::sync::Arc;

/// Multiplies matrices whose rows and columns may have any strides.
pub(crate) fn matmul(pool: &Arc<Pool>, a: &Array, b: &Array) -> Result<Array> {
    let dtype = a.dtype();
    if !gemm::multiplies(dtype) {
        return Err(unsupported("matmul", dtype));
    }
    if b.dtype() != dtype {
        return Err(Error::DataType { expected: dtype, got: b.dtype() }.into());
    }
    let mm = infer::matmul(a.shape(), b.shape())?;
    let (left, right) = (a.strides(), b.strides());
    let (batch_a, a_row, a_col) = match &left[..] {
        [batch @ .., row, col] => (batch, *row, *col),
        [col] => (&[][..], 0, *col),
        [] => (&[][..], 0, 0),
    };
    let (batch_b, b_row, b_col) = match &right[..] {
        [batch @ .., row, col] => (batch, *row, *col),
        [row] => (&[][..], *row, 0),
        [] => (&[][..], 0, 0),
    };
    let extents = |x: &Array, batch: &[isize]| {
        broadcast_strides(x.shape().get(..batch.len()).unwrap_or_default(), batch, &mm.batch)
    };
    let (sa, sb) = (extents(a, batch_a), extents(b, batch_b));
    let dims = collapse(
        mm.batch.iter().zip(&sa).zip(&sb).map(|((&extent, &sa), &sb)| Dim { extent, strides: [sa, sb] }),
    );
    let a = Matrix { ptr: a.ptr(), row: a_row, col: a_col };
    let b = Matrix { ptr: b.ptr(), row: b_row, col: b_col };
    let mut extents = gemm::Dims { m: mm.m, k: mm.k, n: mm.n };
    let mut batch = mm.batch.iter().product();
    if let [Dim { extent, strides: [step, 0] }] = dims[..]
        && step == a_row * mm.m.cast_signed()
    {
        // All left operands share one right operand, and their rows follow each other, so they form one taller matrix.
        (extents.m, batch) = (mm.m * extent, 1);
    }
    let offsets = |i: usize| {
        let (mut left, mut at) = (i, (0, 0));
        for dim in dims.iter().rev() {
            let [sa, sb] = dim.strides;
            let index = (left % dim.extent).cast_signed();
            left /= dim.extent;
            at = (at.0 + index * sa, at.1 + index * sb);
        }
        at
    };
    // SAFETY: the operands have matrices of these extents at the offsets of each pair, and `out` has room for all
    // products.
    made(pool, dtype, mm.shape, |out| unsafe {
        gemm::products(dtype, batch, extents, a, b, out, &offsets);
    })
}
