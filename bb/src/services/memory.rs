//! How much memory a backend uses, its limit, and buffers of others.

use super::ServiceError;
use bb_ir::{DataType, Shape};
use std::any::Any;
use std::sync::Arc;

/// How much memory a backend uses.
///
/// Units: bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct MemoryStatistics {
    /// The bytes of buffers that tensors use.
    pub live: u64,
    /// The bytes of buffers that are kept for later tensors.
    pub pooled: u64,
    /// The greatest value that `live + pooled` had.
    pub peak: u64,
    /// The greatest allowed value of `live + pooled`; `None` if there is no limit.
    pub limit: Option<u64>,
    /// The bytes that the device or the system still has, as far as the backend knows.
    pub available: Option<u64>,
}

impl MemoryStatistics {
    /// Makes the statistics.
    pub fn new(live: u64, pooled: u64, peak: u64, limit: Option<u64>) -> MemoryStatistics {
        MemoryStatistics { live, pooled, peak, limit, available: None }
    }

    /// Returns the statistics with the bytes that the device or the system still has.
    #[must_use]
    pub fn with_available(self, bytes: Option<u64>) -> MemoryStatistics {
        MemoryStatistics { available: bytes, ..self }
    }

    /// Returns how many bytes can still be allocated: what the limit leaves, and what the device has; `None` if neither is
    /// known.
    pub fn can_allocate(&self) -> Option<u64> {
        let within = self.limit.map(|limit| limit.saturating_sub(self.live));
        // Unused buffers are used again or freed.
        let there = self.available.map(|bytes| bytes.saturating_add(self.pooled));
        within.into_iter().chain(there).min()
    }
}

/// An allocation that does not fit into the limit.
///
/// A backend's error has this among its causes, so that [`Error::memory_pressure`](crate::Error::memory_pressure) finds it.
///
/// Units: bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{asked} bytes do not fit: {live} of at most {limit} bytes are in use")]
#[non_exhaustive]
pub struct Pressure {
    /// The bytes of the allocation.
    pub asked: u64,
    /// The bytes of buffers that tensors use.
    pub live: u64,
    /// The limit.
    pub limit: u64,
}

impl Pressure {
    /// Makes the description of an allocation that does not fit.
    pub fn new(asked: u64, live: u64, limit: u64) -> Pressure {
        Pressure { asked, live, limit }
    }
}

/// A function that is called before a limit fails an allocation. It may drop tensors; then the allocation is tried once more.
///
/// The backend holds none of its locks during the call. The function may call the backend, but an allocation that fails
/// within it does not call it again.
pub type PressureCallback = Arc<dyn Fn(&Pressure) + Send + Sync>;

/// A buffer that something other than this backend made or will use.
///
/// What `handle` may be is for each backend to say: the CPU backend takes and returns `bb_dlpack::Managed`; a backend of a
/// device may take that device's own type of buffers.
pub struct ForeignBuffer {
    /// The element type.
    pub dtype: DataType,
    /// The shape, outermost extent first.
    pub shape: Shape,
    /// The buffer, which the receiver owns.
    pub handle: Box<dyn Any + Send>,
}

impl ForeignBuffer {
    /// Describes a buffer.
    pub fn new(dtype: DataType, shape: &[usize], handle: impl Any + Send) -> ForeignBuffer {
        ForeignBuffer { dtype, shape: Shape::from_slice(shape), handle: Box::new(handle) }
    }
}

impl std::fmt::Debug for ForeignBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ForeignBuffer({}{:?})", self.dtype, self.shape)
    }
}

/// The memory of a backend, whose tensors are of type `T`.
pub trait Memory<T>: Send + Sync {
    /// Returns how much memory the backend uses now.
    fn statistics(&self) -> MemoryStatistics;

    /// Sets the greatest number of bytes that the backend allocates; `None` removes the limit.
    ///
    /// A limit below what is in use fails the next allocations; it frees nothing that is in use.
    ///
    /// # Errors
    ///
    /// [`ServiceError::Unsupported`], which is what the default returns.
    fn set_limit(&self, bytes: Option<u64>) -> Result<(), ServiceError> {
        let _unused = bytes;
        Err(ServiceError::Unsupported { what: "a memory limit" })
    }

    /// Frees unused buffers until at most `keep` bytes of them are left. Returns the number of freed bytes.
    ///
    /// The default keeps no unused buffers, so it frees nothing.
    ///
    /// # Errors
    ///
    /// The backend's own error.
    fn trim(&self, keep: u64) -> Result<u64, ServiceError> {
        let _unused = keep;
        Ok(0)
    }

    /// Sets the function that is called before a limit fails an allocation; `None` removes it.
    ///
    /// # Errors
    ///
    /// [`ServiceError::Unsupported`], which is what the default returns.
    fn set_pressure_callback(&self, callback: Option<PressureCallback>) -> Result<(), ServiceError> {
        let _unused = callback;
        Err(ServiceError::Unsupported { what: "a callback for memory pressure" })
    }

    /// Makes a tensor of a buffer, without copying it where this is possible. The tensor releases the buffer.
    ///
    /// # Errors
    ///
    /// [`ServiceError::Foreign`] if the backend cannot use this buffer; [`ServiceError::Unsupported`], which is what the
    /// default returns.
    fn import(&self, buffer: ForeignBuffer) -> Result<T, ServiceError> {
        let _unused = buffer;
        Err(ServiceError::Unsupported { what: "importing buffers" })
    }

    /// Returns the buffer of a tensor. The buffer keeps the memory alive, and nobody may write to it.
    ///
    /// # Errors
    ///
    /// As [`import`](Self::import).
    fn export(&self, tensor: &T) -> Result<ForeignBuffer, ServiceError> {
        let _unused = tensor;
        Err(ServiceError::Unsupported { what: "exporting buffers" })
    }
}
