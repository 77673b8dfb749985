//! Compiled models whose checksums are mended after something changed them, so that a fuzzer gets past them.

use bb::DataType;
use bb_ir::compact::{Compact, Reader, Writer};
use bb_ir::{ALIGNMENT, Limits, Shape};

/// The bytes before the body.
const PRELUDE: usize = 32;

/// A tensor in the table at the front of the body, as `bb_ir::compact` writes it.
struct Entry {
    dtype: DataType,
    shape: Shape,
    offset: usize,
    length: usize,
    checksum: u32,
}

bb_ir::__compact!(struct Entry { dtype, shape, offset, length, checksum });

/// Returns a compiled model with the version, lengths and checksums that its bytes should have.
///
/// `None` if it does not begin like a compiled model, or if its table of tensors is malformed.
pub fn mended(file: &[u8], limits: &Limits) -> Option<Vec<u8>> {
    if !bb_ir::compact::is_saved(file) {
        return None;
    }
    let length = u64::from_le_bytes(*file.get(16..)?.first_chunk()?);
    let rest = file.get(PRELUDE..)?;
    let (body, after) = rest.split_at(rest.len().min(usize::try_from(length).unwrap_or(usize::MAX)));
    let padding = (PRELUDE + body.len()).next_multiple_of(ALIGNMENT) - PRELUDE - body.len();
    let elements = after.get(padding..).unwrap_or_default();
    let mut reader = Reader::new(body, &[], limits);
    let mut entries: Vec<Entry> = Vec::read(&mut reader).ok()?;
    let content = body.get(reader.position()..)?;
    for entry in &mut entries {
        let end = entry.offset.saturating_add(entry.length);
        entry.checksum = crc32fast::hash(elements.get(entry.offset..end).unwrap_or_default());
    }
    let mut table = Writer::default();
    entries.write(&mut table);
    let body = [table.as_bytes(), content].concat();
    let start = (PRELUDE + body.len()).next_multiple_of(ALIGNMENT);
    let front = [&file[..8], &[1, 0, 0, 0]].concat();
    let lengths =
        [(body.len() as u64).to_le_bytes(), ((start + elements.len()) as u64).to_le_bytes()].concat();
    let checksum = crc32fast::hash(&[&front[..], &lengths, &body].concat());
    let mut mended = [&front[..], &checksum.to_le_bytes(), &lengths, &body].concat();
    mended.resize(start, 0);
    mended.extend_from_slice(elements);
    Some(mended)
}
