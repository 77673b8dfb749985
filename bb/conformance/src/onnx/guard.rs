//! A backend that is called only for the element types that it declares.

use bb_core::ext::{ErasedTensor, Kernels, Owned};
use bb_core::{Backend, BoxError, DataType, Outputs, TensorData};
use bb_ir::op::{Param, Primitive};
use std::error::Error;

/// Forwards calls to a backend, unless an operand, a parameter or a result has a type that the backend does not
/// declare.
pub(super) struct Guard {
    backend: Box<dyn Kernels>,
    types: &'static [DataType],
}

/// Why a guarded call failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum GuardError {
    /// The call has an element type that the backend does not declare.
    #[error("needs {0}, which the backend does not claim")]
    Needs(DataType),

    /// The backend failed.
    #[error(transparent)]
    Backend(BoxError),
}

impl From<bb_core::Error> for GuardError {
    fn from(error: bb_core::Error) -> Self {
        GuardError::Backend(error.into())
    }
}

/// Returns the undeclared element type that caused a failure, if there is one among its causes.
pub(super) fn needed(error: &(dyn Error + 'static)) -> Option<DataType> {
    let causes = std::iter::successors(Some(error), |e| (*e).source());
    causes.into_iter().find_map(|cause| match cause.downcast_ref() {
        Some(GuardError::Needs(dtype)) => Some(*dtype),
        Some(GuardError::Backend(_)) | None => None,
    })
}

impl Guard {
    pub(super) fn new<B: Backend + 'static>(backend: B, types: &'static [DataType]) -> Guard {
        Guard { backend: Box::new(Owned { backend, tables: &[] }), types }
    }

    fn claimed(&self, dtype: DataType) -> Result<(), GuardError> {
        if self.types.contains(&dtype) { Ok(()) } else { Err(GuardError::Needs(dtype)) }
    }

    fn apply(
        &self,
        op: Primitive,
        inputs: &[Option<&ErasedTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<ErasedTensor>, GuardError> {
        for operand in inputs.iter().flatten() {
            self.claimed(bb_core::Tensor::dtype(*operand))?;
        }
        for param in params {
            match param {
                Param::Type(dtype) => self.claimed(*dtype)?,
                Param::Data(data) => self.claimed(data.dtype())?,
                _ => {}
            }
        }
        let results =
            self.backend.primitive(op, inputs, params).map_err(|error| GuardError::Backend(error.into()))?;
        for result in &results {
            self.claimed(bb_core::Tensor::dtype(result))?;
        }
        Ok(results)
    }
}

impl Backend for Guard {
    type Tensor = ErasedTensor;
    type Error = GuardError;

    bb_core::forward_to_call!(Self::apply);

    fn to_host(&self, x: &ErasedTensor) -> Result<TensorData, GuardError> {
        self.backend.to_host(x).map_err(|error| GuardError::Backend(error.into()))
    }
}
