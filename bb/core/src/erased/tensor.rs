//! Type-erased tensors and errors.

use crate::{Backend, BoxError, Error, Tensor};
use bb_ir::DataType;
use std::any::Any;
use std::sync::Arc;

/// A type-erased tensor in its own allocation.
///
/// This type does not use [`Tensor::erase`], because the backend's author may override that method, and a mistake in it
/// must not look like a mistake in a kernel.
#[derive(Clone)]
pub struct ErasedTensor(Arc<dyn AnyTensor>);

/// The methods of tensors of any type.
pub(crate) trait AnyTensor: Any + Send + Sync {
    /// Returns the element type.
    fn dtype(&self) -> DataType;

    /// Returns the shape, outermost extent first.
    fn shape(&self) -> &[usize];

    /// Converts to `Any`, in the same allocation.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<T: Tensor> AnyTensor for T {
    fn dtype(&self) -> DataType {
        Tensor::dtype(self)
    }

    fn shape(&self) -> &[usize] {
        Tensor::shape(self)
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

impl ErasedTensor {
    /// Erases the type of a tensor.
    pub fn new<T: Tensor>(x: T) -> ErasedTensor {
        ErasedTensor(Arc::new(x))
    }

    /// Returns a reference as `AnyTensor`.
    pub(crate) fn any(&self) -> &dyn AnyTensor {
        &*self.0
    }

    /// Returns the tensor if it has the type `T`. Does not copy if this is the only handle.
    pub(super) fn into_typed<T: Tensor>(self) -> Option<T> {
        let own = self.0.into_any().downcast::<T>().ok()?;
        Some(Arc::try_unwrap(own).unwrap_or_else(|shared| (*shared).clone()))
    }

    /// Returns a reference to the tensor if it has the type `T`.
    pub fn get<T: Tensor>(&self) -> Option<&T> {
        let any: &dyn Any = &*self.0;
        any.downcast_ref()
    }
}

#[diagnostic::do_not_recommend]
impl Tensor for ErasedTensor {
    fn dtype(&self) -> DataType {
        self.0.dtype()
    }

    fn shape(&self) -> &[usize] {
        self.0.shape()
    }
}

impl std::fmt::Debug for ErasedTensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ErasedTensor({}{:?})", self.0.dtype(), self.0.shape())
    }
}

/// The error of a call on a type-erased backend. It has the message and the causes of the inner error.
#[derive(Debug, thiserror::Error)]
pub enum ErasedError {
    /// The backend's own error.
    #[error(transparent)]
    Backend(BoxError),

    /// An error of `bb`.
    #[error(transparent)]
    Bb(#[from] Error),
}

impl ErasedError {
    /// Returns the inner error.
    pub(crate) fn into_source(self) -> BoxError {
        match self {
            ErasedError::Backend(source) => source,
            ErasedError::Bb(error) => error.into(),
        }
    }

    /// Converts the error to the backend's own error type.
    pub fn typed<B: Backend + ?Sized>(self) -> B::Error {
        match self {
            ErasedError::Bb(error) => error.into(),
            ErasedError::Backend(source) => match source.downcast::<B::Error>() {
                Ok(own) => *own,
                Err(source) => {
                    let backend = std::any::type_name::<B>();
                    Error::Kernel { backend, op: "body", source }.into()
                }
            },
        }
    }
}

/// Boxes an error, for use as the cause of another error. An [`ErasedError`] is replaced by its inner error.
pub fn boxed<E: std::error::Error + Send + Sync + 'static>(error: E) -> BoxError {
    match BoxError::from(error).downcast::<ErasedError>() {
        Ok(erased) => erased.into_source(),
        Err(error) => error,
    }
}

/// Erases the type of a backend's own error.
pub fn own<B: Backend + ?Sized>(error: B::Error) -> ErasedError {
    ErasedError::Backend(error.into())
}

/// Returns the error for an operand that is a tensor of another backend.
pub fn foreign(op: &'static str, index: usize) -> Error {
    Error::Operand { op, index, expected: "a tensor of this backend" }
}
