//! Matrix products with a number added to each row, followed by an epilogue.

use super::blocked::{Large, Wide};
use super::end::{Around, End};
use super::grid::Grid;
use super::tile::Compute;
use super::{DEEP_BLOCKED, Dims, MEDIUM, Strided, Way, deepest, gemm, small};
use crate::kernels::walk;
use crate::level::level;
use std::ops::Range;

/// The number of multiplications that take as long as the epilogue of one element of the result.
const FOLLOWING: usize = 16;

/// Computes the product like [`gemm`], with contiguous rows of `b`, and adds `plus[i]` to row `i`, unless `plus` is
/// null. Then it applies the epilogue `end` to each tile, unless `end` is null. If the product has no tiles or `end` is
/// null, it calls `done` with the rows and columns of each finished part of about `most` elements, on the thread that
/// computed the part.
///
/// # Safety
///
/// Same as for [`gemm`]; `b.col` is 1, and `plus` has `m` elements or is null. `end` is null, or its second tensor has
/// the elements of the product.
pub(crate) unsafe fn gemm_plus(
    dims: Dims,
    (c, c_row): (*mut f32, usize),
    [a, b]: [Strided<f32>; 2],
    plus: *const f32,
    end: *const End<f32>,
    most: usize,
    done: &(dyn Fn([Range<usize>; 2]) + Sync),
) {
    let Dims { m, k, n } = dims;
    let kernels = f32::kernels(level());
    let large = m.saturating_mul(k).saturating_mul(n) > MEDIUM && k > 4 && k <= DEEP_BLOCKED;
    let early = large && m > kernels.wide.len() && n > 2 && !plus.is_null();
    let around = Around { plus, late: !early, end };
    let way = match early {
        true => Way::Blocked,
        false if n == 0 || !(1..=deepest(dims)).contains(&k) => Way::Row,
        false => Way::new(kernels, dims, c_row, a, b),
    };
    let ends = !end.is_null();
    let done_unless_ended = |at| {
        if !ends {
            done(at);
        }
    };
    // SAFETY: this function has the same contract.
    unsafe {
        match way {
            Way::Blocked => {
                let b = Wide::Strided(b);
                Large { kernels, dims, c, c_row, a, b, around }.compute_parts(most, &done_unless_ended);
            }
            Way::Small => {
                for at in Grid::new(dims, 1, [m, kernels.lanes], [false; 2]).at_most(most).all() {
                    let [_, columns] = &at;
                    let (c, b) = (c.add(columns.start), Strided { ptr: b.ptr.add(columns.start), ..b });
                    small(kernels, Dims { n: columns.len(), ..dims }, c, c_row, a, b, around);
                    done_unless_ended(at);
                }
            }
            Way::Dots | Way::Column | Way::Row => {
                gemm(dims, c, c_row, a, b);
                for i in 0..if plus.is_null() { 0 } else { m } {
                    let plus = *plus.add(i);
                    for c in std::slice::from_raw_parts_mut(c.add(i * c_row), n) {
                        *c += plus;
                    }
                }
                walk::split(n, FOLLOWING * m, 1 << 18, |from, to| done([0..m, from..to]));
            }
        }
    }
}
