//! Decodes TIFF images. The crates `flate2`, `weezl`, `fax`, `zune-jpeg`, `image-webp` and `ruzstd` decompress the data. This module
//! reads the container, and converts samples to colours.
//!
//! The crate `tiff` is not used, because it refuses palettes, CIE L\*a\*b\*, CCITT group 3, reversed bits, and samples of 10, 12 and
//! 14 bits. It also allocates lists before it compares their lengths with the file.
//!
//! Only the first image of a file is decoded. Strips and tiles are decompressed one after another, so that only one of them is in
//! memory at a time.
//!
//! Source: TIFF, revision 6.0; for later extensions (deflate, predictors of floats, BigTIFF), libtiff.

mod ccitt;
mod chunks;
mod colours;
mod compression;
mod directory;
mod layout;
mod samples;

use crate::canvas::{Canvas, PIXELS_AT_ONCE};
use bb_ir::picture::{Allowance, Picture, PictureError, PixelFormat};
use bb_ir::{DataType, memory};
use chunks::Chunks;
use colours::Colours;
use directory::Directory;
use layout::Layout;

/// The maximum number of bytes of an image's samples, including samples beyond its edges. Each sample counts as at least one byte.
const MOST_BYTES: usize = 512 << 20;

/// The maximum number of bytes that decompression may use in addition to a strip or tile and the image.
const MOST_ASIDE: usize = 16 << 20;

/// The reason why a file gives no image.
#[derive(Debug)]
enum Fault {
    /// The file contradicts itself, or ends too early.
    Damaged,
    /// The file is of an unsupported kind. The string is the end of a sentence that begins with `is a TIFF`.
    Unsupported(String),
    /// Decoding had to end, or would need too many resources.
    Refused(PictureError),
}

impl From<PictureError> for Fault {
    fn from(error: PictureError) -> Fault {
        Fault::Refused(error)
    }
}

impl From<bb_ir::Error> for Fault {
    fn from(error: bb_ir::Error) -> Fault {
        Fault::Refused(error.into())
    }
}

/// Returns whether a file begins with the signature of a TIFF or a BigTIFF.
pub(super) fn is_one(file: &[u8]) -> bool {
    [&b"II*\0"[..], b"MM\0*", b"II+\0", b"MM\0+"].iter().any(|mark| file.starts_with(mark))
}

/// Decodes an image; `None` if the file is damaged.
pub(super) fn decode(
    file: &[u8],
    pixels: PixelFormat,
    allowance: &dyn Allowance,
) -> Result<Option<Picture>, PictureError> {
    match picture(file, pixels, allowance) {
        Ok(picture) => Ok(Some(picture)),
        Err(Fault::Damaged) => {
            allowance.check().map_err(PictureError::Ended)?;
            Ok(None)
        }
        Err(Fault::Unsupported(what)) => Err(PictureError::Refused { problem: format!("is a TIFF {what}") }),
        Err(Fault::Refused(error)) => Err(error),
    }
}

fn picture(file: &[u8], pixels: PixelFormat, allowance: &dyn Allowance) -> Result<Picture, Fault> {
    allowance.check().map_err(PictureError::Ended)?;
    let directory = Directory::read(file).ok_or(Fault::Damaged)?;
    let layout = Layout::read(&directory)?;
    let colours = Colours::read(&directory, &layout)?;
    let turn = Turn::read(&directory);
    let [height, width] = turn.extents([layout.height, layout.width]);
    let bytes = layout.bytes();
    if bytes > MOST_BYTES {
        let problem = format!("is a picture of {bytes} bytes, of which {MOST_BYTES} are allowed");
        return Err(PictureError::Refused { problem }.into());
    }
    allowance.bound(DataType::U8, &[height, width, pixels.channels()]).map_err(PictureError::Ended)?;
    memory::probe("ImageDecoder", memory::at_most(3 * layout.chunk_bytes() as u64 + MOST_ASIDE as u64))?;
    let mut canvas = Canvas::filled([height, width], pixels, allowance)?;
    let mut chunks = Chunks::new(file, &directory, layout.clone(), colours.scale(), allowance)?;
    // A multiple of 8 pixels always begins at a byte boundary, whatever the number of bits per sample.
    let step = (PIXELS_AT_ONCE / layout.samples).max(8) & !7;
    for row in 0..layout.down {
        for column in 0..layout.across {
            let (top, left) = (row * layout.chunk[0], column * layout.chunk[1]);
            let [rows, columns] =
                [layout.chunk[0].min(layout.height - top), layout.chunk[1].min(layout.width - left)];
            chunks.load(row, column, rows)?;
            for y in 0..rows {
                for begin in (0..columns).step_by(step) {
                    let samples = chunks.part(y, begin, step.min(columns - begin))?;
                    for (x, pixel) in samples.chunks(layout.samples).enumerate() {
                        let at = [top + y, left + begin + x];
                        canvas.set(turn.place(at, [layout.height, layout.width]), colours.rgb(pixel));
                    }
                    canvas.check()?;
                }
            }
        }
    }
    Ok(canvas.finish())
}

/// The orientation of the image: how the rows and columns of the file are mapped to the image.
#[derive(Debug, Clone, Copy)]
struct Turn(u64);

impl Turn {
    /// Reads the orientation. An unknown value means no rotation, as in Pillow.
    fn read(directory: &Directory<'_>) -> Turn {
        let turn = directory.number(layout::ORIENTATION).ok().flatten();
        Turn(turn.filter(|turn| (1..=8).contains(turn)).unwrap_or(1))
    }

    /// Returns the height and width of the image, after the rotation.
    fn extents(self, [height, width]: [usize; 2]) -> [usize; 2] {
        if self.0 >= 5 { [width, height] } else { [height, width] }
    }

    /// Returns the row and column in the image of a pixel of the file. `[height, width]` is the size in the file.
    fn place(self, [row, column]: [usize; 2], [height, width]: [usize; 2]) -> [usize; 2] {
        let (up, left) = (height - 1 - row, width - 1 - column);
        match self.0 {
            2 => [row, left],
            3 => [up, left],
            4 => [up, column],
            5 => [column, row],
            6 => [column, up],
            7 => [left, up],
            8 => [left, row],
            _ => [row, column],
        }
    }
}

#[cfg(test)]
mod tests;
