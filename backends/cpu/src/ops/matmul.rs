//! Batched matrix products.

use super::{made, unsupported};
use crate::array::Array;
use crate::error::Result;
use crate::gemm::panels::Panels;
use crate::gemm::{self, Matrix};
use crate::layout::{Dim, Dims, broadcast_strides, collapse};
use crate::pool::Pool;
use bb::Tensor;
use bb::ir::{Error, infer};
use std::sync::Arc;

/// Computes a batched matrix product. The rows and columns of the operands may have any strides.
pub(crate) fn matmul(pool: &Arc<Pool>, a: &Array, b: &Array) -> Result<Array> {
    let dtype = a.dtype();
    if !gemm::multiplies(dtype) {
        return Err(unsupported("matmul", dtype));
    }
    if b.dtype() != dtype {
        return Err(Error::mixed("matmul", ("a", dtype), ("b", b.dtype())).into());
    }
    let (left, right) = (a.strides(), b.strides());
    let [batch_b @ .., b_row, b_col] = &right[..] else {
        let row = right.first().copied().unwrap_or(0);
        return product(pool, a, b, &left, (&[], row, 0));
    };
    product(pool, a, b, &left, (batch_b, *b_row, *b_col))
}

/// The strides of an operand: of its batch dimensions, between rows, and between columns.
type Split<'a> = (&'a [isize], isize, isize);

/// Splits the strides of a left operand. A one-dimensional operand is a single row.
fn left_strides(strides: &[isize]) -> Split<'_> {
    match strides {
        [batch @ .., row, col] => (batch, *row, *col),
        [col] => (&[], 0, *col),
        [] => (&[], 0, 0),
    }
}

fn product(
    pool: &Arc<Pool>,
    a: &Array,
    b: &Array,
    left: &[isize],
    (batch_b, b_row, b_col): Split<'_>,
) -> Result<Array> {
    let dtype = a.dtype();
    let mm = infer::matmul(a.shape(), b.shape())?;
    let pairs = Pairs::new(&mm, a.shape(), left, b.shape().get(..batch_b.len()).unwrap_or_default(), batch_b);
    let (_, row, col) = left_strides(left);
    let a = Matrix { ptr: a.ptr(), row, col };
    let b = Matrix { ptr: b.ptr(), row: b_row, col: b_col };
    let offsets = |i: usize| pairs.offsets(i);
    // SAFETY: the operands have matrices of these extents at the offsets of each pair, and `out` has room for all
    // products.
    made(pool, dtype, mm.shape, |out| unsafe {
        gemm::products(dtype, pairs.batch, pairs.extents, a, b, out, &offsets);
    })
}

/// Multiplies a batch of matrices by a matrix whose columns are packed.
pub(crate) fn packed(pool: &Arc<Pool>, a: &Array, right: &Panels) -> Result<Array> {
    let dtype = right.dtype();
    if a.dtype() != dtype {
        return Err(Error::mixed("matmul", ("b", dtype), ("a", a.dtype())).into());
    }
    let mm = infer::matmul(a.shape(), &right.extents())?;
    let left = a.strides();
    let pairs = Pairs::new(&mm, a.shape(), &left, &[], &[]);
    let (_, row, col) = left_strides(&left);
    let a = Matrix { ptr: a.ptr(), row, col };
    let offsets = |i: usize| pairs.offsets(i).0;
    // SAFETY: the left operands have matrices of these extents at their offsets, and `out` has room for all products.
    made(pool, dtype, mm.shape, |out| unsafe {
        right.products(pairs.batch, pairs.extents.m, a, out, &offsets);
    })
}

/// The pairs of matrices that a batched product multiplies.
struct Pairs {
    extents: gemm::Dims,
    batch: usize,
    dims: Dims<2>,
}

impl Pairs {
    fn new(
        mm: &infer::MatMul<usize>,
        a: &[usize],
        left: &[isize],
        batch_b: &[usize],
        right: &[isize],
    ) -> Pairs {
        let (batch, row, _) = left_strides(left);
        let sa = broadcast_strides(a.get(..batch.len()).unwrap_or_default(), batch, &mm.batch);
        let sb = broadcast_strides(batch_b, right, &mm.batch);
        let dims = collapse(
            mm.batch.iter().zip(&sa).zip(&sb).map(|((&extent, &sa), &sb)| Dim { extent, strides: [sa, sb] }),
        );
        let mut extents = gemm::Dims { m: mm.m, k: mm.k, n: mm.n };
        let mut batch = mm.batch.iter().product();
        if let [Dim { extent, strides: [step, 0] }] = dims[..]
            && step == row * mm.m.cast_signed()
        {
            // All left operands share one right operand, and each begins where the rows of the previous one end, so they
            // form one taller matrix.
            (extents.m, batch) = (mm.m * extent, 1);
        }
        Pairs { extents, batch, dims }
    }

    /// Returns the offsets in elements of a pair's operands from the operands of the first pair.
    fn offsets(&self, pair: usize) -> (isize, isize) {
        let (mut left, mut at) = (pair, (0, 0));
        for dim in self.dims.iter().rev() {
            let [sa, sb] = dim.strides;
            let index = (left % dim.extent).cast_signed();
            left /= dim.extent;
            at = (at.0 + index * sa, at.1 + index * sb);
        }
        at
    }
}
