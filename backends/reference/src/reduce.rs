//! Reductions: `reduce_sum reduce_mean reduce_max reduce_min`.

use crate::elementwise::PART;
use crate::number::{Number, Ordered};
use crate::tensor::{Array, array, row_major};
use crate::{Error, Tensor};
use bb::ir::{Error as IrError, element_count, infer, memory};
use bb::{Primitive, RunOptions, Tensor as _};

pub(crate) fn sum(x: &Tensor, axes: &[i64], keepdims: bool) -> Result<Tensor, Error> {
    let dtype = infer::dtype(Primitive::ReduceSum, &[x.dtype()], &[])?;
    numbers!("reduce_sum", dtype, T => {
        let sums = reduce("reduce_sum", x.array(dtype)?, axes, keepdims, |row: &[T]| Some(T::sum(row)))?;
        Ok(Tensor::new(dtype, sums))
    })
}

pub(crate) fn mean(x: &Tensor, axes: &[i64], keepdims: bool) -> Result<Tensor, Error> {
    let dtype = infer::dtype(Primitive::ReduceMean, &[x.dtype()], &[])?;
    numbers!("reduce_mean", dtype, T => {
        let means = reduce("reduce_mean", x.array(dtype)?, axes, keepdims, |row: &[T]| T::mean(row))?;
        Ok(Tensor::new(dtype, means))
    })
}

#[expect(
    clippy::bool_comparison,
    reason = "one of the element types is bool, whose order is false before true"
)]
pub(crate) fn max(x: &Tensor, axes: &[i64], keepdims: bool) -> Result<Tensor, Error> {
    let dtype = infer::dtype(Primitive::ReduceMax, &[x.dtype()], &[])?;
    ordered!("reduce_max", dtype, T => {
        let best = |row: &[T]| Some(row.iter().fold(T::LEAST, |best, &x| prefer(x > best, x, best)));
        Ok(Tensor::new(dtype, reduce("reduce_max", x.array(dtype)?, axes, keepdims, best)?))
    })
}

#[expect(
    clippy::bool_comparison,
    reason = "one of the element types is bool, whose order is false before true"
)]
pub(crate) fn min(x: &Tensor, axes: &[i64], keepdims: bool) -> Result<Tensor, Error> {
    let dtype = infer::dtype(Primitive::ReduceMin, &[x.dtype()], &[])?;
    ordered!("reduce_min", dtype, T => {
        let best = |row: &[T]| Some(row.iter().fold(T::GREATEST, |best, &x| prefer(x < best, x, best)));
        Ok(Tensor::new(dtype, reduce("reduce_min", x.array(dtype)?, axes, keepdims, best)?))
    })
}

/// Returns `x` if it is better than `best` or if it is NaN, and `best` otherwise. Only NaN is not equal to itself.
#[expect(clippy::eq_op, reason = "how NaN is known in any type")]
fn prefer<T: Ordered>(better: bool, x: T, best: T) -> T {
    if better || x != x { x } else { best }
}

/// Applies `f` to the elements that are reduced to each result. If `f` returns `None`, returns an error for a division by zero.
fn reduce<T: Clone>(
    op: &'static str,
    x: &Array<T>,
    axes: &[i64],
    keepdims: bool,
    f: impl Fn(&[T]) -> Option<T>,
) -> Result<Array<T>, Error> {
    let reduction = infer::reduce(op, x.shape(), axes, keepdims)?;
    // With the reduced dimensions last, each result is the reduction of one run of elements.
    let mut order: Vec<usize> = (0..x.ndim()).collect();
    order.sort_by_key(|&axis| reduction.reduced.get(axis));
    let permuted = x.view().permuted_axes(order);
    let rows = row_major(op, &permuted)?;
    let mut done = 0;
    let mut one = |row: &[T]| {
        done += row.len();
        if done > PART {
            done = 0;
            RunOptions::check_current()?;
        }
        f(row).ok_or_else(|| Error::from(IrError::DivisionByZero { op }))
    };
    let results = match reduction.count(x.shape()) {
        0 => {
            let count = element_count(&reduction.shape).unwrap_or(0);
            memory::try_collected(op, (0..count).map(|_| one(&[])))?
        }
        count => memory::try_collected(op, rows.chunks(count).map(one))?,
    };
    array(&reduction.shape, results)
}
