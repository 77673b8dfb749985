//! `ImageDecoder`, on the host: the extents of a picture are in the file.
//!
//! What decodes is the feature `image`; without it the operator is an error that says so. Everything that a decoder allocates is
//! bounded before it starts, because its own allocations end the process if they fail.

use super::call::{Call, OpOutputs};
use super::infer;
use super::rows::operators;
use crate::Error;
#[cfg(feature = "image")]
use crate::RunOptions;
use crate::error::NodePart;
use bb_ir::TensorData;
#[cfg(feature = "image")]
use bb_ir::{DataType, memory};

#[cfg(feature = "image")]
mod claims;
#[cfg(feature = "image")]
mod codestream;
#[cfg(feature = "image")]
mod formats;
#[cfg(feature = "image")]
mod jpeg2000;

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
    let bound = |dtype: DataType, shape: &[usize]| call.bound(dtype, shape);
    let picture = pixels_of(file, pixels, &bound).map_err(|wrong| match wrong {
        Wrong::Picture(problem) => call.wrong(NodePart::Operand(0), problem),
        Wrong::Run(error) => error,
    })?;
    let picture = match picture {
        Some(Decoded { shape, bytes, .. }) => TensorData::adopt(DataType::U8, &shape, bytes.into())?,
        None => TensorData::new::<u8>(&[0, 0, pixels.channels()], &[])?,
    };
    Ok(super::call::one(picture))
}

/// Decodes a picture of any known format; `None` for what is no such picture.
#[cfg(feature = "image")]
fn pixels_of(file: &[u8], pixels: Pixels, bound: Bound<'_>) -> Result<Option<Decoded>, Wrong> {
    match formats::decode(file, pixels, bound)? {
        Some(picture) => Ok(Some(picture)),
        None => jpeg2000::decode(file, pixels, bound),
    }
}

/// Refuses a result of this type that is too large.
#[cfg(feature = "image")]
type Bound<'a> = &'a dyn Fn(DataType, &[usize]) -> Result<(), Error>;

/// Why a file is not decoded.
#[cfg(feature = "image")]
#[derive(Debug)]
enum Wrong {
    /// What is wrong with the picture, without the node's name.
    Picture(String),
    /// The run must end, a limit is exceeded, or memory is lacking.
    Run(Error),
}

#[cfg(feature = "image")]
impl<E: Into<Error>> From<E> for Wrong {
    fn from(error: E) -> Wrong {
        Wrong::Run(error.into())
    }
}

/// How many pixels are converted before the next look whether the run must end.
#[cfg(feature = "image")]
const PIXELS_AT_ONCE: usize = 1 << 16;

/// The pixels of a picture, as they are made.
#[cfg(feature = "image")]
#[derive(Debug)]
struct Decoded {
    shape: [usize; 3],
    pixels: Pixels,
    bytes: Vec<u8>,
}

#[cfg(feature = "image")]
impl Decoded {
    fn new(height: usize, width: usize, pixels: Pixels) -> Result<Decoded, Error> {
        let shape = [height, width, pixels.channels()];
        let bytes = shape.iter().fold(1usize, |bytes, extent| bytes.saturating_mul(*extent));
        Ok(Decoded { shape, pixels, bytes: memory::room("ImageDecoder", bytes)? })
    }

    /// Appends pixels in the form that is asked for, unless the run must end.
    fn extend(&mut self, rgb: impl Iterator<Item = [u8; 3]>) -> Result<(), Error> {
        RunOptions::check_current()?;
        match self.pixels {
            Pixels::Rgb => self.bytes.extend(rgb.flatten()),
            Pixels::Bgr => self.bytes.extend(rgb.flat_map(|[r, g, b]| [b, g, r])),
            Pixels::Grey => self.bytes.extend(rgb.map(luma)),
        }
        Ok(())
    }
}

/// The luma of ITU-R 601: `0.299 r + 0.587 g + 0.114 b`, to the nearest.
#[cfg(feature = "image")]
fn luma([r, g, b]: [u8; 3]) -> u8 {
    let sum = 19595 * u32::from(r) + 38470 * u32::from(g) + 7471 * u32::from(b);
    ((sum + 0x8000) >> 16).min(255) as u8
}

#[cfg(all(test, feature = "image"))]
mod tests;
