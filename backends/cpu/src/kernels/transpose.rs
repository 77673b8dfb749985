//! Transposes matrices in blocks that fit in the first-level cache.

use super::element_loop::GRAIN;
use super::interleave::{self, Matrices};
use super::moves::line;
use super::{Shared, walk};
use crate::layout::Dim;
use crate::level::{Level, level};
use crate::pace::Pace;

/// The side of a block, in elements.
const BLOCK: usize = 64;

/// Writes `dst[j, i] = src[i, j]` for a `rows` by `cols` source. Both have contiguous rows of elements of `size` bytes;
/// the rows are `src_row` and `dst_row` elements apart.
///
/// # Safety
///
/// `src` holds `rows` rows of `cols` elements and `dst` holds `cols` rows of `rows` elements at these distances; they
/// do not overlap.
pub(crate) unsafe fn transpose(
    size: usize,
    rows: usize,
    cols: usize,
    dst: *mut u8,
    dst_row: usize,
    src: *const u8,
    src_row: usize,
) {
    let shared = Shared((dst, src));
    if dst_row == rows
        && let Some(join) = interleave::kernel::<true>(size, rows)
    {
        return walk::split(cols, rows, GRAIN, |from, to| {
            let (dst, src) = shared.get();
            // SAFETY: these columns of the source are rows of the destination without gaps.
            unsafe {
                let (apart, joined) = (src.add(from * size).cast_mut(), dst.add(from * rows * size));
                join(Matrices { cols: to - from, apart, row: src_row, joined, count: 1, steps: [0; 2] });
            }
        });
    }
    if src_row == cols
        && let Some(part) = interleave::kernel::<false>(size, cols)
    {
        return walk::split(rows, cols, GRAIN, |from, to| {
            let (dst, src) = shared.get();
            // SAFETY: these rows of the source, without gaps, are columns of the destination.
            unsafe {
                let (apart, joined) = (dst.add(from * size), src.add(from * cols * size).cast_mut());
                part(Matrices { cols: to - from, apart, row: dst_row, joined, count: 1, steps: [0; 2] });
            }
        });
    }
    walk::split(cols.div_ceil(BLOCK), rows * BLOCK, GRAIN, |from, to| {
        let (dst, src) = shared.get();
        let mut pace = Pace::new();
        for at in from..to {
            let (left, right) = (at * BLOCK, cols.min(at * BLOCK + BLOCK));
            for top in (0..rows).step_by(BLOCK) {
                let end = rows.min(top + BLOCK);
                pace.step(BLOCK * BLOCK);
                // SAFETY: the block is in the matrix that the caller guarantees.
                unsafe {
                    let dst = dst.add((left * dst_row + top) * size);
                    let src = src.add((top * src_row + left) * size);
                    block::<false>(size, end - top, right - left, dst, dst_row, src, src_row);
                }
            }
        }
    });
}

/// The maximum number of elements of a matrix that is transposed together with others.
const SMALL: usize = 1 << 10;

/// Transposes matrices as [`transpose`] does, which are `matrices.strides` elements apart in `dst` and `src`.
///
/// # Safety
///
/// Same as for [`transpose`], for each matrix.
#[expect(clippy::too_many_arguments, reason = "two matrices and how to move them")]
pub(crate) unsafe fn transpose_each(
    size: usize,
    rows: usize,
    cols: usize,
    dst: *mut u8,
    dst_row: usize,
    src: *const u8,
    src_row: usize,
    matrices: Dim<2>,
) {
    let Dim { extent: count, strides: steps @ [d, s] } = matrices;
    let is_small = rows.saturating_mul(cols) <= SMALL;
    if let Some(join) = interleave::kernel::<true>(size, rows).filter(|_| is_small && dst_row == rows) {
        let (apart, joined) = (src.cast_mut(), dst);
        // SAFETY: the columns of the sources are rows of the destinations without gaps.
        return unsafe { join(Matrices { cols, apart, row: src_row, joined, count, steps: [s, d] }) };
    }
    if let Some(part) = interleave::kernel::<false>(size, cols).filter(|_| is_small && src_row == cols) {
        let (apart, joined) = (dst, src.cast_mut());
        // SAFETY: the rows of the sources, without gaps, are columns of the destinations.
        return unsafe { part(Matrices { cols: rows, apart, row: dst_row, joined, count, steps }) };
    }
    let mut pace = Pace::new();
    for i in 0..count.cast_signed() {
        pace.step(rows * cols);
        let [d, s] = [d, s].map(|step| step * size.cast_signed() * i);
        // SAFETY: this function has the same contract.
        unsafe {
            transpose(size, rows, cols, dst.wrapping_offset(d), dst_row, src.wrapping_offset(s), src_row);
        }
    }
}

/// Transposes as [`transpose`] does, on this thread. Iterates along the rows of the source if `SOURCE`, otherwise along
/// the rows of the destination. It is fastest along the rows that are farther apart.
///
/// # Safety
///
/// Same as for [`transpose`].
pub(crate) unsafe fn block<const SOURCE: bool>(
    size: usize,
    rows: usize,
    cols: usize,
    dst: *mut u8,
    dst_row: usize,
    src: *const u8,
    src_row: usize,
) {
    // SAFETY: this function has the same contract, and the kernels are for this processor's level.
    unsafe { squares::<SOURCE>(size, forms(size, level()), rows, cols, dst, dst_row, src, src_row) }
}

/// A function that transposes a square in registers.
struct SquareKernel {
    side: usize,
    /// The arguments are `dst`, `dst_row`, `src` and `src_row`; distances are in elements.
    run: unsafe fn(*mut u8, usize, *const u8, usize),
}

/// Returns the kernels for elements of `size` bytes of any type, the largest squares first.
fn forms(size: usize, level: Level) -> &'static [SquareKernel] {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY of each: processors of this level have the instructions. Callers of a kernel guarantee a whole square
        // in both matrices, with elements of the size that the kernel moves.
        const SIXTEEN: SquareKernel = SquareKernel {
            side: 16,
            run: |to, to_row, x, row| unsafe { x86::sixteen(to.cast(), to_row, x.cast(), row) },
        };
        const EIGHT: SquareKernel = SquareKernel {
            side: 8,
            run: |to, to_row, x, row| unsafe { x86::eight(to.cast(), to_row, x.cast(), row) },
        };
        const BYTES: SquareKernel =
            SquareKernel { side: 16, run: |to, to_row, x, row| unsafe { x86::bytes(to, to_row, x, row) } };
        const PAIRS: SquareKernel = SquareKernel {
            side: 8,
            run: |to, to_row, x, row| unsafe { x86::pairs(to.cast(), to_row, x.cast(), row) },
        };
        const FOUR: SquareKernel = SquareKernel {
            side: 4,
            run: |to, to_row, x, row| unsafe { x86::four(to.cast(), to_row, x.cast(), row) },
        };
        match (size, level) {
            (1, Level::Avx512 | Level::Avx2) => return &[BYTES],
            (2, Level::Avx512 | Level::Avx2) => return &[PAIRS],
            (4, Level::Avx512) => return &[SIXTEEN, EIGHT],
            (4, Level::Avx2) => return &[EIGHT],
            (8, Level::Avx512 | Level::Avx2) => return &[FOUR],
            _ => {}
        }
    }
    let _ = (size, level);
    &[]
}

/// Transposes squares with the first kernel of `forms`, the rest with the other kernels, and the remaining elements
/// line by line.
///
/// # Safety
///
/// Same as for [`transpose`]; the processor has the instructions that the kernels need.
#[expect(clippy::too_many_arguments, reason = "two matrices and how to move them")]
unsafe fn squares<const SOURCE: bool>(
    size: usize,
    forms: &[SquareKernel],
    rows: usize,
    cols: usize,
    dst: *mut u8,
    dst_row: usize,
    src: *const u8,
    src_row: usize,
) {
    // SAFETY: the elements are in the matrices that the caller guarantees.
    let at = |i: usize, j: usize| unsafe {
        (dst.add((j * dst_row + i) * size), src.add((i * src_row + j) * size))
    };
    let Some((&SquareKernel { side, run }, others)) = forms.split_first() else {
        if rows < cols {
            for i in 0..rows {
                let (dst, src) = at(i, 0);
                let step = (dst_row * size).cast_signed();
                // SAFETY: row `i` of the source and column `i` of the destination are in the matrices.
                unsafe { line(size, cols, dst, step, src, size.cast_signed()) };
            }
            return;
        }
        for j in 0..cols {
            let (dst, src) = at(0, j);
            // SAFETY: column `j` of the source and row `j` of the destination are in the matrices.
            unsafe { line(size, rows, dst, size.cast_signed(), src, (src_row * size).cast_signed()) };
        }
        return;
    };
    let (whole_rows, whole_cols) = (rows / side * side, cols / side * side);
    // SAFETY: the squares, the rows below them and the columns beside them are in the matrix.
    unsafe {
        let (outer, inner) = if SOURCE { (whole_rows, whole_cols) } else { (whole_cols, whole_rows) };
        for x in (0..outer).step_by(side) {
            for y in (0..inner).step_by(side) {
                let (i, j) = if SOURCE { (x, y) } else { (y, x) };
                let (dst, src) = at(i, j);
                run(dst, dst_row, src, src_row);
            }
        }
        if whole_rows < rows {
            let (dst, src) = at(whole_rows, 0);
            squares::<SOURCE>(size, others, rows - whole_rows, whole_cols, dst, dst_row, src, src_row);
        }
        if whole_cols < cols {
            let (dst, src) = at(0, whole_cols);
            squares::<SOURCE>(size, others, rows, cols - whole_cols, dst, dst_row, src, src_row);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// # Safety
    ///
    /// Both matrices have sixteen rows of sixteen elements; the processor has AVX-512 F.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn sixteen(dst: *mut f32, dst_row: usize, src: *const f32, src_row: usize) {
        // SAFETY: this function has the same contract.
        let row = |i: usize| unsafe { _mm512_loadu_ps(src.add(i * src_row)) };
        // Transposes four rows within each 16 bytes: column `4 * l + v` is in the 16 bytes `l` of register `v`.
        let four = |i: usize| {
            let (r0, r1, r2, r3) = (row(i), row(i + 1), row(i + 2), row(i + 3));
            let (a, b) = (_mm512_unpacklo_ps(r0, r1), _mm512_unpackhi_ps(r0, r1));
            let (c, d) = (_mm512_unpacklo_ps(r2, r3), _mm512_unpackhi_ps(r2, r3));
            [
                _mm512_shuffle_ps::<0x44>(a, c),
                _mm512_shuffle_ps::<0xee>(a, c),
                _mm512_shuffle_ps::<0x44>(b, d),
                _mm512_shuffle_ps::<0xee>(b, d),
            ]
        };
        let (top, upper, lower, bottom) = (four(0), four(4), four(8), four(12));
        for (v, (((a, b), c), d)) in top.into_iter().zip(upper).zip(lower).zip(bottom).enumerate() {
            let (ab, cd) = (_mm512_shuffle_f32x4::<0x44>(a, b), _mm512_shuffle_f32x4::<0x44>(c, d));
            let (ef, gh) = (_mm512_shuffle_f32x4::<0xee>(a, b), _mm512_shuffle_f32x4::<0xee>(c, d));
            let columns = [
                _mm512_shuffle_f32x4::<0x88>(ab, cd),
                _mm512_shuffle_f32x4::<0xdd>(ab, cd),
                _mm512_shuffle_f32x4::<0x88>(ef, gh),
                _mm512_shuffle_f32x4::<0xdd>(ef, gh),
            ];
            for (l, column) in columns.into_iter().enumerate() {
                // SAFETY: as above.
                unsafe { _mm512_storeu_ps(dst.add((4 * l + v) * dst_row), column) };
            }
        }
    }

    /// # Safety
    ///
    /// Both matrices have eight rows of eight elements; the processor has AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn eight(dst: *mut f32, dst_row: usize, src: *const f32, src_row: usize) {
        // SAFETY: this function has the same contract.
        let half = |i: usize, j: usize| unsafe { _mm_loadu_ps(src.add(i * src_row + j)) };
        // Rows `i` and `i + 4` share a register, so that elements move only within 16 bytes.
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
    /// Both matrices have sixteen rows of sixteen elements; the processor has AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn bytes(dst: *mut u8, dst_row: usize, src: *const u8, src_row: usize) {
        let mut rows = [_mm_setzero_si128(); 16];
        for (i, row) in rows.iter_mut().enumerate() {
            // SAFETY: this function has the same contract.
            *row = unsafe { _mm_loadu_si128(src.add(i * src_row).cast()) };
        }
        // Each step moves the top bit of the row index to the end of the column index, and the top bit of the column
        // index to the end of the row index.
        for _ in 0..4 {
            let (top, bottom) = rows.split_at(8);
            let mut next = [_mm_setzero_si128(); 16];
            for ((pair, &a), &b) in next.as_chunks_mut::<2>().0.iter_mut().zip(top).zip(bottom) {
                *pair = [_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)];
            }
            rows = next;
        }
        for (j, column) in rows.into_iter().enumerate() {
            // SAFETY: as above.
            unsafe { _mm_storeu_si128(dst.add(j * dst_row).cast(), column) };
        }
    }

    /// # Safety
    ///
    /// Both matrices have eight rows of eight elements; the processor has AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn pairs(dst: *mut u16, dst_row: usize, src: *const u16, src_row: usize) {
        let mut rows = [_mm_setzero_si128(); 8];
        for (i, row) in rows.iter_mut().enumerate() {
            // SAFETY: this function has the same contract.
            *row = unsafe { _mm_loadu_si128(src.add(i * src_row).cast()) };
        }
        // Works as in `bytes`, with indices of three bits.
        for _ in 0..3 {
            let (top, bottom) = rows.split_at(4);
            let mut next = [_mm_setzero_si128(); 8];
            for ((pair, &a), &b) in next.as_chunks_mut::<2>().0.iter_mut().zip(top).zip(bottom) {
                *pair = [_mm_unpacklo_epi16(a, b), _mm_unpackhi_epi16(a, b)];
            }
            rows = next;
        }
        for (j, column) in rows.into_iter().enumerate() {
            // SAFETY: as above.
            unsafe { _mm_storeu_si128(dst.add(j * dst_row).cast(), column) };
        }
    }

    /// # Safety
    ///
    /// Both matrices have four rows of four elements; the processor has AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn four(dst: *mut f64, dst_row: usize, src: *const f64, src_row: usize) {
        // SAFETY: this function has the same contract.
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
    use crate::level::{at, levels};

    fn check<T: Copy + PartialEq + std::fmt::Debug>(from: impl Fn(usize) -> T) {
        for rows in [0, 1, 2, 3, 4, 7, 8, 9, 15, 17, 33, 63, 65, 130] {
            for cols in [0, 1, 2, 3, 4, 5, 8, 12, 16, 31, 64, 67, 129] {
                check_gaps(&from, rows, cols, [3, 1]);
                check_gaps(&from, rows, cols, [0, 0]);
            }
        }
    }

    /// Transposes with gaps between rows of the source and of the destination.
    fn check_gaps<T: Copy + PartialEq + std::fmt::Debug>(
        from: impl Fn(usize) -> T,
        rows: usize,
        cols: usize,
        gaps: [usize; 2],
    ) {
        let (src_row, dst_row) = (cols + gaps[0], rows + gaps[1]);
        let src: Vec<T> = (0..rows * src_row).map(&from).collect();
        for level in levels() {
            let mut dst = vec![from(251); cols * dst_row];
            // SAFETY: the vectors have these extents.
            at(level, || unsafe {
                transpose(
                    size_of::<T>(),
                    rows,
                    cols,
                    dst.as_mut_ptr().cast(),
                    dst_row,
                    src.as_ptr().cast(),
                    src_row,
                );
            });
            for j in 0..cols {
                for i in 0..rows {
                    assert_eq!(dst[j * dst_row + i], src[i * src_row + j]);
                }
                for i in rows..dst_row {
                    assert_eq!(dst[j * dst_row + i], from(251), "wrote between rows");
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
