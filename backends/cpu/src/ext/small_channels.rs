//! Convolutions of few windows with constant filters, as matrix products whose left operand is the windows.
//!
//! The other kernels use filters as the left operand, and pack windows in each run. If a plane has few windows, they leave parts
//! of the packed panels empty, and read filters that are not packed. Here the filters are packed, once.

use super::conv::{Plan, unroll, widened, with_buffers};
use super::fused::{Results, Then, written};
use super::{computed, floats};
use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::gemm::panels::Panels;
use crate::gemm::{Matrix, Strided};
use crate::kernels::Shared;
use crate::kernels::dispatch::{VectorLoop, dispatch};
use crate::kernels::transpose;
use crate::pace::Pace;
use crate::pool::Pool;
use crate::threads;
use bb::ext::ConvOptions;
use bb::{DataType, Tensor};
use std::sync::Arc;

/// The maximum number of windows of a sample.
const WINDOWS: usize = 256;

/// The number of windows in a vector. The last vector may be only partly filled.
const LANES: usize = 16;

/// The minimum number of terms of a window, and the minimum number of filters.
const TERMS: usize = 16;
const FILTERS: usize = 32;

/// The minimum number of filters for windows that must be unrolled.
const UNROLLED: usize = 96;

/// Resolves a convolution. Returns `None` unless its numbers of windows, terms and filters suit this kernel.
fn resolved(x: &[usize], w: &[usize], bias: Option<&[usize]>, options: ConvOptions<'_>) -> Option<Plan> {
    let plan = Plan::new(x, w, bias, options)?;
    let windows = plan.plane.sizes().1;
    // If the windows of a pointwise convolution nearly fill vectors, the other kernels compute it without rearranging them.
    let fill = plan.is_pointwise() && windows.next_multiple_of(LANES) * 8 <= windows * 9;
    let few = plan.groups == 1 && windows <= WINDOWS && !fill;
    let filters = if plan.is_pointwise() { FILTERS } else { UNROLLED };
    (few && plan.terms() >= TERMS && plan.filters >= filters).then_some(plan)
}

/// Returns the extents of one sample of an operand, if they are known.
pub(crate) fn sample(extents: &[Option<usize>]) -> Option<Vec<usize>> {
    extents.iter().enumerate().map(|(axis, &extent)| if axis == 0 { Some(1) } else { extent }).collect()
}

/// Packs the filters, if the operand has few enough windows. `extents` are the known extents of the operand.
pub(crate) fn packed(
    cpu: &Cpu,
    extents: &[Option<usize>],
    w: &Array,
    options: ConvOptions<'_>,
) -> Result<Option<Panels>> {
    let Some(x) = sample(extents) else { return Ok(None) };
    let Some(plan) = resolved(&x, w.shape(), None, options) else { return Ok(None) };
    let w = widened(cpu.pool(), w)?;
    let k = plan.terms();
    let right = Matrix { ptr: w.ptr(), row: 1, col: k.cast_signed() };
    // SAFETY: the filters are contiguous, and each has as many terms.
    unsafe { Panels::new(cpu.pool(), DataType::F32, [k, plan.filters], right) }
}

/// Computes the convolution with the packed filters, whose original shape is `w`. Returns `None` where [`conv`](super::conv::conv)
/// does, and for extents that [`packed`] does not support.
pub(crate) fn conv(
    cpu: &Cpu,
    x: &Array,
    w: &[usize],
    panels: &Panels,
    bias: Option<&Array>,
    options: ConvOptions<'_>,
    then: Option<&Then<'_>>,
) -> Result<Option<Array>> {
    if !computed(x) {
        return Ok(None);
    }
    let Some(plan) = resolved(x.shape(), w, bias.map(Tensor::shape), options) else { return Ok(None) };
    let (pool, dtype) = (cpu.pool(), x.dtype());
    let (x, bias) = (widened(pool, x)?, bias.map(|bias| widened(pool, bias)).transpose()?);
    let plus = bias.as_ref().map_or(std::ptr::null(), floats);
    written(pool, dtype, plan.plane.shape(plan.n, plan.filters), then, |out| {
        // SAFETY: the operands are contiguous and have the plan's extents, and `out` has room for all results.
        unsafe { convolve(pool, &plan, floats(&x), panels, plus, out) }
    })
    .map(Some)
}

/// Computes all results and writes them to `out`.
///
/// # Safety
///
/// The operands are contiguous and have the plan's extents (`plus` may be null); `out` has room for the results.
unsafe fn convolve(
    pool: &Arc<Pool>,
    plan: &Plan,
    x: *const f32,
    panels: &Panels,
    plus: *const f32,
    out: &Results<'_>,
) -> Result<()> {
    let Plan { plane, n, depth, filters, .. } = plan;
    let (size, results) = plane.sizes();
    if *n == 0 || results == 0 {
        return Ok(());
    }
    let terms = plan.terms();
    let length = if plan.is_pointwise() { 0 } else { terms * results };
    let columns = pool.take(length * size_of::<f32>())?;
    // Pad each row, because rows whose stride is a power of two evict each other from the first-level cache.
    let row = terms.next_multiple_of(LANES) + LANES;
    let rows = pool.take(results * row * size_of::<f32>())?;
    let width = panels.width();
    let groups = filters.div_ceil(width);
    let mut pace = Pace::new();
    for sample in 0..*n {
        pace.step(terms.saturating_mul(*filters).saturating_mul(results));
        // SAFETY: the operands have these samples, and the buffers have room for the windows of one.
        unsafe {
            let x = x.add(sample * depth * size);
            let windows = if plan.is_pointwise() {
                x
            } else {
                unroll(plane, *depth, 0, plane.rows.out, x, columns.ptr().cast());
                columns.ptr().cast::<f32>().cast_const()
            };
            transpose::transpose(size_of::<f32>(), terms, results, rows.ptr(), row, windows.cast(), results);
        }
        let left = Strided { ptr: rows.ptr().cast::<f32>().cast_const(), row: row.cast_signed(), col: 1 };
        let shared = Shared((left, plus));
        let group = |group: usize, buffer: *mut f32| {
            let (left, plus) = shared.get();
            let first = group * width;
            let count = width.min(filters - first);
            // SAFETY: the buffer has room for the results of these filters, which no other call computes, and the operands have
            // the plan's extents.
            unsafe {
                panels.part(first..first + count, results, left, buffer);
                if !plus.is_null() {
                    let sums = std::slice::from_raw_parts_mut(buffer, results * count);
                    dispatch(Plus { sums, bias: std::slice::from_raw_parts(plus.add(first), count) });
                }
                let to = out.sums.add((sample * filters + first) * results).cast();
                transpose::block::<false>(
                    size_of::<f32>(),
                    results,
                    count,
                    to,
                    results,
                    buffer.cast(),
                    count,
                );
                out.done(sample, first..first + count, 0..results);
            }
        };
        // If there are fewer groups than threads, the other threads share the product within a group.
        let alone = groups >= threads::count();
        with_buffers(pool, results * width, groups, terms * results * width, |buffer, from, to| {
            let some = || (from..to).for_each(|i| group(i, buffer));
            if alone { threads::alone(some) } else { some() }
        })?;
    }
    Ok(())
}

/// Adds a bias to each row of sums.
struct Plus<'a> {
    sums: &'a mut [f32],
    bias: &'a [f32],
}

impl VectorLoop for Plus<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for row in self.sums.chunks_exact_mut(self.bias.len().max(1)) {
            for (sum, bias) in row.iter_mut().zip(self.bias) {
                *sum += bias;
            }
        }
    }
}
