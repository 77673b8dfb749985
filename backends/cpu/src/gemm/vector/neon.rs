//! Pairs of registers of NEON, which every 64-bit processor of ARM has. With pairs, tiles have the extents of AVX2's.

use std::arch::aarch64::*;

use super::Vector;
use crate::gemm::floats::Floats;

macro_rules! pair {
    ($name:ident, $register:ty, $item:ty, $half:literal, $dup:ident, $load:ident, $store:ident, $add:ident, $mul_add:ident) => {
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct $name([$register; 2]);

        impl Vector for $name {
            type Item = $item;
            /// The number of lanes.
            type Mask = usize;
            const LANES: usize = 2 * $half;

            #[inline(always)]
            unsafe fn zero() -> Self {
                // SAFETY: every 64-bit processor of ARM has NEON.
                Self(unsafe { [$dup(0 as $item); 2] })
            }
            #[inline(always)]
            unsafe fn splat(from: *const $item) -> Self {
                // SAFETY: every 64-bit processor of ARM has NEON; this function has the same contract.
                Self(unsafe { [$dup(*from); 2] })
            }
            #[inline(always)]
            unsafe fn load(from: *const $item) -> Self {
                // SAFETY: this function has the same contract.
                Self(unsafe { [$load(from), $load(from.add($half))] })
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $item) {
                let [low, high] = self.0;
                // SAFETY: this function has the same contract.
                unsafe {
                    $store(to, low);
                    $store(to.add($half), high);
                }
            }
            #[inline(always)]
            unsafe fn mask(n: usize) -> usize {
                n
            }
            #[inline(always)]
            unsafe fn load_some(from: *const $item, mask: usize) -> Self {
                // SAFETY: this function has the same contract; the array has room for a vector.
                unsafe {
                    if mask == Self::LANES {
                        return Self::load(from);
                    }
                    let mut lanes = [0 as $item; 2 * $half];
                    for (i, lane) in lanes.iter_mut().enumerate().take(mask) {
                        *lane = *from.add(i);
                    }
                    Self::load(lanes.as_ptr())
                }
            }
            #[inline(always)]
            unsafe fn store_some(self, to: *mut $item, mask: usize) {
                // SAFETY: this function has the same contract; the array has room for a vector.
                unsafe {
                    if mask == Self::LANES {
                        return self.store(to);
                    }
                    let mut lanes = [0 as $item; 2 * $half];
                    self.store(lanes.as_mut_ptr());
                    for (i, lane) in lanes.into_iter().enumerate().take(mask) {
                        to.add(i).write(lane);
                    }
                }
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                let ([low, high], [other_low, other_high]) = (self.0, other.0);
                // SAFETY: every 64-bit processor of ARM has NEON.
                Self(unsafe { [$add(low, other_low), $add(high, other_high)] })
            }
            #[inline(always)]
            unsafe fn mul_add(self, a: Self, b: Self) -> Self {
                let ([low, high], [a_low, a_high], [b_low, b_high]) = (self.0, a.0, b.0);
                // SAFETY: every 64-bit processor of ARM has NEON.
                Self(unsafe { [$mul_add(low, a_low, b_low), $mul_add(high, a_high, b_high)] })
            }
        }
    };
}

pair!(F32, float32x4_t, f32, 4, vdupq_n_f32, vld1q_f32, vst1q_f32, vaddq_f32, vfmaq_f32);
pair!(F64, float64x2_t, f64, 2, vdupq_n_f64, vld1q_f64, vst1q_f64, vaddq_f64, vfmaq_f64);
pair!(I32, int32x4_t, i32, 4, vdupq_n_s32, vld1q_s32, vst1q_s32, vaddq_s32, vmlaq_s32);

impl Floats for F32 {
    // The instruction for maxima returns NaN if either operand is NaN.
    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        let ([low, high], [other_low, other_high]) = (self.0, other.0);
        // SAFETY: every 64-bit processor of ARM has NEON.
        Self(unsafe { [vmaxq_f32(low, other_low), vmaxq_f32(high, other_high)] })
    }
    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        let ([low, high], [other_low, other_high]) = (self.0, other.0);
        // SAFETY: every 64-bit processor of ARM has NEON.
        Self(unsafe { [vdivq_f32(low, other_low), vdivq_f32(high, other_high)] })
    }
    #[inline(always)]
    unsafe fn alternate(from: *const f32) -> Self {
        // SAFETY: this function has the same contract: the last register ends at element 14. The second half is made of the
        // odd lanes of registers that begin at odd elements.
        unsafe {
            let low = vuzp1q_f32(vld1q_f32(from), vld1q_f32(from.add(4)));
            let high = vuzp2q_f32(vld1q_f32(from.add(7)), vld1q_f32(from.add(11)));
            Self([low, high])
        }
    }
}
