//! What each number type does in an operation: integers wrap, floats round once.
//!
//! The operations' files say which elements meet; this one says what becomes of them. A float
//! widens for sums and functions (`f16` and `bf16` to `f32`, `f32` to `f64`), and the result narrows.

use crate::tensor::Held;
use bb::{bf16, f16};

/// A number type, as arithmetic and reductions see it.
pub(crate) trait Number: Held + Copy + PartialOrd {
    const ZERO: Self;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    /// The quotient; none for an integer divided by zero.
    fn over(self, other: Self) -> Option<Self>;
    fn negated(self) -> Self;
    fn magnitude(self) -> Self;
    fn sum(row: &[Self]) -> Self;
    /// The mean; none for no integers.
    fn mean(row: &[Self]) -> Option<Self>;
}

/// A type with a least and a greatest value.
pub(crate) trait Ordered: Held + Copy + PartialOrd {
    const LEAST: Self;
    const GREATEST: Self;
}

/// A float type, as the functions of mathematics see it.
pub(crate) trait Float: Number {
    fn root(self) -> Self;
    fn exponential(self) -> Self;
    fn logarithm(self) -> Self;
}

/// An integer type, as powers see it.
pub(crate) trait Integer: Number {
    fn widened(self) -> i128;
    /// The power, wrapped; none for zero to a negative power.
    fn power(self, exponent: i128) -> Option<Self>;
}

macro_rules! integers {
    ($( $type:ident, $magnitude:expr; )*) => { $(
        impl Number for $type {
            const ZERO: $type = 0;

            fn plus(self, other: $type) -> $type {
                self.wrapping_add(other)
            }

            fn minus(self, other: $type) -> $type {
                self.wrapping_sub(other)
            }

            fn times(self, other: $type) -> $type {
                self.wrapping_mul(other)
            }

            fn over(self, other: $type) -> Option<$type> {
                (other != 0).then(|| self.wrapping_div(other))
            }

            fn negated(self) -> $type {
                self.wrapping_neg()
            }

            fn magnitude(self) -> $type {
                $magnitude(self)
            }

            fn sum(row: &[$type]) -> $type {
                row.iter().fold(0, |sum, &x| sum.wrapping_add(x))
            }

            fn mean(row: &[$type]) -> Option<$type> {
                // No quotient is larger than the sum, which is a `$type`.
                let mean = Self::sum(row).widened().checked_div(row.len() as i128);
                mean.map(|mean| mean as $type)
            }
        }

        impl Ordered for $type {
            const LEAST: $type = $type::MIN;
            const GREATEST: $type = $type::MAX;
        }

        impl Integer for $type {
            fn widened(self) -> i128 {
                i128::from(self)
            }

            fn power(self, exponent: i128) -> Option<$type> {
                if exponent < 0 {
                    // 1 over the power is less than 1, so it truncates to 0, unless the base is 1 or -1.
                    return match self.widened() {
                        0 => None,
                        1 => Some(1),
                        -1 if exponent % 2 == 0 => Some(1),
                        -1 => Some(self),
                        _ => Some(0),
                    };
                }
                let (mut result, mut square, mut rest): ($type, $type, i128) = (1, self, exponent);
                while rest > 0 {
                    if rest % 2 == 1 {
                        result = result.wrapping_mul(square);
                    }
                    square = square.wrapping_mul(square);
                    rest /= 2;
                }
                Some(result)
            }
        }
    )* };
}

integers! {
    i8, i8::wrapping_abs;
    i16, i16::wrapping_abs;
    i32, i32::wrapping_abs;
    i64, i64::wrapping_abs;
    u8, std::convert::identity;
    u16, std::convert::identity;
    u32, std::convert::identity;
    u64, std::convert::identity;
}

macro_rules! floats {
    ($( $type:ident widens to $wide:ident, $narrow:expr; )*) => { $(
        impl Number for $type {
            const ZERO: $type = $type::from_bits(0);

            fn plus(self, other: $type) -> $type {
                self + other
            }

            fn minus(self, other: $type) -> $type {
                self - other
            }

            fn times(self, other: $type) -> $type {
                self * other
            }

            fn over(self, other: $type) -> Option<$type> {
                Some(self / other)
            }

            fn negated(self) -> $type {
                -self
            }

            fn magnitude(self) -> $type {
                $narrow($wide::from(self).abs())
            }

            fn sum(row: &[$type]) -> $type {
                $narrow(row.iter().fold(0.0, |sum, &x| sum + $wide::from(x)))
            }

            fn mean(row: &[$type]) -> Option<$type> {
                let sum: $wide = row.iter().fold(0.0, |sum, &x| sum + $wide::from(x));
                Some($narrow(sum / row.len() as $wide))
            }
        }

        impl Ordered for $type {
            const LEAST: $type = $type::NEG_INFINITY;
            const GREATEST: $type = $type::INFINITY;
        }

        impl Float for $type {
            fn root(self) -> $type {
                $narrow($wide::from(self).sqrt())
            }

            fn exponential(self) -> $type {
                $narrow($wide::from(self).exp())
            }

            fn logarithm(self) -> $type {
                $narrow($wide::from(self).ln())
            }
        }
    )* };
}

floats! {
    f16 widens to f32, f16::from_f32;
    bf16 widens to f32, bf16::from_f32;
    f32 widens to f64, |x: f64| x as f32;
    f64 widens to f64, std::convert::identity;
}

impl Ordered for bool {
    const LEAST: bool = false;
    const GREATEST: bool = true;
}
