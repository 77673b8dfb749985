//! Copies parts of buffers, maps buffers, and transfers them asynchronously.
//!
//! If a backend does not support a partial transfer, the tensor is read to the host, changed there, and created again.

use super::{BufferId, BufferMeta, Buffers, size};
use crate::service::BufferFault;
use crate::{ContractResponse, Error, Value};
use bb_ir::{DataType, TensorData};
use bytes::Bytes;
use std::sync::Arc;

/// Returns an error if a byte range is not within a buffer.
fn within(size: usize, offset: usize, count: usize) -> Result<(), Error> {
    match offset.checked_add(count) {
        Some(end) if end <= size => Ok(()),
        _ => Err(Error::BufferFault(BufferFault::Range { offset, count, size })),
    }
}

/// Returns an error if bytes of a boolean tensor are neither 0 nor 1.
fn truths(dtype: DataType, bytes: &[u8]) -> Result<(), Error> {
    match bytes.iter().position(|byte| *byte > 1).filter(|_| dtype == DataType::Bool) {
        Some(index) => {
            let value = bytes.get(index).copied().unwrap_or_default();
            Err(bb_ir::Error::BoolByte { index, value }.into())
        }
        None => Ok(()),
    }
}

/// Bytes that a caller writes. On drop, also after a panic, boolean bytes are normalized to 0 and 1.
struct Written<'a> {
    dtype: DataType,
    bytes: &'a mut [u8],
}

impl Drop for Written<'_> {
    fn drop(&mut self) {
        if self.dtype == DataType::Bool {
            self.bytes.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
        }
    }
}

impl Buffers {
    /// Changes the tensor of a buffer. Calls `own`, which changes it on the device or returns false; in the latter case
    /// changes a copy on the host with `by_host`.
    fn change(
        &self,
        id: BufferId,
        own: impl FnOnce(&mut Value) -> Result<bool, Error>,
        by_host: impl FnOnce(&mut [u8]),
    ) -> Result<(), Error> {
        let mut taken = self.take(id)?;
        let Some(value) = &mut taken.value else { return Err(Error::BufferFault(BufferFault::Freed)) };
        if own(value)? {
            return Ok(());
        }
        let host = self.on.to_host(value)?;
        let mut bytes = bb_ir::memory::copied("write", host.unaligned_bytes()?)?;
        by_host(&mut bytes);
        let data = TensorData::adopt(value.dtype(), value.shape(), Bytes::from(bytes))?;
        *value = self.on.runtime().constant(&data)?;
        Ok(())
    }

    /// Copies bytes of a buffer, starting at `offset`, to `into`.
    ///
    /// # Errors
    ///
    /// [`Error::BufferFault`], for example if the byte range exceeds the buffer; the backend's own errors.
    pub fn read_at(&self, id: BufferId, offset: usize, into: &mut [u8]) -> Result<(), Error> {
        let value = self.value(id)?;
        within(size(value.dtype(), value.shape())?, offset, into.len())?;
        if !self.on.runtime().read_at(&value, offset, into)? {
            let host = self.on.to_host(&value)?;
            if let Some(from) = host.unaligned_bytes()?.get(offset..offset + into.len()) {
                into.copy_from_slice(from);
            }
        }
        Ok(())
    }

    /// Replaces bytes of a buffer, starting at `offset`. The bytes are replaced in place, unless another tensor shares
    /// the memory. That tensor does not change.
    ///
    /// # Errors
    ///
    /// The errors of [`read_at`](Self::read_at); [`bb_ir::Error::BoolByte`] for a boolean byte other than 0 and 1. If
    /// the bytes are refused, the buffer keeps its elements.
    pub fn write_at(&self, id: BufferId, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        let BufferMeta { dtype, bytes: size, .. } = self.meta(id)?;
        within(size, offset, bytes.len())?;
        truths(dtype, bytes)?;
        let runtime = self.on.runtime();
        self.change(
            id,
            |value| runtime.write_at(value, offset, bytes),
            |all| {
                if let Some(to) = all.get_mut(offset..offset + bytes.len()) {
                    to.copy_from_slice(bytes);
                }
            },
        )
    }

    /// Copies `count` bytes, starting at `from_offset`, to another buffer or within the same buffer, starting at
    /// `to_offset`. If the ranges overlap, the original bytes are copied.
    ///
    /// The element types may differ, if every boolean byte of the target stays 0 or 1.
    ///
    /// # Errors
    ///
    /// As [`write_at`](Self::write_at).
    pub fn copy(
        &self,
        from: BufferId,
        from_offset: usize,
        to: BufferId,
        to_offset: usize,
        count: usize,
    ) -> Result<(), Error> {
        let (source, target) = (self.meta(from)?, self.meta(to)?);
        within(source.bytes, from_offset, count)?;
        within(target.bytes, to_offset, count)?;
        let runtime = self.on.runtime();
        if from == to {
            return self.change(
                to,
                |value| runtime.copy_within(value, from_offset, to_offset, count),
                |all| {
                    if from_offset + count <= all.len() && to_offset + count <= all.len() {
                        all.copy_within(from_offset..from_offset + count, to_offset);
                    }
                },
            );
        }
        let whole = source.dtype.bits().is_multiple_of(8) && target.dtype.bits().is_multiple_of(8);
        if whole && (target.dtype != DataType::Bool || source.dtype == DataType::Bool) {
            let value = self.value(from)?;
            let mut taken = self.take(to)?;
            let Some(target) = &mut taken.value else { return Err(Error::BufferFault(BufferFault::Freed)) };
            if runtime.copy_at(&value, from_offset, target, to_offset, count)? {
                return Ok(());
            }
        }
        let mut bytes = bb_ir::memory::filled("copy", 0u8, count)?;
        self.read_at(from, from_offset, &mut bytes)?;
        self.write_at(to, to_offset, &bytes)
    }

    /// Calls `body` with the bytes of a buffer for reading. They are in row-major order, as in [`TensorData`].
    ///
    /// # Errors
    ///
    /// The errors of [`MemoryHandle::map`](crate::services::MemoryHandle::map).
    pub fn map<R>(&self, id: BufferId, body: impl FnOnce(&[u8]) -> R) -> Result<R, Error> {
        let value = self.value(id)?;
        size(value.dtype(), value.shape())?;
        let (mut body, mut result) = (Some(body), None);
        let mut once = |bytes: &[u8]| {
            if let Some(body) = body.take() {
                result = Some(body(bytes));
            }
        };
        if !self.on.runtime().map(&value, &mut once)? {
            once(self.on.to_host(&value)?.unaligned_bytes()?);
        }
        result.ok_or_else(|| Error::excluded("memory to be mapped once"))
    }

    /// Calls `body` with the bytes of a buffer for writing. They are in row-major order, as in [`TensorData`]. If the
    /// backend uses host memory, `body` writes to it directly. Other threads that use the buffer wait until `body`
    /// returns.
    ///
    /// A boolean byte other than 0 becomes 1.
    ///
    /// # Errors
    ///
    /// [`Error::BufferFault`]; [`BufferFault::Mapped`] if `body` itself uses this buffer; the backend's own errors.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # fn main() -> Result<(), bb::Error> {
    /// use bb::{DataType, services::Buffers};
    /// let buffers = Buffers::new(bb::backend("cpu")?);
    /// let x = buffers.alloc(DataType::U8, &[3])?;
    /// buffers.map_mut(x, |bytes| bytes.fill(7))?;
    /// assert_eq!(buffers.read(x)?, [7, 7, 7]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn map_mut<R>(&self, id: BufferId, body: impl FnOnce(&mut [u8]) -> R) -> Result<R, Error> {
        let BufferMeta { dtype, .. } = self.meta(id)?;
        let (mut body, mut result) = (Some(body), None);
        let mut once = |bytes: &mut [u8]| {
            if let Some(body) = body.take() {
                let written = Written { dtype, bytes };
                result = Some(body(&mut *written.bytes));
            }
        };
        let once = std::cell::RefCell::new(&mut once);
        self.change(
            id,
            |value| self.on.runtime().map_mut(value, &mut |bytes| (once.borrow_mut())(bytes)),
            |bytes| (once.borrow_mut())(bytes),
        )?;
        result.ok_or_else(|| Error::excluded("memory to be mapped once"))
    }

    /// Reads a buffer on its own thread, and returns the bytes as a future. The caller can also block on the future.
    ///
    /// # Errors
    ///
    /// The future returns the errors of [`read`](Self::read).
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn both(table: std::sync::Arc<bb::services::Buffers>, x: bb::services::BufferId) -> Result<(), bb::Error> {
    /// table.write_async(x, vec![1, 2, 3]).await?;
    /// let bytes = table.read_async(x).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_async(self: &Arc<Self>, id: BufferId) -> ContractResponse<Vec<u8>, Error> {
        let table = self.clone();
        crate::contract::on_own_thread(move || table.read(id))
    }

    /// Writes a buffer like [`write()`](Self::write) on its own thread, and returns a future.
    ///
    /// # Errors
    ///
    /// The future returns the errors of [`write()`](Self::write).
    pub fn write_async(self: &Arc<Self>, id: BufferId, bytes: Vec<u8>) -> ContractResponse<(), Error> {
        let table = self.clone();
        crate::contract::on_own_thread(move || table.write(id, &bytes))
    }

    /// Copies like [`copy`](Self::copy) on its own thread, and returns a future.
    ///
    /// # Errors
    ///
    /// The future returns the errors of [`copy`](Self::copy).
    pub fn copy_async(
        self: &Arc<Self>,
        from: BufferId,
        from_offset: usize,
        to: BufferId,
        to_offset: usize,
        count: usize,
    ) -> ContractResponse<(), Error> {
        let table = self.clone();
        crate::contract::on_own_thread(move || table.copy(from, from_offset, to, to_offset, count))
    }
}
