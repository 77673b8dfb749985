//! Convolutions of few channels, depthwise ones among them, window by window.
//!
//! Some rows of the planes of a group are copied to a buffer that stays in the first-level cache. There they are padded, and
//! if windows are more than a column apart, columns of the same remainder follow each other. So results that follow each
//! other have contiguous elements for each weight, and the inner kernel needs neither conditions nor partial loads.

mod tile;

use super::conv::Plan;
use super::window::{Line, Plane};
use crate::error::Result;
use crate::kernels::Shared;
use crate::pace::Pace;
use crate::pool::Pool;
use smallvec::SmallVec;
use std::sync::Arc;
pub(super) use tile::Fill;
use tile::{Args, ROWS, RUN, Run, WIDE};

/// The greatest number of products that are added one after another.
const SEQUENTIAL: usize = 512;

/// The number of elements of padded rows that are computed at once. They stay in the first-level cache.
const BUFFER: usize = 4096;

/// The greatest number of elements of a buffer, for windows that have many rows or much padding.
const LARGEST: usize = 1 << 18;

/// How planes are laid out in the buffer.
#[derive(Debug)]
pub(super) struct Sliding<'a> {
    plan: &'a Plan,
    /// The elements of the columns of one remainder, and those of a row.
    pitch: usize,
    row: usize,
    /// The rows of a plane in the buffer, and the rows of results of which these are the windows.
    rows: usize,
    band: usize,
    runs: SmallVec<[Run; 8]>,
    cols: SmallVec<[usize; 16]>,
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Returns the number of columns that vectors cover.
fn covered(columns: usize) -> usize {
    // Up to 8 columns that remain are computed with short vectors.
    if (1..=8).contains(&(columns % 16)) { columns.next_multiple_of(8) } else { columns.next_multiple_of(16) }
}

impl<'a> Sliding<'a> {
    /// Lays planes out; returns `None` for convolutions that matrix products compute.
    pub(super) fn new(plan: &'a Plan) -> Option<Sliding<'a>> {
        let Plan { plane: Plane { rows, cols, .. }, depth, .. } = plan;
        let terms = depth.checked_mul(rows.kernel.checked_mul(cols.kernel)?)?;
        if *depth != 1 || terms > SEQUENTIAL {
            return None;
        }
        let pitch = covered(cols.out) + (cols.kernel - 1) * cols.dilation / cols.stride;
        let row = pitch.checked_mul(cols.stride)?;
        let window = (rows.kernel - 1) * rows.dilation + 1;
        let most = (BUFFER / depth.checked_mul(row)?).saturating_sub(window) / rows.stride + 1;
        // Bands have nearly equal heights, and whole tiles if they can.
        let bands = rows.out.div_ceil(most.max(ROWS.min(rows.out)).max(1));
        let band = rows.out.div_ceil(bands.max(1)).next_multiple_of(if bands > 1 { ROWS } else { 1 });
        let height = band.saturating_sub(1).checked_mul(rows.stride)? + window;
        let fits = height.checked_mul(row)?.checked_mul(*depth)? <= LARGEST;
        fits.then(|| Sliding {
            plan,
            pitch,
            row,
            rows: height,
            band,
            runs: runs(rows, cols.kernel, row),
            cols: (0..cols.kernel)
                .map(|kx| kx * cols.dilation)
                .map(|at| at % cols.stride * pitch + at / cols.stride)
                .collect(),
        })
    }

    /// Writes all results.
    ///
    /// # Safety
    ///
    /// The operands are contiguous and have the plan's extents (`plus` may be null); `out` has room for the results.
    pub(super) unsafe fn convolve(
        &self,
        pool: &Arc<Pool>,
        x: *const f32,
        w: *const f32,
        plus: *const f32,
        out: *mut f32,
    ) -> Result<()> {
        let Plan { plane, n, groups, depth, filters } = self.plan;
        let (size, results) = plane.sizes();
        let taps = plane.rows.kernel * plane.cols.kernel;
        let bands = plane.rows.out.div_ceil(self.band.max(1));
        let length = depth * self.rows * self.row;
        let weight = filters * depth * taps * self.band * plane.cols.out;
        let shared = Shared((x, w, plus, out));
        super::conv::with_buffers(pool, length, n * groups * bands, weight, |buffer, from, to| {
            let (x, w, plus, out) = shared.get();
            // SAFETY: the buffer has this length.
            unsafe { buffer.write_bytes(0, length) };
            let mut pace = Pace::new();
            for i in from..to {
                let (pair, band) = (i / bands, i % bands);
                let (group, top) = (pair % groups, band * self.band);
                let height = self.band.min(plane.rows.out - top);
                // SAFETY: the planes, filters and results of this sample and group are in the operands, and no other call
                // writes these rows.
                unsafe {
                    self.pad(x.add(pair * depth * size), buffer, top, height);
                    for f in 0..*filters {
                        pace.step(depth * taps * height * plane.cols.out);
                        let filter = group * filters + f;
                        let start = if plus.is_null() { std::ptr::from_ref(&0.0) } else { plus.add(filter) };
                        let w = w.add(filter * depth * taps);
                        let to = out.add((pair * filters + f) * results + top * plane.cols.out);
                        self.band(buffer, w, start, to, height);
                    }
                }
            }
        })
    }

    /// Copies the rows that are in the windows of `height` rows of results, from row `top` on, to the buffer. Columns of
    /// padding are not written.
    ///
    /// # Safety
    ///
    /// `x` has the planes of a group, and `to` is a zeroed buffer, perhaps with rows of other planes.
    unsafe fn pad(&self, x: *const f32, to: *mut f32, top: usize, height: usize) {
        let Plane { rows, cols, .. } = &self.plan.plane;
        let used = ((height - 1) * rows.stride + (rows.kernel - 1) * rows.dilation + 1).min(self.rows);
        // The rows of the buffer that have rows of the operand.
        let above = top * rows.stride;
        let first = rows.before.saturating_sub(above).min(used);
        let end = (rows.extent + rows.before).saturating_sub(above).clamp(first, used);
        for c in 0..self.plan.depth {
            // SAFETY: the plane has its rows in the buffer.
            let to = unsafe { to.add(c * self.rows * self.row) };
            if self.band < rows.out {
                // Other rows of the planes were here.
                for padding in [0..first, end..used] {
                    // SAFETY: these rows are in the buffer.
                    unsafe { to.add(padding.start * self.row).write_bytes(0, padding.len() * self.row) };
                }
            }
            for (to, column, n) in phases(cols, self.pitch).filter(|_| first < end).map(|(at, column, n)| {
                // SAFETY: the row is in the buffer.
                (unsafe { to.add(first * self.row + at) }, column, n)
            }) {
                let at = (c * rows.extent + first + above - rows.before) * cols.extent + column;
                // SAFETY: the rows are in the buffer, and their columns from `column` on are in the operand.
                unsafe {
                    let from = x.add(at);
                    let rows = end - first;
                    Fill { to, to_row: self.row, from, from_row: cols.extent, rows, step: cols.stride, n }.run();
                }
            }
        }
    }

    /// Computes `height` rows of results of one filter.
    ///
    /// # Safety
    ///
    /// The buffer has the rows of these results, `w` the weights of the filter, and `out` room for the rows.
    unsafe fn band(&self, x: *const f32, w: *const f32, start: *const f32, out: *mut f32, height: usize) {
        let Plan { plane: Plane { rows, cols, .. }, depth, .. } = self.plan;
        let [whole, tail] = tile::tiles();
        let mut args = Args {
            x,
            x_row: rows.stride * self.row,
            depth: *depth,
            x_plane: self.rows * self.row,
            runs: &self.runs,
            cols: &self.cols,
            w,
            w_plane: rows.kernel * cols.kernel,
            start,
            out,
            out_row: cols.out,
            last: 0,
        };
        // The tiles have nearly equal heights, so that each is high enough to hide the latency of its sums.
        let blocks = height.div_ceil(ROWS);
        for block in 0..blocks {
            let (top, end) = (height * block / blocks, height * (block + 1) / blocks);
            let mut left = 0;
            while left < cols.out {
                let remaining = cols.out - left;
                let tiles = if remaining <= tail.lanes { tail } else { whole };
                let many = remaining >= WIDE * tiles.lanes && end - top <= tiles.wide.len();
                let (list, vectors) =
                    if many { (&tiles.wide[..], WIDE) } else { (&tiles.narrow[..], 1) };
                let width = (vectors * tiles.lanes).min(remaining);
                args.last = width - (vectors - 1) * tiles.lanes;
                if let Some(tile) = list.get(end - top - 1) {
                    // SAFETY: the rows and columns are in `out`, and their windows in the buffer, whose rows cover whole
                    // vectors.
                    unsafe {
                        args.x = x.add(top * args.x_row + left);
                        args.out = out.add(top * cols.out + left);
                        tile(&args);
                    }
                }
                left += width;
            }
        }
    }
}

/// Returns, for the columns of each remainder: the position of the first one in a row of a buffer with `pitch` columns of
/// each, which column it is, and their number.
pub(super) fn phases(cols: &Line, pitch: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    let &Line { extent, stride, before, .. } = cols;
    (0..stride).filter_map(move |remainder| {
        let first = before.saturating_sub(remainder).div_ceil(stride);
        let end = (extent + before).saturating_sub(remainder).div_ceil(stride).min(pitch);
        let n = end.checked_sub(first).filter(|&n| n > 0)?;
        Some((remainder * pitch + first, first * stride + remainder - before, n))
    })
}

/// Lists the rows of weights. Those whose rows of the operand are as far apart as the rows of two results are listed as one.
fn runs(rows: &Line, width: usize, row: usize) -> SmallVec<[Run; 8]> {
    let shared = gcd(rows.stride, rows.dilation);
    let step = if rows.dilation == shared { rows.stride / shared } else { rows.kernel };
    let mut runs = SmallVec::new();
    for first in 0..step.min(rows.kernel) {
        let count = (rows.kernel - first).div_ceil(step);
        let parts = count.div_ceil(RUN);
        for part in 0..parts {
            let (from, end) = (count * part / parts, count * (part + 1) / parts);
            let ky = first + from * step;
            let x = ky * rows.dilation * row;
            runs.push(Run { count: end - from, x, w: ky * width, w_step: step * width });
        }
    }
    runs
}
