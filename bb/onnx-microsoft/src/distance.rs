//! `CDist`: distances between the rows of two matrices.

use super::only;
use bb_core::error::NodePart;
use bb_core::ext::math;
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Tensor};
use bb_ir::infer::rule::{NodeFacts, Types};
use bb_onnx::shared::operators;

operators! {
    "com.microsoft" {
        CDist => Primitives(c_dist), infer: By(cdist_types);
    }
}

/// The metrics without parameters, because the operator has no attributes for parameters.
const METRICS: [&str; 12] = [
    "braycurtis",
    "canberra",
    "chebyshev",
    "cityblock",
    "correlation",
    "cosine",
    "euclidean",
    "hamming",
    "manhattan",
    "matching",
    "minkowski",
    "sqeuclidean",
];

/// Infers the type of `CDist`: one row per row of operand 0, one column per row of operand 1.
fn cdist_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = || {
        let ([rows, _], [columns, _]) = (at.dims(0)?, at.dims(1)?) else { return None };
        Some(vec![rows.clone(), columns.clone()])
    };
    at.one(at.dtype(0), shape())
}

/// `CDist`: the distance of each row of operand 0 from each row of operand 1.
///
/// Differences are computed directly, so that the distance of equal rows is exactly 0.
///
/// Source: the metrics' definitions in SciPy's `cdist`.
pub(crate) fn c_dist(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    only(call, &["metric"])?;
    let (a, b) = (call.input(0)?, call.input(1)?);
    for (index, x) in [a, b].into_iter().enumerate() {
        if x.rank() != 2 {
            let problem = format!("has rank {}, expected 2", x.rank());
            return Err(call.wrong(NodePart::Operand(index), problem).into());
        }
    }
    let metric = call.text_or("metric", "sqeuclidean")?;
    if !METRICS.contains(&metric) {
        let problem = format!("is `{metric}`, expected one of {}", METRICS.join(", "));
        return Err(call.wrong("metric", problem).into());
    }
    let b = &math::to(on, b, a.dtype())?;
    let y = match metric {
        "cosine" => angular(on, a, b)?,
        "correlation" => {
            let centred = |x: &TracedTensor| on.sub(x, &on.reduce_mean(x, &[1], true)?);
            angular(on, &centred(a)?, &centred(b)?)?
        }
        "sqeuclidean" | "euclidean" | "minkowski" => {
            let squared = math::widened(on, a, DataType::F32, |a| {
                let distances = on.squared_distances(a, &math::to(on, b, a.dtype())?)?;
                // `minkowski` has the default order 2, because the operator has no attribute for the order.
                if metric == "sqeuclidean" { Ok(distances) } else { on.sqrt(&distances) }
            });
            squared?
        }
        _ => {
            let (a, b) = (on.unsqueeze(a, &[1])?, on.unsqueeze(b, &[0])?);
            by_features(on, metric, &a, &b)?
        }
    };
    Ok(one(y))
}

/// Returns one minus the cosine between each pair of rows.
fn angular(on: &Tracer, a: &TracedTensor, b: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    math::widened(on, a, DataType::F32, |a| {
        let b = &math::to(on, b, a.dtype())?;
        let length = |x: &TracedTensor| on.sqrt(&on.reduce_sum(&on.mul(x, x)?, &[1], true)?);
        let lengths = on.mul(&length(a)?, &on.transpose(&length(b)?, &[1, 0])?)?;
        let cosine = on.div(&on.matmul(a, &on.transpose(b, &[1, 0])?)?, &lengths)?;
        on.sub(&on.scalar_like(&cosine, 1.0)?, &cosine)
    })
}

/// Computes distances that are sums over the last dimension of broadcast operands.
fn by_features(
    on: &Tracer,
    metric: &str,
    a: &TracedTensor,
    b: &TracedTensor,
) -> Result<TracedTensor, TraceStop> {
    math::widened(on, a, DataType::F32, |a| {
        let b = &math::to(on, b, a.dtype())?;
        let sum = |x: &TracedTensor| on.reduce_sum(x, &[2], false);
        let zero = on.scalar_like(a, 0.0)?;
        if matches!(metric, "hamming" | "matching") {
            let same = math::to(on, &on.equal(a, b)?, a.dtype())?;
            return on.reduce_mean(&on.sub(&on.scalar_like(a, 1.0)?, &same)?, &[2], false);
        }
        let difference = on.sub(a, b)?;
        match metric {
            "cityblock" | "manhattan" => sum(&on.abs(&difference)?),
            "chebyshev" => on.maximum(&on.reduce_max(&on.abs(&difference)?, &[2], false)?, &zero),
            "canberra" => {
                let sizes = on.add(&on.abs(a)?, &on.abs(b)?)?;
                let parts = on.div(&on.abs(&difference)?, &sizes)?;
                // If both elements are 0, the term is defined as 0.
                sum(&on.r#where(&on.equal(&sizes, &zero)?, &zero, &parts)?)
            }
            // `braycurtis`.
            _ => on.div(&sum(&on.abs(&difference)?)?, &sum(&on.abs(&on.add(a, b)?)?)?),
        }
    })
}
