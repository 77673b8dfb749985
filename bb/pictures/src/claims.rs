//! Checks the sizes in the headers of image files, before a decoder allocates memory for them.

/// Returns whether each lossy frame of a WebP file fits the canvas, because the decoder allocates memory for a frame before it
/// compares the sizes.
pub(super) fn frames_are_within(file: &[u8], [width, height]: [u32; 2]) -> bool {
    /// The start code of a key frame, which follows three bytes.
    const START: [u8; 3] = [0x9d, 0x01, 0x2a];
    let short = |at: usize| -> Option<u32> {
        Some(u32::from(u16::from_le_bytes(file.get(at..at + 2)?.try_into().ok()?)) & 0x3fff)
    };
    // A chunk may begin inside another chunk, so each offset is checked.
    let mut chunks = file.windows(8).enumerate().filter(|(_, chunk)| chunk.starts_with(b"VP8 "));
    chunks.all(|(at, _)| {
        let begins = file.get(at + 11..at + 14) == Some(&START);
        !begins || short(at + 14).is_none_or(|w| w <= width) && short(at + 16).is_none_or(|h| h <= height)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        // The upper two bits of the size are a scale.
        for (width, height) in [(11, 9), (1, 1), (11 | 0xc000, 9 | 0x4000)] {
            assert!(frames_are_within(&file(width, height), [11, 9]));
        }
        for (width, height) in [(12, 9), (11, 10), (0x3fff, 0x3fff)] {
            assert!(!frames_are_within(&file(width, height), [11, 9]));
        }
        assert!(frames_are_within(b"RIFFVP8 ", [1, 1]));
    }
}
