//! Convolutions of bytes in one or two dimensions, as matrix products of the filters with windows that are read in place.
//!
//! The operand is copied once, with its padding, and split by the phase of the stride: the elements that one weight
//! multiplies are then contiguous over all windows of a plane. A small number of windows beyond the end of each row are
//! computed as well, and discarded.

use super::copies::{copy_few, every, fill_few};
use super::{Filters, Zeros, depthwise, numbers, scalar, signed, zero_scalar};
use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::{CpuError, Result};
use crate::ext::dense_f32;
use crate::ext::window::{Line, Plane};
use crate::gemm::Dims;
use crate::gemm::integer::{self, Ints, PANEL, Right, Sums};
use crate::kernels::dispatch::{VectorLoop, dispatch};
use crate::kernels::quantize::{self, Target};
use crate::kernels::{Shared, walk};
use crate::ops::{dense, made};
use crate::pool::{Block, Pool};
use bb::ext::{ConvIntegerOptions, QLinearConvOptions};
use bb::{DataType, Tensor};
use smallvec::SmallVec;
use std::sync::Arc;

/// The operands of a convolution of integers.
#[derive(Debug)]
pub(crate) struct Operands<'a> {
    pub(crate) x: &'a Array,
    pub(crate) w: &'a Array,
    pub(crate) bias: Option<&'a Array>,
    pub(crate) x_zero: Option<&'a Array>,
    pub(crate) w_zero: Option<&'a Array>,
}

/// The rows or the columns of the copied operand.
#[derive(Debug)]
struct Axis {
    line: Line,
    /// The phases of the stride that weights read, in ascending order.
    phases: Vec<usize>,
    /// The number of elements of each phase.
    extent: usize,
}

impl Axis {
    /// Lays out the phases of a dimension. Returns `None` if the system has no memory.
    fn new(line: Line) -> Option<Axis> {
        let of = |k: usize| (k * line.dilation) % line.stride;
        let phases = (0..line.kernel.min(line.stride)).map(of);
        let mut phases = bb::ir::memory::collected("conv_integer", phases).ok()?;
        phases.sort_unstable();
        phases.dedup();
        let reach = (line.kernel - 1) * line.dilation / line.stride;
        Some(Axis { phases, extent: line.out + reach, line })
    }

    /// Returns the phase of element `k` of a window, and its offset within the phase from the start of the window.
    fn place(&self, k: usize) -> (usize, usize) {
        let ahead = k * self.line.dilation;
        let phase = self.phases.binary_search(&(ahead % self.line.stride)).unwrap_or(0);
        (phase, ahead / self.line.stride)
    }

    /// Returns the position in the operand of element `i` of a phase; `None` if it is in the padding.
    fn position(&self, phase: usize, i: usize) -> Option<usize> {
        let at = self.phases.get(phase).copied().unwrap_or(0) + i * self.line.stride;
        at.checked_sub(self.line.before).filter(|&at| at < self.line.extent)
    }
}

/// The resolved extents of a convolution.
pub(super) struct Plan {
    pub(super) plane: Plane,
    pub(super) n: usize,
    pub(super) groups: usize,
    pub(super) depth: usize,
    pub(super) filters: usize,
    rows: Axis,
    cols: Axis,
    /// Whether the operand is read in place, without a copy.
    direct: bool,
}

/// The maximum size of the copy, as a multiple of the operand's size.
const GROWTH: usize = 64;
/// The minimum operand size for the limit above; smaller operands count as this number of elements.
const SMALL: usize = 1 << 12;

impl Plan {
    fn new(o: &Operands<'_>, options: ConvIntegerOptions<'_>) -> Option<Plan> {
        let ConvIntegerOptions { strides, pads, dilations, group } = options;
        let (&[n, c, ..], &[m, depth, ref kernel @ ..]) = (o.x.shape(), o.w.shape()) else { return None };
        // The extents of empty filters have no upper limit, so the computations below could overflow.
        if o.x.is_empty() || o.w.is_empty() {
            return None;
        }
        let kernel: Vec<i64> = kernel.iter().map(|&k| k as i64).collect();
        let plane = Plane::of(o.x.shape(), &kernel, [strides, pads, dilations])?;
        let groups = usize::try_from(group).ok().filter(|&g| g > 0 && m.is_multiple_of(g))?;
        let bias = o.bias.is_none_or(|b| b.dtype() == DataType::I32 && b.shape() == [m]);
        let simple = |l: &Line| l.kernel == 1 && l.stride == 1 && l.out == l.extent && l.before == 0;
        let direct = simple(&plane.rows) && simple(&plane.cols);
        let (rows, cols) = (Axis::new(plane.rows)?, Axis::new(plane.cols)?);
        let size = [c, rows.phases.len(), cols.phases.len(), rows.extent, cols.extent]
            .into_iter()
            .try_fold(1usize, usize::checked_mul)?;
        let taps = plane.rows.kernel.checked_mul(plane.cols.kernel)?.checked_mul(depth)?;
        let fits = groups.checked_mul(depth) == Some(c)
            && bias
            && size / GROWTH <= o.x.len().max(SMALL)
            && taps < 1 << 30;
        fits.then_some(Plan { plane, n, groups, depth, filters: m / groups, rows, cols, direct })
    }

    /// Returns the number of weights of a filter.
    pub(super) fn terms(&self) -> usize {
        self.depth * self.plane.rows.kernel * self.plane.cols.kernel
    }

    /// Returns the number of elements of a channel of the copy.
    fn channel(&self) -> usize {
        if self.direct {
            return self.plane.sizes().0;
        }
        self.rows.phases.len() * self.cols.phases.len() * self.rows.extent * self.cols.extent
    }

    /// Returns the number of windows of a plane, including the discarded ones.
    fn windows(&self) -> usize {
        if self.direct {
            return self.plane.sizes().1;
        }
        (self.plane.rows.out - 1) * self.cols.extent + self.plane.cols.out
    }

    /// Returns, for each weight of a filter, the offset of its elements from the first channel of the group.
    fn offsets(&self) -> Result<Vec<usize>> {
        let (rows, cols) = (self.plane.rows.kernel, self.plane.cols.kernel);
        let mut taps = bb::ir::memory::room("conv_integer", rows * cols)?;
        for ky in 0..rows {
            for kx in 0..cols {
                let ((py, y), (px, x)) = (self.rows.place(ky), self.cols.place(kx));
                let phase = py * self.cols.phases.len() + px;
                taps.push((phase * self.rows.extent + y) * self.cols.extent + x);
            }
        }
        let mut all = bb::ir::memory::room("conv_integer", self.depth * taps.len())?;
        for first in (0..self.depth).map(|c| c * self.channel()) {
            all.extend(taps.iter().map(|tap| first + tap));
        }
        Ok(all)
    }

    /// Copies the planes of a sample, with padding.
    ///
    /// # Safety
    ///
    /// `x` has the planes of a sample, and `to` has room for all channels of the copy.
    unsafe fn copy(&self, x: *const u8, to: *mut u8, padding: u8) {
        let (size, channel) = (self.plane.sizes().0, self.channel());
        let shared = Shared((x, to));
        walk::split(self.groups * self.depth, channel, 1 << 16, |from, until| {
            let (x, to) = shared.get();
            let (x, to) = (x.wrapping_add(from * size), to.wrapping_add(from * channel));
            dispatch(Copy { plan: self, x, to, padding, channels: until - from });
        });
    }

    /// Copies one phase of a row, or writes a row of padding.
    ///
    /// # Safety
    ///
    /// `from` is a row of the operand, if there is one, and `to` has room for a row of a phase.
    #[inline(always)]
    unsafe fn copy_row(&self, from: Option<*const u8>, to: *mut u8, phase: usize, padding: u8) {
        let width = self.cols.extent;
        let Line { stride, extent, before, .. } = self.cols.line;
        let start = self.cols.phases.get(phase).copied().unwrap_or(0);
        // SAFETY: this function has the same contract; the positions between `first` and `end` are in the operand.
        unsafe {
            let Some(from) = from else { return to.write_bytes(padding, width) };
            let first = before.saturating_sub(start).div_ceil(stride).min(width);
            let end = match (extent + before).checked_sub(start) {
                Some(room) => room.div_ceil(stride).clamp(first, width),
                None => first,
            };
            fill_few(to, padding, first);
            let from = from.wrapping_add(start + first * stride).wrapping_sub(before);
            let (to, n) = (to.add(first), end - first);
            match stride {
                1 => copy_few(from, to, n),
                _ => every(from, stride, to, n),
            }
            fill_few(to.add(n), padding, width - end);
        }
    }
}

/// A loop that copies channels with padding, phase by phase.
struct Copy<'a> {
    plan: &'a Plan,
    x: *const u8,
    to: *mut u8,
    padding: u8,
    channels: usize,
}

impl VectorLoop for Copy<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Copy { plan, x, mut to, padding, channels } = self;
        let size = plan.plane.sizes().0;
        for c in 0..channels {
            for py in 0..plan.rows.phases.len() {
                for px in 0..plan.cols.phases.len() {
                    for i in 0..plan.rows.extent {
                        let row = |y: usize| x.wrapping_add(c * size + y * plan.cols.line.extent);
                        let from = plan.rows.position(py, i).map(row);
                        // SAFETY: `Plan::copy` makes this value, and its contract covers the channels.
                        unsafe { plan.copy_row(from, to, px, padding) };
                        to = to.wrapping_add(plan.cols.extent);
                    }
                }
            }
        }
    }
}

/// A run of windows that are consecutive in the result.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    /// The index of the first window among the columns of a tile, and its index in the planes of the result.
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) len: usize,
}

/// Rows of sums, one row for each filter from `filter` on.
#[derive(Debug, Clone, Copy)]
pub(super) struct FilterSums<'a> {
    pub(super) filter: usize,
    /// The offset in the result of the first filter's plane, and the number of elements of a plane.
    pub(super) plane: usize,
    pub(super) size: usize,
    pub(super) sums: &'a [i32],
    /// The distance between rows, and the number of sums in each row.
    pub(super) stride: usize,
    pub(super) width: usize,
    /// The sums of each row that are written. The other sums belong to windows beyond the ends of rows.
    pub(super) segments: &'a [Segment],
}

/// The consumer of the sums of windows.
pub(super) trait Finish: Sync {
    /// Processes rows of sums.
    ///
    /// # Safety
    ///
    /// The result has the segments in the plane of each filter, and no other call writes them. The segments are within the
    /// sums.
    unsafe fn rows(&self, rows: FilterSums<'_>);
}

/// Passes the sums of a tile to `finish`.
fn finish_tile(plan: &Plan, first: usize, base: usize, sums: &Sums<'_>, finish: &dyn Finish) {
    let results = plan.plane.sizes().1;
    let (width, out) = if plan.direct { (results, results) } else { (plan.cols.extent, plan.plane.cols.out) };
    let mut segments: SmallVec<[Segment; PANEL]> = SmallVec::new();
    let mut from = 0;
    let (mut y, mut x) = (sums.col / width, sums.col % width);
    while from < sums.cols {
        let len = (width - x).min(sums.cols - from);
        let written = len.min(out.saturating_sub(x));
        if written > 0 {
            segments.push(Segment { from, to: y * out + x, len: written });
        }
        from += len;
        (y, x) = (y + 1, 0);
    }
    let filter = first + sums.row;
    // SAFETY: these windows are in the planes of the filters, and each is handed out once.
    unsafe {
        finish.rows(FilterSums {
            filter,
            plane: base + filter * results,
            size: results,
            sums: sums.all,
            stride: sums.stride,
            width: sums.width(),
            segments: &segments,
        });
    }
}

/// The zero point corrections for the filters of a group.
struct Corrections {
    added: Ints,
    rows: Ints,
}

/// Computes a convolution and passes all sums to `finish`. `filters` are the prepared weights, if they are known. Returns
/// false if the kernels do not support the zero points.
fn convolve(
    pool: &Arc<Pool>,
    plan: &Plan,
    o: &Operands<'_>,
    filters: Option<&Filters>,
    finish: &dyn Finish,
) -> Result<bool> {
    if depthwise::convolve(pool, plan, o, finish)? {
        return Ok(true);
    }
    let (Some(x_signed), Some(left)) = (signed(o.x.dtype()), Filters::bytes_of(o.w)) else {
        return Ok(false);
    };
    // The kernels read weights as signed bytes.
    let right = integer::right_bytes(left.signed, x_signed);
    let Some(x_zero) = o.x_zero.map_or(Some(0), zero_scalar) else { return Ok(false) };
    let known = filters.and_then(|filters| filters.of(plan));
    let Plan { n, groups, depth, filters, .. } = *plan;
    let k = plan.terms();
    let Some(w_zeros) = Zeros::read(pool, o.w_zero, groups * filters, left.shift())? else {
        return Ok(false);
    };
    let x = dense(pool, o.x)?;
    let bias = o.bias.map(|bias| dense(pool, bias)).transpose()?;
    let moved = x_zero + right.shift();
    let own = match known {
        Some(_) => None,
        None => Filters::new(pool, o.w, groups, [filters, k], moved != 0)?,
    };
    let Some(lefts) = known.or_else(|| own.as_ref()?.of(plan)) else { return Ok(false) };
    let corrections = lefts.iter().enumerate().map(|(g, left)| {
        let first = g * filters;
        let depth = i32::try_from(k).unwrap_or(i32::MAX);
        let added = |f: usize| {
            let sum = left.sums().get(f).copied().unwrap_or(0);
            let by = depth.wrapping_mul(w_zeros.at(first + f)).wrapping_sub(sum);
            // SAFETY: the bias has a number for each filter.
            let plus = bias.as_ref().map_or(0, |b| unsafe { *b.ptr().cast::<i32>().add(first + f) });
            plus.wrapping_add(moved.wrapping_mul(by))
        };
        let added = Ints::new(pool, filters, added)?;
        let rows =
            if w_zeros.none() { Ints::none() } else { Ints::new(pool, filters, |f| w_zeros.at(first + f))? };
        Ok::<_, CpuError>(Corrections { added, rows })
    });
    let corrections = bb::ir::memory::try_collected("conv_integer", corrections)?;
    let (offsets, channel) = (plan.offsets()?, plan.channel());
    let copy = if plan.direct { None } else { Some(pool.take(groups * depth * channel)?) };
    let (size, results) = plan.plane.sizes();
    let places = plan.windows();
    for sample in 0..n {
        let from = x.ptr().wrapping_add(sample * groups * depth * size);
        let base = copied(plan, from, copy.as_ref(), x_zero);
        for (g, (left, group)) in lefts.iter().zip(&corrections).enumerate() {
            let lines = Right::Lines(base.wrapping_add(g * depth * channel), &offsets, right);
            let zeros = integer::Zeros { added: &group.added, rows: &group.rows, cols: &[] };
            let at = sample * groups * filters * results;
            // SAFETY: the lines of all weights have elements for all windows.
            unsafe {
                integer::product(Dims { m: filters, k, n: places }, left, &lines, &zeros, &|sums| {
                    finish_tile(plan, g * filters, at, sums, finish);
                });
            }
        }
    }
    Ok(true)
}

/// Returns the memory that the windows of a sample are read from: the operand itself, or the copy, which this function fills.
fn copied(plan: &Plan, from: *const u8, copy: Option<&Block>, x_zero: i32) -> *const u8 {
    let Some(copy) = copy else { return from };
    let padding = u8::try_from(x_zero & 0xff).unwrap_or(0);
    // SAFETY: the operand has the planes of this sample, and the block room for the copy.
    unsafe { plan.copy(from, copy.ptr(), padding) };
    copy.ptr()
}

/// Writes sums as `i32`.
struct Plain(Shared<*mut i32>);

impl Finish for Plain {
    unsafe fn rows(&self, rows: FilterSums<'_>) {
        for (i, sums) in rows.sums.chunks(rows.stride.max(1)).enumerate() {
            for &Segment { from, to, len } in rows.segments {
                // SAFETY: this function has the same contract.
                unsafe {
                    let to = self.0.get().add(rows.plane + i * rows.size + to);
                    to.copy_from_nonoverlapping(sums.as_ptr().add(from), len);
                }
            }
        }
    }
}

/// Requantises sums and writes bytes.
struct Requantized<'a> {
    out: Shared<*mut u8>,
    scales: &'a [f32],
    y_scale: f32,
    target: Target,
}

impl Finish for Requantized<'_> {
    unsafe fn rows(&self, rows: FilterSums<'_>) {
        let scale = |i: usize| {
            let at = if self.scales.len() == 1 { 0 } else { rows.filter + i };
            self.scales.get(at).copied().unwrap_or(1.0)
        };
        let put = |i: usize, bytes: &[u8; PANEL]| {
            for &Segment { from, to, len } in rows.segments {
                // SAFETY: this function has the same contract.
                unsafe {
                    let to = self.out.get().add(rows.plane + i * rows.size + to);
                    copy_few(bytes.as_ptr().add(from), to, len);
                }
            }
        };
        let FilterSums { sums, stride, width, .. } = rows;
        // Quantise whole vectors; this includes sums that are not written.
        quantize::rows(quantize::Rows {
            sums,
            stride,
            width,
            scale,
            y_scale: self.y_scale,
            target: self.target,
            put,
        });
    }
}

/// Computes a convolution of bytes. Returns `None` for unsupported operands. `filters` is the result of
/// [`Cpu::byte_filters`] for the weights, if they are prepared.
pub(crate) fn conv_integer(
    cpu: &Cpu,
    operands: &Operands<'_>,
    filters: Option<&Filters>,
    options: ConvIntegerOptions<'_>,
) -> Result<Option<Array>> {
    let Some(plan) = Plan::new(operands, options) else { return Ok(None) };
    let shape = plan.plane.shape(plan.n, plan.groups * plan.filters);
    let mut done = Ok(false);
    let y = made(cpu.pool(), DataType::I32, shape, |out| {
        done = convolve(cpu.pool(), &plan, operands, filters, &Plain(Shared(out.cast())));
    })?;
    Ok(done?.then_some(y))
}

/// Computes a convolution of bytes as [`conv_integer`] does, and quantises its results.
pub(crate) fn qlinear_conv(
    cpu: &Cpu,
    operands: &Operands<'_>,
    filters: Option<&Filters>,
    [scale, y_scale, y_zero]: [&Array; 3],
    options: QLinearConvOptions<'_>,
) -> Result<Option<Array>> {
    let QLinearConvOptions { strides, pads, dilations, group } = options;
    let Some(plan) = Plan::new(operands, ConvIntegerOptions { strides, pads, dilations, group }) else {
        return Ok(None);
    };
    let (m, rank, to) = (plan.groups * plan.filters, operands.x.rank(), y_zero.dtype());
    let (Some(step), Some(zero), Some(is_signed)) = (scalar(y_scale), zero_scalar(y_zero), signed(to)) else {
        return Ok(None);
    };
    let per_filter = match *scale.shape() {
        [] => true,
        [count, ref rest @ ..] => {
            count == m && rest.len() + 2 == rank && rest.iter().all(|&extent| extent == 1)
        }
    };
    if !per_filter || y_scale.rank().max(y_zero.rank()) > rank {
        return Ok(None);
    }
    let Some(scales) = dense_f32(cpu.pool(), scale)? else { return Ok(None) };
    let shape = plan.plane.shape(plan.n, m);
    let mut done = Ok(false);
    let y = made(cpu.pool(), to, shape, |out| {
        let (scales, target) = (numbers(&scales), Target::new(is_signed, zero));
        let finish = Requantized { out: Shared(out), scales, y_scale: step, target };
        done = convolve(cpu.pool(), &plan, operands, filters, &finish);
    })?;
    Ok(done?.then_some(y))
}
