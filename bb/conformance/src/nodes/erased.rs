//! Wraps a running backend of erased type as a [`Backend`], to run the iterations of nodes with subgraphs.

use bb_core::ext::{ErasedError, ErasedTensor, foreign};
use bb_core::{Backend, DataType, Error, Outputs, Runtime, Tensor, TensorData, Value};
use bb_ir::op::{Param, Primitive};
use std::sync::Arc;

/// A tensor of a running backend.
#[derive(Clone)]
pub(super) struct BackendTensor(Value);

impl BackendTensor {
    /// Wraps a value as a tensor for the iterations of a node.
    pub(super) fn erased(value: &Value) -> ErasedTensor {
        ErasedTensor::new(BackendTensor(value.clone()))
    }

    /// Returns the value of a tensor that an iteration computed.
    pub(super) fn value(tensor: &ErasedTensor) -> Result<Value, Error> {
        let own = tensor.get::<BackendTensor>().ok_or_else(|| foreign("round", 0))?;
        Ok(own.0)
    }
}

impl Tensor for BackendTensor {
    fn dtype(&self) -> DataType {
        self.0.dtype()
    }

    fn shape(&self) -> &[usize] {
        self.0.shape()
    }
}

/// Converts an error of an iteration to an error of `bb`.
pub(super) fn to_error(error: ErasedError) -> Error {
    error.typed::<Erased<'_>>()
}

/// A running backend.
#[derive(Clone, Copy)]
pub(super) struct Erased<'a>(pub(super) &'a Arc<Runtime>);

impl Erased<'_> {
    fn apply(
        &self,
        op: Primitive,
        inputs: &[Option<&BackendTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<BackendTensor>, Error> {
        let inputs: Vec<Option<&Value>> = inputs.iter().map(|x| x.map(|x| &x.0)).collect();
        Ok(self.0.dispatch_atomic(op.spec(), &inputs, params)?.into_iter().map(BackendTensor).collect())
    }
}

impl Backend for Erased<'_> {
    type Tensor = BackendTensor;
    type Error = Error;

    bb_core::forward_to_call!(Self::apply);

    fn to_host(&self, x: &BackendTensor) -> Result<TensorData, Error> {
        self.0.to_host(&x.0)
    }
}
