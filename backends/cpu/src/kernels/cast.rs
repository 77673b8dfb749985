//! Vectorised casts between numbers. All other casts convert one number at a time, with
//! [`cast_into`](bb::ir::convert::cast_into); the loops here give the same results.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::cast_lossless,
    reason = "integers keep their low bits and floats the nearest number, which is what a cast is"
)]

use super::element_loop::{Run, map, slices};
use super::half::Half;
use crate::array::element_size;
use bb::DataType;

/// Returns a loop that reads elements of the first type and writes elements of the second type.
macro_rules! run {
    ($from:ty, $to:ty, $f:expr) => {
        Some(|out, x, n| {
            // SAFETY: `Run` has the contract of `slices`, for elements of these types.
            let (out, [x]) = unsafe { slices::<$from, $to, 1>(out, x, n) };
            map(out, x, $f)
        })
    };
}

/// Returns the loop from an integer type, or from booleans, which are bytes of 0 and 1.
macro_rules! whole {
    ($from:ty, $to:expr) => {
        match $to {
            DataType::I8 | DataType::U8 => run!($from, u8, |v| v as u8),
            DataType::I32 => run!($from, i32, |v| v as i32),
            DataType::I64 => run!($from, i64, |v| v as i64),
            DataType::F32 => run!($from, f32, |v| v as f32),
            DataType::F64 => run!($from, f64, |v| v as f64),
            DataType::Bool => run!($from, u8, |v| u8::from(v != 0)),
            _ => None,
        }
    };
}

/// Converts a float to an integer by truncation. Returns the minimum of the integer type for NaN and for numbers out of
/// range.
macro_rules! truncated {
    ($from:ty, $to:ty, $v:expr) => {{
        let (v, least) = ($v, <$to>::MIN as $from);
        // Selects the number before the conversion, because compilers vectorise a selection and an unconditional
        // conversion.
        let within = if v > least && v < -least { v } else { least };
        // SAFETY: the number is not NaN, and `$to` represents its integer part.
        unsafe { within.to_int_unchecked::<$to>() }
    }};
}

/// Returns the loop from a float type. Out-of-range values become `MIN`, as in the hardware conversion.
macro_rules! float {
    ($from:ty, $to:expr) => {
        match $to {
            DataType::I8 | DataType::U8 => run!($from, u8, |v| truncated!($from, i32, v) as u8),
            DataType::I32 => run!($from, i32, |v| truncated!($from, i32, v)),
            DataType::I64 => run!($from, i64, |v| truncated!($from, i64, v)),
            DataType::F32 => run!($from, f32, |v| v as f32),
            DataType::F64 => run!($from, f64, |v| v as f64),
            DataType::Bool => run!($from, u8, |v| u8::from(v != 0.0)),
            _ => None,
        }
    };
}

/// Returns a loop that converts through `f32`, block by block.
macro_rules! by_f32 {
    ($from:ident, $to:ident) => {
        Some(|out, [x], n| {
            let casts = [(DataType::$from, DataType::F32), (DataType::F32, DataType::$to)];
            // Both loops exist: the test of all pairs would find a missing loop.
            let [Some(first), Some(second)] = casts.map(|(from, to)| kernel(from, to)) else { return };
            let [read, written] = [DataType::$from, DataType::$to].map(element_size);
            let mut block = [0f32; BLOCK];
            for at in (0..n).step_by(BLOCK) {
                let n = BLOCK.min(n - at);
                // SAFETY: `Run` has this contract; these are some of its elements, and `block` has room for them.
                unsafe {
                    first(block.as_mut_ptr().cast(), [x.add(at * read)], n);
                    second(out.add(at * written), [block.as_ptr().cast()], n);
                }
            }
        })
    };
}

/// The number of elements of a block that is converted through `f32`.
const BLOCK: usize = 256;

/// Returns the loop from a type of 16-bit floats; `f32` represents all of them.
macro_rules! from_half {
    ($from:ident, $to:expr) => {
        match $to {
            DataType::F32 => Some(Half::of(DataType::$from)?.widen),
            DataType::I8 => by_f32!($from, I8),
            DataType::U8 => by_f32!($from, U8),
            DataType::I32 => by_f32!($from, I32),
            DataType::I64 => by_f32!($from, I64),
            DataType::F64 => by_f32!($from, F64),
            DataType::Bool => by_f32!($from, Bool),
            _ => None,
        }
    };
}

/// Returns the loop that casts from one type to another, if there is one.
///
/// Integers are converted to 16-bit floats through `f32` if no number is rounded twice: `f32` represents all bytes
/// exactly, and all integers whose `f16` is finite.
pub(crate) fn kernel(from: DataType, to: DataType) -> Option<Run<1>> {
    match (from, to) {
        (DataType::F16, to) => from_half!(F16, to),
        (DataType::BF16, to) => from_half!(BF16, to),
        (DataType::F32, half @ (DataType::F16 | DataType::BF16)) => Some(Half::of(half)?.narrow),
        (DataType::I8, DataType::F16) => by_f32!(I8, F16),
        (DataType::I8, DataType::BF16) => by_f32!(I8, BF16),
        (DataType::U8 | DataType::Bool, DataType::F16) => by_f32!(U8, F16),
        (DataType::U8 | DataType::Bool, DataType::BF16) => by_f32!(U8, BF16),
        (DataType::I32, DataType::F16) => by_f32!(I32, F16),
        (DataType::I64, DataType::F16) => by_f32!(I64, F16),
        (DataType::I8, to) => whole!(i8, to),
        (DataType::U8 | DataType::Bool, to) => whole!(u8, to),
        (DataType::I32, to) => whole!(i32, to),
        (DataType::I64, to) => whole!(i64, to),
        (DataType::F32, to) => float!(f32, to),
        (DataType::F64, to) => float!(f64, to),
        _ => None,
    }
}

#[cfg(test)]
#[expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::level::{at, levels};
    use bb::RoundMode;
    use bb::ir::convert::{Rounding, cast_into};

    /// Returns the bytes of numbers near the bounds of every type.
    fn bytes(dtype: DataType) -> Vec<u8> {
        let mut numbers = vec![f64::NAN, f64::INFINITY, -f64::INFINITY, -0.0, 1e-45, 1e300, -1e300, 65519.9];
        for bound in [0.0, 1.0, 8.0, 11.0, 15.0, 16.0, 24.0, 31.0, 32.0, 53.0, 63.0, 64.0].map(f64::exp2) {
            for sign in [1.0, -1.0] {
                numbers.extend([-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5].map(|by| sign * (bound + by)));
                numbers.extend([sign * bound.next_down(), sign * bound.next_up()]);
            }
        }
        let doubles: Vec<u8> = numbers.iter().flat_map(|v| v.to_ne_bytes()).collect();
        let size = crate::array::element_size(dtype);
        let mut out = vec![0; numbers.len() * size];
        cast_into(DataType::F64, &doubles, dtype, ROUNDING, &mut out).unwrap();
        out
    }

    const ROUNDING: Rounding = Rounding { saturate: true, mode: RoundMode::Up };

    #[test]
    fn loops_give_what_single_casts_give() {
        let types = [
            DataType::Bool,
            DataType::I8,
            DataType::U8,
            DataType::I32,
            DataType::I64,
            DataType::F16,
            DataType::BF16,
            DataType::F32,
            DataType::F64,
        ];
        let mut pairs = 0;
        for from in types {
            let x = bytes(from);
            for to in types {
                let Some(run) = kernel(from, to) else { continue };
                pairs += usize::from(from != to);
                let [read, written] = [from, to].map(crate::array::element_size);
                for n in [x.len() / read, 33, 7, 1, 0] {
                    let mut expected = vec![0; n * written];
                    cast_into(from, &x[..n * read], to, ROUNDING, &mut expected).unwrap();
                    for level in levels() {
                        // The bytes are copied to 64-bit words, so that elements of every type are aligned.
                        let operand: Vec<u64> = x
                            .chunks(8)
                            .map(|c| c.iter().rev().fold(0, |all, &b| all << 8 | u64::from(b)))
                            .collect();
                        let mut out = vec![0u64; (n * written).div_ceil(8)];
                        // SAFETY: both have room for `n` elements.
                        at(level, || unsafe { run(out.as_mut_ptr().cast(), [operand.as_ptr().cast()], n) });
                        let out: Vec<u8> = out.iter().flat_map(|word| word.to_le_bytes()).collect();
                        assert_eq!(out[..n * written], expected, "{from} to {to}, {n} elements, {level:?}");
                    }
                }
            }
        }
        // Pairs of the seven types other than 16-bit floats, from 16-bit floats to these types, from `f32` to 16-bit
        // floats, from integers to `f16`, and from bytes to `bf16`.
        assert_eq!(pairs, 7 * 6 + 2 * 7 + 2 + 5 + 3);
    }
}
