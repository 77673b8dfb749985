//! The arithmetic of each number type. Integers wrap around, and floats round once.
//!
//! The modules of the operations determine which elements are combined; this module determines how. Sums and functions
//! of floats are computed in a wider type (`f32` for `f16` and `bf16`, `f64` for `f32`), and the result is rounded.

use crate::tensor::Held;
use bb::{bf16, f16};
use std::ops::Add;

/// A number type with arithmetic and reductions.
pub(crate) trait Number: Held + Copy + PartialOrd {
    const ZERO: Self;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    /// Returns the quotient; `None` if an integer is divided by zero.
    fn over(self, other: Self) -> Option<Self>;
    fn negated(self) -> Self;
    fn magnitude(self) -> Self;
    fn sum(row: &[Self]) -> Self;
    /// Returns the mean; `None` for the mean of an empty row of integers.
    fn mean(row: &[Self]) -> Option<Self>;
}

/// A type with a minimum and a maximum value.
pub(crate) trait Ordered: Held + Copy + PartialOrd {
    const LEAST: Self;
    const GREATEST: Self;
}

/// A float type with mathematical functions.
pub(crate) trait Float: Number {
    fn root(self) -> Self;
    fn exponential(self) -> Self;
    fn logarithm(self) -> Self;
}

/// An integer type that can be raised to a power.
pub(crate) trait Integer: Number {
    fn widened(self) -> i128;
    /// Returns the power, wrapped around; `None` for zero to a negative power.
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
                // The magnitude of the mean does not exceed the magnitude of the sum, which is a `$type`.
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
                    // The result is 1 divided by the power, which truncates to 0 unless the base is 1 or -1.
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

/// Adds up floats. A long row is the sum of its two halves, so that the error grows only with the logarithm of the
/// length.
fn total<T: Copy + Into<W>, W: Add<Output = W> + Default>(row: &[T]) -> W {
    if row.len() <= 64 {
        return row.iter().fold(W::default(), |sum, &x| sum + x.into());
    }
    let (low, high) = row.split_at(row.len() / 2);
    total(low) + total(high)
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
                $narrow(total(row))
            }

            fn mean(row: &[$type]) -> Option<$type> {
                // The sum may be outside the range of the type although the mean is inside it.
                let sum: f64 = total(row);
                Some($narrow((sum / row.len() as f64) as $wide))
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
