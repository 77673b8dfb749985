//! The transforms before and after the matrix products of points.

use super::{Plan, Segment, Winograd};
use crate::kernels::lanes::{Baseline, Lanes};
#[cfg(target_arch = "x86_64")]
use crate::level::Level;
use crate::level::level;
use std::ops::Range;

/// Implements `run`, which calls the version of a function for the vectors of this processor.
macro_rules! for_vectors {
    ($type:ident, $of:ident) => {
        impl $type<'_> {
            /// # Safety
            ///
            /// The memory that the function reads and writes is valid, up to a vector beyond the last tile.
            pub(super) unsafe fn run(&self) {
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
                        Level::Avx512 if !self.of.is_narrow() => avx512(self),
                        #[cfg(target_arch = "x86_64")]
                        Level::Avx512 | Level::Avx2 => avx2(self),
                        _ => $of::<Baseline>(self),
                    }
                }
            }
        }
    };
}

/// Tiles to transform to points, in panels.
pub(super) struct Inward<'a> {
    pub(super) of: &'a Winograd<'a>,
    pub(super) segments: &'a [Segment],
    pub(super) channels: Range<usize>,
    pub(super) x: *const f32,
    /// The memory of the panel of the first point.
    pub(super) to: *mut f32,
    /// The distance from one point to the next, in elements.
    pub(super) points: usize,
    /// The number of tiles of a panel.
    pub(super) width: usize,
}

for_vectors!(Inward, inward);

/// # Safety
///
/// As for [`Inward::run`], with the instruction set of the vectors.
#[inline(always)]
unsafe fn inward<V: Lanes>(args: &Inward<'_>) {
    let &Inward { of, segments, ref channels, x, to, points, width } = args;
    debug_assert!(width >= V::LANES);
    for channel in channels.clone() {
        for &Segment { n, to: at, row, column } in segments {
            for i in (0..n).step_by(V::LANES) {
                // A vector may write beyond the tiles of its segment: the next segment or the next channel follows there and
                // is written later, because a panel is at least as wide as a vector. After the last channel, this is not
                // allowed, because that memory may belong to another thread.
                let room = if channel + 1 < channels.end { V::LANES } else { width - at - i };
                // SAFETY: this function's contract, and the above.
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
                        for (y, point) in [a.sub(c), b.add(c), c.sub(b), b.sub(d)].into_iter().enumerate() {
                            write(to.add(4 * y * points), point, room);
                        }
                    }
                }
            }
        }
    }
}

/// Sums of points to transform to results.
pub(super) struct Outward<'a> {
    pub(super) of: &'a Winograd<'a>,
    pub(super) segments: &'a [Segment],
    pub(super) filters: Range<usize>,
    pub(super) sums: *const f32,
    /// The number of tiles.
    pub(super) n: usize,
    pub(super) plus: *const f32,
    pub(super) out: *mut f32,
}

for_vectors!(Outward, outward);

/// # Safety
///
/// As for [`Outward::run`], with the instruction set of the vectors.
#[inline(always)]
unsafe fn outward<V: Lanes>(args: &Outward<'_>) {
    let &Outward { of, segments, filters: ref range, sums, n: tiles, plus, out } = args;
    let Plan { plane, filters, .. } = of.plan;
    let (_, results) = plane.sizes();
    for filter in range.clone() {
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
                    write_pair(line, upper_left.add(plus).zip(upper_right.add(plus)), last);
                    if 2 * row + 1 < plane.rows.out {
                        let lower = lower_left.add(plus).zip(lower_right.add(plus));
                        write_pair(line.add(plane.cols.out), lower, last);
                    }
                }
            }
        }
    }
}

/// Reduces the four points of a line to two results.
///
/// # Safety
///
/// The processor has the instruction set of the vectors.
#[inline(always)]
unsafe fn folded<V: Lanes>(a: V, b: V, c: V, d: V) -> [V; 2] {
    // SAFETY: this function has the same contract.
    unsafe { [a.add(b).add(c), b.sub(c).sub(d)] }
}

/// Writes the first `n` elements of a vector, or all if it has fewer.
///
/// # Safety
///
/// `to` has room for them.
#[inline(always)]
unsafe fn write<V: Lanes>(to: *mut f32, x: V, n: usize) {
    // SAFETY: this function has the same contract.
    unsafe { if n >= V::LANES { x.store(to) } else { x.store_some(to, n) } }
}

/// Writes the first `n` elements of two vectors.
///
/// # Safety
///
/// `to` has room for them.
#[inline(always)]
unsafe fn write_pair<V: Lanes>(to: *mut f32, (low, high): (V, V), n: usize) {
    // SAFETY: this function has the same contract.
    unsafe {
        write(to, low, n);
        if n > V::LANES {
            write(to.add(V::LANES), high, n - V::LANES);
        }
    }
}
