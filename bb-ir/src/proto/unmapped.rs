//! Reads external data: what stands in for `mapped.rs` without the feature `mmap`.

use crate::tensor::aligned;
use bytes::Bytes;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// Nothing is kept between reads.
#[derive(Debug, Default)]
pub(super) struct Files(());

impl Files {
    /// Returns `length` bytes at `offset` of the file, which has them.
    pub(super) fn slice(&self, _: &Path, mut file: File, offset: u64, length: u64) -> io::Result<Bytes> {
        let size = usize::try_from(length).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let mut read = file.seek(SeekFrom::Start(offset)).map(|_| 0);
        let bytes = aligned(size, |out| {
            if read.is_ok() {
                read = file.take(length).read_to_end(out);
            }
        });
        if read? == size { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}
