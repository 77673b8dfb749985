//! The trait that an engine's crate implements.

use crate::Gap;
use bb::{BoxError, DataType, TensorData};

/// An engine that loads and runs serialized ONNX models.
pub trait Engine: Send + Sync + 'static {
    /// A loaded model, which several threads share.
    type Session: Send + Sync;

    /// The name of the engine for messages.
    const NAME: &'static str;

    /// Lists the calls that the engine cannot run as ONNX defines them.
    fn gaps(&self) -> &'static [Gap];

    /// Returns whether tensors of this element type can be passed to the engine and returned from it.
    fn passes(&self, dtype: DataType) -> bool;

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

    /// Runs a model. `inputs` contains one tensor for each input of the signature, in order. Returns
    /// one tensor for each output of the signature, in order.
    ///
    /// # Errors
    ///
    /// The engine's own error.
    fn run(
        &self,
        session: &Self::Session,
        signature: &Signature,
        inputs: &[&TensorData],
    ) -> Result<Vec<TensorData>, BoxError>;
}

/// The names and element types of the inputs and outputs of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// The inputs.
    pub inputs: Vec<(String, DataType)>,
    /// The outputs.
    pub outputs: Vec<(String, DataType)>,
}
