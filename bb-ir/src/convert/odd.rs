//! Conversions to 16-bit floats that round only once.
//!
//! A number that is first rounded to `f32` and then to `f16` or `bf16` is rounded twice, and the result may be wrong:
//! `1 + 2^-11 + 2^-40` becomes `1 + 2^-11` as `f32`. This is halfway between two values of `f16`, so it is rounded to the even one,
//! which is below the number, but the nearest value is above the number. The `from_f64` of the crate `half` has this problem too.
//!
//! Rounding to odd in the first step avoids this: a number that the wider type cannot represent becomes the adjacent value whose last
//! bit is 1. This value is never halfway between two values of a type that is at least two bits shorter, so the second rounding gives
//! the same result as rounding the number once.
//!
//! Source: S. Boldo, G. Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008.

use half::{bf16, f16};

/// Converts to the nearest `f16`, ties to even.
///
/// # Examples
///
/// ```
/// use bb_ir::convert::f16_from_f64;
/// // Above the middle of 1 and the next number.
/// assert_eq!(f16_from_f64(1.0 + 2f64.powi(-11) + 2f64.powi(-40)).to_f64(), 1.0 + 2f64.powi(-10));
/// ```
pub fn f16_from_f64(x: f64) -> f16 {
    f16::from_f32(f32_to_odd(x))
}

/// Converts to the nearest `bf16`, ties to even.
///
/// # Examples
///
/// ```
/// use bb_ir::convert::bf16_from_f64;
/// // Above the middle of 1 and the next number.
/// assert_eq!(bf16_from_f64(1.0 + 2f64.powi(-8) + 2f64.powi(-40)).to_f64(), 1.0 + 2f64.powi(-7));
/// ```
pub fn bf16_from_f64(x: f64) -> bf16 {
    bf16::from_f32(f32_to_odd(x))
}

/// Rounds `x` to odd. If `f32` can represent `x`, returns `x`; otherwise, returns the adjacent `f32` whose last bit is 1. So a second
/// rounding to a shorter float gives the same result as rounding `x`. A finite number stays finite.
#[inline]
pub(super) fn f32_to_odd(x: f64) -> f32 {
    let near = x as f32;
    let back = f64::from(near);
    if back == x || x.is_nan() {
        return near;
    }
    // As integers, the bits of floats of the same sign are in the order of their magnitudes, up to infinity.
    let below = near.to_bits() - u32::from(back.abs() > x.abs());
    f32::from_bits(below | 1)
}

/// Rounds an integer to odd, so that a second rounding to a float of at most 51 bits gives the same result as rounding `x`.
///
/// # Examples
///
/// ```
/// use bb_ir::convert::{bf16_from_f64, f64_to_odd};
/// // Above the middle of two numbers, by less than `f64` has digits for.
/// let x = (1 << 62) + (1 << 54) + 1;
/// assert_eq!(bf16_from_f64(f64_to_odd(x)).to_f64(), 2f64.powi(62) + 2f64.powi(55));
/// ```
#[inline]
pub fn f64_to_odd(x: i128) -> f64 {
    let near = match i64::try_from(x) {
        Ok(x) if x.unsigned_abs() < 1 << f64::MANTISSA_DIGITS => return x as f64,
        _ => x as f64,
    };
    let back = near as i128;
    if back == x {
        return near;
    }
    let below = near.to_bits() - u64::from(back.unsigned_abs() > x.unsigned_abs());
    f64::from_bits(below | 1)
}
