//! Tests that convolutions and pooling equal their definitions at every instruction set level. The definitions are
//! computed in `f64`, element by element.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation, reason = "tests")]

use crate::array::Array;
use crate::cpu::Cpu;
use crate::level::{at, levels};
use crate::threads::as_if;
use bb::ext::{AveragePoolOptions, ConvOptions, ConvTransposeOptions, MaxPoolOptions, Nn};
use bb::{Backend, DataType, RoundMode, Tensor, TensorData};

/// The windows over a plane, along its two dimensions.
#[derive(Debug, Clone, Copy)]
struct Windows {
    kernel: [usize; 2],
    strides: [i64; 2],
    /// In the order top, left, bottom, right.
    pads: [i64; 4],
    dilations: [i64; 2],
}

const fn windows(kernel: [usize; 2], strides: [i64; 2], pads: [i64; 4], dilations: [i64; 2]) -> Windows {
    Windows { kernel, strides, pads, dilations }
}

impl Windows {
    /// Returns the number of windows along a dimension.
    fn count(&self, axis: usize, extent: usize, ceil: bool) -> usize {
        let span = (self.kernel[axis] as i64 - 1) * self.dilations[axis] + 1;
        let (before, after) = (self.pads[axis], self.pads[axis + 2]);
        let starts = (0..).map(|o| o * self.strides[axis]);
        let last = extent as i64 + before + after - span;
        let whole = starts.clone().take_while(|&start| start <= last).count();
        let next = whole as i64 * self.strides[axis];
        let partly = ceil && next < extent as i64 + before && next - self.strides[axis] < last;
        whole + usize::from(partly)
    }

    /// Calls `f` for each element of each window, with the window's index, the element's index in the window, and its
    /// position, which may be in the padding.
    fn each(&self, outs: [usize; 2], mut f: impl FnMut([usize; 2], usize, [i64; 2])) {
        for (oy, ox) in (0..outs[0]).flat_map(|y| (0..outs[1]).map(move |x| (y, x))) {
            for k in 0..self.kernel[0] * self.kernel[1] {
                let at = |axis: usize, o: usize, k: usize| {
                    o as i64 * self.strides[axis] + k as i64 * self.dilations[axis] - self.pads[axis]
                };
                f([oy, ox], k, [at(0, oy, k / self.kernel[1]), at(1, ox, k % self.kernel[1])]);
            }
        }
    }
}

fn inside([h, w]: [usize; 2], [y, x]: [i64; 2]) -> Option<usize> {
    let (y, x) = (usize::try_from(y).ok()?, usize::try_from(x).ok()?);
    (y < h && x < w).then_some(y * w + x)
}

fn numbers(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 400.6 - 2.5).collect()
}

fn tensor(cpu: &Cpu, shape: &[usize], values: &[f32]) -> Array {
    cpu.constant(&TensorData::new(shape, values).unwrap()).unwrap()
}

fn list(cpu: &Cpu, x: &Array) -> Vec<f32> {
    let x = cpu.cast(x, DataType::F32, true, RoundMode::default()).unwrap();
    cpu.to_host(&x).unwrap().as_slice::<f32>().unwrap().to_vec()
}

/// Asserts that results equal sums of terms; `want` also has the sum of each result's term magnitudes. Results may be
/// rounded to `digits` bits.
fn assert_sums(got: &[f32], want: &[(f64, f64)], digits: i32, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (&got, &(want, magnitude))) in got.iter().zip(want).enumerate() {
        let got = f64::from(got);
        let near = (got - want).abs() <= 3e-6 * magnitude + want.abs() * 2f64.powi(-digits);
        assert!(near || got.is_nan() && want.is_nan(), "{what}: element {i} is {got}, expected {want}");
    }
}

/// A convolution: the numbers of samples, groups, and channels and filters per group; the extents of the planes; and the
/// windows.
type Case = ([usize; 4], [usize; 2], Windows);

const CASES: [Case; 40] = [
    ([1, 5, 1, 1], [7, 7], windows([3, 3], [1, 1], [1, 1, 1, 1], [1, 1])),
    ([2, 3, 1, 1], [14, 14], windows([5, 5], [1, 1], [2, 2, 2, 2], [1, 1])),
    ([1, 2, 1, 1], [28, 28], windows([3, 3], [1, 1], [1, 1, 1, 1], [1, 1])),
    ([1, 2, 1, 1], [113, 112], windows([3, 3], [2, 2], [1, 1, 1, 1], [1, 1])),
    ([1, 2, 1, 1], [14, 15], windows([5, 5], [2, 2], [2, 2, 2, 2], [1, 1])),
    ([1, 3, 1, 1], [6, 3], windows([3, 2], [2, 2], [1, 1, 1, 1], [1, 1])),
    ([1, 2, 1, 1], [9, 33], windows([3, 3], [2, 2], [0, 0, 1, 1], [1, 1])),
    ([1, 2, 1, 1], [40, 61], windows([7, 7], [1, 1], [3, 3, 3, 3], [1, 1])),
    ([1, 2, 1, 1], [33, 70], windows([6, 11], [1, 1], [5, 0, 2, 9], [1, 1])),
    ([1, 3, 1, 1], [19, 23], windows([3, 3], [3, 3], [1, 0, 2, 1], [1, 1])),
    ([1, 3, 1, 1], [19, 23], windows([3, 5], [2, 2], [0, 4, 1, 4], [2, 2])),
    ([1, 3, 1, 1], [20, 17], windows([3, 3], [1, 1], [4, 3, 2, 1], [3, 2])),
    ([1, 3, 1, 1], [20, 17], windows([4, 3], [4, 3], [4, 3, 2, 1], [2, 2])),
    ([1, 2, 1, 3], [9, 9], windows([3, 3], [1, 1], [1, 1, 1, 1], [1, 1])),
    ([1, 2, 1, 1], [1, 1], windows([3, 3], [1, 1], [1, 1, 1, 1], [1, 1])),
    ([1, 2, 1, 1], [3, 2], windows([3, 3], [1, 1], [7, 8, 9, 10], [1, 1])),
    ([1, 2, 1, 1], [1, 500], windows([1, 31], [1, 1], [0, 15, 0, 15], [1, 1])),
    ([1, 2, 1, 1], [1, 300], windows([1, 10], [1, 5], [0, 0, 0, 0], [1, 1])),
    ([1, 2, 1, 1], [300, 5], windows([3, 3], [1, 1], [1, 1, 1, 1], [1, 1])),
    ([2, 3, 4, 4], [11, 18], windows([3, 3], [1, 1], [1, 1, 1, 1], [1, 1])),
    ([1, 1, 3, 16], [33, 47], windows([3, 3], [2, 2], [0, 0, 1, 1], [1, 1])),
    ([2, 1, 3, 40], [30, 30], windows([7, 7], [2, 2], [3, 3, 3, 3], [1, 1])),
    ([1, 1, 80, 50], [9, 13], windows([3, 3], [1, 1], [1, 1, 1, 1], [1, 1])),
    ([1, 2, 10, 12], [7, 7], windows([3, 3], [1, 1], [1, 1, 1, 1], [1, 1])),
    ([2, 1, 60, 20], [17, 19], windows([3, 2], [1, 1], [0, 0, 0, 0], [1, 2])),
    ([1, 1, 20, 33], [21, 20], windows([3, 3], [2, 1], [0, 0, 0, 0], [1, 1])),
    ([1, 1, 20, 9], [21, 20], windows([1, 1], [2, 2], [0, 0, 0, 0], [1, 1])),
    ([1, 1, 20, 9], [6, 7], windows([1, 1], [1, 1], [0, 0, 0, 0], [1, 1])),
    ([2, 1, 40, 70], [40, 40], windows([1, 1], [1, 1], [0, 0, 0, 0], [1, 1])),
    ([1, 1, 30, 70], [1, 700], windows([1, 5], [1, 2], [0, 3, 0, 1], [1, 2])),
    ([1, 1, 30, 70], [700, 1], windows([5, 1], [2, 1], [3, 0, 1, 0], [2, 1])),
    ([1, 3, 1, 1], [300, 1], windows([10, 1], [5, 3], [0, 0, 0, 0], [1, 2])),
    ([1, 1, 10, 20], [4, 4], windows([3, 3], [1, 1], [40, 40, 40, 40], [1, 1])),
    ([2, 21, 1, 1], [7, 7], windows([3, 3], [2, 2], [1, 1, 1, 1], [1, 1])),
    ([1, 35, 1, 1], [8, 8], windows([5, 5], [1, 1], [2, 2, 2, 2], [1, 1])),
    ([1, 9, 1, 1], [1, 40], windows([1, 7], [1, 1], [0, 3, 0, 3], [1, 1])),
    ([3, 8, 1, 1], [7, 6], windows([3, 2], [1, 3], [4, 3, 2, 1], [2, 3])),
    ([1, 16, 1, 1], [2, 3], windows([3, 3], [1, 1], [4, 4, 3, 3], [1, 1])),
    ([0, 2, 1, 1], [7, 7], windows([3, 3], [1, 1], [1, 1, 1, 1], [1, 1])),
    ([1, 1, 0, 12], [7, 7], windows([3, 3], [1, 1], [1, 1, 1, 1], [1, 1])),
];

/// Returns the results of a convolution and the sums of the magnitudes of their terms.
fn convolved(
    [n, groups, depth, filters]: [usize; 4],
    extents: [usize; 2],
    windows: &Windows,
    [x, w, bias]: [&[f32]; 3],
) -> Vec<(f64, f64)> {
    let outs = [windows.count(0, extents[0], false), windows.count(1, extents[1], false)];
    let (size, results) = (extents[0] * extents[1], outs[0] * outs[1]);
    let taps = windows.kernel[0] * windows.kernel[1];
    let m = groups * filters;
    let mut sums = vec![(0.0, 0.0); n * m * results];
    for (i, sums) in sums.chunks_mut(results).enumerate() {
        let (sample, filter) = (i / m, i % m);
        sums.fill((f64::from(bias[filter]), f64::from(bias[filter]).abs()));
        for c in 0..depth {
            let plane = (sample * groups + filter / filters) * depth + c;
            windows.each(outs, |[oy, ox], k, at| {
                let v = inside(extents, at).map_or(0.0, |at| x[plane * size + at]);
                let term = f64::from(w[(filter * depth + c) * taps + k]) * f64::from(v);
                let (sum, magnitude) = &mut sums[oy * outs[1] + ox];
                *sum += term;
                *magnitude += term.abs();
            });
        }
    }
    sums
}

/// Calls `f` at each level, with the operands converted to `dtype`.
fn each_level(cpu: &Cpu, dtype: DataType, operands: &[&Array], f: impl Fn(&[Array], &str)) {
    let cast = |x: &&Array| cpu.cast(x, dtype, true, RoundMode::default()).unwrap();
    let operands: Vec<Array> = operands.iter().map(cast).collect();
    for level in levels() {
        at(level, || f(&operands, &format!("{dtype} at {level:?}")));
    }
}

/// The element types that kernels support, with their number of significand bits.
const TYPES: [(DataType, i32); 3] = [(DataType::F32, 24), (DataType::F16, 11), (DataType::BF16, 8)];

#[test]
fn convolutions_equal_their_definition() {
    let cpu = Cpu::new();
    for ([n, groups, depth, filters], extents, windows) in CASES {
        let m = groups * filters;
        let xs = [n, groups * depth, extents[0], extents[1]];
        let ws = [m, depth, windows.kernel[0], windows.kernel[1]];
        let x = tensor(&cpu, &xs, &numbers(xs.iter().product(), 1));
        let w = tensor(&cpu, &ws, &numbers(ws.iter().product(), 2));
        let b = tensor(&cpu, &[m], &numbers(m, 3));
        for (dtype, digits) in TYPES {
            each_level(&cpu, dtype, &[&x, &w, &b], |operands, at| {
                let [x, w, b] = operands else { panic!("three operands") };
                let values = [list(&cpu, x), list(&cpu, w), list(&cpu, b)];
                let options = ConvOptions {
                    strides: &windows.strides,
                    pads: &windows.pads,
                    dilations: &windows.dilations,
                    group: groups as i64,
                };
                let what = format!("{xs:?} {ws:?} {windows:?}, {at}");
                let conv = |bias| list(&cpu, &cpu.conv(x, w, bias, options).unwrap());
                let want = |bias: &[f32]| {
                    convolved([n, groups, depth, filters], extents, &windows, [&values[0], &values[1], bias])
                };
                assert_sums(&conv(Some(b)), &want(&values[2]), digits, &what);
                if dtype == DataType::F32 {
                    let one = as_if(1, || conv(None));
                    assert_sums(&one, &want(&vec![0.0; m]), digits, &what);
                    assert!(as_if(3, || conv(None)) == one, "threads, {what}");
                }
            });
        }
    }
}

#[test]
fn a_row_is_a_plane_and_infinite_weights_meet_the_padding() {
    let cpu = Cpu::new();
    for (groups, depth, filters, stride) in [(4, 1, 1, 1), (9, 1, 1, 2), (1, 20, 16, 1), (1, 20, 16, 2)] {
        // The last window reaches into the padding.
        let extent = 51 - stride as usize;
        let (c, m) = (groups * depth, groups * filters);
        let (x, mut w) = (numbers(c * extent, 1), numbers(m * depth * 3, 2));
        w[1] = f32::INFINITY;
        let last = w.len() - 1;
        w[last] = f32::NEG_INFINITY;
        let windows = windows([1, 3], [1, stride], [0, 1, 0, 1], [1, 1]);
        let want = convolved([1, groups, depth, filters], [1, extent], &windows, [&x, &w, &vec![0.0; m]]);
        let (x, w) = (tensor(&cpu, &[1, c, extent], &x), tensor(&cpu, &[m, depth, 3], &w));
        let options =
            ConvOptions { pads: &[1, 1], strides: &[stride], group: groups as i64, ..Default::default() };
        each_level(&cpu, DataType::F32, &[&x, &w], |operands, at| {
            let got = list(&cpu, &cpu.conv(&operands[0], &operands[1], None, options).unwrap());
            assert!(got.iter().any(|v| v.is_nan()), "{at}");
            for (got, (want, _)) in got.iter().zip(&want) {
                let near = (f64::from(*got) - want).abs() < 1e-3 || f64::from(*got) == *want;
                assert!(near || got.is_nan() && want.is_nan(), "{got}, expected {want}, {at}");
            }
        });
    }
}

const POOLED: [([usize; 2], Windows); 18] = [
    ([7, 7], windows([3, 3], [2, 2], [1, 1, 1, 1], [1, 1])),
    ([8, 9], windows([2, 2], [2, 2], [0, 0, 0, 0], [1, 1])),
    ([20, 20], windows([13, 13], [1, 1], [6, 6, 6, 6], [1, 1])),
    ([35, 35], windows([3, 3], [1, 1], [1, 1, 1, 1], [1, 1])),
    ([9, 57], windows([2, 3], [2, 2], [0, 1, 1, 0], [1, 1])),
    ([10, 11], windows([3, 2], [1, 3], [2, 1, 1, 0], [2, 3])),
    ([5, 6], windows([3, 3], [5, 4], [0, 0, 0, 0], [1, 1])),
    ([1, 100], windows([1, 4], [1, 4], [0, 2, 0, 1], [1, 1])),
    ([100, 1], windows([4, 1], [4, 2], [2, 0, 1, 0], [1, 1])),
    ([1, 1], windows([1, 1], [1, 1], [0, 0, 0, 0], [1, 1])),
    ([7, 7], windows([7, 7], [1, 1], [0, 0, 0, 0], [1, 1])),
    ([17, 3], windows([2, 2], [3, 3], [1, 1, 1, 1], [1, 1])),
    ([6, 6], windows([1, 1], [2, 2], [0, 0, 0, 0], [1, 1])),
    ([47, 75], windows([3, 3], [2, 2], [1, 1, 1, 1], [1, 1])),
    ([41, 39], windows([2, 2], [2, 2], [0, 0, 0, 0], [1, 2])),
    ([2, 16], windows([2, 2], [2, 2], [0, 0, 0, 0], [1, 1])),
    ([5, 135], windows([2, 4], [1, 2], [0, 3, 1, 1], [1, 3])),
    ([150, 8], windows([2, 3], [2, 1], [0, 1, 0, 1], [1, 1])),
];

#[test]
fn pools_equal_their_definition() {
    let cpu = Cpu::new();
    for (extents, windows) in POOLED {
        let size = extents[0] * extents[1];
        // There is a kernel of its own for many small planes.
        let channels = if size <= 100 { 19 } else { 3 };
        let planes = 2 * channels;
        let mut values = numbers(planes * size, 5);
        values[size / 2] = f32::NAN;
        let x = tensor(&cpu, &[2, channels, extents[0], extents[1]], &values);
        let kernel = windows.kernel.map(|k| k as i64);
        let Windows { strides, pads, dilations, .. } = &windows;
        for (dtype, digits) in TYPES {
            each_level(&cpu, dtype, &[&x], |operands, at| {
                let values = list(&cpu, &operands[0]);
                for ceil in [false, true] {
                    let outs = [windows.count(0, extents[0], ceil), windows.count(1, extents[1], ceil)];
                    let results = outs[0] * outs[1];
                    let mut most = vec![f64::NEG_INFINITY; planes * results];
                    // The sum, the number of elements without padding, and the number with padding.
                    let mut means = vec![(0.0, 0.0, 0.0); planes * results];
                    for plane in 0..planes {
                        windows.each(outs, |[oy, ox], _, [y, x]| {
                            let i = plane * results + oy * outs[1] + ox;
                            let padded = [(y, 0), (x, 1)].iter().all(|&(at, axis)| {
                                at + pads[axis] < extents[axis] as i64 + pads[axis] + pads[axis + 2]
                            });
                            means[i].2 += f64::from(u8::from(padded));
                            if let Some(at) = inside(extents, [y, x]) {
                                let v = f64::from(values[plane * size + at]);
                                most[i] =
                                    if v.is_nan() || most[i].is_nan() { f64::NAN } else { most[i].max(v) };
                                means[i].0 += v;
                                means[i].1 += 1.0;
                            }
                        });
                    }
                    let what = format!("{extents:?} {windows:?}, ceil {ceil}, {at}");
                    let options = MaxPoolOptions { strides, pads, dilations, ceil };
                    let got = list(&cpu, &cpu.max_pool(&operands[0], &kernel, options).unwrap());
                    let most: Vec<f32> = most.iter().map(|&v| v as f32).collect();
                    let same = got.iter().zip(&most).all(|(g, w)| g == w || g.is_nan() && w.is_nan());
                    assert!(same && got.len() == most.len(), "{what}: {got:?}, expected {most:?}");
                    for count_pad in [false, true] {
                        let options = AveragePoolOptions { strides, pads, dilations, ceil, count_pad };
                        let got = list(&cpu, &cpu.average_pool(&operands[0], &kernel, options).unwrap());
                        let mean = |&(sum, inside, all): &(f64, f64, f64)| {
                            (sum / if count_pad { all } else { inside }, 2.5)
                        };
                        let means: Vec<(f64, f64)> = means.iter().map(mean).collect();
                        assert_sums(&got, &means, digits, &format!("{what}, padding {count_pad}"));
                    }
                }
            });
        }
    }
}

/// A transposed convolution: a convolution case, and the output padding.
type Transposed = ([usize; 4], [usize; 2], Windows, [i64; 2]);

const TRANSPOSED: [Transposed; 10] = [
    ([1, 1, 6, 5], [9, 10], windows([2, 2], [2, 2], [0, 0, 0, 0], [1, 1]), [0, 0]),
    ([2, 1, 7, 3], [8, 7], windows([4, 4], [2, 2], [1, 1, 1, 1], [1, 1]), [0, 0]),
    ([1, 2, 3, 2], [5, 6], windows([3, 3], [2, 2], [1, 1, 1, 1], [1, 1]), [1, 1]),
    ([1, 1, 3, 2], [5, 6], windows([3, 3], [1, 1], [1, 1, 1, 1], [1, 1]), [0, 0]),
    ([1, 1, 4, 2], [6, 5], windows([3, 2], [3, 4], [0, 1, 2, 0], [2, 3]), [2, 3]),
    ([1, 1, 40, 30], [40, 50], windows([4, 4], [2, 2], [1, 1, 1, 1], [1, 1]), [0, 0]),
    ([1, 2, 2, 2], [1, 90], windows([1, 16], [1, 8], [0, 4, 0, 4], [1, 1]), [0, 0]),
    ([1, 2, 2, 2], [90, 1], windows([16, 1], [8, 3], [4, 0, 4, 0], [1, 1]), [0, 0]),
    ([1, 1, 2, 3], [4, 3], windows([2, 3], [5, 3], [0, 1, 1, 2], [1, 1]), [3, 0]),
    ([0, 1, 2, 3], [4, 3], windows([2, 3], [1, 2], [0, 1, 1, 2], [1, 1]), [0, 0]),
];

#[test]
fn transposed_convolutions_equal_their_definition() {
    let cpu = Cpu::new();
    for ([n, groups, depth, filters], ins, windows, more) in TRANSPOSED {
        let extents = [0, 1].map(|axis| {
            let span = (windows.kernel[axis] as i64 - 1) * windows.dilations[axis] + 1;
            let all = (ins[axis] as i64 - 1) * windows.strides[axis] + span + more[axis];
            usize::try_from(all - windows.pads[axis] - windows.pads[axis + 2]).unwrap()
        });
        let (size, results) = (ins[0] * ins[1], extents[0] * extents[1]);
        let taps = windows.kernel[0] * windows.kernel[1];
        let (c, m) = (groups * depth, groups * filters);
        let x = tensor(&cpu, &[n, c, ins[0], ins[1]], &numbers(n * c * size, 1));
        let ws = [c, filters, windows.kernel[0], windows.kernel[1]];
        let w = tensor(&cpu, &ws, &numbers(c * filters * taps, 2));
        let b = tensor(&cpu, &[m], &numbers(m, 3));
        for (dtype, digits) in TYPES {
            each_level(&cpu, dtype, &[&x, &w, &b], |operands, at| {
                let values: Vec<Vec<f32>> = operands.iter().map(|x| list(&cpu, x)).collect();
                let mut want = vec![(0.0, 0.0); n * m * results];
                for (i, want) in want.chunks_mut(results).enumerate() {
                    let bias = f64::from(values[2][i % m]);
                    want.fill((bias, bias.abs()));
                    for channel in 0..depth {
                        let channel = i % m / filters * depth + channel;
                        windows.each(ins, |[iy, ix], k, place| {
                            let Some(place) = inside(extents, place) else { return };
                            let x = values[0][(i / m * c + channel) * size + iy * ins[1] + ix];
                            let w = values[1][(channel * filters + i % filters) * taps + k];
                            want[place].0 += f64::from(x) * f64::from(w);
                            want[place].1 += (f64::from(x) * f64::from(w)).abs();
                        });
                    }
                }
                let options = ConvTransposeOptions {
                    strides: &windows.strides,
                    pads: &windows.pads,
                    dilations: &windows.dilations,
                    output_padding: &more,
                    group: groups as i64,
                };
                let [x, w, b] = operands else { panic!("three operands") };
                let run = || cpu.conv_transpose(x, w, Some(b), options).unwrap();
                let (got, what) = (as_if(1, run), format!("{ins:?} {ws:?} {windows:?}, {at}"));
                assert_eq!(got.shape(), [n, m, extents[0], extents[1]], "{what}");
                assert_sums(&list(&cpu, &got), &want, digits, &what);
                assert!(list(&cpu, &as_if(3, run)) == list(&cpu, &got), "threads, {what}");
            });
        }
    }
}
