//! Decodes the samples of a row: converts bytes to numbers, and undoes the predictor.

use super::Fault;
use super::layout::{Format, Layout, Predictor};
use bb_ir::{f16, memory};

/// Returns the maximum value that [`unpack`] returns for a sample.
pub(super) fn most(layout: &Layout) -> u32 {
    match layout.format {
        Format::Unsigned => u32::MAX >> (32 - layout.bits.min(32)),
        Format::Signed | Format::Float => 255,
    }
}

/// Writes the samples of a row as unsigned integers.
///
/// Unsigned samples keep their values, except that only the upper 32 of 64 bits are kept. TIFF does not define which signed integer
/// or float is white, so both are clamped to the range of a byte, floats after multiplication by `scale`. If `scale` is 1, floats
/// are truncated, as in Pillow.
pub(super) fn unpack<'a>(
    bytes: &[u8],
    layout: &Layout,
    little: bool,
    scale: f64,
    to: impl Iterator<Item = &'a mut u32>,
) {
    let bits = layout.bits;
    let limited = |number: f64| {
        let number = number * scale;
        (if scale == 1.0 { number } else { number.round() }).clamp(0.0, 255.0) as u32
    };
    let finish = |number: u64| match layout.format {
        Format::Unsigned if bits > 32 => (number >> 32) as u32,
        Format::Unsigned => number as u32,
        Format::Signed => {
            let signed = ((number << (64 - bits)) as i64) >> (64 - bits);
            signed.clamp(0, 255) as u32
        }
        Format::Float => match bits {
            16 => limited(f64::from(f16::from_bits(number as u16))),
            32 => limited(f64::from(f32::from_bits(number as u32))),
            _ => limited(f64::from_bits(number)),
        },
    };
    if bits.is_multiple_of(8) {
        for (sample, to) in bytes.chunks_exact(bits / 8).zip(to) {
            *to = finish(joined(sample, little));
        }
    } else {
        // Samples of other widths are packed without gaps, highest bits first, whatever the byte order.
        let (mut held, mut count) = (0u64, 0);
        let mut bytes = bytes.iter();
        for to in to {
            while count < bits {
                held = (held << 8) | u64::from(bytes.next().copied().unwrap_or(0));
                count += 8;
            }
            count -= bits;
            *to = finish((held >> count) & (u64::MAX >> (64 - bits)));
        }
    }
}

fn joined(bytes: &[u8], little: bool) -> u64 {
    let add = |sum: u64, byte: &u8| (sum << 8) | u64::from(*byte);
    if little { bytes.iter().rev().fold(0, add) } else { bytes.iter().fold(0, add) }
}

/// Undoes the predictor in a row.
pub(super) fn undo(row: &mut [u8], layout: &Layout, little: bool) -> Result<(), Fault> {
    let (bits, stride) = (layout.bits, layout.chunk_samples());
    match layout.predictor {
        Predictor::None => {}
        Predictor::Differences if matches!(bits, 8 | 16 | 32 | 64) => {
            let size = bits / 8;
            let mut before = vec![0u64; stride];
            for pixel in row.chunks_exact_mut(size * stride) {
                for (sample, before) in pixel.chunks_exact_mut(size).zip(&mut before) {
                    let number = joined(sample, little).wrapping_add(*before);
                    *before = number;
                    let (low, high) = (number.to_le_bytes(), number.to_be_bytes());
                    let written = if little { low.get(..size) } else { high.get(8 - size..) };
                    written.into_iter().for_each(|written| sample.copy_from_slice(written));
                }
            }
        }
        Predictor::Floats if layout.format == Format::Float => {
            let mut before = vec![0u8; stride];
            for part in row.chunks_mut(stride) {
                for (byte, before) in part.iter_mut().zip(&mut before) {
                    *byte = byte.wrapping_add(*before);
                    *before = *byte;
                }
            }
            // The highest bytes of all samples come first, then the next bytes.
            let (size, planes) = (bits / 8, memory::copied("ImageDecoder", row)?);
            let count = row.len() / size;
            for (i, sample) in row.chunks_exact_mut(size).enumerate() {
                for (place, byte) in sample.iter_mut().enumerate() {
                    *byte = planes.get(place * count + i).copied().unwrap_or(0);
                }
            }
        }
        Predictor::Differences => {
            let problem = format!("with differences of samples of {bits} bits; expected 8, 16, 32 or 64");
            return Err(Fault::Unsupported(problem));
        }
        Predictor::Floats => {
            let problem = "with the predictor of floats for samples that are none".to_owned();
            return Err(Fault::Unsupported(problem));
        }
    }
    Ok(())
}
