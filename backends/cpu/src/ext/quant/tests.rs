#![expect(clippy::indexing_slicing, clippy::unwrap_used, clippy::cast_possible_truncation, reason = "tests")]

use super::{Operands, conv_integer};
use crate::array::Array;
use crate::cpu::Cpu;
use crate::level::{at, levels};
use bb::ext::{ConvIntegerOptions, QLinearConvOptions, Quant, QuantizeLinearOptions};
use bb::{Backend, DataType, Element, Tensor, TensorData};

fn tensor<T: Element>(cpu: &Cpu, shape: &[usize], elements: &[T]) -> Array {
    cpu.constant(&TensorData::new(shape, elements).unwrap()).unwrap()
}

fn host<T: Element>(cpu: &Cpu, x: &Array) -> Vec<T> {
    cpu.to_host(x).unwrap().as_slice::<T>().unwrap().to_vec()
}

/// Returns bytes that include many extreme values.
fn varied(n: usize, seed: usize) -> Vec<u8> {
    let at = |i: usize| match (i * 7919 + seed * 131) % 11 {
        0 => 0,
        1 => 255,
        2 => 128,
        _ => ((i * 2654435761 + seed * 97) >> 7) as u8,
    };
    (0..n).map(at).collect()
}

/// Creates a tensor of signed or unsigned bytes.
fn of_bytes(cpu: &Cpu, shape: &[usize], bytes: &[u8], signed: bool) -> Array {
    if signed {
        tensor(cpu, shape, &bytes.iter().map(|&b| b as i8).collect::<Vec<_>>())
    } else {
        tensor(cpu, shape, bytes)
    }
}

fn number(byte: u8, signed: bool) -> i64 {
    if signed { i64::from(byte as i8) } else { i64::from(byte) }
}

/// Returns the bytes of a signed or unsigned result.
fn bytes_of(cpu: &Cpu, x: &Array) -> Vec<u8> {
    match x.dtype() {
        DataType::I8 => host::<i8>(cpu, x).into_iter().map(|v| v as u8).collect(),
        _ => host::<u8>(cpu, x),
    }
}

/// Quantises a quotient by the definition.
fn quantised(quotient: f32, zero: i64, signed: bool) -> u8 {
    let (least, most) = if signed { (-128.0, 127.0) } else { (0.0, 255.0) };
    let v = (quotient.round_ties_even() + zero as f32).clamp(least, most);
    if v.is_nan() { 0 } else { v as i32 as u8 }
}

/// A convolution: the shapes of the operand and of the filters, the strides, pads and dilations, and the number
/// of groups.
type Case<'a> = (&'a [usize], &'a [usize], &'a [i64], &'a [i64], &'a [i64], usize);

const CASES: [Case<'_>; 21] = [
    (&[2, 6, 9, 10], &[6, 1, 3, 3], &[1, 1], &[1, 1, 1, 1], &[1, 1], 6),
    (&[1, 4, 12, 9], &[8, 1, 5, 5], &[2, 2], &[2, 1, 0, 2], &[1, 1], 4),
    (&[1, 3, 40, 33], &[3, 1, 3, 3], &[1, 2], &[2, 2, 2, 2], &[2, 2], 3),
    (&[2, 5, 30], &[5, 1, 7], &[1], &[3, 3], &[1], 5),
    // The maximum number of weights that floats add exactly, and more weights.
    (&[1, 2, 18, 17], &[2, 1, 16, 16], &[1, 1], &[1, 0, 2, 0], &[1, 1], 2),
    (&[1, 2, 18, 19], &[2, 1, 17, 17], &[1, 1], &[0, 0, 0, 0], &[1, 1], 2),
    (&[1, 2, 70, 60], &[2, 1, 3, 3], &[1, 1], &[1, 1, 1, 1], &[1, 1], 2),
    (&[1, 3, 5, 7], &[4, 3, 3, 3], &[1, 1], &[1, 1, 1, 1], &[1, 1], 1),
    (&[2, 4, 9, 8], &[6, 2, 3, 2], &[2, 1], &[0, 2, 1, 0], &[1, 2], 2),
    (&[2, 3, 6, 6], &[3, 1, 3, 3], &[1, 1], &[1, 1, 1, 1], &[1, 1], 3),
    (&[1, 2, 11, 7], &[2, 1, 5, 3], &[2, 3], &[2, 1, 2, 1], &[2, 1], 2),
    (&[2, 8, 4, 5], &[3, 8, 1, 1], &[1, 1], &[0, 0, 0, 0], &[1, 1], 1),
    (&[1, 4, 5, 5], &[6, 2, 1, 1], &[2, 2], &[0, 0, 0, 0], &[1, 1], 2),
    (&[2, 3, 10], &[5, 3, 4], &[3], &[5, 1], &[2], 1),
    (&[1, 1, 2, 2], &[2, 1, 2, 2], &[1, 1], &[3, 3, 3, 3], &[1, 1], 1),
    (&[1, 16, 20, 21], &[8, 16, 3, 3], &[1, 1], &[1, 1, 1, 1], &[1, 1], 1),
    (&[1, 5, 23, 19], &[17, 5, 3, 3], &[2, 2], &[1, 1, 1, 1], &[1, 1], 1),
    (&[1, 2, 7, 9], &[3, 2, 2, 3], &[3, 4], &[2, 5, 2, 5], &[4, 3], 1),
    (&[1, 2, 3, 100], &[1, 2, 1, 1], &[1, 1], &[0, 0, 0, 0], &[1, 1], 1),
    (&[1, 2, 6, 6], &[3, 2, 1, 1], &[1, 1], &[1, 1, 1, 1], &[1, 1], 1),
    (&[0, 2, 6, 6], &[3, 2, 1, 1], &[1, 1], &[1, 1, 1, 1], &[1, 1], 1),
];

/// Computes the sums of a two-dimensional convolution, window by window.
fn sums(case: &Case<'_>, x: &dyn Fn(usize) -> i64, w: &dyn Fn(usize) -> i64) -> (Vec<usize>, Vec<i64>) {
    let &(shape, filters, strides, pads, dilations, groups) = case;
    let two =
        |list: &[usize]| if list.len() == 4 { list.to_vec() } else { vec![list[0], list[1], 1, list[2]] };
    let pair = |list: &[i64]| if list.len() == 2 { [list[0], list[1]] } else { [1, list[0]] };
    let pads = if pads.len() == 4 { pads.to_vec() } else { vec![0, pads[0], 0, pads[1]] };
    let (x_shape, w_shape, strides, dilations) = (two(shape), two(filters), pair(strides), pair(dilations));
    let out: Vec<usize> = (0..2)
        .map(|d| {
            let room = x_shape[2 + d] as i64 + pads[d] + pads[2 + d];
            ((room - (w_shape[2 + d] as i64 - 1) * dilations[d] - 1) / strides[d] + 1) as usize
        })
        .collect();
    let (m, depth) = (w_shape[0], w_shape[1]);
    let mut all = Vec::new();
    for n in 0..x_shape[0] {
        for f in 0..m {
            for oy in 0..out[0] {
                for ox in 0..out[1] {
                    let mut sum = 0;
                    for c in 0..depth {
                        for ky in 0..w_shape[2] {
                            for kx in 0..w_shape[3] {
                                let y = oy as i64 * strides[0] + ky as i64 * dilations[0] - pads[0];
                                let at = ox as i64 * strides[1] + kx as i64 * dilations[1] - pads[1];
                                if y < 0 || at < 0 || y >= x_shape[2] as i64 || at >= x_shape[3] as i64 {
                                    continue;
                                }
                                let channel = f / (m / groups) * depth + c;
                                let plane = (n * x_shape[1] + channel) * x_shape[2] + y as usize;
                                let weight = ((f * depth + c) * w_shape[2] + ky) * w_shape[3] + kx;
                                sum += x(plane * x_shape[3] + at as usize) * w(weight);
                            }
                        }
                    }
                    all.push(sum);
                }
            }
        }
    }
    let spatial = if shape.len() == 4 { out } else { vec![out[1]] };
    ([&[x_shape[0], m][..], &spatial].concat(), all)
}

#[test]
fn convolutions_equal_the_definition() {
    let cpu = Cpu::new();
    for case in &CASES {
        let &(shape, filters, strides, pads, dilations, groups) = case;
        let group = groups as i64;
        let m = filters[0];
        let per: usize = filters[1..].iter().product();
        for bits in 0..8 {
            let (x_signed, w_signed, listed) = (bits & 1 == 1, bits & 2 == 2, bits & 4 == 4);
            let x = varied(shape.iter().product(), 1);
            let w = varied(filters.iter().product(), 2);
            let x_zero = [200u8];
            let w_zeros: Vec<u8> = if listed { varied(m, 3) } else { vec![if w_signed { 0 } else { 77 }] };
            let bias: Vec<i32> = (0..m).map(|f| f as i32 * 1000 - 1500).collect();
            let (expected_shape, expected) =
                sums(case, &|i| number(x[i], x_signed) - number(x_zero[0], x_signed), &|i| {
                    number(w[i], w_signed) - number(w_zeros[if listed { i / per } else { 0 }], w_signed)
                });
            let places: usize = expected_shape[2..].iter().product();
            let expected: Vec<i32> = expected
                .iter()
                .enumerate()
                .map(|(i, v)| (v + i64::from(bias[i / places % m])) as i32)
                .collect();
            let scales: Vec<f32> = (0..m).map(|f| 0.01 + f as f32 * 0.003).collect();
            let scale_shape: Vec<usize> = [m].into_iter().chain(shape[2..].iter().map(|_| 1)).collect();
            let tensors = (
                of_bytes(&cpu, shape, &x, x_signed),
                of_bytes(&cpu, filters, &w, w_signed),
                tensor(&cpu, &[m], &bias),
                of_bytes(&cpu, &[], &x_zero, x_signed),
                of_bytes(&cpu, &[m][..usize::from(listed)], &w_zeros, w_signed),
            );
            let (tx, tw, tb, zx, zw) = &tensors;
            let (ts, ty) = (tensor(&cpu, &scale_shape, &scales), tensor(&cpu, &[], &[7.25f32]));
            for level in levels() {
                at(level, || {
                    let options = ConvIntegerOptions { strides, pads, dilations, group };
                    let y = cpu.conv_integer(tx, tw, Some(tb), Some(zx), Some(zw), options).unwrap();
                    assert_eq!(y.shape(), expected_shape, "{case:?}");
                    assert!(host::<i32>(&cpu, &y) == expected, "{case:?} {bits} {level:?}");
                    let known = cpu.byte_filters(tw, group).unwrap();
                    assert!(known.is_some() || filters[1] == 1, "{case:?}");
                    let all = Operands { x: tx, w: tw, bias: Some(tb), x_zero: Some(zx), w_zero: Some(zw) };
                    if let Some(y) = conv_integer(&cpu, &all, known.as_ref(), options).unwrap() {
                        assert!(
                            host::<i32>(&cpu, &y) == expected,
                            "{case:?} {bits} {level:?}, known filters"
                        );
                    }
                    let options = QLinearConvOptions { strides, pads, dilations, group };
                    let zero = of_bytes(&cpu, &[], &[100], listed);
                    let y = cpu.qlinear_conv(tx, tw, Some(tb), zx, zw, &ts, &ty, &zero, options).unwrap();
                    let byte = |(i, &v): (usize, &i32)| {
                        quantised(v as f32 * scales[i / places % m] / 7.25, 100, listed)
                    };
                    let expected: Vec<u8> = expected.iter().enumerate().map(byte).collect();
                    assert!(bytes_of(&cpu, &y) == expected, "{case:?} {bits} {level:?}, bytes");
                });
            }
        }
    }
}

/// Returns floats that include ties between two integers, and values that are not finite.
fn floats(n: usize) -> Vec<f32> {
    let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, -1e30, 0.25, -0.25, 0.75];
    (0..n).map(|i| if i % 17 < 8 { special[i % 17] } else { (i as f32 - 40.0) * 0.25 }).collect()
}

#[test]
fn numbers_are_quantised_as_defined() {
    let cpu = Cpu::new();
    let shapes: [(&[usize], &[usize]); 6] = [
        (&[3, 5, 9], &[]),
        (&[3, 5, 9], &[5, 1]),
        (&[3, 5, 9], &[9]),
        (&[100], &[1]),
        (&[2, 0], &[]),
        (&[4, 16], &[4, 1]),
    ];
    for (shape, scale_shape) in shapes {
        let n: usize = shape.iter().product();
        let count: usize = scale_shape.iter().product();
        let x = floats(n);
        let scales: Vec<f32> = (0..count).map(|i| 0.5 + i as f32).collect();
        let own = |i: usize| match scale_shape {
            [5, 1] => i / 9 % 5,
            [9] => i % 9,
            [4, 1] => i / 16,
            _ => 0,
        };
        for signed in [false, true] {
            let zeros = varied(count, 5);
            let (tx, ts) = (tensor(&cpu, shape, &x), tensor(&cpu, scale_shape, &scales));
            let tz = of_bytes(&cpu, scale_shape, &zeros, signed);
            let to = tz.dtype();
            let zero = |i: usize| number(zeros[own(i)], signed);
            let expected: Vec<u8> =
                (0..n).map(|i| quantised(x[i] / scales[own(i)], zero(i), signed)).collect();
            let numbers: Vec<f32> =
                (0..n).map(|i| (number(expected[i], signed) - zero(i)) as f32 * scales[own(i)]).collect();
            let scaled: Vec<u8> = (0..n).map(|i| quantised(x[i] * scales[own(i)] / 0.3, -5, true)).collect();
            for level in levels() {
                at(level, || {
                    let y = cpu.quantize_linear(&tx, &ts, Some(&tz), to, QuantizeLinearOptions::default());
                    let y = y.unwrap();
                    assert!(bytes_of(&cpu, &y) == expected, "{shape:?} by {scale_shape:?} {level:?}");
                    let back = cpu.dequantize_linear(&y, &ts, Some(&tz), DataType::F32).unwrap();
                    assert!(host::<f32>(&cpu, &back) == numbers, "{shape:?} by {scale_shape:?} {level:?}");
                    let (step, point) = (tensor(&cpu, &[], &[0.3f32]), tensor(&cpu, &[], &[-5i8]));
                    let y = cpu.requantize(&tx, &ts, &step, &point).unwrap();
                    assert!(bytes_of(&cpu, &y) == scaled, "{shape:?} by {scale_shape:?} {level:?}, scaled");
                });
            }
        }
    }
}

#[test]
fn a_range_gives_scale_and_zero_point() {
    let cpu = Cpu::new();
    let cases: [(Vec<f32>, f32, u8); 5] = [
        ((0..200).map(|i| i as f32 * 0.5 - 20.0).collect(), 99.5 / 255.0, 51),
        (vec![0.0; 70], 0.0, 0),
        (vec![255.0, 3.0], 1.0, 0),
        (vec![-510.0; 65], 2.0, 255),
        ((0..131).map(|i| if i == 130 { -1.0 } else { 4.1 }).collect(), 5.1 / 255.0, 50),
    ];
    for (x, scale, zero) in cases {
        for level in levels() {
            let results = at(level, || cpu.dynamic_quantize_linear(&tensor(&cpu, &[x.len()], &x)).unwrap());
            let [y, got_scale, got_zero] = &results[..] else { panic!("three results") };
            let got = host::<f32>(&cpu, got_scale)[0];
            assert!((got - scale).abs() <= scale * f32::EPSILON, "{got} {scale}");
            assert_eq!(host::<u8>(&cpu, got_zero), [zero]);
            let divisor = if got == 0.0 { 1.0 } else { got };
            let expected: Vec<u8> = x.iter().map(|v| quantised(v / divisor, zero.into(), false)).collect();
            assert_eq!(host::<u8>(&cpu, y), expected);
        }
    }
}

#[test]
fn pairs_and_tables_equal_the_definition() {
    let cpu = Cpu::new();
    for (a_shape, b_shape, shape) in [
        (&[3, 70][..], &[3, 70][..], &[3, 70][..]),
        (&[2, 3, 5], &[3, 1], &[2, 3, 5]),
        (&[1], &[130], &[130]),
        (&[0, 4], &[4], &[0, 4]),
    ] {
        for bits in 0..4 {
            let (a_signed, b_signed) = (bits & 1 == 1, bits & 2 == 2);
            let (a, b) = (varied(a_shape.iter().product(), 1), varied(b_shape.iter().product(), 2));
            let n: usize = shape.iter().product();
            let of = |own: &[usize], i: usize| match own {
                [3, 1] => i / 5 % 3,
                [1] => 0,
                _ => i,
            };
            let na = |i: usize| (number(a[of(a_shape, i)], a_signed) - number(130, a_signed)) as f32 * 0.02;
            let nb = |i: usize| (number(b[of(b_shape, i)], b_signed) - number(3, b_signed)) as f32 * 0.3;
            let (ta, tb) = (of_bytes(&cpu, a_shape, &a, a_signed), of_bytes(&cpu, b_shape, &b, b_signed));
            let (za, zb) = (of_bytes(&cpu, &[1], &[130], a_signed), of_bytes(&cpu, &[], &[3], b_signed));
            let scale = |v: f32| tensor(&cpu, &[], &[v]);
            let zy = of_bytes(&cpu, &[], &[9], a_signed);
            for level in levels() {
                at(level, || {
                    let y = cpu.qlinear_add(&ta, &scale(0.02), &za, &tb, &scale(0.3), &zb, &scale(0.25), &zy);
                    let expected: Vec<u8> =
                        (0..n).map(|i| quantised((na(i) + nb(i)) / 0.25, 9, a_signed)).collect();
                    let y = y.unwrap();
                    assert_eq!(y.shape(), shape);
                    assert_eq!(bytes_of(&cpu, &y), expected, "{a_shape:?} {b_shape:?} {level:?}");
                    let y = cpu.qlinear_mul(&ta, &scale(0.02), &za, &tb, &scale(0.3), &zb, &scale(0.25), &zy);
                    let expected: Vec<u8> =
                        (0..n).map(|i| quantised(na(i) * nb(i) / 0.25, 9, a_signed)).collect();
                    assert_eq!(bytes_of(&cpu, &y.unwrap()), expected, "{a_shape:?} {b_shape:?} {level:?}");
                    let table = varied(256, 7);
                    let y = cpu.lookup(&ta, &tensor(&cpu, &[256], &table)).unwrap();
                    let least = if a_signed { -128 } else { 0 };
                    let entry = |&v: &u8| table[(number(v, a_signed) - least) as usize];
                    assert_eq!(host::<u8>(&cpu, &y), a.iter().map(entry).collect::<Vec<_>>());
                });
            }
        }
    }
}

#[test]
fn products_of_arrays_equal_the_definition() {
    let cpu = Cpu::new();
    let shapes: [(&[usize], &[usize], &[usize]); 5] = [
        (&[3, 5, 7], &[7, 9], &[3, 5, 9]),
        (&[2, 1, 4, 6], &[3, 6, 5], &[2, 3, 4, 5]),
        (&[1, 70], &[70, 60], &[1, 60]),
        (&[4, 0], &[0, 3], &[4, 3]),
        (&[0, 4], &[4, 3], &[0, 3]),
    ];
    for (a_shape, b_shape, shape) in shapes {
        let (a, b) = (varied(a_shape.iter().product(), 1), varied(b_shape.iter().product(), 2));
        let [m, n] = shape[shape.len() - 2..] else { panic!("matrices") };
        let k = a_shape[a_shape.len() - 1];
        let (za, zb) = (varied(m, 3), varied(n, 4));
        let mut expected = Vec::new();
        for i in 0..shape.iter().product::<usize>() {
            let (j, row, batch) = (i % n, i / n % m, i / n / m);
            let a_at = if a_shape.len() == 4 { batch / 3 } else { batch };
            let b_at = if b_shape.len() == 3 { batch % 3 } else { 0 };
            let term = |p: usize| {
                let x = i64::from(a[(a_at * m + row) * k + p]) - i64::from(za[row]);
                x * (number(b[(b_at * k + p) * n + j], true) - number(zb[j], true))
            };
            expected.push((0..k).map(term).sum::<i64>() as i32);
        }
        for level in levels() {
            let got = at(level, || {
                let (ta, tb) = (of_bytes(&cpu, a_shape, &a, false), of_bytes(&cpu, b_shape, &b, true));
                let (za, zb) = (of_bytes(&cpu, &[m], &za, false), of_bytes(&cpu, &[n], &zb, true));
                cpu.matmul_integer(&ta, &tb, Some(&za), Some(&zb)).unwrap()
            });
            assert_eq!(got.shape(), shape);
            assert_eq!(host::<i32>(&cpu, &got), expected, "{a_shape:?} {b_shape:?} {level:?}");
        }
    }
}

#[test]
fn zero_points_are_those_of_one_matrix() {
    let cpu = Cpu::new();
    // Two left matrices share the right one. The operation has no zero points for each row of every left matrix.
    let (a, b) =
        (of_bytes(&cpu, &[2, 3, 4], &varied(24, 1), false), of_bytes(&cpu, &[4, 5], &varied(20, 2), true));
    let zeros = |n: usize| of_bytes(&cpu, &[n], &varied(n, 3), false);
    let got = cpu.matmul_integer(&a, &b, Some(&zeros(3)), None).unwrap();
    let (x, w, z) = (varied(24, 1), varied(20, 2), varied(3, 3));
    for (i, got) in host::<i32>(&cpu, &got).into_iter().enumerate() {
        let (row, col) = (i / 5, i % 5);
        let want: i64 = (0..4)
            .map(|k| (i64::from(x[row * 4 + k]) - i64::from(z[row % 3])) * number(w[k * 5 + col], true))
            .sum();
        assert_eq!(i64::from(got), want, "element {i}");
    }
    assert!(cpu.matmul_integer(&a, &b, Some(&zeros(6)), None).is_err());
}

#[test]
fn sums_of_no_channels_are_zero() {
    let cpu = Cpu::new();
    // The largest extent that is allowed next to an extent of 0.
    let far = 1 << 26;
    let (x, w) = (tensor::<u8>(&cpu, &[1, 0, 1, 1], &[]), tensor::<u8>(&cpu, &[1, 0, far as usize, 1], &[]));
    let options = ConvIntegerOptions { strides: &[far, 1], pads: &[far - 1, 0, 0, 0], ..Default::default() };
    let y = cpu.conv_integer(&x, &w, None, None, None, options).unwrap();
    assert_eq!((y.shape(), host::<i32>(&cpu, &y)), (&[1, 1, 1, 1][..], vec![0]));
}
