//! `Einsum`: sums of products by a formula of labelled dimensions.
//!
//! Operands are contracted from left to right, each pair by one product of matrices; a label is summed as soon as no
//! later operand and not the result has it.

use super::call::{Call, OpResult, one};
use crate::ext::{Ops, math};
use crate::{DataType, Error, Tensor};

/// The name of a dimension: a letter, or a place among those of `...`, counted from the right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Unnamed(usize),
    Letter(char),
}

/// A part of an equation: letters, and where `...` stands among them.
#[derive(Debug)]
struct Term {
    letters: Vec<char>,
    ellipsis: Option<usize>,
}

impl Term {
    fn parse<T>(call: &Call<'_, T>, text: &str) -> Result<Term, Error> {
        let wrong =
            || call.wrong("equation", format!("has the term `{text}`, expected letters and one `...`"));
        let (before, after) = match text.split_once("...") {
            Some((before, after)) => (before, Some(after)),
            None => (text, None),
        };
        let letters: Vec<char> = before.chars().chain(after.unwrap_or_default().chars()).collect();
        if !letters.iter().all(char::is_ascii_alphabetic) {
            return Err(wrong());
        }
        Ok(Term { letters, ellipsis: after.map(|_| before.len()) })
    }

    /// The labels, with `unnamed` dimensions for the `...`.
    fn labels(&self, unnamed: usize) -> Vec<Label> {
        let at = self.ellipsis.unwrap_or(0).min(self.letters.len());
        let (before, after) = self.letters.split_at(at);
        let unnamed = if self.ellipsis.is_some() { unnamed } else { 0 };
        let letters = |part: &[char]| part.iter().map(|&c| Label::Letter(c)).collect::<Vec<_>>();
        let mut labels = letters(before);
        labels.extend((0..unnamed).rev().map(Label::Unnamed));
        labels.extend(letters(after));
        labels
    }
}

/// A tensor and the labels of its dimensions, which differ.
struct Labelled<T> {
    x: T,
    labels: Vec<Label>,
}

/// `Einsum`; halves are summed in `f32`, narrow integers in 32 bits.
pub(super) fn einsum<B: Ops + ?Sized>(on: &B, call: &Call<'_, B::Tensor>) -> OpResult<B> {
    let text: String = call.text_or("equation", "")?.chars().filter(|c| !c.is_whitespace()).collect();
    let (left, right) = match text.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (text.as_str(), None),
    };
    let terms = left.split(',').map(|t| Term::parse(call, t)).collect::<Result<Vec<_>, _>>()?;
    if terms.len() != call.len() {
        return Err(call
            .wrong("equation", format!("has {} terms for {} operands", terms.len(), call.len()))
            .into());
    }
    let mut operands = Vec::with_capacity(terms.len());
    let mut most_unnamed = 0;
    let dtype = call.input(0)?.dtype();
    let wide = match dtype {
        DataType::F16 | DataType::BF16 => DataType::F32,
        DataType::I8 | DataType::I16 => DataType::I32,
        DataType::U8 | DataType::U16 => DataType::U32,
        other => other,
    };
    for (index, term) in terms.iter().enumerate() {
        let x = call.input(index)?;
        let unnamed = x.rank().checked_sub(term.letters.len()).filter(|&n| n == 0 || term.ellipsis.is_some());
        let Some(unnamed) = unnamed else {
            let problem = format!("has rank {}, which its term of the equation does not name", x.rank());
            return Err(call.wrong(&format!("operand {index}"), problem).into());
        };
        most_unnamed = most_unnamed.max(unnamed);
        operands.push(Labelled { x: math::to(on, x, wide)?, labels: term.labels(unnamed) });
    }
    let output = output(call, &terms, right, most_unnamed)?;
    let mut operands = operands.into_iter().map(|o| diagonal(on, call, o)).collect::<Result<Vec<_>, _>>()?;
    let mut rest = operands.split_off(1).into_iter();
    let Some(mut result) = operands.pop() else { return Err(call.wrong("operands", "are missing").into()) };
    while let Some(next) = rest.next() {
        let later = |label: &Label| {
            output.contains(label) || rest.as_slice().iter().any(|o| o.labels.contains(label))
        };
        result = contract(on, call, result, next, later)?;
    }
    let result = summed(on, result, |label| output.contains(label))?;
    Ok(one(math::to(on, &permuted(on, &result, &output)?, dtype)?))
}

/// The labels of the result: as the equation says, or those that occur once, by the alphabet.
fn output<T>(
    call: &Call<'_, T>,
    terms: &[Term],
    right: Option<&str>,
    unnamed: usize,
) -> Result<Vec<Label>, Error> {
    let count = |letter: char| terms.iter().flat_map(|t| &t.letters).filter(|&&c| c == letter).count();
    let Some(right) = right else {
        let mut labels: Vec<Label> = (0..unnamed).rev().map(Label::Unnamed).collect();
        let mut once: Vec<char> = terms.iter().flat_map(|t| t.letters.iter().copied()).collect();
        once.retain(|&c| count(c) == 1);
        once.sort_unstable();
        labels.extend(once.into_iter().map(Label::Letter));
        return Ok(labels);
    };
    let term = Term::parse(call, right)?;
    for (at, &letter) in term.letters.iter().enumerate() {
        if count(letter) == 0 || term.letters.iter().take(at).any(|&c| c == letter) {
            let problem = format!("results in `{letter}`, which no operand has, or twice");
            return Err(call.wrong("equation", problem));
        }
    }
    Ok(term.labels(unnamed))
}

/// Takes diagonals until no label occurs twice.
fn diagonal<B: Ops + ?Sized>(
    on: &B,
    call: &Call<'_, B::Tensor>,
    operand: Labelled<B::Tensor>,
) -> Result<Labelled<B::Tensor>, B::Error> {
    let Labelled { mut x, mut labels } = operand;
    while let Some((first, second)) = repeated(&labels) {
        let extent = |axis: usize| x.shape().get(axis).copied().unwrap_or(1);
        let (n, size) = (extent(first), extent(first).checked_mul(extent(second)));
        let Some(size) = size.filter(|_| n == extent(second)) else {
            let problem = format!("gives one label to the extents {n} and {}", extent(second));
            return Err(call.wrong("equation", problem).into());
        };
        let others = (0..labels.len()).filter(|&a| a != first && a != second);
        let perm: Vec<i64> = others.clone().chain([first, second]).map(|a| a as i64).collect();
        let shape: Vec<usize> = others.clone().map(extent).chain([size]).collect();
        let flat = on.reshape(&on.transpose(&x, &perm)?, &shape)?;
        let last = [flat.rank() as i64 - 1];
        let kept = others.clone().chain([first]).filter_map(|a| labels.get(a).copied()).collect();
        x = on.slice(&flat, &[0], &[i64::MAX], &last, &[n as i64 + 1])?;
        labels = kept;
    }
    Ok(Labelled { x, labels })
}

/// The places of a label that occurs twice.
fn repeated(labels: &[Label]) -> Option<(usize, usize)> {
    labels.iter().enumerate().find_map(|(at, label)| {
        labels.iter().skip(at + 1).position(|other| other == label).map(|gap| (at, at + 1 + gap))
    })
}

/// Sums over the dimensions whose labels are not kept.
fn summed<B: Ops + ?Sized>(
    on: &B,
    operand: Labelled<B::Tensor>,
    keep: impl Fn(&Label) -> bool,
) -> Result<Labelled<B::Tensor>, B::Error> {
    let (kept, gone): (Vec<_>, Vec<_>) = operand.labels.iter().enumerate().partition(|(_, l)| keep(l));
    if gone.is_empty() {
        return Ok(operand);
    }
    let axes: Vec<i64> = gone.iter().map(|(axis, _)| *axis as i64).collect();
    let labels = kept.into_iter().map(|(_, label)| *label).collect();
    Ok(Labelled { x: on.reduce_sum(&operand.x, &axes, false)?, labels })
}

/// Transposes to the order of `labels`, of which those that the tensor lacks become dimensions of extent 1.
fn permuted<B: Ops + ?Sized>(
    on: &B,
    operand: &Labelled<B::Tensor>,
    labels: &[Label],
) -> Result<B::Tensor, B::Error> {
    let perm: Vec<i64> = labels
        .iter()
        .filter_map(|label| operand.labels.iter().position(|l| l == label))
        .map(|axis| axis as i64)
        .collect();
    let x = if perm.is_sorted() { operand.x.clone() } else { on.transpose(&operand.x, &perm)? };
    let lacking: Vec<i64> = labels
        .iter()
        .enumerate()
        .filter(|(_, label)| !operand.labels.contains(label))
        .map(|(axis, _)| axis as i64)
        .collect();
    if lacking.is_empty() { on.identity(&x) } else { on.unsqueeze(&x, &lacking) }
}

/// Multiplies two operands and sums over the labels that are not needed `later`.
fn contract<B: Ops + ?Sized>(
    on: &B,
    call: &Call<'_, B::Tensor>,
    a: Labelled<B::Tensor>,
    b: Labelled<B::Tensor>,
    later: impl Fn(&Label) -> bool,
) -> Result<Labelled<B::Tensor>, B::Error> {
    let a = summed(on, a, |label| later(label) || b.labels.contains(label))?;
    let b = summed(on, b, |label| later(label) || a.labels.contains(label))?;
    let a = broadcast(on, call, a, &b)?;
    let b = broadcast(on, call, b, &a)?;
    let (shared, own_a): (Vec<Label>, Vec<Label>) = a.labels.iter().partition(|l| b.labels.contains(l));
    let own_b: Vec<Label> = b.labels.iter().copied().filter(|l| !a.labels.contains(l)).collect();
    let (batch, inner): (Vec<Label>, Vec<Label>) = shared.into_iter().partition(|l| later(l));
    let labels = [batch.as_slice(), &own_a, &own_b].concat();
    if inner.is_empty() {
        // Without sums it is an element-wise product, along dimensions of extent 1.
        let x = on.mul(&permuted(on, &a, &labels)?, &permuted(on, &b, &labels)?)?;
        return Ok(Labelled { x, labels });
    }
    let extents = |of: &Labelled<B::Tensor>, labels: &[Label]| -> Vec<usize> {
        let extent = |label| of.labels.iter().position(|l| l == label).and_then(|at| of.x.shape().get(at));
        labels.iter().filter_map(extent).copied().collect()
    };
    let (batches, rows, columns) = (extents(&a, &batch), extents(&a, &own_a), extents(&b, &own_b));
    let matrix =
        |of: &Labelled<B::Tensor>, before: &[Label], after: &[Label]| -> Result<B::Tensor, B::Error> {
            let x = permuted(on, of, &[batch.as_slice(), before, after].concat())?;
            let size = |labels| {
                bb_ir::element_count(&extents(of, labels))
                    .ok_or_else(|| call.wrong("operands", "have more elements than memory can hold"))
            };
            on.reshape(&x, &[batches.as_slice(), &[size(before)?, size(after)?]].concat())
        };
    let product = on.matmul(&matrix(&a, &own_a, &inner)?, &matrix(&b, &inner, &own_b)?)?;
    let x = on.reshape(&product, &[batches, rows, columns].concat())?;
    Ok(Labelled { x, labels })
}

/// Enlarges dimensions of extent 1 to what the other operand has under the same label.
fn broadcast<B: Ops + ?Sized>(
    on: &B,
    call: &Call<'_, B::Tensor>,
    operand: Labelled<B::Tensor>,
    other: &Labelled<B::Tensor>,
) -> Result<Labelled<B::Tensor>, B::Error> {
    let mut shape = operand.x.shape().to_vec();
    for (extent, label) in shape.iter_mut().zip(&operand.labels) {
        let at = other.labels.iter().position(|l| l == label);
        let Some(&wanted) = at.and_then(|at| other.x.shape().get(at)) else { continue };
        match (*extent, wanted) {
            (1, _) => *extent = wanted,
            (have, want) if have == want || want == 1 => {}
            (have, want) => {
                let problem = format!("gives one label to the extents {have} and {want}");
                return Err(call.wrong("equation", problem).into());
            }
        }
    }
    if shape == operand.x.shape() {
        return Ok(operand);
    }
    Ok(Labelled { x: on.expand(&operand.x, &shape)?, labels: operand.labels })
}
