//! The registers of WebAssembly's SIMD128.

use super::Lanes;
use half::{bf16, f16};
use std::arch::wasm32::*;

/// Reads the first `n` lanes of 4 bytes; the other lanes are zero.
///
/// # Safety
///
/// There are `n` elements.
#[inline(always)]
pub(crate) unsafe fn load_fours(from: *const u32, n: usize) -> v128 {
    // SAFETY: this function has the same contract.
    unsafe {
        match n {
            0 => i32x4_splat(0),
            1 => v128_load32_zero(from),
            2 => v128_load64_zero(from.cast()),
            3 => v128_load32_lane::<2>(v128_load64_zero(from.cast()), from.add(2)),
            _ => v128_load(from.cast()),
        }
    }
}

/// Writes the first `n` lanes of 4 bytes.
///
/// # Safety
///
/// There is room for `n` elements.
#[inline(always)]
pub(crate) unsafe fn store_fours(x: v128, to: *mut u32, n: usize) {
    // SAFETY: this function has the same contract.
    unsafe {
        match n {
            0 => {}
            1 => v128_store32_lane::<0>(x, to),
            2 => v128_store64_lane::<0>(x, to.cast()),
            3 => {
                v128_store64_lane::<0>(x, to.cast());
                v128_store32_lane::<2>(x, to.add(2));
            }
            _ => v128_store(to.cast(), x),
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct F32x4(v128);

/// Defines the vector functions that are single instructions.
macro_rules! instructions {
    ($($name:ident ( $($x:ident),* ) = $result:expr;)*) => {
        $(
            #[inline(always)]
            unsafe fn $name(self $(, $x: Self)*) -> Self {
                Self($result(self.0 $(, $x.0)*))
            }
        )*
    };
}

impl F32x4 {
    #[inline(always)]
    fn each(self, f: impl Fn(f32) -> f32) -> Self {
        let x = self.0;
        let lanes = [
            f32x4_extract_lane::<0>(x),
            f32x4_extract_lane::<1>(x),
            f32x4_extract_lane::<2>(x),
            f32x4_extract_lane::<3>(x),
        ];
        let [a, b, c, d] = lanes.map(f);
        Self(f32x4(a, b, c, d))
    }
}

impl Lanes for F32x4 {
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: this function has the same contract.
        Self(unsafe { v128_load(from.cast()) })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: this function has the same contract.
        unsafe { v128_store(to.cast(), self.0) }
    }
    #[inline(always)]
    unsafe fn load_some(from: *const f32, n: usize) -> Self {
        // SAFETY: this function has the same contract.
        Self(unsafe { load_fours(from.cast(), n) })
    }
    #[inline(always)]
    unsafe fn store_some(self, to: *mut f32, n: usize) {
        // SAFETY: this function has the same contract.
        unsafe { store_fours(self.0, to.cast(), n) }
    }
    // The instructions return `other` only if it compares as larger or smaller, so they return `self` if either is NaN.
    #[inline(always)]
    unsafe fn max_number(self, other: Self) -> Self {
        Self(f32x4_pmax(self.0, other.0))
    }
    #[inline(always)]
    unsafe fn min_number(self, other: Self) -> Self {
        Self(f32x4_pmin(self.0, other.0))
    }
    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        let is_number = f32x4_eq(other.0, other.0);
        Self(v128_bitselect(f32x4_pmax(self.0, other.0), other.0, is_number))
    }
    #[inline(always)]
    unsafe fn min(self, other: Self) -> Self {
        let is_number = f32x4_eq(other.0, other.0);
        Self(v128_bitselect(f32x4_pmin(self.0, other.0), other.0, is_number))
    }
    #[inline(always)]
    unsafe fn zero() -> Self {
        Self(f32x4_splat(0.0))
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Self(f32x4_splat(x))
    }
    #[inline(always)]
    unsafe fn unzip(self, other: Self) -> (Self, Self) {
        let even = i32x4_shuffle::<0, 2, 4, 6>(self.0, other.0);
        let odd = i32x4_shuffle::<1, 3, 5, 7>(self.0, other.0);
        (Self(even), Self(odd))
    }
    #[inline(always)]
    unsafe fn zip(self, other: Self) -> (Self, Self) {
        let low = i32x4_shuffle::<0, 4, 1, 5>(self.0, other.0);
        let high = i32x4_shuffle::<2, 6, 3, 7>(self.0, other.0);
        (Self(low), Self(high))
    }
    #[inline(always)]
    unsafe fn round_f16(self) -> Self {
        self.each(|x| f16::from_f32(x).to_f32())
    }
    #[inline(always)]
    unsafe fn round_bf16(self) -> Self {
        self.each(|x| bf16::from_f32(x).to_f32())
    }
    instructions! {
        add(other) = f32x4_add;
        sub(other) = f32x4_sub;
        mul(other) = f32x4_mul;
        div(other) = f32x4_div;
        neg() = f32x4_neg;
        abs() = f32x4_abs;
        sqrt() = f32x4_sqrt;
    }
}
