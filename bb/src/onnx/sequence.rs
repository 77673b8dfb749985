//! Sequences and optionals: structures of tensors, taken apart while a plan is made.

use super::OnnxValue;
use super::call::{Call, OpOutputs, one};
use super::infer;
use super::rows::operators;
use crate::error::NodePart;
use crate::ext::Ops;
use crate::{Backend, Error, RunOptions, Tensor};
use bb_ir::{TensorData, memory};

operators! {
    "" {
        ConcatFromSequence => Items(concat), infer: By(infer::collections::concat);
        Optional => Items(optional), infer: By(infer::collections::optional), ignores: { "type": "what holds nothing has no type where it runs; inference reads it" };
        OptionalGetElement => Items(get_element), infer: By(infer::collections::get_element);
        OptionalHasElement => Items(has_element), infer: By(infer::collections::has_element);
        SequenceAt => Items(at), infer: By(infer::collections::at);
        SequenceConstruct => Items(construct), infer: By(infer::collections::construct);
        SequenceEmpty => Items(empty), infer: By(infer::collections::empty), ignores: { "dtype": "an empty sequence has no type where it runs; inference reads it" };
        SequenceErase => Items(erase), infer: Same;
        SequenceInsert => Items(insert), infer: By(infer::collections::insert);
        SequenceLength => Items(length), infer: By(infer::collections::length);
        SplitToSequence => Items(split), infer: By(infer::collections::split);
    }
}

type Items<B> = Result<OpOutputs<OnnxValue<<B as Backend>::Tensor>>, <B as Backend>::Error>;
type ItemCall<'a, B> = Call<'a, OnnxValue<<B as Backend>::Tensor>>;

impl<T> Call<'_, OnnxValue<T>> {
    /// Returns the operand at `index`, which must be a tensor.
    ///
    /// # Errors
    ///
    /// [`Error::Operator`] if it is left out or something else.
    pub(super) fn tensor(&self, index: usize) -> Result<&T, Error> {
        let item = self.input(index)?;
        item.tensor().ok_or_else(|| self.wrong_kind(index, item, "a tensor"))
    }

    /// Returns the items of the operand at `index`, which must be a sequence.
    ///
    /// # Errors
    ///
    /// [`Error::Operator`] if it is left out or something else.
    pub(super) fn sequence(&self, index: usize) -> Result<&[OnnxValue<T>], Error> {
        match self.input(index)? {
            OnnxValue::Sequence(items) => Ok(items),
            other => Err(self.wrong_kind(index, other, "a sequence")),
        }
    }

    fn wrong_kind(&self, index: usize, item: &OnnxValue<T>, expected: &str) -> Error {
        self.wrong(NodePart::Operand(index), format!("is {}, expected {expected}", item.kind()))
    }

    /// Reads a position, an operand of one element, that may count from the end.
    fn position<B: Ops<Tensor = T> + ?Sized>(
        &self,
        on: &B,
        index: usize,
        positions: usize,
    ) -> Result<usize, B::Error> {
        Ok(place(self.op_type(), &on.ints(self.tensor(index)?)?, positions)?)
    }
}

/// Finds the position that an operand says, which has been read.
///
/// # Errors
///
/// [`Error::Operator`] if it is not one number, or the number is not a position.
pub(crate) fn place(op: &str, read: &[i64], positions: usize) -> Result<usize, Error> {
    let wrong =
        |problem| Error::Operator { op: op.to_owned(), part: NodePart::other("the position"), problem };
    let &[given] = read else {
        return Err(wrong(format!("has {} elements, expected 1", read.len())));
    };
    let from_start = if given < 0 { given.checked_add(positions as i64) } else { Some(given) };
    let found = from_start.and_then(|p| usize::try_from(p).ok()).filter(|p| *p < positions);
    found.ok_or_else(|| wrong(format!("is {given}, expected one of {positions}")))
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
    let position = call.position(on, 1, items.len())?;
    Ok(items.get(position).cloned().into_iter().map(Some).collect())
}

/// `SequenceInsert`: at the end where no position is given.
pub(super) fn insert<B: Ops + ?Sized>(on: &B, call: &ItemCall<'_, B>) -> Items<B> {
    let mut items = call.sequence(0)?.to_vec();
    let position = match call.optional(2) {
        // The end is one more position, which counting from the end does not reach.
        Some(OnnxValue::Tensor(x)) if on.ints(x)? == [items.len() as i64] => items.len(),
        Some(_) => call.position(on, 2, items.len())?,
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
        Some(_) => call.position(on, 1, items.len())?,
        None => last()?,
    };
    items.remove(position);
    Ok(one(OnnxValue::Sequence(items)))
}

/// `ConcatFromSequence`: along an axis that there is, or along a new one.
pub(super) fn concat<B: Ops + ?Sized>(on: &B, call: &ItemCall<'_, B>) -> Items<B> {
    Ok(one(OnnxValue::Tensor(joined(on, call, call.sequence(0)?)?)))
}

/// How many items are looked at before the run is asked whether it must end.
const STRETCH: usize = 1 << 10;

/// Joins the items of a sequence as the node of a call says.
pub(crate) fn joined<B: Backend + ?Sized>(
    on: &B,
    call: &ItemCall<'_, B>,
    items: &[OnnxValue<B::Tensor>],
) -> Result<B::Tensor, B::Error> {
    let axis = call.int("axis")?;
    let stack = call.flag("new_axis", false)?;
    let mut parts = memory::room("ConcatFromSequence", items.len()).map_err(Error::from)?;
    for (at, item) in items.iter().enumerate() {
        if at % STRETCH == 0 {
            RunOptions::check_current()?;
        }
        let x = item
            .tensor()
            .ok_or_else(|| call.wrong(NodePart::other("the sequence"), "holds what is no tensor"))?;
        parts.push(if stack { on.unsqueeze(x, &[axis])? } else { x.clone() });
    }
    if parts.is_empty() {
        return Err(call
            .wrong(NodePart::other("the sequence"), "is empty, expected a tensor at least")
            .into());
    }
    let parts: Vec<&B::Tensor> = parts.iter().collect();
    on.concat(&parts, axis)
}

/// The most parts of a tensor: each takes memory of its own, though it may have no elements.
const MOST_PARTS: usize = 1 << 20;

/// `SplitToSequence`: parts of one extent, of a list of extents, or of extent 1.
pub(super) fn split<B: Ops + ?Sized>(on: &B, call: &ItemCall<'_, B>) -> Items<B> {
    Ok(one(parts(on, call)?))
}

/// Takes the first operand of a call apart, as its node says.
pub(crate) fn parts<B: Backend + ?Sized>(
    on: &B,
    call: &ItemCall<'_, B>,
) -> Result<OnnxValue<B::Tensor>, B::Error> {
    let x = call.tensor(0)?;
    let (axis, keepdims) = (call.int_or("axis", 0)?, call.flag("keepdims", true)?);
    let at = if axis < 0 { axis + x.rank() as i64 } else { axis };
    let extent = usize::try_from(at).ok().and_then(|at| x.shape().get(at).copied()).ok_or_else(|| {
        call.wrong("axis", format!("is {axis}, and the operand has {} dimensions", x.rank()))
    })?;
    let few = |count: usize| match count {
        0..=MOST_PARTS => Ok(count),
        _ => Err(call.wrong("split", format!("makes {count} parts, more than {MOST_PARTS}"))),
    };
    let sizes: Vec<usize> = match call.optional(1) {
        None => vec![1; few(extent)?],
        Some(OnnxValue::Tensor(split)) => {
            let given = crate::ext::integers(&on.to_host(split)?).map_err(Error::from)?;
            let wrong = || call.wrong("split", format!("is {given:?} for an extent of {extent}"));
            let sizes: Option<Vec<usize>> = given.iter().map(|&n| usize::try_from(n).ok()).collect();
            match (sizes.ok_or_else(wrong)?.as_slice(), split.rank()) {
                (&[0], 0) => return Err(wrong().into()),
                (&[size], 0) => {
                    let whole = std::iter::repeat_n(size, few(extent / size)?);
                    whole.chain((extent % size != 0).then_some(extent % size)).collect()
                }
                (sizes, _) => {
                    few(sizes.len())?;
                    sizes.to_vec()
                }
            }
        }
        Some(_) => return Err(call.wrong("split", "is no tensor").into()),
    };
    if sizes.is_empty() {
        return Ok(OnnxValue::Sequence(Vec::new()));
    }
    // A dimension of extent 1 goes only where no extents are given.
    let squeezed = call.optional(1).is_none() && !keepdims;
    let mut items = memory::room("SplitToSequence", sizes.len()).map_err(Error::from)?;
    for (index, part) in on.split(x, at, &sizes)?.into_iter().enumerate() {
        if index % STRETCH == 0 {
            RunOptions::check_current()?;
        }
        items.push(OnnxValue::Tensor(if squeezed { on.squeeze(&part, &[at])? } else { part }));
    }
    Ok(OnnxValue::Sequence(items))
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
