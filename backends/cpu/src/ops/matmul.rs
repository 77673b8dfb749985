//! Matrix products, batched.

use super::{made, unsupported};
use crate::array::{Array, element_size};
use crate::error::Result;
use crate::kernels::product::{self, Matrix};
use crate::layout::{Dim, broadcast_strides, collapse, for_each_index};
use crate::pool::Pool;
use bb::Tensor;
use bb::ir::{Error, infer};
use std::sync::Arc;

/// Multiplies matrices, wherever their rows and columns lie.
pub(crate) fn matmul(pool: &Arc<Pool>, a: &Array, b: &Array) -> Result<Array> {
    let dtype = a.dtype();
    let Some(kernel) = product::kernel(dtype) else {
        return Err(unsupported("matmul", dtype));
    };
    if b.dtype() != dtype {
        return Err(Error::DataType { expected: dtype, got: b.dtype() }.into());
    }
    let mm = infer::matmul(a.shape(), b.shape())?;
    let (m, k, n) = (mm.m, mm.k, mm.n);
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
    let size = element_size(dtype);
    made(pool, dtype, mm.shape, |mut out| {
        for_each_index(&dims, |[i, j]| {
            // SAFETY: `i` and `j` are the first elements of matrices of these extents, and results
            // are written one after another.
            unsafe {
                let a = Matrix { ptr: a.ptr().offset(i * size as isize), row: a_row, col: a_col };
                let b = Matrix { ptr: b.ptr().offset(j * size as isize), row: b_row, col: b_col };
                kernel(m, k, n, a, b, out);
                out = out.add(m * n * size);
            }
        });
    })
}
