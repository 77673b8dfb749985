//! Files in memory: maps them, and gives the memory of their bytes back.

#[cfg_attr(not(feature = "mmap"), path = "none.rs")]
mod pages;

pub(crate) use pages::map;

/// The smallest number of bytes whose memory is worth a system call to give back.
const FORGOTTEN: usize = 1 << 16;

/// Gives the memory of bytes of a mapped file back to the system, which reads them again when they are used.
pub(crate) fn forget(bytes: &[u8]) {
    if bytes.len() >= FORGOTTEN {
        pages::forget(bytes);
    }
}
