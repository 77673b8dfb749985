//! Sliding windows over planes, and scaling of channels.

use super::{floats, rounded, single};
use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::kernels::{Shared, element_loop, walk};
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
    /// The padding at the end. The last window need not reach it.
    pub(super) after: usize,
    pub(super) out: usize,
}

impl Line {
    /// The single window of a dimension that the operand does not have.
    pub(super) const SINGLE: Line =
        Line { extent: 1, kernel: 1, stride: 1, dilation: 1, before: 0, after: 0, out: 1 };

    fn new(extent: usize, step: Step<i64>, ceil: bool) -> Option<Line> {
        let Step { kernel, stride, dilation, before, after } = step;
        let positive = |v: i64| usize::try_from(v).ok().filter(|v| (1..1 << 31).contains(v));
        let padding = |v: i64| usize::try_from(v).ok().filter(|&v| v < 1 << 31);
        let (kernel, stride, dilation) = (positive(kernel)?, positive(stride)?, positive(dilation)?);
        let (before, after) = (padding(before)?, padding(after)?);
        if extent >= 1 << 31 {
            return None;
        }
        let room = (extent + before + after).checked_sub((kernel - 1).checked_mul(dilation)? + 1)?;
        let out = if ceil {
            // The last window must begin in the operand or in the padding before it.
            (room.div_ceil(stride) + 1).min((extent + before).div_ceil(stride))
        } else {
            room / stride + 1
        };
        Some(Line { extent, kernel, stride, dilation, before, after, out })
    }

    /// Returns whether the dimension has one element, one window, and no padding.
    fn is_single(&self) -> bool {
        let Line { extent, kernel, before, after, out, .. } = *self;
        [extent, kernel, out] == [1; 3] && [before, after] == [0; 2]
    }

    /// Returns the range of windows whose element `k` is in the operand and not in the padding.
    pub(super) fn inside(&self, k: usize) -> (usize, usize) {
        let ahead = k * self.dilation;
        let first = self.before.saturating_sub(ahead).div_ceil(self.stride);
        // The last position in the operand is `extent - 1`.
        let end = match (self.extent + self.before).checked_sub(ahead + 1) {
            Some(last) => last / self.stride + 1,
            None => 0,
        };
        let end = end.min(self.out);
        (first.min(end), end)
    }

    /// Returns the position of element `k` of window `o`, or `None` if it is in the padding.
    pub(super) fn position(&self, k: usize, o: usize) -> Option<usize> {
        (o * self.stride + k * self.dilation).checked_sub(self.before).filter(|&p| p < self.extent)
    }
}

/// The windows over a plane. A one-dimensional operand is a plane of one row. A plane of one column is also stored as one row,
/// because its elements have the same order.
#[derive(Debug, Clone)]
pub(super) struct Plane {
    pub(super) rows: Line,
    pub(super) cols: Line,
    /// The spatial dimensions of the result.
    pub(super) out: SmallVec<[usize; 2]>,
}

impl Plane {
    /// Describes the windows over planes whose results have the extents `out`.
    pub(super) fn new(rows: Line, cols: Line, out: [usize; 2]) -> Plane {
        let (rows, cols) = if cols.is_single() { (Line::SINGLE, rows) } else { (rows, cols) };
        Plane { rows, cols, out: SmallVec::from_slice(&out) }
    }

    /// Resolves windows over `[n, c, w]` or `[n, c, h, w]`. Returns `None` for other shapes and for invalid arguments,
    /// which the operation's body handles.
    pub(super) fn of(shape: &[usize], kernel: &[i64], steps: [&[i64]; 3]) -> Option<Plane> {
        Plane::pooling(shape, kernel, steps, false)
    }

    /// Resolves windows as [`of`](Self::of) does. If `ceil`, the last window may end beyond the padding.
    pub(super) fn pooling(
        shape: &[usize],
        kernel: &[i64],
        [strides, pads, dilations]: [&[i64]; 3],
        ceil: bool,
    ) -> Option<Plane> {
        let mut steps = Step::of(kernel, strides, pads, dilations)?;
        match (shape, kernel) {
            (&[_, _, w], [_]) => {
                let cols = Line::new(w, steps.next()?, ceil)?;
                Some(Plane { rows: Line::SINGLE, cols, out: SmallVec::from_slice(&[cols.out]) })
            }
            (&[_, _, h, w], [_, _]) => Plane::next([h, w], &mut steps, ceil),
            _ => None,
        }
    }

    /// Resolves windows over `[n, c, d, h, w]` as [`of`](Self::of) does. Returns the windows along `d`, and the windows over
    /// planes.
    pub(super) fn of_layers(
        shape: &[usize],
        kernel: &[i64],
        [strides, pads, dilations]: [&[i64]; 3],
    ) -> Option<(Line, Plane)> {
        let (&[_, _, d, h, w], [_, _, _]) = (shape, kernel) else { return None };
        let mut steps = Step::of(kernel, strides, pads, dilations)?;
        let line = Line::new(d, steps.next()?, false)?;
        Some((line, Plane::next([h, w], &mut steps, false)?))
    }

    /// Resolves windows over planes with these extents.
    fn next([h, w]: [usize; 2], steps: &mut impl Iterator<Item = Step<i64>>, ceil: bool) -> Option<Plane> {
        let (rows, cols) = (Line::new(h, steps.next()?, ceil)?, Line::new(w, steps.next()?, ceil)?);
        Some(Plane::new(rows, cols, [rows.out, cols.out]))
    }

    /// Returns the number of elements of one plane of the operand, and of one plane of the result.
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.rows.extent * self.cols.extent, self.rows.out * self.cols.out)
    }

    /// Returns whether the number of elements of a result with `n * c` planes fits `usize`.
    pub(super) fn is_countable(&self, n: usize, c: usize) -> bool {
        [n, c].iter().chain(&self.out).try_fold(1usize, |all, &extent| all.checked_mul(extent)).is_some()
    }

    /// Returns the shape of a result with `n * c` planes.
    pub(super) fn shape(&self, n: usize, c: usize) -> Shape {
        [n, c].into_iter().chain(self.out.iter().copied()).collect()
    }
}

/// The number of elements below which a second thread costs more than it saves.
const GRAIN: usize = 1 << 16;

/// Multiplies each channel by a factor and adds a shift, in one pass.
pub(super) fn scaled(cpu: &Cpu, x: &Array, factor: &Array, shift: &Array) -> Result<Array> {
    let pool = cpu.pool();
    let dtype = x.dtype();
    let (Some(x), Some(factor), Some(shift)) =
        (single(pool, x)?, single(pool, factor)?, single(pool, shift)?)
    else {
        return Err(crate::ops::unsupported("batch_normalization", dtype));
    };
    let (n, c, size) = match x.shape() {
        [n, c, rest @ ..] => (*n, *c, rest.iter().product::<usize>()),
        _ => return Err(crate::ops::unsupported("batch_normalization", x.dtype())),
    };
    let out = made(pool, DataType::F32, Shape::from_slice(x.shape()), |out| {
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
                        element_loop::map(out, x, |v| v * factor + shift);
                    }
                }
            }
        });
    })?;
    rounded(pool, out, dtype)
}
