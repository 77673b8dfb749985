//! Pairs of NEON registers, which every 64-bit ARM processor has. With pairs, tiles have the same extents as with AVX2.

use std::arch::aarch64::*;

use super::Vector;
use crate::gemm::elements;
use crate::gemm::floats::Floats;

macro_rules! pair {
    ($name:ident, $register:ty, $item:ty, $half:literal, $dup:ident, $load:ident, $store:ident, $add:ident, $mul_add:ident,
     $mul_add_one:ident, $total:ident, [$($more:tt)*]) => {
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct $name([$register; 2]);

        impl Vector for $name {
            type Item = $item;
            /// The number of lanes.
            type Mask = usize;
            const LANES: usize = 2 * $half;
            const BRANCHES: bool = true;
            const AT_ONCE: usize = $half;

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
                // SAFETY: this function has the same contract.
                unsafe {
                    if mask == Self::LANES {
                        Self::load(from)
                    } else if mask < $half {
                        Self([first::<$item, $register>(from, mask), $dup(0 as $item)])
                    } else {
                        Self([$load(from), first::<$item, $register>(from.add($half), mask - $half)])
                    }
                }
            }
            #[inline(always)]
            unsafe fn store_some(self, to: *mut $item, mask: usize) {
                let [low, high] = self.0;
                // SAFETY: this function has the same contract.
                unsafe {
                    if mask == Self::LANES {
                        self.store(to);
                    } else if mask < $half {
                        put_first::<$item, $register>(low, to, mask);
                    } else {
                        $store(to, low);
                        put_first::<$item, $register>(high, to.add($half), mask - $half);
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
            #[inline(always)]
            unsafe fn some(from: *const $item) -> Self {
                // SAFETY: this function has the same contract; the elements fill one register.
                Self(unsafe { [$load(from); 2] })
            }
            #[inline(always)]
            unsafe fn mul_add_one<const AT: usize>(self, some: Self, b: Self) -> Self {
                let ([low, high], [some, _], [b_low, b_high]) = (self.0, some.0, b.0);
                // SAFETY: every 64-bit processor of ARM has NEON. The index of an element is checked at compile time,
                // and the macro maps indices beyond the register to its last element.
                unsafe { $mul_add_one!(AT, low, high, some, b_low, b_high) }
            }
            #[inline(always)]
            unsafe fn total(self) -> $item {
                let [low, high] = self.0;
                // SAFETY: every 64-bit processor of ARM has NEON.
                unsafe { $total($add(low, high)) }
            }
            $($more)*
        }
    };
}

/// Multiplies by element `$at` of a register of four.
macro_rules! of_four {
    ($f:ident, $at:ident, $low:ident, $high:ident, $some:ident, $b_low:ident, $b_high:ident) => {
        Self(match $at {
            0 => [$f::<0>($low, $b_low, $some), $f::<0>($high, $b_high, $some)],
            1 => [$f::<1>($low, $b_low, $some), $f::<1>($high, $b_high, $some)],
            2 => [$f::<2>($low, $b_low, $some), $f::<2>($high, $b_high, $some)],
            _ => [$f::<3>($low, $b_low, $some), $f::<3>($high, $b_high, $some)],
        })
    };
}

macro_rules! of_four_floats {
    ($($given:ident),*) => { of_four!(vfmaq_laneq_f32, $($given),*) };
}

macro_rules! of_four_integers {
    ($($given:ident),*) => { of_four!(vmlaq_laneq_s32, $($given),*) };
}

/// Multiplies by element `$at` of a register of two.
macro_rules! of_two {
    ($at:ident, $low:ident, $high:ident, $some:ident, $b_low:ident, $b_high:ident) => {
        Self(match $at {
            0 => [vfmaq_laneq_f64::<0>($low, $b_low, $some), vfmaq_laneq_f64::<0>($high, $b_high, $some)],
            _ => [vfmaq_laneq_f64::<1>($low, $b_low, $some), vfmaq_laneq_f64::<1>($high, $b_high, $some)],
        })
    };
}

pair!(
    F32, float32x4_t, f32, 4, vdupq_n_f32, vld1q_f32, vst1q_f32, vaddq_f32, vfmaq_f32, of_four_floats, halved,
    [
        #[inline(always)]
        unsafe fn first_products<const ROWS: usize, const VECTORS: usize>(
            k: usize,
            (a, a_row): (*const f32, isize),
            (b, b_row): (*const f32, isize),
            sums: &mut [[Self; VECTORS]; ROWS],
        ) -> usize {
            let (pairs, turns) = (sums.as_flattened_mut().as_chunks_mut::<2>().0, k / 4);
            if VECTORS != 2 || turns == 0 {
                return 0;
            }
            // SAFETY: every 64-bit processor of ARM has NEON.
            let mut rows = [[unsafe { vdupq_n_f32(0.0) }; 4]; ROWS];
            for (row, &[F32([s, t]), F32([u, w])]) in rows.iter_mut().zip(&*pairs) {
                *row = [s, t, u, w];
            }
            let of = elements::Operands {
                turns,
                left: a.cast(),
                left_row: a_row * 4,
                right: b.cast(),
                right_row: b_row * 4,
            };
            // SAFETY: this function has the same contract; two vectors are the four registers of a row.
            if !unsafe { elements::floats(&of, &mut rows) } {
                return 0;
            }
            for (pair, [s, t, u, w]) in pairs.iter_mut().zip(rows) {
                *pair = [F32([s, t]), F32([u, w])];
            }
            4 * turns
        }
        #[inline(always)]
        unsafe fn mul(self, other: Self) -> Self {
            let ([low, high], [other_low, other_high]) = (self.0, other.0);
            // SAFETY: every 64-bit processor of ARM has NEON.
            Self(unsafe { [vmulq_f32(low, other_low), vmulq_f32(high, other_high)] })
        }
        #[inline(always)]
        unsafe fn within(self, [low, high]: [Self; 2]) -> Self {
            let within = |x, low, high| {
                // SAFETY: every 64-bit processor of ARM has NEON. The instructions for maxima and minima would change the sign of a zero.
                unsafe {
                    let x = vbslq_f32(vcltq_f32(x, low), low, x);
                    vbslq_f32(vcgtq_f32(x, high), high, x)
                }
            };
            let ([x, y], [x_low, y_low], [x_high, y_high]) = (self.0, low.0, high.0);
            Self([within(x, x_low, x_high), within(y, y_low, y_high)])
        }
    ]
);
pair!(
    F64,
    float64x2_t,
    f64,
    2,
    vdupq_n_f64,
    vld1q_f64,
    vst1q_f64,
    vaddq_f64,
    vfmaq_f64,
    of_two,
    vpaddd_f64,
    []
);
pair!(
    I32,
    int32x4_t,
    i32,
    4,
    vdupq_n_s32,
    vld1q_s32,
    vst1q_s32,
    vaddq_s32,
    vmlaq_s32,
    of_four_integers,
    vaddvq_s32,
    []
);

/// Returns the sum of the lanes. Adds the upper half to the lower half until one lane is left.
#[inline(always)]
unsafe fn halved(x: float32x4_t) -> f32 {
    // SAFETY: every 64-bit processor of ARM has NEON.
    unsafe { vpadds_f32(vadd_f32(vget_low_f32(x), vget_high_f32(x))) }
}

/// Reads the first `n` elements of a register of two or four elements. The other elements are zero.
///
/// # Safety
///
/// There are `n` elements, which are fewer than a register has. `R` is a register of elements `T`.
#[inline(always)]
unsafe fn first<T: Copy, R: Copy>(from: *const T, n: usize) -> R {
    // SAFETY: this function's contract. All registers have the same size.
    unsafe {
        let register = if size_of::<T>() == 8 {
            let low = if n == 1 { from.cast::<u64>().read() } else { 0 };
            vreinterpretq_u8_u64(vsetq_lane_u64::<0>(low, vdupq_n_u64(0)))
        } else {
            let from = from.cast::<u32>();
            let low = if n >= 2 { from.cast::<u64>().read_unaligned() } else { 0 };
            let pair = vsetq_lane_u64::<0>(low, vdupq_n_u64(0));
            vreinterpretq_u8_u32(match n {
                0 | 2 => vreinterpretq_u32_u64(pair),
                1 => vsetq_lane_u32::<0>(from.read(), vdupq_n_u32(0)),
                _ => vsetq_lane_u32::<2>(from.add(2).read(), vreinterpretq_u32_u64(pair)),
            })
        };
        std::mem::transmute_copy::<uint8x16_t, R>(&register)
    }
}

/// Writes the first `n` elements of a register of two or four elements.
///
/// # Safety
///
/// There is room for `n` elements, which are fewer than a register has. `R` is a register of elements `T`.
#[inline(always)]
unsafe fn put_first<T: Copy, R: Copy>(x: R, to: *mut T, n: usize) {
    // SAFETY: this function's contract. All registers have the same size.
    unsafe {
        let register = std::mem::transmute_copy::<R, uint8x16_t>(&x);
        if size_of::<T>() == 8 {
            if n == 1 {
                vst1q_lane_u64::<0>(to.cast(), vreinterpretq_u64_u8(register));
            }
            return;
        }
        let to = to.cast::<u32>();
        if n >= 2 {
            to.cast::<u64>().write_unaligned(vgetq_lane_u64::<0>(vreinterpretq_u64_u8(register)));
        }
        match n {
            1 => vst1q_lane_u32::<0>(to, vreinterpretq_u32_u8(register)),
            3 => vst1q_lane_u32::<2>(to.add(2), vreinterpretq_u32_u8(register)),
            _ => {}
        }
    }
}

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
        // SAFETY: this function has the same contract: the last register ends at element 14. The second half consists
        // of the odd lanes of registers that begin at odd elements.
        unsafe {
            let low = vuzp1q_f32(vld1q_f32(from), vld1q_f32(from.add(4)));
            let high = vuzp2q_f32(vld1q_f32(from.add(7)), vld1q_f32(from.add(11)));
            Self([low, high])
        }
    }
}
