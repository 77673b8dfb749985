//! Opens the files of models. Only regular files are opened. They are mapped if the limits allow it and the system
//! supports it.

mod beneath;

pub use crate::format::{FileKind, Format};
pub(crate) use beneath::open_beneath;

use crate::limits::within;
use crate::tensor::aligned;
use crate::{Error, FileAccess, Limits, mapped};
use bytes::Bytes;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Loads a whole file. `limits` determines whether the file is mapped or read.
///
/// # Errors
///
/// [`Error::NoFile`] if the file does not exist; [`Error::NotFile`] for a folder, a pipe or a device (for a folder,
/// the error also lists models in it); [`Error::InFile`] with [`Error::Limit`] if the file exceeds the limit
/// `model_bytes`, or with [`Error::Memory`] if the system has no memory for it; [`Error::File`] if it cannot be read.
pub fn load(path: &Path, limits: &Limits) -> Result<Bytes, Error> {
    let failed = |source| Error::File { path: path.to_owned(), source };
    // The kind is checked before the file is opened, because opening a pipe would block until it has a writer.
    let found = match path.metadata() {
        Ok(metadata) => FileKind::of(metadata.file_type()),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Err(Error::NoFile { path: path.to_owned(), missing: first_missing(path) });
        }
        Err(e) => return Err(failed(e)),
    };
    let refused = |kind| {
        let candidates = if kind == FileKind::Folder { models(path) } else { Vec::new() };
        Error::NotFile { path: path.to_owned(), kind, candidates: candidates.into() }
    };
    if let Some(kind) = found {
        return Err(refused(kind));
    }
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if let Some(kind) = FileKind::of(metadata.file_type()) {
        return Err(refused(kind));
    }
    let inside = |source| Error::InFile { path: path.to_owned(), source: Box::new(source) };
    let size = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
    within("model_bytes", "bytes of a model", size, limits.model_bytes).map_err(inside)?;
    let mapped = if limits.file_access == FileAccess::Map { whole(&file, metadata.len()) } else { None };
    match mapped {
        Some(bytes) => Ok(bytes),
        None => read(&file, 0, metadata.len()).map_err(failed)?.map_err(inside),
    }
}

/// Maps a whole file if the number of needed bytes is not 0. Returns `None` if no bytes are needed, or if the file cannot
/// be mapped.
pub(crate) fn whole(file: &File, wanted: u64) -> Option<Bytes> {
    // An empty file cannot be mapped.
    if wanted == 0 { None } else { mapped::map(file) }
}

/// Returns `length` bytes at `offset` as a slice; `None` if they are out of range.
pub(crate) fn slice(whole: &Bytes, offset: u64, length: u64) -> Option<Bytes> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(usize::try_from(length).ok()?)?;
    (end <= whole.len()).then(|| whole.slice(start..end))
}

/// Reads `length` bytes at `offset`. The outer error comes from the operating system; the inner error is
/// [`Error::Memory`].
pub(crate) fn read(mut file: &File, offset: u64, length: u64) -> io::Result<Result<Bytes, Error>> {
    let size = usize::try_from(length).map_err(|_| io::ErrorKind::FileTooLarge)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut read = Ok(0);
    let bytes = aligned("reading a file", size, |out| read = file.take(length).read_to_end(out));
    if read? == size || bytes.is_err() { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Returns the shortest prefix of a path that does not exist.
fn first_missing(path: &Path) -> PathBuf {
    let mut missing = path;
    while let Some(parent) = missing.parent()
        && !parent.as_os_str().is_empty()
        && parent.symlink_metadata().is_err()
    {
        missing = parent;
    }
    missing.to_owned()
}

/// Finds a few models in a folder. Its subfolders are not searched, because their models may have nothing to do with the path.
fn models(folder: &Path) -> Vec<PathBuf> {
    const SHOWN: usize = 3;
    /// The maximum number of entries that are searched, because a user may pass a huge folder by mistake.
    const SEARCHED: usize = 2000;
    let is_model = |path: &PathBuf| path.extension().is_some_and(|e| e.eq_ignore_ascii_case("onnx"));
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().take(SEARCHED);
    let mut models: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_model).collect();
    models.sort();
    models.truncate(SHOWN);
    models
}
