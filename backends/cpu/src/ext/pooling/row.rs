//! The inner kernel of pooling. For each row of results, it reduces the rows of the windows first, and then their columns.

use super::super::window::Plane;
use super::{PoolingRows, RowLayout};
use crate::gemm::floats::Floats;
use crate::gemm::vector::baseline;
#[cfg(target_arch = "x86_64")]
use crate::level::Level;
use crate::level::level;
use crate::pace::Pace;

/// The maximum number of lanes of the vectors.
pub(super) const MOST_LANES: usize = 8;

/// A sequence of planes to pool. If `SUM`, windows are averaged; otherwise, they are reduced to their maximum.
#[derive(Debug)]
pub(super) struct Planes<'a, const SUM: bool> {
    pub(super) plane: &'a Plane,
    pub(super) layout: &'a RowLayout,
    /// Padded rows, an unpadded row, and the divisors of the results.
    pub(super) buffer: *mut f32,
    pub(super) x: *const f32,
    pub(super) out: *mut f32,
    pub(super) count: usize,
}

impl<const SUM: bool> Planes<'_, SUM> {
    /// Computes the results.
    ///
    /// # Safety
    ///
    /// `x` has the planes, `out` has room for their results, and the buffer has the layout's length.
    pub(super) unsafe fn run(&self) {
        // SAFETY: this function has the same contract; `level` returns only what the processor has.
        unsafe {
            match level() {
                // Most rows are too short for longer vectors, and the others wait for memory.
                #[cfg(target_arch = "x86_64")]
                Level::Avx512 => avx512::<crate::gemm::vector::F32x8Masked, SUM>(self),
                #[cfg(target_arch = "x86_64")]
                Level::Avx2 => avx2::<crate::gemm::vector::F32x8, SUM>(self),
                _ => planes::<baseline::F32, SUM>(self),
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn avx512<V: Floats, const SUM: bool>(args: &Planes<'_, SUM>) {
    // SAFETY: this function has the same contract.
    unsafe { planes::<V, SUM>(args) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2<V: Floats, const SUM: bool>(args: &Planes<'_, SUM>) {
    // SAFETY: this function has the same contract.
    unsafe { planes::<V, SUM>(args) }
}

/// # Safety
///
/// As for [`Planes::run`], with the instruction set of the vectors.
#[inline(always)]
unsafe fn planes<V: Floats, const SUM: bool>(args: &Planes<'_, SUM>) {
    let &Planes { plane: Plane { rows, cols, .. }, layout, buffer, x, out, count } = args;
    const { assert!(V::LANES <= MOST_LANES) };
    let padding = if SUM { 0.0 } else { f32::NEG_INFINITY };
    let mut pace = Pace::new();
    // SAFETY: the buffer has these parts, rows and columns are in the planes, and results in `out`.
    unsafe {
        let apart = buffer.add(layout.band * layout.row);
        (0..layout.band * layout.row).for_each(|i| buffer.add(i).write(padding));
        let divisors = apart.add(cols.extent);
        let (mut divisor, mut exact) = (usize::MAX, false);
        for i in 0..count {
            let (x, mut out) = (x.add(i * rows.extent * cols.extent), out.add(i * rows.out * cols.out));
            for band in layout.rows.chunks(layout.band) {
                for (i, &PoolingRows { first, n, .. }) in band.iter().enumerate() {
                    pace.step(cols.extent * rows.kernel + cols.out * cols.kernel);
                    let to = buffer.add(i * layout.row);
                    let row = if layout.phases.is_empty() { to.add(cols.before) } else { apart };
                    if n == 0 {
                        (0..cols.extent).for_each(|i| row.add(i).write(padding));
                    } else {
                        let (x, distance) = (x.add(first * cols.extent), rows.dilation * cols.extent);
                        reduce::<V, SUM, 1>(x, n, |k| k * distance, row, cols.extent, Divisors::None);
                    }
                    for &(place, from, n) in &layout.phases {
                        let (to, from) = (to.add(place), row.add(from));
                        (0..n).for_each(|i| to.add(i).write(*from.add(cols.stride * i)));
                    }
                }
                for (i, &PoolingRows { count, .. }) in band.iter().enumerate() {
                    if SUM && count != divisor {
                        divisor = count;
                        // The reciprocal of a power of two is exact, and multiplications are faster than divisions.
                        exact = layout.counts.iter().all(|n| (n * count).is_power_of_two());
                        for (i, &n) in layout.counts.iter().enumerate() {
                            let by = (n * count) as f32;
                            divisors.add(i).write(if exact { 1.0 / by } else { by });
                        }
                    }
                    let by = match (SUM, exact) {
                        (false, _) => Divisors::None,
                        (true, false) => Divisors::By(divisors),
                        (true, true) => Divisors::Reciprocals(divisors),
                    };
                    let place = |k: usize| layout.cols.get(k).copied().unwrap_or(0);
                    let (row, count) = (buffer.add(i * layout.row), layout.cols.len());
                    if cols.stride == 2 {
                        reduce::<V, SUM, 2>(row, count, place, out, cols.out, by);
                    } else {
                        reduce::<V, SUM, 1>(row, count, place, out, cols.out, by);
                    }
                    out = out.add(cols.out);
                }
            }
        }
    }
}

/// The divisor of each result.
#[derive(Debug, Clone, Copy)]
enum Divisors {
    None,
    By(*const f32),
    Reciprocals(*const f32),
}

impl Divisors {
    /// Divides by the divisors from `at` on, which `load` reads.
    ///
    /// # Safety
    ///
    /// As for the functions of [`Vector`](crate::gemm::vector::Vector) and for `load`.
    #[inline(always)]
    unsafe fn divide<V: Floats>(self, sum: V, at: usize, load: impl Fn(*const f32) -> V) -> V {
        // SAFETY: this function has the same contract.
        unsafe {
            match self {
                Divisors::None => sum,
                Divisors::By(by) => sum.div(load(by.add(at))),
                Divisors::Reciprocals(by) => sum.mul(load(by.add(at))),
            }
        }
    }
}

/// Reduces `count` rows to one row of `n` elements, and divides it. Row `k` begins at `x + place(k)`; every element of it is
/// used if `STEP` is 1, and every second one if `STEP` is 2.
///
/// # Safety
///
/// `x` has the rows, at least one, and [`BEYOND`](super::BEYOND) elements after them if `STEP` is 2; `out` has room for one row,
/// and `by` has one.
#[inline(always)]
unsafe fn reduce<V: Floats, const SUM: bool, const STEP: usize>(
    x: *const f32,
    count: usize,
    place: impl Fn(usize) -> usize + Copy,
    out: *mut f32,
    n: usize,
    by: Divisors,
) {
    // SAFETY: this function has the same contract, and the blocks are in the rows.
    unsafe {
        match n / V::LANES {
            4.. => blocks::<V, SUM, STEP, 4>(x, count, place, out, n, by),
            2.. => blocks::<V, SUM, STEP, 2>(x, count, place, out, n, by),
            1 => blocks::<V, SUM, STEP, 1>(x, count, place, out, n, by),
            0 => {
                let mask = V::mask(n);
                let load = |k: usize| match STEP {
                    1 => V::load_some(x.add(place(k)), mask),
                    _ => V::alternate(x.add(place(k))),
                };
                let sum = (1..count).fold(load(0), |sum, k| joined::<V, SUM>(sum, load(k)));
                by.divide(sum, 0, |by| V::load_some(by, mask)).store_some(out, mask);
            }
        }
    }
}

/// Reduces rows as [`reduce`] does, `N` vectors together. The last ones overlap the ones before.
///
/// # Safety
///
/// As for [`reduce`], with at least `N` vectors in a row.
#[inline(always)]
unsafe fn blocks<V: Floats, const SUM: bool, const STEP: usize, const N: usize>(
    x: *const f32,
    count: usize,
    place: impl Fn(usize) -> usize,
    out: *mut f32,
    n: usize,
    by: Divisors,
) {
    for at in (0..n).step_by(N * V::LANES) {
        let at = at.min(n - N * V::LANES);
        // SAFETY: this function has the same contract, and the block ends in the rows.
        unsafe {
            let load = |k: usize, v: usize| {
                let from = x.add(place(k) + STEP * (at + v * V::LANES));
                if STEP == 1 { V::load(from) } else { V::alternate(from) }
            };
            let mut sums: [V; N] = std::array::from_fn(|v| load(0, v));
            for k in 1..count {
                for (v, sum) in sums.iter_mut().enumerate() {
                    *sum = joined::<V, SUM>(*sum, load(k, v));
                }
            }
            for (v, sum) in sums.into_iter().enumerate() {
                let at = at + v * V::LANES;
                by.divide(sum, at, |by| V::load(by)).store(out.add(at));
            }
        }
    }
}

/// Adds an element to the reduction of earlier ones.
///
/// # Safety
///
/// As for the functions of [`Vector`](crate::gemm::vector::Vector).
#[inline(always)]
unsafe fn joined<V: Floats, const SUM: bool>(sum: V, x: V) -> V {
    // SAFETY: this function has the same contract.
    unsafe { if SUM { sum.add(x) } else { x.max(sum) } }
}
