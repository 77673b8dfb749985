//! The final steps for a model's scores: transforms, and the label of the highest score.

use bb_core::ext::math;
use bb_core::operator::Call;
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::TensorData;
use bb_ir::graph::Dim;
use bb_ir::infer::rule::{self, NodeFacts, Types};

/// The final transform of rows of scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transform {
    None,
    Softmax,
    Logistic,
    SoftmaxZero,
    Probit,
}

impl Transform {
    /// Parses the attribute `post_transform`, a string, into a `Transform`.
    pub(crate) fn named<T>(call: &Call<'_, T>) -> Result<Transform, Error> {
        Ok(match call.text_or("post_transform", "NONE")? {
            "NONE" => Transform::None,
            "SOFTMAX" => Transform::Softmax,
            "LOGISTIC" => Transform::Logistic,
            "SOFTMAX_ZERO" => Transform::SoftmaxZero,
            "PROBIT" => Transform::Probit,
            other => {
                let expected = "`NONE`, `SOFTMAX`, `LOGISTIC`, `SOFTMAX_ZERO` or `PROBIT`";
                return Err(call.wrong("post_transform", format!("is `{other}`, expected {expected}")));
            }
        })
    }

    /// Converts the attribute `post_transform`, an integer, into a `Transform`.
    pub(crate) fn numbered<T>(call: &Call<'_, T>) -> Result<Transform, Error> {
        Ok(match call.int_or("post_transform", 0)? {
            0 => Transform::None,
            1 => Transform::Softmax,
            2 => Transform::Logistic,
            3 => Transform::SoftmaxZero,
            4 => Transform::Probit,
            other => return Err(call.wrong("post_transform", format!("is {other}, expected 0 to 4"))),
        })
    }

    /// Transforms scores. The last dimension has the classes or targets of one row.
    pub(crate) fn apply(self, on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
        match self {
            Transform::None => on.identity(x),
            Transform::Softmax => on.softmax(x, -1),
            Transform::Logistic => on.sigmoid(x),
            Transform::SoftmaxZero => softmax_zero(on, x),
            Transform::Probit => probit(on, x),
        }
    }
}

/// Computes the softmax of the nonzero scores. Scores of 0 stay 0.
fn softmax_zero(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    let number = |value| on.scalar_like(x, value);
    let most = on.reduce_max(x, &[-1], true)?;
    let weights = on.exp(&on.sub(x, &most)?)?;
    let near = on.less_or_equal(&on.abs(x)?, &number(1e-7)?)?;
    let weights = on.r#where(&near, &on.mul(x, &on.exp(&on.neg(&most)?)?)?, &weights)?;
    let total = on.reduce_sum(&weights, &[-1], true)?;
    let none = on.equal(&total, &number(0.0)?)?;
    on.r#where(&none, &number(0.5)?, &on.div(&weights, &total)?)
}

/// Computes the probit function, `sqrt(2)` times the inverse error function of `2x - 1`, by Winitzki's approximation, as ONNX's
/// reference evaluator does.
///
/// Its terms cancel near one half, so it is computed in `f64`.
///
/// Source: Winitzki: A handy approximation for the error function and its inverse (2008).
fn probit(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    const A: f64 = 0.147;
    math::widened(on, x, DataType::F64, |x| {
        let number = |value| on.scalar_like(x, value);
        let one = number(1.0)?;
        let y = on.sub(&on.mul(x, &number(2.0)?)?, &one)?;
        let log = on.log(&on.mul(&on.sub(&one, &y)?, &on.add(&one, &y)?)?)?;
        let half = on.add(&on.mul(&log, &number(0.5)?)?, &number(2.0 / (std::f64::consts::PI * A))?)?;
        let rest = on.mul(&log, &number(1.0 / A)?)?;
        let square = on.sub(&on.sqrt(&on.sub(&on.mul(&half, &half)?, &rest)?)?, &half)?;
        let size = on.mul(&on.sqrt(&square)?, &number(std::f64::consts::SQRT_2)?)?;
        on.r#where(&on.less(&y, &number(0.0)?)?, &on.neg(&size)?, &size)
    })
}

/// The labels of the classes.
#[derive(Debug)]
pub(crate) enum Labels {
    Ints(Vec<i64>),
    Texts(Vec<Vec<u8>>),
}

impl Labels {
    /// Reads the labels from one of two attributes. It is an error if both list labels.
    pub(crate) fn of<T>(call: &Call<'_, T>, ints: &str, strings: &str) -> Result<Labels, Error> {
        let texts = call.texts(strings)?.unwrap_or_default();
        match call.ints(ints)? {
            Some(list) if !list.is_empty() && !texts.is_empty() => {
                Err(call
                    .wrong(ints, format!("is given, and so is `{strings}`; only one may list the classes")))
            }
            Some(list) if !list.is_empty() => Ok(Labels::Ints(list.to_vec())),
            _ if !texts.is_empty() => Ok(Labels::Texts(texts.to_vec())),
            _ => {
                Err(call.wrong(ints, format!("is missing, and so is `{strings}`; one must list the classes")))
            }
        }
    }

    /// Returns the number of classes.
    pub(crate) fn len(&self) -> usize {
        match self {
            Labels::Ints(list) => list.len(),
            Labels::Texts(list) => list.len(),
        }
    }

    /// Returns the labels, followed by the label for no class: 0, or an empty string.
    fn table(&self) -> Result<TensorData, Error> {
        let count = [self.len() + 1];
        Ok(match self {
            Labels::Ints(list) => {
                TensorData::new(&count, &list.iter().copied().chain([0]).collect::<Vec<_>>())?
            }
            Labels::Texts(list) => TensorData::strings(
                &count,
                &list.iter().map(Vec::as_slice).chain([&b""[..]]).collect::<Vec<_>>(),
            )?,
        })
    }

    /// Returns the labels of classes by index. The index after the last class means no class.
    pub(crate) fn gather(&self, on: &Tracer, classes: &TracedTensor) -> Result<TracedTensor, TraceStop> {
        on.gather(&on.constant(&self.table()?)?, classes, 0)
    }

    /// Returns the label of the class with the highest score; the first of several equal ones.
    pub(crate) fn best(&self, on: &Tracer, scores: &TracedTensor) -> Result<TracedTensor, TraceStop> {
        let best = on.arg_max(scores, -1, false)?;
        self.gather(on, &on.squeeze(&best, &[-1])?)
    }

    /// For a single class: returns its label where `holds`, which has the shape of the scores, is true, and the label for no class
    /// elsewhere.
    pub(crate) fn only(&self, on: &Tracer, holds: &TracedTensor) -> Result<TracedTensor, TraceStop> {
        let class = on.sub(&on.host(&[], &[1i64])?, &math::to(on, holds, DataType::I64)?)?;
        self.gather(on, &on.squeeze(&class, &[-1])?)
    }
}

/// Joins two columns of scores: the other class first, then the positive class.
pub(crate) fn pair(
    on: &Tracer,
    other: &TracedTensor,
    positive: &TracedTensor,
) -> Result<TracedTensor, TraceStop> {
    on.concat(&[other, positive], positive.rank() as i64 - 1)
}

/// Returns the number of rows of features. A vector is one row.
fn row_count(at: NodeFacts<'_>) -> Option<Dim> {
    match at.dims(0)? {
        [_] => Some(Dim::Known(1)),
        [rows, _] => Some(rows.clone()),
        _ => None,
    }
}

/// Infers the type of a regressor's result: a row for each row of features, a column for each target.
pub(crate) fn targets_types(at: NodeFacts<'_>, dtype: Option<DataType>, targets: i64) -> Option<Types> {
    let columns = if targets > 0 { rule::extent(targets) } else { Dim::Unknown };
    at.one(dtype, row_count(at).map(|rows| vec![rows, columns]))
}

/// Infers the types of a classifier's results: a label for each row of features, and its scores. `columns` computes the number of
/// scores from the number of classes.
pub(crate) fn classes_types(
    at: NodeFacts<'_>,
    ints: &str,
    strings: &str,
    columns: impl FnOnce(usize) -> Option<Dim>,
) -> Option<Types> {
    let texts = at.node.attributes.texts(strings).ok()?.unwrap_or_default().len();
    let ints = at.ints(ints).unwrap_or_default().len();
    let (dtype, classes) = if texts > 0 { (DataType::String, texts) } else { (DataType::I64, ints) };
    let (rows, columns) = (row_count(at), columns(classes)?);
    let labels = rows.clone().map(|rows| vec![rows]);
    Some(vec![
        rule::tensor(Some(dtype), labels),
        rule::tensor(Some(DataType::F32), rows.map(|rows| vec![rows, columns])),
    ])
}

/// Returns the dimension with one score per class. Without labels in the attributes, the number of classes is unknown.
pub(crate) fn one_for_each(classes: usize) -> Dim {
    if classes == 0 { Dim::Unknown } else { Dim::Known(classes) }
}
