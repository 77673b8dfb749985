//! Element-wise operations: they apply any function to the elements of one, two or three tensors and make one tensor.

use crate::Error;
use crate::tensor::{Array, Held, blank, stretched};
use bb::ir::infer;
use ndarray::Zip;

/// Applies `f` to each element.
pub(crate) fn unary<T, R: Held>(
    op: &'static str,
    x: &Array<T>,
    f: impl Fn(&T) -> R,
) -> Result<Array<R>, Error> {
    let mut y = blank(op, x.shape())?;
    Zip::from(&mut y).and(x).for_each(|y, x| *y = f(x));
    Ok(y.into_shared())
}

/// Broadcasts `a` and `b`, and applies `f` to each pair of elements.
pub(crate) fn binary<A, B, R: Held>(
    op: &'static str,
    a: &Array<A>,
    b: &Array<B>,
    mut f: impl FnMut(&A, &B) -> R,
) -> Result<Array<R>, Error> {
    let shape = infer::broadcast(op, &[a.shape(), b.shape()])?;
    let mut y = blank(op, &shape)?;
    let operands = Zip::from(&mut y).and(stretched(a, &shape)?).and(stretched(b, &shape)?);
    operands.for_each(|y, a, b| *y = f(a, b));
    Ok(y.into_shared())
}

/// Broadcasts `a`, `b` and `c`, and applies `f` to each triple of elements.
pub(crate) fn ternary<A, B, C, R: Held>(
    op: &'static str,
    a: &Array<A>,
    b: &Array<B>,
    c: &Array<C>,
    mut f: impl FnMut(&A, &B, &C) -> R,
) -> Result<Array<R>, Error> {
    let shape = infer::broadcast(op, &[a.shape(), b.shape(), c.shape()])?;
    let mut y = blank(op, &shape)?;
    let operands =
        Zip::from(&mut y).and(stretched(a, &shape)?).and(stretched(b, &shape)?).and(stretched(c, &shape)?);
    operands.for_each(|y, a, b, c| *y = f(a, b, c));
    Ok(y.into_shared())
}
