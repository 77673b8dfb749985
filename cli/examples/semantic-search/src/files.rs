//! Finds the files of a folder that may be text, and reads them.

use crate::error::{Error, Result, io};
use std::fs::{File, Metadata};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A file in the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FolderFile {
    pub(crate) path: String,
    pub(crate) size: u64,
    /// The time of the last change, in nanoseconds since 1970.
    pub(crate) modified: Option<i128>,
}

/// The result of a walk.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    /// The files, in ascending order of paths.
    pub(crate) files: Vec<FolderFile>,
    /// The folders that could not be read.
    pub(crate) closed: Vec<PathBuf>,
}

/// The numbers of files and folders that were not read, by reason.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Skipped {
    pub(crate) hidden: usize,
    pub(crate) caches: usize,
    pub(crate) excluded: usize,
    /// Links, devices and pipes.
    pub(crate) special: usize,
    pub(crate) large: usize,
    pub(crate) binary: usize,
    pub(crate) other_encoding: usize,
    pub(crate) names: usize,
    /// The paths that the system failed to read, with the reasons.
    pub(crate) refused: Vec<String>,
}

impl Skipped {
    /// Formats the numbers of skipped files by reason. Returns `None` if nothing was skipped.
    pub(crate) fn text(&self) -> Option<String> {
        let counts = [
            (self.hidden, "hidden"),
            (self.caches, "folders of caches"),
            (self.excluded, "excluded"),
            (self.special, "links or devices"),
            (self.large, "too large"),
            (self.binary, "binary"),
            (self.other_encoding, "not UTF-8"),
            (self.names, "with names that are not UTF-8"),
            (self.refused.len(), "that cannot be read"),
        ];
        let parts: Vec<String> =
            counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// The criteria for skipping files and folders.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// The maximum size of a file, in bytes.
    pub(crate) largest: u64,
    /// The names of files and folders to skip.
    pub(crate) exclude: Vec<String>,
}

/// Finds the files below `root`. Does not follow links, which could form a cycle.
///
/// # Errors
///
/// [`Error::NotFolder`] and [`Error::Io`] for the root itself. Files and folders below it that cannot be read are only counted.
pub(crate) fn walk(root: &Path, rules: &Rules, skipped: &mut Skipped) -> Result<Walked> {
    if !root.metadata().map_err(io("find", root))?.is_dir() {
        return Err(Error::NotFolder { path: root.to_owned() });
    }
    let (mut found, mut closed) = (Vec::new(), Vec::new());
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(source) if folder == root => return Err(io("list", root)(source)),
            Err(source) => {
                skipped.refused.push(format!("{}: {source}", folder.display()));
                closed.push(folder);
                continue;
            }
        };
        for entry in entries {
            let looked = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)));
            let (path, metadata) = match looked {
                Ok(looked) => looked,
                Err(source) => {
                    skipped.refused.push(format!("{}: {source}", folder.display()));
                    continue;
                }
            };
            let Some(text) = path.to_str() else {
                skipped.names += 1;
                continue;
            };
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.starts_with('.') {
                skipped.hidden += 1;
            } else if rules.exclude.iter().any(|excluded| excluded == name) {
                skipped.excluded += 1;
            } else if metadata.is_dir() {
                // By convention, this file marks a folder as a cache, whose content can be recreated.
                if path.join("CACHEDIR.TAG").is_file() {
                    skipped.caches += 1;
                } else {
                    folders.push(path);
                }
            } else if !metadata.is_file() {
                skipped.special += 1;
            } else if metadata.len() > rules.largest {
                skipped.large += 1;
            } else {
                found.push(FolderFile {
                    path: text.to_owned(),
                    size: metadata.len(),
                    modified: modified(&metadata),
                });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(Walked { files: found, closed })
}

/// Returns the time of the last change in nanoseconds since 1970, if the system reports it.
pub(crate) fn modified(metadata: &Metadata) -> Option<i128> {
    let time = metadata.modified().ok()?;
    let nanoseconds = |passed: Duration| i128::try_from(passed.as_nanos()).ok();
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => nanoseconds(after),
        Err(before) => nanoseconds(before.duration()).map(|n| -n),
    }
}

/// The contents of a file, by kind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FileContents {
    Text(String),
    Binary,
    OtherEncoding,
}

/// A file that was read.
#[derive(Debug)]
pub(crate) struct FileRead {
    pub(crate) bytes: Vec<u8>,
    /// The time of the last change when the file was opened. `None` if a later change could have the same time.
    pub(crate) modified: Option<i128>,
}

/// The minimum age of a change in nanoseconds, so that a later change has a different time. File systems have resolutions of up to 2
/// seconds.
const SETTLED: i128 = 2_000_000_000;

/// Reads a file of at most `largest` bytes. Returns `None` if it is larger.
///
/// # Errors
///
/// The errors of the system.
pub(crate) fn read(path: &str, largest: u64) -> std::io::Result<Option<FileRead>> {
    let file = File::open(path)?;
    let modified = modified(&file.metadata()?);
    let mut bytes = Vec::new();
    file.take(largest.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > largest {
        return Ok(None);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_nanos());
    let settled = |time: &i128| *time + SETTLED < i128::try_from(now).unwrap_or(i128::MAX);
    Ok(Some(FileRead { bytes, modified: modified.filter(settled) }))
}

/// Converts bytes to text. A file with a zero byte in its first part is binary.
pub(crate) fn text(bytes: Vec<u8>) -> FileContents {
    const LOOKED_AT: usize = 8192;
    if bytes.iter().take(LOOKED_AT).any(|byte| *byte == 0) {
        return FileContents::Binary;
    }
    match String::from_utf8(bytes) {
        Ok(text) => FileContents::Text(text),
        Err(_) => FileContents::OtherEncoding,
    }
}
