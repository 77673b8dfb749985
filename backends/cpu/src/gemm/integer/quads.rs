//! Vectors of sums of products of bytes, with four products per sum, and the tiles built from them.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::level::Level;
#[cfg(target_arch = "x86_64")]
use crate::level::extras;
use crate::level::level;

/// A vector of `i32` sums. One step adds products of four bytes, or of two bytes, to each sum. Sums wrap.
///
/// One operand has unsigned bytes and the other has signed bytes. If `SIGNED`, the left operand has the signed bytes.
///
/// # Safety
///
/// Every function needs the vector's instruction set, and must be inlined into code that is compiled for it.
#[cfg(not(target_arch = "aarch64"))]
trait Quads: Copy {
    /// Bytes of the left operand, repeated in every lane.
    type Left: Copy;
    /// Bytes of the right operand for each lane.
    type Right: Copy;
    /// The number of lanes.
    const LANES: usize;
    /// Whether a step adds products of two bytes to each sum instead of four. The bytes of the left operand are then
    /// already widened to 16 bits.
    const PAIRS: bool = false;

    /// Returns zeros.
    unsafe fn zero() -> Self;
    /// Reads four bytes, or two widened bytes.
    unsafe fn left<const SIGNED: bool>(from: *const u8) -> Self::Left;
    /// Reads four bytes for each lane, or two bytes if `PAIRS`.
    unsafe fn right<const SIGNED: bool>(from: *const u8) -> Self::Right;
    /// Returns `self` plus the products of the bytes.
    unsafe fn add<const SIGNED: bool>(self, left: Self::Left, right: Self::Right) -> Self;
    /// Writes the lanes.
    unsafe fn store(self, to: *mut i32);
}

#[cfg(target_arch = "aarch64")]
pub(in crate::gemm) mod neon;

/// An array of lanes, for processors without known vector instructions.
#[cfg(not(target_arch = "aarch64"))]
#[derive(Debug, Clone, Copy)]
struct Lanes([i32; 8]);

/// Converts a byte to a number.
#[cfg(not(target_arch = "aarch64"))]
#[inline(always)]
const fn number(byte: u8, signed: bool) -> i32 {
    if signed { byte.cast_signed() as i32 } else { byte as i32 }
}

#[cfg(not(target_arch = "aarch64"))]
impl Quads for Lanes {
    type Left = [i32; 4];
    type Right = [[u8; 4]; 8];
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn zero() -> Self {
        Lanes([0; 8])
    }
    #[inline(always)]
    unsafe fn left<const SIGNED: bool>(from: *const u8) -> [i32; 4] {
        // SAFETY: this function has the same contract.
        unsafe { from.cast::<[u8; 4]>().read() }.map(|byte| number(byte, SIGNED))
    }
    #[inline(always)]
    unsafe fn right<const SIGNED: bool>(from: *const u8) -> [[u8; 4]; 8] {
        // SAFETY: this function has the same contract.
        unsafe { from.cast::<[[u8; 4]; 8]>().read() }
    }
    #[inline(always)]
    unsafe fn add<const SIGNED: bool>(mut self, left: [i32; 4], right: [[u8; 4]; 8]) -> Self {
        for (sum, bytes) in self.0.iter_mut().zip(right) {
            for (left, byte) in left.into_iter().zip(bytes) {
                *sum = sum.wrapping_add(left * number(byte, !SIGNED));
            }
        }
        self
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut i32) {
        // SAFETY: this function has the same contract.
        unsafe { to.cast::<[i32; 8]>().write(self.0) }
    }
}

#[cfg(target_arch = "x86_64")]
mod amx;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::Quads;

    /// Declares a vector with an instruction that adds products of four bytes.
    macro_rules! vnni {
        ($name:ident, $register:ty, $lanes:literal, $zero:ident, $splat:ident, $load:ident, $store:ident, $add:ident) => {
            #[derive(Clone, Copy)]
            pub(super) struct $name($register);

            impl Quads for $name {
                type Left = $register;
                type Right = $register;
                const LANES: usize = $lanes;

                #[inline(always)]
                unsafe fn zero() -> Self {
                    // SAFETY: the trait's callers guarantee that the instruction set is available.
                    Self(unsafe { $zero() })
                }
                #[inline(always)]
                unsafe fn left<const SIGNED: bool>(from: *const u8) -> $register {
                    // SAFETY: the trait's callers guarantee that the instruction set is available and four bytes are valid.
                    unsafe { $splat(from.cast::<i32>().read_unaligned()) }
                }
                #[inline(always)]
                unsafe fn right<const SIGNED: bool>(from: *const u8) -> $register {
                    // SAFETY: the trait's callers guarantee that the instruction set is available and the bytes of a vector are
                    // valid.
                    unsafe { $load(from.cast()) }
                }
                #[inline(always)]
                unsafe fn add<const SIGNED: bool>(self, left: $register, right: $register) -> Self {
                    let (unsigned, signed) = if SIGNED { (right, left) } else { (left, right) };
                    // SAFETY: the trait's callers guarantee that the instruction set is available.
                    Self(unsafe { $add(self.0, unsigned, signed) })
                }
                #[inline(always)]
                unsafe fn store(self, to: *mut i32) {
                    // SAFETY: the trait's callers guarantee that the instruction set is available and there is room for a vector.
                    unsafe { $store(to.cast(), self.0) }
                }
            }
        };
    }

    vnni!(
        Zmm,
        __m512i,
        16,
        _mm512_setzero_si512,
        _mm512_set1_epi32,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        _mm512_dpbusd_epi32
    );
    vnni!(
        Ymm,
        __m256i,
        8,
        _mm256_setzero_si256,
        _mm256_set1_epi32,
        _mm256_loadu_si256,
        _mm256_storeu_si256,
        _mm256_dpbusd_avx_epi32
    );

    /// A vector whose bytes are widened to 16 bits, because sums of products of bytes would saturate. The bytes of the
    /// right operand are widened as they are read. The bytes of the left operand are widened only once, in advance,
    /// because every panel reads each row.
    #[derive(Clone, Copy)]
    pub(super) struct Wide(__m256i);

    impl Quads for Wide {
        type Left = __m256i;
        type Right = __m256i;
        const LANES: usize = 8;
        const PAIRS: bool = true;

        #[inline(always)]
        unsafe fn zero() -> Self {
            // SAFETY: the trait's callers guarantee that the instruction set is available.
            Self(unsafe { _mm256_setzero_si256() })
        }
        #[inline(always)]
        unsafe fn left<const SIGNED: bool>(from: *const u8) -> __m256i {
            // SAFETY: the trait's callers guarantee that the instruction set is available and two widened bytes are valid.
            unsafe { _mm256_set1_epi32(from.cast::<i32>().read_unaligned()) }
        }
        #[inline(always)]
        unsafe fn right<const SIGNED: bool>(from: *const u8) -> __m256i {
            // SAFETY: the trait's callers guarantee that the instruction set is available and two bytes for each lane are valid.
            unsafe {
                let bytes = _mm_loadu_si128(from.cast());
                if SIGNED { _mm256_cvtepu8_epi16(bytes) } else { _mm256_cvtepi8_epi16(bytes) }
            }
        }
        #[inline(always)]
        unsafe fn add<const SIGNED: bool>(self, left: __m256i, right: __m256i) -> Self {
            // SAFETY: the trait's callers guarantee that the instruction set is available.
            Self(unsafe { _mm256_add_epi32(self.0, _mm256_madd_epi16(left, right)) })
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut i32) {
            // SAFETY: the trait's callers guarantee that the instruction set is available and there is room for a vector.
            unsafe { _mm256_storeu_si256(to.cast(), self.0) }
        }
    }
}

/// The operands of one tile. Distances are in bytes, except that the distance of `sums` is in elements.
#[derive(Debug)]
pub(crate) struct QuadArgs {
    /// The number of groups of four bytes along the inner dimension.
    pub(crate) quads: usize,
    /// The number of rows of the tile.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only AMX takes it when it runs"))]
    pub(crate) rows: usize,
    pub(crate) left: *const u8,
    pub(crate) left_row: usize,
    /// The panel, in the layout of [`QuadKernels::group`], and the size of four of its rows in bytes.
    pub(crate) right: *const u8,
    pub(crate) right_row: usize,
    pub(crate) sums: *mut i32,
    pub(crate) sums_row: usize,
}

/// A function that computes a tile of a fixed number of vectors. The number of rows is fixed too, unless the function
/// reads `rows`.
pub(super) type Tile = unsafe fn(&QuadArgs);

/// # Safety
///
/// The operands have `quads` groups for `ROWS` rows and `VECTORS` vectors, and `sums` has room for the tile.
#[cfg(not(target_arch = "aarch64"))]
#[inline(always)]
unsafe fn tile<Q: Quads, const SIGNED: bool, const ROWS: usize, const VECTORS: usize>(args: &QuadArgs) {
    let &QuadArgs { quads, rows: _, left, left_row, right, right_row, sums, sums_row } = args;
    let parts = if Q::PAIRS { 2 } else { 1 };
    // SAFETY: the contract covers each access; pointers past the end are never read.
    unsafe {
        let mut totals = [[Q::zero(); VECTORS]; ROWS];
        for p in 0..parts * quads {
            let (left, right) = (left.add(4 * p), right.add(p * (right_row / parts)));
            let mut vectors = [Q::right::<SIGNED>(right); VECTORS];
            for (v, vector) in vectors.iter_mut().enumerate().skip(1) {
                *vector = Q::right::<SIGNED>(right.add(v * Q::LANES * (4 / parts)));
            }
            for (i, totals) in totals.iter_mut().enumerate() {
                let bytes = Q::left::<SIGNED>(left.add(i * left_row));
                for (total, &vector) in totals.iter_mut().zip(&vectors) {
                    *total = total.add::<SIGNED>(bytes, vector);
                }
            }
        }
        for (i, totals) in totals.into_iter().enumerate() {
            for (v, total) in totals.into_iter().enumerate() {
                total.store(sums.add(i * sums_row + v * Q::LANES));
            }
        }
    }
}

/// The kernels of one instruction set.
#[derive(Debug)]
pub(crate) struct QuadKernels {
    /// The number of columns of a vector.
    pub(crate) lanes: usize,
    /// The maximum number of rows and of vectors of a tile.
    pub(crate) rows: usize,
    pub(crate) vectors: usize,
    /// The number of adjacent bytes of a column in a panel, which one step adds to a sum. It is 1, 2, 4 or 8.
    pub(crate) group: usize,
    /// Whether the bytes of both operands have the same signedness. Otherwise one operand has signed bytes and the
    /// other has unsigned bytes.
    pub(crate) alike: bool,
    /// The tiles for a left operand of unsigned bytes, then the tiles for signed bytes. For each number of vectors,
    /// there is a tile for each number of rows.
    tiles: [&'static [&'static [Tile]]; 2],
}

impl QuadKernels {
    /// Returns the number of columns of a panel.
    pub(crate) const fn panel(&self) -> usize {
        self.lanes * self.vectors
    }

    /// Returns whether the bytes of the left operand are widened to 16 bits, because no instruction adds products of four bytes.
    pub(crate) const fn widened(&self) -> bool {
        self.group < 4
    }

    /// Returns the number of rows that tiles read if the operand has `k` rows: `k` rounded up to a multiple of four and
    /// of the group.
    pub(crate) const fn depth(&self, k: usize) -> usize {
        k.next_multiple_of(if self.group == 8 { 8 } else { 4 })
    }

    /// Returns the tile for this number of rows and columns.
    pub(crate) fn tile(&self, signed: bool, rows: usize, cols: usize) -> Option<Tile> {
        let [unsigned, signed_left] = self.tiles;
        let all = if signed { signed_left } else { unsigned };
        all.get(cols.div_ceil(self.lanes).checked_sub(1)?)?.get(rows.checked_sub(1)?).copied()
    }
}

/// The maximum number of columns of a panel.
pub(crate) const PANEL: usize = 48;

/// The maximum number of sums of a tile.
pub(crate) const MOST: usize = 16 * PANEL;

/// Lists the tiles of a function that is generic over sign, rows and vectors.
macro_rules! tiles {
    ($f:path, $signed:literal, $rows:tt, [$($vectors:literal)*]) => {
        &[$( tiles!(@ $f, $signed, $rows, $vectors) ),*]
    };
    (@ $f:path, $signed:literal, [$($rows:literal)*], $vectors:literal) => {
        &[$( { use $f as tile; tile::<$signed, $rows, $vectors> } ),*]
    };
}

/// Declares the kernels of an instruction set. Their tiles are generic over sign, rows and vectors.
macro_rules! kernels {
    ($name:ident, $f:path, $lanes:expr, group $group:expr, alike $alike:literal, $most_rows:literal, $most:literal, $rows:tt, $vectors:tt) => {
        static $name: QuadKernels = QuadKernels {
            lanes: $lanes,
            rows: $most_rows,
            vectors: $most,
            group: $group,
            alike: $alike,
            tiles: [tiles!($f, false, $rows, $vectors), tiles!($f, true, $rows, $vectors)],
        };
    };
}

/// Declares the kernels of an instruction set whose vectors implement [`Quads`].
#[cfg(not(target_arch = "aarch64"))]
macro_rules! kernels_of {
    ($name:ident, $f:ident, $quads:ty, [$($feature:literal)?], $most_rows:literal, $most:literal, $rows:tt, $vectors:tt) => {
        $(#[target_feature(enable = $feature)])?
        unsafe fn $f<const SIGNED: bool, const ROWS: usize, const VECTORS: usize>(args: &QuadArgs) {
            // SAFETY: this function has the same contract, and the instruction set.
            unsafe { tile::<$quads, SIGNED, ROWS, VECTORS>(args) }
        }

        kernels!(
            $name, $f, <$quads>::LANES, group if <$quads>::PAIRS { 2 } else { 4 }, alike false,
            $most_rows, $most, $rows, $vectors
        );
    };
}

#[cfg(not(target_arch = "aarch64"))]
kernels_of!(PORTABLE, portable, Lanes, [], 4, 2, [1 2 3 4], [1 2]);
#[cfg(target_arch = "x86_64")]
kernels_of!(AVX2, avx2, x86::Wide, ["avx2,fma,bmi1,bmi2"], 6, 2, [1 2 3 4 5 6], [1 2]);
#[cfg(target_arch = "x86_64")]
kernels_of!(AVX_VNNI, avx_vnni, x86::Ymm, ["avx2,fma,bmi1,bmi2,avxvnni"], 6, 2, [1 2 3 4 5 6], [1 2]);
#[cfg(target_arch = "x86_64")]
kernels_of!(
    AVX512, avx512, x86::Zmm, ["avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,bmi1,bmi2"],
    8, 3, [1 2 3 4 5 6 7 8], [1 2 3]
);

#[cfg(target_arch = "aarch64")]
kernels!(NEON, neon::long, 8, group 1, alike false, 6, 2, [1 2 3 4 5 6], [1 2]);
#[cfg(target_arch = "aarch64")]
kernels!(DOTPROD, neon::dots, 4, group 4, alike true, 6, 4, [1 2 3 4 5 6], [1 2 3 4]);
#[cfg(target_arch = "aarch64")]
kernels!(I8MM, neon::matrices, 4, group 8, alike false, 6, 4, [1 2 3 4 5 6], [1 2 3 4]);

/// The kernels of [`AVX512`], with AMX tiles for more than a few rows.
#[cfg(target_arch = "x86_64")]
static AMX: QuadKernels = QuadKernels {
    lanes: AVX512.lanes,
    rows: 16,
    vectors: AVX512.vectors,
    group: AVX512.group,
    alike: AVX512.alike,
    tiles: amx::TILES,
};

/// The instructions for products of bytes on x86-64.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy)]
pub(super) enum Products {
    /// Products of sixteen rows and sixteen columns in one instruction. A few rows use the tiles of the next variant.
    Amx,
    /// Four products of bytes per sum in one instruction, in vectors of 64 bytes.
    Avx512Vnni,
    /// Four products of bytes per sum in one instruction, in vectors of 32 bytes.
    AvxVnni,
    /// Two products of widened bytes per sum in one instruction.
    Avx2,
    /// The instructions that every processor of the target has.
    Portable,
}

/// Returns the instructions that kernels use.
#[cfg(target_arch = "x86_64")]
pub(super) fn products() -> Products {
    match level() {
        Level::Avx512 if extras() && is_x86_feature_detected!("avx512vnni") => {
            if amx::allowed() {
                Products::Amx
            } else {
                Products::Avx512Vnni
            }
        }
        Level::Avx512 | Level::Avx2 if extras() && is_x86_feature_detected!("avxvnni") => Products::AvxVnni,
        Level::Avx512 | Level::Avx2 => Products::Avx2,
        _ => Products::Portable,
    }
}

/// Returns the kernels for this processor.
#[cfg(target_arch = "x86_64")]
pub(crate) fn kernels() -> &'static QuadKernels {
    match products() {
        Products::Amx => &AMX,
        Products::Avx512Vnni => &AVX512,
        Products::AvxVnni => &AVX_VNNI,
        Products::Avx2 => &AVX2,
        Products::Portable => &PORTABLE,
    }
}

/// Returns the kernels for this processor.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn kernels() -> &'static QuadKernels {
    match level() {
        #[cfg(target_arch = "aarch64")]
        Level::I8mm => &I8MM,
        #[cfg(target_arch = "aarch64")]
        Level::Dotprod => &DOTPROD,
        #[cfg(target_arch = "aarch64")]
        _ => &NEON,
        #[cfg(not(target_arch = "aarch64"))]
        _ => &PORTABLE,
    }
}
