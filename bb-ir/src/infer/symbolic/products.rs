//! Rules of products, recurrent networks and losses.

use super::operators::{At, Types, tensor};
use super::rules;
use crate::DataType;
use crate::graph::Dim;

/// The extents of the product of the operand 0 and another, either of which may be transposed.
fn plain_gemm(at: At<'_>, right: usize) -> Option<Vec<Dim>> {
    let ([a, b], [c, d]) = (at.dims(0)?, at.dims(right)?) else { return None };
    let rows = if at.int("transA", 0)? == 0 { a } else { b };
    let columns = if at.int("transB", 0)? == 0 { d } else { c };
    Some(vec![rows.clone(), columns.clone()])
}

pub(super) fn gemm(at: At<'_>) -> Option<Types> {
    at.one(at.dtype(0), plain_gemm(at, 1))
}

/// `QGemm`: of the zero point's type, or of the scale's where the result is not quantised.
pub(super) fn q_gemm(at: At<'_>) -> Option<Types> {
    let dtype = match (at.has(7), at.has(8)) {
        (false, _) => at.dtype(1),
        (true, true) => at.dtype(8),
        (true, false) => at.dtype(0),
    };
    at.one(dtype, plain_gemm(at, 3))
}

/// `CDist`: a row for each of one matrix, a column for each of the other.
pub(super) fn distances(at: At<'_>) -> Option<Types> {
    let shape = || {
        let ([rows, _], [columns, _]) = (at.dims(0)?, at.dims(1)?) else { return None };
        Some(vec![rows.clone(), columns.clone()])
    };
    at.one(at.dtype(0), shape())
}

/// The extents of the product of the operand 0 and another.
pub(super) fn product(at: At<'_>, right: usize) -> Option<Vec<Dim>> {
    rules::matmul(at.dims(0)?, at.dims(right)?).ok()
}

pub(super) fn matmul_integer(at: At<'_>) -> Option<Types> {
    at.one(Some(DataType::I32), product(at, 1))
}

pub(super) fn qlinear_matmul(at: At<'_>) -> Option<Types> {
    at.one(at.dtype(7), product(at, 3))
}

/// Elements of two tensors of quantised numbers, each of which has a scale and a zero point.
pub(super) fn qlinear_elements(at: At<'_>) -> Option<Types> {
    at.one(at.dtype(0), at.broadcast_of(&[0, 3]))
}

/// `QLinearWhere`: a condition, then tensors as [`qlinear_elements`] has them.
pub(super) fn qlinear_where(at: At<'_>) -> Option<Types> {
    at.one(at.dtype(1), at.broadcast_of(&[0, 1, 4]))
}

pub(super) fn det(at: At<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| x.get(..x.len().checked_sub(2)?).map(<[Dim]>::to_vec);
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// The extents that letters stand for, and those that an ellipsis does.
#[derive(Default)]
struct Letters {
    extents: Vec<(char, Dim)>,
    between: Vec<Dim>,
}

impl Letters {
    /// Reads one operand's term.
    fn read(&mut self, term: &str, dims: &[Dim]) -> Option<()> {
        let (before, after) = term.split_once("...").unwrap_or((term, ""));
        let (head, rest) = dims.split_at_checked(before.chars().count())?;
        let (middle, tail) = rest.split_at_checked(rest.len().checked_sub(after.chars().count())?)?;
        if !middle.is_empty() && !term.contains('.') {
            return None;
        }
        self.between = super::dims::broadcast("einsum", &[&self.between, middle]).ok()?;
        for (letter, dim) in before.chars().zip(head).chain(after.chars().zip(tail)) {
            match self.extents.iter_mut().find(|(known, _)| *known == letter) {
                None => self.extents.push((letter, dim.clone())),
                // An extent of 1 is repeated.
                Some((_, known)) => {
                    let both = [std::slice::from_ref(known), std::slice::from_ref(dim)];
                    let both = super::dims::broadcast("einsum", &both).ok()?;
                    *known = both.first()?.clone();
                }
            }
        }
        Some(())
    }
}

pub(super) fn einsum(at: At<'_>) -> Option<Types> {
    let shape = || {
        let equation: String = at.text("equation", "")?.chars().filter(|c| !c.is_whitespace()).collect();
        let (operands, result) = match equation.split_once("->") {
            Some((operands, result)) => (operands, result.to_owned()),
            None => {
                // What an ellipsis stands for, then letters that are there once, in the alphabet's order.
                let mut once: Vec<char> = equation.chars().filter(|c| c.is_alphabetic()).collect();
                once.sort_unstable();
                let times = |c: char| equation.chars().filter(|other| *other == c).count();
                let once: String = once.into_iter().filter(|c| times(*c) == 1).collect();
                (equation.as_str(), format!("{}{once}", if equation.contains('.') { "..." } else { "" }))
            }
        };
        let mut letters = Letters::default();
        for (i, term) in operands.split(',').enumerate() {
            letters.read(term, at.dims(i)?)?;
        }
        let (before, after) = result.split_once("...").unwrap_or((result.as_str(), ""));
        let extent = |c: char| letters.extents.iter().find(|(l, _)| *l == c).map(|(_, d)| d.clone());
        let mut out: Vec<Dim> = before.chars().map(extent).collect::<Option<_>>()?;
        if result.contains('.') {
            out.extend_from_slice(&letters.between);
        }
        out.extend(after.chars().map(extent).collect::<Option<Vec<_>>>()?);
        Some(out)
    };
    at.one(at.dtype(0), shape())
}

/// RNN, GRU and LSTM: every output of the sequence, the last one, and the last state of cells.
pub(super) fn recurrent(at: At<'_>) -> Option<Types> {
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
pub(super) fn loss(at: At<'_>) -> Option<Types> {
    let shape = match at.text("reduction", "mean")? {
        "none" => at.dims(1).map(<[Dim]>::to_vec),
        _ => Some(Vec::new()),
    };
    Some(vec![tensor(at.dtype(0), shape), at.facts.ty(at.node, 0).clone()])
}
