//! Element-wise operations. They apply a function to the elements of one, two or three tensors and create one tensor.

use crate::Error;
use crate::tensor::{Array, Held, blank, stretched};
use bb::RunOptions;
use bb::ir::infer;
use ndarray::Zip;

/// The number of elements or multiplications between two checks whether the run must end.
pub(crate) const PART: usize = 1 << 18;

/// Calls a function with all elements of a `Zip`, in parts. Between parts, it checks whether the run must end.
macro_rules! for_each {
    ($operands:expr, $f:expr) => {
        let mut parts = vec![$operands];
        while let Some(part) = parts.pop() {
            if part.size() <= PART {
                part.for_each($f);
            } else {
                RunOptions::check_current()?;
                let (first, rest) = part.split();
                parts.extend([rest, first]);
            }
        }
    };
}

/// Applies `f` to each element.
pub(crate) fn unary<T, R: Held>(
    op: &'static str,
    x: &Array<T>,
    f: impl Fn(&T) -> R,
) -> Result<Array<R>, Error> {
    let mut y = blank(op, x.shape())?;
    for_each!(Zip::from(&mut y).and(x), |y, x| *y = f(x));
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
    for_each!(operands, |y, a, b| *y = f(a, b));
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
    for_each!(operands, |y, a, b, c| *y = f(a, b, c));
    Ok(y.into_shared())
}
