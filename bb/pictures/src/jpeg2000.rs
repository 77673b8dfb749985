//! Decodes images in JPEG 2000, which the crate `image` does not support.

use crate::canvas::{Canvas, PIXELS_AT_ONCE, cmyk};
use crate::codestream::{MOST_TILES, survey};
use bb_ir::picture::{Allowance, Picture, PictureError, PixelFormat};
use bb_ir::{DataType, memory};
use hayro_jpeg2000::{ColorSpace, DecodeSettings, DecoderContext, Image};

/// The maximum number of samples of an image, over all channels.
const MOST_SAMPLES: u64 = 1 << 25;

/// The maximum number of samples times bit planes. For a file of a few kilobytes, the decoder may pass over all of them three times,
/// which takes some seconds and cannot be stopped.
const MOST_BITS: u64 = 1 << 29;

/// The bytes that the decoder needs for a sample of each channel: the sample and its coefficient in `f32`, before and after each
/// step, and the sample as a byte.
const BYTES_PER_SAMPLE: u64 = 24;

/// The maximum size in bytes of the decoder's own lists: the list of tiles, and the lists of the parts of the largest tile.
const MOST_LIST_BYTES: u64 = 1 << 28;

/// The maximum number of code blocks and packets of all tiles. The decoder creates them before it reads data, and cannot be stopped
/// during this. With AddressSanitizer, each takes up to 3 µs. An image with the maximum number of samples, tiles of 256 by 256, code
/// blocks of 32 by 32, and 12 layers has half of this number.
const MOST_ITEMS: u64 = 1 << 20;

/// Decodes an image. Returns `None` if the file is no image.
///
/// The decoder does not limit its allocations, so they are bounded before it starts.
pub(super) fn decode(
    file: &[u8],
    pixels: PixelFormat,
    allowance: &dyn Allowance,
) -> Result<Option<Picture>, PictureError> {
    let Some(survey) = survey(file) else { return Ok(None) };
    within("tiles", survey.tiles, MOST_TILES)?;
    let Ok(picture) = Image::new(file, &DecodeSettings::default()) else { return Ok(None) };
    let (width, height) = (picture.width() as usize, picture.height() as usize);
    let area = u64::from(picture.width()) * u64::from(picture.height());
    let samples = area.saturating_mul(survey.planes);
    within("samples", samples, MOST_SAMPLES)?;
    within("bits", samples.saturating_mul(survey.bit_planes), MOST_BITS)?;
    let lists = survey.table_bytes.saturating_add(survey.tile_bytes);
    within("bytes of tiles, precincts and code blocks", lists, MOST_LIST_BYTES)?;
    within("code blocks and packets", survey.items, MOST_ITEMS)?;
    let colours = match picture.color_space() {
        ColorSpace::Icc { num_channels, .. } => *num_channels,
        ColorSpace::Gray => 1,
        ColorSpace::RGB => 3,
        ColorSpace::CMYK => 4,
        ColorSpace::Unknown { num_channels } => *num_channels,
    };
    if !matches!(colours, 1 | 3) && !matches!(picture.color_space(), ColorSpace::CMYK) {
        let problem =
            format!("is a JPEG 2000 of {colours} colours that are not known; expected grey, RGB or CMYK");
        return Err(PictureError::Refused { problem });
    }
    let shape = [height, width, pixels.channels()];
    allowance.bound(DataType::U8, &shape).map_err(PictureError::Ended)?;
    memory::probe("ImageDecoder", memory::at_most(samples * BYTES_PER_SAMPLE + lists))?;
    let channels = usize::from(colours) + usize::from(picture.has_alpha());
    let mut context = DecoderContext::default();
    let Ok(decoded) = picture.decode(&mut context) else { return Ok(None) };
    // The decoder counts the components itself, and the boxes of the file may declare another number.
    if decoded.components().len() != channels {
        return Ok(None);
    }
    let bytes = decoded.data_u8();
    let mut out = Canvas::new([height, width], pixels, allowance)?;
    for some in bytes.chunks(channels * PIXELS_AT_ONCE) {
        match colours {
            1 => out.extend(some.chunks_exact(channels).filter_map(<[u8]>::first).map(|&v| [v; 3]))?,
            4 => out.extend(
                some.chunks_exact(channels).filter_map(|pixel| pixel.first_chunk().copied().map(cmyk)),
            )?,
            _ => out.extend(some.chunks_exact(channels).filter_map(|pixel| pixel.first_chunk().copied()))?,
        }
    }
    Ok(Some(out.finish()))
}

/// Refuses an image if a quantity exceeds its maximum.
fn within(what: &str, got: u64, most: u64) -> Result<(), PictureError> {
    if got <= most {
        return Ok(());
    }
    let got = if got == u64::MAX { "more than 2^64".to_owned() } else { got.to_string() };
    Err(PictureError::Refused {
        problem: format!("is a picture of {got} {what}, of which {most} are allowed"),
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use crate::decoder::tests::{decoded, problem};

    /// Creates a codestream of a square image with these sizes of the image and of its tiles, and this precinct exponent.
    ///
    /// Its only tile part has an empty packet, so all samples are in the middle of their range.
    fn stream(extent: u32, tile: u32, planes: u16, precinct: u8) -> Vec<u8> {
        let mut file = vec![0xff, 0x4f, 0xff, 0x51];
        file.extend((38 + 3 * planes).to_be_bytes());
        file.extend([0, 0]);
        for size in [extent, extent, 0, 0, tile, tile, 0, 0] {
            file.extend(u32::to_be_bytes(size));
        }
        file.extend(planes.to_be_bytes());
        file.extend([7, 1, 1].repeat(usize::from(planes)));
        // One layer, no decomposition levels, code blocks of 64 by 64, and the reversible transform.
        file.extend([0xff, 0x52, 0, 13, 1, 0, 0, 1, 0, 0, 4, 4, 0, 1, precinct << 4 | precinct]);
        file.extend([0xff, 0x5c, 0, 4, 0x40, 0x40]);
        file.extend([0xff, 0x90, 0, 10, 0, 0, 0, 0, 0, 15, 0, 1, 0xff, 0x93, 0, 0xff, 0xd9]);
        file
    }

    #[test]
    fn a_picture_of_empty_packets_is_grey() {
        let (shape, bytes) = decoded(&stream(5, 5, 1, 15)).unwrap();
        assert_eq!((shape, bytes), ([5, 5], vec![128; 75]));
    }

    #[test]
    fn what_a_header_promises_is_bounded_before_decoding() {
        // The cases are: 10^8 tiles, too many samples, precincts of one sample each, and too many planes.
        for (file, what) in [
            (stream(10_000, 1, 1, 15), "tiles"),
            (stream(65_000, 300, 3, 15), "samples"),
            (stream(5_000, 5_000, 1, 0), "precincts"),
            // The lists of each tile are short, but there are many tiles.
            (stream(1_000, 200, 1, 0), "packets"),
            (stream(250, 1, 200, 15), "bytes of tiles"),
            (stream(1 << 16, 1 << 16, 3, 15), "samples"),
        ] {
            assert!(problem(&file).contains(what), "{what}: {}", problem(&file));
        }
    }

    #[test]
    fn bit_planes_are_bounded_with_the_samples() {
        let mut file = stream(5000, 5000, 1, 15);
        let at = file.windows(2).position(|pair| pair == [0xff, 0x5c]).unwrap();
        // 7 guard bits and an exponent of 26 give 32 bit planes, the maximum.
        file.get_mut(at + 4..at + 6).unwrap().copy_from_slice(&[0xe0, 26 << 3]);
        assert!(problem(&file).contains("bits"), "{}", problem(&file));
    }

    #[test]
    fn changes_of_the_progression_count() {
        let file = stream(64, 64, 1, 0);
        assert!(decoded(&file).is_some());
        let change = [0, 0, 0, 1, 1, 1, 4];
        let changes = 9000;
        let mut more = file.get(..file.len() - 17).unwrap().to_vec();
        more.extend([0xff, 0x5f]);
        more.extend((2 + 7 * changes as u16).to_be_bytes());
        more.extend(change.repeat(changes));
        more.extend(file.get(file.len() - 17..).unwrap());
        assert!(problem(&more).contains("bytes of"), "{}", problem(&more));
    }

    #[test]
    fn markers_of_other_lengths_are_no_picture() {
        // If the length is wrong, a reader that uses the length continues at another offset than a reader that knows the content.
        let mut file = stream(5, 5, 1, 15);
        let at = file.windows(2).position(|pair| pair == [0xff, 0x52]).unwrap();
        file.insert(at + 15, 0);
        *file.get_mut(at + 3).unwrap() += 1;
        assert_eq!(decoded(&file), None);
    }
}
