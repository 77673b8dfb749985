//! Tests that sums of many numbers stay accurate: their errors stay below a bound that does not depend on the length, or only
//! on its logarithm. A sequential sum of the same numbers has errors that are thousands of times larger.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "tests")]

use bb::ext::{ConvOptions, Image, Llm, Nn};
use bb::ir::convert::f16_from_f64;
use bb::{Backend, Element, Tensor, TensorData, f16};
use bb_cpu::Cpu;
use bb_reference::Reference;

/// Returns numbers from 1 to 2, without a pattern that would let rounding errors cancel.
fn numbers(n: usize, seed: u32) -> Vec<f32> {
    let mut state = seed | 1;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        1.0 + (state >> 9) as f32 / 8_388_608.0
    };
    (0..n).map(|_| next()).collect()
}

/// Computes a sum in `f64` with Neumaier's compensation.
fn exact(terms: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut lost) = (0f64, 0f64);
    for term in terms {
        let next = sum + term;
        lost += if sum.abs() >= term.abs() { (sum - next) + term } else { (term - next) + sum };
        sum = next;
    }
    sum + lost
}

fn tensor<B: Backend, T: Element>(on: &B, shape: &[usize], x: &[T]) -> B::Tensor {
    on.constant(&TensorData::new(shape, x).unwrap()).unwrap()
}

fn host<B: Backend>(on: &B, x: &B::Tensor) -> Vec<f32> {
    on.to_host(x).unwrap().as_slice::<f32>().unwrap().to_vec()
}

/// Compares numbers. The tolerance is in units of half the distance between `f32` numbers.
#[track_caller]
fn near(got: &[f32], want: impl IntoIterator<Item = f64>, units: f64) {
    let mut count = 0;
    for (i, (&got, want)) in got.iter().zip(want).enumerate() {
        let off = (f64::from(got) - want).abs() / (want.abs() * f64::from(f32::EPSILON) / 2.0);
        assert!(off <= units, "element {i} is {got}, not {want}: {off} units");
        count += 1;
    }
    assert_eq!(count, got.len());
}

fn cpu() -> Cpu {
    Cpu::new()
}

#[test]
fn layers_are_normalised_around_a_great_mean() {
    let (rows, cols) = (3, 4096);
    let x: Vec<f32> = numbers(rows * cols, 1).iter().map(|v| 1e4 + (v - 1.5) * 3.464).collect();
    let (scale, bias) = (numbers(cols, 2), numbers(cols, 3));
    let on = cpu();
    let [a, s, b] = [(&x, rows), (&scale, 0), (&bias, 0)]
        .map(|(v, rows)| if rows > 0 { tensor(&on, &[rows, cols], v) } else { tensor(&on, &[cols], v) });
    let native = host(&on, &on.layer_normalization(&a, &s, Some(&b), Default::default()).unwrap());
    let body = host(
        &on,
        &bb::ext::Extended::declining(&on).layer_normalization(&a, &s, Some(&b), Default::default()).unwrap(),
    );
    for (i, row) in x.chunks(cols).enumerate() {
        let wide = || row.iter().map(|&v| f64::from(v));
        let mean = exact(wide()) / cols as f64;
        let variance = exact(wide().map(|v| (v - mean) * (v - mean))) / cols as f64;
        for (j, v) in wide().enumerate() {
            let want = (v - mean) / (variance + 1e-5).sqrt() * f64::from(scale[j]) + f64::from(bias[j]);
            for got in [native[i * cols + j], body[i * cols + j]] {
                assert!((f64::from(got) - want).abs() < 2e-6, "{got}, not {want}");
            }
        }
    }
}

#[test]
fn roots_of_mean_squares_of_long_rows() {
    let n = 1 << 22;
    let x = numbers(n, 4);
    let on = cpu();
    let scale = vec![1f32; n];
    let (a, s) = (tensor(&on, &[1, n], &x), tensor(&on, &[n], &scale));
    let native = host(&on, &on.rms_normalization(&a, &s, -1, 1e-5).unwrap());
    let body = host(&on, &bb::ext::Extended::declining(&on).rms_normalization(&a, &s, -1, 1e-5).unwrap());
    let mean = exact(x.iter().map(|&v| f64::from(v) * f64::from(v))) / n as f64;
    let want = || x.iter().map(|&v| f64::from(v) / (mean + 1e-5).sqrt());
    near(&native, want(), 6.0);
    near(&body, want(), 32.0);
}

#[test]
fn shares_of_many_elements() {
    let n = 1 << 24;
    let x: Vec<f32> = numbers(n, 5);
    let most = f64::from(x.iter().copied().fold(0.0, f32::max));
    let total = exact(x.iter().map(|&v| (f64::from(v) - most).exp()));
    let on = cpu();
    let a = tensor(&on, &[1, n], &x);
    let want = || x.iter().map(|&v| (f64::from(v) - most).exp() / total);
    near(&host(&on, &on.softmax(&a, -1).unwrap()), want(), 8.0);
    let x = x.split_at(1 << 20).0;
    let total = exact(x.iter().map(|&v| (f64::from(v) - most).exp()));
    let a = tensor(&on, &[1, x.len()], x);
    let want = x.iter().map(|&v| f64::from(v) - most - total.ln());
    near(&host(&on, &on.log_softmax(&a, -1).unwrap()), want, 8.0);
}

fn products<B: Backend>(on: &B, shapes: &[[usize; 3]], units: f64) {
    for &[m, k, n] in shapes {
        let (x, y) = (numbers(m * k, 6), numbers(k * n, 7));
        let want: Vec<f64> = (0..m * n)
            .map(|at| {
                let (i, j) = (at / n, at % n);
                exact((0..k).map(|p| f64::from(x[i * k + p]) * f64::from(y[p * n + j])))
            })
            .collect();
        let (a, b) = (tensor(on, &[m, k], &x), tensor(on, &[k, n], &y));
        near(&host(on, &on.matmul(&a, &b).unwrap()), want.iter().copied(), units);
        // The same operands in column-major order.
        let columns = |v: &[f32], rows: usize, cols: usize| -> Vec<f32> {
            (0..rows * cols).map(|i| v[i % rows * cols + i / rows]).collect()
        };
        let (a, b) = (
            on.transpose(&tensor(on, &[k, m], &columns(&x, m, k)), &[1, 0]).unwrap(),
            on.transpose(&tensor(on, &[n, k], &columns(&y, k, n)), &[1, 0]).unwrap(),
        );
        near(&host(on, &on.matmul(&a, &b).unwrap()), want, units);
    }
}

/// The extents `[m, k, n]` of matrix products with a large `k`. Products with few rows and columns are computed in place, and the
/// others in blocks.
const DEEP: [[usize; 3]; 9] = [
    [1, 1 << 22, 1],
    [1, 1 << 19, 7],
    [1, 1 << 16, 40],
    [3, 1 << 18, 2],
    [13, 1 << 15, 13],
    [1, 1 << 14, 300],
    [20, 1 << 14, 3],
    [33, 1 << 12, 33],
    [18, 3 << 15, 20],
];

#[test]
fn products_with_a_long_inner_dimension() {
    products(&cpu(), &DEEP, 40.0);
}

#[test]
fn products_of_the_reference() {
    products(&Reference, &DEEP, 40.0);
}

#[test]
fn products_of_halves() {
    let k = 1 << 18;
    let on = cpu();
    let x: Vec<f16> = numbers(k, 8).iter().map(|&v| f16::from_f32(v / 512.0)).collect();
    let want = exact(x.iter().map(|v| v.to_f64() * v.to_f64()));
    let (a, b) = (tensor(&on, &[1, k], &x), tensor(&on, &[k, 1], &x));
    let y = on.matmul(&a, &b).unwrap();
    let got = on.to_host(&y).unwrap().as_slice::<f16>().unwrap()[0];
    assert_eq!(got, f16_from_f64(want));
}

fn reductions<B: Backend>(on: &B) {
    let shapes: [(&[usize], &[i64]); 6] = [
        (&[1 << 22], &[0]),
        (&[1 << 20, 3], &[0]),
        (&[1 << 10, 3, 1 << 11], &[0, 2]),
        (&[1 << 9, 5, 1 << 10, 3], &[0, 2]),
        (&[3, 1 << 18, 2], &[1]),
        (&[1 << 18, 2, 3], &[0, 2]),
    ];
    for (shape, axes) in shapes {
        let len: usize = shape.iter().product();
        // The numbers are almost equal, so that a sequential sum rounds all of them in the same direction.
        let x: Vec<f32> = numbers(len, 9).iter().map(|v| 0.1 + v * 1e-6).collect();
        let mut sums: Vec<(f64, f64)> = Vec::new();
        let kept: usize =
            shape.iter().enumerate().filter(|(i, _)| !axes.contains(&(*i as i64))).map(|(_, e)| e).product();
        sums.resize(kept, (0.0, 0.0));
        for (at, &v) in x.iter().enumerate() {
            let (mut rest, mut to, mut step) = (at, 0, 1);
            for (axis, &extent) in shape.iter().enumerate().rev() {
                if !axes.contains(&(axis as i64)) {
                    to += rest % extent * step;
                    step *= extent;
                }
                rest /= extent;
            }
            let (sum, lost) = &mut sums[to];
            let next = *sum + f64::from(v);
            *lost += (*sum - next) + f64::from(v);
            *sum = next;
        }
        let want: Vec<f64> = sums.iter().map(|(sum, lost)| sum + lost).collect();
        let a = tensor(on, shape, &x);
        near(&host(on, &on.reduce_sum(&a, axes, false).unwrap()), want.iter().copied(), 60.0);
        let count = (len / kept) as f64;
        near(&host(on, &on.reduce_mean(&a, axes, false).unwrap()), want.iter().map(|v| v / count), 60.0);
    }
}

#[test]
fn reductions_over_many_elements() {
    reductions(&cpu());
    reductions(&Reference);
}

#[test]
fn sums_of_many_doubles() {
    let n = 1 << 22;
    let x: Vec<f64> = numbers(n, 10).iter().map(|&v| 0.1 + f64::from(v) * 1e-9).collect();
    let want = exact(x.iter().copied());
    let sum = |y: TensorData| y.as_slice::<f64>().unwrap()[0];
    let (c, r) = (cpu(), Reference);
    let got = [
        sum(c.to_host(&c.reduce_sum(&tensor(&c, &[n], &x), &[0], false).unwrap()).unwrap()),
        sum(r.to_host(&r.reduce_sum(&tensor(&r, &[n], &x), &[0], false).unwrap()).unwrap()),
    ];
    for got in got {
        assert!((got - want).abs() / want < 40.0 * f64::EPSILON, "{got}, not {want}");
    }
}

#[test]
fn windows_with_many_elements() {
    // One window over the whole signal, for one channel, and for two channels with separate filters.
    let taps = 1 << 18;
    let on = cpu();
    for channels in [1, 2] {
        let x: Vec<f32> = numbers(channels * taps, 11).iter().map(|v| 0.1 + v * 1e-6).collect();
        let a = tensor(&on, &[1, channels, taps], &x);
        let filters = tensor(&on, &[channels, 1, taps], &vec![1f32; channels * taps]);
        let grouped = ConvOptions { group: channels as i64, ..Default::default() };
        let y = bb::ext::Extended::declining(&on).conv(&a, &filters, None, grouped).unwrap();
        let native = on.conv(&a, &filters, None, grouped).unwrap();
        let want: Vec<f64> = x.chunks(taps).map(|x| exact(x.iter().map(|&v| f64::from(v)))).collect();
        near(&host(&on, &y), want.iter().copied(), 60.0);
        near(&host(&on, &native), want.iter().copied(), 60.0);
        let mean = on.average_pool(&a, &[taps as i64], Default::default()).unwrap();
        near(&host(&on, &mean), want.iter().map(|v| v / taps as f64), 60.0);
    }
    assert_eq!(
        on.average_pool(&tensor(&on, &[1, 1, 4], &[f16::from_f32(60000.0); 4]), &[4], Default::default())
            .map(|y| on.to_host(&y).unwrap().as_slice::<f16>().unwrap()[0])
            .unwrap(),
        f16::from_f32(60000.0)
    );
}

/// Tests lengths that are short, prime, powers of two, and composite. A long transform is rounded once: its error is the error
/// of a sum in `f64`, plus half a unit in the last place of the result. A transform of at most 16 elements is computed in
/// `f32`, with an error of a few units of the sum of magnitudes.
#[test]
fn long_transforms_are_rounded_once() {
    use std::f64::consts::TAU;
    let on = cpu();
    for length in [2, 7, 16, 17, 251, 1024, 1500] {
        let signal: Vec<f32> = numbers(2 * length, 12).iter().map(|v| v + 100.0).collect();
        let x = tensor(&on, &[1, length, 2], &signal);
        let y = host(&on, &on.dft(&x, length as i64, false, false).unwrap());
        for (k, got) in y.chunks(2).enumerate() {
            let turned = |part: usize| {
                exact((0..length).flat_map(|n| {
                    let (sin, cos) = (-TAU * (n * k % length) as f64 / length as f64).sin_cos();
                    let (re, im) = (f64::from(signal[2 * n]), f64::from(signal[2 * n + 1]));
                    if part == 0 { [re * cos, -im * sin] } else { [re * sin, im * cos] }
                }))
            };
            for (part, &got) in got.iter().enumerate() {
                let want = turned(part);
                let off = (f64::from(got) - want).abs();
                let unit = f64::from(f32::EPSILON);
                let few = signal.iter().map(|&v| f64::from(v.abs())).sum::<f64>() * 4.0 * unit;
                let most = if length <= 16 { few } else { want.abs() * unit / 2.0 + 1e-9 };
                assert!(off <= most, "{k} of {length} is {got}, not {want}");
            }
        }
    }
}

#[test]
fn no_part_of_a_long_sum_is_left_out() {
    // Long reductions are divided into parts. No part may be left out or counted twice.
    let on = cpu();
    for len in [4095, 4096, 4097, 8191, 8193, 65_535, 65_537, 100_001] {
        let ones = vec![1f32; len];
        let (a, b) = (tensor(&on, &[1, len], &ones), tensor(&on, &[len, 1], &ones));
        assert_eq!(host(&on, &on.matmul(&a, &b).unwrap()), [len as f32]);
        assert_eq!(on.reduce_sum(&a, &[1], false).unwrap().shape(), [1]);
        assert_eq!(host(&on, &on.reduce_sum(&a, &[1], false).unwrap()), [len as f32]);
    }
}

/// The dimensions of a view have another order in memory than the dimensions of a copy.
#[test]
fn sums_have_the_same_bits_for_every_order_of_dimensions_in_memory() {
    let on = cpu();
    let cases: [([usize; 4], &[i64]); 6] = [
        ([2, 7, 7, 96], &[1, 2]),
        ([2, 7, 7, 96], &[3]),
        ([2, 96, 7, 7], &[2, 3]),
        ([2, 5, 6, 70], &[1, 3]),
        ([1, 300, 1, 9], &[1]),
        ([3, 4, 5, 6], &[]),
    ];
    for (shape, axes) in cases {
        let x = tensor(&on, &shape, &numbers(shape.iter().product(), 7));
        for dtype in [bb::DataType::F32, bb::DataType::F64, bb::DataType::F16, bb::DataType::BF16] {
            let x = on.cast(&x, dtype, true, bb::RoundMode::Up).unwrap();
            let sums = |x: &bb_cpu::Array| {
                let both = [on.reduce_sum(x, axes, true), on.reduce_mean(x, axes, false)];
                both.map(|y| on.to_host(&y.unwrap()).unwrap().bytes().unwrap().to_vec())
            };
            let expected = sums(&x);
            for perm in orders() {
                // A dense copy with the dimensions in another memory order, viewed in the original order.
                let back: Vec<i64> =
                    (0..4).map(|axis| perm.iter().position(|&p| p == axis).unwrap() as i64).collect();
                let turned = on.to_host(&on.transpose(&x, &perm).unwrap()).unwrap();
                let view = on.transpose(&on.constant(&turned).unwrap(), &back).unwrap();
                assert_eq!(view.shape(), x.shape());
                assert!(sums(&view) == expected, "{dtype} of {shape:?} over {axes:?} with {perm:?}");
            }
        }
    }
}

/// Returns every order of four dimensions.
fn orders() -> Vec<[i64; 4]> {
    let all = (0..256).map(|n| [n / 64, n / 16 % 4, n / 4 % 4, n % 4]);
    all.filter(|order| (0..4).all(|axis| order.contains(&axis))).collect()
}
