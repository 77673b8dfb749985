//! Maps files into memory, with the feature `mmap`. This is the only place of this crate with unsafe code.
#![allow(unsafe_code, reason = "mapping a file is unsafe; see `map` and `forget`")]

use bytes::Bytes;
use memmap2::Mmap;
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The maps that bytes are in.
static MAPS: Mutex<Vec<Weak<Mmap>>> = Mutex::new(Vec::new());

/// Maps a whole file that is not empty; returns `None` if the file system cannot map it.
pub(crate) fn map(file: &File) -> Option<Bytes> {
    // SAFETY: the map is read-only, and the `Bytes` made from it owns it, so the map outlives every view. No
    // other process may shorten or rewrite the file meanwhile; a program that loads a model with `FileAccess::Map`
    // accepts this condition, which its documentation states.
    let map = Arc::new(unsafe { Mmap::map(file) }.ok()?);
    let mut maps = MAPS.lock().unwrap_or_else(PoisonError::into_inner);
    maps.retain(|map| map.strong_count() > 0);
    maps.push(Arc::downgrade(&map));
    Some(Bytes::from_owner(Owner(map)))
}

/// Keeps a map alive while its bytes are in use.
struct Owner(Arc<Mmap>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Gives the memory of mapped bytes back to the system, which reads them from the file again when they are used. Does nothing
/// with other bytes.
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
                // SAFETY: the pages are those of a shared map of a file that nobody writes, by the condition of `map`. They
                // have the same contents when they are read again.
                let forgotten = unsafe {
                    map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, offset, bytes.len())
                };
                // The memory stays in use if the system refuses, and nothing else changes.
                forgotten.unwrap_or_default();
                return;
            }
        }
    }
}
