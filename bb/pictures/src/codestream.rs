//! Upper bounds of the memory that a JPEG 2000 decoder allocates for an image, computed from the headers before decoding.
//!
//! The decoder creates a table of all tiles before it decodes any, and for each tile lists of precincts, code blocks and layers. The number
//! of samples does not limit these lists, because a tile, a precinct or a code block may contain a single sample, or none.
//!
//! The headers are read as `hayro-jpeg2000` reads them. If the length of a marker segment does not match its content, two readers may
//! continue at different offsets. So the file is refused, as if it were no image.
//!
//! Source: ISO/IEC 15444-1, annexes A (markers), B (tiles, resolutions, precincts, code blocks) and I (boxes).

/// The maximum number of tiles. Tile indices have 16 bits in a codestream.
pub(super) const MOST_TILES: u64 = 1 << 16;

/// The maximum number of coding passes of a code block with 32 bit planes.
const MOST_PASSES: u64 = 94;

/// Upper bounds of the work and the memory of the decoder for a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Survey {
    pub(super) tiles: u64,
    /// The number of planes in the codestream, or of channels that a palette or a mapping creates from them, whichever is greater.
    pub(super) planes: u64,
    /// The number of bit planes of a sample's coefficients. The decoder passes over each bit plane up to three times.
    pub(super) bit_planes: u64,
    /// The size of the table of tiles, in bytes.
    pub(super) table_bytes: u64,
    /// The size of the lists of the largest tile, in bytes.
    pub(super) tile_bytes: u64,
    /// The number of code blocks and packets of all tiles.
    pub(super) items: u64,
}

/// A reader of big-endian numbers. It ends if too few bytes are left.
#[derive(Clone)]
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self, count: usize) -> Option<u64> {
        Some(self.take(count)?.iter().fold(0, |number, byte| (number << 8) | u64::from(*byte)))
    }

    /// Reads the length of a marker segment and returns the content that follows.
    fn segment(&mut self) -> Option<Bytes<'a>> {
        let length = self.number(2)?.checked_sub(2)?;
        self.take(length as usize).map(Bytes)
    }

    /// Returns the code of the next marker without consuming it.
    fn marker(&self) -> Option<u8> {
        let [0xff, code, ..] = self.0 else { return None };
        Some(*code)
    }
}

/// Returns the codestream of a file, and the number of channels that the enclosing boxes create from its planes.
fn unboxed(file: &[u8]) -> Option<(&[u8], u64)> {
    if file.starts_with(&[0xff, 0x4f, 0xff, 0x51]) {
        return Some((file, 0));
    }
    let (mut codestream, mut channels) = (None, 0);
    for (kind, content) in boxes(file) {
        match kind {
            b"jp2c" => codestream = Some(content),
            // A later header replaces an earlier one. The maximum is an upper bound for both.
            b"jp2h" => {
                for (kind, content) in boxes(content) {
                    let count = match kind {
                        b"cmap" => content.len() as u64 / 4,
                        b"pclr" => u64::from(content.get(2).copied().unwrap_or(0)),
                        _ => 0,
                    };
                    channels = channels.max(count);
                }
            }
            _ => {}
        }
    }
    Some((codestream?, channels))
}

/// Iterates over the boxes in a file or in another box. If a length exceeds the remaining bytes, the box has all of them.
fn boxes(file: &[u8]) -> impl Iterator<Item = (&[u8; 4], &[u8])> {
    let mut rest = Bytes(file);
    std::iter::from_fn(move || {
        let length = rest.number(4)?;
        let kind = rest.take(4)?.first_chunk::<4>()?;
        let length = match length {
            0 => u64::MAX,
            1 => rest.number(8)?.checked_sub(16)?,
            length => length.checked_sub(8)?,
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(rest.0.len());
        Some((kind, rest.take(length)?))
    })
}

/// The combined coding styles of an image. Each property has the value that gives a tile the maximum number of parts.
#[derive(Debug, Clone)]
struct Styles {
    layers: u64,
    /// The maximum number of decomposition levels.
    levels: u32,
    /// The binary logarithms of a code block's minimum width and height.
    block: [u32; 2],
    /// The binary logarithms of a precinct's minimum width and height, by resolution.
    precincts: Vec<[u32; 2]>,
    /// The maximum number of step sizes of a quantization.
    steps: u64,
    /// The maximum number of bit planes of a quantization, without the bit planes that a region of interest adds.
    bit_planes: u64,
    /// The maximum number of bit planes that a region of interest adds.
    region: u64,
    /// The number of progression order changes.
    changes: u64,
    /// Whether the coding passes of a code block may be separate segments.
    parts_passes: bool,
}

impl Styles {
    fn new() -> Styles {
        Styles {
            layers: 1,
            levels: 0,
            block: [10; 2],
            precincts: vec![[15; 2]; 33],
            steps: 0,
            bit_planes: 0,
            region: 0,
            changes: 0,
            parts_passes: false,
        }
    }

    /// Merges the parameters at the end of a `COD` or `COC` segment into the combined styles.
    fn parameters(&mut self, mut of: Bytes<'_>, has_precincts: bool) -> Option<()> {
        let levels = of.number(1)?;
        self.levels = self.levels.max(u32::try_from(levels).ok().filter(|levels| *levels <= 32)?);
        for block in &mut self.block {
            *block = (*block).min(of.number(1)? as u32 + 2);
        }
        // Passes are separate segments if the arithmetic coder is bypassed, or terminated on each pass.
        self.parts_passes |= of.number(1)? & 5 != 0;
        of.take(1)?;
        if has_precincts {
            for place in self.precincts.iter_mut().take(levels as usize + 1) {
                let size = of.number(1)? as u32;
                let [width, height] = *place;
                *place = [width.min(size & 15), height.min(size >> 4)];
            }
        }
        of.0.is_empty().then_some(())
    }

    /// Reads a marker segment that may occur in the main header and in tile headers.
    fn read(&mut self, marker: u8, rest: &mut Bytes<'_>, wide: bool) -> Option<()> {
        let plane = if wide { 2 } else { 1 };
        match marker {
            // Markers without a segment.
            0x30..=0x3f => {}
            // COD
            0x52 => {
                let mut of = rest.segment()?;
                let flags = of.number(1)?;
                of.take(1)?;
                self.layers = self.layers.max(of.number(2)?);
                of.take(1)?;
                self.parameters(of, flags & 1 == 1)?;
            }
            // COC
            0x53 => {
                let mut of = rest.segment()?;
                of.take(plane)?;
                let flags = of.number(1)?;
                self.parameters(of, flags & 1 == 1)?;
            }
            // QCD and QCC: the content must be exactly as long as the quantization style requires, because the decoder reads this much.
            0x5c | 0x5d => {
                let mut of = rest.segment()?;
                of.take(if marker == 0x5d { plane } else { 0 })?;
                let style = of.number(1)?;
                let (guard, each) = (style >> 5, if style & 31 == 0 { 1 } else { 2 });
                let fits = match style & 31 {
                    0 => true,
                    1 => of.0.len() == 2,
                    2 => of.0.len().is_multiple_of(2),
                    _ => false,
                };
                fits.then_some(())?;
                self.steps = self.steps.max(of.0.len() as u64);
                // The upper five bits of a step size are its exponent.
                let exponent = of.0.iter().step_by(each).map(|byte| u64::from(byte >> 3)).max().unwrap_or(0);
                self.bit_planes = self.bit_planes.max(guard + exponent);
            }
            // RGN
            0x5e => {
                let of = rest.segment()?;
                (of.0.len() == plane + 2).then_some(())?;
                self.region = self.region.max(of.0.last().copied().map_or(0, u64::from));
            }
            // POC
            0x5f => {
                let each = if wide { 9 } else { 7 };
                self.changes = self.changes.saturating_add(rest.segment()?.0.len() as u64 / each);
            }
            // TLM, PLT, PPM, PPT, CRG and COM. The decoder skips these segments by their lengths.
            0x55 | 0x58 | 0x60 | 0x61 | 0x63 | 0x64 => {
                let _skipped = rest.segment()?;
            }
            _ => return None,
        }
        Some(())
    }

    /// Returns the bytes of the lists and the number of items for a tile of this size with this number of planes.
    fn tile(&self, size: [u64; 2], planes: u64) -> (u64, u64) {
        let (mut precincts, mut blocks) = (0u64, 0u64);
        for resolution in 0..=self.levels {
            let Some(exponents) = self.precincts.get(resolution as usize) else { break };
            let below = self.levels - resolution;
            let bands = if resolution == 0 { 1 } else { 3 };
            let halved = u32::from(resolution > 0);
            let along = |size: u64, exponent: u32, block: u32| {
                let block = block.min(exponent.saturating_sub(halved));
                let precincts = cells(shrunk(size, below), exponent);
                // A precinct without samples of a band still has up to one code block.
                (precincts, cells(shrunk(size, below + halved), block).max(precincts))
            };
            let ([width, height], [block_width, block_height]) = (size, self.block);
            let [precinct_width, precinct_height] = *exponents;
            let (across, wide) = along(width, precinct_width, block_width);
            let (down, high) = along(height, precinct_height, block_height);
            precincts = precincts.saturating_add(across.saturating_mul(down).saturating_mul(bands));
            blocks = blocks.saturating_add(wide.saturating_mul(high).saturating_mul(bands));
        }
        let (precincts, blocks) = (precincts.saturating_mul(planes), blocks.saturating_mul(planes));
        let layers = self.layers.min(32);
        let packets = precincts.saturating_mul(layers).saturating_mul(self.changes.max(1));
        let segments = layers + if self.parts_passes { MOST_PASSES } else { 0 };
        // The sizes follow from the decoder's types, doubled because its lists grow by doubling. A precinct has its tag trees and an entry
        // in the progression order. A code block has its nodes in two tag trees, its layers and its segments. If the progression order
        // changes, each packet has an entry in the set of packets already read.
        let of_precincts = precincts.saturating_mul(448).saturating_mul(self.changes.max(1));
        let of_blocks = blocks.saturating_mul(448 + 48 * layers + 64 * segments);
        let of_packets = if self.changes > 0 { packets.saturating_mul(32) } else { 0 };
        let of_planes = planes.saturating_mul(64 * (u64::from(self.levels) + 1) + 64 * self.changes);
        let bytes = [of_precincts, of_blocks, of_packets, of_planes].into_iter().fold(0, u64::saturating_add);
        (bytes, blocks.saturating_add(packets))
    }
}

/// Returns the maximum number of samples that remain of `n` at a resolution that is halved `times` times.
fn shrunk(n: u64, times: u32) -> u64 {
    n.div_ceil(1 << times)
}

/// Returns the maximum number of grid cells that `n` consecutive samples touch, if a cell has `2^exponent` samples.
fn cells(n: u64, exponent: u32) -> u64 {
    if n == 0 { 0 } else { (n + (1 << exponent) - 2) / (1 << exponent) + 1 }
}

/// Computes the bounds for a file; `None` if the decoder would not read the file as an image.
pub(super) fn survey(file: &[u8]) -> Option<Survey> {
    let (codestream, channels) = unboxed(file)?;
    let mut rest = Bytes(codestream);
    (rest.number(4)? == 0xff4f_ff51).then_some(())?;
    let mut sizes = rest.segment()?;
    sizes.take(2)?;
    let mut pair = || Some([sizes.number(4)?, sizes.number(4)?]);
    let (end, start, tile, origin) = (pair()?, pair()?, pair()?, pair()?);
    let planes = sizes.number(2)?;
    (sizes.0.len() as u64 == 3 * planes).then_some(())?;
    let mut tiles = 1u64;
    let mut largest = [0; 2];
    let axes = end.into_iter().zip(start).zip(tile.into_iter().zip(origin));
    for (((end, start), (tile, origin)), largest) in axes.zip(&mut largest) {
        (tile > 0 && origin <= start && start < end).then_some(())?;
        tiles = tiles.saturating_mul((end - origin).div_ceil(tile));
        *largest = tile.min(end - start);
    }
    let mut styles = Styles::new();
    loop {
        let marker = rest.marker()?;
        if marker == 0x90 {
            break;
        }
        rest.take(2)?;
        styles.read(marker, &mut rest, planes > 256)?;
    }
    while rest.marker() == Some(0x90) {
        if tile_part(&mut rest, &mut styles, planes > 256).is_none() {
            // A file may end inside a tile. The decoder then decodes the part that is present.
            if rest.0.is_empty() {
                break;
            }
            return None;
        }
    }
    let (tile_bytes, items) = styles.tile(largest, planes);
    // The sizes follow from the decoder's types: 256 bytes for a tile, and for each plane 256 bytes and its list of step sizes.
    let each = 256 + planes.saturating_mul(256 + 4 * styles.steps);
    Some(Survey {
        tiles,
        planes: planes.max(channels),
        bit_planes: (styles.bit_planes + styles.region).min(32),
        table_bytes: tiles.saturating_mul(each),
        tile_bytes,
        items: tiles.saturating_mul(items.saturating_add(planes)),
    })
}

/// Reads the header of a tile part and skips its data. Returns `None` if the decoder would stop here, or if it is uncertain that the
/// decoder would continue in the same way.
fn tile_part(rest: &mut Bytes<'_>, styles: &mut Styles, wide: bool) -> Option<()> {
    rest.take(2)?;
    let mut head = rest.segment()?;
    (head.0.len() == 8).then_some(())?;
    head.take(2)?;
    let length = match head.number(4)? {
        0 => rest.0.len(),
        length => (length as usize).checked_sub(12)?,
    };
    let before = rest.0.len();
    loop {
        let read = before - rest.0.len();
        if read >= length {
            return Some(());
        }
        let Some(marker) = rest.marker() else {
            // The decoder expects another tile part here, finds none and stops.
            rest.0 = &[];
            return None;
        };
        match marker {
            0x93 => {
                rest.take(2)?;
                break;
            }
            // EOC: the end of the codestream.
            0xd9 => break,
            marker => {
                rest.take(2)?;
                styles.read(marker, rest, wide)?;
            }
        }
    }
    let Some(data) = length.checked_sub(before - rest.0.len()) else { return Some(()) };
    rest.take(data.min(rest.0.len())).map(drop)
}
