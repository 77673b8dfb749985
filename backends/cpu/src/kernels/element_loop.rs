//! Loops over contiguous elements, and their types.

use super::dispatch::{VectorLoop, dispatch_by_length};
use super::half::Half;

/// A function that computes `n` results from `n` elements of each operand.
///
/// # Safety
///
/// Each operand points to `n` contiguous elements of the type that the loop was chosen for. `out` points to aligned
/// room for `n` results. `out` overlaps no operand.
pub(crate) type Run<const N: usize> = unsafe fn(out: *mut u8, operands: [*const u8; N], n: usize);

/// A loop, with the sizes that it needs for operands of other layouts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kernel<const N: usize> {
    pub(crate) run: Run<N>,
    /// The size of an element of each operand, in bytes.
    pub(crate) operands: [usize; N],
    /// The size of a result, in bytes.
    pub(crate) result: usize,
    /// The conversions around a loop on `f32`, if the operands are 16-bit floats.
    pub(crate) half: Option<&'static Half>,
    /// The number of elements below which a second thread costs more than it saves.
    pub(crate) grain: usize,
}

/// The number of elements below which a second thread costs more than it saves, if memory is the limit.
pub(crate) const GRAIN: usize = 1 << 17;

/// Returns the operands and the results of a loop as slices.
///
/// # Safety
///
/// As for [`Run`], of operands `T` and results `U`. Any bytes are a valid `U`: bools are written as `u8`.
#[inline(always)]
pub(super) unsafe fn slices<'a, T, U, const N: usize>(
    out: *mut u8,
    operands: [*const u8; N],
    n: usize,
) -> (&'a mut [U], [&'a [T]; N]) {
    // SAFETY: the caller guarantees `n` elements each, that no result overlaps an operand, and that any bytes are a valid result.
    unsafe {
        let out = std::slice::from_raw_parts_mut(out.cast::<U>(), n);
        (out, operands.map(|x| std::slice::from_raw_parts(x.cast::<T>(), n)))
    }
}

struct Map<'a, T, U, F> {
    out: &'a mut [U],
    x: &'a [T],
    f: F,
}

impl<T: Copy, U, F: Fn(T) -> U> VectorLoop for Map<'_, T, U, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for (out, &x) in self.out.iter_mut().zip(self.x) {
            *out = (self.f)(x);
        }
    }
}

struct Zip<'a, T, U, F> {
    out: &'a mut [U],
    a: &'a [T],
    b: &'a [T],
    f: F,
}

impl<T: Copy, U, F: Fn(T, T) -> U> VectorLoop for Zip<'_, T, U, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for ((out, &a), &b) in self.out.iter_mut().zip(self.a).zip(self.b) {
            *out = (self.f)(a, b);
        }
    }
}

/// Writes `f(x)` for each element.
#[inline(always)]
pub(crate) fn map<T: Copy, U>(out: &mut [U], x: &[T], f: impl Fn(T) -> U) {
    dispatch_by_length(x.len(), Map { out, x, f });
}

/// Writes `f(a, b)` for each pair of elements.
///
/// # Safety
///
/// As for [`Run`], of operands `T` and results `U`.
#[inline(always)]
pub(super) unsafe fn zip<T: Copy, U>(
    out: *mut u8,
    operands: [*const u8; 2],
    n: usize,
    f: impl Fn(T, T) -> U,
) {
    // SAFETY: this function has the same contract.
    let (out, [a, b]) = unsafe { slices(out, operands, n) };
    dispatch_by_length(n, Zip { out, a, b, f });
}

/// Writes `f(x)` for each element.
///
/// # Safety
///
/// As for [`Run`], of operands and results `T`.
#[inline(always)]
pub(super) unsafe fn each<T: Copy>(out: *mut u8, x: [*const u8; 1], n: usize, f: impl Fn(T) -> T) {
    // SAFETY: this function has the same contract.
    let (out, [x]) = unsafe { slices(out, x, n) };
    map(out, x, f);
}

/// Writes `f` of the operands' elements at each index, in a plain loop.
///
/// # Safety
///
/// As for [`Run`], of operands and results `T`.
#[inline(always)]
pub(super) unsafe fn plain<T: Copy, const N: usize>(
    out: *mut u8,
    operands: [*const u8; N],
    n: usize,
    f: impl Fn([T; N]) -> T,
) {
    for i in 0..n {
        // SAFETY: the caller guarantees `n` elements each.
        unsafe { out.cast::<T>().add(i).write(f(operands.map(|x| *x.cast::<T>().add(i)))) }
    }
}

/// Evaluates a body where `$name` is the Rust type that computes elements of `$dtype`. Returns `None` if there is no
/// type.
macro_rules! with_type {
    ([$($($variant:ident)|+: $t:ty),*] $dtype:expr, $name:ident => $body:expr) => {
        match $dtype { $( $(DataType::$variant)|+ => { type $name = $t; Some($body) } )* _ => None }
    };
    // Signed and unsigned integers of the same size use the same type.
    (bits $dtype:expr, $name:ident => $body:expr) => {
        with_type!([F32 | F16 | BF16: f32, F64: f64, I8 | U8: u8, I16 | U16: u16, I32 | U32: u32, I64 | U64: u64]
            $dtype, $name => $body)
    };
    (signed $dtype:expr, $name:ident => $body:expr) => {
        with_type!([F32 | F16 | BF16: f32, F64: f64, I8: i8, I16: i16, I32: i32, I64: i64] $dtype, $name => $body)
    };
    (number $dtype:expr, $name:ident => $body:expr) => {
        with_type!([F32 | F16 | BF16: f32, F64: f64, I8: i8, I16: i16, I32: i32, I64: i64, U8: u8, U16: u16, U32: u32,
            U64: u64] $dtype, $name => $body)
    };
    // 16-bit floats are compared without a conversion to `f32`.
    (ordered $dtype:expr, $name:ident => $body:expr) => {
        with_type!([F32: f32, F64: f64, F16: f16, BF16: bf16, I8: i8, I16: i16, I32: i32, I64: i64, U8: u8, U16: u16,
            U32: u32, U64: u64] $dtype, $name => $body)
    };
    (float $dtype:expr, $name:ident => $body:expr) => {
        with_type!([F32 | F16 | BF16: f32, F64: f64] $dtype, $name => $body)
    };
    // A few 16-bit floats are converted one by one, which costs less than converting blocks.
    (few $dtype:expr, $name:ident => $body:expr) => {
        with_type!([F32: f32, F64: f64, F16: f16, BF16: bf16] $dtype, $name => $body)
    };
}

pub(super) use with_type;
