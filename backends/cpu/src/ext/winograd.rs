//! Convolutions with windows of 3 by 3 elements, with strides and dilations of 1. For a tile of 2 by 2 results, they compute 16
//! multiplications per channel instead of 36 (Winograd's minimal filtering).
//!
//! A tile depends on 4 by 4 elements. These elements and the filters are transformed to 16 points each. For each point, a matrix
//! product sums over the channels. The sums are transformed to results.
//!
//! Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015.

mod filters;
mod transforms;

pub(crate) use self::filters::{Filters, all_fit};

use self::transforms::{Inward, Outward};
use super::conv::{self, Plan, with_buffers};
use super::fused::Results;
use super::small_channels;
use super::window::Plane;
use crate::caches::second_level;
use crate::error::Result;
use crate::gemm::{self, Around, Dims, Strided};
use crate::kernels::{Shared, walk};
use crate::pool::Pool;
use crate::threads;
use bb::ext::ConvOptions;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// The number of points of a tile.
const POINTS: usize = 16;

/// The minimum number of tiles. With fewer, reading the transformed filters, which are 16/9 as large, costs more than it saves.
const TILES: usize = 36;

/// The number of elements of points and results that a thread computes in one block. They stay in its second-level cache.
const ROOM: usize = 1 << 18;

/// The number of elements of a block that threads compute together.
const SHARED: usize = 1 << 20;

/// The maximum number of elements that are read or written beyond the last tile.
const SLACK: usize = 64;

/// The number of copied elements below which a second thread costs more than it saves.
const GRAIN: usize = 1 << 16;

/// Returns whether an operand may be computed with Winograd points. `extents` are its known extents.
pub(crate) fn may_serve(extents: &[Option<usize>], w: &[usize], options: ConvOptions<'_>) -> bool {
    let Some(plan) = small_channels::sample(extents).and_then(|x| Plan::new(&x, w, None, options)) else {
        return true;
    };
    tiles(&plan.plane).is_some_and(|(_, count)| count >= TILES)
}

/// Returns the number of tiles in a column and in a row, and the total number.
fn tiles(Plane { rows, cols, .. }: &Plane) -> Option<([usize; 2], usize)> {
    let tiles = [rows.out.div_ceil(2), cols.out.div_ceil(2)];
    Some((tiles, tiles[0].checked_mul(tiles[1])?))
}

/// A run of tiles in one row: their number, the index of the first tile in its panel, and the position of that tile in the plane.
#[derive(Debug, Clone, Copy)]
struct Segment {
    n: usize,
    to: usize,
    row: usize,
    column: usize,
}

/// A convolution that is computed with Winograd points.
#[derive(Debug)]
pub(super) struct Winograd<'a> {
    plan: &'a Plan,
    filters: &'a Filters,
    /// The numbers of tiles in a column and in a row.
    tiles: [usize; 2],
    /// The number of elements of a row and of a plane, padded to whole tiles.
    row: usize,
    size: usize,
    /// The number of tiles in a block.
    block: usize,
    /// Whether all threads compute one block together. Otherwise, each thread computes its own blocks.
    together: bool,
}

/// Chooses the number of tiles in a block, and whether threads compute a block together.
///
/// Each block reads all filters. If the filters do not fit into the second-level cache, larger blocks read them less often, although
/// the points of a larger block do not fit into the cache either. Otherwise blocks can be small enough for all threads to have one.
/// If there are too few tiles for that, threads compute blocks together.
fn blocks(plan: &Plan, tiles: usize) -> (usize, bool) {
    let &Plan { groups, depth, filters, .. } = plan;
    let (of_tile, of_filters) = (POINTS * (depth + filters), POINTS * depth * filters);
    let width = gemm::panel_width::<f32>();
    let tiles_in = |room: usize| (room / of_tile / width * width).max(width).min(tiles);
    let cache = second_level() / size_of::<f32>();
    let filters_fit = of_filters <= cache / 2;
    let blocks_needed = match threads::count() {
        1 => 1,
        threads => 2 * threads,
    };
    let small = groups.saturating_mul(tiles).div_ceil(blocks_needed).next_multiple_of(width);
    let own = if filters_fit { tiles_in(ROOM).min(small) } else { tiles_in(ROOM) };
    let shared = tiles_in(SHARED);
    // The results may exceed any memory, and their allocation is checked only later, so use saturating arithmetic.
    let reads = |block: usize| if filters_fit { 0 } else { tiles.div_ceil(block).saturating_mul(of_filters) };
    // Elements that do not stay in the cache are written to memory and read again.
    let moved = 2 * (of_tile * shared).saturating_sub(cache / 2);
    let passes = tiles.div_ceil(shared).saturating_mul(moved);
    let too_few = groups.saturating_mul(tiles.div_ceil(own)) < blocks_needed;
    if too_few || reads(shared).saturating_add(passes) < reads(own) { (shared, true) } else { (own, false) }
}

impl<'a> Winograd<'a> {
    /// Lays out the tiles. Returns `None` for convolutions that other kernels compute.
    pub(super) fn new(plan: &'a Plan, filters: &'a Filters) -> Option<Winograd<'a>> {
        let Plane { rows, cols, .. } = &plan.plane;
        let alike =
            filters.groups == plan.groups && filters.filters == plan.filters && filters.depth == plan.depth;
        let suits =
            [rows, cols].iter().all(|line| line.kernel == 3 && line.stride == 1 && line.dilation == 1);
        if !alike || !suits || plan.n == 0 {
            return None;
        }
        let (tiles, count) = tiles(&plan.plane).filter(|&(_, count)| count >= TILES)?;
        let row = 2 * tiles[1] + 2;
        let size = (2 * tiles[0] + 2).checked_mul(row)?;
        (plan.groups * plan.depth).checked_mul(size)?;
        let (block, together) = blocks(plan, count);
        Some(Winograd { plan, filters, tiles, row, size, block, together })
    }

    /// Returns whether a row of tiles is too short to fill the widest vectors.
    #[cfg(target_arch = "x86_64")]
    fn is_narrow(&self) -> bool {
        self.tiles[1] <= 8
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
        plus: *const f32,
        out: &Results<'_>,
    ) -> Result<()> {
        let Plan { plane, n, groups, depth, filters } = self.plan;
        let (size, results) = plane.sizes();
        let planes = groups * depth;
        let room = pool.take((planes * self.size + SLACK) * size_of::<f32>())?;
        let padded = room.ptr().cast::<f32>();
        for sample in 0..*n {
            // SAFETY: the operands have these samples, and the room their padded planes.
            unsafe {
                self.pad(x.add(sample * planes * size), padded);
                padded.add(planes * self.size).write_bytes(0, SLACK);
                self.sample(pool, padded, plus, out.sums.add(sample * groups * filters * results))?;
                out.sample_done(sample);
            }
        }
        Ok(())
    }

    /// Copies the planes of a sample into zero-padded planes of whole tiles.
    ///
    /// # Safety
    ///
    /// `x` is a sample, and `to` has room for its padded planes.
    unsafe fn pad(&self, x: *const f32, to: *mut f32) {
        let Plan { plane: Plane { rows, cols, .. }, groups, depth, .. } = self.plan;
        let shared = Shared((x, to));
        walk::split(groups * depth, self.size, GRAIN, |from, end| {
            let (x, to) = shared.get();
            for i in from..end {
                // SAFETY: plane `i` is in the sample and has its room. A line and the padding before it are at most as long as
                // the tiles of its windows.
                unsafe {
                    let (x, to) = (x.add(i * rows.extent * cols.extent), to.add(i * self.size));
                    to.write_bytes(0, self.size);
                    for y in 0..rows.extent {
                        let line = to.add((y + rows.before) * self.row + cols.before);
                        line.copy_from_nonoverlapping(x.add(y * cols.extent), cols.extent);
                    }
                }
            }
        });
    }

    /// Computes the results of a sample whose planes are padded.
    ///
    /// # Safety
    ///
    /// As for [`convolve`](Self::convolve), with the planes of a sample.
    unsafe fn sample(&self, pool: &Arc<Pool>, x: *const f32, plus: *const f32, out: *mut f32) -> Result<()> {
        let Plan { plane, groups, depth, filters, .. } = self.plan;
        let (_, results) = plane.sizes();
        let count = self.tiles[0] * self.tiles[1];
        let blocks = count.div_ceil(self.block);
        let weight = POINTS * filters * depth * self.block;
        let shared = Shared((x, plus, out));
        let units = groups * blocks;
        let block = |i: usize, buffer: *mut f32| {
            let (x, plus, out) = shared.get();
            let (group, first) = (i / blocks, i % blocks * self.block);
            // SAFETY: the planes and filters of the group and these results are in the operands, and the buffer has room for a block.
            unsafe {
                TileBlock {
                    of: self,
                    group,
                    first,
                    n: self.block.min(count - first),
                    x: x.add(group * depth * self.size),
                    plus: if plus.is_null() { plus } else { plus.add(group * filters) },
                    out: out.add(group * filters * results),
                    points: buffer,
                    sums: buffer.add(POINTS * self.points()),
                }
            }
        };
        let length = POINTS * self.points() + POINTS * filters * self.block + SLACK;
        if self.together {
            let buffer = pool.take(length * size_of::<f32>())?;
            for i in 0..units {
                // SAFETY: no other call writes these results.
                unsafe { block(i, buffer.ptr().cast()).compute_together() };
            }
            return Ok(());
        }
        with_buffers(pool, length, units, weight, |buffer, from, to| {
            for i in from..to {
                // SAFETY: no other call writes these results.
                unsafe { block(i, buffer).compute() };
            }
        })
    }

    /// Returns the buffer length for one point of all tiles of a block, in elements.
    fn points(&self) -> usize {
        self.plan.depth * self.block.next_multiple_of(gemm::panel_width::<f32>()) + SLACK
    }

    /// Returns the runs of tile rows that are in a block or a panel.
    fn segments(&self, first: usize, n: usize) -> SmallVec<[Segment; 16]> {
        let mut segments = SmallVec::new();
        let mut to = 0;
        while to < n {
            let (row, column) = ((first + to) / self.tiles[1], (first + to) % self.tiles[1]);
            let count = (self.tiles[1] - column).min(n - to);
            segments.push(Segment { n: count, to, row, column });
            to += count;
        }
        segments
    }
}

/// A block of tiles of one group.
struct TileBlock<'a> {
    of: &'a Winograd<'a>,
    group: usize,
    first: usize,
    n: usize,
    /// The planes of the group, the biases that are added to its results (or null), and the results.
    x: *const f32,
    plus: *const f32,
    out: *mut f32,
    /// The buffers for the points, in panels, and for the sums.
    points: *mut f32,
    sums: *mut f32,
}

impl TileBlock<'_> {
    /// Computes the results of the tiles.
    ///
    /// # Safety
    ///
    /// The operands have the group's extents, and nothing else uses the buffers and the results.
    unsafe fn compute(&self) {
        let Plan { depth, filters, .. } = *self.of.plan;
        // SAFETY: this function has the same contract.
        unsafe {
            self.inward(0..depth);
            for point in 0..POINTS {
                self.product(point, 0..filters);
            }
            self.end_sums();
            self.outward(0..filters);
        }
    }

    /// Computes the results as [`compute`](Self::compute) does, on all threads.
    ///
    /// # Safety
    ///
    /// Same as for [`compute`](Self::compute).
    unsafe fn compute_together(&self) {
        let Plan { depth, filters, .. } = *self.of.plan;
        let shared = Shared(self);
        walk::split(depth, POINTS * self.n, GRAIN, |from, end| {
            // SAFETY: this function's contract; the points of other channels are elsewhere.
            unsafe { shared.get().inward(from..end) };
        });
        // Each thread computes different points. Only if there are more threads than points are the filters of a point divided.
        let parts = (2 * threads::count()).div_ceil(POINTS).min(filters);
        let weight = filters * depth * self.n / parts;
        walk::split(POINTS * parts, weight, conv::GRAIN, |from, end| {
            for unit in from..end {
                let (point, part) = (unit / parts, unit % parts);
                let filters = filters * part / parts..filters * (part + 1) / parts;
                // SAFETY: this function's contract; the points were written above, and other sums are elsewhere.
                unsafe { shared.get().product(point, filters) };
            }
        });
        // SAFETY: this function's contract.
        unsafe { self.end_sums() };
        walk::split(filters, POINTS * self.n, GRAIN, |from, end| {
            // SAFETY: this function's contract; the sums were written above, and the results of other filters are elsewhere.
            unsafe { shared.get().outward(from..end) };
        });
    }

    /// Computes the points of some channels.
    ///
    /// # Safety
    ///
    /// Same as for [`compute`](Self::compute), for these channels.
    unsafe fn inward(&self, channels: Range<usize>) {
        let &TileBlock { of, first, n, x, points, .. } = self;
        let width = gemm::panel_width::<f32>();
        for left in (0..n).step_by(width) {
            let segments = of.segments(first + left, width.min(n - left));
            // SAFETY: this function's contract; each panel has its own room.
            unsafe {
                let to = points.add(left * of.plan.depth);
                let channels = channels.clone();
                Inward { of, segments: &segments, channels, x, to, points: of.points(), width }.run();
            }
        }
    }

    /// Computes the sums of some filters at a point.
    ///
    /// # Safety
    ///
    /// Same as for [`compute`](Self::compute), for these sums; the points are already computed.
    unsafe fn product(&self, point: usize, range: Range<usize>) {
        let &TileBlock { of, group, n, points, sums, .. } = self;
        let Plan { depth, filters, .. } = *of.plan;
        // SAFETY: this function's contract; all points of the group's filters are there.
        unsafe {
            let at = ((group * POINTS + point) * filters + range.start) * depth;
            let a = Strided::dense(of.filters.points.as_ptr().add(at), depth);
            let (panels, to) =
                (points.add(point * of.points()), sums.add((point * filters + range.start) * n));
            gemm::packed(Dims { m: range.len(), k: depth, n }, to, n, a, panels, Around::NONE, false);
        }
    }

    /// Writes zeros behind the last sum, because vectors read beyond it.
    ///
    /// # Safety
    ///
    /// The buffer of the sums has room for them.
    unsafe fn end_sums(&self) {
        // SAFETY: this function's contract.
        unsafe { self.sums.add(POINTS * self.of.plan.filters * self.n).write_bytes(0, SLACK) };
    }

    /// Computes the results of some filters.
    ///
    /// # Safety
    ///
    /// Same as for [`compute`](Self::compute), for these results; the sums are already computed.
    unsafe fn outward(&self, filters: Range<usize>) {
        let &TileBlock { of, first, n, plus, out, sums, .. } = self;
        let segments = of.segments(first, n);
        // SAFETY: this function has the same contract.
        unsafe { Outward { of, segments: &segments, filters, sums, n, plus, out }.run() };
    }
}
