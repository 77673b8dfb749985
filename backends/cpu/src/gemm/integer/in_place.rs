//! Products with few rows. They read the right operand in place, because packing it would take longer than the product.

use super::left::{Bytes, Left};
use super::quads::MOST;
#[cfg(target_arch = "x86_64")]
use super::quads::{self, Products};
use super::{Correct, Room, Sums, Zeros};
use crate::gemm::{Dims, Strided};
use crate::kernels::dispatch::dispatch;
use crate::kernels::{Shared, walk};
#[cfg(target_arch = "aarch64")]
use crate::level::{Level, level};

/// The maximum number of rows of a product.
const ROWS: usize = 4;

/// The maximum number of rows of a tile: the rows of a product, and a row of ones, whose sums are the sums of the
/// columns.
const WITH_ONES: usize = ROWS + 1;

/// The maximum number of columns of a tile.
const COLUMNS: usize = 64;

const _: () = assert!(WITH_ONES * COLUMNS <= MOST);

/// The operands of a tile. Distances are in bytes, except `sums_row`, which is in elements.
#[derive(Debug)]
struct InPlaceArgs {
    k: usize,
    /// The rows of the left operand, in the layout of [`Left`].
    left: [*const u8; WITH_ONES],
    right: *const u8,
    right_row: isize,
    /// The exclusive-or mask that flips the sign of the right operand's bytes, or 0.
    mask: u8,
    sums: *mut i32,
    sums_row: usize,
}

/// A function that computes a tile of a fixed number of rows.
type Tile = unsafe fn(&InPlaceArgs);

/// The kernels of one instruction set: first for left operands of unsigned bytes, then for left operands of signed
/// bytes. Index `i` has the tile of `i + 1` rows, and its number of columns.
#[derive(Debug)]
pub(super) struct Kernels([[(Tile, usize); WITH_ONES]; 2]);

/// Returns the kernels for this processor. They read left operands in the same layout as the kernels for packed
/// operands.
#[cfg(target_arch = "aarch64")]
pub(super) fn kernels() -> Option<&'static Kernels> {
    Some(match level() {
        Level::I8mm => &neon::I8MM,
        Level::Dotprod => &neon::DOTPROD,
        _ => &neon::NEON,
    })
}

/// Returns the kernels for this processor, or `None` if there are none. They read left operands in the same layout as
/// the kernels for packed operands.
#[cfg(target_arch = "x86_64")]
pub(super) fn kernels() -> Option<&'static Kernels> {
    match quads::products() {
        Products::Amx | Products::Avx512Vnni => Some(&x86::AVX512),
        Products::AvxVnni => Some(&x86::AVX_VNNI),
        Products::Avx2 => Some(&x86::AVX2),
        Products::Portable => None,
    }
}

/// Returns whether a product is computed in place: it has few rows, its right operand has contiguous rows, and its
/// columns fill a tile.
pub(super) fn suits(Dims { m, k, n }: Dims, b: Strided<u8>) -> bool {
    m <= ROWS && k > 0 && n >= COLUMNS && b.col == 1
}

/// Computes the same product as [`product`](super::product).
///
/// # Safety
///
/// Same as for [`product`](super::product), for extents that [suit](suits).
pub(super) unsafe fn product(
    kernels: &'static Kernels,
    Dims { m, k, n }: Dims,
    left: &Left,
    (b, bytes): (Strided<u8>, Bytes),
    zeros: &Zeros<'_>,
    finish: &(dyn Fn(&Sums<'_>) + Sync),
) {
    let summed = !zeros.rows.is_empty();
    let of_sign = kernels.0.get(usize::from(left.signed()));
    let Some(&(tile, stride)) = of_sign.and_then(|all| all.get(m - usize::from(!summed))) else { return };
    let mut rows = [left.ones(); WITH_ONES];
    rows.iter_mut().take(m).enumerate().for_each(|(i, row)| *row = left.row(i));
    let shared = Shared((rows, left, b, zeros));
    walk::split(n.div_ceil(stride), m * stride * (k / 4 + 1), 1 << 18, |from, to| {
        let (rows, left, b, zeros) = shared.get();
        let mut room = Room([0; MOST]);
        for col in (from * stride..n.min(to * stride)).step_by(stride) {
            // The last tile is shifted so that it is full. Its first columns may already have been computed.
            let first = col.min(n - stride);
            // SAFETY: these columns are in the operand, and `room` has memory for the largest tile.
            unsafe {
                tile(&InPlaceArgs {
                    k,
                    left: rows,
                    right: b.ptr.add(first),
                    right_row: b.row,
                    mask: bytes.mask(),
                    sums: room.0.as_mut_ptr(),
                    sums_row: stride,
                });
            }
            let (all, ones) = room.0.split_at_mut(m * stride);
            let cols = zeros.cols.get(first..).unwrap_or_default();
            let cols = cols.get(..stride).unwrap_or_default();
            let below = ones.get_mut(..if summed { stride } else { 0 }).unwrap_or_default();
            let depth = i32::try_from(k).unwrap_or(i32::MAX);
            for (below, &zero) in below.iter_mut().zip(cols) {
                *below = below.wrapping_sub(depth.wrapping_mul(zero));
            }
            if !(zeros.added.is_empty() && !summed && cols.is_empty()) {
                dispatch(Correct { all, stride, row: 0, zeros, sums: left.sums(), below, cols });
            }
            let all = all.get(col - first..).unwrap_or_default();
            finish(&Sums { row: 0, col, cols: stride - (col - first), stride, all });
        }
    });
}

impl InPlaceArgs {
    /// Returns row `p` of the right operand, or the last row if `p` is beyond it. The left operand has zeros there, so
    /// the bytes do not matter.
    #[inline(always)]
    fn row(&self, p: usize) -> *const u8 {
        self.right.wrapping_offset(p.min(self.k - 1).cast_signed() * self.right_row)
    }
}

#[cfg(target_arch = "aarch64")]
mod neon;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{COLUMNS, InPlaceArgs, Kernels};

    pub(super) static AVX512: Kernels = Kernels([
        [
            (avx512::<false, 1>, COLUMNS),
            (avx512::<false, 2>, COLUMNS),
            (avx512::<false, 3>, COLUMNS),
            (avx512::<false, 4>, COLUMNS),
            (avx512::<false, 5>, COLUMNS),
        ],
        [
            (avx512::<true, 1>, COLUMNS),
            (avx512::<true, 2>, COLUMNS),
            (avx512::<true, 3>, COLUMNS),
            (avx512::<true, 4>, COLUMNS),
            (avx512::<true, 5>, COLUMNS),
        ],
    ]);

    pub(super) static AVX_VNNI: Kernels = Kernels([
        [
            (avx_vnni::<false, 1>, 32),
            (avx_vnni::<false, 2>, 32),
            (avx_vnni_narrow::<false, 3>, 16),
            (avx_vnni_narrow::<false, 4>, 16),
            (avx_vnni_narrow::<false, 5>, 16),
        ],
        [
            (avx_vnni::<true, 1>, 32),
            (avx_vnni::<true, 2>, 32),
            (avx_vnni_narrow::<true, 3>, 16),
            (avx_vnni_narrow::<true, 4>, 16),
            (avx_vnni_narrow::<true, 5>, 16),
        ],
    ]);

    pub(super) static AVX2: Kernels = Kernels([
        [
            (avx2::<false, 1, 4>, 64),
            (avx2::<false, 2, 2>, 32),
            (avx2::<false, 3, 1>, 16),
            (avx2::<false, 4, 1>, 16),
            (avx2::<false, 5, 1>, 16),
        ],
        [
            (avx2::<true, 1, 4>, 64),
            (avx2::<true, 2, 2>, 32),
            (avx2::<true, 3, 1>, 16),
            (avx2::<true, 4, 1>, 16),
            (avx2::<true, 5, 1>, 16),
        ],
    ]);

    /// Declares the tile of an instruction set: a function with this name, whose columns are four vectors, and the
    /// intrinsics that it uses. `$part` extracts four adjacent columns from a vector of sums, and `$place` is the
    /// offset of their first column.
    macro_rules! tile {
        ($name:ident, $columns:literal, $features:literal, $splat:ident, $zero:ident, $load:ident, $xor:ident,
         [$low8:ident, $high8:ident, $low16:ident, $high16:ident], $left:ident, $products:ident, [$($part:expr => $place:literal),*]) => {
            /// # Safety
            ///
            /// The processor has the instructions. The left operand has `ROWS` rows, whose number of bytes is a multiple of four, and the
            #[doc = concat!("right one ", $columns, " columns. `sums` has room for ", $columns, " sums of each row.")]
            #[target_feature(enable = $features)]
            unsafe fn $name<const SIGNED: bool, const ROWS: usize>(args: &InPlaceArgs) {
                // SAFETY: this function's contract.
                unsafe {
                    let flip = $splat(args.mask.cast_signed());
                    let mut totals = [[$zero(); 4]; ROWS];
                    for p in 0..args.k.div_ceil(4) {
                        let mut rows = [flip; 4];
                        for (i, row) in rows.iter_mut().enumerate() {
                            *row = $xor($load(args.row(4 * p + i).cast()), flip);
                        }
                        let [a, b, c, d] = rows;
                        let (ab, cd) = ($low8(a, b), $low8(c, d));
                        let (ab_high, cd_high) = ($high8(a, b), $high8(c, d));
                        let quads =
                            [$low16(ab, cd), $high16(ab, cd), $low16(ab_high, cd_high), $high16(ab_high, cd_high)];
                        for (totals, &left) in totals.iter_mut().zip(&args.left) {
                            let left = $left(left.add(4 * p).cast::<i32>().read_unaligned());
                            for (total, quads) in totals.iter_mut().zip(quads) {
                                let (unsigned, signed) = if SIGNED { (quads, left) } else { (left, quads) };
                                *total = $products(*total, unsigned, signed);
                            }
                        }
                    }
                    for (i, totals) in totals.into_iter().enumerate() {
                        for (j, total) in totals.into_iter().enumerate() {
                            let to = args.sums.add(i * args.sums_row + 4 * j);
                            $( _mm_storeu_si128(to.add($place).cast(), $part(total)); )*
                        }
                    }
                }
            }
        };
    }

    tile!(
        avx512,
        64,
        "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,bmi1,bmi2",
        _mm512_set1_epi8,
        _mm512_setzero_si512,
        _mm512_loadu_si512,
        _mm512_xor_si512,
        [_mm512_unpacklo_epi8, _mm512_unpackhi_epi8, _mm512_unpacklo_epi16, _mm512_unpackhi_epi16],
        _mm512_set1_epi32,
        _mm512_dpbusd_epi32,
        [
            _mm512_extracti32x4_epi32::<0> => 0,
            _mm512_extracti32x4_epi32::<1> => 16,
            _mm512_extracti32x4_epi32::<2> => 32,
            _mm512_extracti32x4_epi32::<3> => 48
        ]
    );

    tile!(
        avx_vnni,
        32,
        "avx2,fma,bmi1,bmi2,avxvnni",
        _mm256_set1_epi8,
        _mm256_setzero_si256,
        _mm256_loadu_si256,
        _mm256_xor_si256,
        [_mm256_unpacklo_epi8, _mm256_unpackhi_epi8, _mm256_unpacklo_epi16, _mm256_unpackhi_epi16],
        _mm256_set1_epi32,
        _mm256_dpbusd_avx_epi32,
        [_mm256_castsi256_si128 => 0, _mm256_extracti128_si256::<1> => 16]
    );

    /// Computes a tile as [`avx_vnni`] does, but with 16 columns, so that the sums of more rows stay in registers.
    ///
    /// # Safety
    ///
    /// The processor has the instructions. The left operand has `ROWS` rows, whose number of bytes is a multiple of four, and the
    /// right one 16 columns. `sums` has room for 16 sums of each row.
    #[target_feature(enable = "avx2,fma,bmi1,bmi2,avxvnni")]
    unsafe fn avx_vnni_narrow<const SIGNED: bool, const ROWS: usize>(args: &InPlaceArgs) {
        // SAFETY: this function's contract.
        unsafe {
            let flip = _mm_set1_epi8(args.mask.cast_signed());
            let mut totals = [[_mm256_setzero_si256(); 2]; ROWS];
            for p in 0..args.k.div_ceil(4) {
                let mut rows = [flip; 4];
                for (i, row) in rows.iter_mut().enumerate() {
                    *row = _mm_xor_si128(_mm_loadu_si128(args.row(4 * p + i).cast()), flip);
                }
                let [a, b, c, d] = rows;
                let (ab, cd) = (_mm_unpacklo_epi8(a, b), _mm_unpacklo_epi8(c, d));
                let (ab_high, cd_high) = (_mm_unpackhi_epi8(a, b), _mm_unpackhi_epi8(c, d));
                let quads = [
                    _mm256_set_m128i(_mm_unpackhi_epi16(ab, cd), _mm_unpacklo_epi16(ab, cd)),
                    _mm256_set_m128i(
                        _mm_unpackhi_epi16(ab_high, cd_high),
                        _mm_unpacklo_epi16(ab_high, cd_high),
                    ),
                ];
                for (totals, &left) in totals.iter_mut().zip(&args.left) {
                    let left = _mm256_set1_epi32(left.add(4 * p).cast::<i32>().read_unaligned());
                    for (total, quads) in totals.iter_mut().zip(quads) {
                        let (unsigned, signed) = if SIGNED { (quads, left) } else { (left, quads) };
                        *total = _mm256_dpbusd_avx_epi32(*total, unsigned, signed);
                    }
                }
            }
            for (i, totals) in totals.into_iter().enumerate() {
                for (j, total) in totals.into_iter().enumerate() {
                    _mm256_storeu_si256(args.sums.add(i * args.sums_row + 8 * j).cast(), total);
                }
            }
        }
    }

    /// # Safety
    ///
    /// The processor has the instructions. The left operand has `ROWS` rows, whose bytes are widened to 16 bits and
    /// whose number of bytes is a multiple of four. The right operand has 16 columns for each of `BLOCKS`. `sums` has
    /// room for the sums of these columns in each row.
    #[target_feature(enable = "avx2,fma,bmi1,bmi2")]
    unsafe fn avx2<const SIGNED: bool, const ROWS: usize, const BLOCKS: usize>(args: &InPlaceArgs) {
        // SAFETY: this function's contract.
        unsafe {
            let flip = _mm_set1_epi8(args.mask.cast_signed());
            let mut totals = [[[_mm256_setzero_si256(); 2]; BLOCKS]; ROWS];
            for p in 0..args.k.div_ceil(4) * 2 {
                let (first, second) = (args.row(2 * p), args.row(2 * p + 1));
                for block in 0..BLOCKS {
                    let at = 16 * block;
                    let a = _mm_xor_si128(_mm_loadu_si128(first.wrapping_add(at).cast()), flip);
                    let b = _mm_xor_si128(_mm_loadu_si128(second.wrapping_add(at).cast()), flip);
                    let (low, high) = (_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b));
                    let pairs = if SIGNED {
                        [_mm256_cvtepu8_epi16(low), _mm256_cvtepu8_epi16(high)]
                    } else {
                        [_mm256_cvtepi8_epi16(low), _mm256_cvtepi8_epi16(high)]
                    };
                    for (totals, &left) in totals.iter_mut().zip(&args.left) {
                        let left = _mm256_set1_epi32(left.add(4 * p).cast::<i32>().read_unaligned());
                        if let Some(totals) = totals.get_mut(block) {
                            for (total, pairs) in totals.iter_mut().zip(pairs) {
                                *total = _mm256_add_epi32(*total, _mm256_madd_epi16(left, pairs));
                            }
                        }
                    }
                }
            }
            for (i, totals) in totals.into_iter().enumerate() {
                for (j, total) in totals.into_iter().flatten().enumerate() {
                    _mm256_storeu_si256(args.sums.add(i * args.sums_row + 8 * j).cast(), total);
                }
            }
        }
    }
}
