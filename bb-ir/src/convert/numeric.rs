//! Converts between number types through a carrier type: `f32`, `f64`, `i64`, `u64` or a complex number. The
//! carrier of a source type represents every value of this type exactly.
//!
//! With carriers, one loop per source type and one loop per pair of carrier and target type are enough,
//! instead of one loop per pair of types. The elements are converted in chunks that fit in the first-level
//! cache.

use super::Rounding;
use super::minifloat::{decode_table, encode_slice};
use super::odd::{bf16_from_f64, f32_to_odd, f64_to_odd};
use crate::pace::Pace;
use crate::{DataType, Error};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use num_complex::Complex;

/// The number of elements that are converted at a time.
const CHUNK: usize = 256;

/// Returns the size in bytes of an unpacked element, which is at least 1; 0 for strings.
pub const fn unpacked_size(dtype: DataType) -> usize {
    dtype.bits().div_ceil(8)
}

/// Casts the elements in `src` to the type `to` and writes them to `out`.
///
/// Both slices contain whole little-endian elements of any alignment, in the layout that the [module](super)
/// documents.
///
/// # Errors
///
/// [`Error::Unsupported`] for strings, which have functions of their own; [`Error::ByteLength`] if `src` does
/// not contain a whole number of elements, or `out` does not have the length of the result.
pub fn cast_into(
    from: DataType,
    src: &[u8],
    to: DataType,
    rounding: Rounding,
    out: &mut [u8],
) -> Result<(), Error> {
    for dtype in [from, to] {
        if dtype == DataType::String {
            return Err(Error::Unsupported { op: "cast_into", dtype });
        }
    }
    let n = src.len() / unpacked_size(from);
    for (dtype, got) in [(from, src.len()), (to, out.len())] {
        let expected = n.saturating_mul(unpacked_size(dtype));
        if got != expected {
            return Err(Error::ByteLength { dtype, shape: [n].as_slice().into(), expected, got });
        }
    }
    if from == to {
        out.copy_from_slice(src);
        return Ok(());
    }
    let job = ElementConversion { src, size: unpacked_size(from), to, rounding, out };
    match from {
        DataType::F32 => job.run(|b, c| load(b, c, f32::from_le_bytes)),
        DataType::F16 => job.run(load_f16),
        DataType::BF16 => job.run(|b, c| load(b, c, |x| bf16::from_le_bytes(x).to_f32())),
        DataType::F64 => job.run(|b, c| load(b, c, f64::from_le_bytes)),
        DataType::I8 | DataType::I4 | DataType::I2 => {
            job.run(|b, c| load(b, c, |x| i64::from(i8::from_le_bytes(x))))
        }
        DataType::U8 | DataType::U4 | DataType::U2 => job.run(|b, c| load(b, c, |[x]: [u8; 1]| i64::from(x))),
        DataType::Bool => job.run(|b, c| load(b, c, |[x]: [u8; 1]| i64::from(x != 0))),
        DataType::I16 => job.run(|b, c| load(b, c, |x| i64::from(i16::from_le_bytes(x)))),
        DataType::U16 => job.run(|b, c| load(b, c, |x| i64::from(u16::from_le_bytes(x)))),
        DataType::I32 => job.run(|b, c| load(b, c, |x| i64::from(i32::from_le_bytes(x)))),
        DataType::U32 => job.run(|b, c| load(b, c, |x| i64::from(u32::from_le_bytes(x)))),
        DataType::I64 => job.run(|b, c| load(b, c, i64::from_le_bytes)),
        DataType::U64 => job.run(|b, c| load(b, c, u64::from_le_bytes)),
        DataType::C64 => job.run(|b, c| {
            load(b, c, |x: [u8; 8]| {
                let x: Complex<f32> = bytemuck::cast(x);
                Complex::new(f64::from(x.re), f64::from(x.im))
            });
        }),
        DataType::C128 => job.run(|b, c| load(b, c, |x: [u8; 16]| bytemuck::cast::<_, Complex<f64>>(x))),
        DataType::F8E4M3FN
        | DataType::F8E4M3FNUZ
        | DataType::F8E5M2
        | DataType::F8E5M2FNUZ
        | DataType::F8E8M0
        | DataType::F6E2M3
        | DataType::F6E3M2
        | DataType::F4E2M1 => {
            if let Some(table) = decode_table(from) {
                #[expect(clippy::indexing_slicing, reason = "a table of 256 indexed by a byte")]
                job.run(|b, c| load(b, c, |[x]: [u8; 1]| table[usize::from(x)]));
            }
        }
        DataType::String => {}
    }
    Ok(())
}

struct ElementConversion<'a> {
    src: &'a [u8],
    size: usize,
    to: DataType,
    rounding: Rounding,
    out: &'a mut [u8],
}

impl ElementConversion<'_> {
    fn run<C: Carrier>(self, load: impl Fn(&[u8], &mut [C])) {
        let mut carrier = [C::default(); CHUNK];
        let out_size = unpacked_size(self.to);
        let mut pace = Pace::new();
        for (src, out) in self.src.chunks(CHUNK * self.size).zip(self.out.chunks_mut(CHUNK * out_size)) {
            if let Some(chunk) = carrier.get_mut(..src.len() / self.size) {
                load(src, chunk);
                C::store(chunk, self.to, self.rounding, out);
                pace.step(chunk.len());
            }
        }
    }
}

fn load<C, const N: usize>(src: &[u8], out: &mut [C], f: impl Fn([u8; N]) -> C) {
    for (&bytes, o) in src.as_chunks::<N>().0.iter().zip(out) {
        *o = f(bytes);
    }
}

fn load_f16(src: &[u8], out: &mut [f32]) {
    let mut halves = [f16::ZERO; CHUNK];
    if let Some(halves) = halves.get_mut(..out.len()) {
        load(src, halves, f16::from_le_bytes);
        // Whole slices are converted, because `half` then detects the conversion instructions at run time.
        halves.convert_to_f32_slice(out);
    }
}

fn put<C: Copy, const N: usize>(src: &[C], out: &mut [u8], f: impl Fn(C) -> [u8; N]) {
    for (&x, o) in src.iter().zip(out.as_chunks_mut::<N>().0) {
        *o = f(x);
    }
}

/// A type that represents every value of some source types, and converts to every target type.
trait Carrier: Copy + Default {
    fn store(chunk: &[Self], to: DataType, rounding: Rounding, out: &mut [u8]);
}

/// Returns the low bits of a two's-complement integer as one byte, sign-extended or zero-extended.
fn nibble(to: DataType, x: i32) -> u8 {
    match to {
        DataType::U4 => x as u8 & 0xF,
        DataType::U2 => x as u8 & 0x3,
        DataType::I4 => ((x << 28) >> 28) as u8,
        _ => ((x << 30) >> 30) as u8,
    }
}

macro_rules! float_carrier {
    ($float:ident, $to_f16:expr, $to_bf16:expr) => {
        impl Carrier for $float {
            fn store(chunk: &[$float], to: DataType, rounding: Rounding, out: &mut [u8]) {
                const I32_END: $float = (1u64 << 31) as $float;
                const I64_END: $float = (1u64 << 63) as $float;
                // Below the range, the saturating `as` already gives the minimum of the type.
                let int32 = |x: $float| if x < I32_END { x as i32 } else { i32::MIN };
                let int64 = |x: $float| if x < I64_END { x as i64 } else { i64::MIN };
                let uint64 = |x: $float| {
                    if x >= I64_END { int64(x - I64_END) as u64 ^ (1 << 63) } else { int64(x) as u64 }
                };
                match to {
                    DataType::F32 => put(chunk, out, |x| (x as f32).to_le_bytes()),
                    DataType::F64 => put(chunk, out, |x| f64::from(x).to_le_bytes()),
                    DataType::F16 => $to_f16(chunk, out),
                    DataType::BF16 => put(chunk, out, |x| $to_bf16(x).to_le_bytes()),
                    DataType::I8 | DataType::U8 => put(chunk, out, |x| [int32(x) as u8]),
                    DataType::I16 | DataType::U16 => put(chunk, out, |x| (int32(x) as u16).to_le_bytes()),
                    DataType::I32 => put(chunk, out, |x| int32(x).to_le_bytes()),
                    DataType::U32 => put(chunk, out, |x| (int64(x) as u32).to_le_bytes()),
                    DataType::I64 => put(chunk, out, |x| int64(x).to_le_bytes()),
                    DataType::U64 => put(chunk, out, |x| uint64(x).to_le_bytes()),
                    DataType::Bool => put(chunk, out, |x| [u8::from(x != 0.0)]),
                    DataType::U4 | DataType::I4 | DataType::U2 | DataType::I2 => {
                        put(chunk, out, |x| [nibble(to, int32(x))])
                    }
                    DataType::C64 => {
                        put(chunk, out, |x| bytemuck::cast::<_, [u8; 8]>(Complex::new(x as f32, 0.0)))
                    }
                    DataType::C128 => {
                        put(chunk, out, |x| bytemuck::cast::<_, [u8; 16]>(Complex::new(f64::from(x), 0.0)))
                    }
                    _ => {
                        encode_slice(to, chunk, rounding, out);
                    }
                }
            }
        }
    };
}

float_carrier!(f32, store_f16, bf16::from_f32);
float_carrier!(f64, store_f16_once, bf16_from_f64);

fn store_f16(chunk: &[f32], out: &mut [u8]) {
    let mut halves = [f16::ZERO; CHUNK];
    if let Some(halves) = halves.get_mut(..chunk.len()) {
        halves.convert_from_f32_slice(chunk);
        put(halves, out, f16::to_le_bytes);
    }
}

fn store_f16_once(chunk: &[f64], out: &mut [u8]) {
    let mut singles = [0f32; CHUNK];
    if let Some(singles) = singles.get_mut(..chunk.len()) {
        for (single, &x) in singles.iter_mut().zip(chunk) {
            *single = f32_to_odd(x);
        }
        store_f16(singles, out);
    }
}

macro_rules! integer_carrier {
    ($int:ident) => {
        impl Carrier for $int {
            fn store(chunk: &[$int], to: DataType, rounding: Rounding, out: &mut [u8]) {
                match to {
                    DataType::F32 => put(chunk, out, |x| (x as f32).to_le_bytes()),
                    DataType::F64 => put(chunk, out, |x| (x as f64).to_le_bytes()),
                    // `f32` represents exactly every integer that is finite as `f16`.
                    DataType::F16 => put(chunk, out, |x| f16::from_f32(x as f32).to_le_bytes()),
                    DataType::BF16 => put(chunk, out, |x| bf16_from_f64(f64_to_odd(x.into())).to_le_bytes()),
                    DataType::I8 | DataType::U8 => put(chunk, out, |x| [x as u8]),
                    DataType::I16 | DataType::U16 => put(chunk, out, |x| (x as u16).to_le_bytes()),
                    DataType::I32 | DataType::U32 => put(chunk, out, |x| (x as u32).to_le_bytes()),
                    DataType::I64 | DataType::U64 => put(chunk, out, |x| x.to_le_bytes()),
                    DataType::Bool => put(chunk, out, |x| [u8::from(x != 0)]),
                    DataType::U4 | DataType::I4 | DataType::U2 | DataType::I2 => {
                        put(chunk, out, |x| [nibble(to, x as i32)])
                    }
                    DataType::C64 => {
                        put(chunk, out, |x| bytemuck::cast::<_, [u8; 8]>(Complex::new(x as f32, 0.0)))
                    }
                    DataType::C128 => {
                        put(chunk, out, |x| bytemuck::cast::<_, [u8; 16]>(Complex::new(x as f64, 0.0)))
                    }
                    _ => {
                        let mut floats = [0f64; CHUNK];
                        for (f, &x) in floats.iter_mut().zip(chunk) {
                            *f = f64_to_odd(x.into());
                        }
                        encode_slice(to, &floats, rounding, out);
                    }
                }
            }
        }
    };
}

integer_carrier!(i64);
integer_carrier!(u64);

impl Carrier for Complex<f64> {
    fn store(chunk: &[Complex<f64>], to: DataType, rounding: Rounding, out: &mut [u8]) {
        match to {
            DataType::C64 => {
                put(chunk, out, |x| bytemuck::cast::<_, [u8; 8]>(Complex::new(x.re as f32, x.im as f32)))
            }
            DataType::C128 => put(chunk, out, bytemuck::cast::<_, [u8; 16]>),
            DataType::Bool => put(chunk, out, |x| [u8::from(x.re != 0.0 || x.im != 0.0)]),
            _ => {
                let mut reals = [0f64; CHUNK];
                for (r, x) in reals.iter_mut().zip(chunk) {
                    *r = x.re;
                }
                if let Some(reals) = reals.get(..chunk.len()) {
                    f64::store(reals, to, rounding, out);
                }
            }
        }
    }
}
