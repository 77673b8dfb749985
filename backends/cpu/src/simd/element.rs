//! The element types that kernels compute with.

use half::{bf16, f16};

use super::loops;
use super::reduce::Reduce;

/// An operation on two numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binary {
    /// `a + b`.
    Add,
    /// `a - b`.
    Sub,
    /// `a * b`.
    Mul,
    /// `a / b`.
    Div,
    /// `a` to the power `b`.
    Pow,
    /// The larger, NaN if either is.
    Max,
    /// The smaller, NaN if either is.
    Min,
}

/// An operation on the sign of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// `-x`.
    Neg,
    /// The absolute value.
    Abs,
    /// `max(x, 0)`, NaN stays NaN.
    Relu,
}

/// A function of a floating-point number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MathFn {
    /// The square root.
    Sqrt,
    /// The exponential.
    Exp,
    /// The natural logarithm.
    Log,
    /// The hyperbolic tangent.
    Tanh,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// The error function.
    Erf,
    /// `x * (1 + erf(x / sqrt 2)) / 2`.
    Gelu,
    /// `x * sigmoid(x)`.
    Silu,
}

/// Writes `n` results of two operands; all contiguous, the output disjoint from them.
pub type BinaryLoop<T> = unsafe fn(*mut T, *const T, *const T, usize);

/// Writes `n` results of one operand; both contiguous and disjoint.
pub type UnaryLoop<T> = unsafe fn(*mut T, *const T, usize);

/// A number: every compute type except bool.
pub trait Number: Copy + Send + Sync + Default + PartialEq + PartialOrd + 'static {
    /// The type sums are kept in.
    type Sum: Copy;
    /// Whether the type is an integer.
    const INTEGER: bool;

    /// Returns `self + other`, wrapping.
    fn add(self, other: Self) -> Self;
    /// Returns `self - other`, wrapping.
    fn sub(self, other: Self) -> Self;
    /// Returns `self * other`, wrapping.
    fn mul(self, other: Self) -> Self;
    /// Returns `self / other`; integers divide towards zero, wrap, and give 0 for a zero divisor.
    fn div(self, other: Self) -> Self;
    /// Returns `self` to the power `other`; integers wrap, and a negative exponent truncates towards zero.
    fn pow(self, other: Self) -> Self;
    /// Returns the larger; NaN if either is.
    fn max(self, other: Self) -> Self;
    /// Returns the smaller; NaN if either is.
    fn min(self, other: Self) -> Self;
    /// Returns `-self`, wrapping.
    fn neg(self) -> Self;
    /// Returns the absolute value, wrapping.
    fn abs(self) -> Self;

    /// Returns the loop of an operation.
    fn binary(op: Binary) -> BinaryLoop<Self>;
    /// Returns the loop of an operation.
    fn sign(op: Sign) -> UnaryLoop<Self>;
    /// Reduces each row to one element; `dims` are the number of rows and their length, `strides` in the same order.
    ///
    /// # Safety
    ///
    /// `x` covers the rows, and `out` has room for their results.
    unsafe fn reduce(op: Reduce, dims: [usize; 2], x: *const Self, strides: [isize; 2], out: *mut Self);
    /// Reduces `len` rows, `row` elements apart, to one of `width` columns.
    ///
    /// # Safety
    ///
    /// `x` covers the rows, `len` and `width` are at least 1, `width` at most that of a block, and
    /// `out` has room for the columns.
    unsafe fn reduce_columns(
        op: Reduce,
        len: usize,
        width: usize,
        x: *const Self,
        row: isize,
        out: *mut Self,
    );
}

/// A floating-point number with elementary functions.
pub trait Math: Float {
    /// Returns the loop of a function.
    fn math(op: MathFn) -> UnaryLoop<Self>;
}

/// A floating-point number.
pub trait Float: Number {
    /// Converts, rounding to nearest.
    fn from_f64(x: f64) -> Self;
    /// Converts exactly.
    fn to_f64(self) -> f64;
}

macro_rules! integers {
    ($signed:ident: $($t:ty)*) => {$(
        impl Number for $t {
            type Sum = $t;
            const INTEGER: bool = true;

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn div(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }
            #[inline]
            fn pow(self, other: Self) -> Self {
                integers!(@pow $signed self other)
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                Ord::max(self, other)
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                Ord::min(self, other)
            }
            #[inline(always)]
            fn neg(self) -> Self {
                self.wrapping_neg()
            }
            #[inline(always)]
            fn abs(self) -> Self {
                integers!(@abs $signed self)
            }
            fn binary(op: Binary) -> BinaryLoop<Self> {
                loops::binary::<$t>(op)
            }
            fn sign(op: Sign) -> UnaryLoop<Self> {
                loops::sign::<$t>(op)
            }
            unsafe fn reduce(op: Reduce, [rows, len]: [usize; 2], x: *const Self, strides: [isize; 2], out: *mut Self) {
                // SAFETY: the caller's promise.
                unsafe { super::reduce::by_rows(op, [rows, len], x, strides, out, |sum: $t| sum.div(super::cast::Cast::cast(len as i64))) }
            }
            unsafe fn reduce_columns(op: Reduce, len: usize, width: usize, x: *const Self, row: isize, out: *mut Self) {
                // SAFETY: the caller's promise.
                unsafe { super::columns::by_columns(op, len, width, x, row, out, |sum: $t| sum.div(super::cast::Cast::cast(len as i64))) }
            }
        }
    )*};
    (@abs signed $x:ident) => { $x.wrapping_abs() };
    (@abs unsigned $x:ident) => { $x };
    (@pow signed $x:ident $y:ident) => {
        if $y < 0 {
            match $x {
                1 => 1,
                -1 => if $y % 2 == 0 { 1 } else { -1 },
                _ => 0,
            }
        } else {
            integers!(@pow unsigned $x $y)
        }
    };
    (@pow unsigned $x:ident $y:ident) => {{
        let (mut base, mut left, mut result) = ($x, $y, 1);
        while left > 0 {
            if left & 1 == 1 {
                result = Self::wrapping_mul(result, base);
            }
            base = base.wrapping_mul(base);
            left >>= 1;
        }
        result
    }};
}

integers!(signed: i8 i16 i32 i64);
integers!(unsigned: u8 u16 u32 u64);

macro_rules! floats {
    ($($t:ty, $module:ident, $pow:expr;)*) => {$(
        impl Number for $t {
            type Sum = $t;
            const INTEGER: bool = false;

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self - other
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn div(self, other: Self) -> Self {
                self / other
            }
            #[inline]
            fn pow(self, other: Self) -> Self {
                self.powf(other)
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                // The comparison fails if `other` is NaN, and a NaN in `self` is kept.
                if self >= other || self.is_nan() { self } else { other }
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                if self <= other || self.is_nan() { self } else { other }
            }
            #[inline(always)]
            fn neg(self) -> Self {
                -self
            }
            #[inline(always)]
            fn abs(self) -> Self {
                self.abs()
            }
            fn binary(op: Binary) -> BinaryLoop<Self> {
                let power: Option<BinaryLoop<$t>> = $pow;
                match (op, power) {
                    (Binary::Pow, Some(power)) => power,
                    _ => loops::binary::<$t>(op),
                }
            }
            fn sign(op: Sign) -> UnaryLoop<Self> {
                loops::sign::<$t>(op)
            }
            unsafe fn reduce(op: Reduce, [rows, len]: [usize; 2], x: *const Self, strides: [isize; 2], out: *mut Self) {
                // SAFETY: the caller's promise.
                unsafe { super::reduce::by_rows(op, [rows, len], x, strides, out, |sum: $t| sum / len as $t) }
            }
            unsafe fn reduce_columns(op: Reduce, len: usize, width: usize, x: *const Self, row: isize, out: *mut Self) {
                // SAFETY: the caller's promise.
                unsafe { super::columns::by_columns(op, len, width, x, row, out, |sum: $t| sum / len as $t) }
            }
        }

        impl Math for $t {
            fn math(op: MathFn) -> UnaryLoop<Self> {
                loops::math::$module::function(op)
            }
        }

        impl Float for $t {
            #[inline(always)]
            fn from_f64(x: f64) -> Self {
                x as $t
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
        }
    )*};
}

floats!(
    f32, single, Some(loops::math::powers as BinaryLoop<f32>);
    f64, double, None;
);

macro_rules! halves {
    ($($t:ty)*) => {$(
        impl Number for $t {
            type Sum = f32;
            const INTEGER: bool = false;

            #[inline]
            fn add(self, other: Self) -> Self {
                <$t>::from_f32(self.to_f32() + other.to_f32())
            }
            #[inline]
            fn sub(self, other: Self) -> Self {
                <$t>::from_f32(self.to_f32() - other.to_f32())
            }
            #[inline]
            fn mul(self, other: Self) -> Self {
                <$t>::from_f32(self.to_f32() * other.to_f32())
            }
            #[inline]
            fn div(self, other: Self) -> Self {
                <$t>::from_f32(self.to_f32() / other.to_f32())
            }
            #[inline]
            fn pow(self, other: Self) -> Self {
                <$t>::from_f32(self.to_f32().powf(other.to_f32()))
            }
            #[inline]
            fn max(self, other: Self) -> Self {
                if self >= other || self.is_nan() { self } else { other }
            }
            #[inline]
            fn min(self, other: Self) -> Self {
                if self <= other || self.is_nan() { self } else { other }
            }
            #[inline]
            fn neg(self) -> Self {
                -self
            }
            #[inline]
            fn abs(self) -> Self {
                Self::from_bits(self.to_bits() & 0x7fff)
            }
            fn binary(op: Binary) -> BinaryLoop<Self> {
                loops::half::binary::<$t>(op)
            }
            fn sign(op: Sign) -> UnaryLoop<Self> {
                loops::half::sign::<$t>(op)
            }
            unsafe fn reduce(op: Reduce, dims: [usize; 2], x: *const Self, strides: [isize; 2], out: *mut Self) {
                // SAFETY: the caller's promise.
                unsafe { super::reduce::halves(op, dims, x, strides, out) }
            }
            unsafe fn reduce_columns(op: Reduce, len: usize, width: usize, x: *const Self, row: isize, out: *mut Self) {
                // SAFETY: the caller's promise.
                unsafe { super::reduce::halves(op, [width, len], x, [1, row], out) }
            }
        }

        impl Math for $t {
            fn math(op: MathFn) -> UnaryLoop<Self> {
                loops::half::math::<$t>(op)
            }
        }

        impl Float for $t {
            #[inline]
            fn from_f64(x: f64) -> Self {
                <$t>::from_f64(x)
            }
            #[inline]
            fn to_f64(self) -> f64 {
                self.to_f64()
            }
        }
    )*};
}

halves!(f16 bf16);
