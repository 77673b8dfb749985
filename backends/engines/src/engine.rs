//! The trait that an engine's crate implements.

use crate::Gap;
use bb::onnx::OnnxValue;
use bb::{BoxError, DataType, TensorData};
use bb_ir::graph::ValueType;

/// An engine that loads and runs serialized ONNX models.
pub trait Engine: Send + Sync + 'static {
    /// A loaded model, which several threads share.
    type Session: Send + Sync;

    /// The name of the engine for messages.
    const NAME: &'static str;

    /// Lists the calls that the engine cannot run as ONNX defines them.
    fn gaps(&self) -> &'static [Gap];

    /// Returns whether values of this type can be passed to the engine and returned from it.
    fn passes(&self, ty: &PortType) -> bool;

    /// Returns whether values of this element type may exist inside a model.
    fn holds(&self, dtype: DataType) -> bool;

    /// Returns the newest opset of the domain `ai.onnx` that the engine supports.
    fn newest_opset(&self) -> i64;

    /// Loads a model. `model` is a serialized `ModelProto` that contains all of its weights.
    ///
    /// # Errors
    ///
    /// The engine's own error, for example because it lacks an operator.
    fn load(&self, model: Vec<u8>, signature: &Signature) -> Result<Self::Session, BoxError>;

    /// Runs a model. `inputs` contains one value for each input of the signature, in order. Returns one value for each output of
    /// the signature, in order. All values are of types that the engine [passes](Self::passes).
    ///
    /// # Errors
    ///
    /// The engine's own error.
    fn run(
        &self,
        session: &Self::Session,
        signature: &Signature,
        inputs: &[OnnxValue<&TensorData>],
    ) -> Result<Vec<OnnxValue<TensorData>>, BoxError>;
}

/// The names and types of the inputs and outputs of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// The inputs.
    pub inputs: Vec<(String, PortType)>,
    /// The outputs.
    pub outputs: Vec<(String, PortType)>,
}

/// The type of an input or output of a model, without extents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortType {
    /// A tensor of this element type.
    Tensor(DataType),
    /// A sequence of values of this type.
    Sequence(Box<PortType>),
    /// A value of this type, or no value.
    Optional(Box<PortType>),
}

impl PortType {
    /// Returns the type of a value of a graph; `None` for a map, and if the type is not known.
    pub(crate) fn of(ty: &ValueType) -> Option<PortType> {
        Some(match ty {
            ValueType::Tensor { dtype, .. } => PortType::Tensor(*dtype),
            ValueType::Sequence(of) => PortType::Sequence(Box::new(PortType::of(of)?)),
            ValueType::Optional(of) => PortType::Optional(Box::new(PortType::of(of)?)),
            ValueType::Map(..) | ValueType::Unknown => return None,
        })
    }

    /// Returns the element type of the tensors.
    pub fn dtype(&self) -> DataType {
        match self {
            PortType::Tensor(dtype) => *dtype,
            PortType::Sequence(of) | PortType::Optional(of) => of.dtype(),
        }
    }

    /// Returns whether a value is of this type.
    pub(crate) fn fits(&self, x: &OnnxValue<&TensorData>) -> bool {
        match (self, x) {
            (PortType::Tensor(dtype), OnnxValue::Tensor(x)) => x.dtype() == *dtype,
            (PortType::Sequence(of), OnnxValue::Sequence(items)) => items.iter().all(|item| of.fits(item)),
            (PortType::Optional(_), OnnxValue::Absent) => true,
            (PortType::Optional(of), x) => of.fits(x),
            (PortType::Tensor(_) | PortType::Sequence(_), _) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats() -> ValueType {
        ValueType::Tensor { dtype: DataType::F32, shape: None }
    }

    #[test]
    fn maps_and_unknown_types_have_no_port_type() {
        let sequence = ValueType::Sequence(Box::new(floats()));
        let expected = PortType::Sequence(Box::new(PortType::Tensor(DataType::F32)));
        assert_eq!(PortType::of(&sequence), Some(expected));
        assert_eq!(PortType::of(&ValueType::Map(DataType::I64, Box::new(floats()))), None);
        assert_eq!(PortType::of(&ValueType::Optional(Box::new(ValueType::Unknown))), None);
    }

    #[test]
    fn a_value_fits_a_type_with_its_structure_and_element_type() {
        let tensor = PortType::Tensor(DataType::F32);
        let sequence = PortType::Sequence(Box::new(tensor.clone()));
        let optional = PortType::Optional(Box::new(sequence.clone()));
        let (x, ints) = (TensorData::scalar(1f32), TensorData::scalar(1i64));
        let one = OnnxValue::Sequence(vec![OnnxValue::Tensor(&x)]);
        assert!(tensor.fits(&OnnxValue::Tensor(&x)) && !tensor.fits(&OnnxValue::Tensor(&ints)));
        assert!(sequence.fits(&one) && sequence.fits(&OnnxValue::Sequence(Vec::new())));
        assert!(!sequence.fits(&OnnxValue::Sequence(vec![OnnxValue::Tensor(&ints)])));
        assert!(optional.fits(&one) && optional.fits(&OnnxValue::Absent));
        assert!(!sequence.fits(&OnnxValue::Absent) && !optional.fits(&OnnxValue::Tensor(&x)));
    }
}
