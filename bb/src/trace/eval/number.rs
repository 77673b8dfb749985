//! The element types that the evaluator computes in.

use bb_ir::Element;
use std::cmp::Ordering;

/// An element type that the evaluator computes in.
pub(super) trait Number: Element + PartialOrd + Default {
    /// The identity of the maximum, and of the minimum.
    const BOUNDS: (Self, Self);
    fn add(self, b: Self) -> Self;
    fn sub(self, b: Self) -> Self;
    fn mul(self, b: Self) -> Self;
    /// The quotient; `None` for an integer divided by zero.
    fn div(self, b: Self) -> Option<Self>;
    fn abs(self) -> Self;
    /// The power; `None` where an integer has none.
    fn pow(self, b: Exponent) -> Option<Self>;
    fn count(n: usize) -> Self;
    /// A function that only floats have.
    fn float(self, _f: fn(f32) -> f32) -> Option<Self> {
        None
    }
}

/// An exponent, which may be of another type than its base.
#[derive(Clone, Copy)]
pub(super) enum Exponent {
    Int(i64),
    Float(f64),
}

macro_rules! integers {
    ($($ty:ident),*) => {$(
        impl Number for $ty {
            const BOUNDS: (Self, Self) = ($ty::MIN, $ty::MAX);
            fn add(self, b: Self) -> Self { self.wrapping_add(b) }
            fn sub(self, b: Self) -> Self { self.wrapping_sub(b) }
            fn mul(self, b: Self) -> Self { self.wrapping_mul(b) }
            fn div(self, b: Self) -> Option<Self> { (b != 0).then(|| self.wrapping_div(b)) }
            fn abs(self) -> Self { self.wrapping_abs() }
            fn count(n: usize) -> Self { n as $ty }
            fn pow(self, b: Exponent) -> Option<Self> {
                match b {
                    Exponent::Float(b) => Some((self as f64).powf(b) as $ty),
                    Exponent::Int(b) if b < 0 => match self {
                        0 => None,
                        1 => Some(1),
                        -1 => Some(if b % 2 == 0 { 1 } else { -1 }),
                        _ => Some(0),
                    },
                    // Squaring wraps as repeated multiplication does.
                    Exponent::Int(mut b) => {
                        let (mut base, mut power) = (self, 1 as $ty);
                        while b > 0 {
                            if b % 2 == 1 { power = power.wrapping_mul(base); }
                            base = base.wrapping_mul(base);
                            b /= 2;
                        }
                        Some(power)
                    }
                }
            }
        }
    )*};
}

integers!(i64, i32);

impl Number for f32 {
    const BOUNDS: (f32, f32) = (f32::NEG_INFINITY, f32::INFINITY);
    fn add(self, b: f32) -> f32 {
        self + b
    }
    fn sub(self, b: f32) -> f32 {
        self - b
    }
    fn mul(self, b: f32) -> f32 {
        self * b
    }
    fn div(self, b: f32) -> Option<f32> {
        Some(self / b)
    }
    fn abs(self) -> f32 {
        f32::abs(self)
    }
    fn pow(self, b: Exponent) -> Option<f32> {
        Some(match b {
            Exponent::Int(b) => f64::from(self).powf(b as f64) as f32,
            Exponent::Float(b) => f64::from(self).powf(b) as f32,
        })
    }
    fn count(n: usize) -> f32 {
        n as f32
    }
    fn float(self, f: fn(f32) -> f32) -> Option<f32> {
        Some(f(self))
    }
}

/// `-x`; floats keep the sign of zero.
pub(super) fn negated<T: Number>(x: T) -> T {
    x.float(|v| -v).unwrap_or_else(|| T::default().sub(x))
}

/// The greater or the lesser of two; what compares with nothing (NaN) wins.
pub(super) fn extremum<T: Number>(a: T, b: T, wanted: Ordering) -> T {
    match a.partial_cmp(&b) {
        Some(order) if order == wanted => a,
        Some(_) => b,
        None if a.partial_cmp(&a).is_none() => a,
        None => b,
    }
}
