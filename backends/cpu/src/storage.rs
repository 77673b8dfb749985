//! The memory of an array's elements: inline, a block of the pool, or bytes that belong to a host tensor.

use crate::error::Result;
use crate::pool::{Block, Pool};
use bytes::Bytes;
use std::sync::Arc;

/// The greatest number of bytes that are stored inline, so that a few elements need no second allocation.
pub(crate) const INLINE: usize = 32;

/// The elements of one or more arrays. They are not written after they are shared.
#[derive(Debug, Clone)]
pub(crate) enum Storage {
    Inline([u64; INLINE / 8]),
    Pooled(Block),
    Adopted(Bytes),
}

impl Storage {
    /// Allocates room for `bytes` bytes with arbitrary contents.
    ///
    /// # Errors
    ///
    /// [`CpuError::Memory`](crate::CpuError::Memory) if the system has no memory.
    #[inline]
    pub(crate) fn new(pool: &Arc<Pool>, bytes: usize) -> Result<Storage> {
        if bytes <= INLINE {
            Ok(Storage::Inline([0; INLINE / 8]))
        } else {
            Ok(Storage::Pooled(pool.take(bytes)?))
        }
    }

    /// Stores one number.
    pub(crate) fn of_f32(value: f32) -> Storage {
        let mut words = [0; INLINE / 8];
        if let Some(first) = words.first_mut() {
            *first = u64::from(value.to_bits());
        }
        Storage::Inline(words)
    }

    /// Returns a pointer to the first byte.
    #[inline]
    pub(crate) fn ptr(&self) -> *const u8 {
        match self {
            Storage::Inline(words) => words.as_ptr().cast(),
            Storage::Pooled(block) => block.ptr(),
            Storage::Adopted(bytes) => bytes.as_ptr(),
        }
    }

    /// Returns a pointer to the first byte of storage that [`new`](Self::new) made and that no other array shares yet.
    #[inline]
    pub(crate) fn room(&mut self) -> *mut u8 {
        match self {
            Storage::Inline(words) => words.as_mut_ptr().cast(),
            Storage::Pooled(block) => block.ptr(),
            // Adopted bytes are never written, because the storage of a result never consists of them.
            Storage::Adopted(bytes) => bytes.as_ptr().cast_mut(),
        }
    }
}
