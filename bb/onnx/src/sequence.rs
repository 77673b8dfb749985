//! Sequences and optionals, which are structures of tensors. Planning resolves them, so that only tensors
//! remain at run time.

use super::OnnxValue;
use super::rows::operators;
use bb_core::error::NodePart;
use bb_core::operator::{Call, ItemResult, join, one, part, position};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{Backend, DataType, Error};
use bb_ir::TensorData;
use bb_ir::graph::{Dim, ValueType};
use bb_ir::infer::rule::{self, NodeFacts, Types};

operators! {
    "" {
        ConcatFromSequence => Items(concat; Concat), infer: By(concat_types);
        Optional => Items(optional; Same), infer: By(optional_types), ignores: { "type": "what holds nothing has no type where it runs; inference reads it" };
        OptionalGetElement => Items(get_element; Same), infer: By(get_element_types);
        OptionalHasElement => Items(has_element; HasElement), infer: By(has_element_types);
        SequenceAt => Items(at; At), infer: By(at_types);
        SequenceConstruct => Items(construct), infer: By(construct_types);
        SequenceEmpty => Items(empty), infer: By(empty_types), ignores: { "dtype": "an empty sequence has no type where it runs; inference reads it" };
        SequenceErase => Items(erase; Erase), infer: Same;
        SequenceInsert => Items(insert; Insert), infer: By(insert_types);
        SequenceLength => Items(length; Length), infer: By(length_types);
        SplitToSequence => Items(split; Split), infer: By(split_types);
    }
}

type ItemCall<'a> = Call<'a, OnnxValue<TracedTensor>>;

/// Reads an index from an operand of one element. A negative index counts from the end.
fn position_of(on: &Tracer, call: &ItemCall<'_>, index: usize, positions: usize) -> Result<usize, TraceStop> {
    Ok(position(call.op_type(), &on.ints(call.tensor(index)?)?, positions)?)
}

fn empty_types(at: NodeFacts<'_>) -> Option<Types> {
    sequence_of(rule::tensor(at.type_attribute("dtype", Some(DataType::F32)), None))
}

/// `SequenceEmpty`.
pub(super) fn empty(_on: &Tracer, _call: &ItemCall<'_>) -> ItemResult {
    Ok(one(OnnxValue::Sequence(Vec::new())))
}

fn sequence_of(of: ValueType) -> Option<Types> {
    Some(vec![ValueType::Sequence(Box::new(of))])
}

fn construct_types(at: NodeFacts<'_>) -> Option<Types> {
    let mut types = (0..at.node.inputs.len()).map(|i| at.ty(i));
    let first = types.next()?.clone();
    sequence_of(types.fold(first, |all, ty| rule::either(&all, ty)))
}

/// `SequenceConstruct`.
pub(super) fn construct(_on: &Tracer, call: &ItemCall<'_>) -> ItemResult {
    Ok(one(OnnxValue::Sequence(call.all()?.into_iter().cloned().collect())))
}

fn length_types(at: NodeFacts<'_>) -> Option<Types> {
    at.one(Some(DataType::I64), Some(Vec::new()))
}

/// `SequenceLength`.
pub(super) fn length(on: &Tracer, call: &ItemCall<'_>) -> ItemResult {
    let length = call.sequence(0)?.len() as i64;
    Ok(one(OnnxValue::Tensor(on.constant(&TensorData::scalar(length))?)))
}

fn at_types(at: NodeFacts<'_>) -> Option<Types> {
    Some(vec![element_type(at, 0)?.clone()])
}

/// `SequenceAt`.
pub(super) fn at(on: &Tracer, call: &ItemCall<'_>) -> ItemResult {
    let items = call.sequence(0)?;
    let position = position_of(on, call, 1, items.len())?;
    Ok(items.get(position).cloned().into_iter().map(Some).collect())
}

/// Returns the type of an operand's elements. The operand is a sequence, or an optional that contains one.
fn element_type(at: NodeFacts<'_>, input: usize) -> Option<&ValueType> {
    match at.ty(input) {
        ValueType::Sequence(of) => Some(of),
        ValueType::Optional(inner) => match &**inner {
            ValueType::Sequence(of) => Some(of),
            _ => None,
        },
        _ => None,
    }
}

fn insert_types(at: NodeFacts<'_>) -> Option<Types> {
    sequence_of(rule::either(element_type(at, 0)?, at.ty(1)))
}

/// `SequenceInsert`. Without an index, it appends at the end.
pub(super) fn insert(on: &Tracer, call: &ItemCall<'_>) -> ItemResult {
    let mut items = call.sequence(0)?.to_vec();
    let position = match call.optional(2) {
        // Index `len` appends at the end. `position_of` accepts only indices of existing elements, so this
        // case is handled here.
        Some(OnnxValue::Tensor(x)) if on.ints(x)? == [items.len() as i64] => items.len(),
        Some(_) => position_of(on, call, 2, items.len())?,
        None => items.len(),
    };
    items.insert(position, call.input(1)?.clone());
    Ok(one(OnnxValue::Sequence(items)))
}

/// `SequenceErase`. Without an index, it removes the last element.
pub(super) fn erase(on: &Tracer, call: &ItemCall<'_>) -> ItemResult {
    let mut items = call.sequence(0)?.to_vec();
    let last =
        || items.len().checked_sub(1).ok_or_else(|| call.wrong(NodePart::other("the sequence"), "is empty"));
    let position = match call.optional(1) {
        Some(_) => position_of(on, call, 1, items.len())?,
        None => last()?,
    };
    items.remove(position);
    Ok(one(OnnxValue::Sequence(items)))
}

/// Infers the type of `ConcatFromSequence`: concatenated along an existing axis or along a new one.
fn concat_types(at: NodeFacts<'_>) -> Option<Types> {
    let ValueType::Tensor { dtype, shape } = element_type(at, 0)? else { return None };
    let new = at.int("new_axis", 0)? != 0;
    let shape = shape.as_ref().and_then(|dims| {
        let mut dims = dims.clone();
        let axis = rule::axis(at.int("axis", 0)?, dims.len() + usize::from(new))?;
        if new {
            dims.insert(axis, Dim::Unknown);
        } else {
            *dims.get_mut(axis)? = Dim::Unknown;
        }
        Some(dims)
    });
    at.one(Some(*dtype), shape)
}

/// `ConcatFromSequence`: concatenates along an existing axis or along a new one.
pub(super) fn concat(on: &Tracer, call: &ItemCall<'_>) -> ItemResult {
    Ok(one(OnnxValue::Tensor(join(on, call, call.sequence(0)?)?)))
}

/// Infers the type of `SplitToSequence`: the element type and shape that all parts have in common.
fn split_types(at: NodeFacts<'_>) -> Option<Types> {
    let shape = |x: &[Dim]| {
        let axis = rule::axis(at.int("axis", 0)?, x.len())?;
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
                    rule::extent(size)
                }
                _ => Dim::Unknown,
            },
            (Some((Some(sizes), false)), _) => match sizes.split_first() {
                Some((first, rest)) if rest.iter().all(|s| s == first) => rule::extent(*first),
                _ => Dim::Unknown,
            },
            _ => Dim::Unknown,
        };
        Some(out)
    };
    sequence_of(rule::tensor(at.dtype(0), at.dims(0).and_then(shape)))
}

/// `SplitToSequence`: splits into parts of one extent, of listed extents, or of extent 1.
pub(super) fn split(on: &Tracer, call: &ItemCall<'_>) -> ItemResult {
    Ok(one(part(on, call)?))
}

fn optional_types(at: NodeFacts<'_>) -> Option<Types> {
    let of = if at.has(0) { at.ty(0) } else { at.node.attributes.ty("type").ok()?? };
    Some(vec![ValueType::Optional(Box::new(of.clone()))])
}

/// `Optional`: wraps the operand, or creates an absent value.
pub(super) fn optional(_on: &Tracer, call: &ItemCall<'_>) -> ItemResult {
    Ok(one(call.optional(0).cloned().unwrap_or(OnnxValue::Absent)))
}

/// Infers the type of `OptionalGetElement`. A value that is not optional is its own element.
fn get_element_types(at: NodeFacts<'_>) -> Option<Types> {
    Some(vec![match at.ty(0) {
        ValueType::Optional(of) => (**of).clone(),
        other => other.clone(),
    }])
}

/// `OptionalGetElement`.
pub(super) fn get_element(_on: &Tracer, call: &ItemCall<'_>) -> ItemResult {
    match call.input(0)? {
        OnnxValue::Absent => Err(call.wrong(NodePart::other("the optional"), "holds nothing").into()),
        item => Ok(one(item.clone())),
    }
}

fn has_element_types(at: NodeFacts<'_>) -> Option<Types> {
    at.one(Some(DataType::Bool), Some(Vec::new()))
}

/// `OptionalHasElement`.
pub(super) fn has_element(on: &Tracer, call: &ItemCall<'_>) -> ItemResult {
    let there = !matches!(call.optional(0), None | Some(OnnxValue::Absent));
    let there = TensorData::bools(&[], &[there]).map_err(Error::from)?;
    Ok(one(OnnxValue::Tensor(on.constant(&there)?)))
}
