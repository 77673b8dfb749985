//! Sums and products of all elements up to each.

use super::call::{Call, OpResult, one};
use super::rows::operators;
use crate::ext::{Ops, math};
use crate::{DataType, Error, Tensor};
use bb_ir::Axis;

operators! {
    "" {
        CumProd => Primitives(cum_prod), infer: Same;
        CumSum => Primitives(cum_sum), infer: Same;
    }
}

/// `CumSum`.
pub(super) fn cum_sum<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    cumulative(on, call, 0.0, |a, b| on.add(a, b))
}

/// `CumProd`.
pub(super) fn cum_prod<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    cumulative(on, call, 1.0, |a, b| on.mul(a, b))
}

/// Combines each element with all before it, halves in `f32`; `neutral` stands where there are none.
///
/// Each pass doubles how many elements each result covers.
fn cumulative<B: Ops + ?Sized>(
    on: &B,
    call: &Call<'_, B::Tensor>,
    neutral: f64,
    combine: impl Fn(&B::Tensor, &B::Tensor) -> Result<B::Tensor, B::Error>,
) -> OpResult<B> {
    let x = call.input(0)?;
    let axes = on.ints(call.input(1)?)?;
    let &[axis] = axes.as_slice() else {
        return Err(call.wrong("axis", format!("has {} elements, expected 1", axes.len())).into());
    };
    let at = Axis::new(axis, x.rank()).map_err(Error::from)?.get();
    let extent = x.shape().get(at).copied().unwrap_or(0) as i64;
    let (exclusive, reverse) = (call.flag("exclusive", false)?, call.flag("reverse", false)?);
    let part = |x: &B::Tensor, from: i64, to: i64| on.slice(x, &[from], &[to], &[axis], &[]);
    let turned =
        |x: &B::Tensor| if reverse { on.slice(x, &[-1], &[i64::MIN], &[axis], &[-1]) } else { Ok(x.clone()) };
    let half = matches!(x.dtype(), DataType::F16 | DataType::BF16);
    let wide = if half { DataType::F32 } else { x.dtype() };
    let mut y = turned(&math::to(on, x, wide)?)?;
    if exclusive && extent > 0 {
        let first = part(&y, 0, 1)?;
        let first = on.full(first.shape(), neutral, wide)?;
        y = on.concat(&[&first, &part(&y, 0, extent - 1)?], axis)?;
    }
    let mut covered = 1;
    while covered < extent {
        let both = combine(&part(&y, covered, extent)?, &part(&y, 0, extent - covered)?)?;
        y = on.concat(&[&part(&y, 0, covered)?, &both], axis)?;
        covered *= 2;
    }
    Ok(one(math::to(on, &turned(&y)?, x.dtype())?))
}
