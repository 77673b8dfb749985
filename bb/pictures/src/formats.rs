//! Pictures in the formats that the crate `image` decodes.

use crate::canvas::{Canvas, PIXELS_AT_ONCE};
use crate::claims;
use bb_ir::picture::{Allowance, Picture, PictureError, PixelFormat};
use bb_ir::{DataType, memory};
use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits};
use std::io::{self, BufRead, Cursor, Read, Seek, SeekFrom};

/// The formats that are decoded here.
const DECODED: [ImageFormat; 5] =
    [ImageFormat::Bmp, ImageFormat::Jpeg, ImageFormat::Png, ImageFormat::Pnm, ImageFormat::WebP];

/// The most bytes of a picture in the form that its file has.
const MOST_BYTES: u64 = 512 << 20;

/// The bytes that a decoder may take besides the picture, for rows, tables and metadata.
const MOST_ASIDE: u64 = 16 << 20;

/// The most samples of a JPEG, counted once for each of its scans: a scan of a few bytes goes over the whole picture, and the
/// decoder cannot be stopped within.
pub(super) const MOST_SCANNED: u64 = 1 << 30;

/// How many bytes are read before the next look whether decoding must end. A byte becomes up to about 1000 bytes of a picture.
const STEP: usize = 1 << 10;

/// The bytes of a file, which are an error once decoding must end. All decoders read them piece by piece.
struct Watched<'a> {
    file: Cursor<&'a [u8]>,
    allowance: &'a dyn Allowance,
    /// The bytes read since the last check, plus a constant for each call.
    since: usize,
}

impl Watched<'_> {
    fn look(&mut self, read: usize) -> io::Result<()> {
        self.since += read.min(STEP) + 16;
        if self.since > STEP {
            self.since = 0;
            self.allowance.check().map_err(io::Error::other)?;
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

/// Decodes a picture; `None` for a picture of another format.
pub(super) fn decode(
    file: &[u8],
    pixels: PixelFormat,
    allowance: &dyn Allowance,
) -> Result<Option<Picture>, PictureError> {
    let watched = Watched { file: Cursor::new(file), allowance, since: 0 };
    let Ok(mut reader) = ImageReader::new(watched).with_guessed_format() else { return none(allowance) };
    // Programs write floats into a format that is like PNM.
    if [&b"PF\n"[..], b"Pf\n"].iter().any(|mark| file.starts_with(mark)) {
        return Err(PictureError::Refused {
            problem: "is of the format PFM, which is not decoded".to_owned(),
        });
    }
    let Some(format) = reader.format() else { return none(allowance) };
    if !DECODED.contains(&format) {
        let problem = format!("is of the format {format:?}, which is not decoded");
        return Err(PictureError::Refused { problem });
    }
    reader.limits(limits(MOST_BYTES));
    let mut decoder = match reader.into_decoder() {
        Ok(decoder) => decoder,
        Err(error) => return refused(format, error, allowance),
    };
    let (width, height) = decoder.dimensions();
    let shape = [height as usize, width as usize, pixels.channels()];
    allowance.bound(DataType::U8, &shape).map_err(PictureError::Ended)?;
    let (bytes, samples) = (decoder.total_bytes(), u64::from(width) * u64::from(height) * 3);
    if format == ImageFormat::WebP && !claims::frames_are_within(file, [width, height]) {
        return none(allowance);
    }
    let mut needed = bytes.saturating_add(MOST_ASIDE);
    if format == ImageFormat::Jpeg {
        let scanned = samples.saturating_mul(scans(file));
        if scanned > MOST_SCANNED {
            let problem = format!(
                "is a JPEG of {scanned} samples in all its scans, of which {MOST_SCANNED} are allowed"
            );
            return Err(PictureError::Refused { problem });
        }
        // The decoder keeps the coefficients of 16 bits of a picture with several scans, and counts them nowhere.
        needed = needed.saturating_add(4 * samples);
    }
    if bytes > MOST_BYTES {
        let problem = format!("is a picture of {bytes} bytes, of which {MOST_BYTES} are allowed");
        return Err(PictureError::Refused { problem });
    }
    memory::probe("ImageDecoder", memory::at_most(needed))?;
    // Some decoders count the picture itself towards the limit.
    let decoded = decoder
        .set_limits(limits(needed.saturating_add(bytes)))
        .and_then(|()| DynamicImage::from_decoder(decoder));
    match decoded {
        Ok(picture) => laid_out(picture, pixels, allowance).map(Some),
        Err(error) => refused(format, error, allowance),
    }
}

fn limits(bytes: u64) -> Limits {
    let mut limits = Limits::default();
    limits.max_alloc = Some(bytes);
    limits
}

/// Returns the number of scans of a JPEG. Each scan begins with a marker, which compressed data never contains.
pub(super) fn scans(file: &[u8]) -> u64 {
    file.windows(2).filter(|pair| *pair == [0xff, 0xda]).count() as u64
}

/// A damaged file gives no picture. Anything else that keeps a file from being decoded is an error.
fn refused(
    format: ImageFormat,
    error: ImageError,
    allowance: &dyn Allowance,
) -> Result<Option<Picture>, PictureError> {
    match error {
        ImageError::Unsupported(reason) => Err(PictureError::Refused {
            problem: format!("is of a kind of the format {format:?} that is not decoded: {reason}"),
        }),
        ImageError::Limits(reason) => Err(PictureError::Refused {
            problem: format!("is a picture beyond the decoder's limits: {reason}"),
        }),
        _ => none(allowance),
    }
}

fn none(allowance: &dyn Allowance) -> Result<Option<Picture>, PictureError> {
    allowance.check().map_err(PictureError::Ended)?;
    Ok(None)
}

/// Makes the pixels of a decoded picture, some rows at a time.
fn laid_out(
    picture: DynamicImage,
    pixels: PixelFormat,
    allowance: &dyn Allowance,
) -> Result<Picture, PictureError> {
    let (width, height) = (picture.width(), picture.height());
    let mut out = Canvas::new([height as usize, width as usize], pixels, allowance)?;
    if let DynamicImage::ImageRgb8(picture) = &picture {
        for some in picture.as_raw().chunks(3 * PIXELS_AT_ONCE) {
            out.extend(some.as_chunks::<3>().0.iter().copied())?;
        }
        return Ok(out.finish());
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
    Ok(out.finish())
}
