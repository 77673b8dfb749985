//! Buffers by id, for callers that cannot store a [`Value`], for instance callers in another language.

mod calls;
mod transfers;

use super::{BackendHandle, Value};
use crate::Error;
use crate::service::BufferFault;
use bb_ir::{DataType, Shape, TensorData};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

/// The id of a buffer in a [`Buffers`]. Ids are not reused: the id of a freed buffer stays invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId {
    table: u32,
    index: u32,
    generation: u32,
}

/// The element type, shape and size of a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BufferMeta {
    /// The element type.
    pub dtype: DataType,
    /// The shape, outermost extent first.
    pub shape: Shape,
    /// The size on the host, as in [`TensorData`].
    ///
    /// Units: bytes.
    pub bytes: usize,
}

/// A slot of the table.
struct BufferEntry {
    /// The number of times that the slot was freed.
    generation: u32,
    value: Option<Value>,
    /// The thread that is changing the tensor. Other threads wait for it.
    taken: Option<ThreadId>,
    /// Whether the memory must keep its address, because the caller requested an alignment.
    placed: bool,
}

#[derive(Default)]
struct BufferTable {
    places: Vec<BufferEntry>,
    /// The indices of the free slots.
    free: Vec<u32>,
}

/// The buffers of a running backend, by id. Each buffer is a tensor; `alloc` creates it and `free` drops it.
///
/// Several threads may call each method at the same time. Dropping the table drops its buffers.
///
/// # Examples
///
/// ```no_run
/// # fn main() -> Result<(), bb::Error> {
/// use bb::{DataType, services::Buffers};
/// let buffers = Buffers::new(bb::backend("cpu")?);
/// let x = buffers.alloc(DataType::U8, &[3])?;
/// buffers.write(x, &[1, 2, 3])?;
/// assert_eq!(buffers.read(x)?, [1, 2, 3]);
/// buffers.free(x)?;
/// assert!(buffers.read(x).is_err());
/// # Ok(())
/// # }
/// ```
pub struct Buffers {
    on: BackendHandle,
    id: u32,
    table: Mutex<BufferTable>,
    /// Notified when a thread has finished changing a tensor.
    given_back: Condvar,
}

/// A tensor that a thread took out of its slot to change it. Dropping this puts the tensor back.
struct Taken<'a> {
    from: &'a Buffers,
    index: u32,
    value: Option<Value>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut table = self.from.table();
        if let Some(place) = table.places.get_mut(self.index as usize) {
            place.taken = None;
            place.value = self.value.take();
        }
        drop(table);
        self.from.given_back.notify_all();
    }
}

impl std::fmt::Debug for Buffers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffers({} on {:?})", self.len(), self.on)
    }
}

impl Buffers {
    /// Creates an empty table for a running backend.
    pub fn new(on: BackendHandle) -> Buffers {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Buffers {
            on,
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            table: Mutex::default(),
            given_back: Condvar::new(),
        }
    }

    fn table(&self) -> MutexGuard<'_, BufferTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of buffers.
    pub fn len(&self) -> usize {
        let table = self.table();
        table.places.iter().filter(|place| place.value.is_some() || place.taken.is_some()).count()
    }

    /// Returns whether the table has no buffers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Creates a buffer of zeros.
    ///
    /// # Errors
    ///
    /// [`Error::BufferFault`] if the elements are strings, or if there are too many; the backend's own errors.
    pub fn alloc(&self, dtype: DataType, shape: &[usize]) -> Result<BufferId, Error> {
        let bytes = size(dtype, shape)?;
        let zeros = TensorData::zeros(dtype, shape, bytes)?;
        Ok(self.insert(self.on.runtime().constant(&zeros)?, false))
    }

    /// Creates a buffer of zeros whose memory begins at a multiple of `alignment`. The memory keeps its address until
    /// the buffer is freed.
    ///
    /// Units: `alignment` counts bytes.
    ///
    /// # Errors
    ///
    /// The errors of [`alloc`](Self::alloc); [`BufferFault::Alignment`] if `alignment` is not a power of two;
    /// [`Error::NoService`] and [`Error::Service`] if the backend does not support this alignment.
    pub fn alloc_aligned(&self, dtype: DataType, shape: &[usize], alignment: u64) -> Result<BufferId, Error> {
        Ok(self.insert(self.on.memory()?.allocate(dtype, shape, alignment)?, true))
    }

    /// Stores a tensor of this backend as a buffer, and returns its id.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignTensor`] if the tensor belongs to another backend.
    pub fn put(&self, value: Value) -> Result<BufferId, Error> {
        if value.owner() != self.on.owner() {
            let (expected, got) = (self.on.owner(), value.owner());
            return Err(Error::ForeignTensor { op: "put", expected, got });
        }
        Ok(self.insert(value, false))
    }

    fn insert(&self, value: Value, placed: bool) -> BufferId {
        let mut table = self.table();
        if let Some(index) = table.free.pop()
            && let Some(place) = table.places.get_mut(index as usize)
        {
            place.value = Some(value);
            place.placed = placed;
            return BufferId { table: self.id, index, generation: place.generation };
        }
        let index = table.places.len() as u32;
        table.places.push(BufferEntry { generation: 0, value: Some(value), taken: None, placed });
        BufferId { table: self.id, index, generation: 0 }
    }

    /// Calls `body` with the slot of a buffer, while the table is locked. First waits until no other thread is changing
    /// the tensor.
    fn with<R>(&self, id: BufferId, body: impl FnOnce(&mut BufferEntry) -> R) -> Result<R, Error> {
        let mut table = self.table();
        let fault = |fault| Err(Error::BufferFault(fault));
        loop {
            let Some(place) = table.places.get_mut(id.index as usize).filter(|_| id.table == self.id) else {
                return fault(BufferFault::Foreign);
            };
            if place.generation != id.generation {
                return fault(BufferFault::Freed);
            }
            match (&place.value, place.taken) {
                (_, Some(by)) if by == thread::current().id() => return fault(BufferFault::Mapped),
                (_, Some(_)) => table = self.given_back.wait(table).unwrap_or_else(PoisonError::into_inner),
                (Some(_), None) => return Ok(body(place)),
                (None, None) => return fault(BufferFault::Freed),
            }
        }
    }

    /// Moves the tensor out of a buffer, so that the tensor can be changed in place.
    fn take(&self, id: BufferId) -> Result<Taken<'_>, Error> {
        let value = self.with(id, |place| {
            place.taken = Some(thread::current().id());
            place.value.take()
        })?;
        Ok(Taken { from: self, index: id.index, value })
    }

    /// Returns the tensor of a buffer. Later writes to the buffer, and freeing it, do not change this tensor.
    ///
    /// # Errors
    ///
    /// [`Error::BufferFault`].
    pub fn value(&self, id: BufferId) -> Result<Value, Error> {
        let value = self.with(id, |place| place.value.clone())?;
        value.ok_or(Error::BufferFault(BufferFault::Freed))
    }

    /// Replaces the elements of a buffer. `bytes` has them in row-major order, as in [`TensorData`].
    ///
    /// # Errors
    ///
    /// [`Error::BufferFault`], for example if the number of bytes is wrong; the backend's own errors. After an error,
    /// the buffer keeps its elements.
    pub fn write(&self, id: BufferId, bytes: &[u8]) -> Result<(), Error> {
        let BufferMeta { bytes: expected, .. } = self.meta(id)?;
        if expected != bytes.len() {
            return Err(Error::BufferFault(BufferFault::Length { expected, got: bytes.len() }));
        }
        self.write_at(id, 0, bytes)
    }

    /// Returns the bytes of a buffer, in row-major order as in [`TensorData`].
    ///
    /// # Errors
    ///
    /// [`Error::BufferFault`]; the backend's own errors.
    pub fn read(&self, id: BufferId) -> Result<Vec<u8>, Error> {
        let value = self.value(id)?;
        size(value.dtype(), value.shape())?;
        Ok(bb_ir::memory::copied("read", self.on.to_host(&value)?.unaligned_bytes()?)?)
    }

    /// Copies the bytes of a buffer to `into`.
    ///
    /// # Errors
    ///
    /// The errors of [`read`](Self::read); [`Error::BufferFault`] if `into` has another length.
    pub fn read_into(&self, id: BufferId, into: &mut [u8]) -> Result<(), Error> {
        let value = self.value(id)?;
        let expected = size(value.dtype(), value.shape())?;
        if expected != into.len() {
            return Err(Error::BufferFault(BufferFault::Length { expected, got: into.len() }));
        }
        into.copy_from_slice(self.on.to_host(&value)?.unaligned_bytes()?);
        Ok(())
    }

    /// Returns the element type, shape and size of a buffer.
    ///
    /// # Errors
    ///
    /// [`Error::BufferFault`].
    pub fn meta(&self, id: BufferId) -> Result<BufferMeta, Error> {
        let value = self.value(id)?;
        let (dtype, shape) = (value.dtype(), Shape::from_slice(value.shape()));
        let bytes = size(dtype, &shape)?;
        Ok(BufferMeta { dtype, shape, bytes })
    }

    /// Frees a buffer.
    ///
    /// # Errors
    ///
    /// [`Error::BufferFault`] if the buffer was freed before, or belongs to another table.
    pub fn free(&self, id: BufferId) -> Result<(), Error> {
        let (value, next) = self.with(id, |place| {
            // If the generation counter would overflow, the slot is not used again.
            let next = place.generation.checked_add(1);
            place.generation = next.unwrap_or(place.generation);
            (place.value.take(), next)
        })?;
        if next.is_some() {
            self.table().free.push(id.index);
        }
        drop(value);
        Ok(())
    }
}

/// Returns the size of a buffer in bytes.
pub(super) fn size(dtype: DataType, shape: &[usize]) -> Result<usize, Error> {
    if dtype == DataType::String {
        return Err(Error::BufferFault(BufferFault::Strings));
    }
    let bytes = bb_ir::element_count(shape).and_then(|elements| dtype.bytes_for(elements));
    bytes.filter(|&bytes| bytes <= isize::MAX as usize).ok_or(Error::BufferFault(BufferFault::TooLarge))
}
