//! Type-erased tensors and errors.

use crate::{Backend, BoxError, Error, SlotValue, Tensor};
use bb_ir::DataType;
use std::any::Any;
use std::sync::Arc;

/// A tensor whose type is erased ([`Tensor::erase`]). A clone refers to the same tensor.
#[derive(Clone)]
pub struct ErasedTensor(Arc<dyn SlotValue>);

/// The methods of tensors of any type.
pub(crate) trait AnyTensor: Send + Sync {
    /// Returns the element type.
    fn dtype(&self) -> DataType;

    /// Returns the shape, outermost extent first.
    fn shape(&self) -> &[usize];
}

impl<T: Tensor> AnyTensor for T {
    fn dtype(&self) -> DataType {
        Tensor::dtype(self)
    }

    fn shape(&self) -> &[usize] {
        Tensor::shape(self)
    }
}

impl ErasedTensor {
    /// Erases the type of a tensor.
    pub fn new<T: Tensor>(x: T) -> ErasedTensor {
        ErasedTensor(x.erase())
    }

    /// Returns a tensor without elements that replaces a tensor while it is changed. No backend accepts it.
    pub(crate) fn placeholder() -> ErasedTensor {
        ErasedTensor(Arc::new(Placeholder))
    }

    /// Returns a reference as `AnyTensor`.
    pub(crate) fn any(&self) -> &dyn AnyTensor {
        self
    }

    /// Returns the tensor if it has the type `T`. If this is the only handle, the result is the only handle.
    pub(super) fn into_typed<T: Tensor>(self) -> Option<T> {
        T::restore(&self.0)
    }

    /// Returns a handle to the tensor if it has the type `T`.
    pub fn get<T: Tensor>(&self) -> Option<T> {
        T::restore(&self.0)
    }

    /// Returns the address of the tensor. It differs between tensors that exist at the same time, and is the same for
    /// clones.
    pub fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }
}

/// The tensor of [`ErasedTensor::placeholder`].
struct Placeholder;

impl SlotValue for Placeholder {
    fn dtype(&self) -> DataType {
        DataType::U8
    }

    fn shape(&self) -> &[usize] {
        &[0]
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

    // An erased tensor stays as it is, so that a layer on an erased backend allocates nothing.
    fn erase(self) -> Arc<dyn SlotValue> {
        self.0
    }

    fn restore(value: &Arc<dyn SlotValue>) -> Option<ErasedTensor> {
        Some(ErasedTensor(value.clone()))
    }
}

impl std::fmt::Debug for ErasedTensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ErasedTensor({}{:?})", self.0.dtype(), self.0.shape())
    }
}

/// The error of a call on a type-erased backend: the backend's own error or an error of `bb`. It has the message and the
/// causes of that inner error.
///
/// The inner error is boxed, so that results of calls are small and cheap to move.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ErasedError(BoxError);

impl From<Error> for ErasedError {
    #[cold]
    fn from(error: Error) -> ErasedError {
        ErasedError(error.into())
    }
}

impl From<BoxError> for ErasedError {
    fn from(source: BoxError) -> ErasedError {
        ErasedError(source)
    }
}

impl ErasedError {
    /// Borrows the inner error. Its cause is the cause of this error.
    pub(crate) fn inner(&self) -> &(dyn std::error::Error + 'static) {
        &*self.0
    }

    /// Returns the inner error.
    pub(crate) fn into_source(self) -> BoxError {
        self.0
    }

    /// Returns the inner error if it is an error of `bb`.
    pub(crate) fn as_bb(&self) -> Option<&Error> {
        self.0.downcast_ref()
    }

    /// Returns the error of `bb` that this error is, or that it wraps on its backend ([`Backend::wrapped`]).
    pub fn wrapped_by<B: Backend>(&self, on: &B) -> Option<&Error> {
        self.as_bb().or_else(|| on.wrapped_in(self.inner()))
    }

    /// Converts the error to the backend's own error type.
    pub fn typed<B: Backend + ?Sized>(self) -> B::Error {
        let own: Box<dyn Any> = Box::new(self);
        let error = match own.downcast::<B::Error>() {
            Ok(own) => return *own,
            Err(other) => match other.downcast::<ErasedError>() {
                Ok(error) => *error,
                Err(_) => return Error::excluded("an error to be of its own type").into(),
            },
        };
        let source = match error.0.downcast::<B::Error>() {
            Ok(own) => return *own,
            Err(source) => source,
        };
        match source.downcast::<Error>() {
            Ok(error) => (*error).into(),
            Err(source) => Error::Kernel { backend: std::any::type_name::<B>(), op: "body", source }.into(),
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

/// Erases the type of a backend's own error. An [`ErasedError`] stays as it is.
#[cold]
pub fn own<B: Backend + ?Sized>(error: B::Error) -> ErasedError {
    match BoxError::from(error).downcast::<ErasedError>() {
        Ok(erased) => *erased,
        Err(error) => ErasedError(error),
    }
}

/// Returns the error for an operand that is a tensor of another backend.
pub fn foreign(op: &'static str, index: usize) -> Error {
    Error::Operand { op, index, expected: "a tensor of this backend" }
}
