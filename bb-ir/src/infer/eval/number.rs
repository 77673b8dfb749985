//! The element types that the evaluator computes in.

use crate::op::Primitive;
use crate::{DataType, Element};
use std::cmp::Ordering;

/// An element that the evaluator computes with.
pub(super) trait Number: Clone {
    /// An exponent, which may be of another type than its base.
    type Exponent;
    /// What elements are that are expressions.
    type Expr;

    fn add(&self, b: &Self, of: Of<'_, Self::Expr>) -> Self;
    fn sub(&self, b: &Self, of: Of<'_, Self::Expr>) -> Self;
    fn mul(&self, b: &Self, of: Of<'_, Self::Expr>) -> Self;
    /// The quotient; `None` for an integer divided by zero.
    fn div(&self, b: &Self, of: Of<'_, Self::Expr>) -> Option<Self>;
    /// The power; `None` where an integer has none.
    fn pow(&self, b: &Self::Exponent, of: Of<'_, Self::Expr>) -> Option<Self>;
    /// The greater or the lesser of two; what compares with nothing (NaN) wins.
    fn extremum(&self, b: &Self, wanted: Ordering, of: Of<'_, Self::Expr>) -> Self;
    /// What a primitive makes of one element; `None` if it is not computed in this type.
    fn unary(&self, op: Primitive, of: Of<'_, Self::Expr>) -> Option<Self>;
    /// So many of something.
    fn count(n: usize, dtype: DataType) -> Self;
    /// What a reduction of nothing gives; none if no element is it.
    fn identity(op: Primitive, dtype: DataType) -> Option<Self>;
}

/// What a computation is of.
pub(super) struct Of<'a, E> {
    /// The element type of the operands.
    pub(super) dtype: DataType,
    /// Tells of an expression that is not seen not to be negative that it is not.
    pub(super) signless: &'a dyn Fn(&E) -> bool,
}

impl<E> Clone for Of<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Of<'_, E> {}

/// An exponent of a number.
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

/// A number that tensors hold.
pub(super) trait Held: Number<Exponent = Exponent, Expr = i64> + Element {}

macro_rules! integers {
    ($($ty:ident),*) => {$(
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
                    Exponent::Float(b) => {
                        // As a cast does: what does not fit, NaN included, is the least number.
                        let power = (*self as f64).powf(b).trunc();
                        let fits = ($ty::MIN as f64..-($ty::MIN as f64)).contains(&power);
                        Some(if fits { power as $ty } else { $ty::MIN })
                    }
                    Exponent::Int(b) if b < 0 => match *self {
                        0 => None,
                        1 => Some(1),
                        -1 => Some(if b % 2 == 0 { 1 } else { -1 }),
                        _ => Some(0),
                    },
                    // Squaring wraps as repeated multiplication does.
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
                    Primitive::Abs => Some(self.wrapping_abs()),
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

integers!(i64, i32);

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
