//! Direct convolutions of few channels, including depthwise convolutions, computed window by window.
//!
//! Some rows of the planes of a group are copied to a buffer that stays in the first-level cache. The copy is padded. If the
//! stride is more than one column, columns with the same remainder by the stride are moved together. So consecutive results
//! read contiguous elements for each weight, and the inner kernel needs neither conditions nor partial loads.

mod pad;
mod tile;

use super::conv::Plan;
use super::fused::Results;
use super::window::{Line, Plane};
use crate::error::Result;
use crate::kernels::Shared;
use crate::pace::Pace;
use crate::pool::Pool;
pub(super) use pad::{Padded, phases};
use smallvec::SmallVec;
use std::sync::Arc;
use tile::{Args, ROWS, RUN, Run, WIDE};

/// The maximum number of products that are added sequentially.
const SEQUENTIAL: usize = 512;

/// The number of elements of padded rows in one pass. They stay in the first-level cache.
const BUFFER: usize = 4096;

/// The minimum number of elements that are reported as done together, if planes are small.
const TOGETHER: usize = 2048;

/// The maximum number of elements of a buffer, for windows with many rows or much padding.
const LARGEST: usize = 1 << 18;

/// The layout of a direct convolution.
#[derive(Debug)]
pub(super) struct Sliding<'a> {
    plan: &'a Plan,
    padded: Padded<'a>,
    /// The number of result rows whose windows are in the buffer.
    band: usize,
    runs: SmallVec<[Run; 8]>,
    cols: SmallVec<[usize; 16]>,
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Returns the number of columns that vectors cover.
fn covered(columns: usize) -> usize {
    // Up to 8 remaining columns are computed with a vector of half the length.
    if (1..=8).contains(&(columns % 16)) { columns.next_multiple_of(8) } else { columns.next_multiple_of(16) }
}

impl<'a> Sliding<'a> {
    /// Lays planes out. Returns `None` for convolutions that are computed as matrix products.
    pub(super) fn new(plan: &'a Plan) -> Option<Sliding<'a>> {
        let Plan { plane, depth, filters, .. } = plan;
        let Plane { rows, cols, .. } = plane;
        let terms = depth.checked_mul(rows.kernel.checked_mul(cols.kernel)?)?;
        // Rows that several windows share are loaded once for several results. If there are none, matrix products are faster
        // for many filters.
        let most = if *depth <= 4 && rows.stride == 1 && rows.out > 1 { 32 } else { 8 };
        let deep = *depth > 1 || rows.out == 1;
        if !(1..=SEQUENTIAL).contains(&terms) || deep && *filters > most {
            return None;
        }
        let window = (rows.kernel - 1) * rows.dilation + 1;
        let line = Padded::new(plane, *depth, 1, covered(cols.out))?.row;
        let most = (BUFFER / depth.checked_mul(line)?).saturating_sub(window) / rows.stride + 1;
        // Divide the rows into bands of nearly equal height, in whole tiles if possible.
        let bands = rows.out.div_ceil(most.max(ROWS.min(rows.out)).max(1));
        let band = rows.out.div_ceil(bands.max(1)).next_multiple_of(if bands > 1 { ROWS } else { 1 });
        let padded = Padded::new(plane, *depth, band, covered(cols.out))?;
        let fits = padded.len()? <= LARGEST;
        let (runs, cols) = (runs(rows, cols.kernel, padded.row), padded.columns());
        fits.then_some(Sliding { plan, padded, band, runs, cols })
    }

    /// Computes all results and writes them to `out`.
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
        out: &Results<'_>,
    ) -> Result<()> {
        let Plan { plane, n, groups, depth, filters } = self.plan;
        let (size, results) = plane.sizes();
        let taps = plane.rows.kernel * plane.cols.kernel;
        let bands = plane.rows.out.div_ceil(self.band.max(1));
        let length = depth * self.padded.rows * self.padded.row;
        let weight = filters * depth * taps * self.band * plane.cols.out;
        let shared = Shared((x, w, plus));
        super::conv::with_buffers(pool, length, n * groups * bands, weight, |buffer, from, to| {
            let (x, w, plus) = shared.get();
            // SAFETY: the buffer has this length.
            unsafe { buffer.write_bytes(0, length) };
            let mut pace = Pace::new();
            // The number of groups that are computed but not reported as done.
            let mut undone = 0;
            for i in from..to {
                // Avoid divisions where possible, because they take as long as small planes.
                let (pair, band) = if bands == 1 { (i, 0) } else { (i / bands, i % bands) };
                let (sample, group) = if *n == 1 { (0, pair) } else { (pair / groups, pair % groups) };
                let top = band * self.band;
                let height = self.band.min(plane.rows.out - top);
                // SAFETY: the planes, filters and results of this sample and group are in the operands, and no other call
                // writes these rows.
                unsafe {
                    self.padded.pad(x.add(pair * depth * size), buffer, top, height);
                    for f in 0..*filters {
                        pace.step(depth * taps * height * plane.cols.out);
                        let filter = group * filters + f;
                        let start = if plus.is_null() { std::ptr::from_ref(&0.0) } else { plus.add(filter) };
                        let w = w.add(filter * depth * taps);
                        let places = top * plane.cols.out..(top + height) * plane.cols.out;
                        let to = out.sums.add((pair * filters + f) * results + places.start);
                        self.band(buffer, w, start, to, height);
                        if bands > 1 {
                            out.done(sample, filter..filter + 1, places);
                        }
                    }
                    if bands == 1 {
                        undone += 1;
                        if undone * filters * results >= TOGETHER || i + 1 == to || group + 1 == *groups {
                            out.done(
                                sample,
                                (group + 1 - undone) * filters..(group + 1) * filters,
                                0..results,
                            );
                            undone = 0;
                        }
                    }
                }
            }
        })
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
            x_row: rows.stride * self.padded.row,
            depth: *depth,
            x_plane: self.padded.rows * self.padded.row,
            runs: &self.runs,
            cols: &self.cols,
            w,
            w_plane: rows.kernel * cols.kernel,
            start,
            out,
            out_row: cols.out,
            last: 0,
        };
        // Give the tiles nearly equal heights, so that each is high enough to hide the latency of its sums.
        let blocks = height.div_ceil(ROWS);
        for block in 0..blocks {
            // Avoid divisions where possible, because they take as long as small tiles.
            let (top, end) = match blocks {
                1 => (0, height),
                _ => (height * block / blocks, height * (block + 1) / blocks),
            };
            let mut left = 0;
            while left < cols.out {
                let remaining = cols.out - left;
                let tiles = if remaining <= tail.lanes { tail } else { whole };
                let many = remaining >= WIDE * tiles.lanes && end - top <= tiles.wide.len();
                let (list, width) = if many {
                    (&tiles.wide[..], WIDE * tiles.lanes)
                } else {
                    (&tiles.narrow[..], tiles.lanes.min(remaining))
                };
                args.last = width.min(tiles.lanes);
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

/// Groups the rows of weights into runs. Rows of weights form a run if the operand rows that they read are as far apart as the
/// windows of two adjacent result rows.
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
