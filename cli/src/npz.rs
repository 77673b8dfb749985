//! Reads members of `.npz` files, which are ZIP archives of `.npy` files.
//!
//! It reads what NumPy writes: stored or deflated members of any size, found through the archive's directory.
//!
//! Source: PKWARE's APPNOTE.TXT 6.3.10, sections 4.3 to 4.5.

use bytes::Bytes;
use std::io::Read;

/// Why a member of an archive cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NpzError {
    #[error("the archive ends before its {part}")]
    Truncated { part: &'static str },

    #[error("it is no ZIP archive: the record at its end is missing")]
    NotZip,

    #[error(
        "the archive has no member `{name}`; it has {}{}",
        crate::render::names(.known),
        crate::render::suggestion(.nearest)
    )]
    NoMember { name: String, known: Vec<String>, nearest: Option<String> },

    #[error("member `{name}` is encrypted")]
    Encrypted { name: String },

    #[error("member `{name}` is packed by method {method}; expected 0 (stored) or 8 (deflated)")]
    Method { name: String, method: u16 },

    #[error("member `{name}` has {got} bytes; its archive says {expected}")]
    Length { name: String, expected: u64, got: u64 },

    #[error("the checksum of member `{name}` is {got:08x}; its archive says {expected:08x}")]
    Checksum { name: String, expected: u32, got: u32 },

    #[error("member `{name}` cannot be unpacked")]
    Inflate {
        name: String,
        #[source]
        source: std::io::Error,
    },
}

/// The size of the fixed part of each record, in bytes.
const END: usize = 22;
const END_64: usize = 56;
const LOCATOR_64: usize = 20;
const ENTRY: usize = 46;
const LOCAL: usize = 30;

/// Marks a value that does not fit into its field.
const BEYOND: u64 = 0xFFFF_FFFF;

/// A member, as the directory lists it.
struct Entry {
    name: String,
    flags: u16,
    method: u16,
    checksum: u32,
    packed: u64,
    size: u64,
    /// The offset of its local header.
    at: u64,
}

/// Reads the member `name`, with or without the extension `.npy`. If the user did not ask for a member
/// (`asked`), an archive with only one member may have any name for it.
pub(super) fn member(archive: &Bytes, name: &str, asked: bool) -> Result<Bytes, NpzError> {
    let entries = entries(archive)?;
    let plain = |entry: &Entry| entry.name.strip_suffix(".npy").unwrap_or(&entry.name).to_owned();
    let found = entries.iter().find(|entry| entry.name == name || plain(entry) == name);
    match (found, entries.as_slice()) {
        (Some(entry), _) => entry.read(archive),
        (None, [only]) if !asked => only.read(archive),
        _ => {
            let known: Vec<String> = entries.iter().map(plain).collect();
            let nearest = bb_ir::nearest(name, known.iter().map(String::as_str)).map(str::to_owned);
            Err(NpzError::NoMember { name: name.to_owned(), known, nearest })
        }
    }
}

/// Reads the directory of the archive.
fn entries(archive: &[u8]) -> Result<Vec<Entry>, NpzError> {
    // A comment of up to 65535 bytes may follow the last record.
    let earliest = archive.len().saturating_sub(END + 0xFFFF);
    let latest = archive.len().checked_sub(END).ok_or(NpzError::NotZip)?;
    let signed = |at: &usize| archive.get(*at..).is_some_and(|rest| rest.starts_with(b"PK\x05\x06"));
    let end = (earliest..=latest).rev().find(signed).ok_or(NpzError::NotZip)?;
    let truncated = || NpzError::Truncated { part: "directory" };
    let (mut count, mut at) = (number::<2>(archive, end + 10), number::<4>(archive, end + 16));
    let locator = end
        .checked_sub(LOCATOR_64)
        .filter(|at| archive.get(*at..).is_some_and(|rest| rest.starts_with(b"PK\x06\x07")));
    if let Some(locator) = locator {
        let end = number::<8>(archive, locator + 8)
            .and_then(|at| usize::try_from(at).ok())
            .ok_or_else(truncated)?;
        let record =
            archive.get(end..).filter(|rest| rest.starts_with(b"PK\x06\x06") && rest.len() >= END_64);
        let record = record.ok_or_else(truncated)?;
        (count, at) = (number::<8>(record, 32), number::<8>(record, 48));
    }
    let mut at = at.and_then(|at| usize::try_from(at).ok()).ok_or_else(truncated)?;
    let mut entries = Vec::new();
    for _ in 0..count.ok_or_else(truncated)? {
        let (entry, length) = archive.get(at..).and_then(Entry::parse).ok_or_else(truncated)?;
        entries.push(entry);
        at += length;
    }
    Ok(entries)
}

impl Entry {
    /// Parses an entry of the directory; returns it and its length.
    fn parse(from: &[u8]) -> Option<(Entry, usize)> {
        if !from.starts_with(b"PK\x01\x02") {
            return None;
        }
        let field = |at| number::<2>(from, at).and_then(|n| usize::try_from(n).ok());
        let (name, extra, comment) = (field(28)?, field(30)?, field(32)?);
        let text = from.get(ENTRY..ENTRY + name)?;
        let mut sizes = [number::<4>(from, 24)?, number::<4>(from, 20)?, number::<4>(from, 42)?];
        let mut extras = from.get(ENTRY + name..ENTRY + name + extra)?;
        while let (Some(id), Some(length)) = (number::<2>(extras, 0), number::<2>(extras, 2)) {
            let content = extras.get(4..4 + length as usize)?;
            if id == 1 {
                // The extra field only has the values that do not fit, one after the other.
                let mut wide = (0..).map(|i| number::<8>(content, i * 8));
                for size in sizes.iter_mut().filter(|size| **size == BEYOND) {
                    *size = wide.next()??;
                }
            }
            extras = extras.get(4 + length as usize..)?;
        }
        let [size, packed, at] = sizes;
        let entry = Entry {
            name: String::from_utf8_lossy(text).into_owned(),
            flags: number::<2>(from, 8)? as u16,
            method: number::<2>(from, 10)? as u16,
            checksum: number::<4>(from, 16)? as u32,
            packed,
            size,
            at,
        };
        Some((entry, ENTRY + name + extra + comment))
    }

    fn read(&self, archive: &Bytes) -> Result<Bytes, NpzError> {
        let name = || self.name.clone();
        if self.flags & 1 != 0 {
            return Err(NpzError::Encrypted { name: name() });
        }
        let packed = self.packed_bytes(archive).ok_or(NpzError::Truncated { part: "member" })?;
        let bytes = match self.method {
            0 => packed,
            8 => {
                let mut bytes = Vec::new();
                // Unpacks at most one byte more than the directory states, which suffices to detect that
                // there is more.
                let mut from = flate2::read::DeflateDecoder::new(&*packed).take(self.size.saturating_add(1));
                let read = from.read_to_end(&mut bytes);
                read.map_err(|source| NpzError::Inflate { name: name(), source })?;
                bytes.into()
            }
            method => return Err(NpzError::Method { name: name(), method }),
        };
        if bytes.len() as u64 != self.size {
            return Err(NpzError::Length { name: name(), expected: self.size, got: bytes.len() as u64 });
        }
        let got = crc32fast::hash(&bytes);
        if got != self.checksum {
            return Err(NpzError::Checksum { name: name(), expected: self.checksum, got });
        }
        Ok(bytes)
    }

    fn packed_bytes(&self, archive: &Bytes) -> Option<Bytes> {
        let at = usize::try_from(self.at).ok()?;
        let header = archive.get(at..).filter(|rest| rest.starts_with(b"PK\x03\x04"))?;
        let name = usize::try_from(number::<2>(header, 26)?).ok()?;
        let extra = usize::try_from(number::<2>(header, 28)?).ok()?;
        let start = at.checked_add(LOCAL)?.checked_add(name)?.checked_add(extra)?;
        let end = start.checked_add(usize::try_from(self.packed).ok()?)?;
        (end <= archive.len()).then(|| archive.slice(start..end))
    }
}

/// Returns a little-endian number of `N` bytes.
fn number<const N: usize>(from: &[u8], at: usize) -> Option<u64> {
    let bytes = from.get(at..at.checked_add(N)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}
