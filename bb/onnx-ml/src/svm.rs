//! Support vector machines.

use super::linear::{numbers, rows};
use super::scores::{Labels, Transform, classes_types, one_for_each, pair, targets_types};
use bb_core::error::NodePart;
use bb_core::ext::math;
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::graph::Dim;
use bb_ir::infer::rule::{NodeFacts, Types};
use bb_ir::pace::Pace;
use bb_onnx::shared::operators;
use smallvec::smallvec;

operators! {
    "ai.onnx.ml" {
        SVMClassifier => Primitives(svm_classifier), infer: By(svm_classifier_types);
        SVMRegressor => Primitives(svm_regressor), infer: By(svm_regressor_types);
    }
}

/// The kernel function that compares features with support vectors.
#[derive(Debug, Clone, Copy)]
enum Kernel {
    Linear,
    Poly,
    Rbf,
    Sigmoid,
}

/// A kernel with its parameters.
#[derive(Debug, Clone, Copy)]
struct Comparison {
    kernel: Kernel,
    gamma: f64,
    coef0: f64,
    degree: f64,
}

impl Comparison {
    fn of<T>(call: &Call<'_, T>) -> Result<Comparison, Error> {
        let kernel = match call.text_or("kernel_type", "LINEAR")? {
            "LINEAR" => Kernel::Linear,
            "POLY" => Kernel::Poly,
            "RBF" => Kernel::Rbf,
            "SIGMOID" => Kernel::Sigmoid,
            other => {
                let problem = format!("is `{other}`, expected `LINEAR`, `POLY`, `RBF` or `SIGMOID`");
                return Err(call.wrong("kernel_type", problem));
            }
        };
        let (gamma, coef0, degree) = match call.floats("kernel_params")?.unwrap_or_default() {
            [] => (0.0, 0.0, 0.0),
            &[gamma, coef0, degree] => (gamma, coef0, degree),
            other => {
                let problem = format!("has {} numbers, expected gamma, coef0 and degree", other.len());
                return Err(call.wrong("kernel_params", problem));
            }
        };
        Ok(Comparison { kernel, gamma: gamma.into(), coef0: coef0.into(), degree: f64::from(degree).trunc() })
    }

    /// Applies the kernel to each pair of rows of `x: [n, f]` and `vectors: [m, f]`. Returns `[n, m]`.
    fn apply(self, on: &Tracer, x: &TracedTensor, vectors: &TracedTensor) -> Result<TracedTensor, TraceStop> {
        if let Kernel::Rbf = self.kernel {
            let distance = on.squared_distances(x, vectors)?;
            return on.exp(&on.mul(&distance, &on.scalar_like(x, -self.gamma)?)?);
        }
        let product = on.matmul(x, &on.transpose(vectors, &[1, 0])?)?;
        if let Kernel::Linear = self.kernel {
            return Ok(product);
        }
        let scaled = on.mul(&product, &on.scalar_like(x, self.gamma)?)?;
        let shifted = on.add(&scaled, &on.scalar_like(x, self.coef0)?)?;
        match self.kernel {
            // For small degrees, multiplication is as exact as a power, and faster.
            Kernel::Poly if self.degree == 1.0 => Ok(shifted),
            Kernel::Poly if self.degree == 2.0 => on.mul(&shifted, &shifted),
            Kernel::Poly if self.degree == 3.0 => on.mul(&on.mul(&shifted, &shifted)?, &shifted),
            Kernel::Poly => on.pow(&shifted, &on.scalar_like(x, self.degree)?),
            _ => on.tanh(&shifted),
        }
    }
}

/// Reads an attribute as a matrix with `count` rows.
fn matrix(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    name: &str,
    count: usize,
    dtype: DataType,
) -> Result<TracedTensor, TraceStop> {
    let list = call.floats(name)?.unwrap_or_default();
    match list.len().checked_div(count) {
        Some(width) if width * count == list.len() => numbers(on, &[count, width], list, dtype),
        _ => Err(call.wrong(name, format!("has {} numbers for {count} rows", list.len())).into()),
    }
}

/// Reads the number of `rho` at `index`.
fn rho<T>(call: &Call<'_, T>, index: usize) -> Result<f64, Error> {
    let list = call.floats("rho")?.unwrap_or_default();
    let value = list.get(index).copied().map(f64::from);
    value.ok_or_else(|| call.wrong("rho", format!("has {} numbers, expected more than {index}", list.len())))
}

fn svm_regressor_types(at: NodeFacts<'_>) -> Option<Types> {
    targets_types(at, Some(DataType::F32), 1)
}

/// `SVMRegressor`.
pub(crate) fn svm_regressor(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = rows(on, call)?;
    let transform = Transform::named(call)?;
    let supports = call.int_or("n_supports", 0)?;
    let supports = usize::try_from(supports)
        .map_err(|_| call.wrong("n_supports", format!("is {supports}, expected no negative number")))?;
    let coefficients = on.transpose(&matrix(on, call, "coefficients", 1, x.dtype())?, &[1, 0])?;
    let features = if supports > 0 {
        let vectors = matrix(on, call, "support_vectors", supports, x.dtype())?;
        Comparison::of(call)?.apply(on, &x, &vectors)?
    } else {
        x.clone()
    };
    let sum = on.add(&on.matmul(&features, &coefficients)?, &on.scalar_like(&x, rho(call, 0)?)?)?;
    let y = if call.flag("one_class", false)? {
        let inside = on.greater(&sum, &on.scalar_like(&sum, 0.0)?)?;
        on.r#where(&inside, &on.scalar_like(&sum, 1.0)?, &on.scalar_like(&sum, -1.0)?)?
    } else {
        transform.apply(on, &sum)?
    };
    Ok(one(math::to(on, &y, DataType::F32)?))
}

/// Infers the types of `SVMClassifier`: labels and a score for each class, or for each pair of classes if pairs vote.
fn svm_classifier_types(at: NodeFacts<'_>) -> Option<Types> {
    classes_types(at, "classlabels_ints", "classlabels_strings", |classes| {
        let voting = at.ints("vectors_per_class").is_some_and(|v| v.iter().any(|n| *n != 0));
        if !voting {
            return Some(one_for_each(classes));
        }
        Some(match (at.node.attributes.floats("prob_a").ok()?, classes) {
            (None | Some([]), 3..) => pair_count(classes),
            _ => Dim::Known(classes),
        })
    })
}

/// Returns the number of pairs of classes.
fn pair_count(of: usize) -> Dim {
    of.checked_mul(of - 1).map_or(Dim::Unknown, |n| Dim::Known(n / 2))
}

/// `SVMClassifier`: votes between pairs of classes, or one linear function per class.
pub(crate) fn svm_classifier(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = rows(on, call)?;
    let labels = Labels::of(call, "classlabels_ints", "classlabels_strings")?;
    let transform = Transform::named(call)?;
    let sizes: Option<Vec<usize>> = call
        .ints("vectors_per_class")?
        .unwrap_or_default()
        .iter()
        .map(|&n| usize::try_from(n).ok())
        .collect();
    let sizes = sizes.ok_or_else(|| call.wrong("vectors_per_class", "has a negative number"))?;
    let total = sizes.iter().try_fold(0usize, |sum, &n| sum.checked_add(n));
    let total = total.ok_or_else(|| call.wrong("vectors_per_class", "sums to more than memory can hold"))?;
    if total == 0 {
        let weights = matrix(on, call, "coefficients", labels.len(), x.dtype())?;
        let scores = on.matmul(&x, &on.transpose(&weights, &[1, 0])?)?;
        let scores = on.add(&scores, &on.scalar_like(&x, rho(call, 0)?)?)?;
        let label = if labels.len() == 1 {
            labels.only(on, &on.greater(&scores, &on.scalar_like(&scores, 0.0)?)?)?
        } else {
            labels.best(on, &scores)?
        };
        let scores = transform.apply(on, &scores)?;
        return Ok(smallvec![Some(label), Some(math::to(on, &scores, DataType::F32)?)]);
    }
    if sizes.len() != labels.len() || sizes.len() < 2 {
        let problem = format!("has {} numbers for {} classes", sizes.len(), labels.len());
        return Err(call.wrong("vectors_per_class", problem).into());
    }
    let vectors = matrix(on, call, "support_vectors", total, x.dtype())?;
    let kernels = Comparison::of(call)?.apply(on, &x, &vectors)?;
    let margins = margins(on, call, &kernels, &sizes)?;
    let winner = on.arg_max(&votes(on, &margins, sizes.len())?, -1, false)?;
    let label = labels.gather(on, &on.squeeze(&winner, &[-1])?)?;
    let refs: Vec<&TracedTensor> = margins.iter().collect();
    let scores = if !call.floats("prob_a")?.unwrap_or_default().is_empty() {
        probabilities(on, call, &margins, sizes.len())?
    } else if let [margin] = refs.as_slice() {
        pair(on, &on.neg(margin)?, margin)?
    } else {
        on.concat(&refs, 1)?
    };
    let scores = transform.apply(on, &scores)?;
    Ok(smallvec![Some(label), Some(math::to(on, &scores, DataType::F32)?)])
}

/// Iterates over the pairs of classes, in the order of `rho`.
fn pairs(classes: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..classes).flat_map(move |i| (i + 1..classes).map(move |j| (i, j)))
}

/// Returns the margins of the first class of each pair, as columns `[n, 1]`. It wins if the margin is positive.
fn margins(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    kernels: &TracedTensor,
    sizes: &[usize],
) -> Result<Vec<TracedTensor>, TraceStop> {
    let coefficients = call.floats("coefficients")?.unwrap_or_default();
    let total: usize = sizes.iter().sum();
    let starts: Vec<usize> = sizes
        .iter()
        .scan(0, |start, &n| {
            *start += n;
            Some(*start - n)
        })
        .collect();
    let part = |row: usize, class: usize| -> Result<TracedTensor, TraceStop> {
        let (start, size) = (starts.get(class).copied().unwrap_or(0), sizes.get(class).copied().unwrap_or(0));
        let from = row * total + start;
        let weights = coefficients.get(from..from + size).ok_or_else(|| {
            let expected = total * (sizes.len() - 1);
            call.wrong("coefficients", format!("has {} numbers, expected {expected}", coefficients.len()))
        })?;
        let chosen = on.slice(kernels, &[start as i64], &[(start + size) as i64], &[1], &[])?;
        on.matmul(&chosen, &numbers(on, &[size, 1], weights, kernels.dtype())?)
    };
    let margin = |(index, (i, j)): (usize, (usize, usize))| {
        let sum = on.add(&part(j - 1, i)?, &part(i, j)?)?;
        on.add(&sum, &on.scalar_like(&sum, rho(call, index)?)?)
    };
    pairs(sizes.len()).enumerate().map(margin).collect()
}

/// Returns the number of pairs that each class wins: `[n, classes]`.
fn votes(on: &Tracer, margins: &[TracedTensor], classes: usize) -> Result<TracedTensor, TraceStop> {
    let mut columns: Vec<Option<TracedTensor>> = vec![None; classes];
    for (margin, (i, j)) in margins.iter().zip(pairs(classes)) {
        let won = on.greater(margin, &on.scalar_like(margin, 0.0)?)?;
        for (class, votes) in
            [(i, math::to(on, &won, DataType::I64)?), (j, math::to(on, &on.not(&won)?, DataType::I64)?)]
        {
            if let Some(slot) = columns.get_mut(class) {
                *slot = Some(match slot.take() {
                    Some(sum) => on.add(&sum, &votes)?,
                    None => votes,
                });
            }
        }
    }
    on.concat(&columns.iter().flatten().collect::<Vec<_>>(), 1)
}

/// Couples the probabilities of pairs to one probability per class: `[n, classes]`.
///
/// Source: Wu, Lin, Weng: Probability Estimates for Multi-class Classification by Pairwise Coupling (2004), with
/// LIBSVM's iteration. A row that has converged no longer changes.
fn probabilities(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    margins: &[TracedTensor],
    classes: usize,
) -> Result<TracedTensor, TraceStop> {
    let slopes = |name| -> Result<Vec<f64>, TraceStop> {
        let list = call.floats(name)?.unwrap_or_default();
        if list.len() != margins.len() {
            let problem = format!("has {} numbers for {} pairs", list.len(), margins.len());
            return Err(call.wrong(name, problem).into());
        }
        Ok(list.iter().copied().map(f64::from).collect())
    };
    let (a, b) = (slopes("prob_a")?, slopes("prob_b")?);
    let refs: Vec<&TracedTensor> = margins.iter().collect();
    let scores = on.concat(&refs, 1)?;
    let parameters = |list: &[f64]| -> Result<TracedTensor, TraceStop> {
        math::to(on, &on.host(&[list.len()], list)?, scores.dtype())
    };
    let value = on.add(&on.mul(&scores, &parameters(&a)?)?, &parameters(&b)?)?;
    let wins = on.sigmoid(&on.neg(&value)?)?;
    let wins =
        on.clip(&wins, Some(&on.scalar_like(&wins, 1e-7)?), Some(&on.scalar_like(&wins, 1.0 - 1e-7)?))?;
    let dtype = wins.dtype();
    let shape = [margins.first().and_then(|m| m.shape().first()).copied().unwrap_or(0), classes];
    let outputs = on.on_host(
        &COUPLE,
        &[Some(&wins)],
        &[bb_ir::op::Param::Int(classes as i64)],
        &[(dtype, shape.as_slice().into())],
    )?;
    outputs.into_iter().next().ok_or_else(|| call.wrong(NodePart::other("results"), "are missing").into())
}

/// The pairwise coupling. It is a host kernel, because the number of iterations depends on the row.
static COUPLE: bb_core::ext::HostKernel = bb_core::ext::HostKernel {
    name: "couple_probabilities",
    random: false,
    run: |inputs, params| {
        use bb_ir::convert::{Rounding, cast};
        let classes = bb_ir::op::take::Int("couple_probabilities", params.first())?;
        let classes = usize::try_from(classes).unwrap_or(0);
        let [wins] = bb_core::ext::host::operands("couple_probabilities", inputs)?;
        let pairs = wins.shape().last().copied().unwrap_or(0).max(1);
        let wide = cast(wins, DataType::F64, Rounding::default())?;
        let mut pace = Pace::new();
        let rows = wide.as_slice::<f64>()?.chunks(pairs).flat_map(|row| coupled(row, classes, &mut pace));
        let rows: Vec<f64> = bb_ir::memory::collected("couple_probabilities", rows)?;
        let shape = [rows.len().checked_div(classes).unwrap_or(0), classes];
        Ok(vec![cast(&bb_ir::TensorData::new(&shape, &rows)?, wins.dtype(), Rounding::default())?])
    },
};

/// Returns the probabilities of `k` classes, computed from the probability that the first class of each pair wins.
#[expect(clippy::indexing_slicing, reason = "indices are below `k`, the extent of all lists")]
fn coupled(wins: &[f64], k: usize, pace: &mut Pace) -> Vec<f64> {
    let mut r = vec![vec![0.0; k]; k];
    for (&win, (i, j)) in wins.iter().zip(pairs(k)) {
        r[i][j] = win;
        r[j][i] = 1.0 - win;
    }
    let mut q = vec![vec![0.0; k]; k];
    for t in 0..k {
        pace.step(k);
        for j in (0..k).filter(|&j| j != t) {
            q[t][t] += r[j][t] * r[j][t];
            q[t][j] = -r[j][t] * r[t][j];
        }
    }
    let mut p = vec![1.0 / k as f64; k];
    for _ in 0..k.max(100) {
        pace.step(k * k);
        let mut qp: Vec<f64> = q.iter().map(|row| row.iter().zip(&p).map(|(a, b)| a * b).sum()).collect();
        let mut pqp: f64 = p.iter().zip(&qp).map(|(a, b)| a * b).sum();
        if qp.iter().all(|v| (v - pqp).abs() < 0.005 / k as f64) {
            break;
        }
        for t in 0..k {
            pace.step(k);
            let step = (pqp - qp[t]) / q[t][t];
            p[t] += step;
            pqp = (pqp + step * (step * q[t][t] + 2.0 * qp[t])) / ((1.0 + step) * (1.0 + step));
            for j in 0..k {
                qp[j] = (qp[j] + step * q[t][j]) / (1.0 + step);
                p[j] /= 1.0 + step;
            }
        }
    }
    p
}
