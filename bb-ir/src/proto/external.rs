//! Elements that lie in files beside a model, and nowhere else.
//!
//! A location is a relative path without `..`; the file that it leads to, symbolic links followed,
//! must be a regular file below the model's folder. Nothing is read before the range is known to
//! lie in the file and to have the length that the tensor needs.

use super::mapped::Files;
use super::{TensorProto, sha1};
use crate::Error;
use bytes::Bytes;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The folder that a model's external data may come from.
#[derive(Debug)]
pub struct ExternalData {
    root: PathBuf,
    /// The digest of each file of which one was asked for.
    digests: Mutex<HashMap<PathBuf, String>>,
    files: Files,
}

impl ExternalData {
    /// Allows the files below `folder`.
    ///
    /// # Errors
    ///
    /// The operating system's, if there is no such folder.
    pub fn new(folder: &Path) -> io::Result<ExternalData> {
        Ok(ExternalData {
            // The parent of a bare file name is the empty path.
            root: if folder.as_os_str().is_empty() { Path::new(".") } else { folder }.canonicalize()?,
            digests: Mutex::default(),
            files: Files::default(),
        })
    }

    /// Reads `length` bytes at `offset` of the file at `location`, to its end if no length is given.
    ///
    /// With the feature `mmap` the bytes are those of the mapped file; otherwise they are read.
    ///
    /// Units: bytes.
    ///
    /// # Errors
    ///
    /// [`Error::ExternalPath`] for a location outside the folder; [`Error::ExternalRange`] for bytes
    /// that the file does not have; [`Error::ExternalIo`] if it cannot be opened or read.
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
        let (path, file, size) = self.open(location)?;
        let rest = size.checked_sub(offset);
        let length = length.or(rest).unwrap_or_default();
        if rest.is_none_or(|rest| length > rest) || needed.is_some_and(|needed| needed != length) {
            let location = location.to_owned();
            return Err(Error::ExternalRange {
                location,
                offset,
                length,
                file: size,
                needed: needed.unwrap_or(length),
            });
        }
        let io = |source| Error::ExternalIo { location: location.to_owned(), source };
        self.files.slice(&path, file, offset, length).map_err(io)
    }

    /// Opens the regular file at `location`; returns its real path and its size as well.
    fn open(&self, location: &str) -> Result<(PathBuf, File, u64), Error> {
        let outside = || Error::ExternalPath { location: location.to_owned() };
        let io = |source| Error::ExternalIo { location: location.to_owned(), source };
        let relative = Path::new(location);
        if location.is_empty()
            || !relative.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir))
        {
            return Err(outside());
        }
        let path = self.root.join(relative).canonicalize().map_err(io)?;
        if !path.starts_with(&self.root) {
            return Err(outside());
        }
        // Opening a pipe would wait for its writer, so the kind is asked for first.
        if !path.metadata().map_err(io)?.is_file() {
            return Err(outside());
        }
        let file = File::open(&path).map_err(io)?;
        let size = file.metadata().map_err(io)?.len();
        Ok((path, file, size))
    }

    fn verify(&self, location: &str, expected: &str) -> Result<(), Error> {
        let (path, file, _) = self.open(location)?;
        let mut digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        let got = match digests.get(&path) {
            Some(digest) => digest.clone(),
            None => {
                let digest = sha1::digest(file)
                    .map_err(|source| Error::ExternalIo { location: location.to_owned(), source })?;
                digests.entry(path).or_insert(digest).clone()
            }
        };
        if got.eq_ignore_ascii_case(expected) {
            Ok(())
        } else {
            Err(Error::ExternalChecksum { location: location.to_owned(), expected: expected.to_owned(), got })
        }
    }
}

/// Reads the `size` bytes that a tensor's `external_data` points to.
pub(super) fn read(proto: &TensorProto, size: usize, folder: Option<&ExternalData>) -> Result<Bytes, Error> {
    let (mut location, mut offset, mut length, mut checksum) = (None, None, None, None);
    for entry in &proto.external_data {
        let key = entry.key.as_deref().unwrap_or_default();
        let value = entry.value.as_deref().unwrap_or_default();
        let refused = || Error::ExternalKey { key: key.to_owned(), value: value.to_owned() };
        let slot = match key {
            "location" => &mut location,
            "checksum" => &mut checksum,
            "offset" => &mut offset,
            "length" => &mut length,
            // Others are hints for those who know them.
            _ => continue,
        };
        if slot.replace(value).is_some() {
            return Err(refused());
        }
    }
    let number = |key: &str, value: Option<&str>| {
        let parse = |v: &str| {
            v.parse::<u64>().map_err(|_| Error::ExternalKey { key: key.to_owned(), value: v.to_owned() })
        };
        value.map(parse).transpose()
    };
    let (offset, length) = (number("offset", offset)?.unwrap_or(0), number("length", length)?);
    let location = location.unwrap_or_default();
    let folder = folder.ok_or_else(|| Error::NoExternalFolder { location: location.to_owned() })?;
    if let Some(expected) = checksum {
        folder.verify(location, expected)?;
    }
    // A length is optional, and then what the tensor needs is what is meant.
    folder.read_exactly(location, offset, length.or(Some(size as u64)), Some(size as u64))
}
