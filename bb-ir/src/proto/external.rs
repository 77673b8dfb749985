//! Reads tensor elements from allowed files near a model, or from bytes that the caller passes instead of files.
//!
//! Whether a location is allowed depends on the file that it leads to, after symbolic links and `..` are resolved. The file must be
//! a regular file in or below one of these folders: the folder in the model's path, the folder of the file that this path leads to,
//! or a folder that [`Limits`] allow. An absolute location is only resolved if it starts with one of these folders. Before anything
//! is read, the range must be in the file, and must have the length that the tensor needs.

use super::{TensorProto, sha1};
use crate::file::{self, FileKind};
use crate::tensor::{Check, ErrorMaker};
use crate::{Error, FileAccess, Limits, TensorData};
use bytes::Bytes;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The folders that may contain a model's external data, or the data itself.
#[derive(Debug)]
pub struct ExternalData {
    /// The folders that locations are relative to: the folder in the model's path, and the resolved folder if it is another one.
    bases: Vec<PathBuf>,
    /// Other allowed folders.
    further: Vec<PathBuf>,
    access: FileAccess,
    /// The files that have been opened, by location; or all files that the caller passed.
    files: Mutex<HashMap<String, Arc<Opened>>>,
    /// The tensors that the caller passed, by location.
    tensors: HashMap<String, TensorData>,
}

/// A file of external data.
#[derive(Debug)]
struct Opened {
    content: Content,
    size: u64,
    /// The digest, once it has been computed.
    digest: Mutex<Option<String>>,
}

/// The source of a file's bytes.
#[derive(Debug)]
enum Content {
    File(Mutex<File>),
    /// The whole content: a mapped file, or bytes from the caller.
    Whole(Bytes),
}

impl ExternalData {
    /// Allows the files in and below `folder`. Locations are relative to `folder`.
    pub fn in_folder(folder: &Path, limits: &Limits) -> ExternalData {
        ExternalData {
            bases: vec![named(folder)],
            further: limits.external_folders.clone(),
            access: limits.file_access,
            files: Mutex::default(),
            tensors: HashMap::new(),
        }
    }

    /// Allows the files in and below the folder of the model at `path`. If the path is a symbolic link, as in the cache of Hugging
    /// Face, the folder of the link's target is allowed too.
    pub fn of_model(path: &Path, limits: &Limits) -> ExternalData {
        let mut data = ExternalData::in_folder(path.parent().unwrap_or(path), limits);
        let real = |path: &Path| path.canonicalize().ok();
        let named = data.bases.first().and_then(|folder| real(folder));
        // Adds the folder of the resolved file if it differs from the folder in the path.
        if let Some(folder) = real(path).as_deref().and_then(Path::parent)
            && named.as_deref() != Some(folder)
        {
            data.bases.push(folder.to_owned());
        }
        data
    }

    /// Uses file contents from memory, by the locations in the model, for models that do not come from a file system. A location
    /// may contain `./` or `folder/..`.
    pub fn in_memory(files: impl IntoIterator<Item = (String, Bytes)>) -> ExternalData {
        let opened = |(location, whole): (String, Bytes)| {
            let size = u64::try_from(whole.len()).unwrap_or(u64::MAX);
            let opened = Opened { content: Content::Whole(whole), size, digest: Mutex::default() };
            (shortened(Path::new(&location)).to_string_lossy().into_owned(), Arc::new(opened))
        };
        ExternalData {
            bases: Vec::new(),
            further: Vec::new(),
            access: FileAccess::Read,
            files: Mutex::new(files.into_iter().map(opened).collect()),
            tensors: HashMap::new(),
        }
    }

    /// Uses whole tensors, by the locations in a graph, for programs that write graphs. The elements are not read, and tensors that
    /// are computed on use ([`made_later`](TensorData::made_later)) stay so.
    pub fn of_tensors(tensors: impl IntoIterator<Item = (String, TensorData)>) -> ExternalData {
        ExternalData { tensors: tensors.into_iter().collect(), ..ExternalData::in_memory([]) }
    }

    /// Returns the tensor that the caller passed for a message's location; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`Error::ExternalTensor`] if the tensor has another element type or shape than the message.
    pub(super) fn tensor(&self, proto: &TensorProto) -> Result<Option<TensorData>, Error> {
        let location = proto.external_data.iter().find(|entry| entry.key() == "location");
        let Some(given) = location.and_then(|entry| self.tensors.get(entry.value())) else { return Ok(None) };
        let (dtype, shape) = proto.dtype_and_shape()?;
        if given.dtype() != dtype || *given.shape() != *shape {
            return Err(Error::ExternalTensor {
                expected: dtype,
                shape: shape.as_slice().into(),
                got: given.dtype(),
                found: given.shape().into(),
            });
        }
        Ok(Some(given.clone()))
    }

    /// Returns `length` bytes at `offset` of the file at `location`; without a length, all bytes from `offset` to the end of the
    /// file.
    ///
    /// The bytes are part of the mapped file, unless the limits require that files are read.
    ///
    /// Units: bytes.
    ///
    /// # Errors
    ///
    /// [`Error::ExternalPath`] if the location leads outside the allowed folders; [`Error::ExternalKind`] if
    /// it is not a regular file; [`Error::ExternalMissing`] if the file does not exist;
    /// [`Error::ExternalRange`] if the range is not in the file; [`Error::ExternalIo`] if the file cannot be
    /// opened or read; [`Error::Memory`] if the system has no memory for the bytes.
    pub fn read(&self, location: &str, offset: u64, length: Option<u64>) -> Result<Bytes, Error> {
        self.read_exactly(location, offset, length, None)
    }

    fn read_exactly(
        &self,
        location: &str,
        offset: u64,
        length: Option<u64>,
        needed: Option<u64>,
    ) -> Result<Bytes, Error> {
        let opened = self.open(location)?;
        let rest = opened.size.checked_sub(offset);
        let length = length.or(rest).unwrap_or_default();
        if rest.is_none_or(|rest| length > rest) || needed.is_some_and(|needed| needed != length) {
            return Err(Error::ExternalRange {
                location: cut(location),
                offset,
                length,
                file: opened.size,
                needed: needed.unwrap_or(length),
            });
        }
        let io = |source| Error::ExternalIo { location: cut(location), source };
        match &opened.content {
            Content::Whole(whole) => file::slice(whole, offset, length)
                .ok_or_else(|| io(io::Error::from(io::ErrorKind::UnexpectedEof))),
            Content::File(file) => {
                let file = file.lock().unwrap_or_else(PoisonError::into_inner);
                file::read(&file, offset, length).map_err(io)?
            }
        }
    }

    /// Returns the file at `location`, and opens it if it is not open yet.
    fn open(&self, location: &str) -> Result<Arc<Opened>, Error> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = files.get(location) {
            return Ok(opened.clone());
        }
        if self.bases.is_empty() {
            let spelled = shortened(Path::new(location)).to_string_lossy().into_owned();
            let missing =
                || Error::ExternalMissing { location: cut(location), folders: Box::default(), similar: None };
            return files.get(&spelled).cloned().ok_or_else(missing);
        }
        let (file, size) = self.open_allowed(location)?;
        let mapped = if self.access == FileAccess::Map { file::whole(&file, size) } else { None };
        let content = mapped.map_or_else(|| Content::File(Mutex::new(file)), Content::Whole);
        let opened = Arc::new(Opened { content, size, digest: Mutex::default() });
        files.insert(location.to_owned(), opened.clone());
        Ok(opened)
    }

    /// Opens the file that `location` leads to, if it is allowed.
    fn open_allowed(&self, location: &str) -> Result<(File, u64), Error> {
        let io = |source| Error::ExternalIo { location: cut(location), source };
        let folders = self.bases.iter().chain(&self.further);
        // A folder that does not exist contains no files, so it is skipped.
        let allowed: Vec<PathBuf> = folders.clone().filter_map(|folder| folder.canonicalize().ok()).collect();
        let path = self.resolve(location, &allowed)?;
        let outside = || Error::ExternalPath {
            location: cut(location),
            resolved: path.clone(),
            allowed: allowed.as_slice().into(),
        };
        let Some(folder) = allowed.iter().find(|folder| path.starts_with(folder)) else {
            return Err(outside());
        };
        // The kind is checked before the file is opened, because opening a device may have side effects.
        let before = path.symlink_metadata().map_err(io)?;
        if let Some(kind) = FileKind::of(before.file_type()) {
            return Err(Error::ExternalKind { location: cut(location), resolved: path, kind });
        }
        let replaced = || Error::ExternalReplaced { location: cut(location) };
        // The path is already resolved, so a link in it must have been created after that.
        let file = file::open_beneath(folder, &path).map_err(|source| match source.kind() {
            io::ErrorKind::NotADirectory => replaced(),
            _ => io(source),
        })?;
        let opened = file.metadata().map_err(io)?;
        // The path may have been changed between the check and the opening, so the opened file must be the checked file.
        if !path.canonicalize().is_ok_and(|again| again == path) || !same(&before, &opened) {
            return Err(replaced());
        }
        Ok((file, opened.len()))
    }

    /// Returns the resolved path of `location`, which may be outside the allowed folders.
    fn resolve(&self, location: &str, allowed: &[PathBuf]) -> Result<PathBuf, Error> {
        let io = |source| Error::ExternalIo { location: cut(location), source };
        let given = Path::new(location);
        let rooted = given.has_root() || given.components().any(|c| matches!(c, Component::Prefix(_)));
        if rooted {
            // Even resolving a path may have side effects, for example a request to another machine.
            let folders = self.bases.iter().chain(&self.further).chain(allowed);
            if !folders.into_iter().any(|folder| given.starts_with(folder)) {
                let (location, resolved) = (cut(location), PathBuf::from(cut(location)));
                return Err(Error::ExternalPath { location, resolved, allowed: allowed.into() });
            }
            return given.canonicalize().map_err(io);
        }
        // Systems do not resolve `absent/../w.bin` if `absent` does not exist, so the path without `..` is tried too.
        let shorter = shortened(given);
        for base in &self.bases {
            for location in [given, &shorter] {
                match base.join(location).canonicalize() {
                    Ok(path) => return Ok(path),
                    Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
                    Err(e) => return Err(io(e)),
                }
            }
        }
        let similar = self.bases.iter().find_map(|base| other_case(&base.join(given)));
        Err(Error::ExternalMissing {
            location: cut(location),
            folders: self.bases.as_slice().into(),
            similar,
        })
    }
}

impl Opened {
    /// Compares the digest of the file with the digest in the model.
    fn verify(&self, location: &str, expected: &str) -> Result<(), ErrorMaker> {
        let location = cut(location);
        match self.digest() {
            Ok(got) if got.eq_ignore_ascii_case(expected) => Ok(()),
            Ok(got) => {
                let expected = cut(expected);
                Err(Box::new(move || {
                    let (location, expected, got) = (location.clone(), expected.clone(), got.clone());
                    Error::ExternalChecksum { location, expected, got }
                }))
            }
            Err(error) => Err(Box::new(move || {
                let again = error.raw_os_error().map(io::Error::from_raw_os_error);
                let source = again.unwrap_or_else(|| error.kind().into());
                Error::ExternalIo { location: location.clone(), source }
            })),
        }
    }

    /// Returns the digest of the file, which is computed only once.
    fn digest(&self) -> io::Result<String> {
        let mut digest = self.digest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(digest) = &*digest {
            return Ok(digest.clone());
        }
        let computed = match &self.content {
            Content::Whole(whole) => sha1::digest(&whole[..]),
            Content::File(file) => {
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                file.seek(SeekFrom::Start(0)).and_then(|_| sha1::digest(&*file))
            }
        };
        Ok(digest.insert(computed?).clone())
    }
}

/// Returns the folder. An empty path, which is the parent of a bare file name, becomes the current folder.
fn named(folder: &Path) -> PathBuf {
    if folder.as_os_str().is_empty() { Path::new(".") } else { folder }.to_owned()
}

/// Removes each `.` component, and each `..` together with the component before it.
fn shortened(location: &Path) -> PathBuf {
    let mut short = PathBuf::new();
    for part in location.components() {
        let named = matches!(short.components().next_back(), Some(Component::Normal(_)));
        if part == Component::CurDir {
            continue;
        }
        if part == Component::ParentDir && named {
            short.pop();
        } else {
            short.push(part);
        }
    }
    short
}

/// Truncates a string of a model for a message.
fn cut(text: &str) -> String {
    const SHOWN: usize = 256;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Returns whether two descriptions are of the same file; true if the system does not report the identity of files.
fn same(a: &std::fs::Metadata, b: &std::fs::Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        a.dev() == b.dev() && a.ino() == b.ino() && b.is_file()
    }
    #[cfg(not(unix))]
    {
        a.len() == b.len() && b.is_file()
    }
}

/// Finds a file in the same folder whose name differs from `path` only in upper and lower case.
fn other_case(path: &Path) -> Option<Box<str>> {
    let (folder, name) = (path.parent()?, path.file_name()?.to_str()?);
    let entries = std::fs::read_dir(folder).ok()?.flatten().take(10_000);
    let mut names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.find(|other| other.to_lowercase() == name.to_lowercase()).map(String::into_boxed_str)
}

/// Returns the `size` bytes that a tensor's `external_data` refers to, and a check that compares the digest. The check is deferred,
/// because it reads the whole file. It is `None` if the model states no digest, or if the digest was already compared.
pub(super) fn read(
    proto: &TensorProto,
    size: usize,
    folder: Option<&ExternalData>,
) -> Result<(Bytes, Option<Check>), Error> {
    let (mut location, mut offset, mut length, mut checksum) = (None, None, None, None);
    for entry in &proto.external_data {
        let key = entry.key.as_deref().unwrap_or_default();
        let value = entry.value.as_deref().unwrap_or_default();
        let refused = || Error::ExternalKey { key: cut(key), value: cut(value) };
        let slot = match key {
            "location" => &mut location,
            "checksum" => &mut checksum,
            "offset" => &mut offset,
            "length" => &mut length,
            // Other keys are optional hints, which are ignored.
            _ => continue,
        };
        if slot.replace(value).is_some() {
            return Err(refused());
        }
    }
    let number = |key: &str, value: Option<&str>| {
        let parse =
            |v: &str| v.parse::<u64>().map_err(|_| Error::ExternalKey { key: key.to_owned(), value: cut(v) });
        value.map(parse).transpose()
    };
    let (offset, length) = (number("offset", offset)?.unwrap_or(0), number("length", length)?);
    let location = location.unwrap_or_default();
    let folder = folder.ok_or_else(|| Error::NoExternalFolder { location: cut(location) })?;
    // The key `length` is optional; its default is the tensor's size.
    let bytes = folder.read_exactly(location, offset, length.or(Some(size as u64)), Some(size as u64))?;
    let Some(expected) = checksum else { return Ok((bytes, None)) };
    let opened = folder.open(location)?;
    if matches!(opened.content, Content::File(_)) {
        opened.verify(location, expected).map_err(|refusal| refusal())?;
        return Ok((bytes, None));
    }
    let (location, expected) = (location.to_owned(), expected.to_owned());
    Ok((bytes, Some(Box::new(move |_| opened.verify(&location, &expected)))))
}
