//! `Det`: determinants by Gaussian elimination with partial pivoting.

use super::rows::operators;
use bb_core::error::NodePart;
use bb_core::ext::{counted, math};
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Tensor};
use bb_ir::graph::Dim;
use bb_ir::infer::rule::{NodeFacts, Types};

operators! {
    "" {
        Det => Primitives(det), infer: By(det_types);
    }
}

fn det_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| x.get(..x.len().checked_sub(2)?).map(<[Dim]>::to_vec);
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// `Det`: the determinants of the matrices in the last two dimensions.
pub(super) fn det(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    let [batch @ .., rows, columns] = x.shape() else {
        return Err(call.wrong(NodePart::Operand(0), "is no matrix").into());
    };
    if rows != columns {
        return Err(call
            .wrong(NodePart::Operand(0), format!("is {rows} times {columns}, expected a square"))
            .into());
    }
    let y = math::widened(on, x, DataType::F64, |x| {
        let mut left = x.clone();
        let mut product = on.ones(batch, x.dtype())?;
        for order in (1..=*rows).rev() {
            let (pivot, rest) = eliminated(on, &left, order)?;
            product = on.mul(&product, &on.reshape(&pivot, batch)?)?;
            left = rest;
        }
        Ok(product)
    })?;
    Ok(one(y))
}

/// Eliminates the first column of `x: [..., order, order]`. Returns the column's largest element by magnitude, `[..., 1, 1]`,
/// negated if its row is swapped with the first one, and the remaining matrix without the pivot row and the first column.
fn eliminated(
    on: &Tracer,
    x: &TracedTensor,
    order: usize,
) -> Result<(TracedTensor, TracedTensor), TraceStop> {
    let (last, end) = ([-1], order as i64);
    let (zero, one) = (on.scalar_like(x, 0.0)?, on.scalar_like(x, 1.0)?);
    let rows = counted(on, &[order, 1], 1)?;
    let column = on.abs(&on.slice(x, &[0], &[1], &last, &[])?)?;
    let greatest = on.reduce_max(&column, &[-2], true)?;
    // Choose the first row if several have the maximum. If an element is NaN, no row is chosen.
    let which = on.r#where(&on.equal(&column, &greatest)?, &rows, &on.host(&[], &[end])?)?;
    let which = on.reduce_min(&which, &[-2], true)?;
    let chosen = on.equal(&rows, &which)?;
    let row = on.reduce_sum(&on.r#where(&chosen, x, &zero)?, &[-2], true)?;
    let pivot = on.slice(&row, &[0], &[1], &last, &[])?;
    let stays = on.equal(&which, &on.host(&[], &[0i64])?)?;
    let signed = on.r#where(&stays, &pivot, &on.neg(&pivot)?)?;
    let signed = on.r#where(&on.equal(&greatest, &greatest)?, &signed, &greatest)?;
    // The first row moves to the index of the chosen row.
    let first = on.slice(x, &[0], &[1], &[-2], &[])?;
    let below = |t: &TracedTensor| on.slice(t, &[1], &[end], &[-2], &[]);
    let others = on.r#where(&below(&chosen)?, &first, &below(x)?)?;
    let divisor = on.r#where(&on.equal(&pivot, &zero)?, &one, &pivot)?;
    let factors = on.div(&on.slice(&others, &[0], &[1], &last, &[])?, &divisor)?;
    let right = |t: &TracedTensor| on.slice(t, &[1], &[end], &last, &[]);
    let rest = on.sub(&right(&others)?, &on.mul(&factors, &right(&row)?)?)?;
    Ok((signed, rest))
}
