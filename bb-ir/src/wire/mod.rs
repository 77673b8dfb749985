//! Frames. A frame is a tensor in a byte format that other processes can read.
//!
//! A frame consists of the following parts. All numbers are little-endian.
//!
//! | bytes | content |
//! |---|---|
//! | 0–7 | the magic number, [`MAGIC`] |
//! | 8–9 | the format's version, [`VERSION`] |
//! | 10–11 | flags: if bit 0 is set, the elements have a checksum |
//! | 12–15 | the length of the header in bytes |
//! | 16–19 | CRC-32 of bytes 0–15, bytes 20–23 and the header |
//! | 20–23 | CRC-32 of the elements; 0 if the flag is not set |
//! | 24– | the header: type hash, element type, shape, byte length |
//! | | zeros up to a multiple of [`ALIGNMENT`] |
//! | | the elements, in the form of [`TensorData`]; they end the frame |
//!
//! A frame contains its own length, so frames can follow each other on a stream without separators; see
//! [`write()`] and [`read`].
//!
//! The checksum of the elements is optional: computing it takes the same time as copying the elements, but
//! adopting a frame needs no copy, and most channels that transfer frames have their own checksums. Strings and
//! booleans are validated with or without a checksum.

mod collisions;
mod header;
mod stream;

pub use crate::type_hash::{element_type, hash_name, type_hash, type_name};
pub use collisions::refuse_collisions;
pub use stream::{Frame, read, read_frame, write};

use crate::{ALIGNMENT, DataType, Error, TensorData, memory};
use bytes::Bytes;
use header::Header;
use std::cmp::Ordering;

/// The first bytes of a frame. The first byte is not ASCII and the last byte is a line feed, so that a
/// transfer in text mode, which damages frames, also damages the magic number.
pub const MAGIC: [u8; 8] = *b"\x93bbwire\n";

/// The version of the format. No other version is read or written.
pub const VERSION: u16 = 1;

/// The flag that the frame has a checksum of the elements.
const CHECKSUM: u16 = 1;

/// The number of bytes before the header.
const PRELUDE: usize = 24;

/// The parts of a frame that have a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Checksum {
    /// Only the header.
    #[default]
    Header,
    /// The header and the elements.
    All,
}

/// Writes a tensor as a frame, with a checksum of the header.
///
/// # Errors
///
/// [`Error::FrameHeader`] if the tensor has too many extents for a header.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), bb_ir::Error> {
/// use bb_ir::{TensorData, wire};
/// let x = TensorData::new(&[2], &[1.0f32, 2.0])?;
/// assert_eq!(wire::decode(wire::encode(&x)?.into())?, x);
/// # Ok(())
/// # }
/// ```
pub fn encode(x: &TensorData) -> Result<Vec<u8>, Error> {
    let mut frame = Vec::new();
    encode_into(x, Checksum::Header, &mut frame)?;
    Ok(frame)
}

/// Appends a frame to `out`. `out` is reallocated at most once.
///
/// If the frame starts at a multiple of [`ALIGNMENT`], its elements are aligned.
///
/// # Errors
///
/// [`Error::FrameHeader`] if the tensor has too many extents for a header; [`Error::Memory`] if the system
/// has no memory for the frame.
pub fn encode_into(x: &TensorData, checksum: Checksum, out: &mut Vec<u8>) -> Result<(), Error> {
    let elements = x.unaligned_bytes()?;
    let front = front_of(x, checksum, 0)?;
    memory::reserve("encoding a frame", out, front.len() + elements.len())?;
    let base = out.len();
    out.extend_from_slice(&front);
    if checksum == Checksum::Header {
        out.extend_from_slice(elements);
        return Ok(());
    }
    // The elements are copied in chunks, so that each chunk is still in the cache when the checksum reads it.
    let mut crc = crc32fast::Hasher::new();
    for piece in elements.chunks(1 << 15) {
        out.extend_from_slice(piece);
        crc.update(piece);
    }
    let front = front_of(x, checksum, crc.finalize())?;
    if let Some(place) = out.get_mut(base..base + front.len()) {
        place.copy_from_slice(&front);
    }
    Ok(())
}

/// Encodes everything before the elements; `elements` is the checksum of the elements.
fn front_of(x: &TensorData, checksum: Checksum, elements: u32) -> Result<Vec<u8>, Error> {
    let header = Header::of(x).encode()?;
    let flags = match checksum {
        Checksum::All => CHECKSUM,
        Checksum::Header => 0,
    };
    let prelude = Prelude { flags, header: header.len() as u32, elements };
    let mut front = Vec::with_capacity(elements_start(header.len()));
    front.extend_from_slice(&prelude.bytes(&header));
    front.extend_from_slice(&header);
    front.resize(elements_start(header.len()), 0);
    Ok(front)
}

/// Decodes a frame. Its elements are shared, not copied, if they are aligned for their type.
///
/// No allocation is larger than the frame.
///
/// # Errors
///
/// One of the `Frame…` variants of [`Error`] if the bytes are not exactly one frame of this version; or an
/// error of [`TensorData::adopt`].
pub fn decode(frame: Bytes) -> Result<TensorData, Error> {
    let (header, elements) = split(frame)?;
    TensorData::adopt(header.dtype()?, &header.shape()?, elements)
}

/// Decodes a frame of a tensor, which must have this type hash.
///
/// # Errors
///
/// As [`decode`]; [`Error::FrameType`] if the frame has another type.
pub fn decode_as(type_hash: u64, frame: Bytes) -> Result<TensorData, Error> {
    let (header, elements) = split(frame)?;
    if header.type_hash != type_hash {
        return Err(Error::FrameType { expected: type_hash, got: header.type_hash });
    }
    TensorData::adopt(header.dtype()?, &header.shape()?, elements)
}

/// The fields between the version and the header.
struct Prelude {
    flags: u16,
    header: u32,
    elements: u32,
}

impl Prelude {
    fn bytes(&self, header: &[u8]) -> [u8; PRELUDE] {
        let mut front = [0; 16];
        let parts = MAGIC
            .into_iter()
            .chain(VERSION.to_le_bytes())
            .chain(self.flags.to_le_bytes())
            .chain(self.header.to_le_bytes());
        for (to, from) in front.iter_mut().zip(parts) {
            *to = from;
        }
        let crc = header_crc(&front, self.elements.to_le_bytes(), header);
        let mut bytes = [0; PRELUDE];
        for (to, from) in bytes
            .iter_mut()
            .zip(front.into_iter().chain(crc.to_le_bytes()).chain(self.elements.to_le_bytes()))
        {
            *to = from;
        }
        bytes
    }
}

fn header_crc(front: &[u8; 16], elements: [u8; 4], header: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(front);
    crc.update(&elements);
    crc.update(header);
    crc.finalize()
}

/// Returns the offset of the elements in a frame, if the header has `header` bytes.
const fn elements_start(header: usize) -> usize {
    (PRELUDE + header).next_multiple_of(ALIGNMENT)
}

/// The checked fields of a frame's first bytes.
struct Front {
    bytes: [u8; 16],
    flags: u16,
    /// The length of the header.
    header: usize,
    header_sum: u32,
    elements_sum: u32,
}

impl Front {
    fn parse(prelude: &[u8; PRELUDE]) -> Result<Front, Error> {
        let mut cursor = &prelude[..];
        let bytes: [u8; 16] = take(&mut cursor);
        let header_sum = u32::from_le_bytes(take(&mut cursor));
        let elements_sum = u32::from_le_bytes(take(&mut cursor));
        let mut cursor = &bytes[..];
        if take(&mut cursor) != MAGIC {
            return Err(Error::FrameMagic);
        }
        let version = u16::from_le_bytes(take(&mut cursor));
        if version != VERSION {
            return Err(Error::FrameVersion { expected: VERSION, got: version });
        }
        let flags = u16::from_le_bytes(take(&mut cursor));
        if flags & !CHECKSUM != 0 {
            return Err(Error::FrameFlags { got: flags });
        }
        let header = u32::from_le_bytes(take(&mut cursor)) as usize;
        if header > header::LIMIT {
            return Err(Error::FrameHeaderLength { limit: header::LIMIT, got: header });
        }
        Ok(Front { bytes, flags, header, header_sum, elements_sum })
    }

    /// Returns the offset of the elements.
    fn elements_start(&self) -> usize {
        elements_start(self.header)
    }

    /// Decodes the header from the bytes between the prelude and the elements.
    fn header(&self, rest: &[u8]) -> Result<Header, Error> {
        let (header, padding) = rest.split_at_checked(self.header).unwrap_or_default();
        let sum = header_crc(&self.bytes, self.elements_sum.to_le_bytes(), header);
        if sum != self.header_sum {
            return Err(Error::FrameChecksum { part: "header", expected: self.header_sum, got: sum });
        }
        if padding.iter().any(|&b| b != 0) {
            return Err(Error::FramePadding);
        }
        Header::decode(header)
    }

    /// Checks the elements against their checksum.
    fn check_elements(&self, elements: &[u8]) -> Result<(), Error> {
        let got = if self.flags & CHECKSUM == 0 { 0 } else { crc32fast::hash(elements) };
        let expected = self.elements_sum;
        match got == expected {
            true => Ok(()),
            false => Err(Error::FrameChecksum { part: "elements", expected, got }),
        }
    }
}

/// Returns the error for bytes that are shorter than the start of a frame.
fn too_short(bytes: &[u8]) -> Error {
    match MAGIC.starts_with(bytes.get(..MAGIC.len()).unwrap_or(bytes)) {
        true => Error::FrameEnd { expected: PRELUDE as u64, got: bytes.len() as u64 },
        false => Error::FrameMagic,
    }
}

/// Checks all parts of a frame, except that the elements are valid for their type.
fn split(frame: Bytes) -> Result<(Header, Bytes), Error> {
    let Some((prelude, rest)) = frame.split_first_chunk::<PRELUDE>() else { return Err(too_short(&frame)) };
    let front = Front::parse(prelude)?;
    let start = front.elements_start();
    let Some(rest) = rest.get(..start - PRELUDE) else {
        return Err(Error::FrameEnd { expected: start as u64, got: frame.len() as u64 });
    };
    let header = front.header(rest)?;
    let expected = header.length.saturating_add(start as u64);
    match (frame.len() as u64).cmp(&expected) {
        Ordering::Less => return Err(Error::FrameEnd { expected, got: frame.len() as u64 }),
        Ordering::Greater => return Err(Error::FrameLength { expected, got: frame.len() as u64 }),
        Ordering::Equal => {}
    }
    let elements = frame.slice(start..);
    front.check_elements(&elements)?;
    Ok((header, elements))
}

/// Removes the first `N` bytes from `cursor`, which must have at least `N` bytes.
fn take<const N: usize>(cursor: &mut &[u8]) -> [u8; N] {
    match cursor.split_first_chunk() {
        Some((first, rest)) => {
            *cursor = rest;
            *first
        }
        None => [0; N],
    }
}
