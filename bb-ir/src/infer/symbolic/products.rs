//! Rules of products, recurrent networks, losses and the models of `ai.onnx.ml`.

use super::operators::{At, Types, tensor, with};
use super::rules;
use crate::DataType;
use crate::graph::Dim;

pub(super) fn gemm(at: At<'_>) -> Option<Types> {
    let shape = || {
        let ([a, b], [c, d]) = (at.dims(0)?, at.dims(1)?) else { return None };
        let rows = if at.int("transA", 0)? == 0 { a } else { b };
        let columns = if at.int("transB", 0)? == 0 { d } else { c };
        Some(vec![rows.clone(), columns.clone()])
    };
    at.one(at.dtype(0), shape())
}

fn product(at: At<'_>, right: usize) -> Option<Vec<Dim>> {
    rules::matmul(at.dims(0)?, at.dims(right)?).ok()
}

pub(super) fn matmul_integer(at: At<'_>) -> Option<Types> {
    at.one(Some(DataType::I32), product(at, 1))
}

pub(super) fn qlinear_matmul(at: At<'_>) -> Option<Types> {
    at.one(at.dtype(7), product(at, 3))
}

pub(super) fn det(at: At<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| x.get(..x.len().checked_sub(2)?).map(<[Dim]>::to_vec);
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// Of equations that say what the result is, without an ellipsis.
pub(super) fn einsum(at: At<'_>) -> Option<Types> {
    let shape = || {
        let equation: String = at.text("equation", "")?.chars().filter(|c| !c.is_whitespace()).collect();
        let (operands, result) = equation.split_once("->").filter(|_| !equation.contains('.'))?;
        let mut extents: Vec<(char, Dim)> = Vec::new();
        for (i, letters) in operands.split(',').enumerate() {
            let dims = at.dims(i)?;
            if dims.len() != letters.chars().count() {
                return None;
            }
            for (letter, dim) in letters.chars().zip(dims) {
                match extents.iter_mut().find(|(known, _)| *known == letter) {
                    None => extents.push((letter, dim.clone())),
                    // An extent of 1 is repeated.
                    Some((_, known)) if matches!(known, Dim::Known(1)) => *known = dim.clone(),
                    Some((_, known))
                        if !matches!(known, Dim::Known(_)) && matches!(dim, Dim::Known(n) if *n > 1) =>
                    {
                        *known = dim.clone();
                    }
                    Some((_, known)) if known == dim || matches!(known, Dim::Known(_)) => {}
                    Some((_, known)) => *known = Dim::Unknown,
                }
            }
        }
        result
            .chars()
            .map(|c| extents.iter().find(|(known, _)| *known == c).map(|(_, d)| d.clone()))
            .collect()
    };
    at.one(at.dtype(0), shape())
}

/// RNN, GRU and LSTM: every output of the sequence, the last one, and the last state of cells.
pub(super) fn recurrent(at: At<'_>) -> Option<Types> {
    let shapes = || {
        let [first, second, _] = at.dims(0)? else { return None };
        let hidden = match at.int("hidden_size", 0)? {
            0 => at.dims(2)?.get(2).cloned()?,
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
pub(super) fn loss(at: At<'_>) -> Option<Types> {
    let shape = match at.text("reduction", "mean")? {
        "none" => at.dims(1).map(<[Dim]>::to_vec),
        _ => Some(Vec::new()),
    };
    Some(vec![tensor(at.dtype(0), shape), at.facts.ty(at.node, 0).clone()])
}

/// A regressor's rows, a column for each target.
pub(super) fn regressor(at: At<'_>) -> Option<Types> {
    let [rows, _] = at.dims(0)? else { return None };
    let name = if at.node.op_type == "TreeEnsembleRegressor" { "n_targets" } else { "targets" };
    let columns = match at.int(name, -1)? {
        n if n > 0 => Dim::Known(usize::try_from(n).ok()?),
        _ => Dim::Unknown,
    };
    at.one(Some(DataType::F32), Some(vec![rows.clone(), columns]))
}

pub(super) fn one_hot_encoder(at: At<'_>) -> Option<Types> {
    let texts = at.node.attributes.texts("cats_strings").ok()?.map_or(0, <[_]>::len);
    let count = at.ints("cats_int64s").map_or(texts, <[i64]>::len);
    let count = with(&Dim::Known(count), |n| (n > 0).then_some(n));
    let shape = at.dims(0).map(|x| [x, &[count]].concat());
    at.one(Some(DataType::F32), shape)
}
