//! The file format of compiled models.
//!
//! A file consists of the following parts. All numbers are little-endian.
//!
//! | bytes | content |
//! |---|---|
//! | 0–7 | the magic number |
//! | 8–9 | the format's version |
//! | 10–11 | 0 |
//! | 12–15 | CRC-32 of bytes 0–11 and from byte 16 on to the end of the body |
//! | 16–23 | the length of the body |
//! | 24–31 | the length of the file |
//! | 32– | the body: the table of tensors, then the content that the caller wrote |
//! | | the elements of each tensor, at multiples of [`ALIGNMENT`] |
//!
//! The elements are not read while a file is loaded, so that the pages of a mapped file are not loaded. Each tensor has its own
//! checksum, which is compared when the tensor is first used.

use super::{Compact, Reader, Writer};
use crate::limits::within;
use crate::tensor::{Check, ErrorMaker};
use crate::{ALIGNMENT, DataType, Error, Limits, Shape, TensorData, file, memory};
use bytes::Bytes;
use std::io::{self, Write};
use std::path::Path;

/// The first bytes of a file. The first byte is not ASCII and the last byte is a line feed, so that a transfer in text mode
/// damages these bytes.
const MAGIC: [u8; 8] = *b"\x93bbsave\n";

/// The version of the format. No other version is read or written.
const VERSION: u16 = 1;

/// The number of bytes before the body.
const PRELUDE: usize = 32;

/// Returns whether bytes begin with the magic number of a compiled model.
pub fn is_saved(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// An entry of the table of tensors.
struct Entry {
    dtype: DataType,
    shape: Shape,
    /// The offset of the elements, counted from the end of the body.
    offset: usize,
    length: usize,
    checksum: u32,
}

crate::__compact!(struct Entry { dtype, shape, offset, length, checksum });

/// Writes a compiled model: the content, and the elements of the tensors that it refers to.
///
/// # Errors
///
/// The errors of `to`; an error if a tensor cannot be read.
pub fn write(content: &Writer, to: &mut impl Write) -> io::Result<()> {
    let mut entries = Vec::with_capacity(content.tensors.len());
    let mut end = 0usize;
    for x in &content.tensors {
        let offset = end.next_multiple_of(ALIGNMENT);
        let (length, checksum) = (x.byte_len(), crc32fast::hash(elements(x)?));
        entries.push(Entry {
            dtype: x.dtype(),
            shape: Shape::from_slice(x.shape()),
            offset,
            length,
            checksum,
        });
        end = offset + length;
    }
    let mut body = Writer::default();
    entries.write(&mut body);
    body.bytes(&content.bytes);
    let start = (PRELUDE + body.bytes.len()).next_multiple_of(ALIGNMENT);
    let prelude = Prelude { body: body.bytes.len() as u64, file: (start + end) as u64 };
    to.write_all(&prelude.bytes(&body.bytes))?;
    to.write_all(&body.bytes)?;
    let mut at = PRELUDE + body.bytes.len();
    for (entry, x) in entries.iter().zip(&content.tensors) {
        let begin = start + entry.offset;
        to.write_all(vec![0; begin - at].as_slice())?;
        to.write_all(elements(x)?)?;
        at = begin + entry.length;
    }
    // Even without tensors, the file ends with the padding.
    to.write_all(vec![0; (start + end) - at].as_slice())
}

/// Returns the elements of a tensor, or an error if they are damaged.
fn elements(x: &TensorData) -> io::Result<&Bytes> {
    x.unaligned_bytes().map_err(io::Error::other)
}

/// The lengths in the prelude.
struct Prelude {
    body: u64,
    file: u64,
}

impl Prelude {
    fn bytes(&self, body: &[u8]) -> Vec<u8> {
        let front = [&MAGIC[..], &VERSION.to_le_bytes(), &[0, 0]].concat();
        let lengths = [self.body.to_le_bytes(), self.file.to_le_bytes()].concat();
        let sum = checksum(&front, &lengths, body);
        [front, sum.to_le_bytes().to_vec(), lengths].concat()
    }
}

fn checksum(front: &[u8], lengths: &[u8], body: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    [front, lengths, body].into_iter().for_each(|part| crc.update(part));
    crc.finalize()
}

/// A loaded compiled model, whose content is read with a [`Reader`].
#[derive(Debug)]
pub struct Saved {
    body: Bytes,
    /// The size of the table at the start of the body, in bytes.
    table: usize,
    tensors: Vec<TensorData>,
}

impl Saved {
    /// Checks the format of a compiled model and the checksum of the body, and decodes the table of tensors. The elements are
    /// not checked.
    ///
    /// # Errors
    ///
    /// One of the `Saved…` variants of [`Error`] if the bytes are not a whole file of this version; [`Error::Limit`] if the
    /// content exceeds `limits`; an error of [`TensorData::adopt`].
    pub fn open(file: &Bytes, limits: &Limits) -> Result<Saved, Error> {
        let (body, rest) = split(file, limits)?;
        let mut reader = Reader::new(&body, &[], limits);
        let entries: Vec<Entry> = Vec::read(&mut reader)?;
        let table = reader.position();
        let mut tensors = memory::room("loading a compiled model", entries.len())?;
        let mut total = 0usize;
        for entry in entries {
            within("tensor_bytes", "bytes of a tensor", entry.length, limits.tensor_bytes)?;
            total = total.saturating_add(entry.length);
            within("total_tensor_bytes", "bytes of all tensors", total, limits.total_tensor_bytes)?;
            let elements = file::slice(&rest, entry.offset as u64, entry.length as u64);
            let elements = elements.ok_or(Error::SavedEnd {
                expected: (entry.offset as u64).saturating_add(entry.length as u64),
                got: rest.len() as u64,
            })?;
            tensors.push(entry.tensor(elements, tensors.len())?);
        }
        Ok(Saved { body, table, tensors })
    }

    /// Returns a reader of the content that starts at the offset `from`.
    pub fn reader<'a>(&'a self, from: usize, limits: &'a Limits) -> Reader<'a> {
        let content = self.body.get(self.table.saturating_add(from)..).unwrap_or_default();
        Reader::new(content, &self.tensors, limits)
    }
}

impl Entry {
    /// Creates the tensor. Its checksum is compared when its elements are first used.
    fn tensor(self, elements: Bytes, number: usize) -> Result<TensorData, Error> {
        let expected = self.checksum;
        // The checksum is of the elements in the file. `adopt` may return others, because it clears the unused bits of the last
        // byte.
        let file = elements.clone();
        let check: Check = Box::new(move |_| match crc32fast::hash(&file) {
            got if got == expected => Ok(()),
            got => Err(Box::new(move || Error::SavedTensor { number, expected, got }) as ErrorMaker),
        });
        TensorData::adopt(self.dtype, &self.shape, elements)?.checked_later(Some(check))
    }
}

/// Checks the prelude and the checksum. Returns the body, and the bytes after its padding.
fn split(file: &Bytes, limits: &Limits) -> Result<(Bytes, Bytes), Error> {
    if !is_saved(file) {
        return Err(Error::SavedMagic);
    }
    let number = |at: usize, count: usize| {
        let bytes = file.get(at..at + count).unwrap_or_default();
        bytes.iter().rev().fold(0u64, |number, byte| (number << 8) | u64::from(*byte))
    };
    let got = file.len() as u64;
    if file.len() < PRELUDE {
        return Err(Error::SavedEnd { expected: PRELUDE as u64, got });
    }
    let version = number(8, 2) as u16;
    if version != VERSION {
        return Err(Error::SavedVersion { expected: VERSION, got: version });
    }
    let (sum, body, expected) = (number(12, 4) as u32, number(16, 8), number(24, 8));
    if expected != got {
        return Err(Error::SavedEnd { expected, got });
    }
    let most = limits.total_text_bytes;
    within("total_text_bytes", "bytes of a compiled model besides its tensors", memory::at_most(body), most)?;
    let content = file::slice(file, PRELUDE as u64, body);
    let content = content.ok_or(Error::SavedEnd { expected: body.saturating_add(PRELUDE as u64), got })?;
    let [front, lengths] = [0..12, 16..PRELUDE].map(|range| file.get(range).unwrap_or_default());
    let found = checksum(front, lengths, &content);
    if found != sum {
        return Err(Error::SavedChecksum { expected: sum, got: found });
    }
    let start = (PRELUDE + content.len()).next_multiple_of(ALIGNMENT);
    Ok((content, file.slice(start.min(file.len())..)))
}

/// Loads a compiled model. `limits` determines whether the file is mapped or read.
///
/// # Errors
///
/// The errors of [`file::load`] and [`Saved::open`].
pub fn load(path: &Path, limits: &Limits) -> Result<Saved, Error> {
    let bytes = file::load(path, limits)?;
    Saved::open(&bytes, limits)
        .map_err(|source| Error::InFile { path: path.to_owned(), source: Box::new(source) })
}
