//! Conversions between element types.

use half::{bf16, f16};

use super::{Strided, loops, walk};

/// A type that converts to `D`.
pub trait Cast<D>: Copy {
    /// Converts one element: floating-point to integer truncates and saturates (NaN gives 0), integer
    /// to integer wraps, anything else rounds to nearest even.
    fn cast(self) -> D;
}

/// Converts `n` contiguous elements on the calling thread.
///
/// # Safety
///
/// Both have `n` elements and do not overlap.
pub unsafe fn cast<S: Cast<D>, D: Copy>(n: usize, out: *mut D, x: *const S) {
    // SAFETY: this function's contract.
    unsafe { loops::map(out, x, n, S::cast) }
}

/// Converts every element; `out` is dense.
///
/// # Safety
///
/// `x` covers `dims`; `out` has room for `rows * cols` elements and is disjoint from `x`.
pub unsafe fn cast_all<S: Cast<D>, D: Copy>(dims: [usize; 2], out: *mut D, x: Strided<S>) {
    // SAFETY: this function's contract.
    unsafe { walk::map(dims, out, x, 1 << 17, |o, x, n| cast(n, o, x)) }
}

macro_rules! primitive {
    ($($s:ty => $($d:ty)*;)*) => {$($(
        impl Cast<$d> for $s {
            #[inline(always)]
            fn cast(self) -> $d {
                self as $d
            }
        }
    )*)*};
}

macro_rules! all_primitive {
    ($($s:ty)*) => {
        primitive!($($s => i8 i16 i32 i64 u8 u16 u32 u64 f32 f64;)*);
        $(
            impl Cast<f16> for $s {
                #[inline(always)]
                fn cast(self) -> f16 {
                    narrow_f16(self as f64)
                }
            }
            impl Cast<bf16> for $s {
                #[inline(always)]
                fn cast(self) -> bf16 {
                    bf16::from_f64(self as f64)
                }
            }
        )*
    };
}

#[inline]
fn narrow_f16(x: f64) -> f16 {
    f16::from_f64(x)
}

all_primitive!(i8 i16 i32 i64 u8 u16 u32 u64 f64);
primitive!(f32 => i8 i16 i32 i64 u8 u16 u32 u64 f32 f64;);

impl Cast<f16> for f32 {
    #[inline(always)]
    fn cast(self) -> f16 {
        f16::from_f32(self)
    }
}

impl Cast<bf16> for f32 {
    #[inline(always)]
    fn cast(self) -> bf16 {
        bf16::from_f32(self)
    }
}

macro_rules! halves {
    ($($s:ty => $($d:ty)*;)*) => {$($(
        impl Cast<$d> for $s {
            #[inline(always)]
            fn cast(self) -> $d {
                self.to_f32().cast()
            }
        }
    )*)*};
}

halves!(
    f16 => i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 f16 bf16;
    bf16 => i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 f16 bf16;
);
