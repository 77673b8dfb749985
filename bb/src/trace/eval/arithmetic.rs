//! Primitives that compute: in one element type, or on truth values.

use super::movement::{concat, moved, spread, strides, walk};
use super::number::{Exponent, Number, extremum, negated};
use crate::Error;
use bb_ir::infer;
use bb_ir::op::{Param, Primitive, take};
use bb_ir::{DataType, TensorData};
use std::cmp::Ordering;

/// The primitives that compute, in one element type.
pub(super) fn numeric<T: Number>(
    op: Primitive,
    inputs: &[&TensorData],
    shape: &[usize],
    params: &[Param<'_>],
) -> Result<Option<TensorData>, Error> {
    use Primitive as P;
    let method = op.spec().method;
    let zero_division = || bb_ir::Error::DivisionByZero { op: method };
    let floats = |x: &TensorData, f: fn(f32) -> f32| -> Result<Option<Vec<T>>, Error> {
        Ok(x.as_slice::<T>()?.iter().map(|v| v.float(f)).collect())
    };
    let elements: Option<Vec<T>> = match (op, inputs) {
        (P::Add, [a, b]) => Some(zip(a, b, shape, T::add)?),
        (P::Sub, [a, b]) => Some(zip(a, b, shape, T::sub)?),
        (P::Mul, [a, b]) => Some(zip(a, b, shape, T::mul)?),
        (P::Div, [a, b]) => {
            Some(zip(a, b, shape, T::div)?.into_iter().collect::<Option<_>>().ok_or_else(zero_division)?)
        }
        (P::Pow, [a, b]) => match exponents(b)? {
            None => None,
            Some(b) => {
                let (base, at) =
                    (a.as_slice::<T>()?, [spread(a.shape(), shape), spread(inputs_shape(inputs, 1), shape)]);
                let [left, right] = at;
                let powers =
                    left.iter().zip(&right).filter_map(|(&i, &j)| Some(base.get(i)?.pow(*b.get(j)?)));
                Some(powers.collect::<Option<_>>().ok_or_else(zero_division)?)
            }
        },
        (P::Neg, [x]) => Some(x.as_slice::<T>()?.iter().map(|&v| negated(v)).collect()),
        (P::Abs, [x]) => Some(x.as_slice::<T>()?.iter().map(|&v| v.abs()).collect()),
        (P::Sqrt, [x]) => floats(x, f32::sqrt)?,
        (P::Exp, [x]) => floats(x, f32::exp)?,
        (P::Log, [x]) => floats(x, f32::ln)?,
        (P::MatMul, [a, b]) => Some(matmul::<T>(a, b)?),
        (P::ReduceSum | P::ReduceMean | P::ReduceMax | P::ReduceMin, [x]) => {
            let x_values = x.as_slice::<T>()?;
            let (groups, count) = grouped(x, shape, method, params)?;
            let (start, step): (T, fn(T, T) -> T) = match op {
                P::ReduceMax => (T::BOUNDS.0, |a, b| extremum(a, b, Ordering::Greater)),
                P::ReduceMin => (T::BOUNDS.1, |a, b| extremum(a, b, Ordering::Less)),
                _ => (T::default(), T::add),
            };
            let mut out = vec![start; bb_ir::element_count(shape).unwrap_or(0)];
            for (&value, &group) in x_values.iter().zip(&groups) {
                if let Some(slot) = out.get_mut(group) {
                    *slot = step(*slot, value);
                }
            }
            if op == P::ReduceMean {
                let count = T::count(count);
                out =
                    out.into_iter().map(|v| v.div(count)).collect::<Option<_>>().ok_or_else(zero_division)?;
            }
            Some(out)
        }
        _ => None,
    };
    elements.map(|e| TensorData::new(shape, &e).map_err(Error::from)).transpose()
}

fn inputs_shape<'a>(inputs: &[&'a TensorData], index: usize) -> &'a [usize] {
    inputs.get(index).map_or(&[], |x| x.shape())
}

fn exponents(b: &TensorData) -> Result<Option<Vec<Exponent>>, Error> {
    Ok(match b.dtype() {
        DataType::I64 => Some(b.as_slice::<i64>()?.iter().map(|&v| Exponent::Int(v)).collect()),
        DataType::I32 => Some(b.as_slice::<i32>()?.iter().map(|&v| Exponent::Int(v.into())).collect()),
        DataType::F32 => Some(b.as_slice::<f32>()?.iter().map(|&v| Exponent::Float(v.into())).collect()),
        _ => None,
    })
}

/// Applies `f` to broadcast pairs.
fn zip<T: Number, U, F: Fn(T, T) -> U>(
    a: &TensorData,
    b: &TensorData,
    shape: &[usize],
    f: F,
) -> Result<Vec<U>, Error> {
    let (x, y) = (a.as_slice::<T>()?, b.as_slice::<T>()?);
    let at = spread(a.shape(), shape).into_iter().zip(spread(b.shape(), shape));
    Ok(at.filter_map(|(i, j)| Some(f(*x.get(i)?, *y.get(j)?))).collect())
}

pub(super) fn select(
    condition: &TensorData,
    x: &TensorData,
    y: &TensorData,
    shape: &[usize],
) -> Result<Option<TensorData>, Error> {
    let condition_at = spread(condition.shape(), shape);
    let chosen = condition.to_bools()?;
    // Both operands one after the other, so that a choice is a position.
    let Some(both) = concat(&[&x.reshaped(&[x.len()])?, &y.reshaped(&[y.len()])?], &[x.len() + y.len()], 0)?
    else {
        return Ok(None);
    };
    let at = spread(x.shape(), shape).into_iter().zip(spread(y.shape(), shape)).zip(condition_at);
    let positions: Vec<usize> =
        at.map(|((i, j), c)| if chosen.get(c) == Some(&true) { i } else { x.len() + j }).collect();
    moved(&both, shape, &positions)
}

pub(super) fn compare(
    op: Primitive,
    a: &TensorData,
    b: &TensorData,
    shape: &[usize],
) -> Result<Option<TensorData>, Error> {
    fn holds<T: PartialOrd>(op: Primitive, a: T, b: T) -> bool {
        match op {
            Primitive::Greater => a > b,
            Primitive::Less => a < b,
            _ => a == b,
        }
    }
    let truths: Vec<bool> = match a.dtype() {
        DataType::I64 => zip::<i64, _, _>(a, b, shape, |a, b| holds(op, a, b))?,
        DataType::I32 => zip::<i32, _, _>(a, b, shape, |a, b| holds(op, a, b))?,
        DataType::F32 => zip::<f32, _, _>(a, b, shape, |a, b| holds(op, a, b))?,
        DataType::Bool => {
            let (x, y) = (a.to_bools()?, b.to_bools()?);
            let at = spread(a.shape(), shape).into_iter().zip(spread(b.shape(), shape));
            at.map(|(i, j)| holds(op, x.get(i), y.get(j))).collect()
        }
        _ => return Ok(None),
    };
    Ok(Some(TensorData::bools(shape, &truths)?))
}

/// For each element, the position of the result it is reduced to; and how many are reduced to one.
fn grouped(
    x: &TensorData,
    out: &[usize],
    op: &'static str,
    params: &[Param<'_>],
) -> Result<(Vec<usize>, usize), Error> {
    let reduction =
        infer::reduce(op, x.shape(), take::Ints(op, params.first())?, take::Bool(op, params.get(1))?)?;
    let kept = strides(&reduction.kept);
    let steps: Vec<isize> =
        reduction.reduced.iter().zip(&kept).map(|(&gone, &s)| if gone { 0 } else { s }).collect();
    debug_assert_eq!(bb_ir::element_count(&reduction.kept), bb_ir::element_count(out));
    Ok((walk(x.shape(), &steps, 0), reduction.count(x.shape())))
}

pub(super) fn extremum_of_bools(
    op: Primitive,
    x: &TensorData,
    shape: &[usize],
    params: &[Param<'_>],
) -> Result<Option<TensorData>, Error> {
    let (groups, _) = grouped(x, shape, op.spec().method, params)?;
    // The maximum of truth values is false until one is true; the minimum true until one is false.
    let seek = op == Primitive::ReduceMax;
    let mut out = vec![!seek; bb_ir::element_count(shape).unwrap_or(0)];
    for (value, group) in x.to_bools()?.into_iter().zip(groups) {
        if let Some(slot) = out.get_mut(group).filter(|_| value == seek) {
            *slot = seek;
        }
    }
    Ok(Some(TensorData::bools(shape, &out)?))
}

fn matmul<T: Number>(a: &TensorData, b: &TensorData) -> Result<Vec<T>, Error> {
    let (x, y) = (a.as_slice::<T>()?, b.as_slice::<T>()?);
    let p = infer::matmul(a.shape(), b.shape())?;
    let leading = |shape: &[usize]| spread(shape.split_at(shape.len().saturating_sub(2)).0, &p.batch);
    let mut out = Vec::new();
    for (i, j) in leading(a.shape()).into_iter().zip(leading(b.shape())) {
        let (x, y) = (x.get(i * p.m * p.k..).unwrap_or_default(), y.get(j * p.k * p.n..).unwrap_or_default());
        for row in 0..p.m {
            for column in 0..p.n {
                let products =
                    (0..p.k).filter_map(|k| Some(x.get(row * p.k + k)?.mul(*y.get(k * p.n + column)?)));
                out.push(products.fold(T::default(), T::add));
            }
        }
    }
    Ok(out)
}
