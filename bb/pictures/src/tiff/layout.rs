//! The layout of samples in a TIFF: their number and type, and the strips or tiles that contain them.

use super::Fault;
use super::directory::Directory;

const WIDTH: u16 = 256;
const HEIGHT: u16 = 257;
const BITS: u16 = 258;
const COMPRESSION: u16 = 259;
pub(super) const PHOTOMETRIC: u16 = 262;
const FILL_ORDER: u16 = 266;
const STRIP_OFFSETS: u16 = 273;
pub(super) const ORIENTATION: u16 = 274;
const SAMPLES: u16 = 277;
const ROWS_PER_STRIP: u16 = 278;
const STRIP_BYTES: u16 = 279;
const PLANAR: u16 = 284;
const PREDICTOR: u16 = 317;
const TILE_WIDTH: u16 = 322;
const TILE_HEIGHT: u16 = 323;
const TILE_OFFSETS: u16 = 324;
const TILE_BYTES: u16 = 325;
const SAMPLE_FORMAT: u16 = 339;

/// The number type of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Unsigned,
    Signed,
    Float,
}

/// The transformation of samples before compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Predictor {
    None,
    /// Each sample is stored as the difference from the corresponding sample of the previous pixel.
    Differences,
    /// The bytes of floats are stored as differences. In a row, the highest bytes of all floats come first.
    Floats,
}

/// The samples of an image, and their arrangement in the file.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub(super) height: usize,
    pub(super) width: usize,
    /// The number of samples of a pixel.
    pub(super) samples: usize,
    /// The number of bits of a sample.
    pub(super) bits: usize,
    pub(super) format: Format,
    pub(super) compression: u64,
    pub(super) predictor: Predictor,
    /// Whether the bits in each byte are in reversed order.
    pub(super) reversed: bool,
    /// Whether each strip or tile has one sample of each pixel, instead of all samples.
    pub(super) planar: bool,
    /// The height and width of a strip or tile.
    pub(super) chunk: [usize; 2],
    /// The number of strips or tiles across the image, and down the image.
    pub(super) across: usize,
    pub(super) down: usize,
    pub(super) offsets: u16,
    pub(super) counts: u16,
}

impl Layout {
    /// Reads the layout from the tags.
    pub(super) fn read(directory: &Directory<'_>) -> Result<Layout, Fault> {
        let extent = |tag: u16| {
            let number = directory.number(tag)?.and_then(|n| u32::try_from(n).ok());
            number.filter(|n| *n > 0).map(|n| n as usize).ok_or(Fault::Damaged)
        };
        let (width, height) = (extent(WIDTH)?, extent(HEIGHT)?);
        let samples = directory.number(SAMPLES)?.unwrap_or(1);
        let samples =
            usize::try_from(samples).ok().filter(|n| (1..=0xffff).contains(n)).ok_or(Fault::Damaged)?;
        let bits = same(directory, BITS, "bits")?.unwrap_or(1);
        if !(1..=32).contains(&bits) && bits != 64 {
            return Err(Fault::Unsupported(format!("with samples of {bits} bits; expected 1 to 32, or 64")));
        }
        let format = match same(directory, SAMPLE_FORMAT, "formats")?.unwrap_or(1) {
            // An undefined format is treated as unsigned, as in libtiff.
            1 | 4 => Format::Unsigned,
            2 => Format::Signed,
            3 if matches!(bits, 16 | 32 | 64) => Format::Float,
            3 => {
                return Err(Fault::Unsupported(format!("with floats of {bits} bits; expected 16, 32 or 64")));
            }
            other => {
                let problem = format!("with samples of format {other}; expected 1 to 4");
                return Err(Fault::Unsupported(problem));
            }
        };
        let predictor = match directory.number(PREDICTOR)?.unwrap_or(1) {
            1 => Predictor::None,
            2 => Predictor::Differences,
            3 => Predictor::Floats,
            other => return Err(Fault::Unsupported(format!("with predictor {other}; expected 1, 2 or 3"))),
        };
        let tiled = directory.values(TILE_OFFSETS)?.is_some();
        let chunk = if tiled {
            [extent(TILE_HEIGHT)?, extent(TILE_WIDTH)?]
        } else {
            let rows = directory.number(ROWS_PER_STRIP)?.unwrap_or(u64::MAX);
            let rows = usize::try_from(rows).unwrap_or(usize::MAX).min(height);
            [Some(rows).filter(|rows| *rows > 0).ok_or(Fault::Damaged)?, width]
        };
        let [offsets, counts] = if tiled { [TILE_OFFSETS, TILE_BYTES] } else { [STRIP_OFFSETS, STRIP_BYTES] };
        Ok(Layout {
            height,
            width,
            samples,
            bits: bits as usize,
            format,
            compression: directory.number(COMPRESSION)?.unwrap_or(1),
            predictor,
            reversed: directory.number(FILL_ORDER)? == Some(2),
            planar: samples > 1 && directory.number(PLANAR)? == Some(2),
            chunk,
            across: width.div_ceil(chunk[1]),
            down: height.div_ceil(chunk[0]),
            offsets,
            counts,
        })
    }

    /// Returns the number of samples of a pixel in one strip or tile.
    pub(super) fn chunk_samples(&self) -> usize {
        if self.planar { 1 } else { self.samples }
    }

    /// Returns the bytes of a row of a strip or tile.
    pub(super) fn row_bytes(&self) -> usize {
        self.chunk[1].saturating_mul(self.chunk_samples()).saturating_mul(self.bits).div_ceil(8)
    }

    /// Returns the bytes of the strips or tiles at one index, one for each plane.
    pub(super) fn chunk_bytes(&self) -> usize {
        let planes = if self.planar { self.samples } else { 1 };
        self.chunk[0].saturating_mul(self.row_bytes()).saturating_mul(planes)
    }

    /// Returns the bytes of all samples, including samples beyond the edges. Each sample counts as at least
    /// one byte.
    pub(super) fn bytes(&self) -> usize {
        let rows = self.down.saturating_mul(self.chunk[0]);
        let columns = self.across.saturating_mul(self.chunk[1]);
        rows.saturating_mul(columns).saturating_mul(self.samples).saturating_mul(self.bits.div_ceil(8))
    }
}

/// Returns the value of a tag that has one value per sample. The values must be equal.
fn same(directory: &Directory<'_>, tag: u16, what: &str) -> Result<Option<u64>, Fault> {
    let Some(values) = directory.values(tag)? else { return Ok(None) };
    let first = values.number(0).ok_or(Fault::Damaged)?;
    for i in 1..values.len() {
        let other = values.number(i).ok_or(Fault::Damaged)?;
        if other != first {
            let problem = format!("whose samples have {what} {first} and {other}; expected the same for all");
            return Err(Fault::Unsupported(problem));
        }
    }
    Ok(Some(first))
}
