//! What flows between nodes: tensors, and what ONNX builds of them.

use bb_ir::TensorData;

/// A value of a graph: a tensor, or a structure whose leaves are tensors.
///
/// Structures are known while a plan is made: a plan holds for inputs of one structure. An optional that holds
/// something is what it holds.
#[derive(Debug, Clone, PartialEq)]
pub enum OnnxValue<T> {
    /// A tensor.
    Tensor(T),
    /// Any number of items of one kind, in order.
    Sequence(Vec<OnnxValue<T>>),
    /// An optional that holds nothing.
    Absent,
    /// Keys, and the value of each.
    Map {
        /// The keys, integers or strings: `[n]`.
        keys: TensorData,
        /// The values: `[n]`.
        values: T,
    },
}

impl<T> OnnxValue<T> {
    /// Returns the tensor, if it is one.
    pub fn tensor(&self) -> Option<&T> {
        match self {
            OnnxValue::Tensor(x) => Some(x),
            _ => None,
        }
    }

    /// Returns the kind in words.
    pub fn kind(&self) -> &'static str {
        match self {
            OnnxValue::Tensor(_) => "a tensor",
            OnnxValue::Sequence(_) => "a sequence",
            OnnxValue::Absent => "an absent value",
            OnnxValue::Map { .. } => "a map",
        }
    }

    /// Calls `f` with each tensor, in order.
    pub fn visit<'a>(&'a self, f: &mut impl FnMut(&'a T)) {
        match self {
            OnnxValue::Tensor(x) | OnnxValue::Map { values: x, .. } => f(x),
            OnnxValue::Sequence(items) => items.iter().for_each(|item| item.visit(f)),
            OnnxValue::Absent => {}
        }
    }

    /// Returns the same structure with every tensor replaced by what `f` makes of it.
    ///
    /// # Errors
    ///
    /// The first error of `f`.
    pub fn try_map<'a, U, E>(&'a self, f: &mut impl FnMut(&'a T) -> Result<U, E>) -> Result<OnnxValue<U>, E> {
        Ok(match self {
            OnnxValue::Tensor(x) => OnnxValue::Tensor(f(x)?),
            OnnxValue::Sequence(items) => {
                OnnxValue::Sequence(items.iter().map(|item| item.try_map(f)).collect::<Result<_, E>>()?)
            }
            OnnxValue::Absent => OnnxValue::Absent,
            OnnxValue::Map { keys, values } => OnnxValue::Map { keys: keys.clone(), values: f(values)? },
        })
    }

    /// Returns the same structure with every tensor replaced by what `f` makes of it.
    pub fn map<'a, U>(&'a self, f: &mut impl FnMut(&'a T) -> U) -> OnnxValue<U> {
        match self {
            OnnxValue::Tensor(x) => OnnxValue::Tensor(f(x)),
            OnnxValue::Sequence(items) => OnnxValue::Sequence(items.iter().map(|item| item.map(f)).collect()),
            OnnxValue::Absent => OnnxValue::Absent,
            OnnxValue::Map { keys, values } => OnnxValue::Map { keys: keys.clone(), values: f(values) },
        }
    }
}
