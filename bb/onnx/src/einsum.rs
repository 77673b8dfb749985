//! `Einsum`: sums of products by an equation of labelled dimensions.
//!
//! Operands are contracted from left to right, each pair by one matrix product. A label is summed as soon as neither a
//! later operand nor the result has it.

use super::rows::operators;
use bb_core::error::NodePart;
use bb_core::ext::{Extent, math};
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Tensor};
use bb_ir::infer::rule::{NodeFacts, Types};
use bb_ir::infer::{Equation, Label};

operators! {
    "" {
        Einsum => Primitives(einsum), infer: By(einsum_types);
    }
}

/// A tensor and the distinct labels of its dimensions.
struct Labelled {
    x: TracedTensor,
    labels: Vec<Label>,
}

fn einsum_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = || {
        let shapes = (0..at.node.inputs.len()).map(|i| at.dims(i)).collect::<Option<Vec<_>>>()?;
        let ranks: Vec<usize> = shapes.iter().map(|s| s.len()).collect();
        let equation = Equation::parse(at.text("equation", "")?, &ranks).ok()?;
        Some(equation.shape(&shapes).ok()?.into_vec())
    };
    at.one(at.dtype(0), shape())
}

/// `Einsum`. Sums of `f16` and `bf16` are accumulated in `f32`, sums of narrow integers in 32 bits.
pub(super) fn einsum(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let all = call.all()?;
    let ranks: Vec<usize> = all.iter().map(|x| x.rank()).collect();
    let equation = Equation::parse(call.text_or("equation", "")?, &ranks)
        .map_err(|problem| call.wrong("equation", problem.to_string()))?;
    let dtype = call.input(0)?.dtype();
    let wide = match dtype {
        DataType::F16 | DataType::BF16 => DataType::F32,
        DataType::I8 | DataType::I16 => DataType::I32,
        DataType::U8 | DataType::U16 => DataType::U32,
        other => other,
    };
    let labelled = |(x, labels)| Ok(Labelled { x: math::to(on, x, wide)?, labels });
    let operands: Vec<_> =
        all.into_iter().zip(equation.operands).map(labelled).collect::<Result<_, TraceStop>>()?;
    let output = equation.result;
    let mut operands = operands.into_iter().map(|o| diagonal(on, call, o)).collect::<Result<Vec<_>, _>>()?;
    let mut rest = operands.split_off(1).into_iter();
    let Some(mut result) = operands.pop() else {
        return Err(call.wrong(NodePart::other("operands"), "are missing").into());
    };
    while let Some(next) = rest.next() {
        let later = |label: &Label| {
            output.contains(label) || rest.as_slice().iter().any(|o| o.labels.contains(label))
        };
        result = contract(on, call, result, next, later)?;
    }
    let result = summed(on, result, |label| output.contains(label))?;
    Ok(one(math::to(on, &permuted(on, &result, &output)?, dtype)?))
}

/// Takes diagonals until no label occurs twice.
fn diagonal(on: &Tracer, call: &Call<'_, TracedTensor>, operand: Labelled) -> Result<Labelled, TraceStop> {
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

/// Returns the two indices of a label that occurs twice.
fn repeated(labels: &[Label]) -> Option<(usize, usize)> {
    labels.iter().enumerate().find_map(|(at, label)| {
        labels.iter().skip(at + 1).position(|other| other == label).map(|gap| (at, at + 1 + gap))
    })
}

/// Sums over the dimensions whose labels are not kept.
fn summed(on: &Tracer, operand: Labelled, keep: impl Fn(&Label) -> bool) -> Result<Labelled, TraceStop> {
    let (kept, gone): (Vec<_>, Vec<_>) = operand.labels.iter().enumerate().partition(|(_, l)| keep(l));
    if gone.is_empty() {
        return Ok(operand);
    }
    let axes: Vec<i64> = gone.iter().map(|(axis, _)| *axis as i64).collect();
    let labels = kept.into_iter().map(|(_, label)| *label).collect();
    Ok(Labelled { x: on.reduce_sum(&operand.x, &axes, false)?, labels })
}

/// Transposes to the order of `labels`, and inserts a dimension of extent 1 for each label that the tensor lacks.
fn permuted(on: &Tracer, operand: &Labelled, labels: &[Label]) -> Result<TracedTensor, TraceStop> {
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

/// Multiplies two operands. Sums over a label if `later` returns false.
fn contract(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    a: Labelled,
    b: Labelled,
    later: impl Fn(&Label) -> bool,
) -> Result<Labelled, TraceStop> {
    let a = summed(on, a, |label| later(label) || b.labels.contains(label))?;
    let b = summed(on, b, |label| later(label) || a.labels.contains(label))?;
    let a = broadcast(on, call, a, &b)?;
    let b = broadcast(on, call, b, &a)?;
    let (shared, own_a): (Vec<Label>, Vec<Label>) = a.labels.iter().partition(|l| b.labels.contains(l));
    let own_b: Vec<Label> = b.labels.iter().copied().filter(|l| !a.labels.contains(l)).collect();
    let (batch, inner): (Vec<Label>, Vec<Label>) = shared.into_iter().partition(|l| later(l));
    let labels = [batch.as_slice(), &own_a, &own_b].concat();
    if inner.is_empty() {
        // Without a label to sum over, broadcasting along dimensions of extent 1 gives an element-wise product.
        let x = on.mul(&permuted(on, &a, &labels)?, &permuted(on, &b, &labels)?)?;
        return Ok(Labelled { x, labels });
    }
    let extents = |of: &Labelled, labels: &[Label]| -> Vec<Extent> {
        let all = on.extents(&of.x);
        let extent = |label| of.labels.iter().position(|l| l == label).and_then(|at| all.get(at));
        labels.iter().filter_map(extent).cloned().collect()
    };
    let (batches, rows, columns) = (extents(&a, &batch), extents(&a, &own_a), extents(&b, &own_b));
    let matrix = |of: &Labelled, before: &[Label], after: &[Label]| -> Result<TracedTensor, TraceStop> {
        let x = permuted(on, of, &[batch.as_slice(), before, after].concat())?;
        let size = |labels| {
            let extents = extents(of, labels);
            let numbers: Vec<usize> =
                extents.iter().map(|extent| usize::try_from(extent.present()).unwrap_or(0)).collect();
            bb_ir::element_count(&numbers).ok_or_else(|| {
                call.wrong(NodePart::other("operands"), "have more elements than memory can hold")
            })?;
            Ok::<_, bb_core::Error>(extents.iter().fold(Extent::from(1i64), |all, extent| all.times(extent)))
        };
        on.reshape_to(&x, &[batches.as_slice(), &[size(before)?, size(after)?]].concat())
    };
    let product = on.matmul(&matrix(&a, &own_a, &inner)?, &matrix(&b, &inner, &own_b)?)?;
    let x = on.reshape_to(&product, &[batches, rows, columns].concat())?;
    Ok(Labelled { x, labels })
}

/// Enlarges dimensions of extent 1 to the extent of the other operand's dimension with the same label.
fn broadcast(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    operand: Labelled,
    other: &Labelled,
) -> Result<Labelled, TraceStop> {
    let (mut shape, wanted) = (on.extents(&operand.x), on.extents(&other.x));
    let mut grows = false;
    for (extent, label) in shape.iter_mut().zip(&operand.labels) {
        let at = other.labels.iter().position(|l| l == label);
        let Some(wanted) = at.and_then(|at| wanted.get(at)) else { continue };
        // Check first the conditions that do not depend on the present extents, so that the plan is valid for more shapes.
        if extent.is_same(wanted) || (wanted.is_fixed() && wanted.is(1)) {
            continue;
        }
        if extent.is(1) {
            *extent = wanted.clone();
            grows = true;
        } else if !extent.equals(wanted) && !wanted.is(1) {
            let (have, want) = (extent.present(), wanted.present());
            let problem = format!("gives one label to the extents {have} and {want}");
            return Err(call.wrong("equation", problem).into());
        }
    }
    if !grows {
        return Ok(operand);
    }
    Ok(Labelled { x: on.expand_to(&operand.x, &shape)?, labels: operand.labels })
}
