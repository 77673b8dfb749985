//! Convolutions of many channels, as matrix products of the filters and unrolled windows. The windows are unrolled directly
//! into the packed layout of the product's tiles.

use super::conv::{Plan, with_buffers};
use super::fused::Results;
use super::sliding::Padded;
use super::window::Plane;
use crate::caches::second_level;
use crate::error::Result;
use crate::gemm::vector::{Vector, baseline};
use crate::gemm::{self, Around, Dims, Strided};
use crate::kernels::{Shared, walk};
#[cfg(target_arch = "x86_64")]
use crate::level::Level;
use crate::level::level;
use crate::pool::Pool;
use crate::threads;
use smallvec::SmallVec;
use std::sync::Arc;

/// The maximum number of products that are added sequentially.
const SEQUENTIAL: usize = 1 << 16;

/// The maximum number of weights of a filter for one channel.
const TAPS: usize = 512;

/// The number of rows of unrolled windows in one pass, unless one channel has more.
const DEPTH: usize = 512;

/// The maximum number of elements of windows that are unrolled in one pass.
const UNROLLED: usize = 1 << 17;

/// The maximum number of windows that are unrolled in one pass.
const WINDOWS: usize = 1024;

/// The minimum number of filters in a unit of work.
const FILTERS: usize = 48;

/// The number of copied elements below which a second thread costs more than it saves.
const GRAIN: usize = 1 << 16;

/// The maximum size of a padded sample, as a multiple of the sizes of the sample and of the results.
const GROWTH: usize = 4;

/// A convolution whose windows are unrolled.
#[derive(Debug)]
pub(super) struct Unrolled<'a> {
    plan: &'a Plan,
    /// The padded planes; `None` if the operand needs neither padding nor another order of columns.
    padded: Option<Padded<'a>>,
    /// The number of elements of a row and of a plane, and the offset in a window of the element for each weight of a channel.
    row: usize,
    size: usize,
    taps: SmallVec<[usize; 32]>,
    /// The number of channels, and the number of windows, in one pass.
    channels: usize,
    windows: usize,
}

/// A run of windows in one row of results: their position in a panel, their position in a plane, and their number.
#[derive(Debug, Clone, Copy)]
struct Segment {
    to: usize,
    from: usize,
    n: usize,
}

impl<'a> Unrolled<'a> {
    /// Lays out the windows. Returns `None` for convolutions that other kernels compute.
    pub(super) fn new(plan: &'a Plan) -> Option<Unrolled<'a>> {
        let Plan { plane, n, groups, depth, filters } = plan;
        let Plane { rows, cols, .. } = plane;
        let taps = rows.kernel.checked_mul(cols.kernel).filter(|&taps| taps <= TAPS)?;
        let terms = depth.checked_mul(taps).filter(|&terms| (1..=SEQUENTIAL).contains(&terms))?;
        let (size, results) = plane.sizes();
        if plan.is_pointwise() || results < 4 || *filters < 4 || n * groups == 0 {
            return None;
        }
        let plain = rows.before == 0 && cols.before == 0 && rows.after == 0 && cols.after == 0;
        let padded = Padded::new(plane, 1, rows.out, cols.out)?;
        let columns = if plain && cols.stride == 1 {
            (0..cols.kernel).map(|k| k * cols.dilation).collect()
        } else {
            padded.columns()
        };
        let padded = Some(padded).filter(|_| !(plain && cols.stride == 1));
        let (row, size) = match &padded {
            None => (cols.extent, size),
            Some(padded) => {
                let most = (size.max(results)).checked_mul(GROWTH)?.saturating_add(1 << 12);
                (padded.row, padded.len().filter(|&len| len <= most)?)
            }
        };
        let taps = (0..rows.kernel)
            .flat_map(|ky| columns.iter().map(move |&column| ky * rows.dilation * row + column))
            .collect();
        let channels = (DEPTH / (terms / depth)).clamp(1, *depth);
        // Divide the channels so that all passes have nearly the same depth.
        let channels = depth.div_ceil(depth.div_ceil(channels));
        let width = gemm::panel_width::<f32>();
        // The unrolled windows use half of the second-level cache.
        let unrolled = UNROLLED.min(second_level() / (2 * size_of::<f32>()));
        let windows = (unrolled / (channels * terms / depth)).clamp(width, WINDOWS) / width * width;
        Some(Unrolled { plan, padded, row, size, taps, channels, windows })
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
        let Plan { plane, n, groups, depth, .. } = self.plan;
        let (size, _) = plane.sizes();
        let planes = groups * depth;
        let room = match &self.padded {
            None => None,
            Some(_) => Some(pool.take(planes * self.size * size_of::<f32>())?),
        };
        for sample in 0..*n {
            // SAFETY: the operands have these samples.
            unsafe {
                let x = x.add(sample * planes * size);
                let x = match (&self.padded, &room) {
                    (Some(padded), Some(room)) => {
                        let room = room.ptr().cast::<f32>();
                        self.pad(padded, x, room);
                        room.cast_const()
                    }
                    _ => x,
                };
                self.sample(pool, sample, x, w, plus, out)?;
            }
        }
        Ok(())
    }

    /// Copies the planes of a sample with padding.
    ///
    /// # Safety
    ///
    /// `x` is a sample, and `to` has room for its padded planes.
    unsafe fn pad(&self, padded: &Padded<'_>, x: *const f32, to: *mut f32) {
        let Plan { plane, groups, depth, .. } = self.plan;
        let (size, _) = plane.sizes();
        let shared = Shared((x, to));
        walk::split(groups * depth, self.size, GRAIN, |from, end| {
            let (x, to) = shared.get();
            for i in from..end {
                // SAFETY: plane `i` is in the sample and has its room.
                unsafe {
                    let to = to.add(i * self.size);
                    to.write_bytes(0, self.size);
                    padded.pad(x.add(i * size), to, 0, plane.rows.out);
                }
            }
        });
    }

    /// Computes the results of a sample.
    ///
    /// # Safety
    ///
    /// As for [`convolve`](Self::convolve), with the planes of one sample, which are padded if necessary.
    unsafe fn sample(
        &self,
        pool: &Arc<Pool>,
        sample: usize,
        x: *const f32,
        w: *const f32,
        plus: *const f32,
        out: &Results<'_>,
    ) -> Result<()> {
        let Plan { plane, groups, depth, filters, .. } = self.plan;
        let (_, results) = plane.sizes();
        let terms = depth * self.taps.len();
        let blocks = results.div_ceil(self.windows);
        // If there are too few blocks for all threads, the filters of a block are divided, too.
        let parts = (2 * threads::count()).div_ceil(groups * blocks).min(filters / FILTERS).max(1);
        let parts = if threads::count() > 1 { parts } else { 1 };
        // Leave room because a whole vector may be written beyond the last window.
        let length = self.channels * self.taps.len() * self.windows.min(results).next_multiple_of(64) + 64;
        let weight = terms * self.windows.min(results) * filters.div_ceil(parts);
        let shared = Shared((x, w, plus));
        with_buffers(pool, length, groups * blocks * parts, weight, |buffer, from, to| {
            let (x, w, plus) = shared.get();
            for i in from..to {
                let (group, block, part) = (i / parts / blocks, i / parts % blocks, i % parts);
                let (first, last) = (filters * part / parts, filters * (part + 1) / parts);
                let (first, count) = (group * filters + first, last - first);
                let from = block * self.windows;
                let windows = self.windows.min(results - from);
                // SAFETY: the planes of the group, the filters and these results are in the operands. No other call writes
                // these results.
                unsafe {
                    let x = x.add(group * depth * self.size);
                    let plus = if plus.is_null() { plus } else { plus.add(first) };
                    let to = out.sums.add((sample * groups * filters + first) * results + from);
                    let end = out.end();
                    let around = Around {
                        end: end.map_or(std::ptr::null(), std::ptr::from_ref),
                        ..Around::plus(plus)
                    };
                    self.block(buffer, x, w.add(first * terms), around, to, [from, windows], count);
                    if end.is_none() {
                        out.done(sample, first..first + count, from..from + windows);
                    }
                }
            }
        })
    }

    /// Computes the results of `count` filters for `n` windows, from window `first` on.
    ///
    /// # Safety
    ///
    /// The buffer has room for the unrolled windows of a pass; `x` has the planes of the group; the filters, the added terms
    /// and the results exist.
    #[expect(clippy::too_many_arguments, reason = "the operands of a product, and where they are used")]
    unsafe fn block(
        &self,
        buffer: *mut f32,
        x: *const f32,
        w: *const f32,
        around: Around<f32>,
        out: *mut f32,
        [first, n]: [usize; 2],
        count: usize,
    ) {
        let depth = self.plan.depth;
        let (_, results) = self.plan.plane.sizes();
        let (width, taps) = (gemm::panel_width::<f32>(), self.taps.len());
        for from in (0..depth).step_by(self.channels) {
            let channels = self.channels.min(depth - from);
            let k = channels * taps;
            for left in (0..n).step_by(width) {
                let segments = self.segments(first + left, width.min(n - left));
                // SAFETY: this function's contract: each panel has its own room.
                unsafe {
                    let to = buffer.add(left * k);
                    let x = x.add(from * self.size);
                    let size = self.size;
                    Pack { segments: &segments, taps: &self.taps, channels, x, size, to, width }.run();
                }
            }
            // SAFETY: this function's contract; the panels are those of the windows.
            unsafe {
                let w = w.add(from * taps);
                let a = Strided { ptr: w, row: (depth * taps).cast_signed(), col: 1 };
                let around = around.pass(from == 0, from + channels == depth);
                gemm::packed(Dims { m: count, k, n }, out, results, a, buffer, around, from > 0);
            }
        }
    }

    /// Returns the runs of result rows whose windows are in a panel.
    fn segments(&self, first: usize, n: usize) -> SmallVec<[Segment; 16]> {
        let Plane { rows, cols, .. } = &self.plan.plane;
        let mut segments = SmallVec::new();
        let mut to = 0;
        while to < n {
            let (y, x) = ((first + to) / cols.out, (first + to) % cols.out);
            let count = (cols.out - x).min(n - to);
            segments.push(Segment { to, from: y * rows.stride * self.row + x, n: count });
            to += count;
        }
        segments
    }
}

/// Windows to write to a panel, with one row for each weight. Distances are in elements.
struct Pack<'a> {
    segments: &'a [Segment],
    taps: &'a [usize],
    channels: usize,
    x: *const f32,
    size: usize,
    to: *mut f32,
    width: usize,
}

impl Pack<'_> {
    /// Writes the panel. The elements after a segment may be overwritten, up to the length of a vector.
    ///
    /// # Safety
    ///
    /// The planes have the segments for each weight, and there is room for the panel and one more vector.
    unsafe fn run(&self) {
        // SAFETY: this function has the same contract; `level` returns only what the processor has.
        unsafe {
            match level() {
                #[cfg(target_arch = "x86_64")]
                Level::Avx512 => avx512(self),
                #[cfg(target_arch = "x86_64")]
                Level::Avx2 => avx2(self),
                _ => pack::<baseline::F32>(self),
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn avx512(args: &Pack<'_>) {
    // SAFETY: this function has the same contract.
    unsafe { pack::<crate::gemm::vector::F32x16>(args) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2(args: &Pack<'_>) {
    // SAFETY: this function has the same contract.
    unsafe { pack::<crate::gemm::vector::F32x8>(args) }
}

/// # Safety
///
/// As for [`Pack::run`], with the instruction set of the vectors.
#[inline(always)]
unsafe fn pack<V: Vector<Item = f32>>(args: &Pack<'_>) {
    let &Pack { segments, taps, channels, x, size, mut to, width } = args;
    if let &[Segment { to: 0, from, n }] = segments
        && n == 2 * V::LANES
    {
        // Fast path: most panels of two vectors are within one row of results.
        for channel in 0..channels {
            // SAFETY: the windows are in the plane, and there is room for the panel.
            unsafe {
                let x = x.add(channel * size + from);
                for &tap in taps {
                    let from = x.add(tap);
                    V::load(from).store(to);
                    V::load(from.add(V::LANES)).store(to.add(V::LANES));
                    to = to.wrapping_add(width);
                }
            }
        }
        return;
    }
    for channel in 0..channels {
        for &tap in taps {
            for &Segment { to: at, from, n } in segments {
                // SAFETY: the windows are in the plane, and there is room for whole vectors.
                unsafe {
                    let (from, to) = (x.add(channel * size + tap + from), to.add(at));
                    let mut i = 0;
                    while i + V::LANES <= n {
                        V::load(from.add(i)).store(to.add(i));
                        i += V::LANES;
                    }
                    if i < n {
                        V::load_some(from.add(i), V::mask(n - i)).store(to.add(i));
                    }
                }
            }
            to = to.wrapping_add(width);
        }
    }
}
