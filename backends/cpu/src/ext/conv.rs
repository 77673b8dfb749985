//! Float convolutions in one to three dimensions. They are computed as matrix products with unrolled windows (im2col), or
//! window by window if each channel has its own filters (depthwise).

use super::fused::{Results, Then, written};
use super::layers::{self, Layers};
use super::sliding::Sliding;
use super::small_planes::SmallPlanes;
use super::unrolled::Unrolled;
use super::window::Plane;
use super::winograd::{Filters, Winograd, all_fit};
use super::{computed, floats, single};
use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::gemm::{Dims, Strided, gemm_plus};
use crate::kernels::{Shared, walk};
use crate::ops::unsupported;
use crate::pool::Pool;
use crate::threads;
use bb::Tensor;
use bb::ext::ConvOptions;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// The resolved extents of a convolution.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) plane: Plane,
    pub(super) n: usize,
    pub(super) groups: usize,
    /// The number of input channels of one group, and its number of filters.
    pub(super) depth: usize,
    pub(super) filters: usize,
}

/// The maximum size in bytes of the windows that are unrolled in one pass. They stay in the second-level cache.
const UNROLLED: usize = 1 << 19;

impl Plan {
    /// Resolves a convolution. Returns `None` for other shapes and for invalid arguments, which the operation's body
    /// handles.
    pub(super) fn new(
        x: &[usize],
        w: &[usize],
        bias: Option<&[usize]>,
        ConvOptions { strides, pads, dilations, group }: ConvOptions<'_>,
    ) -> Option<Plan> {
        let (&[n, c, ..], &[m, depth, ref kernel @ ..]) = (x, w) else { return None };
        let kernel: SmallVec<[i64; 2]> = kernel.iter().map(|&k| k as i64).collect();
        let plane = Plane::of(x, &kernel, [strides, pads, dilations])?;
        let groups = usize::try_from(group).ok().filter(|&g| g > 0 && m.is_multiple_of(g))?;
        let fits = groups.checked_mul(depth) == Some(c)
            && plane.is_countable(n, m)
            && bias.is_none_or(|bias| bias == [m]);
        fits.then_some(Plan { plane, n, groups, depth, filters: m / groups })
    }

    /// Returns the number of elements of a filter.
    pub(super) fn terms(&self) -> usize {
        self.depth * self.plane.rows.kernel * self.plane.cols.kernel
    }

    /// Returns whether each window is exactly one element of the operand.
    pub(super) fn is_pointwise(&self) -> bool {
        let Plane { rows, cols, .. } = &self.plane;
        [rows, cols].iter().all(|l| l.kernel == 1 && l.stride == 1 && l.out == l.extent)
    }
}

/// Computes a convolution. Returns `None` for unsupported types and shapes and for invalid arguments, which the operation's
/// body handles.
///
/// If the operand has 16-bit floats, filters and bias may be `f32`. All operands are widened to `f32` first.
pub(crate) fn conv(
    cpu: &Cpu,
    x: &Array,
    w: &Array,
    bias: Option<&Array>,
    options: ConvOptions<'_>,
    then: Option<&Then<'_>>,
) -> Result<Option<Array>> {
    if !computed(x) {
        return Ok(None);
    }
    let [x_shape, w_shape] = [x, w].map(Tensor::shape);
    if let Some(plan) = Plan::new(x_shape, w_shape, bias.map(Tensor::shape), options) {
        return planned(cpu, &plan, x, w, bias, then).map(Some);
    }
    match Layers::new(x_shape, w_shape, bias.map(Tensor::shape), options) {
        Some(layers) => {
            let y = layers::conv(cpu, &layers, x, w, bias)?;
            // No other array shares the memory of `y`, so that the program may overwrite it.
            Ok(Some(match then {
                Some(then) => then.apart(cpu.pool(), y)?,
                None => y,
            }))
        }
        None => Ok(None),
    }
}

/// Computes the convolution with filters that are transformed to Winograd points; `w` is the original shape of the filters.
/// Returns `None` where [`conv`] does, and for extents and elements that the Winograd kernel does not support.
pub(crate) fn by_points(
    cpu: &Cpu,
    x: &Array,
    w: &[usize],
    points: &Filters,
    bias: Option<&Array>,
    options: ConvOptions<'_>,
    then: Option<&Then<'_>>,
) -> Result<Option<Array>> {
    if !computed(x) {
        return Ok(None);
    }
    let Some(plan) = Plan::new(x.shape(), w, bias.map(Tensor::shape), options) else { return Ok(None) };
    let Some(winograd) = Winograd::new(&plan, points) else { return Ok(None) };
    let (pool, dtype) = (cpu.pool(), x.dtype());
    let (x, bias) = (widened(pool, x)?, bias.map(|bias| widened(pool, bias)).transpose()?);
    // SAFETY: `x` is contiguous, and has elements.
    if !x.is_empty() && !all_fit(unsafe { std::slice::from_raw_parts(floats(&x), x.len()) }) {
        return Ok(None);
    }
    let plus = bias.as_ref().map_or(std::ptr::null(), floats);
    let shape = plan.plane.shape(plan.n, plan.groups * plan.filters);
    // SAFETY: the operands are contiguous and have the plan's extents, and `out` has room for all results.
    written(pool, dtype, shape, then, |out| unsafe { winograd.convolve(pool, floats(&x), plus, out) })
        .map(Some)
}

/// Returns a contiguous copy of the array as `f32`, or the array itself if it already is that.
pub(super) fn widened(pool: &Arc<Pool>, x: &Array) -> Result<Array> {
    single(pool, x)?.ok_or_else(|| unsupported("conv", x.dtype()))
}

/// Computes a resolved convolution.
fn planned(
    cpu: &Cpu,
    plan: &Plan,
    x: &Array,
    w: &Array,
    bias: Option<&Array>,
    then: Option<&Then<'_>>,
) -> Result<Array> {
    let (pool, dtype) = (cpu.pool(), x.dtype());
    let (x, w) = (widened(pool, x)?, widened(pool, w)?);
    let bias = bias.map(|bias| widened(pool, bias)).transpose()?;
    let Plan { plane, n, groups, filters, .. } = plan;
    let plus = bias.as_ref().map_or(std::ptr::null(), floats);
    written(pool, dtype, plane.shape(*n, groups * filters), then, |out| {
        // SAFETY: the operands are contiguous and have the plan's extents, and `out` has room for all results.
        unsafe { convolve(pool, plan, floats(&x), floats(&w), plus, out) }
    })
}

/// Computes all results with the algorithm that suits the extents, and writes them to `out`.
///
/// # Safety
///
/// The operands are contiguous and have the plan's extents (`plus` may be null); `out` has room for the results.
pub(super) unsafe fn convolve(
    pool: &Arc<Pool>,
    plan: &Plan,
    x: *const f32,
    w: *const f32,
    plus: *const f32,
    out: &Results<'_>,
) -> Result<()> {
    // SAFETY: the caller upholds the safety contract of this function.
    unsafe {
        // `SmallPlanes` leaves the padding out, whose product with an infinite weight is NaN.
        let all_finite = || {
            let weights = std::slice::from_raw_parts(w, plan.groups * plan.filters * plan.terms());
            weights.iter().fold(true, |all, weight| all & weight.is_finite())
        };
        if let Some(planes) = SmallPlanes::of_conv(plan)
            && all_finite()
        {
            return planes.convolve(pool, [plan.n, plan.groups], [x, w, plus], out);
        }
        if let Some(sliding) = Sliding::new(plan) {
            return sliding.convolve(pool, x, w, plus, out);
        }
        match Unrolled::new(plan) {
            Some(unrolled) => unrolled.convolve(pool, x, w, plus, out),
            None => products(pool, plan, x, w, plus, out),
        }
    }
}

/// The number of multiplications below which a second thread costs more than it saves.
pub(super) const GRAIN: usize = 1 << 18;

/// Calls `f` for ranges of units of work, each with a buffer of `length` elements. `weight` is the number of multiplications
/// of a unit.
pub(super) fn with_buffers(
    pool: &Arc<Pool>,
    length: usize,
    units: usize,
    weight: usize,
    f: impl Fn(*mut f32, usize, usize) + Sync,
) -> Result<()> {
    let failed = Mutex::new(None);
    walk::split(units, weight, GRAIN, |from, to| match pool.take(length * size_of::<f32>()) {
        Ok(buffer) => f(buffer.ptr().cast(), from, to),
        Err(error) => *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error),
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

/// The number of result elements that the fused program processes in one pass. They stay in the second-level cache.
const BLOCK: usize = 1 << 16;

/// Computes all results with one matrix product for each run of output rows of each group of each sample.
///
/// # Safety
///
/// The operands are contiguous and have the plan's extents (`plus` may be null); `out` has room for the results.
unsafe fn products(
    pool: &Arc<Pool>,
    plan: &Plan,
    x: *const f32,
    w: *const f32,
    plus: *const f32,
    out: &Results<'_>,
) -> Result<()> {
    let Plan { plane, n, groups, depth, filters } = plan;
    let (size, results) = plane.sizes();
    let k = plan.terms();
    let direct = plan.is_pointwise();
    // The number of output rows whose windows are unrolled in one pass.
    let rows = (UNROLLED / 4 / (k * plane.cols.out).max(1)).clamp(1, plane.rows.out.max(1));
    let most = if direct { results } else { rows * plane.cols.out }.clamp(1, results.max(1));
    let runs = results.div_ceil(most);
    // The number of result elements that the fused program processes in one pass.
    let together = if out.has_epilogue() { BLOCK } else { usize::MAX };
    let shared = Shared((x, w, plus));
    let product = |i: usize, columns: *mut f32| {
        let (x, w, plus) = shared.get();
        let (pair, run) = (i / runs, i % runs);
        let (sample, group) = (pair / groups, pair % groups);
        let first = run * most;
        let width = most.min(results - first);
        // SAFETY: sample and group are in the operands; the columns have room for the windows of these rows; no
        // other thread writes the results of this run.
        unsafe {
            let x = x.add(pair * depth * size);
            let b = if direct {
                Strided { ptr: x, row: size.cast_signed(), col: 1 }
            } else {
                let (top, rows) = (first / plane.cols.out, width / plane.cols.out);
                unroll(plane, *depth, top, rows, x, columns);
                Strided { ptr: columns.cast_const(), row: width.cast_signed(), col: 1 }
            };
            let a = Strided { ptr: w.add(group * filters * k), row: k.cast_signed(), col: 1 };
            let to = out.sums.add(pair * filters * results + first);
            let plus = if plus.is_null() { plus } else { plus.add(group * filters) };
            let end = out.end().map_or(std::ptr::null(), std::ptr::from_ref);
            let done = |[planes, places]: [Range<usize>; 2]| {
                let (plane, place) = (group * filters, first);
                let planes = plane + planes.start..plane + planes.end;
                out.done(sample, planes, place + places.start..place + places.end);
            };
            let dims = Dims { m: *filters, k, n: width };
            gemm_plus(dims, (to, results), [a, b], plus, end, together, &done);
        }
    };
    let (units, weight) = (n * groups * runs, filters * k * most);
    if direct {
        // A small number of products is divided within each product instead.
        let grain = if units < walk::PARTS * threads::count() { usize::MAX } else { GRAIN };
        walk::split(units, weight, grain, |from, to| {
            (from..to).for_each(|i| product(i, std::ptr::null_mut()));
        });
        return Ok(());
    }
    with_buffers(pool, k * most, units, weight, |columns, from, to| {
        (from..to).for_each(|i| product(i, columns));
    })
}

/// Unrolls the windows of `rows` output rows, from row `top` on. Each channel and each position within the window gives one
/// row of the unrolled matrix.
///
/// # Safety
///
/// `x` has `depth` contiguous planes, and `columns` has room for all lines.
pub(super) unsafe fn unroll(
    plane: &Plane,
    depth: usize,
    top: usize,
    rows: usize,
    x: *const f32,
    columns: *mut f32,
) {
    let (lines, cols) = (&plane.rows, &plane.cols);
    let size = lines.extent * cols.extent;
    let width = rows * cols.out;
    let is_shifted = lines.stride == 1 && cols.stride == 1 && cols.out == cols.extent;
    let mut to = columns;
    for c in 0..depth {
        for ky in 0..lines.kernel {
            for kx in 0..cols.kernel {
                // SAFETY: this function's contract.
                unsafe {
                    let x = x.add(c * size);
                    if is_shifted {
                        shift(plane, [ky, kx], top, rows, x, to);
                    } else {
                        unroll_rows(plane, [ky, kx], top, rows, x, to);
                    }
                }
                to = to.wrapping_add(width);
            }
        }
    }
}

/// Unrolls one position within the windows, row by row.
///
/// # Safety
///
/// `x` has a plane, and `to` has room for the rows.
unsafe fn unroll_rows(
    plane: &Plane,
    [ky, kx]: [usize; 2],
    top: usize,
    rows: usize,
    x: *const f32,
    to: *mut f32,
) {
    let (lines, cols) = (&plane.rows, &plane.cols);
    let (from, end) = cols.inside(kx);
    let mut to = to;
    for oy in top..top + rows {
        // SAFETY: `to` has room for this row's windows, and their positions are in row `iy`.
        unsafe {
            match lines.position(ky, oy) {
                None => to.write_bytes(0, cols.out),
                Some(iy) => {
                    to.write_bytes(0, from);
                    let start = (from * cols.stride + kx * cols.dilation).wrapping_sub(cols.before);
                    let line = x.wrapping_add(iy * cols.extent).wrapping_add(start);
                    if cols.stride == 1 {
                        to.add(from).copy_from_nonoverlapping(line, end - from);
                    } else {
                        for i in 0..end - from {
                            to.add(from + i).write(*line.add(i * cols.stride));
                        }
                    }
                    to.add(end).write_bytes(0, cols.out - end);
                }
            }
            to = to.add(cols.out);
        }
    }
}

/// Unrolls one position within the windows if rows of the result are as long as rows of the operand: the position is a part of
/// the plane, with zeros at the edges.
///
/// # Safety
///
/// As for [`unroll_rows`], with strides of 1.
unsafe fn shift(plane: &Plane, [ky, kx]: [usize; 2], top: usize, rows: usize, x: *const f32, to: *mut f32) {
    let (lines, cols) = (&plane.rows, &plane.cols);
    let ((first, last), (from, end)) = (lines.inside(ky), cols.inside(kx));
    let (first, last) = (first.max(top), last.min(top + rows));
    let width = rows * cols.out;
    // SAFETY: the elements between the first and the last one inside are in the plane, and `to` has room for all rows.
    unsafe {
        if first >= last || from >= end {
            return to.write_bytes(0, width);
        }
        let at = |oy: usize, ox: usize| (oy - top) * cols.out + ox;
        let (begin, stop) = (at(first, from), at(last - 1, end));
        let start = (first + ky * lines.dilation).wrapping_sub(lines.before).wrapping_mul(cols.extent);
        let start = start.wrapping_add((from + kx * cols.dilation).wrapping_sub(cols.before));
        to.write_bytes(0, begin);
        to.add(begin).copy_from_nonoverlapping(x.wrapping_add(start), stop - begin);
        to.add(stop).write_bytes(0, width - stop);
        // The end of a row, and the beginning of the next one.
        let gap = cols.out - end + from;
        for oy in first..last - 1 {
            let edge = to.add(at(oy, end));
            match gap {
                0 => break,
                1 => edge.write(0.0),
                _ => edge.write_bytes(0, gap),
            }
        }
    }
}
