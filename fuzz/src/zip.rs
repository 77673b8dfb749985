//! Archives whose sizes and checksums are mended after something changed them, so that a fuzzer gets past them.

use std::io::Read;

/// The most bytes of an unpacked member.
pub const MEMBER: usize = 1 << 18;

/// Returns the archive with the sizes and checksums in its directory corrected to match its members.
///
/// Members are found by their entries, which need not be at the position in the archive's end record. Entries of members that cannot
/// be unpacked stay unchanged.
pub fn mended(archive: &[u8]) -> Vec<u8> {
    let mut mended = archive.to_vec();
    for at in 0..archive.len().saturating_sub(45) {
        if archive[at..].starts_with(b"PK\x01\x02")
            && let Some((packed, content)) = member(archive, at)
        {
            mended[at + 16..][..4].copy_from_slice(&crc32fast::hash(&content).to_le_bytes());
            mended[at + 20..][..4].copy_from_slice(&packed.to_le_bytes());
            mended[at + 24..][..4].copy_from_slice(&(content.len() as u32).to_le_bytes());
        }
    }
    mended
}

/// Returns the packed length and the content of the member whose entry is at `at`.
fn member(archive: &[u8], at: usize) -> Option<(u32, Vec<u8>)> {
    let short = |at: usize| Some(usize::from(u16::from_le_bytes(*archive.get(at..)?.first_chunk()?)));
    let long = |at: usize| Some(u32::from_le_bytes(*archive.get(at..)?.first_chunk()?));
    let header = long(at + 42)? as usize;
    let start = header.checked_add(30)? + short(header.checked_add(26)?)? + short(header.checked_add(28)?)?;
    let rest = archive.get(start..)?;
    let stated = rest.get(..(long(at + 20)? as usize).min(rest.len()))?;
    match short(at + 10)? {
        0 => Some((stated.len() as u32, stated.to_vec())),
        8 => {
            let mut content = Vec::new();
            let mut from = flate2::read::DeflateDecoder::new(stated).take(MEMBER as u64 + 1);
            // Bytes unpacked before an error are useless, because the reader meets the same error.
            from.read_to_end(&mut content).ok()?;
            Some((stated.len() as u32, content))
        }
        _ => None,
    }
}
