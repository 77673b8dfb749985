//! The decoder that this crate submits.

use crate::{formats, jpeg2000, tiff};
use bb_ir::picture::{Allowance, Picture, PictureDecoder, PictureError, PixelFormat};

inventory::submit! {
    PictureDecoder { name: env!("CARGO_PKG_NAME"), decode }
}

/// Decodes an image of any known format. Returns `None` if the file has no known format or is damaged.
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
