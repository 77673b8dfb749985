//! Replaces `pages.rs` in builds without the feature `mmap`.

use bytes::Bytes;
use std::fs::File;

/// Returns `None`, because this build cannot map files.
pub(crate) fn map(_: &File) -> Option<Bytes> {
    None
}

/// Does nothing, because no bytes are mapped.
pub(super) fn forget(_: &[u8]) {}
