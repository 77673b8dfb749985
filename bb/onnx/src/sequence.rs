//! Sequences and optionals: structures of tensors, taken apart while a plan is made.

use super::OnnxValue;
use super::infer;
use super::rows::operators;
use bb_core::error::NodePart;
use bb_core::ext::Ops;
use bb_core::operator::{Call, OpOutputs, join, one, part, position};
use bb_core::{Backend, Error};
use bb_ir::TensorData;

operators! {
    "" {
        ConcatFromSequence => Items(concat; Concat), infer: By(infer::collections::concat);
        Optional => Items(optional; Same), infer: By(infer::collections::optional), ignores: { "type": "what holds nothing has no type where it runs; inference reads it" };
        OptionalGetElement => Items(get_element; Same), infer: By(infer::collections::get_element);
        OptionalHasElement => Items(has_element; HasElement), infer: By(infer::collections::has_element);
        SequenceAt => Items(at; At), infer: By(infer::collections::at);
        SequenceConstruct => Items(construct), infer: By(infer::collections::construct);
        SequenceEmpty => Items(empty), infer: By(infer::collections::empty), ignores: { "dtype": "an empty sequence has no type where it runs; inference reads it" };
        SequenceErase => Items(erase; Erase), infer: Same;
        SequenceInsert => Items(insert; Insert), infer: By(infer::collections::insert);
        SequenceLength => Items(length; Length), infer: By(infer::collections::length);
        SplitToSequence => Items(split; Split), infer: By(infer::collections::split);
    }
}

type Items<B> = Result<OpOutputs<OnnxValue<<B as Backend>::Tensor>>, <B as Backend>::Error>;
type ItemCall<'a, B> = Call<'a, OnnxValue<<B as Backend>::Tensor>>;

/// Reads a position, an operand of one element, that may count from the end.
fn position_of<B: Ops + ?Sized>(
    on: &B,
    call: &ItemCall<'_, B>,
    index: usize,
    positions: usize,
) -> Result<usize, B::Error> {
    Ok(position(call.op_type(), &on.ints(call.tensor(index)?)?, positions)?)
}

/// `Identity` of anything.
pub(super) fn identity<B: Ops + ?Sized>(on: &B, call: &ItemCall<'_, B>) -> Items<B> {
    Ok(one(match call.optional(0) {
        Some(OnnxValue::Tensor(x)) => OnnxValue::Tensor(on.identity(x)?),
        Some(other) => other.clone(),
        None => OnnxValue::Absent,
    }))
}

/// `SequenceEmpty`.
pub(super) fn empty<B: Ops + ?Sized>(_on: &B, _call: &ItemCall<'_, B>) -> Items<B> {
    Ok(one(OnnxValue::Sequence(Vec::new())))
}

/// `SequenceConstruct`.
pub(super) fn construct<B: Ops + ?Sized>(_on: &B, call: &ItemCall<'_, B>) -> Items<B> {
    Ok(one(OnnxValue::Sequence(call.all()?.into_iter().cloned().collect())))
}

/// `SequenceLength`.
pub(super) fn length<B: Ops + ?Sized>(on: &B, call: &ItemCall<'_, B>) -> Items<B> {
    let length = call.sequence(0)?.len() as i64;
    Ok(one(OnnxValue::Tensor(on.constant(&TensorData::scalar(length))?)))
}

/// `SequenceAt`.
pub(super) fn at<B: Ops + ?Sized>(on: &B, call: &ItemCall<'_, B>) -> Items<B> {
    let items = call.sequence(0)?;
    let position = position_of(on, call, 1, items.len())?;
    Ok(items.get(position).cloned().into_iter().map(Some).collect())
}

/// `SequenceInsert`: at the end where no position is given.
pub(super) fn insert<B: Ops + ?Sized>(on: &B, call: &ItemCall<'_, B>) -> Items<B> {
    let mut items = call.sequence(0)?.to_vec();
    let position = match call.optional(2) {
        // The end is one more position, which counting from the end does not reach.
        Some(OnnxValue::Tensor(x)) if on.ints(x)? == [items.len() as i64] => items.len(),
        Some(_) => position_of(on, call, 2, items.len())?,
        None => items.len(),
    };
    items.insert(position, call.input(1)?.clone());
    Ok(one(OnnxValue::Sequence(items)))
}

/// `SequenceErase`: the last where no position is given.
pub(super) fn erase<B: Ops + ?Sized>(on: &B, call: &ItemCall<'_, B>) -> Items<B> {
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

/// `ConcatFromSequence`: along an axis that there is, or along a new one.
pub(super) fn concat<B: Ops + ?Sized>(on: &B, call: &ItemCall<'_, B>) -> Items<B> {
    Ok(one(OnnxValue::Tensor(join(on, call, call.sequence(0)?)?)))
}

/// `SplitToSequence`: parts of one extent, of a list of extents, or of extent 1.
pub(super) fn split<B: Ops + ?Sized>(on: &B, call: &ItemCall<'_, B>) -> Items<B> {
    Ok(one(part(on, call)?))
}

/// `Optional`: what it is given, or nothing.
pub(super) fn optional<B: Ops + ?Sized>(_on: &B, call: &ItemCall<'_, B>) -> Items<B> {
    Ok(one(call.optional(0).cloned().unwrap_or(OnnxValue::Absent)))
}

/// `OptionalGetElement`.
pub(super) fn get_element<B: Ops + ?Sized>(_on: &B, call: &ItemCall<'_, B>) -> Items<B> {
    match call.input(0)? {
        OnnxValue::Absent => Err(call.wrong(NodePart::other("the optional"), "holds nothing").into()),
        item => Ok(one(item.clone())),
    }
}

/// `OptionalHasElement`.
pub(super) fn has_element<B: Ops + ?Sized>(on: &B, call: &ItemCall<'_, B>) -> Items<B> {
    let there = !matches!(call.optional(0), None | Some(OnnxValue::Absent));
    let there = TensorData::bools(&[], &[there]).map_err(Error::from)?;
    Ok(one(OnnxValue::Tensor(on.constant(&there)?)))
}
