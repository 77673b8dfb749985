//! The index on disk: the vectors, which are mapped into memory, and the files and positions of their passages.
//!
//! All numbers are little-endian.
//!
//! | bytes | content |
//! |---|---|
//! | 8 | `bbsearch` |
//! | 4 | the version of the format, 1 |
//! | 4 | the number of elements of a vector |
//! | 8 | the number of passages |
//! | 8 | the number of files |
//! | 8 | the length of the table in bytes |
//! | 32 | the digest of the model |
//! | 4 | the CRC-32 of the vectors |
//! | 4 | the CRC-32 of the table |
//! | 44 | 0 |
//! | 4 | the CRC-32 of the 124 bytes before it |
//! | … | the vectors, `f32`, each of length 1, in the order of the passages |
//! | … | the table |
//!
//! The table contains for each file, in ascending order of paths: the length of its path (4) and the path in UTF-8; the size (8); the time
//! of its last change in nanoseconds since 1970 (16, signed; the minimum integer if unknown); the SHA-256 of its bytes (32); the number of
//! its passages (4); and for each passage its start (8) and end (8) in the file, and the number of its first line (4).
//!
//! An index is replaced as a whole: the new index is written to another file, which is then renamed. Every number in an index is checked
//! against the length of the file and the checksums before it is used, and no allocation exceeds the length of the table.

use crate::error::{Error, Result, io};
use crate::passages::Passage;
use bb::{DataType, TensorData};
use bytes::Bytes;
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

const MAGIC: [u8; 8] = *b"bbsearch";
const VERSION: u32 = 1;
const HEADER: usize = 128;
/// The value for an unknown time.
const UNKNOWN: i128 = i128::MIN;

/// A defect of an index file.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum Damage {
    /// The file does not begin with the magic bytes of an index.
    #[error("it does not begin with `bbsearch`")]
    Magic,

    /// The file has another version of the format.
    #[error("it has version {got} of the format; expected {VERSION}")]
    Version { got: u32 },

    /// The checksum of a part is wrong.
    #[error("its {part} was changed: the checksum is {got:08x}, expected {expected:08x}")]
    Checksum { part: &'static str, expected: u32, got: u32 },

    /// The file is too short or too long.
    #[error("it has {got} bytes; expected {expected}")]
    Length { expected: u128, got: usize },

    /// The table is truncated, has surplus bytes, or contradicts the header.
    #[error("its table is not well-formed: {what}")]
    Table { what: &'static str },
}

/// A file that was indexed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) path: String,
    pub(crate) size: u64,
    /// The time of the last change in nanoseconds since 1970. `None` if a later change may have the same time.
    pub(crate) modified: Option<i128>,
    pub(crate) digest: [u8; 32],
    /// The range of the file's passages.
    pub(crate) passages: Range<usize>,
}

/// The byte range of a passage in its file, and the number of its first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PassagePlace {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) line: u32,
}

impl PassagePlace {
    /// Returns the position of a passage.
    pub(crate) fn of(passage: &Passage) -> PassagePlace {
        PassagePlace { start: passage.start as u64, end: passage.end as u64, line: passage.line }
    }
}

/// An index that was read and checked.
#[derive(Debug, Default)]
pub(crate) struct Index {
    pub(crate) dimensions: usize,
    pub(crate) model: [u8; 32],
    /// The files, in ascending order of paths.
    pub(crate) entries: Vec<Entry>,
    pub(crate) places: Vec<PassagePlace>,
    vectors: Bytes,
}

impl Index {
    /// Maps the index at `path` into memory. Returns `None` if the file does not exist.
    ///
    /// # Errors
    ///
    /// [`Error::Index`] if the file is damaged or not an index.
    pub(crate) fn open(path: &Path) -> Result<Option<Index>> {
        let limits = bb_ir::Limits { model_bytes: usize::MAX, ..Default::default() };
        let bytes = match bb_ir::file::load(path, &limits) {
            Ok(bytes) => bytes,
            Err(bb_ir::Error::NoFile { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        Index::read(&bytes).map(Some).map_err(|source| Error::Index { path: path.to_owned(), source })
    }

    /// Parses and checks an index.
    ///
    /// # Errors
    ///
    /// [`Damage`] if the bytes are not a valid index.
    pub(crate) fn read(bytes: &Bytes) -> std::result::Result<Index, Damage> {
        let mut header = Cursor(bytes.get(..bytes.len().min(HEADER)).unwrap_or_default());
        let short = Damage::Length { expected: HEADER as u128, got: bytes.len() };
        if header.array() != Some(MAGIC) {
            return Err(Damage::Magic);
        }
        let checked = bytes.get(..HEADER - 4).ok_or(short)?;
        let version = header.u32().unwrap_or(0);
        if version != VERSION {
            return Err(Damage::Version { got: version });
        }
        let stated =
            bytes.get(HEADER - 4..HEADER).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes);
        check("header", checked, stated)?;
        let what = Damage::Table { what: "the header is too short" };
        let fields = (header.u32(), header.u64(), header.u64(), header.u64(), header.array::<32>());
        let (Some(dimensions), Some(passages), Some(files), Some(table), Some(model)) = fields else {
            return Err(what);
        };
        let (Some(of_vectors), Some(of_table)) = (header.u32(), header.u32()) else { return Err(what) };
        let length = u128::from(passages) * u128::from(dimensions) * 4;
        let expected = HEADER as u128 + length + u128::from(table);
        if expected != bytes.len() as u128 {
            return Err(Damage::Length { expected, got: bytes.len() });
        }
        // Both numbers are less than the number of bytes in memory, so they fit into `usize`.
        let (length, passages) = (length as usize, usize::try_from(passages).unwrap_or(usize::MAX));
        let vectors = bytes.slice(HEADER..HEADER + length);
        let rest = bytes.slice(HEADER + length..);
        check("table", &rest, of_table)?;
        check("list of vectors", &vectors, of_vectors)?;
        let (entries, places) = read_table(&rest, files, passages)?;
        Ok(Index { dimensions: dimensions as usize, model, entries, places, vectors })
    }

    /// Returns the vectors of a range of passages, without copying them.
    pub(crate) fn vectors(&self, passages: Range<usize>) -> Option<Bytes> {
        let width = self.dimensions * 4;
        let (from, to) = (passages.start.checked_mul(width)?, passages.end.checked_mul(width)?);
        (from <= to && to <= self.vectors.len()).then(|| self.vectors.slice(from..to))
    }

    /// Returns the vectors of a range of passages as a tensor `[passages, dimensions]`, without copying them.
    ///
    /// # Errors
    ///
    /// [`bb_ir::Error::ByteLength`] if a passage does not exist.
    pub(crate) fn tensor(&self, passages: Range<usize>) -> Result<TensorData> {
        let shape = [passages.len(), self.dimensions];
        Ok(TensorData::adopt(DataType::F32, &shape, self.vectors(passages).unwrap_or_default())?)
    }

    /// Returns the file that contains a passage.
    pub(crate) fn entry_of(&self, passage: usize) -> Option<&Entry> {
        let after = self.entries.partition_point(|entry| entry.passages.end <= passage);
        self.entries.get(after)
    }
}

fn check(part: &'static str, bytes: &[u8], expected: u32) -> std::result::Result<(), Damage> {
    let got = crc32fast::hash(bytes);
    if got == expected { Ok(()) } else { Err(Damage::Checksum { part, expected, got }) }
}

fn read_table(
    table: &[u8],
    files: u64,
    passages: usize,
) -> std::result::Result<(Vec<Entry>, Vec<PassagePlace>), Damage> {
    let wrong = |what| Damage::Table { what };
    let short = || wrong("it ends in the middle of a file");
    let mut cursor = Cursor(table);
    let (mut entries, mut places) = (Vec::<Entry>::new(), Vec::new());
    for _ in 0..files {
        let length = cursor.u32().ok_or_else(short)?;
        let path = cursor.take(length as usize).ok_or_else(short)?;
        let path = std::str::from_utf8(path).map_err(|_| wrong("a path is not UTF-8"))?;
        if entries.last().is_some_and(|before| before.path.as_str() >= path) {
            return Err(wrong("the paths are not in ascending order"));
        }
        let fields = (cursor.u64(), cursor.array().map(i128::from_le_bytes), cursor.array(), cursor.u32());
        let (Some(size), Some(modified), Some(digest), Some(count)) = fields else { return Err(short()) };
        let first = places.len();
        for _ in 0..count {
            let (Some(start), Some(end), Some(line)) = (cursor.u64(), cursor.u64(), cursor.u32()) else {
                return Err(short());
            };
            if start > end || end > size {
                return Err(wrong("a passage is not inside its file"));
            }
            places.push(PassagePlace { start, end, line });
        }
        let modified = Some(modified).filter(|time| *time != UNKNOWN);
        entries.push(Entry { path: path.to_owned(), size, modified, digest, passages: first..places.len() });
    }
    match (cursor.0.is_empty(), places.len() == passages) {
        (true, true) => Ok((entries, places)),
        (false, _) => Err(wrong("it goes on after the last file")),
        (true, false) => Err(wrong("it has another number of passages than the header")),
    }
}

/// A reader of consecutive fields in a byte slice.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

/// Writes an index file by file. Vectors are written to the disk immediately. The old index stays until [`finish`](Writer::finish).
#[derive(Debug)]
pub(crate) struct Writer {
    file: BufWriter<File>,
    own: PathBuf,
    path: PathBuf,
    dimensions: usize,
    model: [u8; 32],
    checksum: crc32fast::Hasher,
    table: Vec<u8>,
    files: u64,
    passages: u64,
}

impl Writer {
    /// Creates a writer for the index at `path`.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if no file can be created in the folder of `path`.
    pub(crate) fn new(path: &Path, dimensions: usize, model: [u8; 32]) -> Result<Writer> {
        let own = path.with_added_extension(format!("new-{}", std::process::id()));
        let file = File::create(&own).map_err(io("write", &own))?;
        let mut writer = Writer {
            file: BufWriter::new(file),
            own,
            path: path.to_owned(),
            dimensions,
            model,
            checksum: crc32fast::Hasher::new(),
            table: Vec::new(),
            files: 0,
            passages: 0,
        };
        writer.write(&[0; HEADER])?;
        Ok(writer)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(io("write", &self.own))
    }

    /// Adds a file with the bytes of its vectors. Files must be added in ascending order of paths.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], for example if the disk is full.
    pub(crate) fn add(&mut self, entry: &Entry, places: &[PassagePlace], vectors: &[u8]) -> Result<()> {
        debug_assert_eq!(vectors.len(), places.len() * self.dimensions * 4);
        self.write(vectors)?;
        self.checksum.update(vectors);
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes();
        self.table.extend(count(entry.path.len()));
        self.table.extend(entry.path.as_bytes());
        self.table.extend(entry.size.to_le_bytes());
        self.table.extend(entry.modified.unwrap_or(UNKNOWN).to_le_bytes());
        self.table.extend(entry.digest);
        self.table.extend(count(places.len()));
        for place in places {
            self.table.extend(place.start.to_le_bytes());
            self.table.extend(place.end.to_le_bytes());
            self.table.extend(place.line.to_le_bytes());
        }
        self.files += 1;
        self.passages += places.len() as u64;
        Ok(())
    }

    /// Completes the new index, and replaces the old one.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the system cannot write or rename the file.
    pub(crate) fn finish(mut self) -> Result<()> {
        let table = std::mem::take(&mut self.table);
        self.write(&table)?;
        let header = self.header(&table);
        let own = self.own.clone();
        let failed = || io("write", own.clone());
        self.file.seek(SeekFrom::Start(0)).map_err(failed())?;
        self.write(&header)?;
        self.file.flush().map_err(failed())?;
        self.file.get_ref().sync_all().map_err(failed())?;
        std::fs::rename(&self.own, &self.path).map_err(io("replace", &self.path))
    }

    fn header(&self, table: &[u8]) -> Vec<u8> {
        let mut header = Vec::with_capacity(HEADER);
        header.extend(MAGIC);
        header.extend(VERSION.to_le_bytes());
        header.extend(u32::try_from(self.dimensions).unwrap_or(u32::MAX).to_le_bytes());
        header.extend(self.passages.to_le_bytes());
        header.extend(self.files.to_le_bytes());
        header.extend((table.len() as u64).to_le_bytes());
        header.extend(self.model);
        header.extend(self.checksum.clone().finalize().to_le_bytes());
        header.extend(crc32fast::hash(table).to_le_bytes());
        header.resize(HEADER - 4, 0);
        header.extend(crc32fast::hash(&header).to_le_bytes());
        header
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // After `finish`, the file no longer exists, so the error is ignored.
        std::fs::remove_file(&self.own).unwrap_or_default();
    }
}
