//! The derivatives of those operations of families that have rules of their own.

use super::rules::{At, Gradients};
use super::shapes::unbroadcast;
use crate::ext::{IndexOp, NnOp, OpSet, Ops, ScalarOp, ScatterElementsOptions, ScatterReduction, math};
use crate::{Error, Tensor};
use bb_ir::op::{Family, OpSpec, take};
use std::f64::consts::PI;

/// Functions of numbers.
const SCALAR: &[ScalarOp] = &[
    ScalarOp::Maximum,
    ScalarOp::Minimum,
    ScalarOp::Sign,
    ScalarOp::Floor,
    ScalarOp::Ceil,
    ScalarOp::Round,
    ScalarOp::Trunc,
    ScalarOp::Modulo,
    ScalarOp::Expm1,
    ScalarOp::Log1p,
    ScalarOp::Sigmoid,
    ScalarOp::Softplus,
    ScalarOp::Erf,
    ScalarOp::Sin,
    ScalarOp::Cos,
    ScalarOp::Tan,
    ScalarOp::Asin,
    ScalarOp::Acos,
    ScalarOp::Atan,
    ScalarOp::Sinh,
    ScalarOp::Cosh,
    ScalarOp::Tanh,
    ScalarOp::Asinh,
    ScalarOp::Acosh,
    ScalarOp::Atanh,
];

/// Layers.
const NN: &[NnOp] = &[NnOp::Relu, NnOp::Elu, NnOp::Softmax, NnOp::LogSoftmax];

/// What selects and writes.
const INDEX: &[IndexOp] = &[IndexOp::TopK, IndexOp::ScatterElements, IndexOp::ScatterNd];

/// The operations that have rules, as natives of a tracer.
pub(super) fn with_rules() -> Vec<(Family, OpSet)> {
    let set = |indices: &mut dyn Iterator<Item = u16>| indices.fold(OpSet::default(), OpSet::with);
    vec![
        (Family::Scalar, set(&mut SCALAR.iter().map(|&op| op as u16))),
        (Family::Nn, set(&mut NN.iter().map(|&op| op as u16))),
        (Family::Index, set(&mut INDEX.iter().map(|&op| op as u16))),
    ]
}

/// Returns the gradients by the operands of an operation of a family.
pub(super) fn rule<B: Ops + ?Sized>(at: &At<'_, B>, spec: &OpSpec) -> Result<Gradients<B>, B::Error> {
    let found = match spec.family {
        Family::Scalar => ScalarOp::from_index(spec.index).map(|op| scalar(at, op)),
        Family::Nn => NnOp::from_index(spec.index).map(|op| nn(at, op)),
        Family::Index => IndexOp::from_index(spec.index).map(|op| index(at, op)),
        _ => None,
    };
    match found.transpose()?.flatten() {
        Some(gradients) => Ok(gradients),
        None => Err(Error::NotDifferentiable { op: spec.method, reason: "there is no rule for it" }.into()),
    }
}

type Found<B> = Result<Option<Gradients<B>>, <B as crate::Backend>::Error>;

fn scalar<B: Ops + ?Sized>(at: &At<'_, B>, op: ScalarOp) -> Found<B> {
    use ScalarOp as S;
    let on = at.on;
    let Some((g, x, y)) = at.first() else { return Ok(Some(at.none())) };
    let slope = match op {
        // They are level between their steps.
        S::Sign | S::Floor | S::Ceil | S::Round | S::Trunc => return Ok(Some(at.none())),
        S::Maximum | S::Minimum => return extremum(at, y, g).map(Some),
        S::Modulo => {
            let &[a, b, ..] = at.operands else { return Ok(None) };
            // `a = b q + y` for an integer `q`.
            let by_b = || on.neg(&on.mul(g, &on.div(&on.sub(a, y)?, b)?)?);
            return at.both(|| Ok(g.clone()), by_b).map(Some);
        }
        S::Expm1 => math::plus(on, y, 1.0)?,
        S::Log1p => on.reciprocal(&math::plus(on, x, 1.0)?)?,
        S::Sigmoid => on.mul(y, &one_less(on, y)?)?,
        S::Softplus => on.sigmoid(x)?,
        S::Erf => math::times(on, &on.exp(&on.neg(&on.mul(x, x)?)?)?, 2.0 / PI.sqrt())?,
        S::Sin => on.cos(x)?,
        S::Cos => on.neg(&on.sin(x)?)?,
        S::Tan => math::plus(on, &on.mul(y, y)?, 1.0)?,
        S::Asin => on.reciprocal(&on.sqrt(&one_less_square(on, x)?)?)?,
        S::Acos => on.neg(&on.reciprocal(&on.sqrt(&one_less_square(on, x)?)?)?)?,
        S::Atan => on.reciprocal(&math::plus(on, &on.mul(x, x)?, 1.0)?)?,
        S::Sinh => on.cosh(x)?,
        S::Cosh => on.sinh(x)?,
        S::Tanh => one_less_square(on, y)?,
        S::Asinh => on.reciprocal(&on.sqrt(&math::plus(on, &on.mul(x, x)?, 1.0)?)?)?,
        // The product of roots does not overflow where the square does.
        S::Acosh => {
            let roots = on.mul(&on.sqrt(&math::plus(on, x, -1.0)?)?, &on.sqrt(&math::plus(on, x, 1.0)?)?)?;
            on.reciprocal(&roots)?
        }
        S::Atanh => on.reciprocal(&one_less_square(on, x)?)?,
        _ => return Ok(None),
    };
    Ok(Some(vec![Some(on.mul(g, &slope)?)]))
}

/// `1 - x`.
fn one_less<B: Ops + ?Sized>(on: &B, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
    on.sub(&on.scalar_like(x, 1.0)?, x)
}

/// `1 - x²`, as a product, which is precise near 1.
fn one_less_square<B: Ops + ?Sized>(on: &B, x: &B::Tensor) -> Result<B::Tensor, B::Error> {
    on.mul(&one_less(on, x)?, &math::plus(on, x, 1.0)?)
}

/// The greater or the lesser takes the gradient; two that are equal share it.
fn extremum<B: Ops + ?Sized>(at: &At<'_, B>, y: &B::Tensor, g: &B::Tensor) -> Result<Gradients<B>, B::Error> {
    let on = at.on;
    let &[a, b, ..] = at.operands else { return Ok(at.none()) };
    let share = |own: &B::Tensor| -> Result<B::Tensor, B::Error> {
        let (zero, half) = (on.scalar_like(g, 0.0)?, math::times(on, g, 0.5)?);
        let best = on.r#where(&on.equal(a, b)?, &half, g)?;
        on.r#where(&on.equal(own, y)?, &best, &zero)
    };
    at.both(|| share(a), || share(b))
}

fn nn<B: Ops + ?Sized>(at: &At<'_, B>, op: NnOp) -> Found<B> {
    let on = at.on;
    let Some((g, x, y)) = at.first() else { return Ok(Some(at.none())) };
    let by_x = match op {
        NnOp::Relu => {
            let zero = on.scalar_like(x, 0.0)?;
            on.r#where(&on.greater(x, &zero)?, g, &zero)?
        }
        NnOp::Elu => {
            let alpha = take::Float("elu", at.params.first()).map_err(Error::from)?;
            let below = on.mul(g, &math::plus(on, y, alpha)?)?;
            on.r#where(&math::below(on, x, 0.0)?, &below, g)?
        }
        NnOp::Softmax => {
            let axis = take::Int("softmax", at.params.first()).map_err(Error::from)?;
            let parts = on.mul(g, y)?;
            on.sub(&parts, &on.mul(y, &on.reduce_sum(&parts, &[axis], true)?)?)?
        }
        NnOp::LogSoftmax => {
            let axis = take::Int("log_softmax", at.params.first()).map_err(Error::from)?;
            on.sub(g, &on.mul(&on.exp(y)?, &on.reduce_sum(g, &[axis], true)?)?)?
        }
        _ => return Ok(None),
    };
    Ok(Some(vec![Some(by_x)]))
}

fn index<B: Ops + ?Sized>(at: &At<'_, B>, op: IndexOp) -> Found<B> {
    let on = at.on;
    let Some((g, x, _)) = at.first() else { return Ok(Some(at.none())) };
    match op {
        IndexOp::TopK => {
            let axis = take::Int("top_k", at.params.get(1)).map_err(Error::from)?;
            let &[_, places, ..] = at.results else { return Ok(None) };
            let zeros = on.zeros(x.shape(), g.dtype())?;
            let options = ScatterElementsOptions { axis, reduction: ScatterReduction::Add };
            Ok(Some(vec![Some(on.scatter_elements(&zeros, places, g, options)?)]))
        }
        IndexOp::ScatterElements => {
            let axis = take::Int("scatter_elements", at.params.first()).map_err(Error::from)?;
            let reduction =
                take::ScatterReduction("scatter_elements", at.params.get(1)).map_err(Error::from)?;
            let &[_, places, ..] = at.operands else { return Ok(None) };
            let scatter = |data: &B::Tensor, updates: &B::Tensor, reduction: ScatterReduction| {
                on.scatter_elements(data, places, updates, ScatterElementsOptions { axis, reduction })
            };
            let gather = |data: &B::Tensor| on.gather_elements(data, places, axis);
            scattered(at, reduction, &scatter, &gather).map(Some)
        }
        IndexOp::ScatterNd => {
            let reduction = take::ScatterReduction("scatter_nd", at.params.first()).map_err(Error::from)?;
            let &[_, places, ..] = at.operands else { return Ok(None) };
            let scatter = |data: &B::Tensor, updates: &B::Tensor, reduction: ScatterReduction| {
                on.scatter_nd(data, places, updates, reduction)
            };
            let gather = |data: &B::Tensor| on.gather_nd(data, places, 0);
            scattered(at, reduction, &scatter, &gather).map(Some)
        }
        IndexOp::ArgMax | IndexOp::ArgMin => Ok(Some(at.none())),
    }
}

/// Writes updates to the places of data, combined with what is there.
type Scatter<'a, B> = dyn Fn(
        &<B as crate::Backend>::Tensor,
        &<B as crate::Backend>::Tensor,
        ScatterReduction,
    ) -> Result<<B as crate::Backend>::Tensor, <B as crate::Backend>::Error>
    + 'a;

/// Reads what lies at the places of the updates.
type Gather<'a, B> = dyn Fn(&<B as crate::Backend>::Tensor) -> Result<<B as crate::Backend>::Tensor, <B as crate::Backend>::Error>
    + 'a;

/// The gradients by the data and the updates of a scatter.
fn scattered<B: Ops + ?Sized>(
    at: &At<'_, B>,
    reduction: ScatterReduction,
    scatter: &Scatter<'_, B>,
    gather: &Gather<'_, B>,
) -> Result<Gradients<B>, B::Error> {
    let on = at.on;
    let (Some((g, data, y)), &[_, _, updates, ..]) = (at.first(), at.operands) else {
        return Ok(at.none());
    };
    let zeros = |x: &B::Tensor| on.zeros(x.shape(), g.dtype());
    let ones = |x: &B::Tensor| on.ones(x.shape(), g.dtype());
    let marks = |x: &B::Tensor| math::to(on, x, g.dtype());
    let (by_data, by_updates) = match reduction {
        ScatterReduction::Add => (g.clone(), gather(g)?),
        ScatterReduction::Mul => {
            let by_data = on.mul(g, &scatter(&ones(data)?, updates, ScatterReduction::Mul)?)?;
            // The product of all but one factor: a quotient, but where factors are 0.
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
            // Of several updates of one place the last one stays: it is the one whose number can be read there.
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
