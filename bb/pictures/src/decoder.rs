//! The decoder that this crate submits.

use crate::{formats, jpeg2000, tiff};
use bb_ir::picture::{Allowance, Picture, PictureDecoder, PictureError, PixelFormat};

inventory::submit! {
    PictureDecoder { name: env!("CARGO_PKG_NAME"), decode }
}

/// Decodes a picture of any known format; `None` for a file of no known format, and for a damaged one.
pub(crate) fn decode(
    file: &[u8],
    pixels: PixelFormat,
    allowance: &dyn Allowance,
) -> Result<Option<Picture>, PictureError> {
    if tiff::is_one(file) {
        return tiff::decode(file, pixels, allowance);
    }
    match formats::decode(file, pixels, allowance)? {
        Some(picture) => Ok(Some(picture)),
        None => jpeg2000::decode(file, pixels, allowance),
    }
}

#[cfg(test)]
pub(crate) mod tests;
