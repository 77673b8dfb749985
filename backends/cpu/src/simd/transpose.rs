//! Exchanges the two dimensions of a matrix, by blocks that fit the first cache.

use super::{Shared, walk};

/// Side of a block.
const BLOCK: usize = 32;

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
    let shared = Shared((dst, src));
    walk::split(cols.div_ceil(BLOCK), rows * BLOCK, 1 << 17, |from, to| {
        let (dst, src) = shared.get();
        for block in from..to {
            let left = block * BLOCK;
            let right = cols.min(left + BLOCK);
            for top in (0..rows).step_by(BLOCK) {
                for i in top..rows.min(top + BLOCK) {
                    for j in left..right {
                        // SAFETY: this function's contract.
                        unsafe { dst.add(j * dst_row + i).write(*src.add(i * src_row + j)) };
                    }
                }
            }
        }
    });
}
