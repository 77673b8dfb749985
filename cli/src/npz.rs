//! Reads members of `.npz` files, which are ZIP archives of `.npy` files.
//!
//! Supports the archives that NumPy writes: stored or deflated members, which are found through the archive's directory. A member is
//! decompressed only if its size in the directory is allowed, and is possible for the number of compressed bytes. Decompression never takes
//! more memory than that size.
//!
//! Source: PKWARE's APPNOTE.TXT 6.3.10, sections 4.3 to 4.5.

use bb_ir::text::shown;
use bytes::Bytes;
use std::io::Read;

/// An error of reading a member of an archive.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NpzError {
    #[error("the archive ends before its {part}")]
    Truncated { part: &'static str },

    #[error("it is no ZIP archive: the record at its end is missing")]
    NotZip,

    #[error(
        "the archive has no member `{name}`; it has {}{}",
        crate::render::names(.known),
        crate::render::suggestion(.nearest), name = shown(.name)
    )]
    NoMember { name: String, known: Vec<String>, nearest: Option<String> },

    #[error("member `{name}` is encrypted", name = shown(.name))]
    Encrypted { name: String },

    #[error("member `{name}` is packed by method {method}; expected 0 (stored) or 8 (deflated)", name = shown(.name))]
    Method { name: String, method: u16 },

    #[error("member `{name}` has {got} bytes; its archive says {expected}", name = shown(.name))]
    Length { name: String, expected: u64, got: u64 },

    #[error("the checksum of member `{name}` is {got:08x}; its archive says {expected:08x}", name = shown(.name))]
    Checksum { name: String, expected: u32, got: u32 },

    #[error("member `{name}` has {got} bytes; at most {limit} allowed by the limit `value_bytes`", name = shown(.name))]
    TooLarge { name: String, limit: usize, got: u64 },

    #[error("the archive has two members `{name}`", name = shown(.name))]
    Twice { name: String },

    #[error(transparent)]
    Memory(#[from] bb_ir::Error),

    #[error("member `{name}` cannot be unpacked", name = shown(.name))]
    Inflate {
        name: String,
        #[source]
        source: std::io::Error,
    },
}

/// The sizes in bytes of the fixed parts of the records.
const END: usize = 22;
const END_64: usize = 56;
const LOCATOR_64: usize = 20;
const ENTRY: usize = 46;
const LOCAL: usize = 30;

/// The value of a 32-bit field whose actual value is in the ZIP64 extra field.
const BEYOND: u64 = 0xFFFF_FFFF;

/// The maximum number of bytes that one compressed byte decompresses to.
///
/// Source: "zlib Technical Details": the maximum compression factor of deflate is 1032:1.
const RATIO: u64 = 1032;

/// A member, as described in the directory.
struct DirectoryEntry {
    name: String,
    flags: u16,
    method: u16,
    checksum: u32,
    packed: u64,
    size: u64,
    /// The offset of its local header.
    at: u64,
}

/// Reads the member `name`, with or without the extension `.npy`. If the user did not name a member (`asked` is false), the only member of
/// an archive may have any name. A member may have at most `most` bytes.
pub(super) fn member(archive: &Bytes, name: &str, asked: bool, most: usize) -> Result<Bytes, NpzError> {
    let entries = entries(archive)?;
    let plain = |entry: &DirectoryEntry| entry.name.strip_suffix(".npy").unwrap_or(&entry.name).to_owned();
    let found = entries.iter().find(|entry| entry.name == name || plain(entry) == name);
    match (found, entries.as_slice()) {
        // A duplicate name is refused, because readers may choose different members. Otherwise one reader could check a member, and the
        // next reader use another.
        (Some(entry), _) if entries.iter().filter(|other| other.name == entry.name).count() > 1 => {
            Err(NpzError::Twice { name: name.to_owned() })
        }
        (Some(entry), _) => entry.read(archive, most),
        (None, [only]) if !asked => only.read(archive, most),
        _ => {
            let known: Vec<String> = entries.iter().map(plain).collect();
            let nearest = bb_ir::nearest(name, known.iter().map(String::as_str)).map(str::to_owned);
            Err(NpzError::NoMember { name: name.to_owned(), known, nearest })
        }
    }
}

/// Reads the directory of the archive.
fn entries(archive: &[u8]) -> Result<Vec<DirectoryEntry>, NpzError> {
    // A comment of up to 65535 bytes may follow the last record, so the record is searched backwards.
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
        let (entry, length) = archive.get(at..).and_then(DirectoryEntry::parse).ok_or_else(truncated)?;
        entries.push(entry);
        at += length;
    }
    Ok(entries)
}

impl DirectoryEntry {
    /// Parses an entry of the directory. Returns the entry and its length.
    fn parse(from: &[u8]) -> Option<(DirectoryEntry, usize)> {
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
                // The extra field contains only the values that do not fit into 32 bits, one after the other.
                let mut wide = (0..).map(|i| number::<8>(content, i * 8));
                for size in sizes.iter_mut().filter(|size| **size == BEYOND) {
                    *size = wide.next()??;
                }
            }
            extras = extras.get(4 + length as usize..)?;
        }
        let [size, packed, at] = sizes;
        let entry = DirectoryEntry {
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

    fn read(&self, archive: &Bytes, most: usize) -> Result<Bytes, NpzError> {
        let name = || self.name.clone();
        if self.size > most as u64 {
            return Err(NpzError::TooLarge { name: name(), limit: most, got: self.size });
        }
        if self.flags & 1 != 0 {
            return Err(NpzError::Encrypted { name: name() });
        }
        let packed = self.packed_bytes(archive).ok_or(NpzError::Truncated { part: "member" })?;
        let bytes = match self.method {
            0 => packed,
            8 => {
                let possible = (packed.len() as u64 + 1).saturating_mul(RATIO);
                if self.size > possible {
                    return Err(NpzError::Length { name: name(), expected: self.size, got: possible });
                }
                let mut bytes = bb_ir::memory::room(
                    "unpacking a member",
                    bb_ir::memory::at_most(self.size).saturating_add(1),
                )?;
                // Decompresses at most one byte more than the directory states, which suffices to detect a wrong size.
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

/// Parses a little-endian number of `N` bytes.
fn number<const N: usize>(from: &[u8], at: usize) -> Option<u64> {
    let bytes = from.get(at..at.checked_add(N)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use std::io::Write;

    /// A member of a test archive: its name, method and compressed bytes, and the size and checksum for the directory.
    struct ArchiveMember<'a> {
        name: &'a str,
        method: u16,
        packed: Vec<u8>,
        size: u32,
        checksum: u32,
    }

    impl ArchiveMember<'_> {
        fn deflated<'a>(name: &'a str, content: &[u8]) -> ArchiveMember<'a> {
            let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
            encoder.write_all(content).unwrap();
            let packed = encoder.finish().unwrap();
            ArchiveMember {
                name,
                method: 8,
                packed,
                size: content.len() as u32,
                checksum: crc32fast::hash(content),
            }
        }
    }

    /// Writes an archive as specified in APPNOTE.TXT.
    fn archive(members: &[ArchiveMember<'_>]) -> Bytes {
        let (mut file, mut directory) = (Vec::new(), Vec::new());
        for made in members {
            let (at, name) = (file.len() as u32, made.name.as_bytes());
            let mut shared = Vec::new();
            [20u16, 0, made.method, 0, 0].iter().for_each(|field| shared.extend(field.to_le_bytes()));
            [made.checksum, made.packed.len() as u32, made.size]
                .iter()
                .for_each(|f| shared.extend(f.to_le_bytes()));
            shared.extend((name.len() as u16).to_le_bytes());
            shared.extend([0; 2]);
            file.extend([b"PK\x03\x04".as_slice(), &shared, name, &made.packed].concat());
            directory.extend(
                [b"PK\x01\x02".as_slice(), &[20, 0], &shared, &[0; 10], &at.to_le_bytes(), name].concat(),
            );
        }
        let (at, length, count) = (file.len() as u32, directory.len() as u32, members.len() as u16);
        file.extend(directory);
        file.extend(b"PK\x05\x06\0\0\0\0");
        [count, count].iter().for_each(|field| file.extend(field.to_le_bytes()));
        [length, at].iter().for_each(|field| file.extend(field.to_le_bytes()));
        file.extend([0; 2]);
        file.into()
    }

    #[test]
    fn members_come_back() {
        let content = [7u8; 1000];
        let file = archive(&[
            ArchiveMember::deflated("a.npy", &content),
            ArchiveMember::deflated("b.npy", b"other"),
        ]);
        assert_eq!(member(&file, "a", true, 1000).unwrap()[..], content);
        assert_eq!(member(&file, "b.npy", true, 1000).unwrap()[..], *b"other");
        assert!(matches!(member(&file, "c", true, 1000), Err(NpzError::NoMember { .. })));
    }

    /// A megabyte of zeros compresses to a kilobyte, so a small file could make the reader allocate all memory.
    #[test]
    fn a_member_larger_than_the_limit_is_refused_before_it_is_unpacked() {
        let zeros = vec![0; 1 << 20];
        let file = archive(&[ArchiveMember::deflated("a.npy", &zeros)]);
        assert!(file.len() < 2000);
        assert_eq!(member(&file, "a", true, 1 << 20).unwrap().len(), 1 << 20);
        let refused = member(&file, "a", true, (1 << 20) - 1);
        assert!(matches!(refused, Err(NpzError::TooLarge { limit: 1_048_575, got: 1_048_576, .. })));
    }

    #[test]
    fn a_size_that_is_false_takes_no_memory() {
        let zeros = vec![0; 1 << 20];
        // A size below the actual one, and a size far above the maximum for the compressed bytes.
        for (size, is) in [(1000, 1001), (u32::MAX - 1, 0)] {
            let file = archive(&[ArchiveMember { size, ..ArchiveMember::deflated("a.npy", &zeros) }]);
            let Err(NpzError::Length { expected, got, .. }) = member(&file, "a", true, usize::MAX) else {
                panic!("{size} bytes are refused")
            };
            assert_eq!(expected, u64::from(size));
            assert!(is == got || is == 0 && got < 3_000_000, "{got}");
        }
    }

    #[test]
    fn members_of_one_name_are_refused() {
        let file =
            archive(&[ArchiveMember::deflated("a.npy", b"one"), ArchiveMember::deflated("a.npy", b"two")]);
        assert!(matches!(member(&file, "a", true, 1000), Err(NpzError::Twice { .. })));
    }

    #[test]
    fn cut_and_damaged_archives_are_errors() {
        let file = archive(&[ArchiveMember::deflated("a.npy", &[5; 300])]);
        for end in 0..file.len() {
            assert!(member(&file.slice(..end), "a", true, 1000).is_err(), "cut to {end}");
        }
        for at in 0..file.len() {
            for bit in 0..8 {
                let mut damaged = file.to_vec();
                damaged[at] ^= 1 << bit;
                // Damage to some bytes does not affect the member. If the member can be read, its content must be correct.
                if let Ok(content) = member(&damaged.into(), "a", true, 1000) {
                    assert_eq!(content[..], [5; 300], "bit {bit} of byte {at}");
                }
            }
        }
    }
}
