//! Linear models.

use super::scores::{Labels, Transform, classes_types, one_for_each, pair, targets_types};
use super::wide;
use bb_core::error::NodePart;
use bb_core::ext::math;
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Tensor};
use bb_ir::TensorData;
use bb_ir::convert::{Rounding, cast};
use bb_ir::infer::rule::{NodeFacts, Types};
use bb_onnx::shared::operators;
use smallvec::smallvec;

operators! {
    "ai.onnx.ml" {
        LinearClassifier => Primitives(linear_classifier), infer: By(linear_classifier_types), ignores: { "multi_class": "ONNX's evaluator and ONNX Runtime take no notice of it" };
        LinearRegressor => Primitives(linear_regressor), infer: By(linear_regressor_types);
    }
}

/// Creates a tensor of an attribute's numbers, in the type for computing scores.
pub(crate) fn numbers(
    on: &Tracer,
    shape: &[usize],
    elements: &[f32],
    dtype: DataType,
) -> Result<TracedTensor, TraceStop> {
    let narrow = TensorData::new(shape, elements).map_err(bb_core::Error::from)?;
    on.constant(&cast(&narrow, dtype, Rounding::default()).map_err(bb_core::Error::from)?)
}

/// Reads operand 0 as rows of features. A vector is one row.
pub(crate) fn rows(on: &Tracer, call: &Call<'_, TracedTensor>) -> Result<TracedTensor, TraceStop> {
    let x = call.input(0)?;
    let x = math::to(on, x, wide(x.dtype()))?;
    match x.rank() {
        1 => on.unsqueeze(&x, &[0]),
        2 => Ok(x),
        rank => {
            Err(call.wrong(NodePart::Operand(0), format!("has rank {rank}, expected [n, features]")).into())
        }
    }
}

/// Returns the dot products of rows of features with rows of coefficients, plus the intercepts, and the number of rows of
/// coefficients.
fn products(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    rows_of_coefficients: Option<usize>,
) -> Result<(TracedTensor, usize), TraceStop> {
    let x = rows(on, call)?;
    let coefficients = call.floats("coefficients")?.unwrap_or_default();
    let intercepts = call.floats("intercepts")?.unwrap_or_default();
    let wrong = |count: usize| {
        call.wrong("coefficients", format!("has {} numbers for {count} rows", coefficients.len()))
    };
    let count = match rows_of_coefficients.or(Some(intercepts.len()).filter(|&n| n > 0)) {
        Some(count) => count,
        None => {
            let features = x.shape().last().copied().unwrap_or_default().max(1);
            coefficients.len() / features
        }
    };
    let features = coefficients.len().checked_div(count).filter(|f| f * count == coefficients.len());
    let features = features.ok_or_else(|| wrong(count))?;
    let by_row = numbers(on, &[count, features], coefficients, x.dtype())?;
    let mut scores = on.matmul(&x, &on.transpose(&by_row, &[1, 0])?)?;
    if !intercepts.is_empty() {
        if intercepts.len() != count {
            let problem = format!("has {} numbers, expected {count}", intercepts.len());
            return Err(call.wrong("intercepts", problem).into());
        }
        scores = on.add(&scores, &numbers(on, &[count], intercepts, x.dtype())?)?;
    }
    Ok((scores, count))
}

fn linear_regressor_types(at: NodeFacts<'_>) -> Option<Types> {
    targets_types(at, Some(DataType::F32), at.int("targets", 1)?)
}

/// `LinearRegressor`.
pub(crate) fn linear_regressor(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let targets = call.int_or("targets", 1)?;
    let count = usize::try_from(targets).ok().filter(|&n| n > 0);
    let count =
        count.ok_or_else(|| call.wrong("targets", format!("is {targets}, expected a positive number")))?;
    let transform = Transform::named(call)?;
    let (scores, _) = products(on, call, Some(count))?;
    Ok(one(math::to(on, &transform.apply(on, &scores)?, DataType::F32)?))
}

fn linear_classifier_types(at: NodeFacts<'_>) -> Option<Types> {
    classes_types(at, "classlabels_ints", "classlabels_strings", |classes| Some(one_for_each(classes)))
}

/// `LinearClassifier`. With two classes, there may be coefficients only for the second class.
pub(crate) fn linear_classifier(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let labels = Labels::of(call, "classlabels_ints", "classlabels_strings")?;
    let transform = Transform::named(call)?;
    let (scores, count) = products(on, call, None)?;
    let binary = count == 1 && labels.len() == 2;
    if !binary && count != labels.len() {
        let problem = format!("give {count} scores to {} classes", labels.len());
        return Err(call.wrong("coefficients", problem).into());
    }
    let scores = if binary { pair(on, &on.neg(&scores)?, &scores)? } else { scores };
    let scores = transform.apply(on, &scores)?;
    let label = if labels.len() == 1 {
        let threshold = if transform == Transform::None { 0.0 } else { 0.5 };
        labels.only(on, &on.greater_or_equal(&scores, &on.scalar_like(&scores, threshold)?)?)?
    } else {
        labels.best(on, &scores)?
    };
    Ok(smallvec![Some(label), Some(math::to(on, &scores, DataType::F32)?)])
}
