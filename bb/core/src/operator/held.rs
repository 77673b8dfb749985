//! Values between segments: values that plans split into tensors, and sequences that plans pass on unchanged.
//!
//! A plan is valid for values of one structure. If it split every sequence, each length would need its own plan, as long as the
//! sequence: a loop that appends would need one plan for each iteration. So plans pass on the sequences of loops and long
//! sequences unchanged, and the nodes that access their items run between segments. There, a sequence is a list that is changed
//! in place if it is not shared.

use super::{Call, OnnxValue, SequenceStep, join, part, position};
use crate::contract::tensor_bytes;
use crate::error::NodePart;
use crate::{Backend, Error, Tensor};
use bb_ir::graph::Node;
use bb_ir::{TensorData, memory};
use std::sync::Arc;

/// The maximum number of items of a sequence that a plan splits, outside of loops.
const FEW: usize = 64;

/// The maximum number of items of a sequence that a plan builds. A node whose result is longer runs between segments, except in an inlined
/// subgraph.
pub(crate) const MANY: usize = 1 << 10;

/// The structure of a value.
#[derive(Debug, Clone, PartialEq)]
pub enum Form {
    /// A value that a plan splits into tensors.
    Parts(OnnxValue<()>),
    /// A sequence that a plan passes on unchanged.
    Held,
}

/// A value between segments.
#[derive(Debug, Clone)]
pub enum Item<T> {
    /// A value that plans split into tensors.
    Parts(OnnxValue<T>),
    /// A sequence that plans pass on unchanged.
    Held(Held<T>),
}

/// A sequence that plans pass on unchanged. Clones share the items until one of them is modified.
#[derive(Debug)]
pub struct Held<T> {
    items: Arc<Vec<OnnxValue<T>>>,
    /// The total size of the items in bytes.
    bytes: usize,
}

impl<T> Clone for Held<T> {
    fn clone(&self) -> Held<T> {
        Held { items: self.items.clone(), bytes: self.bytes }
    }
}

impl<T: Tensor> Held<T> {
    fn new(items: Vec<OnnxValue<T>>) -> Held<T> {
        let bytes = items.iter().fold(0, |sum: usize, item| sum.saturating_add(bytes_of(item)));
        Held { items: Arc::new(items), bytes }
    }

    pub(crate) fn items(&self) -> &[OnnxValue<T>] {
        &self.items
    }

    /// Returns the total size of the items in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the items for modification; copies them first if they are shared.
    fn own(&mut self, op: &'static str) -> Result<&mut Vec<OnnxValue<T>>, Error> {
        if Arc::get_mut(&mut self.items).is_none() {
            self.items = Arc::new(memory::copied(op, &self.items)?);
        }
        Arc::get_mut(&mut self.items).ok_or_else(|| Error::excluded("items that nothing else holds"))
    }

    fn insert(&mut self, position: usize, item: OnnxValue<T>) -> Result<(), Error> {
        const OP: &str = "SequenceInsert";
        let bytes = bytes_of(&item);
        let items = self.own(OP)?;
        // The new item is pushed to the end, then rotated to its position.
        memory::push(OP, items, item)?;
        if let Some(behind) = items.get_mut(position..) {
            behind.rotate_right(1);
        }
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }

    fn remove(&mut self, position: usize) -> Result<(), Error> {
        let items = self.own("SequenceErase")?;
        let bytes = bytes_of(&items.remove(position));
        self.bytes = self.bytes.saturating_sub(bytes);
        Ok(())
    }
}

fn bytes_of<T: Tensor>(value: &OnnxValue<T>) -> usize {
    let mut bytes = size_of::<OnnxValue<T>>();
    value.visit(&mut |x: &T| bytes = bytes.saturating_add(tensor_bytes(x)));
    bytes
}

impl<T: Tensor> Item<T> {
    /// Converts a sequence to [`Item::Held`], so that plans pass it on unchanged. Any other value stays as it is.
    pub(crate) fn held(self) -> Item<T> {
        match self {
            Item::Parts(OnnxValue::Sequence(items)) => Item::Held(Held::new(items)),
            other => other,
        }
    }

    /// Converts a sequence of more than [`FEW`] items to [`Item::Held`], so that plans pass it on unchanged. Any other value stays as it
    /// is.
    pub(crate) fn held_if_long(self) -> Item<T> {
        match self {
            Item::Parts(OnnxValue::Sequence(items)) if items.len() > FEW => Item::Held(Held::new(items)),
            other => other,
        }
    }

    /// Converts the value to an `OnnxValue`. Copies the items of a sequence only if they are shared.
    pub fn value(self) -> OnnxValue<T> {
        match self {
            Item::Parts(value) => value,
            Item::Held(held) => {
                OnnxValue::Sequence(Arc::try_unwrap(held.items).unwrap_or_else(|items| items.to_vec()))
            }
        }
    }

    /// Returns the tensor; `None` if the value is not a tensor.
    pub fn tensor(&self) -> Option<&T> {
        match self {
            Item::Parts(value) => value.tensor(),
            Item::Held(_) => None,
        }
    }

    /// Returns the items of a sequence; `None` if the value is not a sequence.
    pub(crate) fn items(&self) -> Option<&[OnnxValue<T>]> {
        match self {
            Item::Parts(OnnxValue::Sequence(items)) => Some(items),
            Item::Parts(_) => None,
            Item::Held(held) => Some(held.items()),
        }
    }

    /// Returns the size of the value in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Item::Parts(value) => {
                let mut bytes = 0usize;
                value.visit(&mut |x: &T| bytes = bytes.saturating_add(tensor_bytes(x)));
                bytes
            }
            Item::Held(held) => held.bytes(),
        }
    }

    /// Returns the kind of the value, for error messages.
    fn kind(&self) -> &'static str {
        match self {
            Item::Parts(value) => value.kind(),
            Item::Held(_) => "a sequence",
        }
    }
}

impl SequenceStep {
    /// Computes the result of a node between segments.
    ///
    /// # Errors
    ///
    /// The errors of the operators' functions, and of the backend.
    pub(crate) fn run<B: Backend + ?Sized>(
        self,
        on: &B,
        node: &Node,
        operands: Vec<Option<Item<B::Tensor>>>,
    ) -> Result<Item<B::Tensor>, B::Error> {
        let mut operands = NodeOperands { node, operands };
        let tensor = |data: Result<TensorData, bb_ir::Error>| -> Result<Item<B::Tensor>, B::Error> {
            Ok(Item::Parts(OnnxValue::Tensor(on.constant(&data.map_err(Error::from)?)?)))
        };
        Ok(match self {
            SequenceStep::Same => operands.take(0)?,
            SequenceStep::HasElement => tensor(TensorData::bools(&[], &[true]))?,
            SequenceStep::Length => {
                tensor(Ok(TensorData::scalar(operands.sequence(0)?.items().len() as i64)))?
            }
            SequenceStep::At => {
                let sequence = operands.sequence(0)?;
                let items = sequence.items();
                let at = position(&node.op_type, &operands.ints(on, 1)?, items.len())?;
                let found = items.get(at).cloned();
                Item::Parts(found.ok_or_else(|| Error::excluded("an item at a position that exists"))?)
            }
            SequenceStep::Insert => {
                let mut sequence = operands.sequence(0)?;
                let count = sequence.items().len();
                let at = match operands.has(2) {
                    true => match operands.ints(on, 2)?.as_slice() {
                        // Index `count` appends at the end. `position` does not accept it, so it is handled here.
                        [end] if *end == count as i64 => count,
                        read => position(&node.op_type, read, count)?,
                    },
                    false => count,
                };
                sequence.insert(at, operands.take(1)?.value())?;
                Item::Held(sequence)
            }
            SequenceStep::Erase => {
                let mut sequence = operands.sequence(0)?;
                let count = sequence.items().len();
                let at = match operands.has(1) {
                    true => position(&node.op_type, &operands.ints(on, 1)?, count)?,
                    false => {
                        let empty = || operands.wrong(NodePart::other("the sequence"), "is empty");
                        count.checked_sub(1).ok_or_else(empty)?
                    }
                };
                sequence.remove(at)?;
                Item::Held(sequence)
            }
            SequenceStep::Concat => {
                let sequence = operands.sequence(0)?;
                let call = Call::<OnnxValue<B::Tensor>>::new(node, &[]);
                Item::Parts(OnnxValue::Tensor(join(on, &call, sequence.items())?))
            }
            SequenceStep::Split => {
                let values: Vec<_> = operands.operands.into_iter().map(|x| x.map(Item::value)).collect();
                Item::Parts(part(on, &Call::new(node, &values))?).held()
            }
        })
    }
}

/// The operands of a node between segments.
struct NodeOperands<'a, T> {
    node: &'a Node,
    operands: Vec<Option<Item<T>>>,
}

impl<T: Tensor> NodeOperands<'_, T> {
    fn wrong(&self, part: impl Into<NodePart>, problem: impl Into<String>) -> Error {
        Error::Operator { op: self.node.op_type.clone(), part: part.into(), problem: problem.into() }
    }

    fn has(&self, index: usize) -> bool {
        self.operands.get(index).is_some_and(Option::is_some)
    }

    /// Removes an operand from the list and returns it.
    fn take(&mut self, index: usize) -> Result<Item<T>, Error> {
        let taken = self.operands.get_mut(index).and_then(Option::take);
        taken.ok_or_else(|| self.wrong(NodePart::Operand(index), "is missing"))
    }

    /// Removes an operand from the list and returns it as a sequence.
    fn sequence(&mut self, index: usize) -> Result<Held<T>, Error> {
        match self.take(index)?.held() {
            Item::Held(held) => Ok(held),
            other => {
                let problem = format!("is {}, expected a sequence", other.kind());
                Err(self.wrong(NodePart::Operand(index), problem))
            }
        }
    }

    /// Copies an operand to the host, and returns its integers.
    fn ints<B: Backend<Tensor = T> + ?Sized>(&self, on: &B, index: usize) -> Result<Vec<i64>, B::Error> {
        let x = self.operands.get(index).and_then(Option::as_ref).and_then(Item::tensor);
        let wrong = || self.wrong(NodePart::Operand(index), "is no tensor, expected one");
        let host = on.to_host(x.ok_or_else(wrong)?)?;
        Ok(crate::ext::integers(&host).map_err(Error::from)?)
    }
}
