//! Loops for the 16-bit floating-point types: widened to `f32` in blocks, computed, and rounded back.

use crate::simd::cast::{Cast, cast};
use crate::simd::element::{Binary, BinaryLoop, Float, Math, MathFn, Number, Sign, UnaryLoop};

/// Elements of a block; three of them stay in the first cache.
const BLOCK: usize = 256;

/// # Safety
///
/// As for [`super::zip`].
unsafe fn zip<T: Float + Cast<f32>>(op: Binary, out: *mut T, a: *const T, b: *const T, n: usize)
where
    f32: Cast<T>,
{
    let f = f32::binary(op);
    let (mut wa, mut wb, mut wo) = ([0f32; BLOCK], [0f32; BLOCK], [0f32; BLOCK]);
    let mut at = 0;
    while at < n {
        let len = BLOCK.min(n - at);
        // SAFETY: `len` fits the buffers, and `at + len <= n`.
        unsafe {
            cast(len, wa.as_mut_ptr(), a.add(at));
            cast(len, wb.as_mut_ptr(), b.add(at));
            f(wo.as_mut_ptr(), wa.as_ptr(), wb.as_ptr(), len);
            cast(len, out.add(at), wo.as_ptr());
        }
        at += len;
    }
}

/// # Safety
///
/// As for [`super::map`].
unsafe fn map<T: Float + Cast<f32>>(f: UnaryLoop<f32>, out: *mut T, x: *const T, n: usize)
where
    f32: Cast<T>,
{
    let (mut wx, mut wo) = ([0f32; BLOCK], [0f32; BLOCK]);
    let mut at = 0;
    while at < n {
        let len = BLOCK.min(n - at);
        // SAFETY: `len` fits the buffers, and `at + len <= n`.
        unsafe {
            cast(len, wx.as_mut_ptr(), x.add(at));
            f(wo.as_mut_ptr(), wx.as_ptr(), len);
            cast(len, out.add(at), wo.as_ptr());
        }
        at += len;
    }
}

/// Returns the loop of an operation on two operands.
pub(crate) fn binary<T: Float + Cast<f32>>(op: Binary) -> BinaryLoop<T>
where
    f32: Cast<T>,
{
    // SAFETY: a `BinaryLoop` promises what `zip` asks for.
    unsafe {
        match op {
            Binary::Add => |o, a, b, n| zip(Binary::Add, o, a, b, n),
            Binary::Sub => |o, a, b, n| zip(Binary::Sub, o, a, b, n),
            Binary::Mul => |o, a, b, n| zip(Binary::Mul, o, a, b, n),
            Binary::Div => |o, a, b, n| zip(Binary::Div, o, a, b, n),
            Binary::Pow => |o, a, b, n| zip(Binary::Pow, o, a, b, n),
            Binary::Max => |o, a, b, n| zip(Binary::Max, o, a, b, n),
            Binary::Min => |o, a, b, n| zip(Binary::Min, o, a, b, n),
        }
    }
}

/// Returns the loop of an operation on the sign.
pub(crate) fn sign<T: Float + Cast<f32>>(op: Sign) -> UnaryLoop<T>
where
    f32: Cast<T>,
{
    // SAFETY: a `UnaryLoop` promises what `map` asks for.
    unsafe {
        match op {
            Sign::Neg => |o, x, n| super::map(o, x, n, T::neg),
            Sign::Abs => |o, x, n| super::map(o, x, n, T::abs),
            Sign::Relu => |o, x, n| map(f32::sign(Sign::Relu), o, x, n),
        }
    }
}

/// Returns the loop of a function.
pub(crate) fn math<T: Float + Cast<f32>>(op: MathFn) -> UnaryLoop<T>
where
    f32: Cast<T>,
{
    // SAFETY: a `UnaryLoop` promises what `map` asks for.
    unsafe {
        match op {
            MathFn::Sqrt => |o, x, n| map(f32::math(MathFn::Sqrt), o, x, n),
            MathFn::Exp => |o, x, n| map(f32::math(MathFn::Exp), o, x, n),
            MathFn::Log => |o, x, n| map(f32::math(MathFn::Log), o, x, n),
            MathFn::Tanh => |o, x, n| map(f32::math(MathFn::Tanh), o, x, n),
            MathFn::Sigmoid => |o, x, n| map(f32::math(MathFn::Sigmoid), o, x, n),
            MathFn::Erf => |o, x, n| map(f32::math(MathFn::Erf), o, x, n),
            MathFn::Gelu => |o, x, n| map(f32::math(MathFn::Gelu), o, x, n),
            MathFn::Silu => |o, x, n| map(f32::math(MathFn::Silu), o, x, n),
        }
    }
}
