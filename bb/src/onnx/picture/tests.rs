//! Pictures that promise much, and runs that must end.
#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use std::time::{Duration, Instant};

fn any(_: DataType, _: &[usize]) -> Result<(), Error> {
    Ok(())
}

/// The extents and the bytes of a picture in RGB.
pub(super) fn decoded(file: &[u8]) -> Option<(Vec<usize>, Vec<u8>)> {
    let decoded = pixels_of(file, Pixels::Rgb, &any).unwrap()?;
    Some((decoded.shape.to_vec(), decoded.bytes))
}

/// What is wrong with a picture.
pub(super) fn problem(file: &[u8]) -> String {
    match pixels_of(file, Pixels::Rgb, &any) {
        Err(Wrong::Picture(problem)) => problem,
        other => panic!("a problem: {other:?}"),
    }
}

/// A bitmap whose pixels are these runs of 8 bits, with a palette of grey.
fn bitmap(width: u32, height: u32, runs: &[u8]) -> Vec<u8> {
    let palette: Vec<u8> = (0..=255u8).flat_map(|v| [v, v, v, 0]).collect();
    let front = 14 + 40 + palette.len() as u32;
    let mut file = b"BM".to_vec();
    file.extend((front + runs.len() as u32).to_le_bytes());
    file.extend(0u32.to_le_bytes());
    file.extend(front.to_le_bytes());
    for number in [40, width, height] {
        file.extend(number.to_le_bytes());
    }
    file.extend([1, 0, 8, 0]);
    for number in [1, runs.len() as u32, 0, 0, 256, 0] {
        file.extend(number.to_le_bytes());
    }
    [file, palette, runs.to_vec()].concat()
}

#[test]
fn runs_of_a_bitmap_are_pixels_in_every_form() {
    // The rows come from the bottom up: two of 7, then 9 and 8.
    let file = bitmap(2, 2, &[2, 7, 0, 0, 1, 9, 1, 8, 0, 1]);
    let expected = [9u8, 8, 7, 7];
    for (pixels, channels) in [(Pixels::Rgb, 3), (Pixels::Bgr, 3), (Pixels::Grey, 1)] {
        let picture = pixels_of(&file, pixels, &any).unwrap().unwrap();
        assert_eq!(picture.shape, [2, 2, channels]);
        assert_eq!(picture.bytes, expected.map(|v| vec![v; channels]).concat());
    }
}

#[test]
fn a_deadline_ends_decoding() {
    // Many pixels of few bytes.
    let file = bitmap(8000, 8000, &[0, 1]);
    let begin = Instant::now();
    let options = RunOptions::default().with_deadline(begin + Duration::from_millis(20));
    let result = options.within(|| pixels_of(&file, Pixels::Bgr, &any));
    assert!(matches!(result, Err(Wrong::Run(Error::DeadlineExceeded))), "{result:?}");
    let past = RunOptions::default().with_deadline(begin);
    // A file that is read whole first, and one that ends too early.
    for file in [&file[..], b"P6 60000 2000 255 ", b"no picture", &[0xff, 0xd8, 0xff, 0xe0]] {
        let result = past.within(|| pixels_of(file, Pixels::Rgb, &any));
        assert!(matches!(result, Err(Wrong::Run(Error::DeadlineExceeded))), "{result:?}");
    }
}

#[test]
fn limits_hold_before_a_picture_is_decoded() {
    let file = bitmap(30_000, 30_000, &[0, 1]);
    assert!(problem(&file).contains("536870912"), "{}", problem(&file));
    let few = |dtype: DataType, shape: &[usize]| crate::contract::check_value(dtype, shape, 10);
    let small = bitmap(2, 2, &[0, 1]);
    assert!(matches!(pixels_of(&small, Pixels::Rgb, &few), Err(Wrong::Run(Error::Ir(_)))));
}

/// A JPEG whose frame promises these extents, with scans of no data.
fn scans(width: u16, height: u16, count: usize) -> Vec<u8> {
    let mut file = vec![0xff, 0xd8, 0xff, 0xc2, 0, 11, 8];
    file.extend(height.to_be_bytes());
    file.extend(width.to_be_bytes());
    file.extend([1, 1, 0x11, 0]);
    for _ in 0..count {
        file.extend([0xff, 0xda, 0, 8, 1, 1, 0, 0, 0, 0, 0]);
    }
    [file, vec![0xff, 0xd9]].concat()
}

#[test]
fn the_scans_of_a_jpeg_are_bounded() {
    assert!(problem(&scans(20_000, 8_000, 90)).contains("scans"), "{}", problem(&scans(20_000, 8_000, 90)));
}

#[test]
fn what_is_no_picture_has_none() {
    assert_eq!(decoded(b"no picture"), None);
    assert_eq!(decoded(&[0xff, 0x4f, 0xff, 0x51, 0, 41]), None);
}
