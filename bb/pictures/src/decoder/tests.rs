//! Tests with images whose headers claim large sizes, and with runs that must end.
#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use bb_ir::{BoxError, DataType};
use std::time::{Duration, Instant};

/// An allowance with a deadline, and a limit for the size of results in bytes.
struct Limits {
    until: Option<Instant>,
    bytes: usize,
}

/// The error if a limit is exceeded.
#[derive(Debug)]
struct Limit;

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a limit of the test")
    }
}

impl std::error::Error for Limit {}

const ANY: Limits = Limits { until: None, bytes: usize::MAX };

impl Allowance for Limits {
    fn check(&self) -> Result<(), BoxError> {
        if self.until.is_some_and(|until| until <= Instant::now()) { Err(Limit.into()) } else { Ok(()) }
    }

    fn bound(&self, dtype: DataType, shape: &[usize]) -> Result<(), BoxError> {
        assert_eq!(dtype, DataType::U8);
        if shape.iter().product::<usize>() > self.bytes { Err(Limit.into()) } else { Ok(()) }
    }
}

/// Returns whether the result is the allowance's own error.
fn ended(result: &Result<Option<Picture>, PictureError>) -> bool {
    matches!(result, Err(PictureError::Ended(error)) if error.is::<Limit>())
}

/// Returns the height and width, and the RGB bytes, of a decoded image.
pub(crate) fn decoded(file: &[u8]) -> Option<([usize; 2], Vec<u8>)> {
    let decoded = decode(file, PixelFormat::Rgb, &ANY).unwrap()?;
    Some(([decoded.height, decoded.width], decoded.bytes))
}

/// Returns the reason why the decoder refuses an image.
pub(crate) fn problem(file: &[u8]) -> String {
    match decode(file, PixelFormat::Rgb, &ANY) {
        Err(PictureError::Refused { problem }) => problem,
        other => panic!("a problem: {other:?}"),
    }
}

/// Creates a bitmap with run-length encoded pixels of 8 bits, and a grey palette.
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
    // The rows are stored from the bottom up: two pixels of 7, then 9 and 8.
    let file = bitmap(2, 2, &[2, 7, 0, 0, 1, 9, 1, 8, 0, 1]);
    let expected = [9u8, 8, 7, 7];
    for (pixels, channels) in [(PixelFormat::Rgb, 3), (PixelFormat::Bgr, 3), (PixelFormat::Grayscale, 1)] {
        let picture = decode(&file, pixels, &ANY).unwrap().unwrap();
        assert_eq!([picture.height, picture.width], [2, 2]);
        assert_eq!(picture.bytes, expected.map(|v| vec![v; channels]).concat());
    }
}

#[test]
fn a_deadline_ends_decoding() {
    // A few bytes encode many pixels.
    let file = bitmap(8000, 8000, &[0, 1]);
    let begin = Instant::now();
    let soon = Limits { until: Some(begin + Duration::from_millis(20)), ..ANY };
    let result = decode(&file, PixelFormat::Bgr, &soon);
    assert!(ended(&result), "{result:?}");
    let past = Limits { until: Some(begin), ..ANY };
    // One file that would decode completely, and others that are too short.
    for file in [&file[..], b"P6 60000 2000 255 ", b"no picture", &[0xff, 0xd8, 0xff, 0xe0]] {
        let result = decode(file, PixelFormat::Rgb, &past);
        assert!(ended(&result), "{result:?}");
    }
}

#[test]
fn limits_hold_before_a_picture_is_decoded() {
    let file = bitmap(30_000, 30_000, &[0, 1]);
    assert!(problem(&file).contains("536870912"), "{}", problem(&file));
    let small = bitmap(2, 2, &[0, 1]);
    assert!(ended(&decode(&small, PixelFormat::Rgb, &Limits { bytes: 11, ..ANY })));
    assert!(decode(&small, PixelFormat::Rgb, &Limits { bytes: 12, ..ANY }).is_ok());
}

/// Creates a JPEG whose header claims this size, with empty scans.
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
