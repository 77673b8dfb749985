//! The strips or tiles of a TIFF.

use super::compression::{Compression, Target};
use super::directory::{Directory, Values};
use super::layout::{Layout, Predictor};
use super::{Fault, MOST_BYTES, samples};
use bb_ir::memory;
use bb_ir::picture::{Allowance, PictureError};

/// A reader of strips or tiles. It keeps the decompressed chunk at one index in memory, or one chunk per plane.
pub(super) struct Chunks<'a> {
    file: &'a [u8],
    little: bool,
    layout: Layout,
    /// The factor that converts floats to bytes.
    scale: f64,
    compression: Compression<'a>,
    offsets: Values<'a>,
    counts: Option<Values<'a>>,
    allowance: &'a dyn Allowance,
    /// The number of compressed bytes that were read. Several chunks may refer to the same bytes of the file.
    read: usize,
    planes: Vec<Vec<u8>>,
    /// The samples of a part of a row, pixel by pixel.
    samples: Vec<u32>,
}

impl<'a> Chunks<'a> {
    /// Allocates memory for a strip or tile. `scale` is the factor that converts floats to bytes.
    pub(super) fn new(
        file: &'a [u8],
        directory: &Directory<'a>,
        layout: Layout,
        scale: f64,
        allowance: &'a dyn Allowance,
    ) -> Result<Chunks<'a>, Fault> {
        let planes = if layout.planar { layout.samples } else { 1 };
        let bytes = layout.row_bytes().saturating_mul(layout.chunk[0]);
        let planes = (0..planes).map(|_| memory::filled("ImageDecoder", 0, bytes));
        Ok(Chunks {
            file,
            little: directory.little(),
            scale,
            compression: Compression::read(directory, &layout)?,
            offsets: directory.values(layout.offsets)?.ok_or(Fault::Damaged)?,
            counts: directory.values(layout.counts)?,
            allowance,
            read: 0,
            planes: planes.collect::<Result<_, _>>()?,
            samples: Vec::new(),
            layout,
        })
    }

    /// Decompresses the first `rows` rows of the strip or tile at an index, for all planes.
    pub(super) fn load(&mut self, down: usize, across: usize, rows: usize) -> Result<(), Fault> {
        let layout = &self.layout;
        let row_bytes = layout.row_bytes();
        for (plane, bytes) in self.planes.iter_mut().enumerate() {
            let index = (plane * layout.down + down) * layout.across + across;
            let offset = self.offsets.number(index).and_then(|at| usize::try_from(at).ok());
            let rest = offset.and_then(|at| self.file.get(at..)).ok_or(Fault::Damaged)?;
            // Old programs omit the lengths. A length beyond the end of the file means the rest of the file.
            let count =
                self.counts.map_or(Some(u64::MAX), |counts| counts.number(index)).ok_or(Fault::Damaged)?;
            let packed = rest.get(..usize::try_from(count).unwrap_or(usize::MAX)).unwrap_or(rest);
            let to = bytes.get_mut(..rows * row_bytes).ok_or(Fault::Damaged)?;
            let packed =
                if self.compression.is_none() { packed.get(..to.len()).unwrap_or(packed) } else { packed };
            self.read =
                self.read.saturating_add(packed.len()).saturating_add(self.compression.shared_bytes());
            if self.read > MOST_BYTES {
                let problem = format!(
                    "is a TIFF of {} bytes in its strips or tiles, of which {MOST_BYTES} are allowed",
                    self.read
                );
                return Err(PictureError::Refused { problem }.into());
            }
            self.compression.unpack(packed, Target { to, row_bytes, layout, allowance: self.allowance })?;
            if layout.predictor != Predictor::None && self.compression.has_predictor() {
                for row in to.chunks_mut(row_bytes) {
                    samples::undo(row, layout, self.little)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the samples of some columns of a row, pixel by pixel, after [`load`](Self::load). `left` must be a multiple of 8.
    pub(super) fn part(&mut self, y: usize, left: usize, columns: usize) -> Result<&[u32], Fault> {
        let row_bytes = self.layout.row_bytes();
        let begin = y * row_bytes + left * self.layout.chunk_samples() * self.layout.bits / 8;
        self.samples.clear();
        let count = columns * self.layout.samples;
        memory::reserve("ImageDecoder", &mut self.samples, count)?;
        self.samples.resize(count, 0);
        // After their predictor is undone, floats are big-endian.
        let little =
            self.little && (self.layout.predictor != Predictor::Floats || !self.compression.has_predictor());
        for (plane, bytes) in self.planes.iter().enumerate() {
            let bytes = bytes.get(begin..(y + 1) * row_bytes).ok_or(Fault::Damaged)?;
            let step = if self.layout.planar { self.layout.samples } else { 1 };
            let to = self.samples.iter_mut().skip(plane).step_by(step);
            samples::unpack(bytes, &self.layout, little, self.scale, to);
        }
        Ok(&self.samples)
    }
}
