//! Pictures in the formats that the crate `image` decodes.

use super::claims;
use super::{Bound, Decoded, PIXELS_AT_ONCE, Pixels, Wrong};
use crate::RunOptions;
use bb_ir::{DataType, memory};
use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits};
use std::io::{self, BufRead, Cursor, Read, Seek, SeekFrom};

/// The most bytes of a picture in the form that its file has.
const MOST_BYTES: u64 = 512 << 20;

/// The bytes that a decoder may take besides the picture, for rows, tables and metadata.
const MOST_ASIDE: u64 = 16 << 20;

/// The most samples of a JPEG, counted once for each of its scans: a scan of a few bytes goes over the whole picture, and the
/// decoder cannot be stopped within.
const MOST_SCANNED: u64 = 1 << 30;

/// How many bytes are read before the next look whether the run must end. A byte becomes up to about 1000 bytes of a picture.
const STEP: usize = 1 << 10;

/// The bytes of a file, which are an error once the run must end. All decoders read them piece by piece.
struct Watched<'a> {
    file: Cursor<&'a [u8]>,
    /// What was read since the last look; a call counts as some bytes.
    since: usize,
}

impl Watched<'_> {
    fn look(&mut self, read: usize) -> io::Result<()> {
        self.since += read.min(STEP) + 16;
        if self.since > STEP {
            self.since = 0;
            RunOptions::check_current().map_err(io::Error::other)?;
        }
        Ok(())
    }
}

impl Read for Watched<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = to.len().min(STEP);
        self.look(count)?;
        self.file.read(to.get_mut(..count).unwrap_or_default())
    }
}

impl BufRead for Watched<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.look(0)?;
        let rest = self.file.fill_buf()?;
        Ok(rest.get(..STEP).unwrap_or(rest))
    }

    fn consume(&mut self, count: usize) {
        self.since += count;
        self.file.consume(count);
    }
}

impl Seek for Watched<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.look(0)?;
        self.file.seek(to)
    }
}

/// Decodes a picture; `None` for what is none of these formats.
pub(super) fn decode(file: &[u8], pixels: Pixels, bound: Bound<'_>) -> Result<Option<Decoded>, Wrong> {
    let watched = Watched { file: Cursor::new(file), since: 0 };
    let Ok(mut reader) = ImageReader::new(watched).with_guessed_format() else { return none() };
    let format = reader.format();
    if format == Some(ImageFormat::Tiff) && !claims::lists_are_in_file(file) {
        return none();
    }
    reader.limits(limits(MOST_BYTES));
    let mut decoder = match reader.into_decoder() {
        Ok(decoder) => decoder,
        Err(error) => return refused(error),
    };
    let (width, height) = decoder.dimensions();
    let shape = [height as usize, width as usize, pixels.channels()];
    bound(DataType::U8, &shape)?;
    let (bytes, samples) = (decoder.total_bytes(), u64::from(width) * u64::from(height) * 3);
    if format == Some(ImageFormat::WebP) && !claims::frames_are_within(file, [width, height]) {
        return none();
    }
    let mut needed = bytes.saturating_add(MOST_ASIDE);
    if format == Some(ImageFormat::Jpeg) {
        let scanned = samples.saturating_mul(scans(file));
        if scanned > MOST_SCANNED {
            let got = format!(
                "is a JPEG of {scanned} samples in all its scans, of which {MOST_SCANNED} are allowed"
            );
            return Err(Wrong::Picture(got));
        }
        // The decoder keeps the coefficients of 16 bits of a picture with several scans, and counts them nowhere.
        needed = needed.saturating_add(4 * samples);
    }
    if bytes > MOST_BYTES {
        return Err(Wrong::Picture(format!(
            "is a picture of {bytes} bytes, of which {MOST_BYTES} are allowed"
        )));
    }
    memory::probe("ImageDecoder", memory::at_most(needed))?;
    // Some decoders count the picture itself towards the limit.
    let decoded = decoder
        .set_limits(limits(needed.saturating_add(bytes)))
        .and_then(|()| DynamicImage::from_decoder(decoder));
    match decoded {
        Ok(picture) => laid_out(picture, pixels).map(Some),
        Err(error) => refused(error),
    }
}

fn limits(bytes: u64) -> Limits {
    let mut limits = Limits::default();
    limits.max_alloc = Some(bytes);
    limits
}

/// The scans of a JPEG, of which each begins with a marker. No compressed data looks like one.
fn scans(file: &[u8]) -> u64 {
    file.windows(2).filter(|pair| *pair == [0xff, 0xda]).count() as u64
}

/// What is no picture has none, unless the run must end, or a limit is why.
fn refused(error: ImageError) -> Result<Option<Decoded>, Wrong> {
    match error {
        ImageError::Limits(reason) => {
            Err(Wrong::Picture(format!("is a picture beyond the decoder's limits: {reason}")))
        }
        _ => none(),
    }
}

fn none() -> Result<Option<Decoded>, Wrong> {
    RunOptions::check_current()?;
    Ok(None)
}

/// Makes the pixels of a decoded picture, some rows at a time.
fn laid_out(picture: DynamicImage, pixels: Pixels) -> Result<Decoded, Wrong> {
    let (width, height) = (picture.width(), picture.height());
    let mut out = Decoded::new(height as usize, width as usize, pixels)?;
    if let DynamicImage::ImageRgb8(picture) = &picture {
        for some in picture.as_raw().chunks(3 * PIXELS_AT_ONCE) {
            out.extend(some.as_chunks::<3>().0.iter().copied())?;
        }
        return Ok(out);
    }
    // A row may be longer than all that is converted at once.
    let columns = width.clamp(1, PIXELS_AT_ONCE as u32);
    let rows = (PIXELS_AT_ONCE as u32 / columns).max(1);
    for top in (0..height).step_by(rows as usize) {
        for left in (0..width).step_by(columns as usize) {
            let part = picture.crop_imm(left, top, columns.min(width - left), rows.min(height - top));
            out.extend(part.into_rgb8().as_raw().as_chunks::<3>().0.iter().copied())?;
        }
    }
    Ok(out)
}
