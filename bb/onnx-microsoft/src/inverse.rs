//! `Inverse`: matrix inverses by Gauss-Jordan elimination with partial pivoting.

use super::only;
use bb_core::error::NodePart;
use bb_core::ext::{counted, math};
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Tensor};
use bb_onnx::shared::operators;

operators! {
    "com.microsoft" {
        Inverse => Primitives(inverse), infer: Same;
    }
}

/// `Inverse`, of the matrices in the last two dimensions. The inverse of a singular matrix has infinite or NaN elements.
pub(crate) fn inverse(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &[])?;
    let x = call.input(0)?;
    let [.., rows, columns] = *x.shape() else {
        return Err(call.wrong(NodePart::Operand(0), "is no matrix").into());
    };
    if rows != columns {
        return Err(call
            .wrong(NodePart::Operand(0), format!("is {rows} times {columns}, expected a square"))
            .into());
    }
    let order = rows as i64;
    let y = math::widened(on, x, DataType::F64, |x| {
        let places = counted(on, &[rows, 1], 1)?;
        let diagonal = on.equal(&places, &on.transpose(&places, &[1, 0])?)?;
        let unit = on.add(&on.zeros(x.shape(), x.dtype())?, &math::to(on, &diagonal, x.dtype())?)?;
        // The row operations that reduce the matrix to the identity matrix turn the identity matrix into the inverse.
        let mut both = on.concat(&[x, &unit], -1)?;
        for column in 0..order {
            both = reduced(on, &both, &places, column)?;
        }
        on.slice(&both, &[order], &[2 * order], &[-1], &[])
    })?;
    Ok(one(y))
}

/// Reduces a column to a column of the identity matrix. Chooses the row with the column's largest element by magnitude
/// among the rows from `column` on, moves it to the index `column`, and subtracts multiples of it from the other rows.
fn reduced(
    on: &Tracer,
    x: &TracedTensor,
    places: &TracedTensor,
    column: i64,
) -> Result<TracedTensor, TraceStop> {
    let (zero, at) = (on.scalar_like(x, 0.0)?, on.host(&[], &[column])?);
    let of_column = |x: &TracedTensor| on.slice(x, &[column], &[column + 1], &[-1], &[]);
    let none = on.scalar_like(x, -1.0)?;
    let sizes = on.r#where(&on.less(places, &at)?, &none, &on.abs(&of_column(x)?)?)?;
    let greatest = on.reduce_max(&sizes, &[-2], true)?;
    // Choose the first row if several have the maximum. If an element is NaN, no row is chosen.
    let end = on.host(&[], &[i64::MAX])?;
    let which = on.reduce_min(&on.r#where(&on.equal(&sizes, &greatest)?, places, &end)?, &[-2], true)?;
    let chosen = on.equal(places, &which)?;
    let row = on.reduce_sum(&on.r#where(&chosen, x, &zero)?, &[-2], true)?;
    let displaced = on.slice(x, &[column], &[column + 1], &[-2], &[])?;
    let exchanged = on.r#where(&chosen, &displaced, x)?;
    let scaled = on.div(&row, &of_column(&row)?)?;
    let rest = on.sub(&exchanged, &on.mul(&of_column(&exchanged)?, &scaled)?)?;
    on.r#where(&on.equal(places, &at)?, &scaled, &rest)
}
