//! Tests that the kernels of extension families compute the same results as the operations' bodies.

#![expect(clippy::unwrap_used, reason = "tests")]

use bb::ext::{ConvOptions, Create, LayerNormalizationOptions, Llm, MaxPoolOptions, Nn, Scalar};
use bb::{Backend, Tensor, TensorData};
use bb_cpu::{Array, Cpu};

fn varied(cpu: &Cpu, shape: &[usize]) -> Array {
    let n: usize = shape.iter().product();
    let numbers: Vec<f32> = (0..n).map(|i| ((i * 7919 + 13) % 2003) as f32 / 400.6 - 2.5).collect();
    cpu.constant(&TensorData::new(shape, &numbers).unwrap()).unwrap()
}

/// Compares results with a tolerance that allows for the rounding of the sums in these tests.
fn assert_near(cpu: &Cpu, got: &Array, want: &Array, what: &str) {
    assert_eq!((got.shape(), got.dtype()), (want.shape(), want.dtype()), "{what}");
    let (got, want) = (cpu.to_host(got).unwrap(), cpu.to_host(want).unwrap());
    for (i, (g, w)) in got.as_slice::<f32>().unwrap().iter().zip(want.as_slice::<f32>().unwrap()).enumerate()
    {
        let near = (g - w).abs() <= 2e-5 * w.abs().max(1.0) || g == w || g.is_nan() && w.is_nan();
        assert!(near, "{what}: element {i} is {g}, expected {w}");
    }
}

/// The shapes of an operand and of filters; strides, pads and dilations; the number of groups.
type Case<'a> = (&'a [usize], &'a [usize], &'a [i64], &'a [i64], &'a [i64], i64);

const WINDOWS: [Case<'_>; 9] = [
    (&[1, 3, 5, 7], &[4, 3, 3, 3], &[1, 1], &[1, 1, 1, 1], &[1, 1], 1),
    (&[2, 4, 9, 8], &[6, 2, 3, 2], &[2, 1], &[0, 2, 1, 0], &[1, 2], 2),
    (&[2, 3, 6, 6], &[3, 1, 3, 3], &[1, 1], &[1, 1, 1, 1], &[1, 1], 3),
    (&[1, 2, 11, 7], &[2, 1, 5, 3], &[2, 3], &[2, 1, 2, 1], &[2, 1], 2),
    (&[2, 8, 4, 5], &[3, 8, 1, 1], &[1, 1], &[0, 0, 0, 0], &[1, 1], 1),
    (&[1, 4, 5, 5], &[6, 2, 1, 1], &[2, 2], &[0, 0, 0, 0], &[1, 1], 2),
    (&[2, 3, 10], &[5, 3, 4], &[3], &[5, 1], &[2], 1),
    (&[1, 1, 2, 2], &[2, 1, 2, 2], &[1, 1], &[3, 3, 3, 3], &[1, 1], 1),
    (&[1, 16, 40, 40], &[8, 16, 3, 3], &[1, 1], &[1, 1, 1, 1], &[1, 1], 1),
];

#[test]
fn convolutions_slide_as_their_body_does() {
    let cpu = Cpu::new();
    for (shape, filters, strides, pads, dilations, group) in WINDOWS {
        let (x, w) = (varied(&cpu, shape), varied(&cpu, filters));
        let bias = varied(&cpu, filters.get(..1).unwrap());
        let options = ConvOptions { strides, pads, dilations, group };
        for bias in [None, Some(&bias)] {
            let got = cpu.conv(&x, &w, bias, options).unwrap();
            let want = bb::ext::Extended::declining(&cpu).conv(&x, &w, bias, options).unwrap();
            assert_near(&cpu, &got, &want, &format!("{shape:?} {filters:?}"));
        }
    }
}

#[test]
fn maxima_slide_as_their_body_does() {
    let cpu = Cpu::new();
    for (shape, filters, strides, pads, dilations, _) in WINDOWS {
        let x = varied(&cpu, shape);
        let kernel: Vec<i64> = filters.iter().skip(2).map(|&k| k as i64).collect();
        let options = MaxPoolOptions { strides, pads, dilations, ceil: false };
        let got = cpu.max_pool(&x, &kernel, options).unwrap();
        let want = bb::ext::Extended::declining(&cpu).max_pool(&x, &kernel, options).unwrap();
        assert_near(&cpu, &got, &want, &format!("{shape:?} {kernel:?}"));
        // Some windows contain only padding. For them, the body returns the minimum of the byte
        // type.
        let bytes = (0..shape.iter().product()).map(|i: usize| (i * 37 % 251) as u8);
        let signed = bytes.clone().map(|byte| byte.wrapping_sub(100).cast_signed());
        let operands = [
            TensorData::new(shape, &bytes.collect::<Vec<_>>()),
            TensorData::new(shape, &signed.collect::<Vec<_>>()),
        ];
        for x in operands {
            let x = cpu.constant(&x.unwrap()).unwrap();
            let got = cpu.max_pool(&x, &kernel, options).unwrap();
            let want = bb::ext::Extended::declining(&cpu).max_pool(&x, &kernel, options).unwrap();
            let [got, want] = [got, want].map(|y| cpu.to_host(&y).unwrap());
            assert_eq!(got, want, "{shape:?} {kernel:?}");
        }
    }
}

#[test]
fn mistakes_are_refused_as_the_body_refuses_them() {
    let cpu = Cpu::new();
    let (x, w) = (varied(&cpu, &[1, 3, 5, 5]), varied(&cpu, &[4, 2, 3, 3]));
    assert!(cpu.conv(&x, &w, None, ConvOptions::default()).is_err());
    assert!(cpu.conv(&x, &x, None, ConvOptions { strides: &[0, 1], ..Default::default() }).is_err());
    assert!(cpu.max_pool(&x, &[6, 6], MaxPoolOptions::default()).is_err());
}

#[test]
fn normalisations_agree_with_their_bodies() {
    let cpu = Cpu::new();
    let x = varied(&cpu, &[3, 5, 70]);
    let t = cpu.transpose(&x, &[1, 0, 2]).unwrap();
    for x in [&x, &t] {
        for axis in [-1, 1] {
            let tail: Vec<usize> =
                if axis == -1 { vec![70] } else { x.shape().iter().skip(1).copied().collect() };
            let (scale, bias) = (varied(&cpu, &tail), varied(&cpu, &tail));
            let options = LayerNormalizationOptions { axis, epsilon: 1e-5 };
            let got = cpu.layer_normalization(x, &scale, Some(&bias), options).unwrap();
            let want = bb::ext::Extended::declining(&cpu)
                .layer_normalization(x, &scale, Some(&bias), options)
                .unwrap();
            assert_near(&cpu, &got, &want, "layer_normalization");
            let got = cpu.rms_normalization(x, &scale, axis, 1e-5).unwrap();
            let want = bb::ext::Extended::declining(&cpu).rms_normalization(x, &scale, axis, 1e-5).unwrap();
            assert_near(&cpu, &got, &want, "rms_normalization");
            let (got, want) =
                (cpu.softmax(x, axis).unwrap(), bb::ext::Extended::declining(&cpu).softmax(x, axis).unwrap());
            assert_near(&cpu, &got, &want, "softmax");
        }
    }
    let (x, v) = (varied(&cpu, &[2, 3, 40]), varied(&cpu, &[3]));
    let variance = cpu.mul(&v, &v).unwrap();
    let got = cpu.batch_normalization(&x, &v, &v, &v, &variance, 1e-5).unwrap();
    let want =
        bb::ext::Extended::declining(&cpu).batch_normalization(&x, &v, &v, &v, &variance, 1e-5).unwrap();
    assert_near(&cpu, &got, &want, "batch_normalization");
}

/// A function that calls an operation or its body.
type Function = fn(&Cpu, &Array) -> Result<Array, bb_cpu::CpuError>;

#[test]
fn functions_of_single_elements_agree_with_their_bodies() {
    let cpu = Cpu::new();
    let functions: [(&str, Function, Function); 12] = [
        ("relu", |c, x| c.relu(x), |c, x| bb::ext::Extended::declining(c).relu(x)),
        (
            "leaky_relu",
            |c, x| c.leaky_relu(x, 0.1),
            |c, x| bb::ext::Extended::declining(c).leaky_relu(x, 0.1),
        ),
        ("gelu", |c, x| c.gelu(x, false), |c, x| bb::ext::Extended::declining(c).gelu(x, false)),
        ("swish", |c, x| c.swish(x, 1.0), |c, x| bb::ext::Extended::declining(c).swish(x, 1.0)),
        ("sigmoid", |c, x| c.sigmoid(x), |c, x| bb::ext::Extended::declining(c).sigmoid(x)),
        ("erf", |c, x| c.erf(x), |c, x| bb::ext::Extended::declining(c).erf(x)),
        ("tanh", |c, x| c.tanh(x), |c, x| bb::ext::Extended::declining(c).tanh(x)),
        ("sin", |c, x| c.sin(x), |c, x| bb::ext::Extended::declining(c).sin(x)),
        ("cos", |c, x| c.cos(x), |c, x| bb::ext::Extended::declining(c).cos(x)),
        ("floor", |c, x| c.floor(x), |c, x| bb::ext::Extended::declining(c).floor(x)),
        ("ceil", |c, x| c.ceil(x), |c, x| bb::ext::Extended::declining(c).ceil(x)),
        ("round", |c, x| c.round(x), |c, x| bb::ext::Extended::declining(c).round(x)),
    ];
    // At minus infinity, `gelu` and `swish` multiply infinity by zero, so it is left out.
    let edges = [f32::NAN, f32::INFINITY, -0.0, 0.5, -0.5, 1.5, 100.0, -100.0];
    let edges = cpu.constant(&TensorData::new(&[8], &edges).unwrap()).unwrap();
    for x in [&varied(&cpu, &[7, 31]), &cpu.transpose(&varied(&cpu, &[7, 31]), &[]).unwrap(), &edges] {
        for (name, native, body) in &functions {
            assert_near(&cpu, &native(&cpu, x).unwrap(), &body(&cpu, x).unwrap(), name);
        }
        let y = cpu.reshape(&cpu.neg(x).unwrap(), x.shape()).unwrap();
        let want = bb::ext::Extended::declining(&cpu).maximum(x, &y).unwrap();
        assert_near(&cpu, &cpu.maximum(x, &y).unwrap(), &want, "maximum");
        let want = bb::ext::Extended::declining(&cpu).minimum(x, &y).unwrap();
        assert_near(&cpu, &cpu.minimum(x, &y).unwrap(), &want, "minimum");
    }
}

#[test]
fn an_expansion_is_a_view_that_operations_read() {
    let cpu = Cpu::new();
    let x = varied(&cpu, &[3, 1]);
    let wide = cpu.expand(&x, &[2, 3, 40]).unwrap();
    assert_eq!(wide.shape(), [2, 3, 40]);
    let want = bb::ext::Extended::declining(&cpu).expand(&x, &[2, 3, 40]).unwrap();
    assert_near(&cpu, &wide, &want, "expand");
    let sum = cpu.reduce_sum(&wide, &[0, 2], true).unwrap();
    let eighty = cpu.scalar_like(&x, 80.0).unwrap();
    let want = cpu.reshape(&cpu.mul(&x, &eighty).unwrap(), &[1, 3, 1]).unwrap();
    assert_near(&cpu, &sum, &want, "sum");
    assert!(cpu.expand(&x, &[2, 4, 1]).is_err());
}

/// The body expands to a large extent by repeating blocks; the last block may be partial.
#[test]
fn an_expansion_to_a_great_extent_is_one_to_a_small_one_again_and_again() {
    let cpu = Cpu::new();
    let x = varied(&cpu, &[2, 1, 3]);
    for count in [65_536, 65_537, 3 << 16, 100_000, 131_071] {
        let y = bb::ext::Extended::declining(&cpu).expand(&x, &[2, count, 3]).unwrap();
        assert_near(&cpu, &y, &cpu.expand(&x, &[2, count, 3]).unwrap(), "expand");
    }
}

#[test]
fn products_along_axes_are_the_definition() {
    let cpu = Cpu::new();
    let of = |x: &Array| cpu.to_host(x).unwrap().as_slice::<i64>().unwrap().to_vec();
    let at = |i: usize, j: usize, k: usize| (i * 20 + j * 5 + k) as i64 % 7 - 3;
    let all: Vec<i64> = (0..60).map(|n| at(n / 20, n / 5 % 4, n % 5)).collect();
    let x = cpu.constant(&TensorData::new(&[3, 4, 5], &all).unwrap()).unwrap();
    let turned = cpu.transpose(&x, &[2, 0, 1]).unwrap();
    // A product of this many numbers must wrap around.
    let odd = cpu.constant(&TensorData::new(&[90], &[3i64; 90]).unwrap()).unwrap();
    assert_eq!(of(&cpu.reduce_prod(&odd, &[], false).unwrap()), [3i64.wrapping_pow(90)]);
    let middle: Vec<i64> = (0..15).map(|n| (0..4).map(|j| at(n / 5, j, n % 5)).product()).collect();
    for (y, shape) in [
        (cpu.reduce_prod(&x, &[1], false).unwrap(), &[3usize, 5][..]),
        (cpu.reduce_prod(&x, &[-2], true).unwrap(), &[3, 1, 5]),
    ] {
        assert_eq!((y.shape(), of(&y)), (shape, middle.clone()));
    }
    let outer: Vec<i64> =
        (0..4).map(|j| (0..15).map(|n| at(n / 5, j, n % 5)).fold(1, i64::wrapping_mul)).collect();
    assert_eq!(of(&cpu.reduce_prod(&x, &[0, 2], false).unwrap()), outer);
    assert_eq!(of(&cpu.reduce_prod(&turned, &[1, 0], false).unwrap()), outer);
    let last = cpu.reduce_prod(&turned, &[2], false).unwrap();
    let want: Vec<i64> = (0..15).map(|n| (0..4).map(|j| at(n % 3, j, n / 3)).product()).collect();
    assert_eq!((last.shape(), of(&last)), (&[5usize, 3][..], want));
    // The product of no elements, and of a single element.
    let none = cpu.slice(&x, &[0], &[0], &[1], &[]).unwrap();
    assert_eq!(of(&cpu.reduce_prod(&none, &[1], false).unwrap()), [1; 15]);
    assert_eq!(cpu.reduce_prod(&none, &[0], false).unwrap().shape(), [0, 5]);
    let single = cpu.slice(&x, &[2], &[3], &[1], &[]).unwrap();
    let want: Vec<i64> = (0..15).map(|n| at(n / 5, 2, n % 5)).collect();
    assert_eq!(of(&cpu.reduce_prod(&single, &[1], false).unwrap()), want);
    assert!(cpu.reduce_prod(&x, &[3], false).is_err());
    // Floats, and types without a kernel, which the body computes.
    let x = varied(&cpu, &[6, 7, 5]);
    for axes in [&[][..], &[0], &[1, 2], &[-1]] {
        let got = cpu.reduce_prod(&x, axes, true).unwrap();
        assert_near(
            &cpu,
            &got,
            &bb::ext::Extended::declining(&cpu).reduce_prod(&x, axes, true).unwrap(),
            "reduce_prod",
        );
    }
}
