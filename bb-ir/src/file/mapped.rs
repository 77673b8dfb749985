//! Maps files into memory, with the feature `mmap`. This is the only place of this crate with unsafe code.
#![allow(unsafe_code, reason = "mapping a file is unsafe; see `map`")]

use bytes::Bytes;
use memmap2::Mmap;
use std::fs::File;

/// Maps a whole file that is not empty; returns `None` if the file system cannot map it.
pub(super) fn map(file: &File) -> Option<Bytes> {
    // SAFETY: the map is read-only, and the `Bytes` made from it owns it, so the map outlives every view. No
    // other process may shorten or rewrite the file meanwhile; whoever loads a model with `FileAccess::Map`
    // accepts this condition, which its documentation states.
    let map = unsafe { Mmap::map(file) }.ok()?;
    Some(Bytes::from_owner(map))
}
