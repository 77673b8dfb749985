//! Compresses answers and decompresses requests, within the limits of uncompressed ones.

use crate::cancel;
use crate::refusal::Refusal;
use bytes::Bytes;
use flate2::Compression;
use flate2::bufread::{DeflateDecoder, GzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};
use std::io::{self, BufRead, Read, Write};

/// The size in bytes below which answers are not compressed, because the compressed frame is nearly as large.
pub(crate) const SMALL: usize = 256;

/// The number of bytes that are decompressed between two checks.
const STEP: usize = 16 << 10;

/// The maximum number of members of a gzip body. A member of 20 bytes may be empty, and costs some microseconds. Programs that write
/// several members begin one every 64 KiB.
const MEMBERS: usize = 8192;

/// The number of bytes that are compressed between two checks.
const PART: usize = 256 << 10;

/// The compression format of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    Gzip,
    /// HTTP's coding `deflate`, which is the zlib format.
    Deflate,
}

impl Coding {
    /// Parses the name of a coding, in any case. Returns `None` if the server does not support it.
    pub(crate) fn named(name: &str) -> Option<Coding> {
        let is = |known: &str| name.trim().eq_ignore_ascii_case(known);
        if is("gzip") || is("x-gzip") {
            return Some(Coding::Gzip);
        }
        is("deflate").then_some(Coding::Deflate)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Coding::Gzip => "gzip",
            Coding::Deflate => "deflate",
        }
    }

    /// Chooses the coding of an answer from the client's `Accept-Encoding`.
    pub(crate) fn accepted(list: &str) -> Option<Coding> {
        let accepts = |item: &str| {
            let mut parts = item.split(';');
            let coding = Coding::named(parts.next()?)?;
            let quality = parts.find_map(|part| part.trim().strip_prefix("q=")?.trim().parse::<f32>().ok());
            (quality.unwrap_or(1.0) > 0.0).then_some(coding)
        };
        let accepted = list.split(',').filter_map(accepts);
        accepted.min_by_key(|coding| *coding != Coding::Gzip)
    }
}

/// A growing vector that calls `grow` to reserve bytes against the limits before it allocates them.
struct BoundedBuffer<F> {
    bytes: Vec<u8>,
    room: usize,
    limit: usize,
    grow: F,
    refused: Option<Refusal>,
}

impl<F: Fn(usize) -> Result<(), Refusal>> BoundedBuffer<F> {
    fn new(limit: usize, grow: F) -> BoundedBuffer<F> {
        BoundedBuffer { bytes: Vec::new(), room: 0, limit, grow, refused: None }
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let needed = self.bytes.len().saturating_add(bytes.len());
        if needed > self.limit {
            return Err(Refusal::TooLarge { limit: self.limit });
        }
        if needed > self.room {
            let more = needed.max(2 * self.room).min(self.limit.max(needed)) - self.room;
            (self.grow)(more)?;
            self.room += more;
            self.bytes.reserve_exact(self.room - self.bytes.len());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}

impl<F: Fn(usize) -> Result<(), Refusal>> Write for BoundedBuffer<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match cancel::check().and_then(|()| self.push(bytes)) {
            Ok(()) => Ok(bytes.len()),
            Err(refused) => {
                self.refused = Some(refused);
                Err(io::ErrorKind::OutOfMemory.into())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Decompresses at most `limit` bytes. `grow` counts bytes as used before they are allocated.
///
/// # Errors
///
/// [`Refusal::Packed`] if the bytes are not in the format or have more than [`MEMBERS`] members; [`Refusal::TooLarge`]; the errors of
/// `grow` and [`cancel::check`].
pub(crate) fn unpack(
    coding: Coding,
    packed: &[u8],
    limit: usize,
    grow: impl Fn(usize) -> Result<(), Refusal>,
) -> Result<Bytes, Refusal> {
    let mut to = BoundedBuffer::new(limit, grow);
    let mut input = PackedReader(packed);
    match coding {
        Coding::Gzip => {
            for _ in 0..MEMBERS {
                let mut member = GzDecoder::new(input);
                copy(coding, &mut member, &mut to)?;
                input = member.into_inner();
                if input.0.is_empty() {
                    return Ok(to.bytes.into());
                }
            }
            let source = io::Error::other(format!("more than {MEMBERS} members"));
            return Err(Refusal::Packed { coding: coding.name(), source });
        }
        Coding::Deflate if is_zlib(packed) => copy(coding, &mut ZlibDecoder::new(input), &mut to)?,
        // Some clients send raw deflate data, without the zlib wrapper.
        Coding::Deflate => copy(coding, &mut DeflateDecoder::new(input), &mut to)?,
    }
    Ok(to.bytes.into())
}

fn copy<F: Fn(usize) -> Result<(), Refusal>>(
    coding: Coding,
    from: &mut impl Read,
    to: &mut BoundedBuffer<F>,
) -> Result<(), Refusal> {
    let mut step = [0; STEP];
    loop {
        let read = from.read(&mut step).map_err(|source| {
            // `PackedReader` fails with a substitute error when the request is over, so the real reason is looked up first.
            cancel::check().err().unwrap_or(Refusal::Packed { coding: coding.name(), source })
        })?;
        match step.get(..read) {
            None | Some([]) => return Ok(()),
            Some(bytes) => to.push(bytes)?,
        }
    }
}

/// A reader of compressed bytes that checks at each step whether the request is over, because a step may decompress to nothing.
struct PackedReader<'a>(&'a [u8]);

impl BufRead for PackedReader<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        cancel::check().map_err(|_| io::ErrorKind::TimedOut)?;
        Ok(self.0.get(..STEP).unwrap_or(self.0))
    }

    fn consume(&mut self, bytes: usize) {
        self.0 = self.0.get(bytes..).unwrap_or_default();
    }
}

impl Read for PackedReader<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let bytes = self.fill_buf()?.read(to)?;
        self.consume(bytes);
        Ok(bytes)
    }
}

/// Returns whether bytes begin with a zlib header (RFC 1950, section 2.2).
fn is_zlib(packed: &[u8]) -> bool {
    let [method, flags, ..] = packed else { return false };
    method & 15 == 8 && u16::from_be_bytes([*method, *flags]) % 31 == 0
}

/// Compresses several parts into one buffer. `grow` counts bytes as used before they are allocated.
pub(crate) fn pack<'a>(
    coding: Coding,
    parts: impl Iterator<Item = &'a [u8]>,
    grow: impl Fn(usize) -> Result<(), Refusal>,
) -> Result<Bytes, Refusal> {
    // Higher levels take several times as long, and hardly make elements of tensors smaller.
    let level = Compression::fast();
    let to = BoundedBuffer::new(usize::MAX, grow);
    let written = match coding {
        Coding::Gzip => written(GzEncoder::new(to, level), parts, GzEncoder::try_finish, |to| to.get_mut()),
        Coding::Deflate => {
            written(ZlibEncoder::new(to, level), parts, ZlibEncoder::try_finish, |to| to.get_mut())
        }
    };
    written.map(Into::into)
}

fn written<'a, W: Write, F: Fn(usize) -> Result<(), Refusal>>(
    mut to: W,
    mut parts: impl Iterator<Item = &'a [u8]>,
    finish: impl FnOnce(&mut W) -> io::Result<()>,
    inner: impl FnOnce(&mut W) -> &mut BoundedBuffer<F>,
) -> Result<Vec<u8>, Refusal> {
    // Splits parts into steps. A large part that compresses well produces output rarely, so the deadline would be checked late.
    let mut write = |part: &[u8]| -> io::Result<()> {
        part.chunks(PART).try_for_each(|step| {
            cancel::check().map_err(|_| io::ErrorKind::TimedOut)?;
            to.write_all(step)
        })
    };
    let result = parts.try_for_each(&mut write).and_then(|()| finish(&mut to));
    let held = inner(&mut to);
    match (result, held.refused.take()) {
        (_, Some(refused)) => Err(refused),
        (Err(_), None) => {
            cancel::check()?;
            Err(Refusal::Internal { what: "an answer could not be compressed" })
        }
        (Ok(()), None) => Ok(std::mem::take(&mut held.bytes)),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn what_was_packed_is_unpacked_within_its_bound() {
        let text = b"tensor".repeat(10_000);
        for coding in [Coding::Gzip, Coding::Deflate] {
            let packed = pack(coding, text.chunks(7), |_| Ok(())).unwrap();
            assert!(packed.len() < text.len() / 20);
            assert_eq!(unpack(coding, &packed, text.len(), |_| Ok(())).unwrap(), text);
            let refused = unpack(coding, &packed, text.len() - 1, |_| Ok(())).unwrap_err();
            assert!(matches!(refused, Refusal::TooLarge { limit: 59_999 }), "{refused}");
            let full = |_| Err(Refusal::NoRoom { held: 1, limit: 1 });
            assert!(matches!(unpack(coding, &packed, 1 << 20, full), Err(Refusal::NoRoom { .. })));
            assert!(matches!(pack(coding, text.chunks(7), full), Err(Refusal::NoRoom { .. })));
        }
        assert!(matches!(unpack(Coding::Gzip, b"no gzip", 100, |_| Ok(())), Err(Refusal::Packed { .. })));
    }

    #[test]
    fn empty_members_are_bounded_and_a_deadline_ends_unpacking() {
        let empty = pack(Coding::Gzip, std::iter::empty(), |_| Ok(())).unwrap();
        assert_eq!(unpack(Coding::Gzip, &empty.repeat(MEMBERS), 1, |_| Ok(())).unwrap(), b"".as_slice());
        let refused = unpack(Coding::Gzip, &empty.repeat(MEMBERS + 1), 1, |_| Ok(())).unwrap_err();
        assert!(matches!(refused, Refusal::Packed { .. }), "{refused}");
        let packed = pack(Coding::Gzip, [vec![0u8; 1 << 20].as_slice()].into_iter(), |_| Ok(())).unwrap();
        let late = bb::RunOptions::default().with_deadline(std::time::Instant::now());
        late.within(|| {
            let refused = unpack(Coding::Gzip, &packed, 1 << 30, |_| Ok(())).unwrap_err();
            assert!(matches!(refused, Refusal::Deadline), "{refused}");
            let refused =
                pack(Coding::Gzip, [vec![0u8; 1 << 20].as_slice()].into_iter(), |_| Ok(())).unwrap_err();
            assert!(matches!(refused, Refusal::Deadline), "{refused}");
        });
    }

    #[test]
    fn accepted_codings_are_chosen_by_name_and_quality() {
        for (list, expected) in [
            ("gzip", Some(Coding::Gzip)),
            ("deflate, GZIP;q=0.5", Some(Coding::Gzip)),
            ("gzip;q=0, deflate", Some(Coding::Deflate)),
            ("br, zstd, identity", None),
            ("", None),
        ] {
            assert_eq!(Coding::accepted(list), expected, "{list}");
        }
    }
}
