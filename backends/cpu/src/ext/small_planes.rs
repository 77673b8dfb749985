//! Windows over small planes of many channels: depthwise convolutions and pooling. Some channels are transposed, so that a vector
//! has the same element of each of their planes. Rows of small planes would fill only parts of vectors.

use super::conv::{Plan, with_buffers};
use super::fused::Results;
use super::window::{Line, Plane};
use crate::error::Result;
use crate::gemm::floats::Floats;
use crate::gemm::vector::baseline;
use crate::kernels::{Shared, transpose};
#[cfg(target_arch = "x86_64")]
use crate::level::Level;
use crate::level::level;
use crate::pool::Pool;
use smallvec::SmallVec;
use std::sync::Arc;

/// The maximum number of elements of a plane, of results of a plane, and of elements of a window.
const MOST: usize = 64;

/// The minimum number of channels.
const FEWEST: usize = 8;

/// The maximum number of channels that are computed together.
const LANES: usize = 16;

/// The computations over a window: the sum of products with weights, the maximum, or the mean.
const PRODUCTS: u8 = 0;
const GREATEST: u8 = 1;
const MEAN: u8 = 2;

/// The elements of a window along a dimension.
#[derive(Debug)]
struct Span {
    /// The first element that is in the plane, and its position.
    first: usize,
    at: usize,
    /// The number of elements in the plane.
    count: usize,
    /// The number of elements that a mean counts.
    counted: usize,
}

/// Windows over small planes.
#[derive(Debug)]
pub(super) struct SmallPlanes<'a> {
    plane: &'a Plane,
    rows: SmallVec<[Span; 16]>,
    cols: SmallVec<[Span; 16]>,
}

/// The planes of some channels, and their results.
struct Channels<'a> {
    planes: &'a SmallPlanes<'a>,
    x: *const f32,
    /// The weights of the channels; null if there are none.
    w: *const f32,
    /// The initial values of the sums, or null.
    plus: *const f32,
    out: *mut f32,
    /// The number of channels, at most [`LANES`].
    count: usize,
    /// Room for the transposed planes, weights and results.
    buffer: *mut f32,
}

impl<'a> SmallPlanes<'a> {
    /// Lays windows out. `counted` returns the number of elements of a window that a mean counts along a dimension. Returns `None`
    /// for planes that are too large, and for too few channels.
    pub(super) fn new(
        plane: &'a Plane,
        channels: usize,
        counted: impl Fn(&Line, usize) -> usize,
    ) -> Option<Self> {
        let (size, results) = plane.sizes();
        let window = plane.rows.kernel.saturating_mul(plane.cols.kernel);
        let fits = [size, results, window].iter().all(|n| (1..=MOST).contains(n)) && channels >= FEWEST;
        let spans = |line: &Line| {
            let span = |o: usize| {
                let inside = |k: &usize| line.position(*k, o).is_some();
                let first = (0..line.kernel).find(inside).unwrap_or(0);
                let at = line.position(first, o).unwrap_or(0);
                Span { first, at, count: (0..line.kernel).filter(inside).count(), counted: counted(line, o) }
            };
            (0..line.out).map(span).collect()
        };
        fits.then(|| SmallPlanes { plane, rows: spans(&plane.rows), cols: spans(&plane.cols) })
    }

    /// Lays a depthwise convolution with a stride out. Returns `None` for other convolutions, and without a stride: then rows are
    /// faster.
    pub(super) fn of_conv(plan: &'a Plan) -> Option<Self> {
        let is_depthwise = plan.depth == 1 && plan.filters == 1;
        if !is_depthwise || plan.plane.cols.stride == 1 {
            return None;
        }
        SmallPlanes::new(&plan.plane, plan.groups, |_, _| 0)
    }

    /// Computes a depthwise convolution of `n` samples of `channels` channels.
    ///
    /// # Safety
    ///
    /// The operands are contiguous and have these extents (`plus` may be null); `out` has room for the results.
    pub(super) unsafe fn convolve(
        &self,
        pool: &Arc<Pool>,
        [n, channels]: [usize; 2],
        [x, w, plus]: [*const f32; 3],
        out: &Results<'_>,
    ) -> Result<()> {
        // SAFETY: this function has the same contract.
        unsafe {
            self.each::<PRODUCTS>(pool, [n, channels], [x, w, plus], out.sums, |sample, first, count| {
                out.done(sample, first..first + count, 0..self.plane.sizes().1);
            })
        }
    }

    /// Pools the windows of `n` samples of `channels` channels: their means if `MEANS`, otherwise their maxima.
    ///
    /// # Safety
    ///
    /// As for [`convolve`](Self::convolve).
    pub(super) unsafe fn pool<const MEANS: bool>(
        &self,
        pool: &Arc<Pool>,
        extents: [usize; 2],
        x: *const f32,
        out: *mut f32,
    ) -> Result<()> {
        let operands = [x, std::ptr::null(), std::ptr::null()];
        // SAFETY: this function has the same contract.
        unsafe {
            if MEANS {
                self.each::<MEAN>(pool, extents, operands, out, |_, _, _| ())
            } else {
                self.each::<GREATEST>(pool, extents, operands, out, |_, _, _| ())
            }
        }
    }

    /// Computes all results, some channels at a time. Then calls `done` with the sample, the first channel and the number of channels.
    ///
    /// # Safety
    ///
    /// As for [`convolve`](Self::convolve).
    unsafe fn each<const KIND: u8>(
        &self,
        pool: &Arc<Pool>,
        [n, channels]: [usize; 2],
        [x, w, plus]: [*const f32; 3],
        out: *mut f32,
        done: impl Fn(usize, usize, usize) + Sync,
    ) -> Result<()> {
        let (size, results) = self.plane.sizes();
        let taps = self.plane.rows.kernel * self.plane.cols.kernel;
        let length = (size + taps + results) * LANES;
        let parts = channels.div_ceil(LANES);
        let shared = Shared((x, w, plus, out));
        with_buffers(pool, length, n * parts, LANES * results * taps, |buffer, from, to| {
            let (x, w, plus, out) = shared.get();
            // SAFETY: the buffer has this length. Lanes without a channel are computed, too, so they are initialised.
            unsafe { buffer.write_bytes(0, length) };
            for i in from..to {
                let (sample, first) = (i / parts, i % parts * LANES);
                let (count, plane) = (LANES.min(channels - first), sample * channels + first);
                // SAFETY: these channels are in the operands, and no other call writes their results.
                unsafe {
                    let x = x.add(plane * size);
                    let w = if w.is_null() { w } else { w.add(first * taps) };
                    let plus = if plus.is_null() { plus } else { plus.add(first) };
                    let out = out.add(plane * results);
                    Channels { planes: self, x, w, plus, out, count, buffer }.run::<KIND>();
                }
                done(sample, first, count);
            }
        })
    }
}

impl Channels<'_> {
    /// Computes the results.
    ///
    /// # Safety
    ///
    /// The planes, the weights and the room for results exist, and the buffer has room for [`LANES`] of each.
    unsafe fn run<const KIND: u8>(&self) {
        // SAFETY: this function has the same contract; `level` returns only a level of this processor.
        unsafe {
            match level() {
                #[cfg(target_arch = "x86_64")]
                Level::Avx512 => avx512::<KIND>(self),
                #[cfg(target_arch = "x86_64")]
                Level::Avx2 => avx2::<KIND>(self),
                _ => windows::<baseline::F32, KIND>(self),
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn avx512<const KIND: u8>(args: &Channels<'_>) {
    // SAFETY: this function has the same contract.
    unsafe { windows::<crate::gemm::vector::F32x16, KIND>(args) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2<const KIND: u8>(args: &Channels<'_>) {
    // SAFETY: this function has the same contract.
    unsafe { windows::<crate::gemm::vector::F32x8, KIND>(args) }
}

/// # Safety
///
/// As for [`Channels::run`], with the instruction set of the vectors.
#[inline(always)]
unsafe fn windows<V: Floats, const KIND: u8>(args: &Channels<'_>) {
    let &Channels { planes: SmallPlanes { plane, rows, cols }, x: from, w, plus, out, count, buffer } = args;
    let ((size, results), width) = (plane.sizes(), plane.cols.kernel);
    let taps = plane.rows.kernel * width;
    let start = match KIND {
        GREATEST => f32::NEG_INFINITY,
        // The sum of no elements.
        MEAN => -0.0,
        _ => 0.0,
    };
    // SAFETY: this function's contract: the buffer has these parts, and the elements of windows are in the planes.
    unsafe {
        let (x, weights, sums) = (buffer, buffer.add(size * LANES), buffer.add((size + taps) * LANES));
        let bytes = size_of::<f32>();
        transpose::block::<true>(bytes, count, size, x.cast(), LANES, from.cast(), size);
        if KIND == PRODUCTS {
            transpose::block::<true>(bytes, count, taps, weights.cast(), LANES, w.cast(), taps);
        }
        for lane in (0..count).step_by(V::LANES) {
            let start = match plus.is_null() {
                true => V::splat(&start),
                false => V::load_some(plus.add(lane), V::mask(V::LANES.min(count - lane))),
            };
            let (x, weights, mut sums) = (x.add(lane), weights.add(lane), sums.add(lane));
            for row in rows {
                for col in cols {
                    let mut sum = start;
                    for k in 0..row.count {
                        let line = (row.at + k * plane.rows.dilation) * plane.cols.extent + col.at;
                        let (x, weights) =
                            (x.add(line * LANES), weights.add(((row.first + k) * width + col.first) * LANES));
                        for j in 0..col.count {
                            let x = V::load(x.add(j * plane.cols.dilation * LANES));
                            sum = match KIND {
                                PRODUCTS => sum.mul_add(x, V::load(weights.add(j * LANES))),
                                GREATEST => sum.max(x),
                                _ => sum.add(x),
                            };
                        }
                    }
                    if KIND == MEAN {
                        sum = sum.div(V::splat(&((row.counted * col.counted) as f32)));
                    }
                    sum.store(sums);
                    sums = sums.add(LANES);
                }
            }
        }
        transpose::block::<false>(bytes, results, count, out.cast(), results, sums.cast(), LANES);
    }
}
