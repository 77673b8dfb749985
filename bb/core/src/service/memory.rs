//! The memory service: statistics, a limit, and buffers of other libraries.

use super::ServiceError;
use bb_ir::op::{OpSpec, Param};
use bb_ir::{DataType, Shape};
use std::any::Any;
use std::sync::Arc;

/// The memory use of a backend.
///
/// Units: bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct MemoryStatistics {
    /// The size of the buffers that tensors use.
    pub live: u64,
    /// The size of the buffers that are kept for later tensors.
    pub pooled: u64,
    /// The maximum value that `live + pooled` has reached.
    pub peak: u64,
    /// The maximum allowed value of `live + pooled`; `None` if there is no limit.
    pub limit: Option<u64>,
    /// The number of bytes that the device or the system still has, if the backend can determine it.
    pub available: Option<u64>,
}

impl MemoryStatistics {
    /// Creates the statistics.
    pub fn new(live: u64, pooled: u64, peak: u64, limit: Option<u64>) -> MemoryStatistics {
        MemoryStatistics { live, pooled, peak, limit, available: None }
    }

    /// Returns the statistics with the number of bytes that the device or the system still has.
    #[must_use]
    pub fn with_available(self, bytes: Option<u64>) -> MemoryStatistics {
        MemoryStatistics { available: bytes, ..self }
    }

    /// Returns how many bytes can still be allocated: the minimum of the remaining limit and the free memory of the
    /// device; `None` if neither is known.
    pub fn can_allocate(&self) -> Option<u64> {
        let within = self.limit.map(|limit| limit.saturating_sub(self.live));
        // Pooled buffers count as available, because they can be reused or freed.
        let there = self.available.map(|bytes| bytes.saturating_add(self.pooled));
        within.into_iter().chain(there).min()
    }
}

/// The memory of one pool of a backend.
///
/// Units: bytes, unless a field specifies otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStatistics {
    /// The name of the pool.
    pub name: String,
    /// The size of a block, if all blocks of the pool have the same size.
    pub block: Option<u64>,
    /// The size of the buffers that tensors use; `None` if the backend counts it only for all pools together.
    pub live: Option<u64>,
    /// The size of the buffers that are kept for later tensors.
    pub pooled: u64,
}

impl PoolStatistics {
    /// Describes a pool.
    pub fn new(name: impl Into<String>, live: Option<u64>, pooled: u64) -> PoolStatistics {
        PoolStatistics { name: name.into(), block: None, live, pooled }
    }

    /// Returns the description with the size of a block.
    #[must_use]
    pub fn with_block(self, bytes: u64) -> PoolStatistics {
        PoolStatistics { block: Some(bytes), ..self }
    }
}

/// An allocation that exceeds the memory limit.
///
/// A backend's error must have this among its causes, so that [`Error::memory_pressure`](crate::Error::memory_pressure)
/// finds it.
///
/// Units: bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{asked} bytes do not fit: {live} of at most {limit} bytes are in use")]
#[non_exhaustive]
pub struct Pressure {
    /// The size of the allocation.
    pub asked: u64,
    /// The size of the buffers that tensors use.
    pub live: u64,
    /// The limit.
    pub limit: u64,
}

impl Pressure {
    /// Creates the description of an allocation that exceeds the limit.
    pub fn new(asked: u64, live: u64, limit: u64) -> Pressure {
        Pressure { asked, live, limit }
    }
}

/// An allocation that failed because the system or a device is out of memory.
///
/// A backend's error must have this among its causes, so that its kind is
/// [`ErrorKind::Limit`](crate::ErrorKind::Limit).
///
/// Units: bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no memory for {asked} bytes")]
#[non_exhaustive]
pub struct OutOfMemory {
    /// The size of the allocation.
    pub asked: u64,
}

impl OutOfMemory {
    /// Creates the description of an allocation that failed.
    pub fn new(asked: u64) -> OutOfMemory {
        OutOfMemory { asked }
    }
}

/// A function that is called before an allocation fails because of the limit. It may drop tensors; then the allocation
/// is retried once.
///
/// The backend holds no locks during the call, so the function may call the backend. If an allocation inside the
/// function fails, the function is not called again.
pub type PressureCallback = Arc<dyn Fn(&Pressure) + Send + Sync>;

/// A buffer that another library or device created or will use.
///
/// Each backend defines the types of `handle` that it accepts. The CPU backend accepts and returns
/// `bb_dlpack::Managed`; a backend of another device may use that device's own buffer type.
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
    /// Returns the current memory use of the backend.
    fn statistics(&self) -> MemoryStatistics;

    /// Sets the maximum number of bytes that the backend allocates; `None` removes the limit.
    ///
    /// If the limit is below the memory in use, no memory in use is freed, but the next allocations fail.
    ///
    /// # Errors
    ///
    /// [`ServiceError::Unsupported`] by default.
    fn set_limit(&self, bytes: Option<u64>) -> Result<(), ServiceError> {
        let _unused = bytes;
        Err(ServiceError::Unsupported { what: "a memory limit" })
    }

    /// Frees unused buffers until at most `keep` bytes of unused buffers remain. Returns the number of freed bytes.
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

    /// Sets the function that is called before an allocation fails because of the limit; `None` removes it.
    ///
    /// # Errors
    ///
    /// [`ServiceError::Unsupported`] by default.
    fn set_pressure_callback(&self, callback: Option<PressureCallback>) -> Result<(), ServiceError> {
        let _unused = callback;
        Err(ServiceError::Unsupported { what: "a callback for memory pressure" })
    }

    /// Creates a tensor from a buffer, without a copy if possible. The tensor releases the buffer.
    ///
    /// # Errors
    ///
    /// [`ServiceError::Foreign`] if the backend cannot use this buffer; [`ServiceError::Unsupported`] by default.
    fn import(&self, buffer: ForeignBuffer) -> Result<T, ServiceError> {
        let _unused = buffer;
        Err(ServiceError::Unsupported { what: "importing buffers" })
    }

    /// Returns the buffer of a tensor. The buffer keeps the memory alive, and must not be written to.
    ///
    /// # Errors
    ///
    /// The errors of [`import`](Self::import).
    fn export(&self, tensor: &T) -> Result<ForeignBuffer, ServiceError> {
        let _unused = tensor;
        Err(ServiceError::Unsupported { what: "exporting buffers" })
    }

    /// Returns the statistics of each pool. Their sums equal [`statistics`](Self::statistics).
    ///
    /// The default describes all memory as one pool.
    fn pools(&self) -> Vec<PoolStatistics> {
        let all = self.statistics();
        vec![PoolStatistics::new("all", Some(all.live), all.pooled)]
    }

    /// Moves buffers so that free memory becomes contiguous. Returns the number of bytes that became free.
    ///
    /// # Errors
    ///
    /// [`ServiceError::NotNeeded`] if the memory is not fragmented; [`ServiceError::Unsupported`] by default.
    fn defragment(&self) -> Result<u64, ServiceError> {
        Err(ServiceError::Unsupported { what: "defragmentation" })
    }

    /// Creates a tensor of zeros whose memory begins at a multiple of `alignment`.
    ///
    /// Units: `alignment` is in bytes. It is a power of two, which the runtime has checked.
    ///
    /// # Errors
    ///
    /// [`ServiceError::Unsupported`] by default; the backend's own error.
    fn allocate(&self, dtype: DataType, shape: &[usize], alignment: u64) -> Result<T, ServiceError> {
        let _unused = (dtype, shape, alignment);
        Err(ServiceError::Unsupported { what: "aligned memory" })
    }

    /// Calls `body` with the bytes of a tensor, in row-major order as in [`TensorData`](crate::TensorData). The runtime
    /// never passes a tensor of strings.
    ///
    /// # Errors
    ///
    /// [`ServiceError::Unsupported`] by default, and then `body` must not have been called; the backend's own
    /// error.
    fn map(&self, tensor: &T, body: &mut dyn FnMut(&[u8])) -> Result<(), ServiceError> {
        let _unused = (tensor, body);
        Err(ServiceError::Unsupported { what: "mapping memory" })
    }

    /// Calls `body` with the bytes of a tensor for writing. If another handle shares the memory, the tensor is copied
    /// first, so that other tensors never change.
    ///
    /// # Errors
    ///
    /// The errors of [`map`](Self::map).
    fn map_mut(&self, tensor: &mut T, body: &mut dyn FnMut(&mut [u8])) -> Result<(), ServiceError> {
        let _unused = (tensor, body);
        Err(ServiceError::Unsupported { what: "mapping memory" })
    }

    /// Copies bytes of a tensor, starting at `offset`, to `into`. The runtime has checked that the range is within the
    /// tensor.
    ///
    /// The default maps the tensor.
    ///
    /// # Errors
    ///
    /// The errors of [`map`](Self::map).
    fn read_at(&self, tensor: &T, offset: usize, into: &mut [u8]) -> Result<(), ServiceError> {
        self.map(tensor, &mut |bytes| {
            if let Some(from) = bytes.get(offset..offset + into.len()) {
                into.copy_from_slice(from);
            }
        })
    }

    /// Replaces bytes of a tensor, starting at `offset`. Shared memory is handled as in [`map_mut`](Self::map_mut). The
    /// runtime has checked that the range is within the tensor.
    ///
    /// The default maps the tensor.
    ///
    /// # Errors
    ///
    /// The errors of [`map`](Self::map).
    fn write_at(&self, tensor: &mut T, offset: usize, bytes: &[u8]) -> Result<(), ServiceError> {
        self.map_mut(tensor, &mut |to| {
            if let Some(to) = to.get_mut(offset..offset + bytes.len()) {
                to.copy_from_slice(bytes);
            }
        })
    }

    /// Copies `count` bytes of a tensor, starting at `from_offset`, to another tensor, starting at `to_offset`. The
    /// runtime has checked that both ranges are within their tensors.
    ///
    /// The default maps both.
    ///
    /// # Errors
    ///
    /// The errors of [`map`](Self::map).
    fn copy_at(
        &self,
        from: &T,
        from_offset: usize,
        to: &mut T,
        to_offset: usize,
        count: usize,
    ) -> Result<(), ServiceError> {
        let mut copied = Ok(());
        self.map(from, &mut |bytes| {
            if let Some(bytes) = bytes.get(from_offset..from_offset + count) {
                copied = self.write_at(to, to_offset, bytes);
            }
        })?;
        copied
    }

    /// Copies `count` bytes within a tensor, from the offset `from` to the offset `to`. The ranges may overlap. The
    /// runtime has checked that both are within the tensor.
    ///
    /// The default maps the tensor.
    ///
    /// # Errors
    ///
    /// The errors of [`map`](Self::map).
    fn copy_within(&self, tensor: &mut T, from: usize, to: usize, count: usize) -> Result<(), ServiceError> {
        self.map_mut(tensor, &mut |bytes| {
            if from + count <= bytes.len() && to + count <= bytes.len() {
                bytes.copy_within(from..from + count, to);
            }
        })
    }

    /// Computes an operation directly into the memory of `out`, and returns true. Returns false, without writing, if
    /// the backend has no kernel that does this for these operands, if the result has another element type or shape
    /// than `out`, or if another handle shares the memory of `out`. Then the runtime calls the operation as usual.
    ///
    /// The default returns false.
    ///
    /// # Errors
    ///
    /// The backend's own error. Then the elements of `out` are unspecified.
    fn call_into(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<&T>],
        params: &[Param<'_>],
        out: &mut T,
    ) -> Result<bool, ServiceError> {
        let _unused = (op, inputs, params, out);
        Ok(false)
    }
}
