//! Values: tensors, and sequences, maps and optionals that contain them.
//!
//! An `OrtValue` is a handle. Bindings, sequences and results may share the tensor with it.

pub(crate) mod containers;
pub(crate) mod result;
pub(crate) mod strings;
pub(crate) mod tensor;
pub(crate) mod tensors;

use crate::error::CallError;
use crate::status::Result;
use bb::TensorData;
use bb::ir::graph::{Dim, ValueType};
use bb::onnx::OnnxValue;
use std::sync::Arc;
pub(crate) use tensor::{OperandElements, ValueTensor};

/// `OrtValue`.
#[derive(Debug)]
pub(crate) struct OrtValue {
    pub(crate) held: Arc<HeldValue>,
}

/// A value.
#[derive(Debug)]
pub(crate) enum HeldValue {
    /// A tensor.
    Tensor(ValueTensor),
    /// A list of values of one type.
    Sequence {
        /// The values.
        items: Vec<Arc<HeldValue>>,
        /// The type of all items.
        of: ValueType,
    },
    /// A map, as a tensor of keys and a tensor of values.
    Map {
        /// The keys, a tensor of rank 1.
        keys: Arc<HeldValue>,
        /// The values, a tensor of rank 1.
        values: Arc<HeldValue>,
    },
    /// An optional without content, of this type.
    Absent(ValueType),
}

impl HeldValue {
    /// Returns the name of the kind for error messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            HeldValue::Tensor(_) => "a tensor",
            HeldValue::Sequence { .. } => "a sequence",
            HeldValue::Map { .. } => "a map",
            HeldValue::Absent(_) => "an absent value",
        }
    }

    /// Returns the tensor.
    ///
    /// # Errors
    ///
    /// [`CallError::Kind`].
    pub(crate) fn tensor(&self) -> Result<&ValueTensor> {
        match self {
            HeldValue::Tensor(tensor) => Ok(tensor),
            other => Err(CallError::Kind { expected: "a tensor", got: other.kind() }),
        }
    }

    /// Returns the type.
    pub(crate) fn ty(&self) -> ValueType {
        match self {
            HeldValue::Tensor(tensor) => {
                let dims = tensor.shape().iter().map(|extent| Dim::Known(*extent)).collect();
                ValueType::Tensor { dtype: tensor.dtype(), shape: Some(dims) }
            }
            HeldValue::Sequence { of, .. } => ValueType::Sequence(Box::new(of.clone())),
            HeldValue::Map { keys, values } => match keys.as_ref() {
                HeldValue::Tensor(keys) => ValueType::Map(keys.dtype(), Box::new(values.ty())),
                _ => ValueType::Unknown,
            },
            HeldValue::Absent(of) => ValueType::Optional(Box::new(of.clone())),
        }
    }

    /// Converts the value to bb's type, with copied or borrowed elements.
    ///
    /// # Errors
    ///
    /// An error of reading the elements.
    pub(crate) fn data(&self, elements: OperandElements<'_>) -> Result<OnnxValue<TensorData>> {
        Ok(match self {
            HeldValue::Tensor(tensor) => OnnxValue::Tensor(tensor.data(elements)?),
            HeldValue::Sequence { items, .. } => {
                OnnxValue::Sequence(items.iter().map(|item| item.data(elements)).collect::<Result<_>>()?)
            }
            HeldValue::Map { keys, values } => {
                OnnxValue::Map { keys: keys.tensor()?.copied()?, values: values.tensor()?.data(elements)? }
            }
            HeldValue::Absent(_) => OnnxValue::Absent,
        })
    }

    /// Returns whether any tensor in this value uses the same memory as a tensor.
    pub(crate) fn overlaps(&self, other: &ValueTensor) -> bool {
        match self {
            HeldValue::Tensor(tensor) => tensor.overlaps(other),
            HeldValue::Sequence { items, .. } => items.iter().any(|item| item.overlaps(other)),
            HeldValue::Map { keys, values } => keys.overlaps(other) || values.overlaps(other),
            HeldValue::Absent(_) => false,
        }
    }
}
