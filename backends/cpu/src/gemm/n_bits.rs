//! Products with columns of integers of 4 or 8 bits, which are quantised in blocks.
//!
//! A column is read unchanged from memory. Its bytes are converted to floats in registers and multiplied there, so that
//! a product with one row reads only the integers. If a byte stores two numbers, a vector holds the low halves of
//! several bytes, and another vector holds the high halves. Therefore [`arrange`] first brings rows to this order, and
//! columns are dequantised in the same order.

use super::vector::{Portable, Vector};
#[cfg(target_arch = "x86_64")]
use crate::level::Level;
use crate::level::level;

/// The sizes in bytes of the groups whose low and high halves are separated in one step.
const WIDE: usize = 16;
const NARROW: usize = 8;

/// The storage format of columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Format {
    /// Whether a byte stores two numbers of four bits, the low one first. Otherwise a byte stores one number.
    pub(crate) halves: bool,
    /// The count of numbers in a block.
    pub(crate) block: usize,
}

impl Format {
    /// Returns the format, or `None` if there are no kernels for it.
    pub(crate) fn of(bits: i64, block: i64) -> Option<Format> {
        let block = usize::try_from(block).ok().filter(|block| *block > 0 && block.is_multiple_of(WIDE))?;
        matches!(bits, 4 | 8).then_some(Format { halves: bits == 4, block })
    }

    /// Returns the number of bytes of a block.
    pub(crate) fn bytes(self) -> usize {
        if self.halves { self.block / 2 } else { self.block }
    }

    /// Returns the size of the groups whose low and high halves are separated in one step, in bytes.
    fn together(self) -> usize {
        if self.bytes().is_multiple_of(WIDE) { WIDE } else { NARROW }
    }
}

/// A column: its bytes, and the scale and the zero point of each block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) scales: &'a [f32],
    pub(crate) zeros: Zeros<'a>,
}

/// The zero points of blocks.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Zeros<'a> {
    /// One zero point for all blocks.
    One(f32),
    Bytes(&'a [u8]),
    Floats(&'a [f32]),
}

impl Column<'_> {
    /// Returns the number of complete blocks of the column.
    fn blocks(&self, format: Format) -> usize {
        let zeros = match self.zeros {
            Zeros::One(_) => usize::MAX,
            Zeros::Bytes(list) => list.len(),
            Zeros::Floats(list) => list.len(),
        };
        (self.bytes.len() / format.bytes()).min(self.scales.len()).min(zeros)
    }

    /// Returns the zero point and the scale of a block.
    ///
    /// # Safety
    ///
    /// The column has the block.
    #[inline(always)]
    unsafe fn step(&self, block: usize) -> [f32; 2] {
        // SAFETY: the caller guarantees that the block is valid.
        unsafe {
            let zero = match self.zeros {
                Zeros::One(zero) => zero,
                Zeros::Bytes(list) => f32::from(*list.get_unchecked(block)),
                Zeros::Floats(list) => *list.get_unchecked(block),
            };
            [zero, *self.scales.get_unchecked(block)]
        }
    }
}

/// Rearranges a row to the order that [`product`] reads. `out` has the length of a column and is padded with zeros.
pub(crate) fn arrange(format: Format, out: &mut [f32], row: &[f32]) {
    if !format.halves {
        let (numbers, rest) = out.split_at_mut(row.len().min(out.len()));
        numbers.copy_from_slice(row.get(..numbers.len()).unwrap_or_default());
        return rest.fill(0.0);
    }
    let together = format.together();
    let rows = row.chunks(2 * together).chain(std::iter::repeat(&[][..]));
    for (out, row) in out.chunks_exact_mut(2 * together).zip(rows) {
        let (low, high) = out.split_at_mut(together);
        for (i, (low, high)) in low.iter_mut().zip(high).enumerate() {
            *low = row.get(2 * i).copied().unwrap_or(0.0);
            *high = row.get(2 * i + 1).copied().unwrap_or(0.0);
        }
    }
}

/// A vector of dequantised bytes.
///
/// # Safety
///
/// As for [`Vector`]; `from` points to one byte for each lane.
trait Widened: Vector<Item = f32> {
    /// The zero point and the scale of a block in the layout that the loop uses.
    type Step: Copy;

    unsafe fn step(parts: [f32; 2]) -> Self::Step;
    /// Dequantises the low halves and the high halves of some bytes.
    unsafe fn halves(from: *const u8, step: Self::Step) -> [Self; 2];
    /// Dequantises some bytes.
    unsafe fn bytes(from: *const u8, step: [f32; 2]) -> Self;
}

impl Widened for Portable<f32> {
    type Step = [f32; 2];

    #[inline(always)]
    unsafe fn step(parts: [f32; 2]) -> [f32; 2] {
        parts
    }
    #[inline(always)]
    unsafe fn halves(from: *const u8, [zero, scale]: [f32; 2]) -> [Self; 2] {
        // SAFETY: the caller guarantees that the bytes are valid.
        let bytes = unsafe { from.cast::<[u8; 8]>().read() };
        let [mut low, mut high] = [[0f32; 8]; 2];
        for ((low, high), byte) in low.iter_mut().zip(&mut high).zip(bytes) {
            *low = (f32::from(byte & 15) - zero) * scale;
            *high = (f32::from(byte >> 4) - zero) * scale;
        }
        [Portable(low), Portable(high)]
    }
    #[inline(always)]
    unsafe fn bytes(from: *const u8, [zero, scale]: [f32; 2]) -> Self {
        // SAFETY: the caller guarantees that the bytes are valid.
        let bytes = unsafe { from.cast::<[u8; 8]>().read() };
        let mut numbers = [0f32; 8];
        for (number, byte) in numbers.iter_mut().zip(bytes) {
            *number = (f32::from(byte) - zero) * scale;
        }
        Portable(numbers)
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::super::vector::{F32x8, F32x16};
    use super::Widened;
    use std::arch::x86_64::*;

    impl Widened for F32x8 {
        type Step = [__m256; 2];

        #[inline(always)]
        unsafe fn step([zero, scale]: [f32; 2]) -> [__m256; 2] {
            // SAFETY: the trait's callers guarantee that the instruction set is available.
            unsafe { [_mm256_set1_ps(zero), _mm256_set1_ps(scale)] }
        }
        #[inline(always)]
        unsafe fn halves(from: *const u8, [zero, scale]: [__m256; 2]) -> [Self; 2] {
            // SAFETY: the trait's callers guarantee that the instruction set is available and eight bytes are valid.
            unsafe {
                let bytes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(from.cast()));
                let low = _mm256_and_si256(bytes, _mm256_set1_epi32(15));
                let high = _mm256_srli_epi32::<4>(bytes);
                [
                    Self(_mm256_mul_ps(_mm256_sub_ps(_mm256_cvtepi32_ps(low), zero), scale)),
                    Self(_mm256_mul_ps(_mm256_sub_ps(_mm256_cvtepi32_ps(high), zero), scale)),
                ]
            }
        }
        #[inline(always)]
        unsafe fn bytes(from: *const u8, [zero, scale]: [f32; 2]) -> Self {
            // SAFETY: the trait's callers guarantee that the instruction set is available and eight bytes are valid.
            unsafe {
                let x = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(from.cast())));
                Self(_mm256_mul_ps(_mm256_sub_ps(x, _mm256_set1_ps(zero)), _mm256_set1_ps(scale)))
            }
        }
    }

    impl Widened for F32x16 {
        /// A table of the 16 values that a four-bit integer can encode.
        type Step = __m512;

        #[inline(always)]
        unsafe fn step([zero, scale]: [f32; 2]) -> __m512 {
            // SAFETY: the trait's callers guarantee that the instruction set is available.
            unsafe {
                let all = _mm512_set_ps(
                    15.0, 14.0, 13.0, 12.0, 11.0, 10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0,
                );
                _mm512_mul_ps(_mm512_sub_ps(all, _mm512_set1_ps(zero)), _mm512_set1_ps(scale))
            }
        }
        #[inline(always)]
        unsafe fn halves(from: *const u8, table: __m512) -> [Self; 2] {
            // SAFETY: the trait's callers guarantee that the instruction set is available and 16 bytes are valid. The
            // low four bits of a lane are an index of the table.
            unsafe {
                let bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast()));
                let high = _mm512_srli_epi32::<4>(bytes);
                [Self(_mm512_permutexvar_ps(bytes, table)), Self(_mm512_permutexvar_ps(high, table))]
            }
        }
        #[inline(always)]
        unsafe fn bytes(from: *const u8, [zero, scale]: [f32; 2]) -> Self {
            // SAFETY: the trait's callers guarantee that the instruction set is available and 16 bytes are valid.
            unsafe {
                let x = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast())));
                Self(_mm512_mul_ps(_mm512_sub_ps(x, _mm512_set1_ps(zero)), _mm512_set1_ps(scale)))
            }
        }
    }
}

/// Computes the dot product of an arranged row and the first blocks of a column.
///
/// # Safety
///
/// The row and the column have the blocks. The bytes of a block are a multiple of `G`, and `G` is a multiple of the
/// lanes.
#[inline(always)]
unsafe fn dot<V: Widened, const G: usize>(
    format: Format,
    blocks: usize,
    mut row: *const f32,
    column: &Column<'_>,
) -> f32 {
    let mut bytes = column.bytes.as_ptr();
    // SAFETY: this function's contract.
    unsafe {
        let mut sums = [V::zero(); 2];
        for block in 0..blocks {
            let parts = column.step(block);
            if format.halves {
                let step = V::step(parts);
                for first in (0..format.block / 2).step_by(G) {
                    for part in (0..G).step_by(V::LANES) {
                        let [low, high] = V::halves(bytes.add(first + part), step);
                        let x = row.add(2 * first + part);
                        let [low_sum, high_sum] = sums;
                        sums = [low_sum.mul_add(low, V::load(x)), high_sum.mul_add(high, V::load(x.add(G)))];
                    }
                }
            } else {
                for first in (0..format.block).step_by(V::LANES) {
                    let [sum, other] = sums;
                    let x = V::load(row.add(first));
                    sums = [other, sum.mul_add(V::bytes(bytes.add(first), parts), x)];
                }
            }
            bytes = bytes.add(format.bytes());
            row = row.add(format.block);
        }
        let [low, high] = sums;
        low.add(high).total()
    }
}

/// Dequantises the first blocks of a column and writes them to `out`.
///
/// # Safety
///
/// As for [`dot`]; `out` has room for the numbers of the blocks.
#[inline(always)]
unsafe fn write<V: Widened, const G: usize>(
    format: Format,
    blocks: usize,
    mut out: *mut f32,
    column: &Column<'_>,
) {
    let mut bytes = column.bytes.as_ptr();
    // SAFETY: this function's contract.
    unsafe {
        for block in 0..blocks {
            let parts = column.step(block);
            if format.halves {
                let step = V::step(parts);
                for first in (0..format.block / 2).step_by(G) {
                    for part in (0..G).step_by(V::LANES) {
                        let [low, high] = V::halves(bytes.add(first + part), step);
                        let out = out.add(2 * first + part);
                        low.store(out);
                        high.store(out.add(G));
                    }
                }
            } else {
                for first in (0..format.block).step_by(V::LANES) {
                    V::bytes(bytes.add(first), parts).store(out.add(first));
                }
            }
            bytes = bytes.add(format.bytes());
            out = out.add(format.block);
        }
    }
}

macro_rules! levels {
    ($($dot:ident, $write:ident $(, #[$feature:meta])?;)*) => {$(
        $(#[$feature])?
        unsafe fn $dot<V: Widened, const G: usize>(f: Format, n: usize, row: *const f32, c: &Column<'_>) -> f32 {
            // SAFETY: this function has the same contract.
            unsafe { dot::<V, G>(f, n, row, c) }
        }

        $(#[$feature])?
        unsafe fn $write<V: Widened, const G: usize>(f: Format, n: usize, out: *mut f32, c: &Column<'_>) {
            // SAFETY: this function has the same contract.
            unsafe { write::<V, G>(f, n, out, c) }
        }
    )*};
}

levels! {
    dot_portable, write_portable;
}

#[cfg(target_arch = "x86_64")]
levels! {
    dot_avx2, write_avx2, #[target_feature(enable = "avx2,fma")];
    dot_avx512, write_avx512, #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")];
}

/// Computes the dot product of an arranged row and a column.
pub(crate) fn product(format: Format, row: &[f32], column: Column<'_>) -> f32 {
    let n = column.blocks(format).min(row.len() / format.block);
    let (row, c, narrow) = (row.as_ptr(), &column, format.together() == NARROW);
    // SAFETY: the row and the column have `n` blocks, and `level` returns only a level of this processor.
    unsafe {
        match (level(), narrow) {
            #[cfg(target_arch = "x86_64")]
            (Level::Avx512, false) => dot_avx512::<super::vector::F32x16, WIDE>(format, n, row, c),
            #[cfg(target_arch = "x86_64")]
            (Level::Avx512 | Level::Avx2, true) => {
                dot_avx2::<super::vector::F32x8, NARROW>(format, n, row, c)
            }
            #[cfg(target_arch = "x86_64")]
            (Level::Avx2, false) => dot_avx2::<super::vector::F32x8, WIDE>(format, n, row, c),
            (_, true) => dot_portable::<Portable<f32>, NARROW>(format, n, row, c),
            (_, false) => dot_portable::<Portable<f32>, WIDE>(format, n, row, c),
        }
    }
}

/// Dequantises a column to `out`, in the order of arranged rows. `out` has the length of a column.
pub(crate) fn widen(format: Format, out: &mut [f32], column: Column<'_>) {
    let n = column.blocks(format).min(out.len() / format.block);
    let (out, c, narrow) = (out.as_mut_ptr(), &column, format.together() == NARROW);
    // SAFETY: `out` and the column have `n` blocks, and `level` returns only a level of this processor.
    unsafe {
        match (level(), narrow) {
            #[cfg(target_arch = "x86_64")]
            (Level::Avx512, false) => write_avx512::<super::vector::F32x16, WIDE>(format, n, out, c),
            #[cfg(target_arch = "x86_64")]
            (Level::Avx512 | Level::Avx2, true) => {
                write_avx2::<super::vector::F32x8, NARROW>(format, n, out, c)
            }
            #[cfg(target_arch = "x86_64")]
            (Level::Avx2, false) => write_avx2::<super::vector::F32x8, WIDE>(format, n, out, c),
            (_, true) => write_portable::<Portable<f32>, NARROW>(format, n, out, c),
            (_, false) => write_portable::<Portable<f32>, WIDE>(format, n, out, c),
        }
    }
}
