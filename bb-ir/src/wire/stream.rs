//! Frames that follow each other on a stream: a pipe, a socket or a file.
//!
//! A frame contains its own length, so frames need no separators. The length is untrusted: it is compared with a limit
//! before any allocation, and memory is allocated only as bytes arrive. So a false length allocates at most a few KiB.

use super::{Checksum, Front, PRELUDE, type_hash};
use crate::{ALIGNMENT, DataType, Error, Shape, TensorData, element_count, memory};
use bytes::Bytes;
use std::io::{ErrorKind, Read, Write};

/// The number of bytes that are allocated for elements before any element arrives. After that, each allocation at most
/// doubles the number of bytes that have arrived.
const FIRST: usize = 1 << 13;

/// A complete frame as it was received, and its type hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The type hash in the frame's header.
    pub type_hash: u64,
    /// The frame, from the magic number to the last element.
    pub bytes: Vec<u8>,
}

/// Writes a tensor as a frame, without copying its elements first.
///
/// For many small tensors, wrap `to` in a [`BufWriter`](std::io::BufWriter) and flush it at the end.
///
/// # Errors
///
/// [`Error::FrameIo`] if writing to `to` fails; [`Error::FrameHeader`] if the tensor has too many extents for
/// a header.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), bb_ir::Error> {
/// use bb_ir::{TensorData, wire};
/// let mut pipe = Vec::new();
/// for x in [1f32, 2.0] {
///     wire::write(&mut pipe, &TensorData::scalar(x), wire::Checksum::All)?;
/// }
/// let mut end = pipe.as_slice();
/// assert_eq!(wire::read(&mut end, 1 << 20)?, Some(TensorData::scalar(1f32)));
/// assert_eq!(wire::read(&mut end, 1 << 20)?, Some(TensorData::scalar(2f32)));
/// assert_eq!(wire::read(&mut end, 1 << 20)?, None);
/// # Ok(())
/// # }
/// ```
pub fn write(to: &mut impl Write, x: &TensorData, checksum: Checksum) -> Result<(), Error> {
    let elements = x.unaligned_bytes()?;
    let sum = match checksum {
        Checksum::Header => 0,
        Checksum::All => crc32fast::hash(elements),
    };
    let front = super::front_of(x, checksum, sum)?;
    let io = |source| Error::FrameIo { source };
    to.write_all(&front).map_err(io)?;
    to.write_all(elements).map_err(io)
}

/// Reads the next frame as a tensor; returns `None` if the stream has ended.
///
/// Units: `limit` counts the bytes of the whole frame.
///
/// # Errors
///
/// [`Error::FrameEnd`] if the stream ends within the frame; [`Error::FrameTooLong`] if the frame exceeds
/// `limit`, before anything is allocated for it; [`Error::FrameIo`] if reading fails; else as
/// [`decode`](super::decode). After an error, the position of the stream is somewhere within a frame.
pub fn read(from: &mut impl Read, limit: usize) -> Result<Option<TensorData>, Error> {
    let Some(begun) = Begun::read(from, limit)? else { return Ok(None) };
    // The buffer is allocated with `ALIGNMENT` more bytes, so that the elements can be aligned without a second copy.
    let mut buffer = Vec::new();
    let mut offset = 0;
    while let Some(piece) = begun.next_piece(buffer.len() - offset) {
        memory::reserve("reading a frame", &mut buffer, piece.saturating_add(ALIGNMENT))?;
        align(&mut buffer, &mut offset);
        begun.read_piece(from, &mut buffer, offset, piece)?;
    }
    let elements = Bytes::from(buffer).slice(offset..);
    begun.front.check_elements(&elements)?;
    TensorData::adopt(begun.dtype, &begun.shape, elements).map(Some)
}

/// Moves the bytes after `offset` within the buffer so that they are aligned again, because the buffer may have been
/// reallocated.
fn align(buffer: &mut Vec<u8>, offset: &mut usize) {
    let aligned = buffer.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
    match aligned.checked_sub(*offset) {
        Some(right) => {
            let held = *offset..buffer.len();
            // The room for this was reserved, so the buffer is not reallocated.
            buffer.resize(buffer.len() + right, 0);
            buffer.copy_within(held, aligned);
        }
        None => drop(buffer.drain(aligned..*offset)),
    }
    *offset = aligned;
}

/// Reads the next frame without decoding its elements, so that a backend can create a tensor from them; returns `None`
/// if the stream has ended.
///
/// Everything except the elements is checked.
///
/// # Errors
///
/// As [`read`], except for errors about the elements.
pub fn read_frame(from: &mut impl Read, limit: usize) -> Result<Option<Frame>, Error> {
    let Some(begun) = Begun::read(from, limit)? else { return Ok(None) };
    let start = begun.start.len();
    let mut bytes = memory::copied("reading a frame", &begun.start)?;
    while let Some(piece) = begun.next_piece(bytes.len() - start) {
        memory::reserve("reading a frame", &mut bytes, piece)?;
        begun.read_piece(from, &mut bytes, start, piece)?;
    }
    Ok(Some(Frame { type_hash: type_hash(begun.dtype), bytes }))
}

/// A frame whose elements have not been read yet. Everything before the elements is checked.
struct Begun {
    front: Front,
    /// Everything before the elements.
    start: Vec<u8>,
    dtype: DataType,
    shape: Shape,
    /// The number of bytes of the elements.
    length: usize,
}

impl Begun {
    fn read(from: &mut impl Read, limit: usize) -> Result<Option<Begun>, Error> {
        let mut prelude = [0; PRELUDE];
        match fill(from, &mut prelude)? {
            0 => return Ok(None),
            PRELUDE => {}
            // If the bytes do not begin like a frame, the error says so, even if they are too few for a frame.
            got => return Err(super::too_short(prelude.get(..got).unwrap_or_default())),
        }
        let front = Front::parse(&prelude)?;
        let mut start = vec![0; front.elements_start()];
        let (head, rest) = start.split_at_mut(PRELUDE);
        head.copy_from_slice(&prelude);
        let got = fill(from, rest)?;
        if got < rest.len() {
            return Err(Error::FrameEnd { expected: start.len() as u64, got: (PRELUDE + got) as u64 });
        }
        let header = front.header(rest)?;
        let (dtype, shape) = (header.dtype()?, header.shape()?);
        let length = header.length;
        let total = length.saturating_add(start.len() as u64);
        if total > limit as u64 {
            return Err(Error::FrameTooLong { name: super::type_name(dtype), limit, got: total });
        }
        // `length` is at most `limit`, so it fits `usize`.
        let length = length as usize;
        let refused = || shape.as_slice().into();
        let elements = element_count(&shape).ok_or_else(|| Error::TooLarge {
            dtype,
            shape: refused(),
            limit,
            name: None,
        })?;
        if dtype != DataType::String && dtype.bytes_for(elements) != Some(length) {
            let expected = dtype.bytes_for(elements).unwrap_or(usize::MAX);
            return Err(Error::ByteLength { dtype, shape: refused(), expected, got: length });
        }
        Ok(Some(Begun { front, start, dtype, shape, length }))
    }

    /// Returns the number of bytes to read next, after `got` bytes of the elements have arrived; `None` if all have
    /// arrived.
    fn next_piece(&self, got: usize) -> Option<usize> {
        let left = self.length.checked_sub(got).filter(|&left| left > 0)?;
        Some(left.min(got.max(FIRST)))
    }

    /// Reads the next `piece` bytes of the elements and appends them to `to`, where the elements start at `offset`.
    fn read_piece(
        &self,
        from: &mut impl Read,
        to: &mut Vec<u8>,
        offset: usize,
        piece: usize,
    ) -> Result<(), Error> {
        let read = from.by_ref().take(piece as u64).read_to_end(to);
        if read.map_err(|source| Error::FrameIo { source })? == piece {
            return Ok(());
        }
        let start = self.start.len();
        let (expected, got) = (start + self.length, start + to.len() - offset);
        Err(Error::FrameEnd { expected: expected as u64, got: got as u64 })
    }
}

/// Reads until the buffer is full or the stream ends, and returns the number of bytes read.
fn fill(from: &mut impl Read, mut buffer: &mut [u8]) -> Result<usize, Error> {
    let mut got = 0;
    while !buffer.is_empty() {
        match from.read(buffer) {
            Ok(0) => break,
            Ok(read) => {
                got += read;
                buffer = buffer.get_mut(read..).unwrap_or_default();
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(source) => return Err(Error::FrameIo { source }),
        }
    }
    Ok(got)
}
