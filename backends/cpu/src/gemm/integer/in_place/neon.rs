//! Tiles for 64-bit ARM processors.

use std::arch::aarch64::*;

use super::super::quads::neon::{dot, mixed};
use super::{InPlaceArgs, Kernels};

/// Lists the tiles of one to five rows of a function that is generic over sign, rows and blocks of 16 columns.
macro_rules! tiles {
    ($f:ident) => {
        Kernels([tiles!($f, false), tiles!($f, true)])
    };
    ($f:ident, $signed:literal) => {
        [
            ($f::<$signed, 1, 4>, 64),
            ($f::<$signed, 2, 2>, 32),
            ($f::<$signed, 3, 1>, 16),
            ($f::<$signed, 4, 1>, 16),
            ($f::<$signed, 5, 1>, 16),
        ]
    };
}

pub(super) static NEON: Kernels = tiles!(long);
pub(super) static DOTPROD: Kernels = tiles!(dots_alike);
pub(super) static I8MM: Kernels = tiles!(dots_mixed);

/// Writes the sums of a tile.
///
/// # Safety
///
/// `sums` has room for the sums.
#[inline(always)]
unsafe fn store<const ROWS: usize, const BLOCKS: usize>(
    args: &InPlaceArgs,
    totals: [[[int32x4_t; 4]; BLOCKS]; ROWS],
) {
    for (i, totals) in totals.into_iter().enumerate() {
        for (j, total) in totals.into_iter().flatten().enumerate() {
            // SAFETY: this function has the same contract.
            unsafe { vst1q_s32(args.sums.add(i * args.sums_row + 4 * j), total) };
        }
    }
}

/// # Safety
///
/// The left operand has `ROWS` rows, whose bytes are widened to 16 bits and whose number of bytes is a multiple of
/// four. The right operand has 16 columns for each of `BLOCKS`. `sums` has room for the sums of these columns in each
/// row.
unsafe fn long<const SIGNED: bool, const ROWS: usize, const BLOCKS: usize>(args: &InPlaceArgs) {
    // SAFETY: this function's contract.
    unsafe {
        let flip = vdupq_n_u8(args.mask);
        let mut totals = [[[vdupq_n_s32(0); 4]; BLOCKS]; ROWS];
        macro_rules! step {
            ($lefts:ident, $row:expr, $at:literal) => {
                let row = $row;
                for block in 0..BLOCKS {
                    let bytes = veorq_u8(vld1q_u8(row.wrapping_add(16 * block)), flip);
                    let [low, high] = if SIGNED {
                        let (low, high) = (vmovl_u8(vget_low_u8(bytes)), vmovl_high_u8(bytes));
                        [vreinterpretq_s16_u16(low), vreinterpretq_s16_u16(high)]
                    } else {
                        let bytes = vreinterpretq_s8_u8(bytes);
                        [vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes)]
                    };
                    for (totals, &left) in totals.iter_mut().zip(&$lefts) {
                        if let Some([a, b, c, d]) = totals.get_mut(block) {
                            *a = vmlal_lane_s16::<$at>(*a, vget_low_s16(low), left);
                            *b = vmlal_high_lane_s16::<$at>(*b, low, left);
                            *c = vmlal_lane_s16::<$at>(*c, vget_low_s16(high), left);
                            *d = vmlal_high_lane_s16::<$at>(*d, high, left);
                        }
                    }
                }
            };
        }
        for p in 0..args.k.div_ceil(4) {
            let mut lefts = [vdup_n_s16(0); ROWS];
            for (slot, &left) in lefts.iter_mut().zip(&args.left) {
                *slot = vld1_s16(left.add(8 * p).cast());
            }
            step!(lefts, args.row(4 * p), 0);
            step!(lefts, args.row(4 * p + 1), 1);
            step!(lefts, args.row(4 * p + 2), 2);
            step!(lefts, args.row(4 * p + 3), 3);
        }
        store(args, totals);
    }
}

/// # Safety
///
/// As for [`dots`]; the bytes of both operands are signed, or both are unsigned.
#[target_feature(enable = "neon,dotprod")]
unsafe fn dots_alike<const SIGNED: bool, const ROWS: usize, const BLOCKS: usize>(args: &InPlaceArgs) {
    // SAFETY: this function has the same contract.
    unsafe { dots::<SIGNED, ROWS, BLOCKS, false>(args) }
}

/// # Safety
///
/// As for [`dots`]; the bytes of only one operand are signed.
#[target_feature(enable = "neon,i8mm")]
unsafe fn dots_mixed<const SIGNED: bool, const ROWS: usize, const BLOCKS: usize>(args: &InPlaceArgs) {
    // SAFETY: this function has the same contract.
    unsafe { dots::<SIGNED, ROWS, BLOCKS, true>(args) }
}

/// Computes a tile with dot products. Interleaves four rows of the right operand, so that the four bytes of each column
/// are adjacent.
///
/// # Safety
///
/// The processor supports `dotprod` or, if `MIXED`, `i8mm`. The left operand has `ROWS` rows, and the length of each row
/// in bytes is a multiple of four. The right operand has `16 * BLOCKS` columns. `sums` has room for the sums of these
/// columns in each row.
#[inline(always)]
unsafe fn dots<const SIGNED: bool, const ROWS: usize, const BLOCKS: usize, const MIXED: bool>(
    args: &InPlaceArgs,
) {
    // SAFETY: this function's contract.
    unsafe {
        let flip = vdupq_n_u8(args.mask);
        let mut totals = [[[vdupq_n_s32(0); 4]; BLOCKS]; ROWS];
        for p in 0..args.k.div_ceil(4) {
            let mut lefts = [vdupq_n_u8(0); ROWS];
            for (slot, &left) in lefts.iter_mut().zip(&args.left) {
                *slot = vreinterpretq_u8_u32(vdupq_n_u32(left.add(4 * p).cast::<u32>().read_unaligned()));
            }
            let rows = [args.row(4 * p), args.row(4 * p + 1), args.row(4 * p + 2), args.row(4 * p + 3)];
            for block in 0..BLOCKS {
                let mut bytes = [flip; 4];
                for (bytes, row) in bytes.iter_mut().zip(rows) {
                    *bytes = veorq_u8(vld1q_u8(row.wrapping_add(16 * block)), flip);
                }
                let [a, b, c, d] = bytes;
                // Interleaves rows two apart, then the results. The second step puts the four bytes of a column
                // together, with the columns in order.
                let (ac, ac_high) = (vzip1q_u8(a, c), vzip2q_u8(a, c));
                let (bd, bd_high) = (vzip1q_u8(b, d), vzip2q_u8(b, d));
                let quads = [
                    vzip1q_u8(ac, bd),
                    vzip2q_u8(ac, bd),
                    vzip1q_u8(ac_high, bd_high),
                    vzip2q_u8(ac_high, bd_high),
                ];
                for (totals, &left) in totals.iter_mut().zip(&lefts) {
                    if let Some(totals) = totals.get_mut(block) {
                        for (total, quads) in totals.iter_mut().zip(quads) {
                            *total = if MIXED {
                                mixed::<SIGNED, 0>(*total, quads, left)
                            } else {
                                dot::<SIGNED, 0>(*total, quads, left)
                            };
                        }
                    }
                }
            }
        }
        store(args, totals);
    }
}
