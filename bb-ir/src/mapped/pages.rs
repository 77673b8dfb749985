//! Maps files into memory, with the feature `mmap`. Only this module of the crate contains unsafe code.
#![allow(unsafe_code, reason = "mapping a file is unsafe; see `map` and `forget`")]

use bytes::Bytes;
use memmap2::Mmap;
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// All mappings that are in use, so that `forget` can find the mapping of given bytes.
static MAPS: Mutex<Vec<Weak<Mmap>>> = Mutex::new(Vec::new());

/// Maps a whole file, which must not be empty; returns `None` if the file system cannot map it.
pub(crate) fn map(file: &File) -> Option<Bytes> {
    // SAFETY: the mapping is read-only, and the returned `Bytes` owns it, so the mapping outlives every view. No other
    // process may shorten or rewrite the file while it is mapped. A program that loads a model with `FileAccess::Map` accepts
    // this condition, which the documentation of `FileAccess::Map` states.
    let map = Arc::new(unsafe { Mmap::map(file) }.ok()?);
    let mut maps = MAPS.lock().unwrap_or_else(PoisonError::into_inner);
    maps.retain(|map| map.strong_count() > 0);
    maps.push(Arc::downgrade(&map));
    Some(Bytes::from_owner(Owner(map)))
}

/// Keeps a mapping alive while its bytes are in use.
struct Owner(Arc<Mmap>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Returns the memory of mapped bytes to the system, which reads them from the file again when they are used. Does nothing
/// for other bytes.
pub(super) fn forget(bytes: &[u8]) {
    #[cfg(unix)]
    {
        let maps: Vec<_> = {
            let maps = MAPS.lock().unwrap_or_else(PoisonError::into_inner);
            maps.iter().filter_map(Weak::upgrade).collect()
        };
        let range = bytes.as_ptr_range();
        for map in maps {
            let whole = map.as_ptr_range();
            if whole.start <= range.start && range.end <= whole.end {
                let offset = range.start.addr() - whole.start.addr();
                // SAFETY: the pages belong to a shared mapping of a file that is not written, by the condition of `map`. So
                // they have the same contents when they are read again.
                let forgotten = unsafe {
                    map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, offset, bytes.len())
                };
                // If the system refuses, the memory stays in use, and nothing else changes.
                forgotten.unwrap_or_default();
                return;
            }
        }
    }
}
