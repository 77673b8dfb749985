//! Values: tensors, and sequences, maps and optionals of them.
//!
//! An `OrtValue` is a handle: what is bound to a run, part of a sequence or a result shares the tensor with it.

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
pub(crate) use tensor::{Elements, Tensor};

/// `OrtValue`.
#[derive(Debug)]
pub(crate) struct OrtValue {
    pub(crate) held: Arc<Held>,
}

/// A value.
#[derive(Debug)]
pub(crate) enum Held {
    /// A tensor.
    Tensor(Tensor),
    /// Values of one type.
    Sequence {
        /// The values.
        items: Vec<Arc<Held>>,
        /// Their type.
        of: ValueType,
    },
    /// Values by key.
    Map {
        /// A tensor of rank 1.
        keys: Arc<Held>,
        /// A tensor of rank 1.
        values: Arc<Held>,
    },
    /// An optional without content, of this type.
    Absent(ValueType),
}

impl Held {
    /// Returns the kind as text for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Held::Tensor(_) => "a tensor",
            Held::Sequence { .. } => "a sequence",
            Held::Map { .. } => "a map",
            Held::Absent(_) => "an absent value",
        }
    }

    /// Returns the tensor.
    ///
    /// # Errors
    ///
    /// [`CallError::Kind`].
    pub(crate) fn tensor(&self) -> Result<&Tensor> {
        match self {
            Held::Tensor(tensor) => Ok(tensor),
            other => Err(CallError::Kind { expected: "a tensor", got: other.kind() }),
        }
    }

    /// Returns the type.
    pub(crate) fn ty(&self) -> ValueType {
        match self {
            Held::Tensor(tensor) => {
                let dims = tensor.shape().iter().map(|extent| Dim::Known(*extent)).collect();
                ValueType::Tensor { dtype: tensor.dtype(), shape: Some(dims) }
            }
            Held::Sequence { of, .. } => ValueType::Sequence(Box::new(of.clone())),
            Held::Map { keys, values } => match keys.as_ref() {
                Held::Tensor(keys) => ValueType::Map(keys.dtype(), Box::new(values.ty())),
                _ => ValueType::Unknown,
            },
            Held::Absent(of) => ValueType::Optional(Box::new(of.clone())),
        }
    }

    /// Returns the value as bb takes it, whose elements are copied or lent.
    ///
    /// # Errors
    ///
    /// [`CallError::Utf8`] for a string that is not; an error of the elements.
    pub(crate) fn data(&self, elements: Elements<'_>) -> Result<OnnxValue<TensorData>> {
        Ok(match self {
            Held::Tensor(tensor) => OnnxValue::Tensor(tensor.data(elements)?),
            Held::Sequence { items, .. } => {
                OnnxValue::Sequence(items.iter().map(|item| item.data(elements)).collect::<Result<_>>()?)
            }
            Held::Map { keys, values } => {
                OnnxValue::Map { keys: keys.tensor()?.copied()?, values: values.tensor()?.data(elements)? }
            }
            Held::Absent(_) => OnnxValue::Absent,
        })
    }

    /// Tells whether a tensor of this value is in memory that a tensor uses, too.
    pub(crate) fn overlaps(&self, other: &Tensor) -> bool {
        match self {
            Held::Tensor(tensor) => tensor.overlaps(other),
            Held::Sequence { items, .. } => items.iter().any(|item| item.overlaps(other)),
            Held::Map { keys, values } => keys.overlaps(other) || values.overlaps(other),
            Held::Absent(_) => false,
        }
    }
}
