//! Tiles of sums of products of bytes for 64-bit ARM processors: with plain NEON, which all of them have, with dot
//! products, and with products of matrices.
//!
//! Rust's intrinsics for the last two are not stable, so their instructions are written as assembly.

use std::arch::aarch64::*;
use std::arch::asm;

use super::QuadArgs;
use crate::gemm::elements::{self, Operands};

/// Widens eight bytes to 16 bits.
#[inline(always)]
fn widened<const SIGNED: bool>(bytes: uint8x8_t) -> int16x8_t {
    // SAFETY: every 64-bit processor of ARM has NEON.
    unsafe {
        if SIGNED { vmovl_s8(vreinterpret_s8_u8(bytes)) } else { vreinterpretq_s16_u16(vmovl_u8(bytes)) }
    }
}

/// Computes a tile with a left operand whose bytes are widened to 16 bits. Each left number is multiplied by a row of
/// the right operand, whose bytes are widened as they are read. A vector has eight columns.
///
/// # Safety
///
/// The operands have `quads` groups for `ROWS` rows and `VECTORS` vectors, and `sums` has room for the tile.
pub(super) unsafe fn long<const SIGNED: bool, const ROWS: usize, const VECTORS: usize>(args: &QuadArgs) {
    let &QuadArgs { quads, rows: _, left, left_row, mut right, right_row, sums, sums_row } = args;
    // SAFETY: the contract covers each access.
    unsafe {
        let mut totals = [[[vdupq_n_s32(0); 2]; VECTORS]; ROWS];
        macro_rules! step {
            ($lefts:ident, $at:literal) => {
                for v in 0..VECTORS {
                    let bytes = vld1_u8(right.add(8 * v));
                    let wide = if SIGNED { widened::<false>(bytes) } else { widened::<true>(bytes) };
                    for (totals, &left) in totals.iter_mut().zip(&$lefts) {
                        if let Some([low, high]) = totals.get_mut(v) {
                            *low = vmlal_laneq_s16::<$at>(*low, vget_low_s16(wide), left);
                            *high = vmlal_high_laneq_s16::<$at>(*high, wide, left);
                        }
                    }
                }
                right = right.wrapping_add(right_row / 4);
            };
        }
        let mut turns = 0;
        if VECTORS == 2 && quads >= 2 {
            let of = Operands {
                turns: quads / 2,
                left,
                left_row: left_row.cast_signed(),
                right,
                right_row: (right_row / 4).cast_signed(),
            };
            let sums = totals.as_flattened_mut().as_flattened_mut().as_chunks_mut().0;
            let done =
                if SIGNED { elements::unsigned_long(&of, sums) } else { elements::signed_long(&of, sums) };
            turns = if done { quads / 2 } else { 0 };
            right = right.wrapping_add(turns * 2 * right_row);
        }
        for p in turns..quads / 2 {
            let mut lefts = [vdupq_n_s16(0); ROWS];
            for (i, slot) in lefts.iter_mut().enumerate() {
                *slot = vld1q_s16(left.add(i * left_row + 16 * p).cast());
            }
            step!(lefts, 0);
            step!(lefts, 1);
            step!(lefts, 2);
            step!(lefts, 3);
            step!(lefts, 4);
            step!(lefts, 5);
            step!(lefts, 6);
            step!(lefts, 7);
        }
        if !quads.is_multiple_of(2) {
            let mut lefts = [vdupq_n_s16(0); ROWS];
            for (i, slot) in lefts.iter_mut().enumerate() {
                let numbers = vld1_s16(left.add(i * left_row + 8 * (quads - 1)).cast());
                *slot = vcombine_s16(numbers, numbers);
            }
            step!(lefts, 0);
            step!(lefts, 1);
            step!(lefts, 2);
            step!(lefts, 3);
            let _ = right;
        }
        for (i, totals) in totals.into_iter().enumerate() {
            for (v, total) in totals.into_iter().flatten().enumerate() {
                vst1q_s32(sums.add(i * sums_row + 4 * v), total);
            }
        }
    }
}

/// Adds dot products of four bytes to the sums with the named instruction. The left bytes are group `$at` of the
/// register.
macro_rules! add_dots {
    ($name:literal, $sums:ident, $right:ident, $left:ident, $at:ident) => {
        asm!(
            concat!($name, " {sums:v}.4s, {right:v}.16b, {left:v}.4b[{at}]"),
            sums = inout(vreg) $sums,
            right = in(vreg) $right,
            left = in(vreg) $left,
            at = const $at,
            options(pure, nomem, nostack, preserves_flags),
        )
    };
}

/// Adds dot products of four bytes to the sums. The left bytes are group `AT` of the register. All bytes are signed, or
/// all are unsigned.
///
/// # Safety
///
/// The processor has the extension for dot products.
#[inline(always)]
pub(in crate::gemm) unsafe fn dot<const SIGNED: bool, const AT: i32>(
    mut sums: int32x4_t,
    right: uint8x16_t,
    left: uint8x16_t,
) -> int32x4_t {
    // SAFETY: this function's contract; the instruction reads and writes nothing but these registers.
    unsafe {
        if SIGNED {
            add_dots!("sdot", sums, right, left, AT);
        } else {
            add_dots!("udot", sums, right, left, AT);
        }
    }
    sums
}

/// Adds dot products as [`dot`] does, but with signed bytes on the left and unsigned bytes on the right if `SIGNED`,
/// else the other way round.
///
/// # Safety
///
/// The processor has the extension for products of matrices of bytes.
#[inline(always)]
pub(in crate::gemm::integer) unsafe fn mixed<const SIGNED: bool, const AT: i32>(
    mut sums: int32x4_t,
    right: uint8x16_t,
    left: uint8x16_t,
) -> int32x4_t {
    // SAFETY: this function's contract; the instruction reads and writes nothing but these registers.
    unsafe {
        if SIGNED {
            add_dots!("usdot", sums, right, left, AT);
        } else {
            add_dots!("sudot", sums, right, left, AT);
        }
    }
    sums
}

/// Computes a tile by dot products. The bytes of both operands are signed, or both are unsigned. A vector has four
/// columns.
///
/// # Safety
///
/// As for [`long`], and the processor has the extension for dot products.
#[target_feature(enable = "neon,dotprod")]
pub(super) unsafe fn dots<const SIGNED: bool, const ROWS: usize, const VECTORS: usize>(args: &QuadArgs) {
    let &QuadArgs { quads, rows: _, left, left_row, mut right, right_row, sums, sums_row } = args;
    // SAFETY: the contract covers each access.
    unsafe {
        let mut totals = [[vdupq_n_s32(0); VECTORS]; ROWS];
        macro_rules! step {
            ($lefts:ident, $at:literal) => {
                for v in 0..VECTORS {
                    let bytes = vld1q_u8(right.add(16 * v));
                    for (totals, &left) in totals.iter_mut().zip(&$lefts) {
                        if let Some(total) = totals.get_mut(v) {
                            *total = dot::<SIGNED, $at>(*total, bytes, left);
                        }
                    }
                }
                right = right.wrapping_add(right_row);
            };
        }
        let mut turns = 0;
        if VECTORS == 4 && quads >= 4 {
            let of = Operands {
                turns: quads / 4,
                left,
                left_row: left_row.cast_signed(),
                right,
                right_row: right_row.cast_signed(),
            };
            let sums = totals.as_flattened_mut().as_chunks_mut().0;
            let done =
                if SIGNED { elements::signed_dots(&of, sums) } else { elements::unsigned_dots(&of, sums) };
            turns = if done { quads / 4 } else { 0 };
            right = right.wrapping_add(turns * 4 * right_row);
        }
        for p in turns..quads / 4 {
            let mut lefts = [vdupq_n_u8(0); ROWS];
            for (i, slot) in lefts.iter_mut().enumerate() {
                *slot = vld1q_u8(left.add(i * left_row + 16 * p));
            }
            step!(lefts, 0);
            step!(lefts, 1);
            step!(lefts, 2);
            step!(lefts, 3);
        }
        for p in quads / 4 * 4..quads {
            let mut lefts = [vdupq_n_u8(0); ROWS];
            for (i, slot) in lefts.iter_mut().enumerate() {
                let four = left.add(i * left_row + 4 * p).cast::<u32>().read_unaligned();
                *slot = vreinterpretq_u8_u32(vdupq_n_u32(four));
            }
            step!(lefts, 0);
        }
        for (i, totals) in totals.into_iter().enumerate() {
            for (v, total) in totals.into_iter().enumerate() {
                vst1q_s32(sums.add(i * sums_row + 4 * v), total);
            }
        }
    }
}

/// The maximum number of pairs of rows, and of pairs of columns, of a tile.
const MOST_PAIRS: [usize; 2] = [3, 8];

/// The size of eight rows of a panel, in bytes.
const GROUP: usize = 16 * MOST_PAIRS[1];

/// Adds the product of two rows and two columns of eight bytes each. If `SIGNED`, the rows are signed and the columns
/// are unsigned, and the sums of a column are adjacent. Otherwise the columns are signed, and the sums of a row are
/// adjacent.
///
/// # Safety
///
/// The processor has the extension for products of matrices of bytes.
#[inline(always)]
unsafe fn matrix<const SIGNED: bool>(
    mut sums: int32x4_t,
    rows: uint8x16_t,
    columns: uint8x16_t,
) -> int32x4_t {
    let (unsigned, signed) = if SIGNED { (columns, rows) } else { (rows, columns) };
    // SAFETY: this function's contract; the instruction reads and writes nothing but these registers.
    unsafe {
        asm!(
            "usmmla {sums:v}.4s, {unsigned:v}.16b, {signed:v}.16b",
            sums = inout(vreg) sums,
            unsigned = in(vreg) unsigned,
            signed = in(vreg) signed,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sums
}

/// Computes a tile by products of two rows with two columns, each of eight bytes. A vector has four columns.
///
/// # Safety
///
/// As for [`long`], with an even number of groups, and the processor has the extension for products of matrices of bytes.
#[target_feature(enable = "neon,i8mm")]
pub(super) unsafe fn matrices<const SIGNED: bool, const ROWS: usize, const VECTORS: usize>(args: &QuadArgs) {
    let &QuadArgs { quads, rows: _, mut left, left_row, mut right, right_row, sums, sums_row } = args;
    let (pairs, columns) = (ROWS.div_ceil(2), 2 * VECTORS);
    debug_assert_eq!(2 * right_row, GROUP);
    // SAFETY: the contract covers each access. A single last row is also used as the row after it, whose sums are not written.
    unsafe {
        let mut totals = [[vdupq_n_s32(0); MOST_PAIRS[1]]; MOST_PAIRS[0]];
        macro_rules! step {
            ($lefts:expr, $at:literal) => {
                for v in 0..columns {
                    let bytes = vld1q_u8(right.add($at * GROUP + 16 * v));
                    for (totals, &left) in totals.iter_mut().zip(&$lefts).take(pairs) {
                        if let Some(total) = totals.get_mut(v) {
                            *total = matrix::<SIGNED>(*total, left, bytes);
                        }
                    }
                }
            };
        }
        let groups = quads / 2;
        // Four groups are read together for up to four rows, which then use all registers.
        let at_once = if pairs <= 2 { groups / 4 } else { 0 };
        for _ in 0..at_once {
            let mut lefts = [[vdupq_n_u8(0); MOST_PAIRS[0]]; 4];
            for i in 0..pairs {
                let (first, second) = (2 * i, (2 * i + 1).min(ROWS - 1));
                for half in 0..2 {
                    let row = |i: usize| vreinterpretq_u64_u8(vld1q_u8(left.add(i * left_row + 16 * half)));
                    let (first, second) = (row(first), row(second));
                    let zipped = [vzip1q_u64(first, second), vzip2q_u64(first, second)];
                    for (lefts, zipped) in lefts.iter_mut().skip(2 * half).zip(zipped) {
                        if let Some(slot) = lefts.get_mut(i) {
                            *slot = vreinterpretq_u8_u64(zipped);
                        }
                    }
                }
            }
            let [a, b, c, d] = lefts;
            step!(a, 0);
            step!(b, 1);
            step!(c, 2);
            step!(d, 3);
            left = left.wrapping_add(32);
            right = right.wrapping_add(4 * GROUP);
        }
        for _ in 4 * at_once..groups {
            let mut lefts = [vdupq_n_u8(0); MOST_PAIRS[0]];
            for (i, slot) in lefts.iter_mut().enumerate().take(pairs) {
                let (first, second) = (2 * i, (2 * i + 1).min(ROWS - 1));
                let row = |i: usize| vld1_u8(left.add(i * left_row));
                *slot = vcombine_u8(row(first), row(second));
            }
            step!(lefts, 0);
            left = left.wrapping_add(8);
            right = right.wrapping_add(GROUP);
        }
        for (i, totals) in totals.into_iter().enumerate().take(pairs) {
            for (v, &[x, y]) in totals.as_chunks().0.iter().enumerate().take(VECTORS) {
                let rows = if SIGNED {
                    [vuzp1q_s32(x, y), vuzp2q_s32(x, y)]
                } else {
                    let low = vcombine_s32(vget_low_s32(x), vget_low_s32(y));
                    [low, vcombine_s32(vget_high_s32(x), vget_high_s32(y))]
                };
                for (row, sums_of_row) in (2 * i..ROWS).zip(rows) {
                    vst1q_s32(sums.add(row * sums_row + 4 * v), sums_of_row);
                }
            }
        }
    }
}
