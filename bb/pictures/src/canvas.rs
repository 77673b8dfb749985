//! The pixels of an image during decoding.

use bb_ir::memory;
use bb_ir::picture::{Allowance, Picture, PictureError, PixelFormat};

/// The maximum number of pixels that are converted between two checks whether decoding must end.
pub(crate) const PIXELS_AT_ONCE: usize = 1 << 16;

/// An image that is being decoded.
pub(crate) struct Canvas<'a> {
    picture: Picture,
    pixels: PixelFormat,
    allowance: &'a dyn Allowance,
}

impl<'a> Canvas<'a> {
    /// Allocates memory for an image without pixels; [`extend`](Self::extend) appends them.
    pub(crate) fn new(
        [height, width]: [usize; 2],
        pixels: PixelFormat,
        allowance: &'a dyn Allowance,
    ) -> Result<Canvas<'a>, PictureError> {
        let bytes = height.saturating_mul(width).saturating_mul(pixels.channels());
        let bytes = memory::room("ImageDecoder", bytes)?;
        Ok(Canvas { picture: Picture { height, width, bytes }, pixels, allowance })
    }

    /// Creates a black image; [`set`](Self::set) changes its pixels.
    pub(crate) fn filled(
        [height, width]: [usize; 2],
        pixels: PixelFormat,
        allowance: &'a dyn Allowance,
    ) -> Result<Canvas<'a>, PictureError> {
        let bytes = height.saturating_mul(width).saturating_mul(pixels.channels());
        let bytes = memory::filled("ImageDecoder", 0, bytes)?;
        Ok(Canvas { picture: Picture { height, width, bytes }, pixels, allowance })
    }

    /// Returns an error if decoding must end.
    pub(crate) fn check(&self) -> Result<(), PictureError> {
        self.allowance.check().map_err(PictureError::Ended)
    }

    /// Sets a pixel of a filled image, converted to the requested pixel format.
    pub(crate) fn set(&mut self, [row, column]: [usize; 2], [r, g, b]: [u8; 3]) {
        let channels = self.pixels.channels();
        let at = (row * self.picture.width + column) * channels;
        let to = self.picture.bytes.get_mut(at..at + channels);
        match (self.pixels, to) {
            (PixelFormat::Rgb, Some(to)) => to.copy_from_slice(&[r, g, b]),
            (PixelFormat::Bgr, Some(to)) => to.copy_from_slice(&[b, g, r]),
            (PixelFormat::Grayscale, Some(to)) => to.fill(luma([r, g, b])),
            (_, None) => {}
        }
    }

    /// Appends pixels, converted to the requested pixel format, unless decoding must end.
    pub(crate) fn extend(&mut self, rgb: impl Iterator<Item = [u8; 3]>) -> Result<(), PictureError> {
        self.allowance.check().map_err(PictureError::Ended)?;
        let bytes = &mut self.picture.bytes;
        match self.pixels {
            PixelFormat::Rgb => bytes.extend(rgb.flatten()),
            PixelFormat::Bgr => bytes.extend(rgb.flat_map(|[r, g, b]| [b, g, r])),
            PixelFormat::Grayscale => bytes.extend(rgb.map(luma)),
        }
        Ok(())
    }

    /// Returns the image after all pixels are set.
    pub(crate) fn finish(self) -> Picture {
        self.picture
    }
}

/// Returns the luma of ITU-R 601, `0.299 r + 0.587 g + 0.114 b`, rounded to the nearest integer.
fn luma([r, g, b]: [u8; 3]) -> u8 {
    let sum = 19595 * u32::from(r) + 38470 * u32::from(g) + 7471 * u32::from(b);
    ((sum + 0x8000) >> 16).min(255) as u8
}

/// Converts CMYK to RGB. Black leaves a share of the light, and each other ink absorbs its share of the
/// rest.
pub(crate) fn cmyk([c, m, y, k]: [u8; 4]) -> [u8; 3] {
    let left = u32::from(255 - k);
    [c, m, y].map(|ink| {
        let product = u32::from(ink) * left + 128;
        (left - (((product >> 8) + product) >> 8)) as u8
    })
}
