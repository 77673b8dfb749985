//! Tensors that are stored on one or more of several backends, and their transfers.

use crate::{BackendHandle, DataType, Error, Shape, TensorData, Value};
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A tensor of [`FirstOf`](crate::FirstOf).
///
/// The tensor is stored where it was computed. The first time that an operation on another backend reads it, it is copied there, and
/// both copies stay until the tensor is dropped. Elements that come from the host stay there, too, so that they survive the loss of a
/// device.
#[derive(Clone)]
pub struct PlacedTensor(Arc<TensorCopies>);

struct TensorCopies {
    dtype: DataType,
    shape: Shape,
    copies: Mutex<Copies>,
}

/// The copies of a tensor. There is at least one copy, on the host or on a backend.
#[derive(Default)]
struct Copies {
    host: Option<TensorData>,
    on: SmallVec<[Value; 1]>,
}

impl Copies {
    /// Reads the elements from the host copy, or from the first backend that still responds.
    fn read(&self) -> Result<TensorData, Error> {
        if let Some(host) = &self.host {
            return Ok(host.clone());
        }
        let mut failed = Error::Abandoned;
        for value in &self.on {
            match value.to_host(usize::MAX) {
                Ok(host) => return Ok(host),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }
}

impl PlacedTensor {
    pub(crate) fn of_host(data: TensorData) -> PlacedTensor {
        let (dtype, shape) = (data.dtype(), data.shape().into());
        let copies = Copies { host: Some(data), on: SmallVec::new() };
        PlacedTensor(Arc::new(TensorCopies { dtype, shape, copies: Mutex::new(copies) }))
    }

    pub(crate) fn of_value(value: Value) -> PlacedTensor {
        let (dtype, shape) = (value.dtype(), value.shape().into());
        let copies = Copies { host: None, on: SmallVec::from_buf([value]) };
        PlacedTensor(Arc::new(TensorCopies { dtype, shape, copies: Mutex::new(copies) }))
    }

    fn copies(&self) -> MutexGuard<'_, Copies> {
        self.0.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the tensor on a backend, and copies it there first if necessary. If the elements come from another backend, `moved` is
    /// called with their size in bytes.
    ///
    /// # Errors
    ///
    /// The errors of the backend that has the elements, and of the backend that receives them.
    pub(crate) fn on(&self, backend: &BackendHandle, moved: impl FnOnce(usize)) -> Result<Value, Error> {
        // The lock is held during the copy, so that two operations do not copy the tensor twice.
        let mut copies = self.copies();
        if let Some(value) = copies.on.iter().find(|value| value.owner() == backend.owner()) {
            return Ok(value.clone());
        }
        let host = copies.read()?;
        let value = backend.runtime().constant(&host)?;
        if copies.host.is_none() {
            moved(host.byte_len());
        }
        copies.on.push(value.clone());
        Ok(value)
    }

    /// Returns the tensor on the backend that computed it; `None` if it comes from the host.
    pub(crate) fn computed(&self) -> Option<Value> {
        self.copies().on.first().cloned()
    }

    /// Returns whether the tensor is on a backend.
    pub(crate) fn lies_on(&self, backend: &BackendHandle) -> bool {
        self.copies().on.iter().any(|value| value.owner() == backend.owner())
    }

    pub(crate) fn to_host(&self) -> Result<TensorData, Error> {
        self.copies().read()
    }

    pub(crate) fn byte_len(&self) -> usize {
        let elements = bb_ir::element_count(&self.0.shape);
        elements.and_then(|elements| self.0.dtype.bytes_for(elements)).unwrap_or(0)
    }
}

#[diagnostic::do_not_recommend]
impl crate::Tensor for PlacedTensor {
    fn dtype(&self) -> DataType {
        self.0.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.0.shape
    }
}

impl std::fmt::Debug for PlacedTensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PlacedTensor({}{:?})", self.0.dtype, self.0.shape)
    }
}
