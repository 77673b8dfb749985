//! The decoder that this crate submits.

use crate::{formats, jpeg2000};
use bb_ir::picture::{Allowance, Picture, PictureDecoder, PictureError, PixelFormat};

inventory::submit! {
    PictureDecoder { name: env!("CARGO_PKG_NAME"), decode }
}

/// Decodes a picture of any known format; `None` for what is no such picture.
pub(crate) fn decode(
    file: &[u8],
    pixels: PixelFormat,
    allowance: &dyn Allowance,
) -> Result<Option<Picture>, PictureError> {
    match formats::decode(file, pixels, allowance)? {
        Some(picture) => Ok(Some(picture)),
        None => jpeg2000::decode(file, pixels, allowance),
    }
}

#[cfg(test)]
pub(crate) mod tests;
