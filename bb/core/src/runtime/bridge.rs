//! Converts erased tensors to typed tensors and back, and converts failures of backends to errors.
//!
//! Only this module restores the type of a tensor. Its functions are generic over the backend and independent of
//! operations. [`Runtime`](super::Runtime) calls them.

use super::status::Counters;
use super::{BackendId, Value};
use crate::contract::catch;
use crate::ext::ErasedError;
use crate::{Backend, BackendOrigin, Error, Outputs, Tensor};
use std::collections::HashMap;

/// Erases a tensor's type.
#[inline]
pub(super) fn erase<T: Tensor>(owner: BackendId, tensor: T) -> Value {
    Value::new(tensor.erase(), owner)
}

/// A placeholder tensor without elements. It replaces a tensor that is being changed.
struct Nothing;

impl crate::SlotValue for Nothing {
    fn dtype(&self) -> bb_ir::DataType {
        bb_ir::DataType::U8
    }

    fn shape(&self) -> &[usize] {
        &[0]
    }
}

/// Returns a value that contains a placeholder. Restoring it fails.
pub(super) fn nothing(owner: BackendId) -> Value {
    Value::new(std::sync::Arc::new(Nothing), owner)
}

/// Erases the results of an operation.
#[inline]
pub(super) fn erase_all<T: Tensor>(owner: BackendId, mut tensors: Outputs<T>) -> Outputs<Value> {
    // This fast path exists because most operations have one result, and popping it is cheaper than moving an
    // iterator.
    match (tensors.len(), tensors.pop()) {
        (1, Some(only)) => Outputs::from_buf([erase(owner, only)]),
        (_, None) => Outputs::new(),
        (_, Some(last)) => {
            tensors.push(last);
            tensors.into_iter().map(|t| erase(owner, t)).collect()
        }
    }
}

/// Erases named tensors.
pub(super) fn erase_named<T: Tensor>(
    owner: BackendId,
    tensors: HashMap<String, T>,
) -> HashMap<String, Value> {
    tensors.into_iter().map(|(name, t)| (name, erase(owner, t))).collect()
}

/// Restores a tensor's type.
///
/// # Errors
///
/// [`Error::ForeignTensor`] if the tensor belongs to another instance.
#[inline]
pub(super) fn restore<T: Tensor>(op: &'static str, owner: BackendId, value: &Value) -> Result<T, Error> {
    let foreign = || Error::ForeignTensor { op, expected: owner, got: value.owner() };
    if value.owner() != owner {
        return Err(foreign());
    }
    T::restore(value.slot()).ok_or_else(foreign)
}

/// The maximum number of operands that are restored without a heap allocation. Almost every operation has at most
/// this many.
const FEW: usize = 4;

/// Restores operands and calls `body` with them.
///
/// # Errors
///
/// The errors of [`restore`] and of `body`.
#[inline]
pub(super) fn with_operands<T: Tensor, R>(
    op: &'static str,
    owner: BackendId,
    values: &[Option<&Value>],
    body: impl FnOnce(&[Option<&T>]) -> Result<R, Error>,
) -> Result<R, Error> {
    let restore = |value: &Option<&Value>| value.map(|v| restore::<T>(op, owner, v)).transpose();
    if values.len() > FEW {
        let owned = values.iter().map(restore).collect::<Result<Vec<Option<T>>, Error>>()?;
        let operands: Vec<Option<&T>> = owned.iter().map(Option::as_ref).collect();
        return body(&operands);
    }
    let mut owned: [Option<T>; FEW] = [const { None }; FEW];
    for (place, value) in owned.iter_mut().zip(values) {
        *place = restore(value)?;
    }
    let operands = owned.each_ref().map(Option::as_ref);
    body(operands.get(..values.len()).unwrap_or_default())
}

/// Restores named tensors.
///
/// # Errors
///
/// The errors of [`restore`].
pub(super) fn restore_named<T: Tensor>(
    op: &'static str,
    owner: BackendId,
    values: HashMap<String, Value>,
) -> Result<HashMap<String, T>, Error> {
    values.into_iter().map(|(name, value)| Ok((name, restore(op, owner, &value)?))).collect()
}

/// Runs code of a backend's author as one call. A panic becomes [`Error::Panicked`].
///
/// Erasing and restoring tensors also runs the author's code, so both must happen in `body`.
///
/// A panic leaves no data of `bb` half-written, because `bb` passes no mutable data to the backend. The backend must
/// keep its own state valid. The panic hook still runs.
///
/// # Errors
///
/// [`Error::ShutDown`] if the backend is shut down; the errors of `body`.
#[inline]
pub(super) fn enter<R>(
    counters: &Counters,
    owner: BackendId,
    op: &'static str,
    body: impl FnOnce() -> Result<R, Error>,
) -> Result<R, Error> {
    let _running = counters.begin(owner)?;
    contain(counters, owner, op, body)
}

/// Runs code of a backend's author within a call that was already counted. Failures and panics are counted.
///
/// # Errors
///
/// As [`enter`].
#[inline]
pub(super) fn contain<R>(
    counters: &Counters,
    owner: BackendId,
    op: &'static str,
    body: impl FnOnce() -> Result<R, Error>,
) -> Result<R, Error> {
    // The result type does not change on the way, so that large results are moved rarely.
    let result = catch(body).unwrap_or_else(|message| Err(panicked(counters, owner, op, message)));
    if let Err(error) = &result {
        counters.failed(error);
    }
    result
}

/// Counts a panic, and returns its error.
#[cold]
fn panicked(counters: &Counters, owner: BackendId, op: &'static str, message: String) -> Error {
    counters.panicked();
    Error::Panicked { backend: owner.name(), op, message }
}

/// Converts a backend's own error to [`Error::Kernel`].
#[cold]
pub(super) fn kernel<B: Backend>(owner: BackendId, op: &'static str, error: B::Error) -> Error {
    let source: Box<dyn std::any::Any> = Box::new(error);
    let source = match source.downcast::<ErasedError>() {
        // The backend lacks element types and was wrapped, so the error contains the inner backend's own error.
        Ok(erased) => erased.into_source(),
        Err(own) => match own.downcast::<B::Error>() {
            Ok(own) => own,
            Err(_) => return Error::excluded("an error to be of its own type"),
        },
    };
    Error::Kernel { backend: owner.name(), op, source }
}

/// Runs the constructor of a backend, or the function that lists its devices.
///
/// # Errors
///
/// [`Error::Unavailable`], with the origin of a linked backend, if the function fails or panics.
pub(super) fn construct<R>(
    backend: &'static str,
    create: impl FnOnce() -> Result<R, crate::BoxError>,
) -> Result<R, Error> {
    let made = catch(create)
        .unwrap_or_else(|message| Err(Error::Panicked { backend, op: "create", message }.into()));
    made.map_err(|source| Error::Unavailable { backend, origin: BackendOrigin::Linked, source })
}
