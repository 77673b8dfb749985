//! Maps files into memory, and returns the memory of mapped bytes to the system.

#[cfg_attr(not(feature = "mmap"), path = "none.rs")]
mod pages;

pub(crate) use pages::map;

/// The minimum number of bytes to return to the system. For fewer bytes, the system call costs more than it
/// saves.
const FORGOTTEN: usize = 1 << 16;

/// Returns the memory of bytes of a mapped file to the system, which reads the bytes again when they are
/// used.
pub(crate) fn forget(bytes: &[u8]) {
    if bytes.len() >= FORGOTTEN {
        pages::forget(bytes);
    }
}
