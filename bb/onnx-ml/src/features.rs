//! Feature preparation: scaling, imputation, selection and encoding.

use super::linear::numbers;
use super::wide;
use bb_core::error::NodePart;
use bb_core::ext::{Border, HostKernel, math};
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::TensorData;
use bb_ir::graph::Dim;
use bb_ir::infer::Extent as _;
use bb_ir::infer::rule::{self, NodeFacts, Types};
use bb_onnx::shared::operators;

operators! {
    "ai.onnx.ml" {
        ArrayFeatureExtractor => Primitives(array_feature_extractor), infer: By(array_feature_extractor_types);
        Binarizer => Primitives(binarizer), infer: Same;
        FeatureVectorizer => Primitives(feature_vectorizer), infer: By(feature_vectorizer_types);
        Imputer => Primitives(imputer), infer: Same;
        Normalizer => Primitives(normalizer), infer: As(bb_ir::DataType::F32);
        OneHotEncoder => Primitives(one_hot_encoder), infer: By(one_hot_encoder_types);
        Scaler => Primitives(scaler), infer: As(bb_ir::DataType::F32);
    }
}

/// Reads a list of numbers from an attribute, either one for all features or one per feature.
fn listed(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    name: &str,
    dtype: DataType,
) -> Result<Option<TracedTensor>, TraceStop> {
    Ok(match call.floats(name)? {
        None | Some([]) => None,
        Some([only]) => Some(numbers(on, &[], &[*only], dtype)?),
        Some(all) => {
            let x = call.input(0)?;
            if !on.extents(x).last().is_some_and(|features| features.is(all.len() as i64)) {
                let problem = format!("has {} numbers; the operand has the shape {:?}", all.len(), x.shape());
                return Err(call.wrong(name, problem).into());
            }
            Some(numbers(on, &[all.len()], all, dtype)?)
        }
    })
}

/// `Scaler`: `(x - offset) * scale`.
pub(crate) fn scaler(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    let dtype = wide(x.dtype());
    let mut y = math::to(on, x, dtype)?;
    if let Some(offset) = listed(on, call, "offset", dtype)? {
        y = on.sub(&y, &offset)?;
    }
    if let Some(scale) = listed(on, call, "scale", dtype)? {
        y = on.mul(&y, &scale)?;
    }
    Ok(one(math::to(on, &y, DataType::F32)?))
}

/// `Normalizer`: divides each row by its norm: the maximum magnitude, the L1 norm or the L2 norm.
pub(crate) fn normalizer(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    let x = math::to(on, x, wide(x.dtype()))?;
    let axes = [x.rank() as i64 - 1];
    let norm = match call.text_or("norm", "MAX")? {
        "MAX" => on.reduce_max(&on.abs(&x)?, &axes, true)?,
        "L1" => on.reduce_sum(&on.abs(&x)?, &axes, true)?,
        "L2" => on.sqrt(&on.reduce_sum(&on.mul(&x, &x)?, &axes, true)?)?,
        other => {
            return Err(call.wrong("norm", format!("is `{other}`, expected `MAX`, `L1` or `L2`")).into());
        }
    };
    let zero = on.equal(&norm, &on.scalar_like(&x, 0.0)?)?;
    // A row of zeros stays unchanged.
    let y = on.div(&x, &on.r#where(&zero, &on.scalar_like(&x, 1.0)?, &norm)?)?;
    Ok(one(math::to(on, &y, DataType::F32)?))
}

/// `Binarizer`: 1 above a threshold, 0 elsewhere.
pub(crate) fn binarizer(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    // `f64` represents the threshold and 32-bit integers exactly, so a threshold between two integers
    // separates them.
    let value = math::to(on, x, if x.dtype() == DataType::F32 { DataType::F32 } else { DataType::F64 })?;
    let above = on.greater(&value, &on.scalar_like(&value, call.float_or("threshold", 0.0)?)?)?;
    Ok(one(math::to(on, &above, x.dtype())?))
}

fn array_feature_extractor_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| {
        let count = rule::product(at.dims(1)?);
        match x {
            [_] => Some(vec![Dim::Known(1), count]),
            [outer @ .., _] => Some([outer, &[count]].concat()),
            [] => None,
        }
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// `ArrayFeatureExtractor`: selects columns by index.
pub(crate) fn array_feature_extractor(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let (x, columns) = (call.input(0)?, call.input(1)?);
    let count: usize = columns.shape().iter().product();
    let x = if x.rank() == 1 { on.unsqueeze(x, &[0])? } else { x.clone() };
    Ok(one(on.gather(&x, &on.reshape(columns, &[count])?, -1)?))
}

/// `Imputer`: replaces elements that represent a missing value.
pub(crate) fn imputer(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    if x.dtype().is_float() {
        let values = listed(on, call, "imputed_value_floats", x.dtype())?;
        let values = values.ok_or_else(|| call.wrong("imputed_value_floats", "is missing for floats"))?;
        let replaced = call.float_or("replaced_value_float", 0.0)?;
        let found =
            if replaced.is_nan() { on.is_nan(x)? } else { on.equal(x, &on.scalar_like(x, replaced)?)? };
        return Ok(one(on.r#where(&found, &values, x)?));
    }
    let values = match call.ints("imputed_value_int64s")?.unwrap_or_default() {
        [] => return Err(call.wrong("imputed_value_int64s", "is missing for integers").into()),
        [only] => on.host(&[], &[*only])?,
        all => on.host(&[all.len()], all)?,
    };
    let replaced = on.host(&[], &[call.int_or("replaced_value_int64", 0)?])?;
    let wide = math::to(on, x, DataType::I64)?;
    let found = on.equal(&wide, &replaced)?;
    Ok(one(math::to(on, &on.r#where(&found, &values, &wide)?, x.dtype())?))
}

fn feature_vectorizer_types(at: NodeFacts<'_>) -> Option<Types> {
    let widths = at.ints("inputdimensions")?.iter().try_fold(0i64, |sum, &w| sum.checked_add(w.max(0)));
    let mut rows = Dim::Unknown;
    for input in 0..at.node.inputs.len() {
        let own = match at.dims(input) {
            Some([_]) => Dim::Known(1),
            Some([n, _]) => n.clone(),
            _ => continue,
        };
        rows = rows.agreed(&own)?;
    }
    at.one(Some(DataType::F32), Some(vec![rows, widths.map_or(Dim::Unknown, rule::extent)]))
}

/// `FeatureVectorizer`: concatenates the columns of the operands. Each operand is cut or zero-padded to its
/// number of columns.
pub(crate) fn feature_vectorizer(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let widths = call.ints("inputdimensions")?.unwrap_or_default();
    if widths.len() != call.len() || call.is_empty() {
        let problem = format!("has {} numbers for {} operands", widths.len(), call.len());
        return Err(call.wrong("inputdimensions", problem).into());
    }
    if let Some(width) = widths.iter().find(|width| **width < 0) {
        return Err(call
            .wrong("inputdimensions", format!("has the number {width}; a number of columns is not negative"))
            .into());
    }
    let mut parts = Vec::with_capacity(call.len());
    for (x, &width) in call.all()?.into_iter().zip(widths) {
        let x = math::to(on, x, DataType::F32)?;
        let x = if x.rank() == 1 { on.unsqueeze(&x, &[0])? } else { x };
        let have = x.shape().last().copied().unwrap_or(0) as i64;
        parts.push(match width - have {
            0 => x,
            more if more > 0 => on.pad(&x, None, &[0, 0, 0, more], Border::Constant)?,
            _ => on.slice(&x, &[0], &[width], &[1], &[])?,
        });
    }
    Ok(one(on.concat(&parts.iter().collect::<Vec<_>>(), 1)?))
}

fn one_hot_encoder_types(at: NodeFacts<'_>) -> Option<Types> {
    let texts = at.node.attributes.texts("cats_strings").ok()?.map_or(0, <[_]>::len);
    let ints = at.ints("cats_int64s").map_or(0, <[i64]>::len);
    let count = match at.dtype(0)? {
        DataType::String => texts,
        _ => ints,
    };
    let count = if count > 0 { Dim::Known(count) } else { Dim::Unknown };
    at.one(Some(DataType::F32), at.dims(0).map(|x| [x, &[count]].concat()))
}

/// `OneHotEncoder`: adds a dimension with a 1 at the index of the category.
pub(crate) fn one_hot_encoder(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    let (x, categories) = if x.dtype() == DataType::String {
        let list = call.texts("cats_strings")?.unwrap_or_default();
        (x.clone(), TensorData::strings(&[list.len()], list))
    } else {
        let list = call.ints("cats_int64s")?.unwrap_or_default();
        (math::to(on, x, DataType::I64)?, TensorData::new(&[list.len()], list))
    };
    let categories = categories.map_err(Error::from)?;
    if categories.is_empty() {
        return Err(call
            .wrong("cats_int64s", "or `cats_strings` must list categories of the operand's type")
            .into());
    }
    let hot = on.equal(&on.unsqueeze(&x, &[x.rank() as i64])?, &on.constant(&categories)?)?;
    let y = math::to(on, &hot, DataType::F32)?;
    if call.flag("zeros", true)? {
        return Ok(one(y));
    }
    let shape = y.shape().into();
    Ok(on.on_host(&KNOWN, &[Some(&y)], &[], &[(DataType::F32, shape)])?.into_iter().map(Some).collect())
}

/// Returns the operand, or an error if a row has no known category.
static KNOWN: HostKernel = HostKernel {
    name: "known_category",
    random: false,
    run: |inputs, _| {
        let [hot] = bb_core::ext::host::operands("known_category", inputs)?;
        let width = hot.shape().last().copied().unwrap_or(0).max(1);
        let unknown = hot.as_slice::<f32>()?.chunks(width).position(|row| !row.contains(&1.0));
        match unknown {
            None => Ok(vec![(*hot).clone()]),
            Some(row) => Err(Error::Operator {
                op: "OneHotEncoder".to_owned(),
                part: NodePart::Other(format!("element {row}").into()),
                problem: "is not one of the categories, and `zeros` is 0".to_owned(),
            }),
        }
    },
};
