//! Pooling: maxima and means of windows.
//!
//! Each row of results is reduced twice. The rows of its windows become one row, with padding at its ends; then the columns of
//! each window are reduced. If windows are more than a column apart, columns of the same remainder are moved together in
//! between, so that both reductions read contiguous elements.

mod row;

use super::sliding::Fill;
use super::window::{Line, Plane};
use super::{floats, rounded, single};
use crate::array::Array;
use crate::backend::Cpu;
use crate::error::Result;
use crate::kernels::Shared;
use crate::ops::{made, unsupported};
use crate::pace::Pace;
use bb::{DataType, Tensor};
use row::{Args, Reduction};

/// The greatest number of elements along a dimension of a window. More are reduced by the bodies, in an order that keeps long
/// sums exact.
const LONGEST: usize = 512;

/// The greatest number of elements of a row with its padding.
const WIDEST: usize = 1 << 24;

/// What windows are reduced to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pooling {
    /// The greatest element.
    Greatest,
    /// The mean.
    Mean {
        /// Whether the padding counts, as zeros.
        padding: bool,
    },
}

impl Pooling {
    /// Returns how windows are reduced, and what padding is.
    fn reduction(self) -> (Reduction, f32) {
        match self {
            Pooling::Greatest => (Reduction::Greatest, f32::NEG_INFINITY),
            Pooling::Mean { .. } => (Reduction::Sum, 0.0),
        }
    }

    /// Returns the number of elements of window `o` that count.
    fn count(self, line: &Line, o: usize) -> usize {
        let padded = line.before + line.extent + line.after;
        let counts = |k: usize| match self {
            Pooling::Mean { padding: true } => o * line.stride + k * line.dilation < padded,
            _ => line.position(k, o).is_some(),
        };
        (0..line.kernel).filter(|&k| counts(k)).count()
    }
}

/// The extents of the buffer of a row, and where windows have their elements in it.
struct Layout {
    /// The columns of one remainder.
    pitch: usize,
    cols: Vec<usize>,
    /// The number of elements of each window of a row that count.
    counts: Vec<usize>,
}

impl Layout {
    fn new(cols: &Line, pooling: Pooling) -> Layout {
        let reach = cols.before + cols.extent.max((cols.kernel - 1) * cols.dilation + 1);
        let pitch = reach.div_ceil(cols.stride).max(cols.out) + (cols.kernel - 1) * cols.dilation / cols.stride;
        Layout {
            pitch,
            cols: (0..cols.kernel)
                .map(|k| k * cols.dilation)
                .map(|at| at % cols.stride * pitch + at / cols.stride)
                .collect(),
            counts: (0..cols.out).map(|o| pooling.count(cols, o)).collect(),
        }
    }
}

/// Tells whether the kernels pool these windows.
pub(super) fn serves(Plane { rows, cols, .. }: &Plane) -> bool {
    let widest = cols.before.max(cols.extent).max(cols.out.saturating_mul(cols.stride)).max(cols.dilation);
    rows.kernel <= LONGEST && cols.kernel <= LONGEST && widest.saturating_mul(cols.stride) <= WIDEST
}

/// Reduces each window.
pub(super) fn pool(cpu: &Cpu, plane: &Plane, x: &Array, pooling: Pooling) -> Result<Array> {
    let pool = cpu.pool();
    let (Some(from), &[n, c, ..]) = (single(pool, x)?, x.shape()) else {
        return Err(unsupported("pooling", x.dtype()));
    };
    let Plane { rows, cols, .. } = plane;
    let (size, results) = plane.sizes();
    let layout = Layout::new(cols, pooling);
    let length = layout.pitch * cols.stride + cols.extent + cols.out;
    let work = results * (rows.kernel + cols.kernel);
    let mut done = Ok(());
    let out = made(pool, DataType::F32, plane.shape(n, c), |out| {
        let shared = Shared((floats(&from), out.cast::<f32>()));
        done = super::conv::with_buffers(pool, length, n * c, work, |buffer, start, end| {
            let (x, out) = shared.get();
            let (_, padding) = pooling.reduction();
            // SAFETY: the buffer has this length.
            unsafe { (0..layout.pitch * cols.stride).for_each(|i| buffer.add(i).write(padding)) };
            let mut planes = Pooled { plane, layout: &layout, pooling, buffer, places: Vec::new() };
            let mut pace = Pace::new();
            for i in start..end {
                pace.step(work);
                // SAFETY: plane `i` is in the operand, and `out` has room for its results.
                unsafe { planes.run(x.add(i * size), out.add(i * results)) };
            }
        });
    })?;
    done?;
    rounded(pool, out, x.dtype())
}

/// Planes that are reduced one after another, with a buffer for a row.
struct Pooled<'a> {
    plane: &'a Plane,
    layout: &'a Layout,
    pooling: Pooling,
    /// A padded row, then the row as it is, then what results are divided by.
    buffer: *mut f32,
    places: Vec<usize>,
}

impl Pooled<'_> {
    /// # Safety
    ///
    /// `x` is a plane, `out` has room for its results, and the padded row consists of padding.
    unsafe fn run(&mut self, x: *const f32, out: *mut f32) {
        let Plane { rows, cols, .. } = self.plane;
        let (reduction, padding) = self.pooling.reduction();
        let step = cols.stride;
        // SAFETY: the buffer has these parts.
        let (apart, by) = unsafe {
            let apart = self.buffer.add(self.layout.pitch * step);
            (apart, apart.add(cols.extent))
        };
        let mut counted = usize::MAX;
        for oy in 0..rows.out {
            let ys = (0..rows.kernel).filter_map(|k| rows.position(k, oy));
            self.places.clear();
            self.places.extend(ys.map(|y| y * cols.extent));
            // SAFETY: the rows are in the plane, their columns have room in the buffer, and the results in `out`.
            unsafe {
                let row = if step == 1 { self.buffer.add(cols.before) } else { apart };
                if self.places.is_empty() {
                    (0..cols.extent).for_each(|i| row.add(i).write(padding));
                } else {
                    let by = std::ptr::null();
                    Args { reduction, x, from: &self.places, out: row, n: cols.extent, by }.run();
                }
                if step > 1 {
                    self.apart(apart);
                }
                let by = match self.pooling {
                    Pooling::Greatest => std::ptr::null(),
                    Pooling::Mean { .. } => {
                        let count = self.pooling.count(rows, oy);
                        if count != counted {
                            let counts = self.layout.counts.iter().enumerate();
                            counts.for_each(|(i, &n)| by.add(i).write((n * count) as f32));
                            counted = count;
                        }
                        by.cast_const()
                    }
                };
                let out = out.add(oy * cols.out);
                Args { reduction, x: self.buffer, from: &self.layout.cols, out, n: cols.out, by }.run();
            }
        }
    }

    /// Moves columns of the same remainder together.
    ///
    /// # Safety
    ///
    /// `row` has the columns of a row.
    unsafe fn apart(&self, row: *const f32) {
        let cols = &self.plane.cols;
        for (at, from, n) in super::sliding::phases(cols, self.layout.pitch) {
            // SAFETY: the buffer has room for the columns of each remainder.
            unsafe {
                let (to, from) = (self.buffer.add(at), row.add(from));
                Fill { to, to_row: 0, from, from_row: 0, rows: 1, step: cols.stride, n }.run();
            }
        }
    }
}
