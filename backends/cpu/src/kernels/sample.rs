//! Samples planes of `f32` at positions between their elements.

use super::dispatch::{VectorLoop, dispatch};
use super::{Shared, walk};

/// The maximum number of dimensions of a plane.
pub(crate) const MOST: usize = 3;
/// The number of positions that are sampled together. Their intermediate values stay in the first-level cache.
const TOGETHER: usize = 128;
/// The number of elements below which a second thread costs more than it saves.
const GRAIN: usize = 1 << 12;

/// The maximum distance of a position from the first element, as in `bb::ext::image::grid_sample`.
const FARTHEST: f32 = 1e30;

/// The values outside a plane. If `centres`, the borders are the centres of the outermost elements, otherwise their
/// outer edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beyond {
    Zeros,
    Border { centres: bool },
    Mirror { centres: bool },
}

/// The options of sampling at positions from -1 to 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sampling {
    /// Whether a value is the nearest element instead of an interpolation.
    pub(crate) nearest: bool,
    pub(crate) beyond: Beyond,
    /// Whether -1 and 1 are the centres of the outermost elements instead of their outer edges.
    pub(crate) centres: bool,
}

/// One dimension of planes.
#[derive(Debug, Clone, Copy)]
struct Along {
    sampling: Sampling,
    extent: usize,
    stride: u32,
    low: f32,
    high: f32,
    last: f32,
}

impl Along {
    fn new(sampling: Sampling, extent: usize, stride: usize) -> Along {
        let last = (extent as f64 - 1.0) as f32;
        let (low, high) = match sampling.beyond {
            Beyond::Zeros | Beyond::Border { centres: true } | Beyond::Mirror { centres: true } => {
                (0.0, last)
            }
            Beyond::Border { centres: false } | Beyond::Mirror { centres: false } => {
                (-0.5, (extent as f64 - 0.5) as f32)
            }
        };
        Along { sampling, extent, stride: stride as u32, low, high, last }
    }

    #[inline(always)]
    fn outside(&self, x: f32) -> bool {
        x < self.low || x > self.high
    }

    /// Mirrors a position at the borders until it is between them.
    #[inline(always)]
    fn mirrored(&self, x: f32) -> f32 {
        let range = self.high - self.low;
        if range <= 0.0 {
            // If the borders coincide, the product of infinity and 0 would be NaN.
            return if x.is_nan() { f32::NAN } else { self.low };
        }
        if !self.outside(x) {
            return x;
        }
        let along = (x - self.low).rem_euclid(2.0 * range);
        (if along > range { 2.0 * range - along } else { along }) + self.low
    }

    /// Limits a position to the elements. NaN stays NaN.
    #[inline(always)]
    fn clamped(&self, x: f32) -> f32 {
        let x = if x < 0.0 { 0.0 } else { x };
        if x > self.last { self.last } else { x }
    }

    /// Returns the index of the element at or before a position from -1 to 1, and the distance from this element to the
    /// position.
    #[inline(always)]
    fn located(&self, at: f32) -> (f32, f32) {
        let (steps, shift) =
            if self.sampling.centres { (self.last, 0.0) } else { (self.extent as f32, -0.5) };
        let at = if at.is_nan() { -1.0 } else { at };
        let at = ((at + 1.0) * (steps / 2.0) + shift).clamp(-FARTHEST, FARTHEST);
        let at = if self.sampling.nearest { at.round_ties_even() } else { at };
        let at = match self.sampling.beyond {
            Beyond::Border { .. } if self.outside(at) => self.clamped(at),
            Beyond::Mirror { .. } => self.mirrored(at),
            Beyond::Zeros | Beyond::Border { .. } => at,
        };
        let base = if self.sampling.nearest { at } else { at.floor() };
        (base, at - base)
    }

    /// Returns the offset in a plane of the element at an index, and whether this element exists.
    #[inline(always)]
    fn element(&self, place: f32) -> (u32, bool) {
        let exists = self.sampling.beyond != Beyond::Zeros || !(place < 0.0 || place > self.last);
        let place =
            if let Beyond::Mirror { .. } = self.sampling.beyond { self.mirrored(place) } else { place };
        // The cast converts NaN to 0.
        ((self.clamped(place) as u32).min(self.extent as u32 - 1) * self.stride, exists)
    }
}

/// One number for each of `TOGETHER` positions.
type Each<T> = [T; TOGETHER];

/// The elements around some positions, one for each combination of neighbours along the dimensions.
struct Taps {
    /// The indices of the elements in a plane.
    index: [Each<u32>; 1 << MOST],
    /// A mask with all bits set, or with no bits if the element does not exist, so that its value is zero.
    kept: [Each<u32>; 1 << MOST],
    weight: [Each<f32>; 1 << MOST],
}

impl Taps {
    /// Adds the offsets and weights of the neighbours along dimension `i`. Neighbours along the dimensions after `i`
    /// have adjacent taps.
    #[inline(always)]
    fn add(&mut self, along: &Along, i: usize, rank: usize, grid: &[f32]) {
        let each = if along.sampling.nearest { 1 } else { 2usize };
        let behind = each.pow((rank - 1 - i) as u32);
        let taps = self.index.iter_mut().zip(&mut self.kept).zip(&mut self.weight).enumerate();
        for (tap, ((index, kept), weight)) in taps.take(each.pow(rank as u32)) {
            let next = tap / behind % each == 1;
            let each = index.iter_mut().zip(kept).zip(weight);
            for (((index, kept), weight), at) in each.zip(grid.chunks_exact(rank)) {
                // The grid lists the innermost dimension first.
                let (base, rest) = along.located(at.get(rank - 1 - i).copied().unwrap_or_default());
                let (place, share) = if next { (base + 1.0, rest) } else { (base, 1.0 - rest) };
                let (position, exists) = along.element(place);
                *index += position;
                *kept &= if exists { u32::MAX } else { 0 };
                *weight *= if along.sampling.nearest { 1.0 } else { share };
            }
        }
    }
}

/// The planes of one entry of a batch, the positions at which they are sampled, and room for the values.
#[derive(Debug, Clone, Copy)]
struct BatchEntry {
    x: *const f32,
    grid: *const f32,
    out: *mut f32,
    channels: usize,
    /// The number of elements of a plane.
    size: usize,
    /// The number of positions.
    count: usize,
}

/// A loop over some positions of an entry.
struct SampleRange<'a> {
    entry: BatchEntry,
    dims: &'a [Along],
    from: usize,
    to: usize,
}

impl VectorLoop for SampleRange<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let SampleRange { entry, dims, .. } = self;
        for first in (self.from..self.to).step_by(TOGETHER) {
            let n = (self.to - first).min(TOGETHER);
            // SAFETY: the creator of this value guarantees `dims.len()` numbers for each position.
            let grid =
                unsafe { std::slice::from_raw_parts(entry.grid.add(first * dims.len()), n * dims.len()) };
            let mut taps = Taps {
                index: [[0; TOGETHER]; 1 << MOST],
                kept: [[u32::MAX; TOGETHER]; 1 << MOST],
                weight: [[1.0; TOGETHER]; 1 << MOST],
            };
            for (i, along) in dims.iter().enumerate() {
                taps.add(along, i, dims.len(), grid);
            }
            let nearest = dims.iter().all(|along| along.sampling.nearest);
            // SAFETY: the creator of this value guarantees that the planes are valid and there is enough room.
            unsafe {
                match (nearest, dims.len()) {
                    (true, _) => entry.sample::<1>(&taps, first, n),
                    (false, 1) => entry.sample::<2>(&taps, first, n),
                    (false, 2) => entry.sample::<4>(&taps, first, n),
                    (false, _) => entry.sample::<8>(&taps, first, n),
                }
            }
        }
    }
}

impl BatchEntry {
    /// Writes the values of all channels at `n` positions from `first` on.
    ///
    /// # Safety
    ///
    /// The planes, the positions and the room for values exist. The indices of the first `N` taps are indices of elements.
    #[inline(always)]
    unsafe fn sample<const N: usize>(self, taps: &Taps, first: usize, n: usize) {
        for channel in 0..self.channels {
            // SAFETY: this function has the same contract, and `n` is at most the number of positions of the taps.
            unsafe {
                let (plane, out) =
                    (self.x.add(channel * self.size), self.out.add(channel * self.count + first));
                for p in 0..n.min(TOGETHER) {
                    let mut sum = -0.0;
                    for tap in 0..N {
                        let index = *taps.index.get_unchecked(tap).get_unchecked(p);
                        let kept = *taps.kept.get_unchecked(tap).get_unchecked(p);
                        let x = f32::from_bits((*plane.add(index as usize)).to_bits() & kept);
                        sum += x * *taps.weight.get_unchecked(tap).get_unchecked(p);
                    }
                    *out.add(p) = sum;
                }
            }
        }
    }
}

/// Samples contiguous planes with the extents `dims`. There are `channels` planes for each of `batch` entries, and
/// `count` positions for each entry.
///
/// # Safety
///
/// There are one to [`MOST`] dimensions without an extent of 0, and a plane has fewer than 2³¹ elements. `x` points to
/// the planes, `grid` points to a number for each position and dimension, and `out` has room for
/// `batch * channels * count` values.
pub(crate) unsafe fn sample(
    sampling: Sampling,
    [batch, channels, count]: [usize; 3],
    dims: &[usize],
    x: *const f32,
    grid: *const f32,
    out: *mut f32,
) {
    let size: usize = dims.iter().product();
    let mut stride = size;
    let mut along = [Along::new(sampling, 1, 0); MOST];
    for (along, &extent) in along.iter_mut().zip(dims) {
        stride /= extent;
        *along = Along::new(sampling, extent, stride);
    }
    let dims = along.get(..dims.len()).unwrap_or_default();
    let shared = Shared((x, grid, out));
    let parts = count.div_ceil(TOGETHER);
    walk::split(batch * parts, TOGETHER * channels, GRAIN, |from, to| {
        let (x, grid, out) = shared.get();
        for part in from..to {
            let (entry, from) = (part / parts, part % parts * TOGETHER);
            // SAFETY: the caller guarantees that these elements are valid.
            let entry = unsafe {
                BatchEntry {
                    x: x.add(entry * channels * size),
                    grid: grid.add(entry * count * dims.len()),
                    out: out.add(entry * channels * count),
                    channels,
                    size,
                    count,
                }
            };
            dispatch(SampleRange { entry, dims, from, to: count.min(from + TOGETHER) });
        }
    });
}
