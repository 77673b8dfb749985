//! The transposed convolution, computed as a matrix product of the filters and the operand. Where windows of the result
//! overlap, their products are summed.

use super::conv::with_buffers;
use super::window::{Line, Plane};
use super::{floats, rounded, single};
use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::gemm::{Dims, Strided, gemm};
use crate::kernels::Shared;
use crate::kernels::dispatch::{VectorLoop, dispatch};
use crate::ops::{made, unsupported};
use crate::pace::Pace;
use bb::ext::ConvTransposeOptions;
use bb::ir::infer::Step;
use bb::{DataType, Tensor};

/// The maximum number of products that are added sequentially.
const SEQUENTIAL: usize = 512;

/// The number of elements of the matrix product that are computed before they are summed. They stay in the second-level
/// cache.
const PRODUCT: usize = 1 << 17;

/// The extents of a transposed convolution.
#[derive(Debug)]
pub(super) struct Plan {
    /// The windows over the result. The operand has one element for each window.
    plane: Plane,
    n: usize,
    groups: usize,
    /// The number of channels of one group, and its number of filters.
    depth: usize,
    filters: usize,
    /// The number of result rows that are computed in one pass.
    band: usize,
}

/// Returns the windows over a result along one dimension, if the operand has `out` elements along it.
fn line(out: usize, step: Step<i64>, more: i64) -> Option<Line> {
    let number = |v: i64| usize::try_from(v).ok().filter(|v| (..1 << 31).contains(v));
    let positive = |v: i64| number(v).filter(|&v| v > 0);
    let Step { kernel, stride, dilation, before, after } = step;
    let (kernel, stride, dilation) = (positive(kernel)?, positive(stride)?, positive(dilation)?);
    let (before, after) = (number(before)?, number(after)?);
    // The result covers all windows, without the padding.
    let windows = out.checked_sub(1).filter(|_| out < 1 << 31)? * stride + (kernel - 1) * dilation + 1;
    let extent = (windows + number(more)?).checked_sub(before + after)?;
    Some(Line { extent, kernel, stride, dilation, before, after, out })
}

impl Plan {
    /// Resolves a transposed convolution. Returns `None` for other shapes and for invalid arguments, which the operation's
    /// body handles.
    pub(super) fn new(
        x: &Array,
        w: &Array,
        bias: Option<&Array>,
        options: ConvTransposeOptions<'_>,
    ) -> Option<Plan> {
        let ConvTransposeOptions { strides, pads, dilations, output_padding, group } = options;
        let (&[n, c, ref spatial @ ..], &[channels, filters, ref kernel @ ..]) = (x.shape(), w.shape())
        else {
            return None;
        };
        let kernel: Vec<i64> = kernel.iter().map(|&k| k as i64).collect();
        let fits = output_padding.is_empty() || output_padding.len() == kernel.len();
        let more = |i: usize| output_padding.get(i).copied().unwrap_or(0);
        let mut steps = Step::of(&kernel, strides, pads, dilations).filter(|_| fits)?;
        let plane = match (spatial, &kernel[..]) {
            (&[w], [_]) => {
                let cols = line(w, steps.next()?, more(0))?;
                Plane { rows: Line::SINGLE, cols, out: [cols.extent].into_iter().collect() }
            }
            (&[h, w], [_, _]) => {
                let (rows, cols) = (line(h, steps.next()?, more(0))?, line(w, steps.next()?, more(1))?);
                Plane::new(rows, cols, [rows.extent, cols.extent])
            }
            _ => return None,
        };
        let groups = usize::try_from(group).ok().filter(|&g| g > 0 && c.is_multiple_of(g))?;
        let taps = plane.rows.kernel.checked_mul(plane.cols.kernel)?;
        let m = groups.checked_mul(filters)?;
        let fits = c == channels
            && plane.is_countable(n, m)
            && taps <= SEQUENTIAL
            && w.dtype() == x.dtype()
            && bias.is_none_or(|b| b.dtype() == x.dtype() && b.shape() == [m])
            && plane.cols.extent.max(plane.cols.before).max(plane.cols.dilation * taps) < 1 << 24;
        let Line { kernel, stride, dilation, .. } = plane.rows;
        // Windows that reach into the next band are computed twice, so bands should not be much lower than windows.
        let reach = ((kernel - 1) * dilation).div_ceil(stride);
        let rows = PRODUCT / filters.saturating_mul(taps).saturating_mul(plane.cols.out).max(1);
        let band = rows.max(2 * reach).max(1).saturating_mul(stride);
        fits.then_some(Plan { plane, n, groups, depth: c / groups, filters, band })
    }

    /// Returns the range of operand rows whose windows overlap the result rows from `top` to `end`.
    fn windows(&self, top: usize, end: usize) -> (usize, usize) {
        let Line { kernel, stride, dilation, before, out, .. } = self.plane.rows;
        let first = (top + before).saturating_sub((kernel - 1) * dilation).div_ceil(stride).min(out);
        let last = (end + before - 1) / stride + 1;
        (first, last.clamp(first, out))
    }
}

/// Computes the transposed convolution.
pub(super) fn conv_transpose(
    cpu: &Cpu,
    plan: &Plan,
    x: &Array,
    w: &Array,
    bias: Option<&Array>,
) -> Result<Array> {
    let pool = cpu.pool();
    let refused = || unsupported("conv_transpose", x.dtype());
    let (from, w) = (single(pool, x)?.ok_or_else(refused)?, single(pool, w)?.ok_or_else(refused)?);
    let bias = bias.map(|bias| single(pool, bias)?.ok_or_else(refused)).transpose()?;
    let Plan { plane: Plane { rows, cols, out: extents }, n, groups, depth, filters, band } = plan;
    let shape = [*n, groups * filters].into_iter().chain(extents.iter().copied()).collect();
    let (size, results) = (rows.out * cols.out, rows.extent * cols.extent);
    let columns = filters * rows.kernel * cols.kernel;
    let most = (0..rows.extent)
        .step_by(*band)
        .map(|top| plan.windows(top, (top + band).min(rows.extent)))
        .map(|(first, last)| last - first)
        .max()
        .unwrap_or(0);
    let product = columns * most * cols.out;
    let pitch = cols.out.max((cols.extent + cols.before).div_ceil(cols.stride))
        + (cols.kernel - 1) * cols.dilation / cols.stride;
    let bands = rows.extent.div_ceil(*band);
    let weight = columns * most * cols.out * depth;
    let mut done = Ok(());
    let out = made(pool, DataType::F32, shape, |out| {
        let plus = bias.as_ref().map_or(std::ptr::null(), floats);
        let shared = Shared((floats(&from), floats(&w), plus, out.cast::<f32>()));
        let length = product + pitch * cols.stride;
        done = with_buffers(pool, length, n * groups * bands, weight, |buffer, from, to| {
            let (x, w, plus, out) = shared.get();
            for i in from..to {
                let (pair, band) = (i / bands, i % bands);
                let (group, top) = (pair % groups, band * plan.band);
                let end = (top + plan.band).min(rows.extent);
                let (first, last) = plan.windows(top, end);
                let width = (last - first) * cols.out;
                // SAFETY: the sample and the group are in the operands, and the product of these rows has room in the buffer,
                // with a row of results behind. No other call writes these rows of results.
                unsafe {
                    let b = Strided {
                        ptr: x.add(pair * depth * size + first * cols.out),
                        row: size.cast_signed(),
                        col: 1,
                    };
                    let a =
                        Strided { ptr: w.add(group * depth * columns), row: 1, col: columns.cast_signed() };
                    gemm(Dims { m: columns, k: *depth, n: width }, buffer, width, a, b);
                    dispatch(Fold {
                        plan,
                        rows: [top, end],
                        first,
                        width,
                        pitch,
                        products: buffer.cast_const(),
                        line: buffer.add(product),
                        plus: if plus.is_null() { plus } else { plus.add(group * filters) },
                        out: out.add(pair * filters * results),
                    });
                }
            }
        });
    })?;
    done?;
    rounded(pool, out, x.dtype())
}

/// Sums the products of overlapping windows, for some result rows of a group.
struct Fold<'a> {
    plan: &'a Plan,
    rows: [usize; 2],
    /// The first row of the operand in the product, and the number of columns of the product.
    first: usize,
    width: usize,
    /// The number of elements in `line` for each remainder of a column index by the stride.
    pitch: usize,
    products: *const f32,
    line: *mut f32,
    /// The biases, or null.
    plus: *const f32,
    out: *mut f32,
}

impl VectorLoop for Fold<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Plan { plane: Plane { rows, cols, .. }, filters, .. } = self.plan;
        let mut pace = Pace::new();
        // SAFETY: the maker of this value guarantees that the products are valid and there is room for the line and the results.
        unsafe {
            let line = std::slice::from_raw_parts_mut(self.line, self.pitch * cols.stride);
            for filter in 0..*filters {
                let plus = if self.plus.is_null() { 0.0 } else { *self.plus.add(filter) };
                for y in self.rows[0]..self.rows[1] {
                    pace.step(rows.kernel * cols.kernel * cols.out + cols.extent);
                    line.fill(plus);
                    for ky in 0..rows.kernel {
                        // The index of the window whose row `ky` is this result row.
                        let window = (y + rows.before).checked_sub(ky * rows.dilation);
                        let window = window.filter(|at| at % rows.stride == 0).map(|at| at / rows.stride);
                        let Some(window) = window.filter(|&at| at < rows.out) else { continue };
                        for kx in 0..cols.kernel {
                            let row = (filter * rows.kernel + ky) * cols.kernel + kx;
                            let at = row * self.width + (window - self.first) * cols.out;
                            let products = std::slice::from_raw_parts(self.products.add(at), cols.out);
                            let to = kx * cols.dilation;
                            let to = to % cols.stride * self.pitch + to / cols.stride;
                            let sums = line.get_mut(to..).unwrap_or_default();
                            sums.iter_mut().zip(products).for_each(|(sum, product)| *sum += product);
                        }
                    }
                    let out = self.out.add((filter * rows.extent + y) * cols.extent);
                    together(cols, self.pitch, line, std::slice::from_raw_parts_mut(out, cols.extent));
                }
            }
        }
    }
}

/// Writes a row of results. In `line`, columns with the same remainder by the stride are contiguous.
#[inline(always)]
fn together(cols: &Line, pitch: usize, line: &[f32], out: &mut [f32]) {
    let (step, before) = (cols.stride, cols.before);
    if let (2, Some((even, odd))) = (step, line.split_at_checked(pitch)) {
        let (head, rest) = out.split_at_mut((before % 2).min(out.len()));
        let skip = before.div_ceil(2);
        head.iter_mut().zip(odd.iter().skip(before / 2)).for_each(|(out, &v)| *out = v);
        let (pairs, last) = rest.as_chunks_mut::<2>();
        let (even, odd) = (even.get(skip..).unwrap_or_default(), odd.get(skip..).unwrap_or_default());
        let (count, values) = (pairs.len(), even.iter().zip(odd));
        pairs.iter_mut().zip(values).for_each(|(pair, (&even, &odd))| *pair = [even, odd]);
        last.iter_mut().zip(even.iter().skip(count)).for_each(|(out, &v)| *out = v);
        return;
    }
    for remainder in 0..step {
        // The first result column with this remainder.
        let first = (remainder + step - before % step) % step;
        let values = line.iter().skip(remainder * pitch + (first + before) / step);
        out.iter_mut().skip(first).step_by(step).zip(values).for_each(|(out, &v)| *out = v);
    }
}
