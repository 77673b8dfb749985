//! Units of 64-bit ARM: one with dot products, which add four products of bytes to 32 bits, and one with the
//! multiplications of plain NEON.
//!
//! A panel has 16 columns. With eight columns, the overhead per block would weigh more if there is one row.
//! Instructions for matrix products would halve the multiplications of many rows, but rearranging their operands would
//! cost most of the gain.

use super::tile::{Unit, kernels, tiles};
use crate::gemm::integer::quads::neon::dot;
use std::arch::aarch64::*;

/// The number of groups of four columns. Each group has one register.
const FOURS: usize = 4;

/// The functions that both units have in common.
macro_rules! common {
    () => {
        const LANES: usize = 4 * FOURS;
        const SIGNED: bool = true;
        type Bytes = [uint8x16_t; FOURS];
        type Numbers = [uint8x16_t; FOURS];
        type Floats = [float32x4_t; FOURS];

        #[inline(always)]
        unsafe fn load(from: *const u8) -> [uint8x16_t; FOURS] {
            // SAFETY: the trait's callers guarantee that the instruction set is available and the bytes are valid.
            unsafe { numbered(|i| vld1q_u8(from.add(16 * i))) }
        }
        #[inline(always)]
        unsafe fn part<const BITS: usize>(bytes: [uint8x16_t; FOURS], above: usize) -> [uint8x16_t; FOURS] {
            // SAFETY: the trait's callers guarantee that the instruction set is available.
            unsafe {
                mapped(bytes, |bytes| match (BITS, above) {
                    (8, _) => bytes,
                    (4, 0) => vandq_u8(bytes, vdupq_n_u8(15)),
                    (4, _) => vshrq_n_u8::<4>(bytes),
                    (_, 0) => vandq_u8(bytes, vdupq_n_u8(3)),
                    (_, 1) => vandq_u8(vshrq_n_u8::<2>(bytes), vdupq_n_u8(3)),
                    (_, 2) => vandq_u8(vshrq_n_u8::<4>(bytes), vdupq_n_u8(3)),
                    _ => vshrq_n_u8::<6>(bytes),
                })
            }
        }
        #[inline(always)]
        unsafe fn floats(x: f32) -> [float32x4_t; FOURS] {
            // SAFETY: the trait's callers guarantee that the instruction set is available.
            [unsafe { vdupq_n_f32(x) }; FOURS]
        }
        #[inline(always)]
        unsafe fn singles(from: *const u8) -> [float32x4_t; FOURS] {
            // SAFETY: the trait's callers guarantee that the instruction set is available and the bytes are valid.
            unsafe { numbered(|i| vreinterpretq_f32_u8(vld1q_u8(from.add(16 * i)))) }
        }
        #[inline(always)]
        unsafe fn halves(from: *const u8) -> [float32x4_t; FOURS] {
            // SAFETY: the trait's callers guarantee that the instruction set is available and the bytes are valid.
            unsafe { numbered(|i| vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(from.add(8 * i))))) }
        }
        #[inline(always)]
        unsafe fn bytes(from: *const u8) -> [float32x4_t; FOURS] {
            // SAFETY: the trait's callers guarantee that the instruction set is available and the bytes are valid.
            unsafe {
                numbered(|i| {
                    let four = from.add(4 * i).cast::<u32>().read_unaligned();
                    let wide = vmovl_u8(vcreate_u8(u64::from(four)));
                    vcvtq_f32_u32(vmovl_u16(vget_low_u16(wide)))
                })
            }
        }
        #[inline(always)]
        unsafe fn mul(a: [float32x4_t; FOURS], b: [float32x4_t; FOURS]) -> [float32x4_t; FOURS] {
            // SAFETY: the trait's callers guarantee that the instruction set is available.
            unsafe { zipped(a, b, |a, b| vmulq_f32(a, b)) }
        }
        #[inline(always)]
        unsafe fn mul_add(
            a: [float32x4_t; FOURS],
            b: [float32x4_t; FOURS],
            mut c: [float32x4_t; FOURS],
        ) -> [float32x4_t; FOURS] {
            for ((a, b), c) in a.into_iter().zip(b).zip(&mut c) {
                // SAFETY: the trait's callers guarantee that the instruction set is available.
                *c = unsafe { vfmaq_f32(*c, a, b) };
            }
            c
        }
        #[inline(always)]
        unsafe fn store(x: [float32x4_t; FOURS], to: *mut f32) {
            for (i, x) in x.into_iter().enumerate() {
                // SAFETY: the trait's callers guarantee that the instruction set is available and there is room for the result.
                unsafe { vst1q_f32(to.add(4 * i), x) };
            }
        }
    };
}

/// Builds an array by calling a function with each index.
#[inline(always)]
fn numbered<T: Copy, const N: usize>(f: impl Fn(usize) -> T) -> [T; N] {
    let mut out = [f(0); N];
    for (i, out) in out.iter_mut().enumerate().skip(1) {
        *out = f(i);
    }
    out
}

/// Applies a function to each element of an array.
#[inline(always)]
fn mapped<T: Copy, const N: usize>(mut x: [T; N], f: impl Fn(T) -> T) -> [T; N] {
    for x in &mut x {
        *x = f(*x);
    }
    x
}

/// Applies a function to the pairs of elements of two arrays.
#[inline(always)]
fn zipped<T: Copy, U: Copy, const N: usize>(mut a: [T; N], b: [U; N], f: impl Fn(T, U) -> T) -> [T; N] {
    for (a, b) in a.iter_mut().zip(b) {
        *a = f(*a, b);
    }
    a
}

/// A unit with dot products of signed bytes.
struct Dots;

impl Unit for Dots {
    common!();
    type Left = uint8x16_t;
    type Open = [int32x4_t; FOURS];
    type Ints = [int32x4_t; FOURS];

    #[inline(always)]
    unsafe fn left(from: *const u8) -> uint8x16_t {
        // SAFETY: the trait's callers guarantee that the instruction set is available and the bytes are valid.
        unsafe { vld1q_u8(from) }
    }
    #[inline(always)]
    unsafe fn open<const BITS: usize>(total: [int32x4_t; FOURS]) -> [int32x4_t; FOURS] {
        total
    }
    #[inline(always)]
    unsafe fn add<const BITS: usize, const AT: usize>(
        sums: [int32x4_t; FOURS],
        right: [uint8x16_t; FOURS],
        left: uint8x16_t,
    ) -> [int32x4_t; FOURS] {
        // SAFETY: the trait's callers guarantee that the instruction set is available.
        unsafe {
            zipped(sums, right, |sums, right| match AT % 4 {
                0 => dot::<true, 0>(sums, right, left),
                1 => dot::<true, 1>(sums, right, left),
                2 => dot::<true, 2>(sums, right, left),
                _ => dot::<true, 3>(sums, right, left),
            })
        }
    }
    #[inline(always)]
    unsafe fn close<const BITS: usize>(
        sums: [int32x4_t; FOURS],
        _total: [int32x4_t; FOURS],
    ) -> [int32x4_t; FOURS] {
        sums
    }
    #[inline(always)]
    unsafe fn ints(x: i32) -> [int32x4_t; FOURS] {
        // SAFETY: the trait's callers guarantee that the instruction set is available.
        [unsafe { vdupq_n_s32(x) }; FOURS]
    }
    #[inline(always)]
    unsafe fn converted(x: [int32x4_t; FOURS]) -> [float32x4_t; FOURS] {
        // SAFETY: the trait's callers guarantee that the instruction set is available.
        unsafe {
            let mut out = [vdupq_n_f32(0.0); FOURS];
            for (out, x) in out.iter_mut().zip(x) {
                *out = vcvtq_f32_s32(x);
            }
            out
        }
    }
}

/// A unit without dot products. It sums products of bytes in 16 bits: a register has four sums for each of two columns.
///
/// Products of numbers of up to 4 bits are at most `15 * 127`, and sums of 16 products fit in 16 bits. Products of
/// 8-bit numbers are at most `128 * 127`, so sums of two products are widened.
struct Long;

/// For each group of columns: sums of 16 bits, and the sums of 32 bits for 8-bit numbers.
type Sums = [([int16x8_t; 2], [int32x4_t; 2]); FOURS];

impl Unit for Long {
    common!();
    type Left = uint8x16_t;
    type Open = Sums;
    /// Two integers for each column, whose sum is the column's sum.
    type Ints = [[int32x4_t; 2]; FOURS];

    #[inline(always)]
    unsafe fn left(from: *const u8) -> uint8x16_t {
        // SAFETY: the trait's callers guarantee that the instruction set is available and the bytes are valid.
        unsafe { vld1q_u8(from) }
    }
    #[inline(always)]
    unsafe fn open<const BITS: usize>(total: [[int32x4_t; 2]; FOURS]) -> Sums {
        // SAFETY: the trait's callers guarantee that the instruction set is available.
        let mut sums = [unsafe { ([vdupq_n_s16(0); 2], [vdupq_n_s32(0); 2]) }; FOURS];
        for (sums, total) in sums.iter_mut().zip(total) {
            sums.1 = total;
        }
        sums
    }
    #[inline(always)]
    unsafe fn add<const BITS: usize, const AT: usize>(
        sums: Sums,
        right: [uint8x16_t; FOURS],
        left: uint8x16_t,
    ) -> Sums {
        // SAFETY: the trait's callers guarantee that the instruction set is available.
        unsafe {
            let left = vreinterpretq_s32_u8(left);
            let left = vreinterpretq_s8_s32(match AT % 4 {
                0 => vdupq_laneq_s32::<0>(left),
                1 => vdupq_laneq_s32::<1>(left),
                2 => vdupq_laneq_s32::<2>(left),
                _ => vdupq_laneq_s32::<3>(left),
            });
            let is_first = AT == 0 || BITS == 8 && AT.is_multiple_of(2);
            zipped(sums, right, |([low, high], [total_low, total_high]), right| {
                let right = vreinterpretq_s8_u8(right);
                if is_first {
                    let low = vmull_s8(vget_low_s8(right), vget_low_s8(left));
                    return ([low, vmull_high_s8(right, left)], [total_low, total_high]);
                }
                let low = vmlal_s8(low, vget_low_s8(right), vget_low_s8(left));
                let high = vmlal_high_s8(high, right, left);
                if BITS == 8 {
                    return ([low, high], [vpadalq_s16(total_low, low), vpadalq_s16(total_high, high)]);
                }
                ([low, high], [total_low, total_high])
            })
        }
    }
    #[inline(always)]
    unsafe fn close<const BITS: usize>(
        sums: Sums,
        mut total: [[int32x4_t; 2]; FOURS],
    ) -> [[int32x4_t; 2]; FOURS] {
        for (([low, high], wide), total) in sums.into_iter().zip(&mut total) {
            let [total_low, total_high] = *total;
            // SAFETY: the trait's callers guarantee that the instruction set is available.
            *total = unsafe {
                if BITS == 8 { wide } else { [vpadalq_s16(total_low, low), vpadalq_s16(total_high, high)] }
            };
        }
        total
    }
    #[inline(always)]
    unsafe fn ints(x: i32) -> [[int32x4_t; 2]; FOURS] {
        // SAFETY: the trait's callers guarantee that the instruction set is available.
        let first = unsafe { vreinterpretq_s32_u64(vdupq_n_u64(u64::from(x.cast_unsigned()))) };
        [[first; 2]; FOURS]
    }
    #[inline(always)]
    unsafe fn converted(x: [[int32x4_t; 2]; FOURS]) -> [float32x4_t; FOURS] {
        // SAFETY: the trait's callers guarantee that the instruction set is available.
        unsafe {
            let mut out = [vdupq_n_f32(0.0); FOURS];
            for (out, [low, high]) in out.iter_mut().zip(x) {
                *out = vcvtq_f32_s32(vpaddq_s32(low, high));
            }
            out
        }
    }
}

kernels!(DOTPROD, dots, round_dots, Dots, ["neon,dotprod"], 4, [4 2 1]);
kernels!(NEON, long, round_long, Long, [], 2, [2 1]);
