//! Loops over contiguous memory, one per operation and element type, compiled for each level.

pub(crate) mod half;
pub(crate) mod math;

use super::dispatch::{Kernel, dispatch};
use super::element::{Binary, BinaryLoop, Number, Sign, UnaryLoop};
use super::level;

struct Zip<'a, T, V, U, F> {
    out: &'a mut [U],
    a: &'a [T],
    b: &'a [V],
    f: F,
}

impl<T: Copy, V: Copy, U, F: Fn(T, V) -> U> Kernel for Zip<'_, T, V, U, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for ((o, &a), &b) in self.out.iter_mut().zip(self.a).zip(self.b) {
            *o = (self.f)(a, b);
        }
    }
}

/// Writes `f(a, b)` for `n` elements at the processor's level.
///
/// # Safety
///
/// All three have `n` elements; `out` is disjoint from the operands.
#[inline(always)]
pub(crate) unsafe fn zip<T: Copy, V: Copy, U>(
    out: *mut U,
    a: *const T,
    b: *const V,
    n: usize,
    f: impl Fn(T, V) -> U,
) {
    // SAFETY: the caller gives `n` elements each, and no output is an input. Elements are plain
    // numbers, which a store initialises.
    let (out, a, b) = unsafe {
        (
            std::slice::from_raw_parts_mut(out, n),
            std::slice::from_raw_parts(a, n),
            std::slice::from_raw_parts(b, n),
        )
    };
    dispatch(level(), Zip { out, a, b, f });
}

/// Writes `f(x)` for `n` elements at the processor's level.
///
/// # Safety
///
/// As for [`zip`].
#[inline(always)]
pub(crate) unsafe fn map<T: Copy, U>(out: *mut U, x: *const T, n: usize, f: impl Fn(T) -> U) {
    // SAFETY: the caller's promise; the second operand is the first again.
    unsafe { zip(out, x, x, n, |a, _| f(a)) }
}

/// Returns the loop of an operation on two operands.
pub(crate) fn binary<T: Number>(op: Binary) -> BinaryLoop<T> {
    // SAFETY: a `BinaryLoop` promises what `zip` asks for.
    unsafe {
        match op {
            Binary::Add => |o, a, b, n| zip(o, a, b, n, T::add),
            Binary::Sub => |o, a, b, n| zip(o, a, b, n, T::sub),
            Binary::Mul => |o, a, b, n| zip(o, a, b, n, T::mul),
            Binary::Div => |o, a, b, n| zip(o, a, b, n, T::div),
            Binary::Pow => |o, a, b, n| zip(o, a, b, n, T::pow),
            Binary::Max => |o, a, b, n| zip(o, a, b, n, T::max),
            Binary::Min => |o, a, b, n| zip(o, a, b, n, T::min),
        }
    }
}

/// Returns the loop of an operation on the sign.
pub(crate) fn sign<T: Number>(op: Sign) -> UnaryLoop<T> {
    // SAFETY: a `UnaryLoop` promises what `map` asks for.
    unsafe {
        match op {
            Sign::Neg => |o, x, n| map(o, x, n, T::neg),
            Sign::Abs => |o, x, n| map(o, x, n, T::abs),
            Sign::Relu => |o, x, n| map(o, x, n, |x: T| x.max(T::default())),
        }
    }
}
