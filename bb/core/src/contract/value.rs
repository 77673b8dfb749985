//! The values that nodes exchange: tensors, and ONNX's sequences, optionals and maps of tensors.

use bb_ir::TensorData;

/// A value of a graph: a tensor, or a structure of tensors.
///
/// A plan is built for one structure of the inputs, and is valid only for inputs of that structure. Long sequences are
/// passed on unchanged, so their length is not part of the structure. An optional with a content is represented by the
/// content itself.
#[derive(Debug, Clone, PartialEq)]
pub enum OnnxValue<T> {
    /// A tensor.
    Tensor(T),
    /// A list of values of the same kind.
    Sequence(Vec<OnnxValue<T>>),
    /// An empty optional.
    Absent,
    /// A map from keys to values.
    Map {
        /// The keys, which are integers or strings, of shape `[n]`.
        keys: TensorData,
        /// The values, of shape `[n]`.
        values: T,
    },
}

impl<T> OnnxValue<T> {
    /// Returns the tensor; `None` if the value is not a tensor.
    pub fn tensor(&self) -> Option<&T> {
        match self {
            OnnxValue::Tensor(x) => Some(x),
            _ => None,
        }
    }

    /// Returns the kind of the value for messages.
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

    /// Returns the same structure with each tensor replaced by the result of `f`.
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

    /// Returns the same structure with each tensor replaced by the result of `f`.
    pub fn map<'a, U>(&'a self, f: &mut impl FnMut(&'a T) -> U) -> OnnxValue<U> {
        match self {
            OnnxValue::Tensor(x) => OnnxValue::Tensor(f(x)),
            OnnxValue::Sequence(items) => OnnxValue::Sequence(items.iter().map(|item| item.map(f)).collect()),
            OnnxValue::Absent => OnnxValue::Absent,
            OnnxValue::Map { keys, values } => OnnxValue::Map { keys: keys.clone(), values: f(values) },
        }
    }
}
