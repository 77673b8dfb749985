//! Frames that follow each other on a stream: a pipe, a socket or a file.
//!
//! A frame contains its own length, so frames need no separators. The length that a peer claims is compared
//! with a limit before anything is allocated for it.

use super::{Checksum, Front, PRELUDE, type_hash};
use crate::{ALIGNMENT, DataType, Error, Shape, TensorData, element_count, memory};
use bytes::Bytes;
use std::io::{ErrorKind, Read, Write};

/// A whole frame as it was received, and the type hash that it declares.
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
    let elements = match checksum {
        Checksum::Header => 0,
        Checksum::All => crc32fast::hash(x.unaligned_bytes()),
    };
    let front = super::front_of(x, checksum, elements)?;
    let io = |source| Error::FrameIo { source };
    to.write_all(&front).map_err(io)?;
    to.write_all(x.unaligned_bytes()).map_err(io)
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
    // Over-allocating by the alignment lets the elements be aligned without a second copy.
    let mut buffer = memory::room::<u8>("reading a frame", begun.length.saturating_add(ALIGNMENT))?;
    let offset = buffer.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
    buffer.resize(offset, 0);
    begun.rest(from, &mut buffer)?;
    let elements = Bytes::from(buffer).slice(offset..);
    begun.front.check_elements(&elements)?;
    TensorData::adopt(begun.dtype, &begun.shape, elements).map(Some)
}

/// Reads the next frame without decoding it, so that a backend can make a tensor from it; returns `None` if
/// the stream has ended.
///
/// Everything but the elements is checked.
///
/// # Errors
///
/// As [`read`], except for errors about the elements.
pub fn read_frame(from: &mut impl Read, limit: usize) -> Result<Option<Frame>, Error> {
    let Some(begun) = Begun::read(from, limit)? else { return Ok(None) };
    let mut bytes = memory::room("reading a frame", begun.start.len().saturating_add(begun.length))?;
    bytes.extend_from_slice(&begun.start);
    begun.rest(from, &mut bytes)?;
    Ok(Some(Frame { type_hash: type_hash(begun.dtype), bytes }))
}

/// A frame whose elements have not been read yet; everything before them is checked.
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
            // Bytes that are not the start of a frame get the error for that, even if they are few.
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

    /// Reads the elements and appends them to `to`.
    fn rest(&self, from: &mut impl Read, to: &mut Vec<u8>) -> Result<(), Error> {
        let before = to.len();
        from.by_ref().take(self.length as u64).read_to_end(to).map_err(|source| Error::FrameIo { source })?;
        let got = to.len() - before;
        if got < self.length {
            let start = self.start.len();
            return Err(Error::FrameEnd {
                expected: (start + self.length) as u64,
                got: (start + got) as u64,
            });
        }
        Ok(())
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
