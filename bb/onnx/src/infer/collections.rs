//! Rules of sequences, optionals and maps.

use bb_ir::DataType;
use bb_ir::graph::{Dim, ValueType};
use bb_ir::infer::rule::{At, Types, axis, either, tensor};

fn sequence(of: ValueType) -> Option<Types> {
    Some(vec![ValueType::Sequence(Box::new(of))])
}

/// The type of an operand's elements, which may be a sequence in an optional.
fn element(at: At<'_>, input: usize) -> Option<&ValueType> {
    match at.ty(input) {
        ValueType::Sequence(of) => Some(of),
        ValueType::Optional(inner) => match &**inner {
            ValueType::Sequence(of) => Some(of),
            _ => None,
        },
        _ => None,
    }
}

pub(crate) fn construct(at: At<'_>) -> Option<Types> {
    let mut types = (0..at.node.inputs.len()).map(|i| at.ty(i));
    let first = types.next()?.clone();
    sequence(types.fold(first, |all, ty| either(&all, ty)))
}

pub(crate) fn empty(at: At<'_>) -> Option<Types> {
    sequence(tensor(at.type_attribute("dtype", Some(DataType::F32)), None))
}

pub(crate) fn insert(at: At<'_>) -> Option<Types> {
    sequence(either(element(at, 0)?, at.ty(1)))
}

pub(crate) fn at(at: At<'_>) -> Option<Types> {
    Some(vec![element(at, 0)?.clone()])
}

pub(crate) fn length(at: At<'_>) -> Option<Types> {
    at.one(Some(DataType::I64), Some(Vec::new()))
}

/// `ConcatFromSequence`: along an axis of the elements, or a new one.
pub(crate) fn concat(at: At<'_>) -> Option<Types> {
    let ValueType::Tensor { dtype, shape } = element(at, 0)? else { return None };
    let new = at.int("new_axis", 0)? != 0;
    let shape = shape.as_ref().and_then(|dims| {
        let mut dims = dims.clone();
        let axis = axis(at.int("axis", 0)?, dims.len() + usize::from(new))?;
        if new {
            dims.insert(axis, Dim::Unknown);
        } else {
            *dims.get_mut(axis)? = Dim::Unknown;
        }
        Some(dims)
    });
    at.one(Some(*dtype), shape)
}

/// `SplitToSequence`: what is true of all parts.
pub(crate) fn split(at: At<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| {
        let axis = axis(at.int("axis", 0)?, x.len())?;
        let mut out = x.to_vec();
        if !at.has(1) {
            if at.int("keepdims", 1)? == 0 {
                out.remove(axis);
            } else {
                *out.get_mut(axis)? = Dim::Known(1);
            }
            return Some(out);
        }
        let sizes = at.contents(1).map(|c| (c.ints(), c.shape.is_empty()));
        *out.get_mut(axis)? = match (sizes, x.get(axis)?) {
            // The last part may be smaller.
            (Some((Some(sizes), true)), Dim::Known(whole)) => match sizes.first() {
                Some(&size) if size > 0 && i64::try_from(*whole).is_ok_and(|n| n % size == 0) => {
                    bb_ir::infer::rule::extent(size)
                }
                _ => Dim::Unknown,
            },
            (Some((Some(sizes), false)), _) => match sizes.split_first() {
                Some((first, rest)) if rest.iter().all(|s| s == first) => bb_ir::infer::rule::extent(*first),
                _ => Dim::Unknown,
            },
            _ => Dim::Unknown,
        };
        Some(out)
    };
    sequence(tensor(at.dtype(0), at.dims(0).and_then(shape)))
}

pub(crate) fn optional(at: At<'_>) -> Option<Types> {
    let of = if at.has(0) { at.ty(0) } else { at.node.attributes.ty("type").ok()?? };
    Some(vec![ValueType::Optional(Box::new(of.clone()))])
}

/// `OptionalGetElement`; what is no optional is its own element.
pub(crate) fn get_element(at: At<'_>) -> Option<Types> {
    Some(vec![match at.ty(0) {
        ValueType::Optional(of) => (**of).clone(),
        other => other.clone(),
    }])
}

pub(crate) fn has_element(at: At<'_>) -> Option<Types> {
    at.one(Some(DataType::Bool), Some(Vec::new()))
}

/// `ZipMap`: a map for each row.
pub(crate) fn zip_map(at: At<'_>) -> Option<Types> {
    let texts = at.node.attributes.texts("classlabels_strings").ok()?.is_some_and(|t| !t.is_empty());
    let key = if texts { DataType::String } else { DataType::I64 };
    let number = tensor(Some(DataType::F32), Some(Vec::new()));
    sequence(ValueType::Map(key, Box::new(number)))
}

/// `CastMap`: a row of the values.
pub(crate) fn cast_map(at: At<'_>) -> Option<Types> {
    let dtype = match at.text("cast_to", "TO_FLOAT")? {
        "TO_INT64" => DataType::I64,
        "TO_STRING" => DataType::String,
        _ => DataType::F32,
    };
    let width = match at.text("map_form", "DENSE")? {
        "SPARSE" => bb_ir::infer::rule::extent(at.int("max_map", 1)?),
        _ => Dim::Unknown,
    };
    at.one(Some(dtype), Some(vec![Dim::Known(1), width]))
}

/// `DictVectorizer`: a number for each word.
pub(crate) fn dict_vectorizer(at: At<'_>) -> Option<Types> {
    let texts = at.node.attributes.texts("string_vocabulary").ok()?.map(<[_]>::len);
    let words = texts.or(at.ints("int64_vocabulary").map(<[i64]>::len))?;
    let ValueType::Map(_, of) = at.ty(0) else { return None };
    let ValueType::Tensor { dtype, .. } = &**of else { return None };
    at.one(Some(*dtype), Some(vec![Dim::Known(words)]))
}
