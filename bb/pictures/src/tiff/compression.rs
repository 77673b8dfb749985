//! Decompresses the strips and tiles of a TIFF.

use super::ccitt::{self, Scheme};
use super::directory::Directory;
use super::layout::Layout;
use super::{Fault, MOST_ASIDE};
use crate::formats::{MOST_SCANNED, scans};
use bb_ir::picture::{Allowance, PictureError};
use image_webp::WebPDecoder;
use ruzstd::decoding::StreamingDecoder;
use std::io::{Cursor, Read};
use weezl::{BitOrder, LzwStatus};
use zune_jpeg::JpegDecoder;
use zune_jpeg::errors::DecodeErrors;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::options::DecoderOptions;

/// The value of the tag `Compression` for JPEG.
pub(super) const JPEG: u64 = 7;

const T4_OPTIONS: u16 = 292;
const JPEG_TABLES: u16 = 347;

/// The number of decompressed bytes between two checks whether decoding must end.
const STEP: usize = 1 << 16;

/// The compression of strips and tiles.
#[derive(Debug, Clone, Copy)]
pub(super) enum Compression<'a> {
    None,
    PackBits,
    Lzw,
    Deflate,
    Zstandard,
    WebP,
    Ccitt(Scheme),
    /// JPEG, with the tables that all strips and tiles share.
    Jpeg(&'a [u8]),
}

/// The destination of the decompressed bytes of a strip or tile.
pub(super) struct Target<'t> {
    pub(super) to: &'t mut [u8],
    pub(super) row_bytes: usize,
    pub(super) layout: &'t Layout,
    pub(super) allowance: &'t dyn Allowance,
}

impl<'a> Compression<'a> {
    pub(super) fn read(directory: &Directory<'a>, layout: &Layout) -> Result<Compression<'a>, Fault> {
        let compression = match layout.compression {
            1 => Compression::None,
            2 => Compression::Ccitt(Scheme::Rows { align: 8 }),
            3 => {
                let options = directory.number(T4_OPTIONS)?.unwrap_or(0);
                Compression::Ccitt(Scheme::Group3 { two_dimensional: options & 1 == 1 })
            }
            4 => Compression::Ccitt(Scheme::Group4),
            5 => Compression::Lzw,
            JPEG => Compression::Jpeg(directory.values(JPEG_TABLES)?.map_or(&[], |tables| tables.bytes())),
            8 | 32946 => Compression::Deflate,
            32771 => Compression::Ccitt(Scheme::Rows { align: 16 }),
            32773 => Compression::PackBits,
            50000 => Compression::Zstandard,
            50001 => Compression::WebP,
            other => {
                let name = match other {
                    6 => " (old JPEG)",
                    9 | 10 | 34661 => " (JBIG)",
                    32766 => " (NeXT)",
                    32809 => " (ThunderScan)",
                    32908 | 32909 => " (Pixar)",
                    34676 | 34677 => " (LogLuv)",
                    33003 | 33005 | 34712 => " (JPEG 2000)",
                    34887 => " (LERC)",
                    34925 => " (LZMA)",
                    50002 | 52546 => " (JPEG XL)",
                    _ => "",
                };
                let known = "none, CCITT, LZW, JPEG, deflate, PackBits, Zstandard or WebP";
                return Err(Fault::Unsupported(format!("with compression {other}{name}; expected {known}")));
            }
        };
        let (what, bits) = match compression {
            Compression::Ccitt(_) => ("CCITT", 1),
            Compression::Jpeg(_) => ("JPEG", 8),
            Compression::WebP => ("WebP", 8),
            _ => return Ok(compression),
        };
        if layout.bits != bits {
            let problem = format!("with samples of {} bits in {what}; expected {bits}", layout.bits);
            return Err(Fault::Unsupported(problem));
        }
        let samples = layout.chunk_samples();
        let (fits, expected) = match compression {
            Compression::Ccitt(_) => (samples == 1, "1"),
            Compression::WebP => (matches!(samples, 3 | 4), "3 or 4"),
            _ => (matches!(samples, 1 | 3 | 4), "1, 3 or 4"),
        };
        if !fits {
            let problem = format!("with {samples} samples of a pixel in {what}; expected {expected}");
            return Err(Fault::Unsupported(problem));
        }
        Ok(compression)
    }

    /// Returns whether the samples are not compressed.
    pub(super) fn is_none(&self) -> bool {
        matches!(self, Compression::None)
    }

    /// Returns the number of bytes that are read for each strip or tile in addition to its own bytes.
    pub(super) fn shared_bytes(&self) -> usize {
        if let Compression::Jpeg(tables) = self { tables.len() } else { 0 }
    }

    /// Returns whether this compression supports a predictor. Otherwise, the tag has no effect, as in libtiff.
    pub(super) fn has_predictor(&self) -> bool {
        matches!(self, Compression::Lzw | Compression::Deflate | Compression::Zstandard)
    }

    /// Fills the target with the decompressed bytes of a strip or tile.
    pub(super) fn unpack(&self, packed: &[u8], target: Target<'_>) -> Result<(), Fault> {
        target.allowance.check().map_err(PictureError::Ended)?;
        let turned;
        let reversed = target.layout.reversed && !matches!(self, Compression::Jpeg(_) | Compression::WebP);
        let packed = if reversed {
            turned = bb_ir::memory::collected("ImageDecoder", packed.iter().map(|byte| byte.reverse_bits()))?;
            &turned
        } else {
            packed
        };
        match self {
            Compression::None => {
                let bytes = packed.get(..target.to.len()).ok_or(Fault::Damaged)?;
                target.to.copy_from_slice(bytes);
                Ok(())
            }
            Compression::PackBits => pack_bits(packed, target),
            Compression::Lzw => lzw(packed, target),
            Compression::Deflate => streamed(flate2::read::ZlibDecoder::new(packed), target),
            Compression::Zstandard => {
                let decoder = StreamingDecoder::new_with_max_window_size(packed, MOST_ASIDE as u64);
                streamed(decoder.map_err(|_| Fault::Damaged)?, target)
            }
            Compression::WebP => webp(packed, target),
            Compression::Ccitt(scheme) => {
                let Target { to, row_bytes, layout, allowance } = target;
                ccitt::unpack(*scheme, packed, to.chunks_mut(row_bytes), layout.chunk[1], allowance)
            }
            Compression::Jpeg(tables) => jpeg(tables, packed, target),
        }
    }
}

/// Reads decompressed bytes, and checks after each step whether decoding must end.
fn streamed(mut from: impl Read, Target { to, allowance, .. }: Target<'_>) -> Result<(), Fault> {
    for part in to.chunks_mut(STEP) {
        from.read_exact(part).map_err(|_| Fault::Damaged)?;
        allowance.check().map_err(PictureError::Ended)?;
    }
    Ok(())
}

fn pack_bits(packed: &[u8], Target { mut to, allowance, .. }: Target<'_>) -> Result<(), Fault> {
    let (mut rest, mut made) = (packed, 0);
    while !to.is_empty() {
        let (head, tail) = rest.split_first().ok_or(Fault::Damaged)?;
        let (taken, count) = match *head {
            count @ ..128 => (usize::from(count) + 1, usize::from(count) + 1),
            128 => (0, 0),
            count => (1, 257 - usize::from(count)),
        };
        let (bytes, tail) = tail.split_at_checked(taken).ok_or(Fault::Damaged)?;
        // The last run may exceed the target.
        let (part, behind) = to.split_at_mut(count.min(to.len()));
        match bytes {
            [byte] => part.fill(*byte),
            bytes => part.copy_from_slice(bytes.get(..part.len()).unwrap_or_default()),
        }
        made += part.len();
        (rest, to) = (tail, behind);
        if made > STEP {
            made = 0;
            allowance.check().map_err(PictureError::Ended)?;
        }
    }
    Ok(())
}

fn lzw(packed: &[u8], Target { to, allowance, .. }: Target<'_>) -> Result<(), Fault> {
    if let [0, second, ..] = packed
        && second & 1 == 1
    {
        return Err(Fault::Unsupported("with LZW as old programs write it".to_owned()));
    }
    let mut decoder = weezl::decode::Configuration::with_tiff_size_switch(BitOrder::Msb, 8)
        .with_yield_on_full_buffer(true)
        .build();
    let mut rest = packed;
    for part in to.chunks_mut(STEP) {
        let mut filled = 0;
        while let Some(free @ [_, ..]) = part.get_mut(filled..) {
            let result = decoder.decode_bytes(rest, free);
            filled += result.consumed_out;
            rest = rest.get(result.consumed_in..).unwrap_or_default();
            let ended = match result.status {
                Ok(LzwStatus::Ok) => false,
                Ok(LzwStatus::NoProgress | LzwStatus::Done) => filled < part.len(),
                Err(_) => true,
            };
            if ended {
                return Err(Fault::Damaged);
            }
        }
        allowance.check().map_err(PictureError::Ended)?;
    }
    Ok(())
}

/// Copies decoded pixels between buffers whose rows have different lengths.
fn copy_rows(from: &[u8], from_bytes: usize, to: &mut [u8], to_bytes: usize) {
    for (from, to) in from.chunks(from_bytes).zip(to.chunks_mut(to_bytes)) {
        to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    }
}

/// Checks the size of an embedded image against the size of the strip or tile.
fn fits(width: usize, height: usize, target: &Target<'_>) -> Result<(), Fault> {
    let (columns, rows) = (target.layout.chunk[1], target.to.len() / target.row_bytes);
    // The last image may be as high as the other ones, although fewer rows are needed. An image in a tile may end at the
    // right edge.
    let most = target.layout.chunk[0];
    let right = width >= columns.min(target.layout.width) && width <= columns;
    if right && (rows..=most).contains(&height) { Ok(()) } else { Err(Fault::Damaged) }
}

fn webp(packed: &[u8], target: Target<'_>) -> Result<(), Fault> {
    let damaged = |_| Fault::Damaged;
    let mut decoder = WebPDecoder::new(Cursor::new(packed)).map_err(damaged)?;
    let (width, height) = decoder.dimensions();
    fits(width as usize, height as usize, &target)?;
    if !crate::claims::frames_are_within(packed, [width, height]) {
        return Err(Fault::Damaged);
    }
    let samples = target.layout.chunk_samples();
    let own = if decoder.has_alpha() { 4 } else { 3 };
    let room = decoder.output_buffer_size().ok_or(Fault::Damaged)?;
    let mut pixels = bb_ir::memory::filled("ImageDecoder", 0, room)?;
    decoder.set_memory_limit(room.saturating_add(MOST_ASIDE));
    decoder.read_image(&mut pixels).map_err(damaged)?;
    if own == samples {
        copy_rows(&pixels, own * width as usize, target.to, target.row_bytes);
        return Ok(());
    }
    for (from, to) in pixels.chunks(own * width as usize).zip(target.to.chunks_mut(target.row_bytes)) {
        for (from, to) in from.chunks_exact(own).zip(to.chunks_exact_mut(samples)) {
            to.fill(255);
            to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        }
    }
    Ok(())
}

fn jpeg(tables: &[u8], packed: &[u8], target: Target<'_>) -> Result<(), Fault> {
    // The tables are a JPEG without an image. Insert the image's content before the end marker of the tables.
    let merged;
    let whole = match (tables.split_last_chunk::<2>(), packed.split_first_chunk::<2>()) {
        (Some((tables, [0xff, 0xd9])), Some(([0xff, 0xd8], picture))) => {
            merged = [tables, picture].concat();
            &merged[..]
        }
        _ => packed,
    };
    let failed = |error: DecodeErrors| match error {
        DecodeErrors::Unsupported(scheme) => {
            Fault::Unsupported(format!("with JPEG of a kind that is not decoded: {scheme:?}"))
        }
        _ => Fault::Damaged,
    };
    let layout = target.layout;
    let options = DecoderOptions::default().set_max_width(layout.chunk[1]).set_max_height(layout.chunk[0]);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(whole), options);
    decoder.decode_headers().map_err(failed)?;
    let info = decoder.info().ok_or(Fault::Damaged)?;
    let (width, height) = (usize::from(info.width), usize::from(info.height));
    fits(width, height, &target)?;
    let samples = layout.chunk_samples();
    if usize::from(info.components) != samples {
        return Err(Fault::Damaged);
    }
    let scanned = ((width * height * samples) as u64).saturating_mul(scans(whole));
    if scanned > MOST_SCANNED {
        let problem =
            format!("is a JPEG of {scanned} samples in all its scans, of which {MOST_SCANNED} are allowed");
        return Err(PictureError::Refused { problem }.into());
    }
    // Keep the samples unconverted, because the TIFF defines how to convert them.
    let colours = decoder.input_colorspace().ok_or(Fault::Damaged)?;
    decoder.set_options(options.jpeg_set_out_colorspace(colours));
    let room = decoder.output_buffer_size().filter(|room| *room == width * height * samples);
    let mut pixels = bb_ir::memory::filled("ImageDecoder", 0, room.ok_or(Fault::Damaged)?)?;
    decoder.decode_into(&mut pixels).map_err(failed)?;
    copy_rows(&pixels, samples * width, target.to, target.row_bytes);
    Ok(())
}
