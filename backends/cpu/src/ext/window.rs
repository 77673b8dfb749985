//! Windows that slide over planes: max pooling and depthwise convolution.

use super::{dense_f32, floats};
use crate::array::Array;
use crate::backend::Cpu;
use crate::error::Result;
use crate::kernels::dispatch::{VectorLoop, dispatch};
use crate::kernels::number::Number;
use crate::kernels::{Shared, elementwise, walk};
use crate::ops::made;
use crate::pace::{Pace, STRETCH};
use bb::ir::infer::Step;
use bb::{DataType, Shape, Tensor};
use smallvec::SmallVec;

/// The windows along one dimension.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    pub(super) extent: usize,
    pub(super) kernel: usize,
    pub(super) stride: usize,
    pub(super) dilation: usize,
    pub(super) before: usize,
    pub(super) out: usize,
}

impl Line {
    /// The line of an operand that has no such dimension.
    const SINGLE: Line = Line { extent: 1, kernel: 1, stride: 1, dilation: 1, before: 0, out: 1 };

    fn new(extent: usize, step: Step<i64>) -> Option<Line> {
        let Step { kernel, stride, dilation, before, after } = step;
        let positive = |v: i64| usize::try_from(v).ok().filter(|v| (1..1 << 31).contains(v));
        let padding = |v: i64| usize::try_from(v).ok().filter(|&v| v < 1 << 31);
        let (kernel, stride, dilation) = (positive(kernel)?, positive(stride)?, positive(dilation)?);
        let (before, after) = (padding(before)?, padding(after)?);
        if extent >= 1 << 31 {
            return None;
        }
        let room = (extent + before + after).checked_sub((kernel - 1).checked_mul(dilation)? + 1)?;
        Some(Line { extent, kernel, stride, dilation, before, out: room / stride + 1 })
    }

    /// Returns the range of the windows whose element `k` lies in the operand.
    pub(super) fn inside(&self, k: usize) -> (usize, usize) {
        let ahead = k * self.dilation;
        let first = self.before.saturating_sub(ahead).div_ceil(self.stride);
        // The last position is `extent - 1`.
        let end = match (self.extent + self.before).checked_sub(ahead + 1) {
            Some(last) => last / self.stride + 1,
            None => 0,
        };
        let end = end.min(self.out);
        (first.min(end), end)
    }

    /// Returns the position of element `k` of window `o`, or `None` if it lies in the padding.
    pub(super) fn position(&self, k: usize, o: usize) -> Option<usize> {
        (o * self.stride + k * self.dilation).checked_sub(self.before).filter(|&p| p < self.extent)
    }
}

/// The windows over a plane. A one-dimensional operand is a plane of one row.
#[derive(Debug, Clone)]
pub(super) struct Plane {
    pub(super) rows: Line,
    pub(super) cols: Line,
    /// The extents of the result after the first two dimensions.
    pub(super) out: SmallVec<[usize; 2]>,
}

impl Plane {
    /// Resolves windows over `[n, c, w]` or `[n, c, h, w]`. Returns `None` for other shapes and for invalid arguments,
    /// which the operation's body handles.
    pub(super) fn of(
        shape: &[usize],
        kernel: &[i64],
        [strides, pads, dilations]: [&[i64]; 3],
    ) -> Option<Plane> {
        let mut steps = Step::of(kernel, strides, pads, dilations)?;
        match (shape, kernel) {
            (&[_, _, w], [_]) => {
                let cols = Line::new(w, steps.next()?)?;
                Some(Plane { rows: Line::SINGLE, cols, out: SmallVec::from_slice(&[cols.out]) })
            }
            (&[_, _, h, w], [_, _]) => {
                let (rows, cols) = (Line::new(h, steps.next()?)?, Line::new(w, steps.next()?)?);
                Some(Plane { rows, cols, out: SmallVec::from_slice(&[rows.out, cols.out]) })
            }
            _ => None,
        }
    }

    /// Returns the number of elements of one plane of the operand, and of one plane of the result.
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.rows.extent * self.cols.extent, self.rows.out * self.cols.out)
    }

    /// Returns the shape of a result with `n * c` planes.
    pub(super) fn shape(&self, n: usize, c: usize) -> Shape {
        [n, c].into_iter().chain(self.out.iter().copied()).collect()
    }
}

/// A window that slides over one plane and keeps the greatest element.
struct Greatest<'a> {
    plane: &'a Plane,
    x: *const f32,
    out: *mut f32,
}

impl VectorLoop for Greatest<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Greatest { plane: Plane { rows, cols, .. }, x, out } = self;
        let mut pace = Pace::new();
        for oy in 0..rows.out {
            pace.step(cols.out * rows.kernel * cols.kernel);
            // SAFETY: `out` has room for `rows.out` rows of `cols.out`.
            let line = unsafe {
                let line = out.add(oy * cols.out);
                for ox in 0..cols.out {
                    line.add(ox).write(f32::NEG_INFINITY);
                }
                std::slice::from_raw_parts_mut(line, cols.out)
            };
            for iy in (0..rows.kernel).filter_map(|ky| rows.position(ky, oy)) {
                for kx in 0..cols.kernel {
                    let (from, to) = cols.inside(kx);
                    // A window may have no element in the row, and then no position either.
                    let Some(results @ [_, ..]) = line.get_mut(from..to) else { continue };
                    let start = iy * cols.extent
                        + (from * cols.stride + kx * cols.dilation).wrapping_sub(cols.before);
                    // SAFETY: the positions of these windows are inside row `iy` of the operand.
                    unsafe { raise(results, x.wrapping_add(start), cols.stride) };
                }
            }
        }
    }
}

/// Raises each result to its element; elements are `stride` apart.
///
/// # Safety
///
/// `x` has an element for each result.
#[inline(always)]
unsafe fn raise(results: &mut [f32], x: *const f32, stride: usize) {
    for (i, result) in results.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        let v = unsafe { if stride == 1 { *x.add(i) } else { *x.add(i * stride) } };
        *result = Number::max(v, *result);
    }
}

/// The number of elements below which a second thread costs more than it saves.
const GRAIN: usize = 1 << 16;

/// Computes the maximum of each window.
pub(super) fn pool(cpu: &Cpu, plane: &Plane, x: &Array) -> Result<Array> {
    let Some(x) = dense_f32(cpu.pool(), x)? else {
        return Err(crate::ops::unsupported("max_pool", x.dtype()));
    };
    let &[n, c, ..] = x.shape() else {
        return Err(crate::ops::unsupported("max_pool", x.dtype()));
    };
    let (size, results) = plane.sizes();
    let work = results * plane.rows.kernel * plane.cols.kernel;
    made(cpu.pool(), DataType::F32, plane.shape(n, c), |out| {
        let shared = Shared((floats(&x), out.cast::<f32>()));
        walk::split(n * c, work, GRAIN, |from, to| {
            let (x, out) = shared.get();
            for i in from..to {
                // SAFETY: plane `i` is in the operand, and `out` has room for its results.
                let (x, out) = unsafe { (x.add(i * size), out.add(i * results)) };
                dispatch(Greatest { plane, x, out });
            }
        });
    })
}

/// Multiplies each channel by a factor and adds a shift, in one pass.
pub(super) fn scaled(cpu: &Cpu, x: &Array, factor: &Array, shift: &Array) -> Result<Array> {
    let pool = cpu.pool();
    let (Some(x), Some(factor), Some(shift)) =
        (dense_f32(pool, x)?, dense_f32(pool, factor)?, dense_f32(pool, shift)?)
    else {
        return Err(crate::ops::unsupported("batch_normalization", x.dtype()));
    };
    let (n, c, size) = match x.shape() {
        [n, c, rest @ ..] => (*n, *c, rest.iter().product::<usize>()),
        _ => return Err(crate::ops::unsupported("batch_normalization", x.dtype())),
    };
    made(pool, DataType::F32, Shape::from_slice(x.shape()), |out| {
        let shared = Shared((floats(&x), floats(&factor), floats(&shift), out.cast::<f32>()));
        walk::split(n * c, size, GRAIN, |from, to| {
            let (x, factor, shift, out) = shared.get();
            let mut pace = Pace::new();
            for i in from..to {
                // SAFETY: there is a factor and a shift for each channel, and row `i` is in the operand and in `out`.
                unsafe {
                    let (factor, shift) = (*factor.add(i % c), *shift.add(i % c));
                    let (x, out) = (x.add(i * size), out.add(i * size));
                    let (x, out) =
                        (std::slice::from_raw_parts(x, size), std::slice::from_raw_parts_mut(out, size));
                    for (out, x) in out.chunks_mut(STRETCH).zip(x.chunks(STRETCH)) {
                        pace.step(x.len());
                        elementwise::map(out, x, |v| v * factor + shift);
                    }
                }
            }
        });
    })
}
