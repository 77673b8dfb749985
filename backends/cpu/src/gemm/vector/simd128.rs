//! The registers of WebAssembly's SIMD128. A vector is one register, because processors that run WebAssembly may have only 16.

use std::arch::wasm32::*;

use super::Vector;
use crate::gemm::floats::Floats;
use crate::kernels::lanes::simd128::{load_fours, store_fours};

macro_rules! register {
    ($name:ident, $item:ty, $lanes:literal, $splat:ident, $load_lanes:ident, $store_lanes:ident, $add:ident, $mul:ident) => {
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct $name(v128);

        impl Vector for $name {
            type Item = $item;
            /// The number of lanes.
            type Mask = usize;
            const LANES: usize = $lanes;
            const BRANCHES: bool = true;

            #[inline(always)]
            unsafe fn zero() -> Self {
                Self($splat(0 as $item))
            }
            #[inline(always)]
            unsafe fn splat(from: *const $item) -> Self {
                // SAFETY: this function has the same contract.
                Self($splat(unsafe { *from }))
            }
            #[inline(always)]
            unsafe fn load(from: *const $item) -> Self {
                // SAFETY: this function has the same contract.
                Self(unsafe { v128_load(from.cast()) })
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $item) {
                // SAFETY: this function has the same contract.
                unsafe { v128_store(to.cast(), self.0) }
            }
            #[inline(always)]
            unsafe fn mask(n: usize) -> usize {
                n
            }
            #[inline(always)]
            unsafe fn load_some(from: *const $item, mask: usize) -> Self {
                // SAFETY: this function has the same contract.
                Self(unsafe { $load_lanes(from.cast(), mask) })
            }
            #[inline(always)]
            unsafe fn store_some(self, to: *mut $item, mask: usize) {
                // SAFETY: this function has the same contract.
                unsafe { $store_lanes(self.0, to.cast(), mask) }
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                Self($add(self.0, other.0))
            }
            #[inline(always)]
            unsafe fn mul_add(self, a: Self, b: Self) -> Self {
                Self($add(self.0, $mul(a.0, b.0)))
            }
        }
    };
}

register!(F32, f32, 4, f32x4_splat, load_fours, store_fours, f32x4_add, f32x4_mul);
register!(F64, f64, 2, f64x2_splat, load_eights, store_eights, f64x2_add, f64x2_mul);
register!(I32, i32, 4, i32x4_splat, load_fours, store_fours, i32x4_add, i32x4_mul);

/// Reads the first `n` lanes of 8 bytes; the other lanes are zero.
///
/// # Safety
///
/// There are `n` elements.
#[inline(always)]
unsafe fn load_eights(from: *const u64, n: usize) -> v128 {
    // SAFETY: this function has the same contract.
    unsafe {
        match n {
            0 => i32x4_splat(0),
            1 => v128_load64_zero(from),
            _ => v128_load(from.cast()),
        }
    }
}

/// Writes the first `n` lanes of 8 bytes.
///
/// # Safety
///
/// There is room for `n` elements.
#[inline(always)]
unsafe fn store_eights(x: v128, to: *mut u64, n: usize) {
    // SAFETY: this function has the same contract.
    unsafe {
        match n {
            0 => {}
            1 => v128_store64_lane::<0>(x, to),
            _ => v128_store(to.cast(), x),
        }
    }
}

impl Floats for F32 {
    // The instruction for maxima returns NaN if either operand is NaN.
    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        Self(f32x4_max(self.0, other.0))
    }
    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        Self(f32x4_div(self.0, other.0))
    }
    #[inline(always)]
    unsafe fn alternate(from: *const f32) -> Self {
        // SAFETY: this function has the same contract: the second register ends at element 6.
        unsafe {
            let (low, high) = (v128_load(from.cast()), v128_load(from.add(3).cast()));
            Self(i32x4_shuffle::<0, 2, 5, 7>(low, high))
        }
    }
}
