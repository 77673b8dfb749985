//! Element by element: how one, two or three tensors become one, whatever the function.

use crate::Error;
use crate::tensor::{Array, stretched};
use bb::ir::infer;
use ndarray::Zip;

/// Applies `f` to each element.
pub(crate) fn unary<T: Clone, R: Clone>(x: &Array<T>, f: impl Fn(&T) -> R) -> Array<R> {
    x.map(f).into_shared()
}

/// Applies `f` to the elements that meet when `a` and `b` are broadcast.
pub(crate) fn binary<A, B, R: Clone>(
    op: &'static str,
    a: &Array<A>,
    b: &Array<B>,
    f: impl FnMut(&A, &B) -> R,
) -> Result<Array<R>, Error> {
    let shape = infer::broadcast(op, &[a.shape(), b.shape()])?;
    let pairs = Zip::from(stretched(a, &shape)?).and(stretched(b, &shape)?);
    Ok(pairs.map_collect(f).into_shared())
}

/// Applies `f` to the elements that meet when `a`, `b` and `c` are broadcast.
pub(crate) fn ternary<A, B, C, R: Clone>(
    op: &'static str,
    a: &Array<A>,
    b: &Array<B>,
    c: &Array<C>,
    f: impl FnMut(&A, &B, &C) -> R,
) -> Result<Array<R>, Error> {
    let shape = infer::broadcast(op, &[a.shape(), b.shape(), c.shape()])?;
    let triples = Zip::from(stretched(a, &shape)?).and(stretched(b, &shape)?).and(stretched(c, &shape)?);
    Ok(triples.map_collect(f).into_shared())
}
