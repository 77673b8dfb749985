//! The evaluator: primitives on small constants of the types that shape arithmetic uses.
//!
//! It computes in `i64`, `i32`, `bool` and `f32`, and moves and casts elements of every type. It is plain and
//! slow: tensors of a few thousand elements at most come here, once per plan.

use crate::Error;
use bb_ir::convert::{Rounding, cast};
use bb_ir::infer;
use bb_ir::op::{Param, Primitive, take};
use bb_ir::{DataType, Element, Shape, TensorData};
use std::cmp::Ordering;

/// Computes a primitive on the host; `None` if its element types are not the evaluator's.
///
/// `results` are what inference says of them.
///
/// # Errors
///
/// What the primitive's kernel would report of the elements: a division by zero, an index out of range.
pub(super) fn primitive(
    op: Primitive,
    inputs: &[&TensorData],
    results: &[(DataType, Shape)],
    params: &[Param<'_>],
) -> Result<Option<Vec<TensorData>>, Error> {
    use Primitive as P;
    let Some((_, shape)) = results.first() else { return Ok(None) };
    let one = match (op, inputs) {
        (P::Identity, [x]) => Some((*x).clone()),
        (P::Reshape | P::Squeeze | P::Unsqueeze, [x]) => Some(x.reshaped(shape)?),
        (P::Cast, [x]) => {
            let rounding = Rounding {
                saturate: take::Bool("cast", params.get(1))?,
                mode: take::Round("cast", params.get(2))?,
            };
            Some(cast(x, take::Type("cast", params.first())?, rounding)?)
        }
        (P::Transpose, [x]) => {
            let perm = infer::transpose(x.shape(), take::Ints("transpose", params.first())?)?.perm;
            let own = strides(x.shape());
            let strides: Vec<isize> = perm.iter().filter_map(|&p| own.get(p).copied()).collect();
            moved(x, shape, &walk(shape, &strides, 0))?
        }
        (P::Slice, [x]) => {
            let list = |i| take::Ints("slice", params.get(i));
            let dims = infer::slice(x.shape(), list(0)?, list(1)?, list(2)?, list(3)?)?.dims;
            let own = strides(x.shape());
            let start = dims.iter().zip(&own).map(|(d, s)| d.start as isize * s).sum();
            let strides: Vec<isize> = dims.iter().zip(&own).map(|(d, s)| d.step * s).collect();
            moved(x, shape, &walk(shape, &strides, start))?
        }
        (P::Split, [x]) => return split(x, results, params),
        (P::Concat, xs) => concat(xs, shape, take::Int("concat", params.first())?)?,
        (P::Gather, [data, indices]) => gather(data, indices, shape, take::Int("gather", params.first())?)?,
        (P::Where, [condition, x, y]) => select(condition, x, y, shape)?,
        (P::Equal | P::Greater | P::Less, [a, b]) => compare(op, a, b, shape)?,
        (P::ReduceMax | P::ReduceMin, [x]) if x.dtype() == DataType::Bool => {
            extremum_of_bools(op, x, shape, params)?
        }
        _ => match inputs.first().map(|x| x.dtype()) {
            Some(DataType::I64) => numeric::<i64>(op, inputs, shape, params)?,
            Some(DataType::I32) => numeric::<i32>(op, inputs, shape, params)?,
            Some(DataType::F32) => numeric::<f32>(op, inputs, shape, params)?,
            _ => None,
        },
    };
    Ok(one.map(|x| vec![x]))
}

/// An element type that the evaluator computes in.
trait Number: Element + PartialOrd + Default {
    /// The identity of the maximum, and of the minimum.
    const BOUNDS: (Self, Self);
    fn add(self, b: Self) -> Self;
    fn sub(self, b: Self) -> Self;
    fn mul(self, b: Self) -> Self;
    /// The quotient; `None` for an integer divided by zero.
    fn div(self, b: Self) -> Option<Self>;
    fn abs(self) -> Self;
    /// The power; `None` where an integer has none.
    fn pow(self, b: Exponent) -> Option<Self>;
    fn count(n: usize) -> Self;
    /// A function that only floats have.
    fn float(self, _f: fn(f32) -> f32) -> Option<Self> {
        None
    }
}

/// An exponent, which may be of another type than its base.
#[derive(Clone, Copy)]
enum Exponent {
    Int(i64),
    Float(f64),
}

macro_rules! integers {
    ($($ty:ident),*) => {$(
        impl Number for $ty {
            const BOUNDS: (Self, Self) = ($ty::MIN, $ty::MAX);
            fn add(self, b: Self) -> Self { self.wrapping_add(b) }
            fn sub(self, b: Self) -> Self { self.wrapping_sub(b) }
            fn mul(self, b: Self) -> Self { self.wrapping_mul(b) }
            fn div(self, b: Self) -> Option<Self> { (b != 0).then(|| self.wrapping_div(b)) }
            fn abs(self) -> Self { self.wrapping_abs() }
            fn count(n: usize) -> Self { n as $ty }
            fn pow(self, b: Exponent) -> Option<Self> {
                match b {
                    Exponent::Float(b) => Some((self as f64).powf(b) as $ty),
                    Exponent::Int(b) if b < 0 => match self {
                        0 => None,
                        1 => Some(1),
                        -1 => Some(if b % 2 == 0 { 1 } else { -1 }),
                        _ => Some(0),
                    },
                    // Squaring wraps as repeated multiplication does.
                    Exponent::Int(mut b) => {
                        let (mut base, mut power) = (self, 1 as $ty);
                        while b > 0 {
                            if b % 2 == 1 { power = power.wrapping_mul(base); }
                            base = base.wrapping_mul(base);
                            b /= 2;
                        }
                        Some(power)
                    }
                }
            }
        }
    )*};
}

integers!(i64, i32);

impl Number for f32 {
    const BOUNDS: (f32, f32) = (f32::NEG_INFINITY, f32::INFINITY);
    fn add(self, b: f32) -> f32 {
        self + b
    }
    fn sub(self, b: f32) -> f32 {
        self - b
    }
    fn mul(self, b: f32) -> f32 {
        self * b
    }
    fn div(self, b: f32) -> Option<f32> {
        Some(self / b)
    }
    fn abs(self) -> f32 {
        f32::abs(self)
    }
    fn pow(self, b: Exponent) -> Option<f32> {
        Some(match b {
            Exponent::Int(b) => f64::from(self).powf(b as f64) as f32,
            Exponent::Float(b) => f64::from(self).powf(b) as f32,
        })
    }
    fn count(n: usize) -> f32 {
        n as f32
    }
    fn float(self, f: fn(f32) -> f32) -> Option<f32> {
        Some(f(self))
    }
}

/// The primitives that compute, in one element type.
fn numeric<T: Number>(
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

/// `-x`; floats keep the sign of zero.
fn negated<T: Number>(x: T) -> T {
    x.float(|v| -v).unwrap_or_else(|| T::default().sub(x))
}

/// The greater or the lesser of two; what compares with nothing (NaN) wins.
fn extremum<T: Number>(a: T, b: T, wanted: Ordering) -> T {
    match a.partial_cmp(&b) {
        Some(order) if order == wanted => a,
        Some(_) => b,
        None if a.partial_cmp(&a).is_none() => a,
        None => b,
    }
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

/// The distance in elements to the next along each dimension.
fn strides(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![0; shape.len()];
    let mut step = 1;
    for (stride, &extent) in strides.iter_mut().zip(shape).rev() {
        *stride = step;
        step *= extent as isize;
    }
    strides
}

/// The positions that a walk over `extents` in row-major order visits.
fn walk(extents: &[usize], strides: &[isize], start: isize) -> Vec<usize> {
    // The extents before one of 0 may be as large as they like.
    let mut positions = if extents.contains(&0) { Vec::new() } else { vec![start] };
    for (&extent, &stride) in extents.iter().zip(strides) {
        positions =
            positions.iter().flat_map(|&p| (0..extent as isize).map(move |i| p + i * stride)).collect();
    }
    positions.into_iter().map(|p| p as usize).collect()
}

/// For each element of a broadcast result, the position of the operand's.
fn spread(shape: &[usize], to: &[usize]) -> Vec<usize> {
    let missing = to.len().saturating_sub(shape.len());
    let own = strides(shape);
    let dims = shape.iter().zip(&own).map(|(&d, &s)| if d == 1 { 0 } else { s });
    let strides: Vec<isize> = std::iter::repeat_n(0, missing).chain(dims).collect();
    walk(to, &strides, 0)
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

/// The elements at `positions`, of any type of whole bytes.
fn moved(x: &TensorData, shape: &[usize], positions: &[usize]) -> Result<Option<TensorData>, Error> {
    if !x.dtype().bits().is_multiple_of(8) || x.dtype() == DataType::String {
        return Ok(None);
    }
    let size = x.dtype().bits() / 8;
    let bytes: Vec<u8> =
        positions.iter().filter_map(|p| x.bytes().get(p * size..(p + 1) * size)).flatten().copied().collect();
    Ok(Some(TensorData::adopt(x.dtype(), shape, bytes.into())?))
}

fn split(
    x: &TensorData,
    results: &[(DataType, Shape)],
    params: &[Param<'_>],
) -> Result<Option<Vec<TensorData>>, Error> {
    let sizes = take::Extents("split", params.get(1))?;
    let axis = infer::split(x.shape(), take::Int("split", params.first())?, sizes)?.get();
    let own = strides(x.shape());
    let along = own.get(axis).copied().unwrap_or(0);
    let mut start = 0;
    let mut parts = Vec::new();
    for (&size, (_, shape)) in sizes.iter().zip(results) {
        let Some(part) = moved(x, shape, &walk(shape, &own, start))? else { return Ok(None) };
        parts.push(part);
        start += size as isize * along;
    }
    Ok(Some(parts))
}

fn concat(xs: &[&TensorData], shape: &[usize], axis: i64) -> Result<Option<TensorData>, Error> {
    let shapes: Vec<&[usize]> = xs.iter().map(|x| x.shape()).collect();
    let axis = infer::concat(&shapes, axis)?.axis.get();
    let Some(dtype) = xs.first().map(|x| x.dtype()).filter(|d| d.bits() % 8 == 0 && *d != DataType::String)
    else {
        return Ok(None);
    };
    let outer: usize = shape.iter().take(axis).product();
    let mut bytes = Vec::new();
    for row in 0..outer {
        for x in xs {
            let chunk = x.bytes().len() / outer;
            bytes.extend_from_slice(x.bytes().get(row * chunk..(row + 1) * chunk).unwrap_or_default());
        }
    }
    Ok(Some(TensorData::adopt(dtype, shape, bytes.into())?))
}

fn gather(
    data: &TensorData,
    indices: &TensorData,
    shape: &[usize],
    axis: i64,
) -> Result<Option<TensorData>, Error> {
    let axis = bb_ir::Axis::new(axis, data.shape().len())?.get();
    let extent = data.shape().get(axis).copied().unwrap_or(0);
    let indices: Vec<i64> = match indices.dtype() {
        DataType::I64 => indices.as_slice::<i64>()?.to_vec(),
        _ => indices.as_slice::<i32>()?.iter().map(|&i| i.into()).collect(),
    };
    let mut rows = Vec::with_capacity(indices.len());
    for index in indices {
        let from_start = if index < 0 { index + extent as i64 } else { index };
        let row = usize::try_from(from_start).ok().filter(|&i| i < extent);
        rows.push(row.ok_or(bb_ir::Error::Index { op: "gather", index, extent })?);
    }
    let outer: usize = data.shape().iter().take(axis).product();
    let inner: usize = data.shape().iter().skip(axis + 1).product();
    let rows = &rows;
    let positions: Vec<usize> = (0..outer)
        .flat_map(|o| rows.iter().flat_map(move |r| (0..inner).map(move |i| (o * extent + r) * inner + i)))
        .collect();
    moved(data, shape, &positions)
}

fn select(
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

fn compare(
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
    Ok((walk(x.shape(), &steps, 0), reduction.count))
}

fn extremum_of_bools(
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

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use bb_ir::op::RoundMode;

    fn run(
        op: Primitive,
        inputs: &[&TensorData],
        params: &[Param<'_>],
    ) -> Result<Option<Vec<TensorData>>, Error> {
        let types: Vec<_> = inputs.iter().map(|x| (x.dtype(), x.shape())).collect();
        primitive(op, inputs, &infer::primitive(op, &types, params).unwrap(), params)
    }

    fn ints(shape: &[usize], v: &[i64]) -> TensorData {
        TensorData::new(shape, v).unwrap()
    }

    fn list(v: &[i64]) -> Param<'static> {
        Param::Ints(v.to_vec().into())
    }

    fn one(op: Primitive, inputs: &[&TensorData], params: &[Param<'_>]) -> TensorData {
        run(op, inputs, params).unwrap().unwrap().remove(0)
    }

    fn elements(x: &TensorData) -> Vec<i64> {
        x.as_slice::<i64>().unwrap().to_vec()
    }

    #[test]
    fn operands_broadcast() {
        let (a, b) = (ints(&[2, 1], &[10, 20]), ints(&[3], &[1, 2, 3]));
        let sum = one(Primitive::Add, &[&a, &b], &[]);
        assert_eq!((sum.shape(), elements(&sum)), (&[2, 3][..], vec![11, 12, 13, 21, 22, 23]));
        let (min, minus) = (ints(&[], &[i64::MIN]), ints(&[], &[-1]));
        assert_eq!(elements(&one(Primitive::Div, &[&min, &minus], &[])), [i64::MIN]);
        assert!(run(Primitive::Div, &[&a, &ints(&[], &[0])], &[]).is_err());
        assert_eq!(elements(&one(Primitive::Pow, &[&b, &ints(&[], &[3])], &[])), [1, 8, 27]);
    }

    #[test]
    fn nothing_is_walked_where_an_extent_is_zero() {
        let x = ints(&[1 << 31, 1 << 30, 0], &[]);
        assert_eq!(one(Primitive::Add, &[&x, &x], &[]).shape(), [1 << 31, 1 << 30, 0]);
        assert_eq!(one(Primitive::Transpose, &[&x], &[list(&[])]).shape(), [0, 1 << 30, 1 << 31]);
    }

    #[test]
    fn movement_visits_elements_in_order() {
        let x = ints(&[2, 3], &[0, 1, 2, 3, 4, 5]);
        assert_eq!(elements(&one(Primitive::Transpose, &[&x], &[list(&[])])), [0, 3, 1, 4, 2, 5]);
        let back = [list(&[-1]), list(&[i64::MIN]), list(&[1]), list(&[-2])];
        assert_eq!(elements(&one(Primitive::Slice, &[&x], &back)), [2, 0, 5, 3]);
        let parts = run(Primitive::Split, &[&x], &[Param::Int(1), Param::Extents(vec![1, 2].into())])
            .unwrap()
            .unwrap();
        assert_eq!(parts.iter().map(elements).collect::<Vec<_>>(), [vec![0, 3], vec![1, 2, 4, 5]]);
        let joined = one(Primitive::Concat, &[&parts[1], &parts[0]], &[Param::Int(1)]);
        assert_eq!(elements(&joined), [1, 2, 0, 4, 5, 3]);
        let picked = one(Primitive::Gather, &[&x, &ints(&[2], &[-1, 0])], &[Param::Int(1)]);
        assert_eq!(elements(&picked), [2, 0, 5, 3]);
        assert!(run(Primitive::Gather, &[&x, &ints(&[], &[3])], &[Param::Int(1)]).is_err());
    }

    #[test]
    fn reductions_start_from_their_identity() {
        let x = ints(&[2, 2], &[1, 2, 3, 5]);
        let over = |op, axes: &[i64]| elements(&one(op, &[&x], &[list(axes), Param::Bool(false)]));
        assert_eq!(over(Primitive::ReduceSum, &[0]), [4, 7]);
        assert_eq!(over(Primitive::ReduceMean, &[]), [2]);
        assert_eq!(over(Primitive::ReduceMax, &[-1]), [2, 5]);
        let none = TensorData::new::<f32>(&[0], &[]).unwrap();
        let least = one(Primitive::ReduceMax, &[&none], &[list(&[]), Param::Bool(false)]);
        assert_eq!(least.as_slice::<f32>().unwrap(), [f32::NEG_INFINITY]);
    }

    #[test]
    fn nan_wins_and_compares_with_nothing() {
        let x = TensorData::new(&[2], &[f32::NAN, 1.0]).unwrap();
        let max = one(Primitive::ReduceMax, &[&x], &[list(&[]), Param::Bool(false)]);
        assert!(max.as_slice::<f32>().unwrap()[0].is_nan());
        assert_eq!(one(Primitive::Equal, &[&x, &x], &[]).to_bools().unwrap(), [false, true]);
    }

    #[test]
    fn matrices_multiply_in_batches() {
        let a = ints(&[2, 1, 2], &[1, 2, 3, 4]);
        let b = ints(&[2, 2], &[1, 0, 0, 1]);
        assert_eq!(elements(&one(Primitive::MatMul, &[&a, &b], &[])), [1, 2, 3, 4]);
        let v = ints(&[2], &[5, 7]);
        assert_eq!(elements(&one(Primitive::MatMul, &[&a, &v], &[])), [19, 43]);
    }

    #[test]
    fn conditions_choose_and_casts_convert() {
        let c = TensorData::bools(&[2, 1], &[true, false]).unwrap();
        let chosen = one(Primitive::Where, &[&c, &ints(&[2], &[1, 2]), &ints(&[], &[9])], &[]);
        assert_eq!(elements(&chosen), [1, 2, 9, 9]);
        let half = TensorData::new(&[1], &[-1.75f32]).unwrap();
        let to = [Param::Type(DataType::I64), Param::Bool(true), Param::Round(RoundMode::Up)];
        assert_eq!(elements(&one(Primitive::Cast, &[&half], &to)), [-1]);
    }

    #[test]
    fn other_types_are_left_to_the_backend() {
        let x = TensorData::new(&[1], &[1.0f64]).unwrap();
        assert!(run(Primitive::Add, &[&x, &x], &[]).unwrap().is_none());
    }
}
