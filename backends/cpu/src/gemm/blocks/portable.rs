//! A unit for processors without known vector instructions.

use super::tile::{Unit, kernels, tiles};
use half::f16;

/// Arrays that the compiler maps to vectors.
struct Lanes;

impl Unit for Lanes {
    const LANES: usize = 8;
    const SIGNED: bool = true;
    type Bytes = [[i8; 8]; 4];
    type Numbers = [[i8; 8]; 4];
    type Left = *const u8;
    type Open = [i32; 8];
    type Ints = [i32; 8];
    type Floats = [f32; 8];

    #[inline(always)]
    unsafe fn load(from: *const u8) -> [[i8; 8]; 4] {
        // SAFETY: the caller guarantees that the bytes are valid.
        let bytes = unsafe { from.cast::<[[i8; 4]; 8]>().read() };
        let mut out = [[0; 8]; 4];
        for (lane, bytes) in bytes.into_iter().enumerate() {
            for (out, byte) in out.iter_mut().zip(bytes) {
                if let Some(out) = out.get_mut(lane) {
                    *out = byte;
                }
            }
        }
        out
    }
    #[inline(always)]
    unsafe fn part<const BITS: usize>(mut bytes: [[i8; 8]; 4], above: usize) -> [[i8; 8]; 4] {
        if BITS < 8 {
            for byte in bytes.as_flattened_mut() {
                *byte = (byte.cast_unsigned() >> (BITS * above) & ((1 << BITS) - 1)).cast_signed();
            }
        }
        bytes
    }
    #[inline(always)]
    unsafe fn left(from: *const u8) -> *const u8 {
        from
    }
    #[inline(always)]
    unsafe fn open<const BITS: usize>(total: [i32; 8]) -> [i32; 8] {
        total
    }
    #[inline(always)]
    unsafe fn add<const BITS: usize, const AT: usize>(
        mut sums: [i32; 8],
        right: [[i8; 8]; 4],
        left: *const u8,
    ) -> [i32; 8] {
        // SAFETY: the caller guarantees that the bytes are valid.
        let left = unsafe { left.add(AT % 4 * 4).cast::<[i8; 4]>().read() };
        for (left, right) in left.into_iter().zip(right) {
            for (sum, right) in sums.iter_mut().zip(right) {
                *sum += i32::from(i16::from(left) * i16::from(right));
            }
        }
        sums
    }
    #[inline(always)]
    unsafe fn close<const BITS: usize>(sums: [i32; 8], _total: [i32; 8]) -> [i32; 8] {
        sums
    }
    #[inline(always)]
    unsafe fn ints(x: i32) -> [i32; 8] {
        [x; 8]
    }
    #[inline(always)]
    #[expect(clippy::cast_precision_loss, reason = "integers become the nearest floats")]
    unsafe fn converted(x: [i32; 8]) -> [f32; 8] {
        x.map(|x| x as f32)
    }
    #[inline(always)]
    unsafe fn floats(x: f32) -> [f32; 8] {
        [x; 8]
    }
    #[inline(always)]
    unsafe fn singles(from: *const u8) -> [f32; 8] {
        // SAFETY: the caller guarantees that the floats are valid.
        unsafe { from.cast::<[f32; 8]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn halves(from: *const u8) -> [f32; 8] {
        // SAFETY: the caller guarantees that the floats are valid; any two bytes are a valid `f16`.
        unsafe { from.cast::<[[u8; 2]; 8]>().read() }.map(|x| f16::from_ne_bytes(x).to_f32())
    }
    #[inline(always)]
    unsafe fn bytes(from: *const u8) -> [f32; 8] {
        // SAFETY: the caller guarantees that the bytes are valid.
        unsafe { from.cast::<[u8; 8]>().read() }.map(f32::from)
    }
    #[inline(always)]
    unsafe fn mul(mut a: [f32; 8], b: [f32; 8]) -> [f32; 8] {
        for (a, b) in a.iter_mut().zip(b) {
            *a *= b;
        }
        a
    }
    #[inline(always)]
    unsafe fn mul_add(mut a: [f32; 8], b: [f32; 8], c: [f32; 8]) -> [f32; 8] {
        // A second rounding is cheaper than calling a fused function where the processor has no fused instruction.
        for ((a, b), c) in a.iter_mut().zip(b).zip(c) {
            *a = *a * b + c;
        }
        a
    }
    #[inline(always)]
    unsafe fn store(x: [f32; 8], to: *mut f32) {
        // SAFETY: the caller guarantees that there is enough room.
        unsafe { to.cast::<[f32; 8]>().write_unaligned(x) }
    }
}

// There are only tiles of one row: tiles of several rows, only for processors without AVX2, took a tenth of this
// crate's code.
kernels!(PORTABLE, portable, round_portable, Lanes, [], 1, [1]);
