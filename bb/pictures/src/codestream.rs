//! Bounds of the memory that a JPEG 2000 decoder allocates for a picture, read from the headers before decoding.
//!
//! The decoder makes a table of all tiles at once, and for each tile lists of precincts, code blocks and layers. Samples bound
//! none of them: a tile, a precinct or a code block may hold a single sample, or none.
//!
//! The headers are read as `hayro-jpeg2000` reads them. Where a marker's length does not agree with its content, two readers may go on at
//! different places, so the file is refused as no picture.
//!
//! Source: ISO/IEC 15444-1, annexes A (markers), B (tiles, resolutions, precincts, code blocks) and I (boxes).

/// The most tiles: their numbers have 16 bits in a codestream.
pub(super) const MOST_TILES: u64 = 1 << 16;

/// The most coding passes of a code block of 32 bit planes.
const MOST_PASSES: u64 = 94;

/// Upper bounds of the parts and the memory that the decoder creates for a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Survey {
    pub(super) tiles: u64,
    /// The planes of the codestream, or the channels that a palette or a mapping creates from them, if there are more channels than planes.
    pub(super) planes: u64,
    /// The bit planes of a sample's coefficients. The decoder passes over each up to three times.
    pub(super) bit_planes: u64,
    /// The bytes of the table of tiles.
    pub(super) table_bytes: u64,
    /// The bytes of the lists of the largest tile.
    pub(super) tile_bytes: u64,
    /// The code blocks and packets of all tiles.
    pub(super) items: u64,
}

/// Reads big-endian numbers, and is at an end where there are too few bytes.
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

    /// Takes the content of a marker segment, which follows its length.
    fn segment(&mut self) -> Option<Bytes<'a>> {
        let length = self.number(2)?.checked_sub(2)?;
        self.take(length as usize).map(Bytes)
    }

    /// Returns the code of the marker that comes next.
    fn marker(&self) -> Option<u8> {
        let [0xff, code, ..] = self.0 else { return None };
        Some(*code)
    }
}

/// Returns the codestream of a file, and the number of channels that the boxes around it create from its planes.
fn unboxed(file: &[u8]) -> Option<(&[u8], u64)> {
    if file.starts_with(&[0xff, 0x4f, 0xff, 0x51]) {
        return Some((file, 0));
    }
    let (mut codestream, mut channels) = (None, 0);
    for (kind, content) in boxes(file) {
        match kind {
            b"jp2c" => codestream = Some(content),
            // A later header takes the place of an earlier one; the greatest is at least what counts.
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

/// The boxes of a file or of a box. A length that exceeds the rest means all of it.
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

/// The combined coding styles of a picture: for each property, the value that gives a tile the most parts.
#[derive(Debug, Clone)]
struct Styles {
    layers: u64,
    /// The most decompositions.
    levels: u32,
    /// The binary logarithms of a code block's width and height.
    block: [u32; 2],
    /// The binary logarithms of a precinct's width and height, by resolution.
    precincts: Vec<[u32; 2]>,
    /// The most step sizes of a quantisation.
    steps: u64,
    /// The most bit planes of a quantisation, without those that a region of interest adds.
    bit_planes: u64,
    /// The most bit planes that a region of interest adds.
    region: u64,
    /// The changes of the progression.
    changes: u64,
    /// Whether the passes of a code block may be segments of their own.
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

    /// Adds the parameters at the end of a segment `COD` or `COC`.
    fn parameters(&mut self, mut of: Bytes<'_>, has_precincts: bool) -> Option<()> {
        let levels = of.number(1)?;
        self.levels = self.levels.max(u32::try_from(levels).ok().filter(|levels| *levels <= 32)?);
        for block in &mut self.block {
            *block = (*block).min(of.number(1)? as u32 + 2);
        }
        // Bypass of the arithmetic coder, and termination on each pass.
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

    /// Reads a marker segment that may be in the headers of the picture and of tiles.
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
            // QCD and QCC: the decoder reads what each style needs, which must be all of the segment.
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
                // The upper five bits of a step are its exponent.
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
            // TLM, PLT, PPM, PPT, CRG and COM, whose lengths the decoder uses.
            0x55 | 0x58 | 0x60 | 0x61 | 0x63 | 0x64 => {
                let _skipped = rest.segment()?;
            }
            _ => return None,
        }
        Some(())
    }

    /// The bytes and the items of a tile of this size with this many planes.
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
                // A precinct that holds nothing of a band has one code block at most.
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
        // By the decoder's types, twice because its lists grow by doubling: a precinct with its trees and its place in the order;
        // a code block with its nodes in two trees, its layers and its segments; a packet in the set of those that came, where
        // the order changes.
        let of_precincts = precincts.saturating_mul(448).saturating_mul(self.changes.max(1));
        let of_blocks = blocks.saturating_mul(448 + 48 * layers + 64 * segments);
        let of_packets = if self.changes > 0 { packets.saturating_mul(32) } else { 0 };
        let of_planes = planes.saturating_mul(64 * (u64::from(self.levels) + 1) + 64 * self.changes);
        let bytes = [of_precincts, of_blocks, of_packets, of_planes].into_iter().fold(0, u64::saturating_add);
        (bytes, blocks.saturating_add(packets))
    }
}

/// The most samples that `n` have at a resolution that is halved this many times.
fn shrunk(n: u64, times: u32) -> u64 {
    n.div_ceil(1 << times)
}

/// The most cells of a grid that `n` neighbours are in, if a cell has two to the power of `exponent` of them.
fn cells(n: u64, exponent: u32) -> u64 {
    if n == 0 { 0 } else { (n + (1 << exponent) - 2) / (1 << exponent) + 1 }
}

/// Surveys a file; `None` if it is no picture that the decoder would read.
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
            // A file may end within a tile, which is decoded as far as it is there.
            if rest.0.is_empty() {
                break;
            }
            return None;
        }
    }
    let (tile_bytes, items) = styles.tile(largest, planes);
    // By the decoder's types: a tile, and for each plane its properties with lists of their own.
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

/// Reads the header of a part of a tile, and passes over its data. `None` where the decoder would not go on, or where it is not
/// certain that it would go on in the same way.
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
            // The decoder looks for another part here and finds none.
            rest.0 = &[];
            return None;
        };
        match marker {
            0x93 => {
                rest.take(2)?;
                break;
            }
            // The end of the codestream.
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
