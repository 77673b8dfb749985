//! The arithmetic of elements, as the op table defines it. All kernels use this trait.

use bb::ir::convert::{bf16_from_f64, f16_from_f64};
use half::{bf16, f16};

/// A number that kernels compute with.
pub(crate) trait Number: Copy + Default + PartialEq + PartialOrd + Send + Sync + 'static {
    /// The type of sums and products: `f32` for 16-bit floats, otherwise the type itself.
    type Sum: Number<Sum = Self::Sum>;
    /// The number 1.
    const ONE: Self;
    /// The minimum value of the type.
    const LEAST: Self;
    /// The maximum value of the type.
    const GREATEST: Self;
    /// The neutral element of addition. For floats it is -0.0, because adding 0.0 would change -0.0.
    const NO_SUM: Self::Sum;

    /// Returns `self + other`; integers wrap.
    fn add(self, other: Self) -> Self;
    /// Returns `self - other`; integers wrap.
    fn sub(self, other: Self) -> Self;
    /// Returns `self * other`; integers wrap.
    fn mul(self, other: Self) -> Self;
    /// Returns `self / other`. Integers divide towards zero and wrap. Callers reject integer divisors of 0; this
    /// function returns 0 for them.
    fn div(self, other: Self) -> Self;
    /// Returns `-self`; integers wrap.
    fn neg(self) -> Self;
    /// Returns the absolute value; integers wrap.
    fn abs(self) -> Self;
    /// Returns the maximum, or NaN if either is NaN.
    fn max(self, other: Self) -> Self;
    /// Returns the minimum, or NaN if either is NaN.
    fn min(self, other: Self) -> Self;
    /// Converts to the type of sums, which can represent every value of this type.
    fn widen(self) -> Self::Sum;
    /// Converts from the type of sums, rounding to nearest.
    fn narrow(sum: Self::Sum) -> Self;
    /// Returns a sum divided by the number of its elements; integers divide towards zero.
    fn mean(sum: Self::Sum, count: usize) -> Self;
}

/// A floating-point number.
pub(crate) trait Float: Number {
    /// Returns the square root, correctly rounded.
    fn sqrt(self) -> Self;
    /// Converts to `f64`, which can represent every value of this type.
    fn to_f64(self) -> f64;
    /// Converts from `f64`, with a single rounding to nearest.
    fn from_f64(x: f64) -> Self;
}

macro_rules! integers {
    ($($t:ident, $sum:ident, $abs:expr;)*) => {$(
        impl Number for $t {
            type Sum = $sum;
            const ONE: Self = 1;
            const LEAST: Self = $t::MIN;
            const GREATEST: Self = $t::MAX;
            const NO_SUM: $sum = 0;

            #[inline(always)]
            fn add(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline(always)]
            fn sub(self, other: Self) -> Self { self.wrapping_sub(other) }
            #[inline(always)]
            fn mul(self, other: Self) -> Self { self.wrapping_mul(other) }
            #[inline(always)]
            fn div(self, other: Self) -> Self { if other == 0 { 0 } else { self.wrapping_div(other) } }
            #[inline(always)]
            fn neg(self) -> Self { self.wrapping_neg() }
            #[inline(always)]
            fn abs(self) -> Self { $abs(self) }
            #[inline(always)]
            fn max(self, other: Self) -> Self { Ord::max(self, other) }
            #[inline(always)]
            fn min(self, other: Self) -> Self { Ord::min(self, other) }
            #[inline(always)]
            fn widen(self) -> $sum { self }
            #[inline(always)]
            fn narrow(sum: $sum) -> Self { sum }
            #[inline(always)]
            fn mean(sum: $sum, count: usize) -> Self {
                // All operands fit in 128 bits, and the quotient is between 0 and the sum, so the casts lose nothing.
                (sum as i128).checked_div(count as i128).unwrap_or(0) as $t
            }
        }
    )*};
}

integers! {
    i8, i8, i8::wrapping_abs;
    i16, i16, i16::wrapping_abs;
    i32, i32, i32::wrapping_abs;
    i64, i64, i64::wrapping_abs;
    u8, u8, std::convert::identity;
    u16, u16, std::convert::identity;
    u32, u32, std::convert::identity;
    u64, u64, std::convert::identity;
}

macro_rules! floats {
    ($($t:ident, $sum:ident, |$x:ident| $widen:expr, |$s:ident| $narrow:expr, |$d:ident| $from_f64:expr, $bits:literal;)*) => {$(
        impl Number for $t {
            type Sum = $sum;
            const ONE: Self = floats!(@one $t);
            const LEAST: Self = $t::NEG_INFINITY;
            const GREATEST: Self = $t::INFINITY;
            const NO_SUM: $sum = -0.0;

            #[inline(always)]
            fn add(self, other: Self) -> Self { floats!(@narrow $t $sum self + other) }
            #[inline(always)]
            fn sub(self, other: Self) -> Self { floats!(@narrow $t $sum self - other) }
            #[inline(always)]
            fn mul(self, other: Self) -> Self { floats!(@narrow $t $sum self * other) }
            #[inline(always)]
            fn div(self, other: Self) -> Self { floats!(@narrow $t $sum self / other) }
            #[inline(always)]
            fn neg(self) -> Self { $t::from_bits(self.to_bits() ^ $bits) }
            #[inline(always)]
            fn abs(self) -> Self { $t::from_bits(self.to_bits() & !$bits) }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                // The comparison is one instruction, which returns `self` if either is NaN. The selection handles a NaN
                // in `other`.
                let greater = if other > self { other } else { self };
                if other.is_nan() { other } else { greater }
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                let less = if other < self { other } else { self };
                if other.is_nan() { other } else { less }
            }
            #[inline(always)]
            fn widen(self) -> $sum { let $x = self; $widen }
            #[inline(always)]
            fn narrow($s: $sum) -> Self { $narrow }
            #[inline(always)]
            fn mean(sum: $sum, count: usize) -> Self { Self::narrow(sum / count as $sum) }
        }

        impl Float for $t {
            #[inline(always)]
            fn sqrt(self) -> Self { Self::narrow(self.widen().sqrt()) }
            #[inline(always)]
            fn to_f64(self) -> f64 { self.into() }
            #[inline(always)]
            fn from_f64($d: f64) -> Self { $from_f64 }
        }
    )*};
    (@one f32) => { 1.0 };
    (@one f64) => { 1.0 };
    (@one $t:ident) => { $t::ONE };
    (@narrow $t:ident $sum:ident $a:ident $op:tt $b:ident) => { <$t as Number>::narrow($a.widen() $op $b.widen()) };
}

floats! {
    f16, f32, |x| x.to_f32(), |s| f16::from_f32(s), |d| f16_from_f64(d), 0x8000;
    bf16, f32, |x| x.to_f32(), |s| bf16::from_f32(s), |d| bf16_from_f64(d), 0x8000;
    f32, f32, |x| x, |s| s, |d| d as f32, 0x8000_0000;
    f64, f64, |x| x, |s| s, |d| d, 0x8000_0000_0000_0000;
}

/// Raises an integer to an integer power, wrapping on overflow. A negative power gives the reciprocal, rounded towards
/// zero.
///
/// Callers reject 0 to a negative power; this function returns 0 for it.
pub(crate) fn power<T: Number>(base: T, negative: bool, mut left: u64) -> T {
    if negative {
        let odd = left & 1 == 1;
        return if base == T::ONE {
            T::ONE
        } else if base == T::ONE.neg() {
            if odd { base } else { T::ONE }
        } else {
            T::default()
        };
    }
    let (mut base, mut result) = (base, T::ONE);
    while left > 0 {
        if left & 1 == 1 {
            result = result.mul(base);
        }
        base = base.mul(base);
        left >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_integer_stays_itself() {
        assert_eq!(
            (i8::MIN.neg(), Number::abs(i8::MIN), Number::div(i8::MIN, -1)),
            (i8::MIN, i8::MIN, i8::MIN)
        );
    }

    #[test]
    fn nan_wins_on_either_side() {
        for (a, b) in [(f32::NAN, 1.0), (1.0, f32::NAN)] {
            assert!(Number::max(a, b).is_nan() && Number::min(a, b).is_nan());
        }
        assert_eq!(Number::max(f16::ONE, f16::INFINITY), f16::INFINITY);
    }

    #[test]
    fn powers_wrap_and_negative_ones_truncate() {
        assert_eq!(power(3i32, false, 4), 81);
        assert_eq!(power(2i32, false, 32), 0);
        assert_eq!(
            [power(-1i64, true, 3), power(-1i64, true, 2), power(2i64, true, 1), power(1, true, 9)],
            [-1, 1, 0, 1]
        );
    }
}
