//! The derivatives that table rows of families refer to, one function each.

use super::rules::{At, Gradients};
use super::shapes::unbroadcast;
use crate::ext::{ScatterElementsOptions, ScatterReduction, math};
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{Error, Tensor};
use bb_ir::op::take;
use std::f64::consts::PI;

type Found = Result<Gradients, TraceStop>;

/// Returns no gradients, for a function that is piecewise constant, or whose results are indices.
pub(super) fn zero(at: &At<'_>) -> Found {
    Ok(at.none())
}

pub(super) fn expm1(at: &At<'_>) -> Found {
    at.slope(|on, _, y| math::plus(on, y, 1.0))
}

pub(super) fn log1p(at: &At<'_>) -> Found {
    at.slope(|on, x, _| on.reciprocal(&math::plus(on, x, 1.0)?))
}

pub(super) fn sigmoid(at: &At<'_>) -> Found {
    at.slope(|on, _, y| on.mul(y, &one_less(on, y)?))
}

pub(super) fn softplus(at: &At<'_>) -> Found {
    at.slope(|on, x, _| on.sigmoid(x))
}

pub(super) fn erf(at: &At<'_>) -> Found {
    at.slope(|on, x, _| math::times(on, &on.exp(&on.neg(&on.mul(x, x)?)?)?, 2.0 / PI.sqrt()))
}

pub(super) fn sin(at: &At<'_>) -> Found {
    at.slope(|on, x, _| on.cos(x))
}

pub(super) fn cos(at: &At<'_>) -> Found {
    at.slope(|on, x, _| on.neg(&on.sin(x)?))
}

pub(super) fn tan(at: &At<'_>) -> Found {
    at.slope(|on, _, y| math::plus(on, &on.mul(y, y)?, 1.0))
}

pub(super) fn asin(at: &At<'_>) -> Found {
    at.slope(|on, x, _| on.reciprocal(&on.sqrt(&one_less_square(on, x)?)?))
}

pub(super) fn acos(at: &At<'_>) -> Found {
    at.slope(|on, x, _| on.neg(&on.reciprocal(&on.sqrt(&one_less_square(on, x)?)?)?))
}

pub(super) fn atan(at: &At<'_>) -> Found {
    at.slope(|on, x, _| on.reciprocal(&math::plus(on, &on.mul(x, x)?, 1.0)?))
}

pub(super) fn sinh(at: &At<'_>) -> Found {
    at.slope(|on, x, _| on.cosh(x))
}

pub(super) fn cosh(at: &At<'_>) -> Found {
    at.slope(|on, x, _| on.sinh(x))
}

pub(super) fn tanh(at: &At<'_>) -> Found {
    at.slope(|on, _, y| one_less_square(on, y))
}

pub(super) fn asinh(at: &At<'_>) -> Found {
    at.slope(|on, x, _| on.reciprocal(&on.sqrt(&math::plus(on, &on.mul(x, x)?, 1.0)?)?))
}

/// Computes `1 / (sqrt(x - 1) * sqrt(x + 1))`, because `x² - 1` may overflow.
pub(super) fn acosh(at: &At<'_>) -> Found {
    at.slope(|on, x, _| {
        let roots = on.mul(&on.sqrt(&math::plus(on, x, -1.0)?)?, &on.sqrt(&math::plus(on, x, 1.0)?)?)?;
        on.reciprocal(&roots)
    })
}

pub(super) fn atanh(at: &At<'_>) -> Found {
    at.slope(|on, x, _| on.reciprocal(&one_less_square(on, x)?))
}

/// Computes `1 - x`.
fn one_less(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    on.sub(&on.scalar_like(x, 1.0)?, x)
}

/// Computes `1 - x²` as the product `(1 - x)(1 + x)`, which is precise near 1.
fn one_less_square(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    on.mul(&one_less(on, x)?, &math::plus(on, x, 1.0)?)
}

/// Computes the gradients of an elementwise maximum or minimum. The selected operand takes the gradient; equal
/// operands share it.
pub(super) fn extremum(at: &At<'_>) -> Found {
    let on = at.on;
    let (Some((g, _, y)), &[a, b, ..]) = (at.first(), at.operands) else { return Ok(at.none()) };
    let share = |own: &TracedTensor| -> Result<TracedTensor, TraceStop> {
        let (zero, half) = (on.scalar_like(g, 0.0)?, math::times(on, g, 0.5)?);
        let best = on.r#where(&on.equal(a, b)?, &half, g)?;
        on.r#where(&on.equal(own, y)?, &best, &zero)
    };
    at.both(|| share(a), || share(b))
}

/// Computes the gradients of a remainder `y`, with `a = b q + y` for an integer `q`.
pub(super) fn modulo(at: &At<'_>) -> Found {
    let on = at.on;
    let (Some((g, _, y)), &[a, b, ..]) = (at.first(), at.operands) else { return Ok(at.none()) };
    at.both(|| Ok(g.clone()), || on.neg(&on.mul(g, &on.div(&on.sub(a, y)?, b)?)?))
}

pub(super) fn relu(at: &At<'_>) -> Found {
    at.by_operand(|on, g, x, _| {
        let zero = on.scalar_like(x, 0.0)?;
        on.r#where(&on.greater(x, &zero)?, g, &zero)
    })
}

pub(super) fn elu(at: &At<'_>) -> Found {
    let alpha = take::Float("elu", at.params.first()).map_err(Error::from)?;
    at.by_operand(|on, g, x, y| {
        let below = on.mul(g, &math::plus(on, y, alpha)?)?;
        on.r#where(&math::below(on, x, 0.0)?, &below, g)
    })
}

pub(super) fn softmax(at: &At<'_>) -> Found {
    let axis = take::Int("softmax", at.params.first()).map_err(Error::from)?;
    at.by_operand(|on, g, _, y| {
        let parts = on.mul(g, y)?;
        on.sub(&parts, &on.mul(y, &on.reduce_sum(&parts, &[axis], true)?)?)
    })
}

pub(super) fn log_softmax(at: &At<'_>) -> Found {
    let axis = take::Int("log_softmax", at.params.first()).map_err(Error::from)?;
    at.by_operand(|on, g, _, y| on.sub(g, &on.mul(&on.exp(y)?, &on.reduce_sum(g, &[axis], true)?)?))
}

pub(super) fn top_k(at: &At<'_>) -> Found {
    let axis = take::Int("top_k", at.params.get(1)).map_err(Error::from)?;
    let &[_, places, ..] = at.results else { return Ok(at.none()) };
    at.by_operand(|on, g, x, _| {
        let zeros = on.zeros(x.shape(), g.dtype())?;
        let options = ScatterElementsOptions { axis, reduction: ScatterReduction::Add };
        on.scatter_elements(&zeros, places, g, options)
    })
}

pub(super) fn scatter_elements(at: &At<'_>) -> Found {
    let on = at.on;
    let axis = take::Int("scatter_elements", at.params.first()).map_err(Error::from)?;
    let reduction = take::ScatterReduction("scatter_elements", at.params.get(1)).map_err(Error::from)?;
    let &[_, places, ..] = at.operands else { return Ok(at.none()) };
    let scatter = |data: &TracedTensor, updates: &TracedTensor, reduction: ScatterReduction| {
        on.scatter_elements(data, places, updates, ScatterElementsOptions { axis, reduction })
    };
    let gather = |data: &TracedTensor| on.gather_elements(data, places, axis);
    scattered(at, reduction, &scatter, &gather)
}

pub(super) fn scatter_nd(at: &At<'_>) -> Found {
    let on = at.on;
    let reduction = take::ScatterReduction("scatter_nd", at.params.first()).map_err(Error::from)?;
    let &[_, places, ..] = at.operands else { return Ok(at.none()) };
    let scatter = |data: &TracedTensor, updates: &TracedTensor, reduction: ScatterReduction| {
        on.scatter_nd(data, places, updates, reduction)
    };
    let gather = |data: &TracedTensor| on.gather_nd(data, places, 0);
    scattered(at, reduction, &scatter, &gather)
}

/// Scatters updates into data, and combines them with the existing elements.
type Scatter<'a> =
    dyn Fn(&TracedTensor, &TracedTensor, ScatterReduction) -> Result<TracedTensor, TraceStop> + 'a;

/// Gathers the elements at the positions of the updates.
type Gather<'a> = dyn Fn(&TracedTensor) -> Result<TracedTensor, TraceStop> + 'a;

/// Computes the gradients of a scatter by the data and by the updates.
fn scattered(
    at: &At<'_>,
    reduction: ScatterReduction,
    scatter: &Scatter<'_>,
    gather: &Gather<'_>,
) -> Result<Gradients, TraceStop> {
    let on = at.on;
    let (Some((g, data, y)), &[_, _, updates, ..]) = (at.first(), at.operands) else {
        return Ok(at.none());
    };
    let zeros = |x: &TracedTensor| on.zeros(x.shape(), g.dtype());
    let ones = |x: &TracedTensor| on.ones(x.shape(), g.dtype());
    let marks = |x: &TracedTensor| math::to(on, x, g.dtype());
    let (by_data, by_updates) = match reduction {
        ScatterReduction::Add => (g.clone(), gather(g)?),
        ScatterReduction::Mul => {
            let by_data = on.mul(g, &scatter(&ones(data)?, updates, ScatterReduction::Mul)?)?;
            // The product of all other factors is the quotient of the whole product and one factor, but zeros
            // must be excluded.
            let zero = on.scalar_like(updates, 0.0)?;
            let is_zero = on.equal(updates, &zero)?;
            let factors = on.r#where(&is_zero, &on.scalar_like(updates, 1.0)?, updates)?;
            let product = gather(&scatter(data, &factors, ScatterReduction::Mul)?)?;
            let others = gather(&scatter(&zeros(data)?, &marks(&is_zero)?, ScatterReduction::Add)?)?;
            let others = on.sub(&others, &marks(&is_zero)?)?;
            let rest = on.r#where(&on.equal(&others, &zero)?, &on.div(&product, &factors)?, &zero)?;
            (by_data, on.mul(&gather(g)?, &rest)?)
        }
        ScatterReduction::Max | ScatterReduction::Min => {
            let of_data = marks(&on.equal(data, y)?)?;
            let of_updates = marks(&on.equal(updates, &gather(y)?)?)?;
            let share = on.div(g, &scatter(&of_data, &of_updates, ScatterReduction::Add)?)?;
            (on.mul(&share, &of_data)?, on.mul(&gather(&share)?, &of_updates)?)
        }
        ScatterReduction::None => {
            // If several updates write to the same position, the last one remains. To find it, the index of
            // each update is scattered and read back.
            let kept = scatter(g, &zeros(updates)?, ScatterReduction::None)?;
            let numbers = crate::ext::counted(on, updates.shape(), 1)?;
            let none = on.zeros(data.shape(), numbers.dtype())?;
            let last = on.equal(&gather(&scatter(&none, &numbers, ScatterReduction::None)?)?, &numbers)?;
            (kept, on.r#where(&last, &gather(g)?, &on.scalar_like(g, 0.0)?)?)
        }
    };
    let by_updates = unbroadcast(on, &by_updates, updates)?;
    Ok(vec![Some(by_data), None, Some(by_updates)])
}
