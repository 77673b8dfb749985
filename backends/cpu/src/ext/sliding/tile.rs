//! The inner kernel of direct convolutions. A tile of result rows and vectors stays in registers over all weights.

use crate::gemm::floats::Floats;
use crate::gemm::vector::{Vector, baseline};
#[cfg(target_arch = "x86_64")]
use crate::level::Level;
use crate::level::level;

/// The maximum number of rows of a tile.
pub(super) const ROWS: usize = 8;

/// The maximum number of rows of weights that are applied to an operand row while it is in a register.
pub(super) const RUN: usize = 5;

/// Rows of weights whose operand rows have the same distance as the windows of adjacent result rows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Run {
    /// The number of rows of weights, from 1 to [`RUN`].
    pub(super) count: usize,
    /// The offset in elements from the first element of the window to the element of the first weight.
    pub(super) x: usize,
    /// The offset of the first weight, and the distance to the next row of weights of this run.
    pub(super) w: usize,
    pub(super) w_step: usize,
}

/// The operands of one tile. Distances are in elements.
#[derive(Debug)]
pub(super) struct Args<'a> {
    /// The first element of the first window, in padded planes.
    pub(super) x: *const f32,
    /// The distance from the windows of a result row to the windows of the next row.
    pub(super) x_row: usize,
    /// The number of channels.
    pub(super) depth: usize,
    /// The distance from a channel to the next channel.
    pub(super) x_plane: usize,
    pub(super) runs: &'a [Run],
    /// The offset from the first element of a window to the element of each column of weights.
    pub(super) cols: &'a [usize],
    pub(super) w: *const f32,
    pub(super) w_plane: usize,
    /// The initial value of the sums.
    pub(super) start: *const f32,
    pub(super) out: *mut f32,
    pub(super) out_row: usize,
    /// The number of columns of the last vector.
    pub(super) last: usize,
}

/// Computes a tile of a fixed number of rows and vectors.
pub(super) type Tile = unsafe fn(&Args<'_>);

/// Rows of elements to copy. Distances are in elements.
#[derive(Debug)]
pub(super) struct Fill {
    pub(super) to: *mut f32,
    pub(super) to_row: usize,
    pub(super) from: *const f32,
    pub(super) from_row: usize,
    pub(super) rows: usize,
    /// The distance between the elements to copy in a row, and their number.
    pub(super) step: usize,
    pub(super) n: usize,
    /// The place for the elements between these, and their number, which is `n` or `n - 1`. Only if `step` is 2.
    pub(super) others: Option<(*mut f32, usize)>,
}

impl Fill {
    /// Copies the rows.
    ///
    /// # Safety
    ///
    /// The operand has `rows` rows, with an element at each multiple of `step` below `n * step`, and all elements between the first and
    /// the last one of them. It also has the other elements, if there is a place for them. The results have room for them.
    pub(super) unsafe fn run(&self) {
        let [whole, tail] = tiles();
        let tiles = if self.n < whole.lanes { tail } else { whole };
        // SAFETY: this function has the same contract.
        unsafe { (tiles.fill)(self) }
    }
}

/// The kernels of one vector type.
#[derive(Debug)]
pub(super) struct Tiles {
    /// The number of elements of a vector.
    pub(super) lanes: usize,
    /// The tiles of one vector width. The tile at index `i` has `i + 1` rows.
    pub(super) narrow: [Tile; ROWS],
    /// The tiles with a width of [`WIDE`] vectors.
    pub(super) wide: [Tile; 2],
    fill: unsafe fn(&Fill),
}

/// The width of a wide tile, in vectors.
pub(super) const WIDE: usize = 4;

/// Returns the kernels for whole vectors, and the kernels for the last columns if at most 8 remain.
pub(super) fn tiles() -> [&'static Tiles; 2] {
    match level() {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => {
            use crate::gemm::vector::{F32x8Masked, F32x16};
            [const { &avx512::<F32x16>() }, const { &avx512::<F32x8Masked>() }]
        }
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => [const { &avx2::<crate::gemm::vector::F32x8>() }; 2],
        _ => [const { &portable::<baseline::F32>() }; 2],
    }
}

/// # Safety
///
/// The windows of `R` rows of `N` vectors are in the padded planes, with whole vectors. The rows of results have room for
/// `N - 1` vectors and `last` elements.
#[inline(always)]
unsafe fn tile<V: Vector<Item = f32>, const R: usize, const N: usize>(args: &Args<'_>) {
    // SAFETY: the contract covers each access.
    unsafe {
        let mut sums = [[V::splat(args.start); N]; R];
        for c in 0..args.depth {
            let (x, w) = (args.x.add(c * args.x_plane), args.w.add(c * args.w_plane));
            for run in args.runs {
                let (x, w) = (x.add(run.x), w.add(run.w));
                match run.count {
                    1 => weigh::<V, R, N, 1>(&mut sums, args, x, w, run.w_step),
                    2 => weigh::<V, R, N, 2>(&mut sums, args, x, w, run.w_step),
                    3 => weigh::<V, R, N, 3>(&mut sums, args, x, w, run.w_step),
                    4 => weigh::<V, R, N, 4>(&mut sums, args, x, w, run.w_step),
                    _ => weigh::<V, R, N, RUN>(&mut sums, args, x, w, run.w_step),
                }
            }
        }
        let mask = V::mask(args.last);
        // If result rows are shorter than a vector, write whole vectors: the elements beyond the end of a row are overwritten
        // by the next rows.
        let row_is_short = V::BRANCHES && N == 1 && args.out_row == args.last;
        let end = (R - 1) * args.out_row + args.last;
        for (i, sums) in sums.into_iter().enumerate() {
            for (v, sum) in sums.into_iter().enumerate() {
                let at = i * args.out_row + v * V::LANES;
                let to = args.out.add(at);
                if v + 1 < N || row_is_short && at + V::LANES <= end {
                    sum.store(to);
                } else {
                    sum.store_some(to, mask);
                }
            }
        }
    }
}

/// Adds the products of `T` rows of weights. Each operand row is loaded once for all of them.
///
/// # Safety
///
/// As for [`tile`], for the rows of weights from `w` on and the windows from `x` on.
#[inline(always)]
unsafe fn weigh<V: Vector<Item = f32>, const R: usize, const N: usize, const T: usize>(
    sums: &mut [[V; N]; R],
    args: &Args<'_>,
    x: *const f32,
    w: *const f32,
    w_step: usize,
) {
    for (column, &at) in args.cols.iter().enumerate() {
        // SAFETY: this function's contract.
        unsafe {
            let mut weights = [V::zero(); T];
            for (t, weight) in weights.iter_mut().enumerate() {
                *weight = V::splat(w.add(t * w_step + column));
            }
            let x = x.add(at);
            for row in 0..R + T - 1 {
                for v in 0..N {
                    let value = V::load(x.add(row * args.x_row + v * V::LANES));
                    for (t, &weight) in weights.iter().enumerate() {
                        let sums = row.checked_sub(t).and_then(|i| sums.get_mut(i));
                        if let Some(sum) = sums.and_then(|sums| sums.get_mut(v)) {
                            *sum = sum.mul_add(weight, value);
                        }
                    }
                }
            }
        }
    }
}

/// # Safety
///
/// As for [`Fill::run`].
#[inline(always)]
unsafe fn fill<V: Floats>(args: &Fill) {
    let &Fill { to, to_row, from, from_row, rows, step, n, others } = args;
    for row in 0..rows {
        let (to, from) = (to.wrapping_add(row * to_row), from.wrapping_add(row * from_row));
        // SAFETY: this function's contract; elements beyond it are masked. The last two vectors of a row overlap.
        unsafe {
            if step == 1 && n < V::LANES {
                V::load_some(from, V::mask(n)).store_some(to, V::mask(n));
            } else if step == 1 {
                let mut i = 0;
                while i < n {
                    let at = i.min(n - V::LANES);
                    V::load(from.add(at)).store(to.add(at));
                    i += V::LANES;
                }
            } else if let Some((others, m)) = others {
                let others = others.add(row * to_row);
                if m >= V::LANES {
                    let mut i = 0;
                    while i < m {
                        let at = i.min(m - V::LANES);
                        let [even, odd] = V::halves(from.add(2 * at));
                        even.store(to.add(at));
                        odd.store(others.add(at));
                        i += V::LANES;
                    }
                    if m < n {
                        to.add(m).write(*from.add(2 * m));
                    }
                } else if (rows - 1 - row) * from_row + n + m >= 2 * V::LANES {
                    // The vectors read elements of the rows below, and do not write them.
                    let [even, odd] = V::halves(from);
                    even.store_some(to, V::mask(n));
                    odd.store_some(others, V::mask(m));
                } else {
                    (0..n).for_each(|i| to.add(i).write(*from.add(2 * i)));
                    (0..m).for_each(|i| others.add(i).write(*from.add(2 * i + 1)));
                }
            } else {
                (0..n).for_each(|i| to.add(i).write(*from.add(step * i)));
            }
        }
    }
}

macro_rules! levels {
    ($($table:ident, $tile:ident, $fill:ident $(, #[$feature:meta])?;)*) => {$(
        $(#[$feature])?
        unsafe fn $tile<V: Vector<Item = f32>, const R: usize, const N: usize>(args: &Args<'_>) {
            // SAFETY: this function has the same contract.
            unsafe { tile::<V, R, N>(args) }
        }

        $(#[$feature])?
        unsafe fn $fill<V: Floats>(args: &Fill) {
            // SAFETY: this function has the same contract.
            unsafe { fill::<V>(args) }
        }

        const fn $table<V: Floats>() -> Tiles {
            Tiles {
                lanes: V::LANES,
                narrow: [
                    $tile::<V, 1, 1>,
                    $tile::<V, 2, 1>,
                    $tile::<V, 3, 1>,
                    $tile::<V, 4, 1>,
                    $tile::<V, 5, 1>,
                    $tile::<V, 6, 1>,
                    $tile::<V, 7, 1>,
                    $tile::<V, 8, 1>,
                ],
                wide: [$tile::<V, 1, WIDE>, $tile::<V, 2, WIDE>],
                fill: $fill::<V>,
            }
        }
    )*};
}

levels! {
    portable, tile_portable, fill_portable;
}

#[cfg(target_arch = "x86_64")]
levels! {
    avx2, tile_avx2, fill_avx2, #[target_feature(enable = "avx2,fma")];
    avx512, tile_avx512, fill_avx512,
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")];
}
