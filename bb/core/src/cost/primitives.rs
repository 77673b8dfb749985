//! The costs of the primitives.

use super::{Call, Cost, Moves, elements};
use bb_ir::op::Primitive;

pub(super) fn cost(op: Primitive, call: &Call<'_>) -> Cost {
    match op {
        Primitive::Add
        | Primitive::Sub
        | Primitive::Mul
        | Primitive::Div
        | Primitive::Neg
        | Primitive::Abs
        | Primitive::Sqrt
        | Primitive::Pow
        | Primitive::Exp
        | Primitive::Log
        | Primitive::Equal
        | Primitive::Greater
        | Primitive::Less => call.elementwise(1),
        Primitive::MatMul => call.cost(matmul(call), Moves::All),
        Primitive::ReduceSum | Primitive::ReduceMax | Primitive::ReduceMin => {
            call.cost(reduction(call), Moves::All)
        }
        // The division replaces the addition that the first element does not need.
        Primitive::ReduceMean => call.cost(call.input(0).map(elements), Moves::All),
        Primitive::Reshape | Primitive::Squeeze | Primitive::Unsqueeze | Primitive::Identity => {
            call.movement(Moves::Nothing)
        }
        Primitive::Slice | Primitive::Split | Primitive::Gather => call.movement(Moves::Selected),
        Primitive::Transpose | Primitive::Concat | Primitive::Cast | Primitive::Where => {
            call.movement(Moves::All)
        }
        Primitive::Constant => call.movement(Moves::Results),
    }
}

/// `2k` for each element of the result.
fn matmul(call: &Call<'_>) -> Option<u128> {
    let k = *call.input(0)?.last()? as u128;
    Some(elements(call.output()?).saturating_mul(2 * k))
}

/// `n - 1` for each result of `n` elements; 0 for an empty reduction.
fn reduction(call: &Call<'_>) -> Option<u128> {
    Some(elements(call.input(0)?).saturating_sub(elements(call.output()?)))
}
