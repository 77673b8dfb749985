//! Converts values to erased tensors and back, and converts failures of backends to errors.

use super::status::Counters;
use super::{BackendId, Value};
use crate::contract::{catch, mapped};
use crate::erased::ErasedTensor;
use crate::{BackendOrigin, Error, Outputs};
use smallvec::SmallVec;
use std::collections::HashMap;

/// Returns the results of an operation as values.
#[inline]
pub(super) fn values(owner: BackendId, tensors: Outputs<ErasedTensor>) -> Outputs<Value> {
    mapped(tensors, |x| Value::new(x, owner))
}

/// Returns named tensors as values.
pub(super) fn named_values(
    owner: BackendId,
    tensors: HashMap<String, ErasedTensor>,
) -> HashMap<String, Value> {
    tensors.into_iter().map(|(name, x)| (name, Value::new(x, owner))).collect()
}

/// Returns the tensor of a value.
///
/// # Errors
///
/// [`Error::ForeignTensor`] if the tensor belongs to another instance.
#[inline]
pub(super) fn tensor<'a>(
    op: &'static str,
    owner: BackendId,
    value: &'a Value,
) -> Result<&'a ErasedTensor, Error> {
    match value.owner() == owner {
        true => Ok(value.tensor()),
        false => Err(Error::ForeignTensor { op, expected: owner, got: value.owner() }),
    }
}

/// Operands of a call.
pub(super) type Operands<'a> = SmallVec<[Option<&'a ErasedTensor>; 4]>;

/// Returns the tensors of operands.
///
/// # Errors
///
/// The error of [`tensor`].
#[inline]
pub(super) fn operands<'a>(
    op: &'static str,
    owner: BackendId,
    values: &[Option<&'a Value>],
) -> Result<Operands<'a>, Error> {
    let mut operands = SmallVec::new();
    for value in values {
        operands.push(match value {
            Some(value) => Some(tensor(op, owner, value)?),
            None => None,
        });
    }
    Ok(operands)
}

/// Returns the tensors of named values.
///
/// # Errors
///
/// The error of [`tensor`].
pub(super) fn named_tensors(
    op: &'static str,
    owner: BackendId,
    values: HashMap<String, Value>,
) -> Result<HashMap<String, ErasedTensor>, Error> {
    values.into_iter().map(|(name, value)| Ok((name, tensor(op, owner, &value)?.clone()))).collect()
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
pub(super) fn panicked(counters: &Counters, owner: BackendId, op: &'static str, message: String) -> Error {
    counters.panicked();
    Error::Panicked { backend: owner.name(), op, message }
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
