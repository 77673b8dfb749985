//! Maps external data into memory instead of reading it: the one place of this crate with unsafe
//! code, behind the feature `mmap`.
#![allow(unsafe_code, reason = "mapping a file is unsafe; see `Files::slice`")]

use bytes::Bytes;
use memmap2::Mmap;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The files mapped so far, each once.
#[derive(Debug, Default)]
pub(super) struct Files(Mutex<HashMap<PathBuf, Bytes>>);

impl Files {
    /// Returns `length` bytes at `offset` of the file, which has them and whose real path is `path`.
    pub(super) fn slice(&self, path: &Path, file: File, offset: u64, length: u64) -> io::Result<Bytes> {
        if length == 0 {
            // An empty file cannot be mapped.
            return Ok(Bytes::new());
        }
        let mut maps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let whole = match maps.get(path) {
            Some(bytes) => bytes.clone(),
            None => {
                // SAFETY: the map is read-only and owned by the `Bytes` made from it, so it
                // outlives every view. What remains is that no other process shortens or rewrites
                // the file meanwhile; whoever enables the feature `mmap` accepts that, as its
                // description in Cargo.toml says.
                let map = unsafe { Mmap::map(&file)? };
                maps.entry(path.to_owned()).or_insert(Bytes::from_owner(map)).clone()
            }
        };
        let start = usize::try_from(offset).ok();
        let end =
            start.zip(usize::try_from(length).ok()).and_then(|(start, length)| start.checked_add(length));
        match start.zip(end) {
            Some((start, end)) if end <= whole.len() => Ok(whole.slice(start..end)),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}
