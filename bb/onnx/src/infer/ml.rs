//! Rules of models and features of `ai.onnx.ml`, of texts, and of optimizers.

use bb_ir::DataType;
use bb_ir::graph::{Dim, ValueType};
use bb_ir::infer::rule::{At, Types, axis, tensor};
use bb_ir::infer::rule::{extent, product};
use bb_ir::infer::{self, Extent};

/// The number of rows of features; a vector is one row.
fn rows(at: At<'_>) -> Option<Dim> {
    match at.dims(0)? {
        [_] => Some(Dim::Known(1)),
        [rows, _] => Some(rows.clone()),
        _ => None,
    }
}

/// A regressor's rows, a column for each target.
pub(crate) fn regressor(at: At<'_>) -> Option<Types> {
    let columns = match at.node.op_type.as_str() {
        "LinearRegressor" => at.int("targets", 1)?,
        "SVMRegressor" => 1,
        _ => at.int("n_targets", 0)?,
    };
    let dtype = if at.node.op_type == "TreeEnsemble" { at.dtype(0) } else { Some(DataType::F32) };
    let columns = if columns > 0 { extent(columns) } else { Dim::Unknown };
    at.one(dtype, rows(at).map(|rows| vec![rows, columns]))
}

/// A classifier's labels, and scores: a column for each class, but for machines that vote.
pub(crate) fn classifier(at: At<'_>) -> Option<Types> {
    let texts = at.node.attributes.texts("classlabels_strings").ok()?.unwrap_or_default().len();
    let ints = at.ints("classlabels_ints").or(at.ints("classlabels_int64s")).unwrap_or_default().len();
    let (dtype, classes) = if texts > 0 { (DataType::String, texts) } else { (DataType::I64, ints) };
    let columns = match at.node.op_type.as_str() {
        "SVMClassifier" if at.ints("vectors_per_class").is_some_and(|v| v.iter().any(|n| *n != 0)) => {
            match (at.node.attributes.floats("prob_a").ok()?, classes) {
                (None | Some([]), 3..) => product_of_pairs(classes),
                _ => Dim::Known(classes),
            }
        }
        // Labels that are left out are counted by the votes.
        _ if classes == 0 => Dim::Unknown,
        _ => Dim::Known(classes),
    };
    let rows = rows(at);
    let labels = rows.clone().map(|rows| vec![rows]);
    Some(vec![tensor(Some(dtype), labels), tensor(Some(DataType::F32), rows.map(|rows| vec![rows, columns]))])
}

/// How many pairs there are.
fn product_of_pairs(of: usize) -> Dim {
    of.checked_mul(of - 1).map_or(Dim::Unknown, |n| Dim::Known(n / 2))
}

pub(crate) fn one_hot_encoder(at: At<'_>) -> Option<Types> {
    let texts = at.node.attributes.texts("cats_strings").ok()?.map_or(0, <[_]>::len);
    let ints = at.ints("cats_int64s").map_or(0, <[i64]>::len);
    let count = match at.dtype(0)? {
        DataType::String => texts,
        _ => ints,
    };
    let count = if count > 0 { Dim::Known(count) } else { Dim::Unknown };
    at.one(Some(DataType::F32), at.dims(0).map(|x| [x, &[count]].concat()))
}

pub(crate) fn feature_extractor(at: At<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| {
        let count = product(at.dims(1)?);
        match x {
            [_] => Some(vec![Dim::Known(1), count]),
            [outer @ .., _] => Some([outer, &[count]].concat()),
            [] => None,
        }
    };
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

pub(crate) fn feature_vectorizer(at: At<'_>) -> Option<Types> {
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
    at.one(Some(DataType::F32), Some(vec![rows, widths.map_or(Dim::Unknown, extent)]))
}

/// `LabelEncoder` and `CategoryMapper`: labels of the type that the values have.
pub(crate) fn labels(at: At<'_>) -> Option<Types> {
    let attributes = &at.node.attributes;
    let dtype = if let Ok(Some(values)) = attributes.tensor("values_tensor") {
        Some(values.dtype())
    } else if attributes.get("values_strings").is_some() {
        Some(DataType::String)
    } else if attributes.get("values_int64s").is_some() {
        Some(DataType::I64)
    } else if attributes.get("values_floats").is_some() {
        Some(DataType::F32)
    } else {
        // Texts to numbers, and back.
        at.dtype(0).map(|from| if from == DataType::String { DataType::I64 } else { DataType::String })
    };
    at.one(dtype, at.same())
}

/// `StringNormalizer`: some of the words.
pub(crate) fn normalized_texts(at: At<'_>) -> Option<Types> {
    let kept = at.node.attributes.texts("stopwords").ok()?.is_none_or(<[_]>::is_empty);
    let shape = |x: &[Dim]| {
        let mut out = x.to_vec();
        // Of no words one empty one is made.
        if !kept || out.last() == Some(&Dim::Known(0)) {
            *out.last_mut()? = Dim::Unknown;
        }
        Some(out)
    };
    at.one(Some(DataType::String), at.dims(0).and_then(shape))
}

/// `StringSplit`: as many parts as the text with the most has, and how many each has.
pub(crate) fn split_texts(at: At<'_>) -> Option<Types> {
    let parts = at.dims(0).map(|x| [x, &[Dim::Unknown]].concat());
    Some(vec![tensor(Some(DataType::String), parts), tensor(Some(DataType::I64), at.same())])
}

/// `Tokenizer`: as many tokens as the text with the most has, unless there are no texts.
pub(crate) fn tokens(at: At<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| {
        match x {
            [Dim::Known(0)] => return Some(x.to_vec()),
            [rows, _] if x.contains(&Dim::Known(0)) => return Some(vec![rows.clone(), Dim::Known(0)]),
            _ => {}
        }
        x.iter().all(|dim| matches!(dim, Dim::Known(_))).then(|| [x, &[Dim::Unknown]].concat())
    };
    at.one(Some(DataType::String), at.dims(0).and_then(shape))
}

/// `MurmurHash3`: numbers of 32 bits.
pub(crate) fn hashes(at: At<'_>) -> Option<Types> {
    let dtype = if at.int("positive", 1)? == 0 { DataType::I32 } else { DataType::U32 };
    at.one(Some(dtype), at.same())
}

pub(crate) fn joined_texts(at: At<'_>) -> Option<Types> {
    at.one(Some(DataType::String), at.broadcast_of(&[0, 1]))
}

/// `TfIdfVectorizer`: a number for each place that an n-gram has.
pub(crate) fn tf_idf(at: At<'_>) -> Option<Types> {
    let most = at.ints("ngram_indexes")?.iter().max()?;
    let width = most.checked_add(1).map_or(Dim::Unknown, extent);
    let shape = |x: &[Dim]| Some([x.get(..x.len().checked_sub(1)?)?, &[width]].concat());
    at.one(Some(DataType::F32), at.dims(0).and_then(shape))
}

/// `NonMaxSuppression`: batch, class and box of what is kept.
pub(crate) fn suppression(at: At<'_>) -> Option<Types> {
    at.one(Some(DataType::I64), Some(vec![Dim::Unknown, Dim::Known(3)]))
}

/// `Unique`: what there is, where it is first, what each element is, and how often each is there.
pub(crate) fn unique(at: At<'_>) -> Option<Types> {
    let (along, all) = if at.node.attributes.get("axis").is_some() {
        let along = at.int("axis", 0)?;
        let found = at.dims(0).and_then(|x| at.with_axis(x, along, Dim::Unknown));
        let extent = at.dims(0).and_then(|x| x.get(axis(along, x.len())?).cloned());
        (found, extent.unwrap_or(Dim::Unknown))
    } else {
        (Some(vec![Dim::Unknown]), at.dims(0).map_or(Dim::Unknown, product))
    };
    let counts = |extent| tensor(Some(DataType::I64), Some(vec![extent]));
    Some(vec![tensor(at.dtype(0), along), counts(Dim::Unknown), counts(all), counts(Dim::Unknown)])
}

/// `Unique` of ONNX Runtime: of a vector, without where each was first.
pub(crate) fn unique_in_order(at: At<'_>) -> Option<Types> {
    let list = |dtype, shape| tensor(dtype, shape);
    let open = Some(vec![Dim::Unknown]);
    Some(vec![
        list(at.dtype(0), open.clone()),
        list(Some(DataType::I64), at.same()),
        list(Some(DataType::I64), open),
    ])
}

/// An optimizer moves each tensor, and what it keeps of it: the operands after the rate, the count and the gradients.
pub(crate) fn optimizer(at: At<'_>) -> Option<Types> {
    let kept = if at.node.op_type == "Adam" { 2 } else { 1 };
    let count = at.node.inputs.len().checked_sub(2)? / (2 + kept);
    let moved = (0..count).map(|i| 2 + i);
    let states = (0..count * kept).map(|i| 2 + 2 * count + i);
    Some(moved.chain(states).map(|input| at.ty(input).clone()).collect())
}

/// `Gradient`: of the type of what it is by.
pub(crate) fn gradient(at: At<'_>) -> Option<Types> {
    let count = at.node.attributes.texts("xs").ok()??.len();
    Some((0..count).map(|input| at.ty(input).clone()).collect())
}

/// `BitCast`: the same bits, of a type as wide.
pub(crate) fn bit_cast(at: At<'_>) -> Option<Types> {
    at.one(at.type_attribute("to", None), at.same())
}

/// `BatchNormalization`: in training also the moments, which are of the type that the running ones have.
pub(crate) fn batch_normalization(at: At<'_>) -> Option<Types> {
    let moment = |input| at.ty(input).clone();
    let (mean, variance): (ValueType, ValueType) = (moment(3), moment(4));
    Some(vec![at.ty(0).clone(), mean.clone(), variance.clone(), mean, variance])
}

/// The product of a matrix of few bits: as wide as the attribute `N` says.
pub(crate) fn matmul_n_bits(at: At<'_>) -> Option<Types> {
    let columns = extent(at.int("N", -1)?);
    let shape = |x: &[Dim]| Some([x.get(..x.len().checked_sub(1)?)?, &[columns]].concat());
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// `MatMulBnb4`: as wide as `N` says, or as `K` if the matrix is not transposed.
pub(crate) fn matmul_bnb4(at: At<'_>) -> Option<Types> {
    let columns = extent(at.int(if at.int("transB", 1)? == 0 { "K" } else { "N" }, -1)?);
    let shape = |x: &[Dim]| Some([x.get(..x.len().checked_sub(1)?)?, &[columns]].concat());
    at.one(at.dtype(0), at.dims(0).and_then(shape))
}

/// `GatherBlockQuantized`: entries of a table, whose last axis may hold several numbers in a byte.
pub(crate) fn gather_blocks(at: At<'_>) -> Option<Types> {
    let shape = || {
        let (data, indices) = (at.dims(0)?, at.dims(1)?);
        let along = axis(at.int("gather_axis", 0)?, data.len())?;
        let (before, after) = (data.get(..along)?, data.get(along + 1..)?);
        let mut out = [before, indices, after].concat();
        if at.dtype(0) == Some(DataType::U8) && !after.is_empty() {
            let last = out.last_mut()?;
            *last = bb_ir::infer::rule::scaled(last, 8i64.checked_div(at.int("bits", 4)?)?);
        }
        Some(out)
    };
    at.one(at.dtype(2), shape())
}

/// The joined operands of `QLinearConcat`, each of which has a scale and a zero point.
pub(crate) fn qlinear_concat(at: At<'_>) -> Option<Types> {
    let shape = || {
        let shapes = (2..at.node.inputs.len()).step_by(3).map(|input| at.dims(input));
        let shapes = shapes.collect::<Option<Vec<_>>>()?;
        Some(infer::concat(shapes, at.int("axis", 0)?).ok()?.shape.into_vec())
    };
    at.one(at.dtype(1), shape())
}

/// The type of the scale of quantised numbers, and their extents.
pub(crate) fn numbers_of(at: At<'_>) -> Option<Types> {
    at.one(at.dtype(1), at.same())
}

/// A matrix product of quantised numbers, as the numbers that the scale's type holds.
pub(crate) fn scaled_product(at: At<'_>) -> Option<Types> {
    at.one(at.dtype(2), super::products::product(at, 1))
}

/// `FusedMatMul`: of operands whose dimensions trade places first.
pub(crate) fn fused_matmul(at: At<'_>) -> Option<Types> {
    let side = |input: usize, swapped: &str, batched: &str| {
        let mut x = at.dims(input)?.to_vec();
        if at.int(batched, 0)? != 0 && x.len() > 2 {
            let last = x.len() - 1;
            x.get_mut(..last)?.rotate_left(1);
        }
        if let (true, [.., row, column]) = (at.int(swapped, 0)? != 0, x.as_mut_slice()) {
            std::mem::swap(row, column);
        }
        Some(x)
    };
    let product = || {
        let (a, b) = (side(0, "transA", "transBatchA")?, side(1, "transB", "transBatchB")?);
        Some(infer::matmul(&a, &b).ok()?.shape.into_vec())
    };
    at.one(at.dtype(0), product())
}
