//! `ImageDecoder`, on the host: the extents of a picture are in the file.
//!
//! What decodes is the feature `image`; without it the operator is an error that says so.

use super::call::{Call, OpOutputs};
use super::infer;
use super::rows::operators;
use crate::Error;
use crate::error::NodePart;
use bb_ir::TensorData;
#[cfg(feature = "image")]
use bb_ir::memory;

operators! {
    "" {
        ImageDecoder => Host(image_decoder), infer: By(infer::windows::image_decoder);
    }
}

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
pub(super) fn image_decoder(call: &Call<'_, TensorData>) -> Result<OpOutputs<TensorData>, Error> {
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
fn decoded(
    call: &Call<'_, TensorData>,
    _file: &[u8],
    pixels: Pixels,
) -> Result<OpOutputs<TensorData>, Error> {
    let problem = format!("needs the feature `image` of `bb` to have {} channels", pixels.channels());
    Err(call.wrong(NodePart::Operand(0), problem))
}

#[cfg(feature = "image")]
fn decoded(call: &Call<'_, TensorData>, file: &[u8], pixels: Pixels) -> Result<OpOutputs<TensorData>, Error> {
    let channels = pixels.channels();
    // The decoder allocates by itself: the picture in its own form, of at most eight bytes per pixel, then as RGB.
    let extents = image::ImageReader::new(std::io::Cursor::new(file)).with_guessed_format();
    if let Some((width, height)) = extents.ok().and_then(|reader| reader.into_dimensions().ok()) {
        call.bound(bb_ir::DataType::U8, &[height as usize, width as usize, channels])?;
        let bytes = (width as usize).saturating_mul(height as usize).saturating_mul(8 + 3);
        memory::probe("ImageDecoder", bytes.min(MOST_DECODED))?;
    }
    let rgb =
        rgb_of(file, call.value_bytes()).map_err(|problem| call.wrong(NodePart::Operand(0), problem))?;
    let Some(rgb) = rgb else {
        return Ok(super::call::one(TensorData::new::<u8>(&[0, 0, channels], &[])?));
    };
    let shape = [rgb.height() as usize, rgb.width() as usize, channels];
    let mut bytes = rgb.into_raw();
    let rgb = bytes.as_chunks_mut::<3>().0;
    match pixels {
        Pixels::Rgb => {}
        Pixels::Bgr => rgb.iter_mut().for_each(|pixel| pixel.reverse()),
        Pixels::Grey => bytes = memory::collected("ImageDecoder", rgb.iter().map(|&pixel| luma(pixel)))?,
    }
    Ok(super::call::one(TensorData::new(&shape, &bytes)?))
}

/// The most bytes that decoding allocates, by the decoder's own limit, and for the picture as RGB.
#[cfg(feature = "image")]
const MOST_DECODED: usize = 1 << 30;

/// Decodes a picture of any known format; `None` for what is no such picture, and a problem for one that is too large.
#[cfg(feature = "image")]
fn rgb_of(file: &[u8], value_bytes: usize) -> Result<Option<image::RgbImage>, String> {
    // The crate's own limits bound what a forged header makes it allocate.
    let reader = image::ImageReader::new(std::io::Cursor::new(file)).with_guessed_format();
    match reader.map(image::ImageReader::decode) {
        Ok(Ok(picture)) => Ok(Some(picture.to_rgb8())),
        Ok(Err(image::ImageError::Limits(reason))) => {
            Err(format!("is a picture beyond the decoder's limits: {reason}"))
        }
        _ => jpeg2000(file, value_bytes),
    }
}

/// The samples, of all channels, that a picture in JPEG 2000 may have, for a header may promise any extents.
#[cfg(feature = "image")]
const MOST_SAMPLES: u64 = 1 << 27;

/// Decodes JPEG 2000, of which `image` knows nothing.
#[cfg(feature = "image")]
fn jpeg2000(file: &[u8], value_bytes: usize) -> Result<Option<image::RgbImage>, String> {
    use hayro_jpeg2000::{ColorSpace, DecodeSettings, DecoderContext, Image};
    let Ok(picture) = Image::new(file, &DecodeSettings::default()) else { return Ok(None) };
    let (width, height) = (picture.width(), picture.height());
    let planes = planes_of(file).unwrap_or(u16::MAX);
    let samples = u64::from(width).saturating_mul(u64::from(height)).saturating_mul(u64::from(planes));
    if samples > MOST_SAMPLES {
        return Err(format!("is a picture of {samples} samples, more than {MOST_SAMPLES}"));
    }
    if samples > value_bytes as u64 {
        return Err(format!(
            "is a picture of {samples} samples, more than the limit `value_bytes`, {value_bytes}"
        ));
    }
    let colours = match picture.color_space() {
        ColorSpace::Icc { num_channels, .. } => *num_channels,
        ColorSpace::Gray => 1,
        ColorSpace::RGB => 3,
        ColorSpace::CMYK | ColorSpace::Unknown { .. } => return Ok(None),
    };
    let channels = usize::from(colours) + usize::from(picture.has_alpha());
    let mut context = DecoderContext::default();
    let Ok(decoded) = picture.decode(&mut context) else { return Ok(None) };
    let bytes = decoded.data_u8();
    let rgb: Vec<u8> = match colours {
        1 => bytes.chunks_exact(channels).filter_map(<[u8]>::first).flat_map(|&v| [v; 3]).collect(),
        3 => bytes.chunks_exact(channels).flat_map(|pixel| pixel.iter().take(3)).copied().collect(),
        _ => return Ok(None),
    };
    Ok(image::RgbImage::from_raw(width, height, rgb))
}

/// How many planes the codestream has, which need not be as many as there are colours.
///
/// Source: ISO/IEC 15444-1, annex A.5.1: the count is 36 bytes behind the marker of the sizes.
#[cfg(feature = "image")]
fn planes_of(file: &[u8]) -> Option<u16> {
    let start = file.windows(4).position(|bytes| bytes == [0xff, 0x4f, 0xff, 0x51])?;
    let count = file.get(start + 4 + 36..)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes(*count))
}

/// The luma of ITU-R 601: `0.299 r + 0.587 g + 0.114 b`, to the nearest.
#[cfg(feature = "image")]
fn luma([r, g, b]: [u8; 3]) -> u8 {
    let sum = 19595 * u32::from(r) + 38470 * u32::from(g) + 7471 * u32::from(b);
    ((sum + 0x8000) >> 16).min(255) as u8
}

#[cfg(all(test, feature = "image"))]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// The head of a codestream: start, sizes, and a plane of 8 bits for each count.
    fn head(extent: u32, planes: u16) -> Vec<u8> {
        let mut file = vec![0xff, 0x4f, 0xff, 0x51];
        file.extend((38 + 3 * planes).to_be_bytes());
        file.extend([0, 0]);
        for size in [extent, extent, 0, 0, extent, extent, 0, 0] {
            file.extend(u32::to_be_bytes(size));
        }
        file.extend(planes.to_be_bytes());
        file.extend([7, 1, 1].repeat(usize::from(planes)));
        file
    }

    #[test]
    fn planes_are_counted_where_the_standard_puts_them() {
        assert_eq!(planes_of(&head(5, 3)), Some(3));
        assert_eq!(planes_of(head(5, 3).get(..30).unwrap()), None);
        assert_eq!(planes_of(b"no picture"), None);
    }

    #[test]
    fn a_header_that_promises_too_much_is_refused() {
        let mut file = head(1 << 16, 3);
        // Coding and quantisation, each in its least form, and a tile of nothing.
        file.extend([0xff, 0x52, 0, 12, 0, 0, 0, 1, 0, 0, 4, 4, 0, 1]);
        file.extend([0xff, 0x5c, 0, 4, 0x40, 0x40]);
        file.extend([0xff, 0x90, 0, 10, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0x93, 0xff, 0xd9]);
        assert!(rgb_of(&file, usize::MAX).unwrap_err().contains("samples"));
    }

    #[test]
    fn what_is_no_picture_has_none() {
        assert_eq!(rgb_of(b"no picture", usize::MAX).unwrap(), None);
        assert_eq!(rgb_of(&head(5, 3), usize::MAX).unwrap(), None);
    }
}
