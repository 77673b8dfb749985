//! A unit of WebAssembly's SIMD128. Its instruction multiplies pairs of 16-bit integers and adds the two products to 32
//! bits.
//!
//! Bytes are widened by shifts within 16 bits. Of the four bytes of a column, the two at even indices and the two at
//! odd indices form one vector each.

use super::tile::{Unit, kernels, tiles};
use std::arch::wasm32::*;

/// The number of groups of four columns, each with one register. Processors that run WebAssembly may have only 16 registers.
const FOURS: usize = 2;

/// Returns the bytes at even indices, widened to 16 bits.
#[inline(always)]
fn even(bytes: v128) -> v128 {
    i16x8_shr(i16x8_shl(bytes, 8), 8)
}

/// Returns the bytes at odd indices, widened to 16 bits.
#[inline(always)]
fn odd(bytes: v128) -> v128 {
    i16x8_shr(bytes, 8)
}

/// Builds an array by calling a function with each index.
#[inline(always)]
fn numbered(f: impl Fn(usize) -> v128) -> [v128; FOURS] {
    let mut out = [f(0); FOURS];
    for (i, out) in out.iter_mut().enumerate().skip(1) {
        *out = f(i);
    }
    out
}

struct Pairs;

impl Unit for Pairs {
    const LANES: usize = 4 * FOURS;
    const SIGNED: bool = true;
    type Bytes = [v128; FOURS];
    /// Numbers at even indices and numbers at odd indices.
    type Numbers = [[v128; 2]; FOURS];
    /// Numbers at even indices and numbers at odd indices.
    type Left = [v128; 2];
    type Open = [v128; FOURS];
    type Ints = [v128; FOURS];
    type Floats = [v128; FOURS];

    #[inline(always)]
    unsafe fn load(from: *const u8) -> [v128; FOURS] {
        // SAFETY: the caller guarantees that the bytes are valid.
        unsafe { numbered(|i| v128_load(from.add(16 * i).cast())) }
    }
    #[inline(always)]
    unsafe fn part<const BITS: usize>(bytes: [v128; FOURS], above: usize) -> [[v128; 2]; FOURS] {
        let mut out = [[u16x8_splat(0); 2]; FOURS];
        for (out, bytes) in out.iter_mut().zip(bytes) {
            let shift = (BITS * above) as u32;
            let mask = u16x8_splat((1 << BITS) - 1);
            *out = if BITS == 8 {
                [even(bytes), odd(bytes)]
            } else {
                [v128_and(u16x8_shr(bytes, shift), mask), v128_and(u16x8_shr(bytes, 8 + shift), mask)]
            };
        }
        out
    }
    #[inline(always)]
    unsafe fn left(from: *const u8) -> [v128; 2] {
        // SAFETY: the caller guarantees that the bytes are valid.
        let bytes = unsafe { v128_load(from.cast()) };
        [even(bytes), odd(bytes)]
    }
    #[inline(always)]
    unsafe fn open<const BITS: usize>(total: [v128; FOURS]) -> [v128; FOURS] {
        total
    }
    #[inline(always)]
    unsafe fn add<const BITS: usize, const AT: usize>(
        mut sums: [v128; FOURS],
        right: [[v128; 2]; FOURS],
        left: [v128; 2],
    ) -> [v128; FOURS] {
        let pair = |x: v128| match AT % 4 {
            0 => i32x4_shuffle::<0, 0, 0, 0>(x, x),
            1 => i32x4_shuffle::<1, 1, 1, 1>(x, x),
            2 => i32x4_shuffle::<2, 2, 2, 2>(x, x),
            _ => i32x4_shuffle::<3, 3, 3, 3>(x, x),
        };
        let left = left.map(pair);
        for (sums, right) in sums.iter_mut().zip(right) {
            for (left, right) in left.into_iter().zip(right) {
                *sums = i32x4_add(*sums, i32x4_dot_i16x8(left, right));
            }
        }
        sums
    }
    #[inline(always)]
    unsafe fn close<const BITS: usize>(sums: [v128; FOURS], _total: [v128; FOURS]) -> [v128; FOURS] {
        sums
    }
    #[inline(always)]
    unsafe fn ints(x: i32) -> [v128; FOURS] {
        [i32x4_splat(x); FOURS]
    }
    #[inline(always)]
    unsafe fn converted(x: [v128; FOURS]) -> [v128; FOURS] {
        x.map(|x| f32x4_convert_i32x4(x))
    }
    #[inline(always)]
    unsafe fn floats(x: f32) -> [v128; FOURS] {
        [f32x4_splat(x); FOURS]
    }
    #[inline(always)]
    unsafe fn singles(from: *const u8) -> [v128; FOURS] {
        // SAFETY: this function has the same contract.
        unsafe { Self::load(from) }
    }
    #[inline(always)]
    unsafe fn halves(from: *const u8) -> [v128; FOURS] {
        // The bits without the sign are shifted to their position in a float, whose exponent is then 112 too small. A
        // multiplication corrects the exponent, also for subnormal numbers. The maximum exponent encodes infinity and
        // NaN, so it is set separately.
        let power = f32x4_splat(f32::from_bits((127 + 112) << 23));
        numbered(|i| {
            // SAFETY: the caller guarantees that the floats are valid.
            let bits = unsafe { u32x4_load_extend_u16x4(from.add(8 * i).cast()) };
            let size = u32x4_shl(v128_and(bits, u32x4_splat(0x7fff)), 13);
            let sign = u32x4_shl(v128_and(bits, u32x4_splat(0x8000)), 16);
            let unbounded = v128_and(i32x4_ge(size, i32x4_splat(0x0f80_0000)), i32x4_splat(0x7f80_0000));
            v128_or(v128_or(f32x4_mul(size, power), unbounded), sign)
        })
    }
    #[inline(always)]
    unsafe fn bytes(from: *const u8) -> [v128; FOURS] {
        numbered(|i| {
            // SAFETY: the caller guarantees that the bytes are valid.
            let four = unsafe { v128_load32_zero(from.add(4 * i).cast()) };
            f32x4_convert_u32x4(u32x4_extend_low_u16x8(u16x8_extend_low_u8x16(four)))
        })
    }
    #[inline(always)]
    unsafe fn mul(mut a: [v128; FOURS], b: [v128; FOURS]) -> [v128; FOURS] {
        for (a, b) in a.iter_mut().zip(b) {
            *a = f32x4_mul(*a, b);
        }
        a
    }
    #[inline(always)]
    unsafe fn mul_add(a: [v128; FOURS], b: [v128; FOURS], mut c: [v128; FOURS]) -> [v128; FOURS] {
        for ((a, b), c) in a.into_iter().zip(b).zip(&mut c) {
            *c = f32x4_add(*c, f32x4_mul(a, b));
        }
        c
    }
    #[inline(always)]
    unsafe fn store(x: [v128; FOURS], to: *mut f32) {
        for (i, x) in x.into_iter().enumerate() {
            // SAFETY: the caller guarantees that there is enough room.
            unsafe { v128_store(to.add(4 * i).cast(), x) };
        }
    }
}

kernels!(SIMD128, simd128, round_simd128, Pairs, [], 4, [4 2 1]);
