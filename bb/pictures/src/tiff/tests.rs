//! Tests with files whose headers claim large sizes, and with damaged files. The vectors in `tests/vectors/pictures.pb` test
//! the pixels of valid files.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::decoder::tests::{decoded, problem};

/// Returns the tags of an 8-bit grey image with one strip.
fn tags(width: u32, height: u32) -> Vec<(u16, u32)> {
    vec![
        (256, width),
        (257, height),
        (258, 8),
        (259, 1),
        (262, 1),
        (273, 0),
        (277, 1),
        (278, height),
        (279, 0),
    ]
}

fn set(tags: &mut Vec<(u16, u32)>, tag: u16, number: u32) {
    tags.retain(|(other, _)| *other != tag);
    tags.push((tag, number));
    tags.sort_unstable();
}

/// Creates a file with these tags, each with one value. The offset and the length of the strip are filled in.
fn file(tags: &[(u16, u32)], strip: &[u8]) -> Vec<u8> {
    let mut file = b"II*\0".to_vec();
    file.extend((8 + strip.len() as u32).to_le_bytes());
    file.extend(strip);
    file.extend((tags.len() as u16).to_le_bytes());
    for &(tag, number) in tags {
        let number = match tag {
            273 => 8,
            279 => strip.len() as u32,
            _ => number,
        };
        file.extend(tag.to_le_bytes());
        file.extend(4u16.to_le_bytes());
        file.extend(1u32.to_le_bytes());
        file.extend(number.to_le_bytes());
    }
    file.extend([0; 4]);
    file
}

fn grey(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| [*byte; 3]).collect()
}

#[test]
fn a_strip_is_the_rows_of_the_picture() {
    let picture = decoded(&file(&tags(3, 2), &[1, 2, 3, 4, 5, 6])).unwrap();
    assert_eq!(picture, ([2, 3], grey(&[1, 2, 3, 4, 5, 6])));
}

#[test]
fn group_3_is_decoded_as_t_4_has_it() {
    // An end-of-line code, 4 white pixels (1011), 3 black pixels (10), 1 white pixel (000111), an end-of-line code, and 8 white
    // pixels (10011).
    let bits = "000000000001 1011 10 000111 000000000001 10011".replace(' ', "");
    let strip: Vec<u8> = bits
        .as_bytes()
        .chunks(8)
        .map(|byte| byte.iter().enumerate().fold(0, |sum, (i, bit)| sum | (bit - b'0') << (7 - i)))
        .collect();
    let mut tags = tags(8, 2);
    for (tag, number) in [(258, 1), (259, 3), (262, 0)] {
        set(&mut tags, tag, number);
    }
    let expected = grey(&[255, 255, 255, 255, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255]);
    assert_eq!(decoded(&file(&tags, &strip)).unwrap(), ([2, 8], expected));
}

#[test]
fn a_file_that_ends_too_early_has_no_picture() {
    let whole = file(&tags(3, 2), &[1, 2, 3, 4, 5, 6]);
    for length in 4..whole.len() - 4 {
        assert!(decoded(whole.get(..length).unwrap()).is_none(), "{length}");
    }
    assert_eq!(decoded(&file(&tags(3, 3), &[1, 2, 3, 4, 5, 6])), None);
    for packing in [2, 3, 4, 5, 7, 8, 32773, 50000] {
        let mut tags = tags(300, 200);
        set(&mut tags, 259, packing);
        if packing <= 4 {
            set(&mut tags, 258, 1);
        }
        // In group 4, each bit that is 1 may be a row that equals the row before.
        for strip in [&[][..], &[0xab; 5], &[0xff; 20], &[0xff, 0xd8, 0xff, 0xdb]] {
            assert!(decoded(&file(&tags, strip)).is_none(), "{packing} {strip:?}");
        }
    }
}

#[test]
fn values_outside_the_file_are_damage() {
    // Place the six values of `BitsPerSample` beyond the end of the file.
    let mut whole = file(&tags(3, 2), &[1, 2, 3, 4, 5, 6]);
    let at = whole.windows(4).position(|tag| tag == [2, 1, 4, 0]).unwrap();
    whole.get_mut(at + 4..at + 12).unwrap().copy_from_slice(&[6, 0, 0, 0, 0, 0, 1, 0]);
    assert_eq!(decoded(&whole), None);
}

#[test]
fn what_a_file_promises_is_bounded() {
    let mut wide = tags(1 << 31, 1 << 20);
    assert!(problem(&file(&wide, &[0])).contains("of which 536870912 are allowed"));
    set(&mut wide, 258, 1);
    assert!(problem(&file(&wide, &[0])).contains("of which 536870912 are allowed"));
    // A tile is much larger than the image.
    let mut tile = tags(1, 1);
    for (tag, number) in [(322, 1 << 20), (323, 1 << 20), (324, 8), (325, 1)] {
        set(&mut tile, tag, number);
    }
    assert!(problem(&file(&tile, &[0])).contains("of which 536870912 are allowed"));
    // One pixel has too many samples.
    let mut deep = tags(1 << 14, 1);
    set(&mut deep, 277, 0xffff);
    assert!(problem(&file(&deep, &[0])).contains("of which 536870912 are allowed"));
}

#[test]
fn strips_at_one_place_are_bounded_together() {
    // Each of the 8192 rows is read from the same 128 KiB.
    let mut tags = tags(1, 8192);
    set(&mut tags, 259, 8);
    set(&mut tags, 278, 1);
    let zeros = [0x78, 0x9c, 0x63, 0, 0, 0, 1, 0, 1];
    let mut strip = zeros.to_vec();
    strip.resize(128 << 10, 0);
    let mut whole = file(&tags, &strip);
    for (tag, number) in [(273u16, 8u32), (279, strip.len() as u32)] {
        let at = whole.windows(4).rposition(|entry| entry == [tag as u8, 1, 4, 0]).unwrap();
        let list = whole.len() as u32;
        whole.get_mut(at + 4..at + 8).unwrap().copy_from_slice(&8192u32.to_le_bytes());
        whole.get_mut(at + 8..at + 12).unwrap().copy_from_slice(&list.to_le_bytes());
        whole.extend(number.to_le_bytes().repeat(8192));
    }
    assert!(problem(&whole).contains("bytes in its strips or tiles"), "{}", problem(&whole));
}

#[test]
fn an_error_names_the_kind_that_is_not_decoded() {
    for (changed, text) in [
        ((259, 34925), "compression 34925 (LZMA); expected none, CCITT, LZW"),
        ((259, 6), "compression 6 (old JPEG)"),
        ((259, 4711), "compression 4711; expected"),
        ((259, 4), "samples of 8 bits in CCITT; expected 1"),
        ((262, 32803), "photometric interpretation 32803 (a colour filter array); expected 0 to 3"),
        ((262, 2), "photometric interpretation 2 and 1 samples of a pixel; expected at least 3"),
        ((258, 33), "samples of 33 bits; expected 1 to 32, or 64"),
        ((339, 6), "samples of format 6; expected 1 to 4"),
        ((339, 3), "floats of 8 bits; expected 16, 32 or 64"),
        ((317, 4), "predictor 4; expected 1, 2 or 3"),
    ] {
        let mut tags = tags(3, 2);
        set(&mut tags, changed.0, changed.1);
        let problem = problem(&file(&tags, &[0; 6]));
        assert!(problem.starts_with("is a TIFF ") && problem.contains(text), "{problem}");
    }
    let mut without: Vec<_> = tags(3, 2);
    without.retain(|(tag, _)| *tag != 262);
    assert!(problem(&file(&without, &[0; 6])).contains("PhotometricInterpretation"));
}
