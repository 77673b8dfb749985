//! The types of elements that the evaluator computes with.

use crate::op::Primitive;
use crate::{DataType, Element};
use std::cmp::Ordering;

/// An element that the evaluator can compute with.
pub(super) trait Number: Clone {
    /// The type of exponents, which may differ from the type of the base.
    type Exponent;
    /// The type of the expressions in symbolic elements.
    type Expr;

    fn add(&self, b: &Self, of: Of<'_, Self::Expr>) -> Self;
    fn sub(&self, b: &Self, of: Of<'_, Self::Expr>) -> Self;
    fn mul(&self, b: &Self, of: Of<'_, Self::Expr>) -> Self;
    /// Returns the quotient; `None` for an integer divided by zero.
    fn div(&self, b: &Self, of: Of<'_, Self::Expr>) -> Option<Self>;
    /// Returns the power; `None` if the integer power is undefined.
    fn pow(&self, b: &Self::Exponent, of: Of<'_, Self::Expr>) -> Option<Self>;
    /// Returns the maximum or the minimum of two elements. If an element cannot be compared (NaN), it is the result.
    fn extremum(&self, b: &Self, wanted: Ordering, of: Of<'_, Self::Expr>) -> Self;
    /// Applies a primitive to one element; `None` if the primitive is not supported for this type.
    fn unary(&self, op: Primitive, of: Of<'_, Self::Expr>) -> Option<Self>;
    /// Converts the number `n` to an element.
    fn count(n: usize, dtype: DataType) -> Self;
    /// Returns the result of reducing no elements; `None` if no element represents it.
    fn identity(op: Primitive, dtype: DataType) -> Option<Self>;
}

/// The context of a computation.
pub(super) struct Of<'a, E> {
    /// The element type of the operands.
    pub(super) dtype: DataType,
    /// Returns true for an expression that is known not to be negative, although its form does not show it.
    pub(super) signless: &'a dyn Fn(&E) -> bool,
}

impl<E> Clone for Of<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Of<'_, E> {}

/// The exponent of a power.
#[derive(Clone, Copy)]
pub(super) enum Exponent {
    Int(i64),
    Float(f64),
}

fn extremum<T: PartialOrd + Copy>(a: T, b: T, wanted: Ordering) -> T {
    match a.partial_cmp(&b) {
        Some(order) if order == wanted => a,
        Some(_) => b,
        None if a.partial_cmp(&a).is_none() => a,
        None => b,
    }
}

/// A number type of tensor elements.
pub(super) trait Held: Number<Exponent = Exponent, Expr = i64> + Element {}

/// Truncates a float to an integer; `None` if it is NaN or out of range. A cast would turn these values into the minimum.
fn signed(x: f64, least: f64) -> Option<f64> {
    let x = x.trunc();
    (least..-least).contains(&x).then_some(x)
}

/// Implements `Number` for integers. Each row has a type, and three functions: for powers that are computed as floats, for
/// negative exponents, and for the absolute value.
macro_rules! integers {
    ($($ty:ident: $float:expr, $negative:expr, $abs:expr;)*) => {$(
        impl Held for $ty {}

        impl Number for $ty {
            type Exponent = Exponent;
            type Expr = i64;

            fn add(&self, b: &Self, _: Of<'_, i64>) -> Self {
                self.wrapping_add(*b)
            }
            fn sub(&self, b: &Self, _: Of<'_, i64>) -> Self {
                self.wrapping_sub(*b)
            }
            fn mul(&self, b: &Self, _: Of<'_, i64>) -> Self {
                self.wrapping_mul(*b)
            }
            fn div(&self, b: &Self, _: Of<'_, i64>) -> Option<Self> {
                (*b != 0).then(|| self.wrapping_div(*b))
            }
            fn pow(&self, b: &Exponent, _: Of<'_, i64>) -> Option<Self> {
                match *b {
                    Exponent::Float(b) => Some($float((*self as f64).powf(b))),
                    Exponent::Int(b) if b < 0 => $negative(*self, b),
                    // Exponentiation by squaring wraps like repeated multiplication.
                    Exponent::Int(mut b) => {
                        let (mut base, mut power) = (*self, 1 as $ty);
                        while b > 0 {
                            if b % 2 == 1 {
                                power = power.wrapping_mul(base);
                            }
                            base = base.wrapping_mul(base);
                            b /= 2;
                        }
                        Some(power)
                    }
                }
            }
            fn extremum(&self, b: &Self, wanted: Ordering, _: Of<'_, i64>) -> Self {
                extremum(*self, *b, wanted)
            }
            fn unary(&self, op: Primitive, _: Of<'_, i64>) -> Option<Self> {
                match op {
                    Primitive::Neg => Some(self.wrapping_neg()),
                    Primitive::Abs => Some($abs(*self)),
                    _ => None,
                }
            }
            fn count(n: usize, _: DataType) -> Self {
                n as $ty
            }
            fn identity(op: Primitive, _: DataType) -> Option<Self> {
                Some(match op {
                    Primitive::ReduceMax => $ty::MIN,
                    Primitive::ReduceMin => $ty::MAX,
                    _ => 0,
                })
            }
        }
    )*};
}

/// Returns `x` to the power of the negative exponent `b`, truncated: 0 has no power, and all numbers except 1 and -1 give 0.
fn reciprocal(x: i64, b: i64) -> Option<i64> {
    match x {
        0 => None,
        1 => Some(1),
        -1 => Some(if b % 2 == 0 { 1 } else { -1 }),
        _ => Some(0),
    }
}

integers! {
    i64: |x| signed(x, i64::MIN as f64).map_or(i64::MIN, |x| x as i64), reciprocal, i64::wrapping_abs;
    i32: |x| signed(x, i32::MIN.into()).map_or(i32::MIN, |x| x as i32),
        |x: i32, b| reciprocal(x.into(), b).map(|y| y as i32), i32::wrapping_abs;
    // ONNX does not define powers of `u64`.
    u64: |x| x as u64, |_, _| None, std::convert::identity;
}

impl Held for f32 {}

impl Number for f32 {
    type Exponent = Exponent;
    type Expr = i64;

    fn add(&self, b: &f32, _: Of<'_, i64>) -> f32 {
        self + b
    }
    fn sub(&self, b: &f32, _: Of<'_, i64>) -> f32 {
        self - b
    }
    fn mul(&self, b: &f32, _: Of<'_, i64>) -> f32 {
        self * b
    }
    fn div(&self, b: &f32, _: Of<'_, i64>) -> Option<f32> {
        Some(self / b)
    }
    fn pow(&self, b: &Exponent, _: Of<'_, i64>) -> Option<f32> {
        Some(match *b {
            Exponent::Int(b) => f64::from(*self).powf(b as f64) as f32,
            Exponent::Float(b) => f64::from(*self).powf(b) as f32,
        })
    }
    fn extremum(&self, b: &f32, wanted: Ordering, _: Of<'_, i64>) -> f32 {
        extremum(*self, *b, wanted)
    }
    fn unary(&self, op: Primitive, _: Of<'_, i64>) -> Option<f32> {
        match op {
            Primitive::Neg => Some(-self),
            Primitive::Abs => Some(f32::abs(*self)),
            Primitive::Sqrt => Some(self.sqrt()),
            Primitive::Exp => Some(self.exp()),
            Primitive::Log => Some(self.ln()),
            _ => None,
        }
    }
    fn count(n: usize, _: DataType) -> f32 {
        n as f32
    }
    fn identity(op: Primitive, _: DataType) -> Option<f32> {
        Some(match op {
            Primitive::ReduceMax => f32::NEG_INFINITY,
            Primitive::ReduceMin => f32::INFINITY,
            _ => 0.0,
        })
    }
}
