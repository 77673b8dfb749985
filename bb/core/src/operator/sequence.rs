//! Sequence operations that plans and operator functions share.

use super::{Call, OnnxValue};
use crate::error::NodePart;
use crate::{Backend, Error, RunOptions, Tensor};
use bb_ir::memory;

/// The effect of an operator on a sequence that a plan passes on without splitting it into tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceStep {
    /// Returns its operand.
    Same,
    /// Returns whether the operand contains a value.
    HasElement,
    /// Returns the number of items.
    Length,
    /// Returns the item at an index.
    At,
    /// Inserts an item.
    Insert,
    /// Removes an item.
    Erase,
    /// Concatenates the items.
    Concat,
    /// Splits a tensor into a sequence.
    Split,
}

type ItemCall<'a, B> = Call<'a, OnnxValue<<B as Backend>::Tensor>>;

impl<T> Call<'_, OnnxValue<T>> {
    /// Returns the operand at `index`, which must be a tensor.
    ///
    /// # Errors
    ///
    /// [`Error::Operator`] if it is omitted or not a tensor.
    pub fn tensor(&self, index: usize) -> Result<&T, Error> {
        let item = self.input(index)?;
        item.tensor().ok_or_else(|| self.wrong_kind(index, item, "a tensor"))
    }

    /// Returns the items of the operand at `index`, which must be a sequence.
    ///
    /// # Errors
    ///
    /// [`Error::Operator`] if it is omitted or not a sequence.
    pub fn sequence(&self, index: usize) -> Result<&[OnnxValue<T>], Error> {
        match self.input(index)? {
            OnnxValue::Sequence(items) => Ok(items),
            other => Err(self.wrong_kind(index, other, "a sequence")),
        }
    }

    fn wrong_kind(&self, index: usize, item: &OnnxValue<T>, expected: &str) -> Error {
        self.wrong(NodePart::Operand(index), format!("is {}, expected {expected}", item.kind()))
    }
}

/// Resolves a sequence index, whose operand was already read, to a position. Negative indices count from the
/// end.
///
/// # Errors
///
/// [`Error::Operator`] if the operand is not a single number, or the index is out of range.
pub fn position(op: &str, read: &[i64], positions: usize) -> Result<usize, Error> {
    let wrong =
        |problem| Error::Operator { op: op.to_owned(), part: NodePart::other("the position"), problem };
    let &[given] = read else {
        return Err(wrong(format!("has {} elements, expected 1", read.len())));
    };
    let from_start = if given < 0 { given.checked_add(positions as i64) } else { Some(given) };
    let found = from_start.and_then(|p| usize::try_from(p).ok()).filter(|p| *p < positions);
    found.ok_or_else(|| wrong(format!("is {given}, expected one of {positions}")))
}

/// The number of items between two checks of whether the run must end.
const STRETCH: usize = 1 << 10;

/// Concatenates the items of a sequence, with the attributes of a call's node.
///
/// # Errors
///
/// [`Error::Operator`] if an item is not a tensor or there are no items; an error if the run must end; the
/// backend's own errors.
pub fn join<B: Backend + ?Sized>(
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

/// The maximum number of parts of a tensor. Each part takes memory, even if it has no elements.
const MOST_PARTS: usize = 1 << 20;

/// Splits the first operand of a call into a sequence, with the attributes of the call's node.
///
/// # Errors
///
/// [`Error::Operator`] if an attribute or operand is not valid; an error if the run must end; the backend's
/// own errors.
pub fn part<B: Backend + ?Sized>(on: &B, call: &ItemCall<'_, B>) -> Result<OnnxValue<B::Tensor>, B::Error> {
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
    // A dimension of extent 1 is removed only if no sizes are passed.
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
