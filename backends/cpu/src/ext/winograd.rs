//! Convolutions with windows of 3 by 3 elements that are next to each other. For a tile of 2 by 2 results, they multiply 16
//! numbers of each channel instead of 36 (Winograd's minimal filtering).
//!
//! A tile depends on 4 by 4 elements. Both these and the filters are transformed to 16 points; the products of the points are
//! summed over the channels, point by point as matrix products, and the sums are transformed to results.
//!
//! Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015.

use super::conv::{Plan, with_buffers};
use super::few;
use super::fused::Results;
use super::window::Plane;
use crate::error::Result;
use crate::gemm::{self, Around, Dims, Strided};
use crate::kernels::dispatch::{VectorLoop, dispatch};
use crate::kernels::lanes::{Baseline, Lanes};
use crate::kernels::{Shared, walk};
#[cfg(target_arch = "x86_64")]
use crate::level::Level;
use crate::level::level;
use crate::pool::Pool;
use bb::ext::ConvOptions;
use bb::ir::memory;
use smallvec::SmallVec;
use std::sync::Arc;

/// The number of points of a tile.
const POINTS: usize = 16;

/// The least number of channels and of filters of a group. Of fewer, the transforms cost more than is saved.
const CHANNELS: usize = 16;

/// The least number of tiles. Few tiles do not pay for reading filters that are 16/9 as large.
const TILES: usize = 36;

/// The number of elements of the points of tiles and results that are computed at once. They stay in the second-level cache.
const ROOM: usize = 1 << 18;

/// What is read or written beyond the last tile, at most.
const SLACK: usize = 64;

/// The number of elements that are copied for the cost of a multiplication of a vector.
const GRAIN: usize = 1 << 16;

/// The points of filters, `[groups, points, filters, depth]`.
#[derive(Debug)]
pub(crate) struct Filters {
    points: Vec<f32>,
    groups: usize,
    filters: usize,
    depth: usize,
}

impl Filters {
    /// Tells whether filters of this shape in this number of groups are computed by points.
    pub(crate) fn suit(shape: &[usize], groups: usize) -> bool {
        let &[m, depth, 3, 3] = shape else { return false };
        groups > 0 && m.is_multiple_of(groups) && m / groups >= CHANNELS && depth >= CHANNELS
    }

    /// Transforms filters `[m, depth, 3, 3]`; `None` if [they do not suit](Self::suit), or have too great numbers.
    ///
    /// # Errors
    ///
    /// [`bb::ir::Error::Memory`].
    pub(crate) fn new(
        w: &[f32],
        shape: &[usize],
        groups: usize,
    ) -> std::result::Result<Option<Filters>, bb::ir::Error> {
        let &[m, depth, ..] = shape else { return Ok(None) };
        if !Filters::suit(shape, groups) || w.len() != m * depth * 9 || !all_fit(w) {
            return Ok(None);
        }
        let filters = m / groups;
        let mut points = memory::filled("conv", 0f32, POINTS * m * depth)?;
        for (at, window) in w.chunks_exact(9).enumerate() {
            let (filter, channel) = (at / depth, at % depth);
            let (group, filter) = (filter / filters, filter % filters);
            for (point, value) in transformed(window).into_iter().enumerate() {
                let place = ((group * POINTS + point) * filters + filter) * depth + channel;
                if let Some(slot) = points.get_mut(place) {
                    *slot = value as f32;
                }
            }
        }
        Ok(Some(Filters { points, groups, filters, depth }))
    }

    /// Writes the filters, `[m, depth, 3, 3]`, of which the points were made. The corners of a window are the same; its other
    /// weights differ by the rounding of points, which is at most 2^-22 of the window's greatest weight. What is computed by
    /// points has that error too.
    pub(crate) fn restore(&self, w: &mut [f32]) {
        let &Filters { ref points, filters, depth, .. } = self;
        for (at, window) in w.chunks_exact_mut(9).enumerate() {
            let (filter, channel) = (at / depth, at % depth);
            let (group, filter) = (filter / filters, filter % filters);
            let place = |point| ((group * POINTS + point) * filters + filter) * depth + channel;
            let points = std::array::from_fn(|point| points.get(place(point)).copied().unwrap_or_default());
            window.copy_from_slice(&restored(points));
        }
    }

    /// Returns the size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.points.len() * size_of::<f32>()
    }
}

/// The greatest number that is transformed. The difference of greater ones might overflow, and an infinity would make NaN of
/// results whose windows do not have it.
const GREATEST: f32 = 1e30;

/// Tells whether all numbers may be transformed.
pub(super) fn all_fit(x: &[f32]) -> bool {
    dispatch(Fit(x))
}

struct Fit<'a>(&'a [f32]);

impl VectorLoop for Fit<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> bool {
        // NaN is not less than anything.
        self.0.iter().fold(true, |all, x| all & (x.abs() < GREATEST))
    }
}

/// Transforms a window of weights to points, rounded once.
fn transformed(window: &[f32]) -> [f64; POINTS] {
    let line = |[a, b, c]: [f64; 3]| [a, (a + b + c) / 2.0, (a - b + c) / 2.0, c];
    let weight = |at: usize| window.get(at).copied().map_or(0.0, f64::from);
    let rows: [[f64; 4]; 3] = std::array::from_fn(|y| line(std::array::from_fn(|x| weight(3 * y + x))));
    let [first, second, third] = rows;
    let mut points = [0.0; POINTS];
    for (x, ((a, b), c)) in first.into_iter().zip(second).zip(third).enumerate() {
        for (y, value) in line([a, b, c]).into_iter().enumerate() {
            if let Some(slot) = points.get_mut(4 * y + x) {
                *slot = value;
            }
        }
    }
    points
}

/// Returns the window of weights that has these points. The outer points of a line are its outer weights, and the difference of
/// the others is the one between.
fn restored(points: [f32; POINTS]) -> [f32; 9] {
    let line = |[a, b, c, d]: [f64; 4]| [a, b - c, d];
    let point = |at: usize| points.get(at).copied().map_or(0.0, f64::from);
    let columns: [[f64; 3]; 4] = std::array::from_fn(|x| line(std::array::from_fn(|y| point(4 * y + x))));
    let [first, second, third, fourth] = columns;
    let mut window = [0.0; 9];
    for (y, (((a, b), c), d)) in first.into_iter().zip(second).zip(third).zip(fourth).enumerate() {
        for (x, value) in line([a, b, c, d]).into_iter().enumerate() {
            if let Some(slot) = window.get_mut(3 * y + x) {
                *slot = value as f32;
            }
        }
    }
    window
}

/// Tells whether points may serve an operand, of whose extents these are known.
pub(crate) fn may_serve(extents: &[Option<usize>], w: &[usize], options: ConvOptions<'_>) -> bool {
    let Some(plan) = few::sample(extents).and_then(|x| Plan::new(&x, w, None, options)) else { return true };
    tiles(&plan.plane).is_some_and(|(_, count)| count >= TILES)
}

/// Returns the numbers of tiles in a column and in a row, and of all of them.
fn tiles(Plane { rows, cols, .. }: &Plane) -> Option<([usize; 2], usize)> {
    let tiles = [rows.out.div_ceil(2), cols.out.div_ceil(2)];
    Some((tiles, tiles[0].checked_mul(tiles[1])?))
}

/// Tiles of a row: their number, the place of the first among those of a panel, and where it begins in the plane.
#[derive(Debug, Clone, Copy)]
struct Segment {
    n: usize,
    to: usize,
    row: usize,
    column: usize,
}

/// A convolution that is computed by points.
#[derive(Debug)]
pub(super) struct Winograd<'a> {
    plan: &'a Plan,
    filters: &'a Filters,
    /// The number of tiles in a column and in a row.
    tiles: [usize; 2],
    /// The elements of a row and of a plane that is padded to whole tiles.
    row: usize,
    size: usize,
    /// The number of tiles that are computed at once.
    block: usize,
}

impl<'a> Winograd<'a> {
    /// Lays out the tiles; returns `None` for convolutions that are computed otherwise.
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
        let width = gemm::panel_width::<f32>();
        let block = ROOM / (POINTS * (plan.depth + plan.filters)) / width * width;
        (plan.groups * plan.depth).checked_mul(size)?;
        Some(Winograd { plan, filters, tiles, row, size, block: block.max(width).min(count) })
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

    /// Copies the planes of a sample into planes of whole tiles, with zeros around.
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

    /// Writes the results of a sample, whose planes are padded.
    ///
    /// # Safety
    ///
    /// As for [`convolve`](Self::convolve), with the planes of a sample.
    unsafe fn sample(&self, pool: &Arc<Pool>, x: *const f32, plus: *const f32, out: *mut f32) -> Result<()> {
        let Plan { plane, groups, depth, filters, .. } = self.plan;
        let (_, results) = plane.sizes();
        let count = self.tiles[0] * self.tiles[1];
        let blocks = count.div_ceil(self.block);
        let (points, sums) = (self.points(), POINTS * filters * self.block + SLACK);
        let weight = POINTS * filters * depth * self.block;
        let shared = Shared((x, plus, out));
        with_buffers(pool, POINTS * points + sums, groups * blocks, weight, |buffer, from, to| {
            let (x, plus, out) = shared.get();
            for i in from..to {
                let (group, block) = (i / blocks, i % blocks);
                let first = block * self.block;
                // SAFETY: the planes and filters of the group and these results are in the operands, and no other call writes
                // the results.
                unsafe {
                    let plus = if plus.is_null() { plus } else { plus.add(group * filters) };
                    let x = x.add(group * depth * self.size);
                    let out = out.add(group * filters * results);
                    self.block(group, [first, self.block.min(count - first)], x, plus, out, buffer);
                }
            }
        })
    }

    /// Returns the room for one point of all tiles of a block.
    fn points(&self) -> usize {
        self.plan.depth * self.block.next_multiple_of(gemm::panel_width::<f32>()) + SLACK
    }

    /// Writes the results of `n` tiles from tile `first` on.
    ///
    /// # Safety
    ///
    /// `x` has the planes of the group, `out` room for its results, and the buffer for the points of a block.
    unsafe fn block(
        &self,
        group: usize,
        [first, n]: [usize; 2],
        x: *const f32,
        plus: *const f32,
        out: *mut f32,
        buffer: *mut f32,
    ) {
        let Plan { depth, filters, .. } = *self.plan;
        let width = gemm::panel_width::<f32>();
        let points = self.points();
        // SAFETY: this function's contract; each panel and each point has its own room, and all points of the group's filters
        // are there.
        unsafe {
            let sums = buffer.add(POINTS * points);
            for left in (0..n).step_by(width) {
                let segments = self.segments(first + left, width.min(n - left));
                let to = buffer.add(left * depth);
                Inward { of: self, segments: &segments, x, to, points, width }.run();
            }
            for point in 0..POINTS {
                let at = (group * POINTS + point) * filters * depth;
                let a = Strided::dense(self.filters.points.as_ptr().add(at), depth);
                let (panels, to) = (buffer.add(point * points), sums.add(point * filters * n));
                gemm::packed(Dims { m: filters, k: depth, n }, to, n, a, panels, Around::NONE, false);
            }
            sums.add(POINTS * filters * n).write_bytes(0, SLACK);
            let segments = self.segments(first, n);
            Outward { of: self, segments: &segments, sums, n, plus, out }.run();
        }
    }

    /// Returns the rows of tiles of which a block or a panel has tiles.
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

/// Calls the version of a function for the vectors of this processor.
macro_rules! for_vectors {
    ($type:ident, $of:ident) => {
        impl $type<'_> {
            /// # Safety
            ///
            /// What is read and written is there, up to a vector beyond the last tile.
            unsafe fn run(&self) {
                #[cfg(target_arch = "x86_64")]
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
                unsafe fn avx512(args: &$type<'_>) {
                    // SAFETY: this function has the same contract.
                    unsafe { $of::<crate::kernels::lanes::x86::F32x16>(args) }
                }
                #[cfg(target_arch = "x86_64")]
                #[target_feature(enable = "avx2,fma")]
                unsafe fn avx2(args: &$type<'_>) {
                    // SAFETY: this function has the same contract.
                    unsafe { $of::<crate::kernels::lanes::x86::F32x8>(args) }
                }
                // SAFETY: this function has the same contract; `level` returns only what the processor has.
                unsafe {
                    match level() {
                        #[cfg(target_arch = "x86_64")]
                        Level::Avx512 => avx512(self),
                        #[cfg(target_arch = "x86_64")]
                        Level::Avx2 => avx2(self),
                        _ => $of::<Baseline>(self),
                    }
                }
            }
        }
    };
}

/// Elements of tiles to be transformed to points, in panels.
struct Inward<'a> {
    of: &'a Winograd<'a>,
    segments: &'a [Segment],
    x: *const f32,
    to: *mut f32,
    points: usize,
    width: usize,
}

for_vectors!(Inward, inward);

/// # Safety
///
/// As for [`Inward::run`], with the instruction set of the vectors.
#[inline(always)]
unsafe fn inward<V: Lanes>(args: &Inward<'_>) {
    let &Inward { of, segments, x, to, points, width } = args;
    for channel in 0..of.plan.depth {
        for &Segment { n, to: at, row, column } in segments {
            for i in (0..n).step_by(V::LANES) {
                // SAFETY: this function's contract. What is written beyond the segment belongs to the next one, to the next
                // channel, or is not read.
                unsafe {
                    let from = x.add(channel * of.size + 2 * row * of.row + 2 * (column + i));
                    let to = to.add(channel * width + at + i);
                    let mut lines = [[V::zero(); 4]; 4];
                    for (y, line) in lines.iter_mut().enumerate() {
                        let from = from.add(y * of.row);
                        let (a, b) = V::load(from).unzip(V::load(from.add(V::LANES)));
                        let (c, d) = V::load(from.add(2)).unzip(V::load(from.add(2 + V::LANES)));
                        *line = [a.sub(c), b.add(c), c.sub(b), b.sub(d)];
                    }
                    let [first, second, third, fourth] = lines;
                    for (column, (((a, b), c), d)) in
                        first.into_iter().zip(second).zip(third).zip(fourth).enumerate()
                    {
                        let to = to.add(column * points);
                        a.sub(c).store(to);
                        b.add(c).store(to.add(4 * points));
                        c.sub(b).store(to.add(8 * points));
                        b.sub(d).store(to.add(12 * points));
                    }
                }
            }
        }
    }
}

/// Sums of points to be transformed to results.
struct Outward<'a> {
    of: &'a Winograd<'a>,
    segments: &'a [Segment],
    sums: *const f32,
    /// The number of tiles.
    n: usize,
    plus: *const f32,
    out: *mut f32,
}

for_vectors!(Outward, outward);

/// # Safety
///
/// As for [`Outward::run`], with the instruction set of the vectors.
#[inline(always)]
unsafe fn outward<V: Lanes>(args: &Outward<'_>) {
    let &Outward { of, segments, sums, n: tiles, plus, out } = args;
    let Plan { plane, filters, .. } = of.plan;
    let (_, results) = plane.sizes();
    for filter in 0..*filters {
        // SAFETY: this function's contract.
        let plus = unsafe { V::splat(if plus.is_null() { 0.0 } else { *plus.add(filter) }) };
        for &Segment { n, to: at, row, column } in segments {
            for i in (0..n).step_by(V::LANES) {
                // SAFETY: this function's contract: a vector beyond the last sum may be read, and results are written only
                // where there are some.
                unsafe {
                    let from = sums.add(filter * tiles + at + i);
                    let mut halves = [[V::zero(); 2]; 4];
                    for (y, half) in halves.iter_mut().enumerate() {
                        let from = from.add(4 * y * filters * tiles);
                        let next = filters * tiles;
                        let (a, b) = (V::load(from), V::load(from.add(next)));
                        *half = folded(a, b, V::load(from.add(2 * next)), V::load(from.add(3 * next)));
                    }
                    let [[a, e], [b, f], [c, g], [d, h]] = halves;
                    let [upper_left, lower_left] = folded(a, b, c, d);
                    let [upper_right, lower_right] = folded(e, f, g, h);
                    let line = out.add(filter * results + 2 * row * plane.cols.out + 2 * (column + i));
                    let last = (plane.cols.out - 2 * (column + i)).min(2 * V::LANES.min(n - i));
                    write(line, upper_left.add(plus).zip(upper_right.add(plus)), last);
                    if 2 * row + 1 < plane.rows.out {
                        let lower = lower_left.add(plus).zip(lower_right.add(plus));
                        write(line.add(plane.cols.out), lower, last);
                    }
                }
            }
        }
    }
}

/// Folds the four points of a line to two results.
///
/// # Safety
///
/// The processor has the instruction set of the vectors.
#[inline(always)]
unsafe fn folded<V: Lanes>(a: V, b: V, c: V, d: V) -> [V; 2] {
    // SAFETY: this function has the same contract.
    unsafe { [a.add(b).add(c), b.sub(c).sub(d)] }
}

/// Writes the first `n` elements of two vectors.
///
/// # Safety
///
/// `to` has room for them.
#[inline(always)]
unsafe fn write<V: Lanes>(to: *mut f32, (low, high): (V, V), n: usize) {
    // SAFETY: this function's contract; the copy has room for two of the widest vectors.
    unsafe {
        if n == 2 * V::LANES {
            low.store(to);
            high.store(to.add(V::LANES));
        } else {
            let mut copy = [0f32; 32];
            low.store(copy.as_mut_ptr());
            high.store(copy.as_mut_ptr().add(V::LANES));
            to.copy_from_nonoverlapping(copy.as_ptr(), n);
        }
    }
}
