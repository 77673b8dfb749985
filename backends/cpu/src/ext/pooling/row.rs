//! The inner kernel of pooling. For each row of results, it reduces the rows of the windows first, and then their columns.

use super::super::sliding::{Fill, fill};
use super::super::window::Plane;
use super::{PoolingRows, RowLayout};
use crate::gemm::floats::Floats;
use crate::gemm::vector::baseline;
#[cfg(target_arch = "x86_64")]
use crate::level::Level;
use crate::level::level;
use crate::pace::Pace;

/// A sequence of planes to pool. If `SUM`, windows are averaged; otherwise, they are reduced to their maximum.
#[derive(Debug)]
pub(super) struct Planes<'a, const SUM: bool> {
    pub(super) plane: &'a Plane,
    pub(super) layout: &'a RowLayout,
    /// A padded row, an unpadded row, and the divisors of the results.
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
                #[cfg(target_arch = "x86_64")]
                Level::Avx512 if self.plane.cols.out <= 8 && self.plane.cols.extent <= 16 => {
                    avx512::<crate::gemm::vector::F32x8Masked, SUM>(self);
                }
                #[cfg(target_arch = "x86_64")]
                Level::Avx512 => avx512::<crate::gemm::vector::F32x16, SUM>(self),
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
    let padding = if SUM { 0.0 } else { f32::NEG_INFINITY };
    let step = cols.stride;
    let mut pace = Pace::new();
    // SAFETY: the buffer has these parts, rows and columns are in the planes, and results in `out`.
    unsafe {
        (0..layout.pitch * step).for_each(|i| buffer.add(i).write(padding));
        let apart = buffer.add(layout.pitch * step);
        let by = if SUM { apart.add(cols.extent) } else { std::ptr::null_mut() };
        let row = if step == 1 { buffer.add(cols.before) } else { apart };
        let mut divisor = usize::MAX;
        for i in 0..count {
            let (x, out) = (x.add(i * rows.extent * cols.extent), out.add(i * rows.out * cols.out));
            for (oy, &PoolingRows { first, n, count }) in layout.rows.iter().enumerate() {
                pace.step(cols.extent * rows.kernel + cols.out * cols.kernel);
                if n == 0 {
                    (0..cols.extent).for_each(|i| row.add(i).write(padding));
                } else {
                    let (x, distance) = (x.add(first * cols.extent), rows.dilation * cols.extent);
                    reduce::<V, SUM>(x, n, |k| k * distance, row, cols.extent, std::ptr::null());
                }
                for &(to, from, n) in &layout.phases {
                    let (to, from) = (buffer.add(to), row.add(from));
                    fill::<V>(&Fill { to, to_row: 0, from, from_row: 0, rows: 1, step, n });
                }
                if SUM && count != divisor {
                    divisor = count;
                    let counts = layout.counts.iter().enumerate();
                    counts.for_each(|(i, &n)| by.add(i).write((n * count) as f32));
                }
                let place = |k: usize| layout.cols.get(k).copied().unwrap_or(0);
                reduce::<V, SUM>(buffer, cols.kernel, place, out.add(oy * cols.out), cols.out, by);
            }
        }
    }
}

/// Reduces `count` rows of `n` elements to one row, and divides it by the elements of `by` unless `by` is null. Row `k` begins
/// at `x + place(k)`.
///
/// # Safety
///
/// `x` has the rows, at least one; `out` has room for one, and `by` has one or is null.
#[inline(always)]
unsafe fn reduce<V: Floats, const SUM: bool>(
    x: *const f32,
    count: usize,
    place: impl Fn(usize) -> usize,
    out: *mut f32,
    n: usize,
    by: *const f32,
) {
    let mut i = 0;
    // SAFETY: each vector is in the rows, and the last one is masked.
    unsafe {
        while i + V::LANES <= n {
            let mut sum = V::load(x.add(i + place(0)));
            for k in 1..count {
                let x = V::load(x.add(i + place(k)));
                sum = if SUM { sum.add(x) } else { x.max(sum) };
            }
            if !by.is_null() {
                sum = sum.div(V::load(by.add(i)));
            }
            sum.store(out.add(i));
            i += V::LANES;
        }
        if i < n {
            let mask = V::mask(n - i);
            let mut sum = V::load_some(x.add(i + place(0)), mask);
            for k in 1..count {
                let x = V::load_some(x.add(i + place(k)), mask);
                sum = if SUM { sum.add(x) } else { x.max(sum) };
            }
            if !by.is_null() {
                sum = sum.div(V::load_some(by.add(i), mask));
            }
            sum.store_some(out.add(i), mask);
        }
    }
}
