//! Samples planes of `f32` at positions between their elements.

use super::dispatch::{VectorLoop, dispatch};
use super::{Shared, walk};

/// The maximum number of dimensions of a plane.
pub(crate) const MOST: usize = 3;
/// The number of positions that are sampled together. Their intermediate values stay in the first-level cache.
const TOGETHER: usize = 64;
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

    /// Finds the elements around positions from -1 to 1.
    #[inline(always)]
    fn located(&self, mut at: Each<f32>, n: usize) -> Neighbours {
        let Along { sampling: Sampling { nearest, beyond, centres }, .. } = *self;
        let (steps, shift) = if centres { (self.last, 0.0) } else { (self.extent as f32, -0.5) };
        for at in &mut at {
            let x = if at.is_nan() { -1.0 } else { *at };
            let x = ((x + 1.0) * (steps / 2.0) + shift).clamp(-FARTHEST, FARTHEST);
            let x = if nearest { x.round_ties_even() } else { x };
            let clamp = matches!(beyond, Beyond::Border { .. }) & self.outside(x);
            *at = if clamp { self.clamped(x) } else { x };
        }
        self.mirror(&mut at, n);
        let mut next = at;
        let mut all = Neighbours::NONE;
        let [shares, rests] = &mut all.share;
        for (((at, next), share), rest) in at.iter_mut().zip(&mut next).zip(shares).zip(rests) {
            let base = if nearest { *at } else { at.floor() };
            *rest = *at - base;
            *share = if nearest { 1.0 } else { 1.0 - *rest };
            *at = base;
            *next = base + 1.0;
        }
        for ((place, index), kept) in [at, next].iter_mut().zip(&mut all.index).zip(&mut all.kept) {
            if beyond == Beyond::Zeros {
                for (kept, &place) in kept.iter_mut().zip(&*place) {
                    *kept = if place < 0.0 || place > self.last { 0 } else { u32::MAX };
                }
            }
            self.mirror(place, n);
            for (index, &place) in index.iter_mut().zip(&*place) {
                let place = self.clamped(if place.is_nan() { 0.0 } else { place });
                // SAFETY: the number is from 0 to 2³⁰, because there are at most 2³⁰ elements.
                let place = unsafe { place.to_int_unchecked::<i32>() } as u32;
                *index = place.min(self.extent as u32 - 1);
            }
        }
        all
    }

    /// Mirrors the first `n` positions if the values outside are mirrored.
    #[inline(always)]
    fn mirror(&self, places: &mut Each<f32>, n: usize) {
        if let Beyond::Mirror { .. } = self.sampling.beyond {
            places.iter_mut().take(n).for_each(|place| *place = self.mirrored(*place));
        }
    }
}

/// One number for each of `TOGETHER` positions.
type Each<T> = [T; TOGETHER];

/// The elements around some positions along one dimension.
struct Neighbours {
    index: [Each<u32>; 2],
    /// A mask with all bits set, or with no bits if the element does not exist, so that its value is zero.
    kept: [Each<u32>; 2],
    share: [Each<f32>; 2],
}

impl Neighbours {
    const NONE: Neighbours = Neighbours {
        index: [[0; TOGETHER]; 2],
        kept: [[u32::MAX; TOGETHER]; 2],
        share: [[0.0; TOGETHER]; 2],
    };

    /// Expresses both neighbours by the elements at one index and behind it, if all neighbours are together. Writes this index to
    /// the first one, and masks that select the element behind it for either neighbour. Returns whether they are together.
    #[inline(always)]
    fn join(&mut self, extent: usize, second: &mut [Each<u32>; 2]) -> bool {
        let Some(most) = extent.checked_sub(2) else { return false };
        let ([index, next], [first, second]) = (&mut self.index, second);
        let mut starts = *index;
        let mut apart = false;
        for (((start, next), first), second) in starts.iter_mut().zip(next).zip(first).zip(second) {
            let index = *start;
            *start = index.min(*next).min(most as u32);
            let steps = [index - *start, *next - *start];
            apart |= steps.iter().any(|&step| step > 1);
            [*first, *second] = steps.map(u32::wrapping_neg);
        }
        if !apart {
            *index = starts;
        }
        !apart
    }
}

/// The elements around some positions, one for each combination of neighbours along the dimensions.
struct Taps {
    /// The indices of the elements in a plane.
    index: [Each<u32>; 1 << MOST],
    kept: [Each<u32>; 1 << MOST],
    weight: [Each<f32>; 1 << MOST],
    /// For each of two adjacent taps, masks that select the element behind the one at the index of the first tap.
    second: [Each<u32>; 2],
}

impl Taps {
    const NONE: Taps = Taps {
        index: [[0; TOGETHER]; 1 << MOST],
        kept: [[0; TOGETHER]; 1 << MOST],
        weight: [[0.0; TOGETHER]; 1 << MOST],
        second: [[0; TOGETHER]; 2],
    };

    /// Sets the taps for `n` positions of the grid. Returns how many there are, and whether the elements of each two adjacent
    /// taps are among the two elements at the index of the first one, as [`Neighbours::join`] leaves them.
    #[inline(always)]
    fn set(&mut self, dims: &[Along], grid: &[f32], n: usize) -> (usize, bool) {
        let rank = dims.len();
        let (mut count, mut joined) = (1, false);
        for (i, along) in dims.iter().enumerate() {
            let mut at = [0.0; TOGETHER];
            for (at, position) in at.iter_mut().zip(grid.chunks_exact(rank)) {
                // The grid lists the innermost dimension first.
                *at = position.get(rank - 1 - i).copied().unwrap_or_default();
            }
            let mut around = along.located(at, n);
            let each = if along.sampling.nearest { 1 } else { 2usize };
            if i + 1 == rank && each == 2 {
                joined = around.join(along.extent, &mut self.second);
            }
            // Neighbours along the dimensions after `i` have adjacent taps.
            let behind = each.pow((rank - 1 - i) as u32);
            count *= each;
            let taps = self.index.iter_mut().zip(&mut self.kept).zip(&mut self.weight).enumerate();
            for (tap, ((index, kept), weight)) in taps.take(each.pow(rank as u32)) {
                let next = tap / behind % each;
                let [places, others] = &around.index;
                let places = if next == 0 { places } else { others };
                let [exist, others] = &around.kept;
                let exist = if next == 0 { exist } else { others };
                let [shares, others] = &around.share;
                let shares = if next == 0 { shares } else { others };
                let from = places.iter().zip(exist).zip(shares);
                for (((index, kept), weight), ((&place, &exists), &share)) in
                    index.iter_mut().zip(kept).zip(weight).zip(from)
                {
                    let place = place * along.stride;
                    (*index, *kept, *weight) = match i {
                        0 => (place, exists, share),
                        _ => (*index + place, *kept & exists, *weight * share),
                    };
                }
            }
        }
        (count, joined)
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

/// A loop over `n` positions of an entry from `first` on, at most [`TOGETHER`].
struct SampleRange<'a> {
    entry: BatchEntry,
    dims: &'a [Along],
    taps: &'a mut Taps,
    first: usize,
    n: usize,
}

impl VectorLoop for SampleRange<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let SampleRange { entry, dims, taps, first, n } = self;
        let rank = dims.len();
        // SAFETY: the creator of this value guarantees `rank` numbers for each position.
        let grid = unsafe { std::slice::from_raw_parts(entry.grid.add(first * rank), n * rank) };
        let (count, joined) = taps.set(dims, grid, n);
        // SAFETY: the creator of this value guarantees that the planes are valid and there is enough room. The index of joined
        // neighbours is at most the index of the last but one element of a row.
        unsafe {
            if joined {
                entry.sample::<2>(taps, count, first, n);
            } else {
                entry.sample::<1>(taps, count, first, n);
            }
        }
    }
}

impl BatchEntry {
    /// Writes the values of all channels at `n` positions from `first` on. If `STEP` is 2, each two adjacent taps select their elements
    /// from two elements, which are read together.
    ///
    /// # Safety
    ///
    /// The planes and the room for values exist, and `n` is at most [`TOGETHER`]. The indices of each `STEP`-th of the first `count`
    /// taps are indices of elements with `STEP - 1` elements behind them, for all positions of the taps.
    #[inline(always)]
    unsafe fn sample<const STEP: usize>(self, taps: &Taps, count: usize, first: usize, n: usize) {
        // Read scattered elements in loops of their own, so that the other loops vectorize. Lanes behind the positions have
        // indices of elements too.
        let (mut pairs, lanes) = ([[0; TOGETHER]; 2], n.next_multiple_of(4).min(TOGETHER));
        let [firsts, seconds] = &taps.second;
        for channel in 0..self.channels {
            // SAFETY: this function has the same contract.
            let (plane, out) =
                unsafe { (self.x.add(channel * self.size), self.out.add(channel * self.count + first)) };
            let mut all = [-0.0; TOGETHER];
            let sums = all.get_mut(..lanes).unwrap_or_default();
            let each = || taps.kept.iter().zip(&taps.weight);
            let others = each().skip(STEP - 1).step_by(STEP);
            let each = taps.index.iter().zip(each()).step_by(STEP).zip(others).take(count / STEP);
            for ((index, (kept, weight)), (other_kept, other_weight)) in each {
                if STEP == 1 {
                    for ((sum, &i), (kept, weight)) in sums.iter_mut().zip(index).zip(kept.iter().zip(weight))
                    {
                        // SAFETY: this function has the same contract.
                        let x = unsafe { (*plane.add(i as usize)).to_bits() };
                        *sum += f32::from_bits(x & kept) * weight;
                    }
                    continue;
                }
                // SAFETY: this function has the same contract.
                unsafe { read_pairs(plane, index, &mut pairs, lanes) };
                let [xs, ys] = &pairs;
                let firsts = firsts.iter().zip(kept).zip(weight);
                let seconds = seconds.iter().zip(other_kept).zip(other_weight);
                let both = sums.iter_mut().zip(xs.iter().zip(ys)).zip(firsts.zip(seconds));
                for ((sum, (x, y)), (((a, a_kept), a_weight), ((b, b_kept), b_weight))) in both {
                    let [a, b] = [a, b].map(|second| x & !second | y & second);
                    *sum += f32::from_bits(a & a_kept) * a_weight;
                    *sum += f32::from_bits(b & b_kept) * b_weight;
                }
            }
            // SAFETY: this function has the same contract; `n` is at most the number of sums.
            unsafe { out.copy_from_nonoverlapping(sums.as_ptr(), n) };
        }
    }
}

/// Reads the elements at the first `n` indices, and the elements behind them.
///
/// # Safety
///
/// `n` is a multiple of 4 and at most [`TOGETHER`], and the plane has these elements.
#[inline(always)]
unsafe fn read_pairs(plane: *const f32, index: &Each<u32>, [xs, ys]: &mut [Each<u32>; 2], n: usize) {
    // SAFETY: this function has the same contract.
    let pair = |i: u32| unsafe { plane.add(i as usize).cast::<[u32; 2]>() };
    let (index, _) = index.as_chunks::<4>();
    let ((xs, _), (ys, _)) = (xs.as_chunks_mut::<4>(), ys.as_chunks_mut::<4>());
    for ((&[i, j, k, l], x), y) in index.iter().zip(xs).zip(ys).take(n / 4) {
        // Compilers load single elements and insert them, which takes twice as long.
        #[cfg(target_arch = "x86_64")]
        // SAFETY: this function has the same contract, and each processor has these instructions.
        unsafe {
            use std::arch::x86_64::*;
            let two = |i, j| _mm_loadh_pd(_mm_load_sd(pair(i).cast()), pair(j).cast());
            let (low, high) = (_mm_castpd_ps(two(i, j)), _mm_castpd_ps(two(k, l)));
            _mm_storeu_ps(x.as_mut_ptr().cast(), _mm_shuffle_ps::<0b10_00_10_00>(low, high));
            _mm_storeu_ps(y.as_mut_ptr().cast(), _mm_shuffle_ps::<0b11_01_11_01>(low, high));
        }
        #[cfg(not(target_arch = "x86_64"))]
        for ((x, y), i) in x.iter_mut().zip(y).zip([i, j, k, l]) {
            // SAFETY: this function has the same contract.
            [*x, *y] = unsafe { *pair(i) };
        }
    }
}

/// Samples contiguous planes with the extents `dims`. There are `channels` planes for each of `batch` entries, and
/// `count` positions for each entry.
///
/// # Safety
///
/// There are one to [`MOST`] dimensions without an extent of 0, and a plane has at most 2³⁰ elements. `x` points to
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
        let mut taps = Taps::NONE;
        for part in from..to {
            let (entry, first) = (part / parts, part % parts * TOGETHER);
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
            dispatch(SampleRange { entry, dims, taps: &mut taps, first, n: TOGETHER.min(count - first) });
        }
    });
}
