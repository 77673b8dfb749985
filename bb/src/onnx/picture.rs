//! `ImageDecoder`, on the host: the extents of a picture are in the file.
//!
//! What decodes is the feature `image`; without it the operator is an error that says so.

use super::call::{Call, Results};
use crate::Error;
use bb_ir::TensorData;

/// Which numbers a pixel has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pixels {
    Rgb,
    Bgr,
    Grey,
}

impl Pixels {
    fn channels(self) -> usize {
        if self == Pixels::Grey { 1 } else { 3 }
    }
}

/// `ImageDecoder`: what is no picture of a known format is decoded to one of no pixels, as ONNX has it.
pub(super) fn image_decoder(call: &Call<'_, TensorData>) -> Result<Results<TensorData>, Error> {
    let pixels = match call.text_or("pixel_format", "RGB")? {
        "RGB" => Pixels::Rgb,
        "BGR" => Pixels::Bgr,
        "Grayscale" => Pixels::Grey,
        other => {
            let problem = format!("is `{other}`, expected `RGB`, `BGR` or `Grayscale`");
            return Err(call.wrong("pixel_format", problem));
        }
    };
    decoded(call, call.input(0)?.as_slice::<u8>()?, pixels)
}

#[cfg(not(feature = "image"))]
fn decoded(call: &Call<'_, TensorData>, _file: &[u8], pixels: Pixels) -> Result<Results<TensorData>, Error> {
    let problem = format!("needs the feature `image` of `bb` to have {} channels", pixels.channels());
    Err(call.wrong("operand 0", problem))
}

#[cfg(feature = "image")]
fn decoded(_call: &Call<'_, TensorData>, file: &[u8], pixels: Pixels) -> Result<Results<TensorData>, Error> {
    let channels = pixels.channels();
    let Some(rgb) = rgb_of(file) else {
        return Ok(super::call::one(TensorData::new::<u8>(&[0, 0, channels], &[])?));
    };
    let shape = [rgb.height() as usize, rgb.width() as usize, channels];
    let bytes: Vec<u8> = match pixels {
        Pixels::Rgb => rgb.into_raw(),
        Pixels::Bgr => rgb.pixels().flat_map(|p| p.0.into_iter().rev()).collect(),
        Pixels::Grey => rgb.pixels().map(|p| luma(p.0)).collect(),
    };
    Ok(super::call::one(TensorData::new(&shape, &bytes)?))
}

/// Decodes a picture of any known format.
#[cfg(feature = "image")]
fn rgb_of(file: &[u8]) -> Option<image::RgbImage> {
    // The crate's own limits bound what a forged header makes it allocate.
    let reader = image::ImageReader::new(std::io::Cursor::new(file)).with_guessed_format();
    match reader.ok().and_then(|reader| reader.decode().ok()) {
        Some(picture) => Some(picture.to_rgb8()),
        None => jpeg2000(file),
    }
}

/// Decodes JPEG 2000, of which `image` knows nothing.
#[cfg(feature = "image")]
fn jpeg2000(file: &[u8]) -> Option<image::RgbImage> {
    use hayro_jpeg2000::{ColorSpace, DecodeSettings, DecoderContext, Image};
    let picture = Image::new(file, &DecodeSettings::default()).ok()?;
    let (width, height) = (picture.width(), picture.height());
    // As the limits of `image`, for a header may promise any extents.
    if u64::from(width) * u64::from(height) > MOST_PIXELS {
        return None;
    }
    let colours = match picture.color_space() {
        ColorSpace::Icc { num_channels, .. } => *num_channels,
        ColorSpace::Gray => 1,
        ColorSpace::RGB => 3,
        ColorSpace::CMYK | ColorSpace::Unknown { .. } => return None,
    };
    let channels = usize::from(colours) + usize::from(picture.has_alpha());
    let bytes = picture.decode(&mut DecoderContext::default()).ok()?.data_u8();
    let rgb: Vec<u8> = match colours {
        1 => bytes.chunks_exact(channels).filter_map(<[u8]>::first).flat_map(|&v| [v; 3]).collect(),
        3 => bytes.chunks_exact(channels).flat_map(|pixel| pixel.iter().take(3)).copied().collect(),
        _ => return None,
    };
    image::RgbImage::from_raw(width, height, rgb)
}

/// The pixels that a picture in JPEG 2000 may have.
#[cfg(feature = "image")]
const MOST_PIXELS: u64 = 1 << 27;

/// The luma of ITU-R 601: `0.299 r + 0.587 g + 0.114 b`, to the nearest.
#[cfg(feature = "image")]
fn luma([r, g, b]: [u8; 3]) -> u8 {
    let sum = 19595 * u32::from(r) + 38470 * u32::from(g) + 7471 * u32::from(b);
    ((sum + 0x8000) >> 16).min(255) as u8
}
