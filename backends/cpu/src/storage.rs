//! The memory of an array's elements: inline, a block of the pool, or the bytes of a host tensor.

use crate::error::Result;
use crate::pool::{Block, Pool};
use bytes::Bytes;
use std::sync::Arc;

/// The maximum size in bytes of elements that are stored inline, which saves an allocation for small arrays.
pub(crate) const INLINE: usize = 32;

/// The elements of one or more arrays. Once they are shared, they are never written again.
#[derive(Debug, Clone)]
pub(crate) enum Storage {
    Inline([u64; INLINE / 8]),
    Pooled(Block),
    Adopted(Bytes),
}

impl Storage {
    /// Allocates `bytes` bytes. Their contents are arbitrary.
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

    /// Creates storage that contains one `f32`.
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

    /// Returns a writable pointer to the first byte. The storage must come from [`new`](Self::new), and no other array
    /// may share it.
    #[inline]
    pub(crate) fn room(&mut self) -> *mut u8 {
        match self {
            Storage::Inline(words) => words.as_mut_ptr().cast(),
            Storage::Pooled(block) => block.ptr(),
            // The memory of results is never adopted, so these bytes are never written.
            Storage::Adopted(bytes) => bytes.as_ptr().cast_mut(),
        }
    }
}
