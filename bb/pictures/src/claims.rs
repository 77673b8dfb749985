//! What the files of pictures claim of their parts, before a decoder allocates for it.

/// Tells whether each list in the first directory of a TIFF lies in the file. The decoder makes room for a list before it reads
/// the elements.
pub(super) fn lists_are_in_file(file: &[u8]) -> bool {
    let little = match file.get(..2) {
        Some(b"II") => true,
        Some(b"MM") => false,
        _ => return true,
    };
    let number = |at: usize, bytes: usize| -> Option<u64> {
        let part = file.get(at..at.checked_add(bytes)?)?;
        let add = |sum: u64, byte: &u8| (sum << 8) | u64::from(*byte);
        Some(if little { part.iter().rev().fold(0, add) } else { part.iter().fold(0, add) })
    };
    // The widths of an offset, of the number of entries and of a count.
    let (start, offset, entries, count) = match number(2, 2) {
        Some(43) => (8, 8, 8, 8),
        _ => (4, 4, 2, 4),
    };
    let directory = number(start, offset).and_then(|at| usize::try_from(at).ok());
    let (Some(directory), length) = (directory, file.len() as u64) else { return true };
    let Some(listed) = number(directory, entries) else { return true };
    let (first, step) = (directory.saturating_add(entries), 4 + count + offset);
    // Entries beyond the end of the file are none.
    let places = (0..listed.min(length)).map(|i| first.saturating_add(i as usize * step));
    places.take_while(|at| number(at.saturating_add(2), 2).is_some()).all(|at| {
        let size = match number(at.saturating_add(2), 2) {
            Some(3 | 8) => 2,
            Some(4 | 9 | 11 | 13) => 4,
            Some(5 | 10 | 12 | 16..=18) => 8,
            _ => 1,
        };
        number(at.saturating_add(4), count).is_none_or(|count| count.saturating_mul(size) <= length)
    })
}

/// Tells whether each lossy frame of a WebP is within a canvas. The decoder makes room for a frame before it compares the two.
pub(super) fn frames_are_within(file: &[u8], [width, height]: [u32; 2]) -> bool {
    /// The beginning of a key frame, behind three bytes.
    const START: [u8; 3] = [0x9d, 0x01, 0x2a];
    let short = |at: usize| -> Option<u32> {
        Some(u32::from(u16::from_le_bytes(file.get(at..at + 2)?.try_into().ok()?)) & 0x3fff)
    };
    // A chunk may begin in another one, so each place is looked at.
    let mut chunks = file.windows(8).enumerate().filter(|(_, chunk)| chunk.starts_with(b"VP8 "));
    chunks.all(|(at, _)| {
        let begins = file.get(at + 11..at + 14) == Some(&START);
        !begins || short(at + 14).is_none_or(|w| w <= width) && short(at + 16).is_none_or(|h| h <= height)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A TIFF of one entry, of this type and count, in both orders of bytes.
    fn tiff(kind: u16, count: u32) -> [Vec<u8>; 2] {
        let make = |short: fn(u16) -> [u8; 2], long: fn(u32) -> [u8; 4], mark: &[u8]| {
            [mark, &short(42), &long(8), &short(1), &short(0x111), &short(kind), &long(count), &long(8)]
                .concat()
        };
        [make(u16::to_le_bytes, u32::to_le_bytes, b"II"), make(u16::to_be_bytes, u32::to_be_bytes, b"MM")]
    }

    #[test]
    fn a_list_is_not_longer_than_its_file() {
        for file in tiff(4, 1).into_iter().chain(tiff(3, 11)).chain(tiff(1, 22)) {
            assert!(lists_are_in_file(&file), "{file:?}");
        }
        for file in
            tiff(4, 6).into_iter().chain(tiff(3, 12)).chain(tiff(4, 2_254_439)).chain(tiff(5, u32::MAX))
        {
            assert!(!lists_are_in_file(&file), "{file:?}");
        }
        for file in [&b""[..], b"II", b"II*\0\xff\xff\xff\xff", b"MM\0*\0\0\0\x08\xff\xff"] {
            assert!(lists_are_in_file(file));
        }
    }

    #[test]
    fn a_frame_is_not_larger_than_its_canvas() {
        let file = |width: u16, height: u16| {
            let frame = [
                &b"VP8 \x0a\0\0\0"[..],
                &[0xd0, 1, 0, 0x9d, 1, 0x2a],
                &width.to_le_bytes(),
                &height.to_le_bytes(),
            ];
            [b"RIFF\0\0\0\0WEBP".to_vec(), frame.concat()].concat()
        };
        // The upper two bits are a scale.
        for (width, height) in [(11, 9), (1, 1), (11 | 0xc000, 9 | 0x4000)] {
            assert!(frames_are_within(&file(width, height), [11, 9]));
        }
        for (width, height) in [(12, 9), (11, 10), (0x3fff, 0x3fff)] {
            assert!(!frames_are_within(&file(width, height), [11, 9]));
        }
        assert!(frames_are_within(b"RIFFVP8 ", [1, 1]));
    }
}
