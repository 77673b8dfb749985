//! Computes the derivative of each primitive.

use super::shapes::{kept, matmul, scattered, sliced, unbroadcast};
use crate::Tensor;
use crate::ext::math;
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use bb_ir::Axis;
use bb_ir::op::{Param, Primitive, take};

/// The gradients of an operation's operands; `None` for a zero gradient.
pub(super) type Gradients = Vec<Option<TracedTensor>>;

/// A step whose gradients are computed.
pub(super) struct At<'a> {
    pub(super) on: &'a Tracer,
    /// The operands, without omitted ones.
    pub(super) operands: &'a [&'a TracedTensor],
    pub(super) results: &'a [&'a TracedTensor],
    pub(super) params: &'a [Param<'a>],
    /// The gradient by each result; `None` if nothing depends on the result.
    pub(super) by_results: &'a [Option<TracedTensor>],
    /// Whether the gradient of each operand is needed.
    pub(super) needs: &'a [bool],
}

impl<'a> At<'a> {
    /// Returns the gradient by the first result, the first operand and the first result.
    pub(super) fn first(&self) -> Option<(&'a TracedTensor, &'a TracedTensor, &'a TracedTensor)> {
        let g = self.by_results.first()?.as_ref()?;
        Some((g, self.operands.first()?, self.results.first()?))
    }

    /// Returns whether the gradient by an operand is needed.
    pub(super) fn needs(&self, operand: usize) -> bool {
        self.needs.get(operand) == Some(&true)
    }

    /// Returns zero gradients for all operands.
    pub(super) fn none(&self) -> Gradients {
        vec![None; self.operands.len()]
    }

    /// Returns the gradient by the first operand. `make` computes it from three tensors: the gradient by the first
    /// result, the first operand and the first result.
    pub(super) fn by_operand(
        &self,
        make: impl FnOnce(&Tracer, &TracedTensor, &TracedTensor, &TracedTensor) -> Result<TracedTensor, TraceStop>,
    ) -> Result<Gradients, TraceStop> {
        let Some((g, x, y)) = self.first() else { return Ok(self.none()) };
        Ok(vec![Some(make(self.on, g, x, y)?)])
    }

    /// Returns the gradient of an elementwise function of one operand. `make` computes the function's derivative from
    /// the operand and the result.
    pub(super) fn slope(
        &self,
        make: impl FnOnce(&Tracer, &TracedTensor, &TracedTensor) -> Result<TracedTensor, TraceStop>,
    ) -> Result<Gradients, TraceStop> {
        self.by_operand(|on, g, x, y| on.mul(g, &make(on, x, y)?))
    }

    /// Returns the gradients by two operands that were broadcast, if they are needed.
    pub(super) fn both(
        &self,
        a: impl FnOnce() -> Result<TracedTensor, TraceStop>,
        b: impl FnOnce() -> Result<TracedTensor, TraceStop>,
    ) -> Result<Gradients, TraceStop> {
        let &[first, second, ..] = self.operands else { return Ok(self.none()) };
        let by_first = self.needs(0).then(|| unbroadcast(self.on, &a()?, first)).transpose()?;
        let by_second = self.needs(1).then(|| unbroadcast(self.on, &b()?, second)).transpose()?;
        Ok(vec![by_first, by_second])
    }
}

/// Returns the gradients of a primitive by its operands.
///
/// Where a function has no derivative, 0 is used. A maximum distributes its gradient among equal elements.
pub(super) fn rule(at: &At<'_>, primitive: Primitive) -> Result<Gradients, TraceStop> {
    use Primitive as P;
    let At { on, operands: x, params, .. } = *at;
    if primitive == P::Split {
        return split(on, x, at.results, params, at.by_results);
    }
    let Some((g, first, result)) = at.first() else { return Ok(at.none()) };
    let second = x.get(1).copied().unwrap_or(first);
    let one = |a: Result<TracedTensor, TraceStop>| Ok(vec![Some(a?)]);
    match primitive {
        P::Add => at.both(|| Ok(g.clone()), || Ok(g.clone())),
        P::Sub => at.both(|| Ok(g.clone()), || on.neg(g)),
        P::Mul => at.both(|| on.mul(g, second), || on.mul(g, first)),
        P::Div => at.both(|| on.div(g, second), || on.neg(&on.mul(&on.div(g, second)?, result)?)),
        P::Neg => one(on.neg(g)),
        P::Abs => one(on.mul(g, &on.sign(first)?)),
        P::Sqrt => one(on.div(&on.mul(g, &on.scalar_like(g, 0.5)?)?, result)),
        P::Exp => one(on.mul(g, result)),
        P::Log => one(on.div(g, first)),
        P::Pow => pow(at, [first, second], result, g),
        P::MatMul => Ok(matmul(on, first, second, g, &|i| at.needs(i))?.into()),
        P::ReduceSum => one(on.expand(&kept(on, g, first, axes(params)?)?, first.shape())),
        P::ReduceMean => {
            let count = |x: &TracedTensor| bb_ir::element_count(x.shape()).unwrap_or(0) as f64;
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
            let along = Axis::new(axis, g.rank()).map_err(crate::Error::from)?.get();
            let sizes: Vec<usize> = x.iter().filter_map(|x| x.shape().get(along).copied()).collect();
            Ok(on.split(g, axis, &sizes)?.into_iter().map(Some).collect())
        }
        P::Slice => one(slice(on, first, g, params)),
        P::Where => {
            let zero = on.scalar_like(g, 0.0)?;
            let side = |i: usize, a: &TracedTensor, b: &TracedTensor| match x.get(i) {
                Some(x) if at.needs(i) => unbroadcast(on, &on.r#where(first, a, b)?, x).map(Some),
                _ => Ok(None),
            };
            Ok(vec![None, side(1, g, &zero)?, side(2, &zero, g)?])
        }
        P::Gather => {
            let axis = take::Int("gather", params.first()).map_err(crate::Error::from)?;
            let along = Axis::new(axis, first.rank()).map_err(crate::Error::from)?.get();
            let extent = first.shape().get(along).copied().unwrap_or(0) as i64;
            let from = crate::ext::movement::from_start(on, second, &on.host(&[], &[extent])?)?;
            Ok(vec![Some(scattered(on, g, first.shape(), &from, along)?), None])
        }
        // Comparisons are piecewise constant, constants have no operands, and `split` is handled above.
        P::Equal | P::Greater | P::Less | P::Constant | P::Split => Ok(vec![None; x.len()]),
    }
}

/// Returns the axes of a reduction.
fn axes<'a>(params: &'a [Param<'_>]) -> Result<&'a [i64], crate::Error> {
    Ok(take::Ints("reduce", params.first())?)
}

fn pow(
    at: &At<'_>,
    [base, exponent]: [&TracedTensor; 2],
    result: &TracedTensor,
    g: &TracedTensor,
) -> Result<Gradients, TraceStop> {
    let on = at.on;
    let power = math::to(on, exponent, base.dtype())?;
    let by_base = || {
        // If the exponent is 0, the derivative is 0. The exponent `-1` must not be used then, because it gives infinity
        // for a base of 0.
        let zero = on.scalar_like(base, 0.0)?;
        let less = on.sub(&power, &on.scalar_like(base, 1.0)?)?;
        let less = on.r#where(&on.equal(&power, &zero)?, &zero, &less)?;
        on.mul(g, &on.mul(&power, &on.pow(base, &less)?)?)
    };
    let by_exponent = || {
        let (zero, one) = (on.scalar_like(base, 0.0)?, on.scalar_like(base, 1.0)?);
        let safe = on.r#where(&on.equal(base, &zero)?, &one, base)?;
        let growth = on.mul(g, &on.mul(result, &on.log(&safe)?)?)?;
        math::to(on, &growth, exponent.dtype())
    };
    at.both(by_base, by_exponent)
}

fn split(
    on: &Tracer,
    x: &[&TracedTensor],
    y: &[&TracedTensor],
    params: &[Param<'_>],
    by_results: &[Option<TracedTensor>],
) -> Result<Gradients, TraceStop> {
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

fn slice(
    on: &Tracer,
    x: &TracedTensor,
    g: &TracedTensor,
    params: &[Param<'_>],
) -> Result<TracedTensor, TraceStop> {
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
