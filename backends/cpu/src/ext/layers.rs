//! Convolutions in three dimensions, computed as convolutions in two dimensions. The layers of a window become additional
//! channels.
//!
//! For each layer of results, the planes that its windows read are copied one after another. Filters already have that order.

use super::conv::{Plan, convolve, widened};
use super::fused::Results;
use super::window::{Line, Plane};
use super::{floats, rounded};
use crate::array::Array;
use crate::cpu::Cpu;
use crate::error::Result;
use crate::kernels::{Shared, walk};
use crate::ops::made;
use crate::pace::{Pace, STRETCH};
use crate::pool::Pool;
use bb::ext::ConvOptions;
use bb::{DataType, Shape, Tensor};
use smallvec::SmallVec;
use std::sync::Arc;

/// The maximum number of elements of input planes that are copied for one two-dimensional convolution.
const TOGETHER: usize = 1 << 20;

/// The number of copied elements below which a second thread costs more than it saves.
const GRAIN: usize = 1 << 16;

/// The extents of a convolution in three dimensions.
#[derive(Debug)]
pub(super) struct Layers {
    line: Line,
    /// The two-dimensional convolution. Each layer of results is one of its samples.
    plan: Plan,
    n: usize,
    channels: usize,
}

impl Layers {
    /// Resolves a convolution. Returns `None` for other shapes and for invalid arguments, which the operation's body handles.
    pub(super) fn new(
        x: &[usize],
        w: &[usize],
        bias: Option<&[usize]>,
        options: ConvOptions<'_>,
    ) -> Option<Layers> {
        let ConvOptions { strides, pads, dilations, group } = options;
        let (&[n, channels, ..], &[m, depth, ref kernel @ ..]) = (x, w) else { return None };
        let kernel: SmallVec<[i64; 3]> = kernel.iter().map(|&k| k as i64).collect();
        let (line, plane) = Plane::of_layers(x, &kernel, [strides, pads, dilations])?;
        let groups = usize::try_from(group).ok().filter(|&g| g > 0 && m.is_multiple_of(g))?;
        let together = n.checked_mul(line.out)?;
        let depth = depth.checked_mul(line.kernel)?;
        let fits = groups.checked_mul(depth) == channels.checked_mul(line.kernel)
            && plane.is_countable(together, m)
            && bias.is_none_or(|bias| bias == [m]);
        let plan = Plan { plane, n: together, groups, depth, filters: m / groups };
        channels.checked_mul(line.kernel)?.checked_mul(plan.plane.sizes().0)?;
        fits.then_some(Layers { line, plan, n, channels })
    }

    /// Returns the shape of the results.
    fn shape(&self) -> Shape {
        let Layers { line, plan, n, .. } = self;
        [*n, plan.groups * plan.filters, line.out].into_iter().chain(plan.plane.out.iter().copied()).collect()
    }

    /// Copies the planes that the windows of `count` layers of results read. `first` is the first layer, counted over all
    /// samples.
    ///
    /// # Safety
    ///
    /// `x` is the operand, contiguous, and `to` has room for the planes.
    unsafe fn put_together(&self, x: *const f32, first: usize, count: usize, to: *mut f32) {
        let Layers { line, plan, channels, .. } = self;
        let (size, _) = plan.plane.sizes();
        let shared = Shared((x, to));
        walk::split(count * channels * line.kernel, size, GRAIN, |start, end| {
            let (x, to) = shared.get();
            let mut pace = Pace::new();
            for i in start..end {
                let (k, channel, layer) =
                    (i % line.kernel, i / line.kernel % channels, first + i / line.kernel / channels);
                let (sample, o) = (layer / line.out, layer % line.out);
                // SAFETY: plane `i` is within `to`, and the plane of this channel is within the operand.
                unsafe {
                    let to = to.add(i * size);
                    let Some(position) = line.position(k, o) else {
                        to.write_bytes(0, size);
                        continue;
                    };
                    let from = x.add(((sample * channels + channel) * line.extent + position) * size);
                    for at in (0..size).step_by(STRETCH) {
                        let n = STRETCH.min(size - at);
                        pace.step(n);
                        to.add(at).copy_from_nonoverlapping(from.add(at), n);
                    }
                }
            }
        });
    }

    /// Copies planes of results to their positions in `out`. `from` contains the layers in order, each with the planes of all filters.
    ///
    /// # Safety
    ///
    /// `from` has `count` layers, and `out` has room for all results.
    unsafe fn take_apart(&self, from: *const f32, first: usize, count: usize, out: *mut f32) {
        let Layers { line, plan, .. } = self;
        let (_, size) = plan.plane.sizes();
        let filters = plan.groups * plan.filters;
        let shared = Shared((from, out));
        walk::split(count * filters, size, GRAIN, |start, end| {
            let (from, out) = shared.get();
            for i in start..end {
                let (filter, layer) = (i % filters, first + i / filters);
                let to = (layer / line.out * filters + filter) * line.out + layer % line.out;
                // SAFETY: both planes are within their arrays, and no other thread writes this one.
                unsafe { out.add(to * size).copy_from_nonoverlapping(from.add(i * size), size) };
            }
        });
    }

    /// Computes all results and writes them to `out`.
    ///
    /// # Safety
    ///
    /// The operands are contiguous and have the extents that were resolved (`plus` may be null); `out` has room for the results.
    unsafe fn convolve(
        &self,
        pool: &Arc<Pool>,
        x: *const f32,
        w: *const f32,
        plus: *const f32,
        out: *mut f32,
    ) -> Result<()> {
        let Layers { line, plan, channels, .. } = self;
        let (size, results) = plan.plane.sizes();
        let operand = channels * line.kernel * size;
        let result = plan.groups * plan.filters * results;
        if plan.n == 0 || result == 0 {
            return Ok(());
        }
        let at_once = (TOGETHER / operand.max(result)).clamp(1, plan.n);
        let planes = pool.take(at_once * operand * size_of::<f32>())?;
        let computed = pool.take(at_once * result * size_of::<f32>())?;
        for first in (0..plan.n).step_by(at_once) {
            let count = at_once.min(plan.n - first);
            let plan = Plan { n: count, ..plan.clone() };
            // SAFETY: the caller guarantees that the operands are valid; the buffers have room for `count` layers.
            unsafe {
                self.put_together(x, first, count, planes.ptr().cast());
                let sums = Results::plain(computed.ptr().cast());
                convolve(pool, &plan, planes.ptr().cast(), w, plus, &sums)?;
                self.take_apart(computed.ptr().cast(), first, count, out);
            }
        }
        Ok(())
    }
}

/// Computes a resolved convolution in three dimensions.
pub(super) fn conv(cpu: &Cpu, layers: &Layers, x: &Array, w: &Array, bias: Option<&Array>) -> Result<Array> {
    let (pool, dtype) = (cpu.pool(), x.dtype());
    let (x, w) = (widened(pool, x)?, widened(pool, w)?);
    let bias = bias.map(|bias| widened(pool, bias)).transpose()?;
    let plus = bias.as_ref().map_or(std::ptr::null(), floats);
    let mut done = Ok(());
    let out = made(pool, DataType::F32, layers.shape(), |out| {
        // SAFETY: the operands are contiguous and have the extents that were resolved, and `out` has room for all results.
        done = unsafe { layers.convolve(pool, floats(&x), floats(&w), plus, out.cast()) };
    })?;
    done?;
    rounded(pool, out, dtype)
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::unwrap_used,
        clippy::indexing_slicing,
        clippy::cast_possible_truncation,
        reason = "tests"
    )]

    use super::*;
    use crate::level::{at, levels};
    use crate::threads::as_if;
    use bb::ext::Nn;
    use bb::{Backend, RoundMode, TensorData};

    /// A test case: the numbers of samples, groups, and channels and filters per group; the extents of the operand and of the
    /// windows; strides, padding and dilations.
    #[derive(Debug)]
    struct Case {
        n: usize,
        groups: usize,
        depth: usize,
        filters: usize,
        extents: [usize; 3],
        kernel: [usize; 3],
        strides: [i64; 3],
        pads: [i64; 6],
        dilations: [i64; 3],
    }

    const PLAIN: Case = Case {
        n: 1,
        groups: 1,
        depth: 3,
        filters: 5,
        extents: [5, 7, 9],
        kernel: [3, 3, 3],
        strides: [1; 3],
        pads: [0; 6],
        dilations: [1; 3],
    };

    impl Case {
        fn outs(&self) -> [usize; 3] {
            [0, 1, 2].map(|a| {
                let span = (self.kernel[a] as i64 - 1) * self.dilations[a] + 1;
                let room = self.extents[a] as i64 + self.pads[a] + self.pads[a + 3] - span;
                if room < 0 { 0 } else { (room / self.strides[a] + 1) as usize }
            })
        }

        /// Returns each result, paired with the sum of the magnitudes of its terms.
        fn by_definition(&self, x: &[f32], w: &[f32], bias: &[f32]) -> Vec<(f64, f64)> {
            let (outs, count) = (self.outs(), |extents: [usize; 3]| extents.iter().product::<usize>());
            let places = |extents: [usize; 3]| {
                (0..count(extents))
                    .map(move |i| [i / extents[2] / extents[1], i / extents[2] % extents[1], i % extents[2]])
            };
            let mut all = Vec::new();
            for (sample, filter) in
                (0..self.n).flat_map(|s| (0..self.groups * self.filters).map(move |f| (s, f)))
            {
                for out in places(outs) {
                    let mut sum = (f64::from(bias[filter]), f64::from(bias[filter]).abs());
                    for c in 0..self.depth {
                        let channel = filter / self.filters * self.depth + c;
                        let plane = (sample * self.groups * self.depth + channel) * count(self.extents);
                        for (k, place) in places(self.kernel).enumerate() {
                            let at = [0, 1, 2].map(|a| {
                                let at = out[a] as i64 * self.strides[a] - self.pads[a];
                                usize::try_from(at + place[a] as i64 * self.dilations[a]).ok()
                            });
                            let [Some(d), Some(h), Some(v)] = at else { continue };
                            if d >= self.extents[0] || h >= self.extents[1] || v >= self.extents[2] {
                                continue;
                            }
                            let x = x[plane + (d * self.extents[1] + h) * self.extents[2] + v];
                            let w = w[(filter * self.depth + c) * count(self.kernel) + k];
                            sum.0 += f64::from(x) * f64::from(w);
                            sum.1 += (f64::from(x) * f64::from(w)).abs();
                        }
                    }
                    all.push(sum);
                }
            }
            all
        }
    }

    fn numbers(n: usize, seed: usize) -> Vec<f32> {
        (0..n).map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 400.6 - 2.5).collect()
    }

    #[test]
    fn convolutions_in_three_dimensions_equal_their_definition() {
        let cpu = Cpu::default();
        let cases = [
            PLAIN,
            Case { n: 2, groups: 8, depth: 1, filters: 1, pads: [1; 6], ..PLAIN },
            Case { groups: 4, depth: 1, filters: 2, strides: [2, 1, 2], pads: [1, 0, 2, 0, 1, 1], ..PLAIN },
            Case {
                n: 2,
                groups: 2,
                depth: 4,
                filters: 6,
                strides: [1, 2, 2],
                pads: [2, 1, 1, 3, 1, 1],
                ..PLAIN
            },
            Case { kernel: [2, 3, 1], dilations: [3, 2, 1], pads: [3, 0, 0, 0, 2, 0], ..PLAIN },
            Case { kernel: [1, 1, 1], depth: 17, filters: 33, ..PLAIN },
            Case { kernel: [5, 7, 9], ..PLAIN },
            Case { depth: 16, filters: 32, extents: [4, 20, 33], pads: [1; 6], ..PLAIN },
            Case { n: 0, ..PLAIN },
            Case { filters: 0, ..PLAIN },
            Case { depth: 0, ..PLAIN },
            // Some windows are entirely in the padding before the operand.
            Case { extents: [1, 2, 3], kernel: [2, 2, 2], pads: [4, 3, 2, 4, 3, 2], ..PLAIN },
        ];
        for case in cases {
            let channels = case.groups * case.depth;
            let x_shape = [case.n, channels].into_iter().chain(case.extents).collect::<Vec<_>>();
            let m = case.groups * case.filters;
            let w_shape = [m, case.depth].into_iter().chain(case.kernel).collect::<Vec<_>>();
            let values = [x_shape.iter().product(), w_shape.iter().product(), m].map(|n| numbers(n, n % 13));
            let [x, w, bias] = [(&x_shape, 0), (&w_shape, 1), (&vec![m], 2)]
                .map(|(shape, i)| cpu.constant(&TensorData::new(shape, &values[i]).unwrap()).unwrap());
            let want = case.by_definition(&values[0], &values[1], &values[2]);
            let options = ConvOptions {
                strides: &case.strides,
                pads: &case.pads,
                dilations: &case.dilations,
                group: case.groups as i64,
            };
            assert!(Layers::new(&x_shape, &w_shape, Some(&[m]), options).is_some(), "{case:?}");
            let outs = case.outs();
            let computed = |x: &Array, w: &Array, bias: &Array| {
                let y = cpu.conv(x, w, Some(bias), options).unwrap();
                assert_eq!(y.shape(), [case.n, m, outs[0], outs[1], outs[2]], "{case:?}");
                let y = cpu.cast(&y, DataType::F32, true, RoundMode::default()).unwrap();
                cpu.to_host(&y).unwrap().as_slice::<f32>().unwrap().to_vec()
            };
            for level in levels() {
                let got = at(level, || computed(&x, &w, &bias));
                assert_eq!(got.len(), want.len(), "{case:?}");
                for (i, (&got, &(want, magnitude))) in got.iter().zip(&want).enumerate() {
                    let near = (f64::from(got) - want).abs() <= 3e-6 * magnitude;
                    assert!(near, "{case:?} at {level:?}: element {i} is {got}, expected {want}");
                }
            }
            let one = as_if(1, || computed(&x, &w, &bias));
            assert_eq!(as_if(3, || computed(&x, &w, &bias)), one, "{case:?}");
            // 16-bit floats: the products are added as `f32`, and the sum is rounded once.
            let [x, w, bias] =
                [x, w, bias].map(|x| cpu.cast(&x, DataType::F16, true, RoundMode::default()).unwrap());
            let wide =
                [&x, &w, &bias].map(|x| cpu.cast(x, DataType::F32, true, RoundMode::default()).unwrap());
            let sums = cpu.conv(&wide[0], &wide[1], Some(&wide[2]), options).unwrap();
            let sums = cpu.cast(&sums, DataType::F16, true, RoundMode::default()).unwrap();
            let sums = cpu.cast(&sums, DataType::F32, true, RoundMode::default()).unwrap();
            let sums = cpu.to_host(&sums).unwrap().as_slice::<f32>().unwrap().to_vec();
            assert_eq!(computed(&x, &w, &bias), sums, "{case:?}");
        }
    }

    #[test]
    fn other_operands_are_left_to_the_body() {
        let options = ConvOptions { strides: &[], pads: &[], dilations: &[], group: 1 };
        let new = |x: &[usize], w: &[usize], options| Layers::new(x, w, None, options).is_some();
        assert!(new(&[1, 2, 3, 4, 5], &[7, 2, 3, 3, 3], options));
        assert!(!new(&[1, 2, 3, 4, 5], &[7, 3, 3, 3, 3], options));
        assert!(!new(&[1, 2, 3, 4], &[7, 2, 3, 3], options));
        assert!(!new(&[1, 2, 3, 4, 5], &[7, 2, 4, 3, 3], options));
        assert!(!new(&[1, 2, 3, 4, 5], &[7, 2, 3, 3, 3], ConvOptions { strides: &[1, 1], ..options }));
        assert!(!new(&[1, 2, 3, 4, 5], &[7, 2, 3, 3, 3], ConvOptions { group: 0, ..options }));
        assert!(!new(&[usize::MAX, 2, 3, 4, 5], &[7, 2, 1, 1, 1], options));
    }
}
