//! The derivative of each primitive.

use super::shapes::{kept, matmul, scattered, sliced, unbroadcast};
use crate::Tensor;
use crate::ext::{Ops, math};
use bb_ir::Axis;
use bb_ir::op::{Param, Primitive, take};

/// The gradients of a primitive's operands; `None` where there is none.
type Gradients<B> = Vec<Option<<B as crate::Backend>::Tensor>>;

/// Returns the gradients by the operands `x` of a primitive with the results `y`, from those by its results.
///
/// Where a function has no derivative it is taken as 0, and a maximum shares among equals.
pub(super) fn rule<B: Ops + ?Sized>(
    on: &B,
    primitive: Primitive,
    x: &[&B::Tensor],
    y: &[&B::Tensor],
    params: &[Param<'_>],
    by_results: &[Option<B::Tensor>],
) -> Result<Gradients<B>, B::Error> {
    use Primitive as P;
    if primitive == P::Split {
        return split(on, x, y, params, by_results);
    }
    let (Some(Some(g)), Some(&first), Some(&result)) = (by_results.first(), x.first(), y.first()) else {
        return Ok(vec![None; x.len()]);
    };
    let second = x.get(1).copied().unwrap_or(first);
    let both = |a: B::Tensor, b: B::Tensor| -> Result<Gradients<B>, B::Error> {
        Ok(vec![Some(unbroadcast(on, &a, first)?), Some(unbroadcast(on, &b, second)?)])
    };
    let one = |a: Result<B::Tensor, B::Error>| Ok(vec![Some(a?)]);
    match primitive {
        P::Add => both(g.clone(), g.clone()),
        P::Sub => both(g.clone(), on.neg(g)?),
        P::Mul => both(on.mul(g, second)?, on.mul(g, first)?),
        P::Div => {
            let by_first = on.div(g, second)?;
            let by_second = on.neg(&on.mul(&by_first, result)?)?;
            both(by_first, by_second)
        }
        P::Neg => one(on.neg(g)),
        P::Abs => one(on.mul(g, &on.sign(first)?)),
        P::Sqrt => one(on.div(&on.mul(g, &on.scalar_like(g, 0.5)?)?, result)),
        P::Exp => one(on.mul(g, result)),
        P::Log => one(on.div(g, first)),
        P::Pow => pow(on, first, second, result, g),
        P::MatMul => Ok(matmul(on, first, second, g)?.into_iter().map(Some).collect()),
        P::ReduceSum => one(on.expand(&kept(on, g, first, axes(params)?)?, first.shape())),
        P::ReduceMean => {
            let count = |x: &B::Tensor| bb_ir::element_count(x.shape()).unwrap_or(0) as f64;
            let share = on.scalar_like(g, count(result) / count(first))?;
            let g = kept(on, &on.mul(g, &share)?, first, axes(params)?)?;
            one(on.expand(&g, first.shape()))
        }
        P::ReduceMax | P::ReduceMin => {
            let axes = axes(params)?;
            let best = on.equal(first, &kept(on, result, first, axes)?)?;
            let best = math::to(on, &best, g.dtype())?;
            let share = on.div(&best, &on.reduce_sum(&best, axes, true)?)?;
            one(on.mul(&share, &kept(on, g, first, axes)?))
        }
        P::Reshape | P::Squeeze | P::Unsqueeze => one(on.reshape(g, first.shape())),
        P::Transpose => {
            let perm = take::Ints("transpose", params.first()).map_err(crate::Error::from)?;
            let mut back: Vec<i64> = (0..perm.len() as i64).collect();
            back.sort_by_key(|&axis| perm.get(axis as usize).copied());
            one(on.transpose(g, &back))
        }
        P::Identity => one(Ok(g.clone())),
        P::Cast => one(math::to(on, g, first.dtype())),
        P::Concat => {
            let axis = take::Int("concat", params.first()).map_err(crate::Error::from)?;
            let at = Axis::new(axis, g.rank()).map_err(crate::Error::from)?.get();
            let sizes: Vec<usize> = x.iter().filter_map(|x| x.shape().get(at).copied()).collect();
            Ok(on.split(g, axis, &sizes)?.into_iter().map(Some).collect())
        }
        P::Slice => one(slice(on, first, g, params)),
        P::Where => {
            let zero = on.scalar_like(g, 0.0)?;
            let side = |g: B::Tensor, x: Option<&&B::Tensor>| match x {
                Some(x) => unbroadcast(on, &g, x).map(Some),
                None => Ok(None),
            };
            Ok(vec![
                None,
                side(on.r#where(first, g, &zero)?, x.get(1))?,
                side(on.r#where(first, &zero, g)?, x.get(2))?,
            ])
        }
        P::Gather => {
            let axis = take::Int("gather", params.first()).map_err(crate::Error::from)?;
            let at = Axis::new(axis, first.rank()).map_err(crate::Error::from)?.get();
            let extent = first.shape().get(at).copied().unwrap_or(0) as i64;
            let from = crate::ext::movement::from_start(on, second, &on.host(&[], &[extent])?)?;
            Ok(vec![Some(scattered(on, g, first.shape(), &from, at)?), None])
        }
        // Steps have no slope, constants depend on nothing, and `split` is above.
        P::Equal | P::Greater | P::Less | P::Constant | P::Split => Ok(vec![None; x.len()]),
    }
}

/// The axes of a reduction.
fn axes<'a>(params: &'a [Param<'_>]) -> Result<&'a [i64], crate::Error> {
    Ok(take::Ints("reduce", params.first())?)
}

fn pow<B: Ops + ?Sized>(
    on: &B,
    base: &B::Tensor,
    exponent: &B::Tensor,
    result: &B::Tensor,
    g: &B::Tensor,
) -> Result<Gradients<B>, B::Error> {
    let power = math::to(on, exponent, base.dtype())?;
    let (zero, one) = (on.scalar_like(base, 0.0)?, on.scalar_like(base, 1.0)?);
    let slope = on.mul(&power, &on.pow(base, &on.sub(&power, &one)?)?)?;
    // To the power of 0 it is 1 everywhere.
    let slope = on.r#where(&on.equal(&power, &zero)?, &zero, &slope)?;
    let by_base = unbroadcast(on, &on.mul(g, &slope)?, base)?;
    if !exponent.dtype().is_float() {
        return Ok(vec![Some(by_base), None]);
    }
    let growth = on.mul(result, &on.log(base)?)?;
    let growth = on.r#where(&on.equal(base, &zero)?, &zero, &growth)?;
    let by_exponent = math::to(on, &unbroadcast(on, &on.mul(g, &growth)?, &power)?, exponent.dtype())?;
    Ok(vec![Some(by_base), Some(by_exponent)])
}

fn split<B: Ops + ?Sized>(
    on: &B,
    x: &[&B::Tensor],
    y: &[&B::Tensor],
    params: &[Param<'_>],
    by_results: &[Option<B::Tensor>],
) -> Result<Gradients<B>, B::Error> {
    let axis = take::Int("split", params.first()).map_err(crate::Error::from)?;
    let mut parts = Vec::with_capacity(y.len());
    for (y, g) in y.iter().zip(by_results) {
        parts.push(match g {
            Some(g) => g.clone(),
            None => on.zeros(y.shape(), y.dtype())?,
        });
    }
    if parts.is_empty() {
        return Ok(vec![None; x.len()]);
    }
    Ok(vec![Some(on.concat(&parts.iter().collect::<Vec<_>>(), axis)?)])
}

fn slice<B: Ops + ?Sized>(
    on: &B,
    x: &B::Tensor,
    g: &B::Tensor,
    params: &[Param<'_>],
) -> Result<B::Tensor, B::Error> {
    let list = |at: usize| take::Ints("slice", params.get(at)).map_err(crate::Error::from);
    let (starts, ends, axes, steps) = (list(0)?, list(1)?, list(2)?, list(3)?);
    let mut y = g.clone();
    for (i, (&start, &end)) in starts.iter().zip(ends).enumerate() {
        let axis = axes.get(i).copied().unwrap_or(i as i64);
        let at = Axis::new(axis, x.rank()).map_err(crate::Error::from)?.get();
        let extent = x.shape().get(at).copied().unwrap_or(0);
        let from = sliced(extent, start, end, steps.get(i).copied().unwrap_or(1));
        let mut wide = y.shape().to_vec();
        if let Some(slot) = wide.get_mut(at) {
            *slot = extent;
        }
        y = scattered(on, &y, &wide, &on.host(&[from.len()], &from)?, at)?;
    }
    Ok(y)
}
