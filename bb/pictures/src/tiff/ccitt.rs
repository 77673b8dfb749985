//! Decodes CCITT codes of black and white runs: modified Huffman (one-dimensional rows without markers), group 3 and group 4.
//!
//! The crate `fax` provides the code tables. Its own decoders are not sufficient: they decode group 3 without two-dimensional
//! rows, and do not decode modified Huffman.
//!
//! Source: ITU-T T.4 and T.6; TIFF 6.0, sections 10 and 11.

use super::Fault;
use bb_ir::memory;
use bb_ir::picture::{Allowance, PictureError};
use fax::maps::{Mode, black, mode, white};
use fax::{BitReader, ByteReader};
use std::convert::Infallible;

/// The coding scheme of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    /// Modified Huffman: only runs. Each row begins at a multiple of `align` bits.
    Rows { align: u64 },
    /// Group 3: runs, with an end-of-line code before each row. If `two_dimensional`, a row may be coded relative to the row
    /// before.
    Group3 { two_dimensional: bool },
    /// Group 4: each row is coded relative to the row before.
    Group4,
}

/// The number of zeros in an end-of-line code before its final 1. No other code begins with this number of zeros.
const END_OF_LINE: u8 = 11;

/// The maximum number of bytes that a look-up of a code reads. This number of zero bytes is appended, so that the last code can
/// be read.
const LONGEST: usize = 4;

/// The number of rows between two checks whether decoding must end.
const ROWS: usize = 64;

/// A bit reader for a strip.
struct Bits<R> {
    bits: ByteReader<R>,
    /// The number of bits that were read, and the number of bits in the strip.
    read: u64,
    length: u64,
}

impl<R: Iterator<Item = Result<u8, Infallible>>> BitReader for Bits<R> {
    type Error = Infallible;

    fn peek(&self, bits: u8) -> Option<u16> {
        self.bits.peek(bits)
    }

    fn consume(&mut self, bits: u8) -> Result<(), Infallible> {
        self.read += u64::from(bits);
        self.bits.consume(bits)
    }

    fn bits_to_byte_boundary(&self) -> u8 {
        self.bits.bits_to_byte_boundary()
    }
}

impl<R: Iterator<Item = Result<u8, Infallible>>> Bits<R> {
    fn skip(&mut self, bits: u8) {
        let Ok(()) = self.consume(bits);
    }

    fn is_at_end(&self) -> bool {
        self.read >= self.length
    }

    /// Skips an end-of-line code and the zeros before it. Returns whether there was one.
    fn end_of_line(&mut self) -> bool {
        if self.peek(END_OF_LINE) != Some(0) {
            return false;
        }
        while self.peek(1) == Some(0) && !self.is_at_end() {
            self.skip(1);
        }
        self.skip(1);
        !self.is_at_end()
    }

    /// Reads the length of a run: any number of codes for multiples of 64, then one code for the remainder.
    fn run(&mut self, is_black: bool) -> Result<u32, Fault> {
        let mut length = 0u32;
        loop {
            let part = if is_black { black::decode(self) } else { white::decode(self) };
            let part = part.filter(|_| self.read <= self.length).ok_or(Fault::Damaged)?;
            length = length.saturating_add(u32::from(part));
            if part < 64 {
                return Ok(length);
            }
        }
    }
}

/// The column indices at which the colour of a row changes. The first change is from white to black.
type Changes = Vec<u32>;

/// Adds a change of colour. A row has no more changes than pixels, except for runs of length 0.
fn push(changes: &mut Changes, at: u32, width: u32) -> Result<(), Fault> {
    if at > width || changes.len() as u64 > 2 * u64::from(width) + 2 {
        return Err(Fault::Damaged);
    }
    Ok(memory::push("ImageDecoder", changes, at)?)
}

/// Decodes the rows of a strip. A set bit is black.
pub(super) fn unpack<'a>(
    scheme: Scheme,
    packed: &[u8],
    rows: impl Iterator<Item = &'a mut [u8]>,
    width: usize,
    allowance: &dyn Allowance,
) -> Result<(), Fault> {
    let width = u32::try_from(width).map_err(|_| Fault::Damaged)?;
    let bytes = packed.iter().copied().chain(std::iter::repeat_n(0, LONGEST)).map(Ok);
    let Ok(bits) = ByteReader::new(bytes);
    let mut bits = Bits { bits, read: 0, length: 8 * packed.len() as u64 };
    let (mut before, mut changes) = (Changes::new(), Changes::new());
    for (at, row) in rows.enumerate() {
        if at.is_multiple_of(ROWS) {
            allowance.check().map_err(PictureError::Ended)?;
        }
        let is_there = match scheme {
            Scheme::Rows { align } => {
                while !bits.read.is_multiple_of(align) {
                    bits.skip(1);
                }
                runs(&mut bits, width, &mut changes)?;
                true
            }
            Scheme::Group4 => differences(&mut bits, width, &before, &mut changes)?,
            Scheme::Group3 { two_dimensional } => {
                let marked = bits.end_of_line();
                let is_difference = two_dimensional && marked && bits.peek(1) == Some(0);
                if two_dimensional && marked {
                    bits.skip(1);
                }
                // Two consecutive end-of-line codes mark the end of the image.
                if marked && bits.peek(END_OF_LINE) == Some(0) {
                    false
                } else if is_difference {
                    differences(&mut bits, width, &before, &mut changes)?
                } else {
                    runs(&mut bits, width, &mut changes)?;
                    true
                }
            }
        };
        if !is_there {
            // Missing rows are white.
            return Ok(());
        }
        fill(row, &changes, width);
        std::mem::swap(&mut before, &mut changes);
    }
    Ok(())
}

/// Reads a row of runs. The first run is white.
fn runs<R: Iterator<Item = Result<u8, Infallible>>>(
    bits: &mut Bits<R>,
    width: u32,
    changes: &mut Changes,
) -> Result<(), Fault> {
    changes.clear();
    let (mut at, mut is_black) = (0u32, false);
    while at < width {
        at = at.saturating_add(bits.run(is_black)?);
        push(changes, at, width)?;
        is_black = !is_black;
    }
    Ok(())
}

/// Reads a row that is coded relative to the row before. Returns false at the end of the image.
fn differences<R: Iterator<Item = Result<u8, Infallible>>>(
    bits: &mut Bits<R>,
    width: u32,
    before: &Changes,
    changes: &mut Changes,
) -> Result<bool, Fault> {
    changes.clear();
    // The reference `a0` begins before the row. `next` is the index of a change in the row before, near `b1`.
    let (mut at, mut is_black, mut next) = (None::<u32>, false, 0usize);
    while at.is_none_or(|at| at < width) {
        let is_behind = |change: u32| at.is_none_or(|at| change > at);
        // Find the first change after `a0`, then the first one to the opposite colour.
        while next > 0 && before.get(next - 1).copied().is_some_and(is_behind) {
            next -= 1;
        }
        while before.get(next).copied().is_some_and(|change| !is_behind(change)) {
            next += 1;
        }
        let first = if (next % 2 == 1) == is_black { next } else { next + 1 };
        let change = |i: usize| before.get(i).copied().unwrap_or(width);
        let here = at.unwrap_or(0);
        match mode::decode(bits).filter(|_| bits.read <= bits.length).ok_or(Fault::Damaged)? {
            Mode::Pass => at = Some(change(first + 1)),
            Mode::Vertical(by) => {
                let to = change(first).checked_add_signed(i32::from(by)).ok_or(Fault::Damaged)?;
                if to < here {
                    return Err(Fault::Damaged);
                }
                push(changes, to, width)?;
                (at, is_black) = (Some(to), !is_black);
            }
            Mode::Horizontal => {
                let first = here.saturating_add(bits.run(is_black)?);
                let second = first.saturating_add(bits.run(!is_black)?);
                push(changes, first, width)?;
                push(changes, second, width)?;
                at = Some(second);
            }
            Mode::Extension => {
                return Err(Fault::Unsupported("with the uncompressed mode of CCITT".to_owned()));
            }
            Mode::EOF => return Ok(false),
        }
    }
    Ok(true)
}

/// Sets the bits of black runs in a row, and clears the other bits. The first pixel is the highest bit.
fn fill(row: &mut [u8], changes: &Changes, width: u32) {
    row.fill(0);
    for run in changes.chunks(2) {
        // A final black run extends to the end of the row.
        let (from, to) = match *run {
            [from, to] => (from as usize, to as usize),
            [from] => (from as usize, width as usize),
            _ => continue,
        };
        let (first, last) = (from / 8, to / 8);
        let (front, back) = (0xff >> (from % 8), !(0xff >> (to % 8)));
        if first == last {
            row.get_mut(first).into_iter().for_each(|byte| *byte |= front & back);
            continue;
        }
        row.get_mut(first).into_iter().for_each(|byte| *byte |= front);
        row.get_mut(first + 1..last).into_iter().for_each(|bytes| bytes.fill(0xff));
        row.get_mut(last).into_iter().for_each(|byte| *byte |= back);
    }
}
