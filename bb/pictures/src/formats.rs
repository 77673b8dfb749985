//! Decodes images in the formats that the crate `image` supports.

use crate::canvas::{Canvas, PIXELS_AT_ONCE};
use crate::claims;
use bb_ir::picture::{Allowance, Picture, PictureError, PixelFormat};
use bb_ir::{DataType, memory};
use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits};
use std::io::{self, BufRead, Cursor, Read, Seek, SeekFrom};

/// The formats that are decoded here.
const DECODED: [ImageFormat; 5] =
    [ImageFormat::Bmp, ImageFormat::Jpeg, ImageFormat::Png, ImageFormat::Pnm, ImageFormat::WebP];

/// The maximum size of a decoded image in bytes, in the pixel format of its file.
const MOST_BYTES: u64 = 512 << 20;

/// The maximum size of a decoder's other memory in bytes, for rows, tables and metadata.
const MOST_ASIDE: u64 = 16 << 20;

/// The maximum number of samples of a JPEG, times the number of its scans. A scan of a few bytes passes over the whole image,
/// and the decoder cannot be stopped during a scan.
pub(super) const MOST_SCANNED: u64 = 1 << 30;

/// The number of bytes that are read between two checks whether decoding must end. A byte may expand to about 1000 bytes of an
/// image.
const STEP: usize = 1 << 10;

/// A reader of a file. It returns an error once decoding must end. All decoders read the file piece by piece.
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

/// Decodes an image; `None` for an image of another format.
pub(super) fn decode(
    file: &[u8],
    pixels: PixelFormat,
    allowance: &dyn Allowance,
) -> Result<Option<Picture>, PictureError> {
    let watched = Watched { file: Cursor::new(file), allowance, since: 0 };
    let Ok(mut reader) = ImageReader::new(watched).with_guessed_format() else { return none(allowance) };
    // PFM, a variant with floats, begins like PNM but is not decoded.
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
        // For an image with several scans, the decoder stores the 16-bit coefficients, and does not count them in its limit.
        needed = needed.saturating_add(4 * samples);
    }
    if bytes > MOST_BYTES {
        let problem = format!("is a picture of {bytes} bytes, of which {MOST_BYTES} are allowed");
        return Err(PictureError::Refused { problem });
    }
    memory::probe("ImageDecoder", memory::at_most(needed))?;
    // Some decoders count the image itself towards the limit, so its size is added.
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

/// Converts a decoder's error. A damaged file gives no image; any other reason is an error.
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

/// Converts the pixels of a decoded image, some rows at a time.
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
    // A row may be longer than the maximum number of pixels per step, so rows are split, too.
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
