//! Primitives that compute new elements, generic over the element type.

use super::number::{Number, Of};
use super::positions::{spread, strides, walk};
use crate::op::{Param, Primitive, take};
use crate::{Error, element_count, infer};
use std::cmp::Ordering;

/// An operand: its elements and its shape.
pub(super) type Operand<'a, T> = (&'a [T], &'a [usize]);

/// Evaluates a primitive; `None` if it is not supported for this element type. `exponents` contains the exponents of a
/// power.
pub(super) fn numeric<T: Number>(
    op: Primitive,
    inputs: &[Operand<'_, T>],
    exponents: Option<(Vec<T::Exponent>, &[usize])>,
    shape: &[usize],
    params: &[Param<'_>],
    of: Of<'_, T::Expr>,
) -> Result<Option<Vec<T>>, Error> {
    use Primitive as P;
    let method = op.spec().method;
    let zero_division = || Error::DivisionByZero { op: method };
    Ok(Some(match (op, inputs) {
        (P::Add, [a, b]) => zip(*a, *b, shape, |a, b| a.add(b, of)),
        (P::Sub, [a, b]) => zip(*a, *b, shape, |a, b| a.sub(b, of)),
        (P::Mul, [a, b]) => zip(*a, *b, shape, |a, b| a.mul(b, of)),
        (P::Div, [a, b]) => {
            let quotients: Option<_> = zip(*a, *b, shape, |a, b| a.div(b, of)).into_iter().collect();
            quotients.ok_or_else(zero_division)?
        }
        (P::Pow, [a]) => {
            let Some((b, extents)) = exponents else { return Ok(None) };
            let powers: Option<_> = zip(*a, (&b, extents), shape, |a, b| a.pow(b, of)).into_iter().collect();
            powers.ok_or_else(zero_division)?
        }
        (P::Neg | P::Abs | P::Sqrt | P::Exp | P::Log, [(x, _)]) => {
            return Ok(x.iter().map(|v| v.unary(op, of)).collect());
        }
        (P::MatMul, [a, b]) => matmul(*a, *b, of)?,
        (P::ReduceSum | P::ReduceMean | P::ReduceMax | P::ReduceMin, [(x, extents)]) => {
            let step = |a: &T, b: &T| match op {
                P::ReduceMax => a.extremum(b, Ordering::Greater, of),
                P::ReduceMin => a.extremum(b, Ordering::Less, of),
                _ => a.add(b, of),
            };
            let axes = take::Ints(method, params.first())?;
            let reduction = infer::reduce(method, extents, axes, take::Bool(method, params.get(1))?)?;
            let Some(sums) = reduced(x, extents, &reduction, &T::identity(op, of.dtype), step) else {
                return Ok(None);
            };
            if op == P::ReduceMean {
                let count = T::count(reduction.count(extents), of.dtype);
                let means: Option<_> = sums.into_iter().map(|sum| sum.div(&count, of)).collect();
                means.ok_or_else(zero_division)?
            } else {
                sums
            }
        }
        _ => return Ok(None),
    }))
}

/// Applies `f` to each pair of elements after broadcasting.
pub(super) fn zip<T, U, V>(
    (a, left): Operand<'_, T>,
    (b, right): Operand<'_, U>,
    shape: &[usize],
    f: impl Fn(&T, &U) -> V,
) -> Vec<V> {
    let at = spread(left, shape).into_iter().zip(spread(right, shape));
    at.filter_map(|(i, j)| Some(f(a.get(i)?, b.get(j)?))).collect()
}

/// Reduces the elements of each result in order; `None` if there are no elements and the reduction has no identity.
pub(super) fn reduced<T: Clone>(
    x: &[T],
    shape: &[usize],
    reduction: &infer::Reduction,
    identity: &Option<T>,
    step: impl Fn(&T, &T) -> T,
) -> Option<Vec<T>> {
    let kept = strides(&reduction.kept);
    let steps: Vec<isize> =
        reduction.reduced.iter().zip(&kept).map(|(&gone, &s)| if gone { 0 } else { s }).collect();
    let mut out = vec![identity.clone(); element_count(&reduction.kept).unwrap_or(0)];
    for (value, group) in x.iter().zip(walk(shape, &steps, 0)) {
        if let Some(slot) = out.get_mut(group) {
            *slot = Some(slot.as_ref().map_or_else(|| value.clone(), |sum| step(sum, value)));
        }
    }
    out.into_iter().collect()
}

fn matmul<T: Number>(
    (x, left): Operand<'_, T>,
    (y, right): Operand<'_, T>,
    of: Of<'_, T::Expr>,
) -> Result<Vec<T>, Error> {
    let p = infer::matmul(left, right)?;
    let leading = |shape: &[usize]| spread(shape.split_at(shape.len().saturating_sub(2)).0, &p.batch);
    let nothing = T::identity(Primitive::ReduceSum, of.dtype);
    let mut out = Vec::new();
    for (i, j) in leading(left).into_iter().zip(leading(right)) {
        let (x, y) = (x.get(i * p.m * p.k..).unwrap_or_default(), y.get(j * p.k * p.n..).unwrap_or_default());
        for row in 0..p.m {
            for column in 0..p.n {
                let mut products =
                    (0..p.k).filter_map(|k| Some(x.get(row * p.k + k)?.mul(y.get(k * p.n + column)?, of)));
                let Some(nothing) = nothing.clone().or_else(|| products.next()) else { continue };
                out.push(products.fold(nothing, |sum, v| sum.add(&v, of)));
            }
        }
    }
    Ok(out)
}
