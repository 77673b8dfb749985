//! Rules of products, recurrent networks and losses.

use bb_ir::DataType;
use bb_ir::graph::Dim;
use bb_ir::infer::rule::{At, Types, tensor};
use bb_ir::infer::{Equation, matmul};

/// The extents of the product of the operand 0 and another, either of which may be transposed.
fn plain_gemm(at: At<'_>, right: usize) -> Option<Vec<Dim>> {
    let ([a, b], [c, d]) = (at.dims(0)?, at.dims(right)?) else { return None };
    let rows = if at.int("transA", 0)? == 0 { a } else { b };
    let columns = if at.int("transB", 0)? == 0 { d } else { c };
    Some(vec![rows.clone(), columns.clone()])
}

pub(crate) fn gemm(at: At<'_>) -> Option<Types> {
    at.one(at.dtype(0), plain_gemm(at, 1))
}

/// `QGemm`: of the zero point's type, or of the scale's where the result is not quantised.
pub(crate) fn q_gemm(at: At<'_>) -> Option<Types> {
    let dtype = match (at.has(7), at.has(8)) {
        (false, _) => at.dtype(1),
        (true, true) => at.dtype(8),
        (true, false) => at.dtype(0),
    };
    at.one(dtype, plain_gemm(at, 3))
}

/// `CDist`: a row for each of one matrix, a column for each of the other.
pub(crate) fn distances(at: At<'_>) -> Option<Types> {
    let shape = || {
        let ([rows, _], [columns, _]) = (at.dims(0)?, at.dims(1)?) else { return None };
        Some(vec![rows.clone(), columns.clone()])
    };
    at.one(at.dtype(0), shape())
}

/// The extents of the product of the operand 0 and another.
pub(crate) fn product(at: At<'_>, right: usize) -> Option<Vec<Dim>> {
    Some(matmul(at.dims(0)?, at.dims(right)?).ok()?.shape.into_vec())
}

pub(crate) fn matmul_integer(at: At<'_>) -> Option<Types> {
    at.one(Some(DataType::I32), product(at, 1))
}

/// `MatMulInteger16`: of 32 bits, with a sign unless both operands have none.
pub(crate) fn integers16(at: At<'_>) -> Option<Types> {
    let dtype = match (at.dtype(0)?, at.dtype(1)?) {
        (DataType::U16, DataType::U16) => DataType::U32,
        _ => DataType::I32,
    };
    at.one(Some(dtype), product(at, 1))
}

pub(crate) fn qlinear_matmul(at: At<'_>) -> Option<Types> {
    at.one(at.dtype(7), product(at, 3))
}

/// Elements of two tensors of quantised numbers, each of which has a scale and a zero point.
pub(crate) fn qlinear_elements(at: At<'_>) -> Option<Types> {
    at.one(at.dtype(0), at.broadcast_of(&[0, 3]))
}

/// `QLinearWhere`: a condition, then tensors as [`qlinear_elements`] has them.
pub(crate) fn qlinear_where(at: At<'_>) -> Option<Types> {
    at.one(at.dtype(1), at.broadcast_of(&[0, 1, 4]))
}

pub(crate) fn det(at: At<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| x.get(..x.len().checked_sub(2)?).map(<[Dim]>::to_vec);
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

pub(crate) fn einsum(at: At<'_>) -> Option<Types> {
    let shape = || {
        let shapes = (0..at.node.inputs.len()).map(|i| at.dims(i)).collect::<Option<Vec<_>>>()?;
        let ranks: Vec<usize> = shapes.iter().map(|s| s.len()).collect();
        let equation = Equation::parse(at.text("equation", "")?, &ranks).ok()?;
        Some(equation.shape(&shapes).ok()?.into_vec())
    };
    at.one(at.dtype(0), shape())
}

/// RNN, GRU and LSTM: every output of the sequence, the last one, and the last state of cells.
pub(crate) fn recurrent(at: At<'_>) -> Option<Types> {
    let shapes = || {
        let [first, second, _] = at.dims(0)? else { return None };
        let hidden = match at.int("hidden_size", 0)? {
            // The weights of the last state; those that are quantised are stored the other way round.
            0 => {
                let at_end = if at.node.domain.is_empty() { 2 } else { 1 };
                at.dims(2).and_then(|r| r.get(at_end)).cloned().unwrap_or(Dim::Unknown)
            }
            size => Dim::Known(usize::try_from(size).ok()?),
        };
        let directions = Dim::Known(if at.text("direction", "forward")? == "bidirectional" { 2 } else { 1 });
        let [first, second] = [first.clone(), second.clone()];
        Some(if at.int("layout", 0)? == 0 {
            (
                vec![first, directions.clone(), second.clone(), hidden.clone()],
                vec![directions, second, hidden],
            )
        } else {
            (vec![first.clone(), second, directions.clone(), hidden.clone()], vec![first, directions, hidden])
        })
    };
    let (all, last) = shapes().unzip();
    let dtype = at.dtype(0);
    Some(vec![tensor(dtype, all), tensor(dtype, last.clone()), tensor(dtype, last)])
}

/// A loss, and for the one that computes it the logarithm of the softmax.
pub(crate) fn loss(at: At<'_>) -> Option<Types> {
    let shape = match at.text("reduction", "mean")? {
        "none" => at.dims(1).map(<[Dim]>::to_vec),
        _ => Some(Vec::new()),
    };
    Some(vec![tensor(at.dtype(0), shape), at.ty(0).clone()])
}
