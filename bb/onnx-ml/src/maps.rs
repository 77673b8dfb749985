//! Maps from labels to numbers. Planning resolves them, because their keys are known then.

use bb_core::error::NodePart;
use bb_core::ext::{math, types};
use bb_core::operator::{Call, ItemResult, OnnxValue, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{Backend, DataType, Error, Tensor};
use bb_ir::graph::{Dim, Node, ValueType};
use bb_ir::infer::rule::{self, NodeFacts, Types};
use bb_ir::{TensorData, memory};
use bb_onnx::shared::operators;

operators! {
    "ai.onnx.ml" {
        CastMap => Items(cast_map), infer: By(cast_map_types);
        DictVectorizer => Items(dict_vectorizer), infer: By(dict_vectorizer_types);
        ZipMap => Items(zip_map), infer: By(zip_map_types);
    }
}

type ItemCall<'a> = Call<'a, OnnxValue<TracedTensor>>;

/// A key of a map.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Int(i64),
    Text(Box<[u8]>),
}

/// Reads the keys of a map.
fn keys(data: &TensorData) -> Result<Vec<Key>, Error> {
    Ok(match data.dtype() {
        DataType::String => {
            // Each string is a separate allocation, and the standard library aborts if one fails, so the memory is
            // checked beforehand.
            memory::probe_strings("reading a map", data.len(), data.byte_len())?;
            memory::collected("reading a map", data.iter_bytes().map(|text| Key::Text(text.into())))?
        }
        _ => memory::collected("reading a map", data.as_slice::<i64>()?.iter().map(|&i| Key::Int(i)))?,
    })
}

/// Returns the first operand, which must be a map.
fn map<'a, T>(call: &Call<'a, OnnxValue<T>>) -> Result<(Vec<Key>, &'a T), Error> {
    match call.input(0)? {
        OnnxValue::Map { keys: data, values } => Ok((keys(data)?, values)),
        other => Err(call.wrong(NodePart::Operand(0), format!("is {}, expected a map", other.kind()))),
    }
}

/// Returns whether a node converts each row to a map.
pub(super) fn splits_rows(node: &Node) -> bool {
    node.domain == "ai.onnx.ml" && node.op_type == "ZipMap"
}

/// Infers the type of `ZipMap`: a sequence with one map per row.
fn zip_map_types(at: NodeFacts<'_>) -> Option<Types> {
    let texts = at.node.attributes.texts("classlabels_strings").ok()?.is_some_and(|t| !t.is_empty());
    let key = if texts { DataType::String } else { DataType::I64 };
    let number = rule::tensor(Some(DataType::F32), Some(Vec::new()));
    Some(vec![ValueType::Sequence(Box::new(ValueType::Map(key, Box::new(number))))])
}

/// `ZipMap`: converts each row to a map from the labels to its numbers.
pub(crate) fn zip_map(on: &Tracer, call: &ItemCall<'_>) -> ItemResult {
    let x = call.tensor(0)?;
    types::take("ZipMap", x, &[DataType::F32])?;
    let labels = match (call.texts("classlabels_strings")?, call.ints("classlabels_int64s")?) {
        (Some(texts), Some(ints)) if !texts.is_empty() && !ints.is_empty() => {
            return Err(call.wrong("classlabels_*", "are given in both their forms, expected one").into());
        }
        (Some(list), _) if !list.is_empty() => TensorData::strings(&[list.len()], list),
        (_, Some(list)) => TensorData::new(&[list.len()], list),
        _ => return Err(call.wrong("classlabels_*", "are missing, in both their forms").into()),
    };
    let labels = labels.map_err(Error::from)?;
    let x = if x.rank() == 1 { on.unsqueeze(x, &[0])? } else { x.clone() };
    let &[rows, columns] = x.shape() else {
        return Err(call.wrong(NodePart::Operand(0), format!("has rank {}, expected 2", x.rank())).into());
    };
    if columns != labels.len() {
        let problem = format!("are {} for {columns} columns", labels.len());
        return Err(call.wrong("classlabels_*", problem).into());
    }
    let row = |i: i64| -> Result<OnnxValue<TracedTensor>, TraceStop> {
        let values = on.squeeze(&on.slice(&x, &[i], &[i + 1], &[0], &[])?, &[0])?;
        Ok(OnnxValue::Map { keys: labels.clone(), values })
    };
    Ok(one(OnnxValue::Sequence((0..rows as i64).map(row).collect::<Result<_, _>>()?)))
}

/// Reorders the values of a map. `places` has the index of each value, or `None` for a missing value, which becomes 0.
fn arranged(on: &Tracer, values: &TracedTensor, places: &[Option<usize>]) -> Result<TracedTensor, TraceStop> {
    let dtype = values.dtype();
    let nothing = TensorData::zeros(dtype, &[1], usize::MAX).map_err(Error::from)?;
    let all = on.concat(&[values, &on.constant(&nothing)?], 0)?;
    let count = values.shape().iter().product::<usize>();
    let places: Vec<i64> = places.iter().map(|place| place.unwrap_or(count) as i64).collect();
    on.gather(&all, &on.host(&[places.len()], &places)?, 0)
}

/// Infers the type of `DictVectorizer`: one number for each entry of the vocabulary.
fn dict_vectorizer_types(at: NodeFacts<'_>) -> Option<Types> {
    let texts = at.node.attributes.texts("string_vocabulary").ok()?.map(<[_]>::len);
    let words = texts.or(at.ints("int64_vocabulary").map(<[i64]>::len))?;
    let ValueType::Map(_, of) = at.ty(0) else { return None };
    let ValueType::Tensor { dtype, .. } = &**of else { return None };
    at.one(Some(*dtype), Some(vec![Dim::Known(words)]))
}

/// `DictVectorizer`: the values of the vocabulary's entries, or 0 for entries that the map lacks. The result is a
/// vector, as in ONNX's documentation; ONNX Runtime returns a row of a matrix.
pub(crate) fn dict_vectorizer(on: &Tracer, call: &ItemCall<'_>) -> ItemResult {
    let (keys, values) = map(call)?;
    let words: Vec<Key> = match (call.texts("string_vocabulary")?, call.ints("int64_vocabulary")?) {
        (Some(_), Some(_)) => {
            return Err(call.wrong("*_vocabulary", "is given in both its forms, expected one").into());
        }
        (Some(list), None) => list.iter().map(|text| Key::Text(text.as_slice().into())).collect(),
        (None, Some(list)) => list.iter().map(|&i| Key::Int(i)).collect(),
        (None, None) => return Err(call.wrong("*_vocabulary", "is missing, in both its forms").into()),
    };
    let at: std::collections::HashMap<&Key, usize> = keys.iter().zip(0..).collect();
    let places: Vec<Option<usize>> = words.iter().map(|word| at.get(word).copied()).collect();
    Ok(one(OnnxValue::Tensor(arranged(on, values, &places)?)))
}

/// Infers the type of `CastMap`: one row of values.
fn cast_map_types(at: NodeFacts<'_>) -> Option<Types> {
    let dtype = match at.text("cast_to", "TO_FLOAT")? {
        "TO_INT64" => DataType::I64,
        "TO_STRING" => DataType::String,
        _ => DataType::F32,
    };
    let width = match at.text("map_form", "DENSE")? {
        "SPARSE" => rule::extent(at.int("max_map", 1)?),
        _ => Dim::Unknown,
    };
    at.one(Some(dtype), Some(vec![Dim::Known(1), width]))
}

/// `CastMap`: one row of the values in ascending order of the keys. For `SPARSE`, each key is the index of its value.
pub(crate) fn cast_map(on: &Tracer, call: &ItemCall<'_>) -> ItemResult {
    /// The maximum number of elements that a sparse map is converted to.
    const MOST: i64 = 1 << 28;
    let (keys, values) = map(call)?;
    let numbers: Option<Vec<i64>> =
        keys.iter().map(|key| if let Key::Int(i) = key { Some(*i) } else { None }).collect();
    let numbers = numbers.ok_or_else(|| call.wrong(NodePart::Operand(0), "has keys that are no integers"))?;
    let mut order: Vec<(i64, usize)> = numbers.into_iter().zip(0..).collect();
    order.sort_unstable();
    let places: Vec<Option<usize>> = match call.text_or("map_form", "DENSE")? {
        "DENSE" => order.iter().map(|&(_, place)| Some(place)).collect(),
        "SPARSE" => {
            let count = call.int_or("max_map", 1)?;
            let size = usize::try_from(count).ok().filter(|_| count <= MOST);
            let size = size.ok_or_else(|| call.wrong("max_map", format!("is {count}")))?;
            let mut places = memory::filled("CastMap", None, size).map_err(Error::from)?;
            for (key, place) in order {
                let slot = usize::try_from(key).ok().and_then(|key| places.get_mut(key));
                let problem = || call.wrong("max_map", format!("is {count}, and the map has the key {key}"));
                *slot.ok_or_else(problem)? = Some(place);
            }
            places
        }
        other => {
            return Err(call.wrong("map_form", format!("is `{other}`, expected `DENSE` or `SPARSE`")).into());
        }
    };
    let to = match call.text_or("cast_to", "TO_FLOAT")? {
        "TO_FLOAT" => DataType::F32,
        "TO_INT64" => DataType::I64,
        "TO_STRING" => DataType::String,
        other => {
            let problem = format!("is `{other}`, expected `TO_FLOAT`, `TO_INT64` or `TO_STRING`");
            return Err(call.wrong("cast_to", problem).into());
        }
    };
    // A missing value becomes 0 in the result's type, or an empty string.
    let y = arranged(on, &math::to(on, values, to)?, &places)?;
    Ok(one(OnnxValue::Tensor(on.unsqueeze(&y, &[0])?)))
}
