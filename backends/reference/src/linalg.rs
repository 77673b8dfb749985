//! Matrix products: `matmul`.

use crate::cast::cast;
use crate::elementwise::PART;
use crate::number::Integer;
use crate::tensor::{Array, Held, array};
use crate::{Error, Tensor};
use bb::ir::{element_count, infer, memory};
use bb::{DataType, Primitive, RoundMode, RunOptions, Tensor as _};
use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewD, ArrayViewMut2, Axis, Dimension as _, IxDyn, LinalgScalar, ShapeError};

/// The maximum number of bytes that ndarray allocates for a product of floats: one block of each operand, rearranged to the order
/// of reads. ndarray does not report a failure of this allocation, so it is probed first.
///
/// Source: `matrixmultiply` 0.3, whose blocks have at most 256 x 1024 and 64 x 256 elements.
const BLOCKS: usize = 4 << 20;

/// Multiplies matrices. `f16` and `bf16` are multiplied in `f32`, and the results are rounded once.
pub(crate) fn matmul(a: &Tensor, b: &Tensor) -> Result<Tensor, Error> {
    let dtype = infer::dtype(Primitive::MatMul, &[a.dtype(), b.dtype()], &[])?;
    match dtype {
        DataType::F32 => {
            let product = batched::<f32>(a.array(dtype)?, b.array(dtype)?, float_product)?;
            Ok(Tensor::new(dtype, product))
        }
        DataType::F64 => {
            let product = batched::<f64>(a.array(dtype)?, b.array(dtype)?, float_product)?;
            Ok(Tensor::new(dtype, product))
        }
        DataType::F16 | DataType::BF16 => {
            let [a, b] = [a, b].map(|x| cast(x, DataType::F32, true, RoundMode::Up));
            cast(&matmul(&a?, &b?)?, dtype, true, RoundMode::Up)
        }
        _ => integers!("matmul", dtype, T => {
            let product = batched::<T>(a.array(dtype)?, b.array(dtype)?, integer_product)?;
            Ok(Tensor::new(dtype, product))
        }),
    }
}

/// Broadcasts the leading dimensions of `a` and `b`, and multiplies each pair of matrices.
fn batched<T: Held>(
    a: &Array<T>,
    b: &Array<T>,
    multiply: impl Fn(ArrayView2<'_, T>, ArrayView2<'_, T>, ArrayViewMut2<'_, T>),
) -> Result<Array<T>, Error> {
    let extents = infer::matmul(a.shape(), b.shape())?;
    // A vector is a matrix of one row (`a`) or one column (`b`).
    let a = if a.ndim() == 1 { a.view().insert_axis(Axis(0)) } else { a.view() };
    let b = if b.ndim() == 1 { b.view().insert_axis(Axis(1)) } else { b.view() };
    let batch = &extents.batch[..];
    let (a, b) = (matrices(&a, batch)?, matrices(&b, batch)?);
    let mut products = memory::filled("matmul", T::blank(), element_count(&extents.shape).unwrap_or(0))?;
    memory::probe("matmul", BLOCKS)?;
    for ((a, b), product) in a.iter().zip(&b).zip(matrices_of(&mut products, &a, &b)) {
        let failed = |source| Error::Extents { shape: extents.shape.as_slice().into(), source };
        let mut product = product.map_err(failed)?;
        let rows = (PART / b.len().max(1)).max(1);
        let parts = a.axis_chunks_iter(Axis(0), rows).zip(product.axis_chunks_iter_mut(Axis(0), rows));
        for (a, product) in parts {
            RunOptions::check_current()?;
            multiply(a, *b, product);
        }
    }
    array(&extents.shape, products)
}

/// Divides the elements of all products into matrices. Empty products give no matrices.
fn matrices_of<'y, T>(
    products: &'y mut [T],
    a: &[ArrayView2<'_, T>],
    b: &[ArrayView2<'_, T>],
) -> impl Iterator<Item = Result<ArrayViewMut2<'y, T>, ShapeError>> {
    let rows = a.first().map_or(0, |a| a.nrows());
    let columns = b.first().map_or(0, |b| b.ncols());
    products.chunks_mut((rows * columns).max(1)).map(move |y| ArrayViewMut2::from_shape((rows, columns), y))
}

/// Lists the matrices in the last two dimensions, one for each index of `batch`.
fn matrices<'a, T>(x: &'a ArrayViewD<'a, T>, batch: &[usize]) -> Result<Vec<ArrayView2<'a, T>>, Error> {
    let [.., rows, columns] = x.shape() else {
        return Ok(Vec::new());
    };
    let shape = [batch, &[*rows, *columns]].concat();
    let overflow = ndarray::ShapeError::from_kind(ndarray::ErrorKind::Overflow);
    let failed = |source| Error::Extents { shape: shape.as_slice().into(), source };
    let all = x.broadcast(IxDyn(&shape)).ok_or_else(|| failed(overflow))?;
    let matrix = |index: IxDyn| {
        let matrix = index.slice().iter().fold(all.clone(), |x, &i| x.index_axis_move(Axis(0), i));
        matrix.into_dimensionality().map_err(failed)
    };
    memory::try_collected("matmul", ndarray::indices(batch).into_iter().map(matrix))
}

/// Writes the product of two float matrices. A long sum is computed as the sum of its two halves, so that the error grows only with
/// the logarithm of the length.
fn float_product<T: LinalgScalar>(
    a: ArrayView2<'_, T>,
    b: ArrayView2<'_, T>,
    mut product: ArrayViewMut2<'_, T>,
) {
    if a.ncols() <= 1024 {
        return general_mat_mul(T::one(), &a, &b, T::zero(), &mut product);
    }
    let half = a.ncols() / 2;
    let ((left, right), (top, bottom)) = (a.split_at(Axis(1), half), b.split_at(Axis(0), half));
    let mut rest = ndarray::Array2::zeros(product.raw_dim());
    float_product(left, top, product.view_mut());
    float_product(right, bottom, rest.view_mut());
    product.zip_mut_with(&rest, |sum, &part| *sum = *sum + part);
}

/// Adds the product of two integer matrices to `product`. Sums and products wrap around.
fn integer_product<T: Integer>(
    a: ArrayView2<'_, T>,
    b: ArrayView2<'_, T>,
    mut product: ArrayViewMut2<'_, T>,
) {
    for (mut row, factors) in product.rows_mut().into_iter().zip(a.rows()) {
        for (&factor, terms) in factors.iter().zip(b.rows()) {
            row.zip_mut_with(&terms, |sum, &term| *sum = sum.plus(factor.times(term)));
        }
    }
}
