//! Exchanges the two dimensions of a matrix, by blocks that fit the first cache.

use super::{Level, Shared, level, walk};

/// Side of a block.
const BLOCK: usize = 64;

/// Writes `dst[j, i] = src[i, j]` for a `rows` by `cols` source, each with contiguous rows that lie
/// `src_row` and `dst_row` elements apart.
///
/// Elements are moved, so any type of the same size serves: `u8`, `u16`, `u32`, `u64`, `u128`.
///
/// # Safety
///
/// `src` holds `rows` rows of `cols` elements and `dst` `cols` rows of `rows` elements at these
/// distances; they do not overlap.
pub unsafe fn transpose<T: Copy>(
    rows: usize,
    cols: usize,
    dst: *mut T,
    dst_row: usize,
    src: *const T,
    src_row: usize,
) {
    let square = Square::<T>::of(level());
    let shared = Shared((dst, src));
    walk::split(cols.div_ceil(BLOCK), rows * BLOCK, 1 << 17, |from, to| {
        let (dst, src) = shared.get();
        for block in from..to {
            let (left, right) = (block * BLOCK, cols.min(block * BLOCK + BLOCK));
            for top in (0..rows).step_by(BLOCK) {
                let end = rows.min(top + BLOCK);
                // SAFETY: this function's contract; the block lies in the matrix.
                unsafe {
                    let (dst, src) = (dst.add(left * dst_row + top), src.add(top * src_row + left));
                    square.block(end - top, right - left, dst, dst_row, src, src_row);
                }
            }
        }
    });
}

/// Transposes one square of registers: `dst`, `dst_row`, `src`, `src_row`.
type Registers<T> = unsafe fn(*mut T, usize, *const T, usize);

/// How the inside of a block is transposed.
struct Square<T> {
    side: usize,
    registers: Option<Registers<T>>,
}

impl<T: Copy> Square<T> {
    fn of(level: Level) -> Self {
        let _ = level;
        #[cfg(target_arch = "x86_64")]
        if level >= Level::Avx2 {
            // The forms move bits, whatever type has that size.
            if size_of::<T>() == 4 {
                // SAFETY: the level says that the processor has AVX2, and whoever calls a form names a whole square of
                // 8 by 8 elements at both ends, which are as wide as those it moves.
                let f: Registers<T> = |dst, dst_row, src, src_row| unsafe {
                    x86::four(dst.cast(), dst_row, src.cast(), src_row)
                };
                return Self { side: 8, registers: Some(f) };
            }
            if size_of::<T>() == 8 {
                // SAFETY: the level says that the processor has AVX2, and whoever calls a form names a whole square of
                // 4 by 4 elements at both ends, which are as wide as those it moves.
                let f: Registers<T> = |dst, dst_row, src, src_row| unsafe {
                    x86::eight(dst.cast(), dst_row, src.cast(), src_row)
                };
                return Self { side: 4, registers: Some(f) };
            }
        }
        Self { side: 0, registers: None }
    }

    /// # Safety
    ///
    /// `src` holds `rows` rows of `cols` elements, `dst` the reverse.
    unsafe fn block(
        &self,
        rows: usize,
        cols: usize,
        dst: *mut T,
        dst_row: usize,
        src: *const T,
        src_row: usize,
    ) {
        let (mut whole_rows, mut whole_cols) = (0, 0);
        if let Some(registers) = self.registers {
            (whole_rows, whole_cols) = (rows / self.side * self.side, cols / self.side * self.side);
            for j in (0..whole_cols).step_by(self.side) {
                for i in (0..whole_rows).step_by(self.side) {
                    // SAFETY: the square lies in the block.
                    unsafe {
                        registers(dst.add(j * dst_row + i), dst_row, src.add(i * src_row + j), src_row)
                    };
                }
            }
        }
        let one = |i: usize, j: usize| {
            // SAFETY: the element lies in the block.
            unsafe { dst.add(j * dst_row + i).write(*src.add(i * src_row + j)) }
        };
        for j in 0..whole_cols {
            (whole_rows..rows).for_each(|i| one(i, j));
        }
        for j in whole_cols..cols {
            (0..rows).for_each(|i| one(i, j));
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// # Safety
    ///
    /// Eight rows of eight elements on both sides; the processor has AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn four(dst: *mut f32, dst_row: usize, src: *const f32, src_row: usize) {
        // SAFETY: this function's contract.
        let half = |i: usize, j: usize| unsafe { _mm_loadu_ps(src.add(i * src_row + j)) };
        // Rows i and i + 4 share a register, so that only neighbours within 16 bytes need to move.
        let pair = |i: usize, j: usize| _mm256_set_m128(half(i + 4, j), half(i, j));
        for j in [0, 4] {
            let (r0, r1, r2, r3) = (pair(0, j), pair(1, j), pair(2, j), pair(3, j));
            let (a, b) = (_mm256_unpacklo_ps(r0, r1), _mm256_unpackhi_ps(r0, r1));
            let (c, d) = (_mm256_unpacklo_ps(r2, r3), _mm256_unpackhi_ps(r2, r3));
            let columns = [
                _mm256_shuffle_ps::<0x44>(a, c),
                _mm256_shuffle_ps::<0xee>(a, c),
                _mm256_shuffle_ps::<0x44>(b, d),
                _mm256_shuffle_ps::<0xee>(b, d),
            ];
            for (v, column) in columns.into_iter().enumerate() {
                // SAFETY: as above.
                unsafe { _mm256_storeu_ps(dst.add((j + v) * dst_row), column) };
            }
        }
    }

    /// # Safety
    ///
    /// Four rows of four elements on both sides; the processor has AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn eight(dst: *mut f64, dst_row: usize, src: *const f64, src_row: usize) {
        // SAFETY: this function's contract.
        let half = |i: usize, j: usize| unsafe { _mm_loadu_pd(src.add(i * src_row + j)) };
        let pair = |i: usize, j: usize| _mm256_set_m128d(half(i + 2, j), half(i, j));
        for j in [0, 2] {
            let (r0, r1) = (pair(0, j), pair(1, j));
            // SAFETY: as above.
            unsafe {
                _mm256_storeu_pd(dst.add(j * dst_row), _mm256_unpacklo_pd(r0, r1));
                _mm256_storeu_pd(dst.add((j + 1) * dst_row), _mm256_unpackhi_pd(r0, r1));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::indexing_slicing, reason = "tests")]

    use super::transpose;
    use crate::simd::{at, levels};

    fn check<T: Copy + PartialEq + std::fmt::Debug>(from: impl Fn(usize) -> T) {
        for rows in [0, 1, 2, 3, 4, 7, 8, 9, 15, 17, 33, 63, 65, 130] {
            for cols in [0, 1, 2, 5, 8, 12, 16, 31, 64, 67, 129] {
                let (src_row, dst_row) = (cols + 3, rows + 1);
                let src: Vec<T> = (0..rows * src_row).map(&from).collect();
                for level in levels() {
                    let mut dst = vec![from(251); cols * dst_row];
                    // SAFETY: the vectors have these extents.
                    at(level, || unsafe {
                        transpose(rows, cols, dst.as_mut_ptr(), dst_row, src.as_ptr(), src_row);
                    });
                    for j in 0..cols {
                        for i in 0..rows {
                            assert_eq!(dst[j * dst_row + i], src[i * src_row + j]);
                        }
                        assert_eq!(dst[j * dst_row + rows], from(251), "wrote between rows");
                    }
                }
            }
        }
    }

    #[test]
    fn every_size_of_element_moves_to_its_place() {
        check(|i| i as u8);
        check(|i| i as u16);
        check(|i| i as u32);
        check(|i| i as u64);
        check(|i| i as u128);
    }
}
