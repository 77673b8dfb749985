//! Products of four bytes by the instructions of 64-bit processors of ARM, which all have NEON.

use std::arch::aarch64::*;
use std::arch::asm;

use super::Quads;

/// Sums of products in 16 bits, in which each product of two bytes fits. A register has two sums for each of two columns, the
/// other one those of the next two.
#[derive(Debug, Clone, Copy)]
pub(super) struct Widened([int32x4_t; 2]);

/// Widens bytes.
#[inline(always)]
fn widened<const SIGNED: bool>(bytes: uint8x8_t) -> int16x8_t {
    // SAFETY: every 64-bit processor of ARM has NEON.
    unsafe {
        if SIGNED { vmovl_s8(vreinterpret_s8_u8(bytes)) } else { vreinterpretq_s16_u16(vmovl_u8(bytes)) }
    }
}

// SAFETY of every body: the processor has NEON, and the trait's callers promise what pointers point to.
impl Quads for Widened {
    type Left = int16x8_t;
    type Right = [int16x8_t; 2];
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: as above.
        Self(unsafe { [vdupq_n_s32(0); 2] })
    }
    #[inline(always)]
    unsafe fn left<const SIGNED: bool>(from: *const u8) -> int16x8_t {
        // SAFETY: as above.
        unsafe { widened::<SIGNED>(vreinterpret_u8_u32(vdup_n_u32(from.cast::<u32>().read_unaligned()))) }
    }
    #[inline(always)]
    unsafe fn right<const SIGNED: bool>(from: *const u8) -> [int16x8_t; 2] {
        // SAFETY: as above.
        let (low, high) = unsafe { (vld1_u8(from), vld1_u8(from.add(8))) };
        if SIGNED {
            [widened::<false>(low), widened::<false>(high)]
        } else {
            [widened::<true>(low), widened::<true>(high)]
        }
    }
    #[inline(always)]
    unsafe fn add<const SIGNED: bool>(self, left: int16x8_t, [low, high]: [int16x8_t; 2]) -> Self {
        let [low_sums, high_sums] = self.0;
        // SAFETY: as above.
        unsafe {
            Self([vpadalq_s16(low_sums, vmulq_s16(left, low)), vpadalq_s16(high_sums, vmulq_s16(left, high))])
        }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut i32) {
        let [low, high] = self.0;
        // SAFETY: as above.
        unsafe { vst1q_s32(to, vpaddq_s32(low, high)) }
    }
}

/// Sums to which one instruction of the extension I8MM adds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mixed(int32x4_t);

// SAFETY of every body: the trait's callers promise the extension, and what pointers point to.
impl Quads for Mixed {
    type Left = uint8x16_t;
    type Right = uint8x16_t;
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: as above.
        Self(unsafe { vdupq_n_s32(0) })
    }
    #[inline(always)]
    unsafe fn left<const SIGNED: bool>(from: *const u8) -> uint8x16_t {
        // SAFETY: as above.
        unsafe { vreinterpretq_u8_u32(vdupq_n_u32(from.cast::<u32>().read_unaligned())) }
    }
    #[inline(always)]
    unsafe fn right<const SIGNED: bool>(from: *const u8) -> uint8x16_t {
        // SAFETY: as above.
        unsafe { vld1q_u8(from) }
    }
    #[inline(always)]
    unsafe fn add<const SIGNED: bool>(self, left: uint8x16_t, right: uint8x16_t) -> Self {
        let (unsigned, signed) = if SIGNED { (right, left) } else { (left, right) };
        let mut sums = self.0;
        // The compiler's own function for this instruction, `vusdotq_s32`, is not stable.
        // SAFETY: as above; the instruction reads and writes nothing but these registers.
        unsafe {
            asm!(
                "usdot {sums:v}.4s, {unsigned:v}.16b, {signed:v}.16b",
                sums = inout(vreg) sums,
                unsigned = in(vreg) unsigned,
                signed = in(vreg) signed,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        Self(sums)
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut i32) {
        // SAFETY: as above.
        unsafe { vst1q_s32(to, self.0) }
    }
}
