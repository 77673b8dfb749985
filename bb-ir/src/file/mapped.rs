//! Maps files into memory: the one place of this crate with unsafe code, behind the feature `mmap`.
#![allow(unsafe_code, reason = "mapping a file is unsafe; see `map`")]

use bytes::Bytes;
use memmap2::Mmap;
use std::fs::File;

/// Maps all of a file, which is not empty; `None` if the file system cannot.
pub(super) fn map(file: &File) -> Option<Bytes> {
    // SAFETY: the map is read-only and owned by the `Bytes` made from it, so that it outlives every view. What remains
    // is that no other process shortens or rewrites the file meanwhile: whoever loads a model with
    // `FileAccess::Map` accepts that, as its documentation says.
    let map = unsafe { Mmap::map(file) }.ok()?;
    Some(Bytes::from_owner(map))
}
