#![expect(clippy::indexing_slicing, reason = "tests")]

use super::element::{Binary, MathFn};
use super::{Strided, at, binary::binary, levels, unary::math};

fn run(op: MathFn, x: &[f32]) -> Vec<f32> {
    let mut y = vec![0f32; x.len()];
    // SAFETY: both have this extent.
    unsafe { math(op, [1, x.len()], y.as_mut_ptr(), Strided::dense(x.as_ptr(), x.len())) };
    y
}

/// The distance in units of the exact result's last place.
fn units(y: f32, exact: f64) -> f64 {
    let rounded = exact as f32;
    if y == rounded || (y.is_nan() && rounded.is_nan()) {
        return 0.0;
    }
    let unit = f64::from(f32::from_bits(rounded.abs().to_bits() + 1)) - f64::from(rounded.abs());
    (f64::from(y) - exact).abs() / unit
}

/// Bit patterns at even distances: all signs, exponents, infinities, NaN, subnormals.
fn patterns() -> Vec<f32> {
    (0..=u32::MAX)
        .step_by(6101)
        .map(f32::from_bits)
        .chain([0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN])
        .collect()
}

fn worst(op: MathFn, exact: impl Fn(f64) -> f64) -> f64 {
    let x = patterns();
    let mut worst = 0.0;
    for level in levels() {
        let y = at(level, || run(op, &x));
        for (&x, &y) in x.iter().zip(&y) {
            let off = units(y, exact(f64::from(x)));
            assert!(off < 8.0, "{op:?}({x:e}) is {y:e}, {off} units off at {level:?}");
            worst = f64::max(worst, off);
        }
    }
    println!("{op:?}: {worst:.2} units");
    worst
}

#[test]
fn functions_are_accurate_over_all_exponents() {
    assert!(worst(MathFn::Exp, f64::exp) < 1.1);
    assert!(worst(MathFn::Log, f64::ln) < 1.1);
    assert!(worst(MathFn::Sqrt, f64::sqrt) < 0.51);
    assert!(worst(MathFn::Tanh, f64::tanh) < 3.0);
    assert!(worst(MathFn::Sigmoid, |x| 1.0 / (1.0 + (-x).exp())) < 3.0);
}

#[test]
fn double_precision_follows_the_standard_library() {
    let x: Vec<f64> = (-4000..4000)
        .map(|i| f64::from(i) * 0.1873)
        .chain([f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, 5e-320])
        .collect();
    for (op, exact) in
        [(MathFn::Exp, f64::exp as fn(f64) -> f64), (MathFn::Log, f64::ln), (MathFn::Tanh, f64::tanh)]
    {
        for level in levels() {
            let mut y = vec![0f64; x.len()];
            // SAFETY: both have this extent.
            at(level, || unsafe {
                math(op, [1, x.len()], y.as_mut_ptr(), Strided::dense(x.as_ptr(), x.len()))
            });
            for (&x, &y) in x.iter().zip(&y) {
                let exact = exact(x);
                let same = y == exact || (y.is_nan() && exact.is_nan());
                assert!(
                    same || (y / exact - 1.0).abs() < 6e-16 || exact.abs() < 1e-307,
                    "{op:?}({x}) is {y}, not {exact}"
                );
            }
        }
    }
}

#[test]
fn erf_is_accurate() {
    // The definition: 2/sqrt(pi) times the integral of exp(-t^2), by Simpson's rule.
    let erf = |x: f64| {
        let steps = 2000;
        let h = x / f64::from(steps);
        let f = |i: i32| (-(h * f64::from(i)).powi(2)).exp();
        let sum: f64 = (1..steps).map(|i| f(i) * if i % 2 == 1 { 4.0 } else { 2.0 }).sum();
        (f(0) + f(steps) + sum) * h / 3.0 * std::f64::consts::FRAC_2_SQRT_PI
    };
    let x: Vec<f32> = (-600..600).map(|i| i as f32 * 0.01).collect();
    let wide: Vec<f64> = x.iter().map(|&v| f64::from(v)).collect();
    for level in levels() {
        let y = at(level, || run(MathFn::Erf, &x));
        let mut z = vec![0f64; x.len()];
        // SAFETY: both have this extent.
        at(level, || unsafe {
            math(MathFn::Erf, [1, x.len()], z.as_mut_ptr(), Strided::dense(wide.as_ptr(), x.len()))
        });
        for ((&x, &y), &z) in wide.iter().zip(&y).zip(&z) {
            assert!(units(y, erf(x)) < 4.0, "erf({x}) is {y}");
            assert!((z - erf(x)).abs() < 1e-14, "erf({x}) is {z}, not {}", erf(x));
        }
    }
    assert!(run(MathFn::Erf, &[f32::NAN])[0].is_nan());
    assert_eq!(run(MathFn::Erf, &[f32::INFINITY, f32::NEG_INFINITY]), [1.0, -1.0]);
}

#[test]
fn powers_follow_the_standard_library() {
    let values = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        2.0,
        -2.0,
        0.5,
        -0.5,
        3.0,
        -3.0,
        1e-40,
        1e30,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        2.5,
        -7.0,
    ];
    for level in levels() {
        for x in values {
            for y in values {
                let mut z = 0f32;
                // SAFETY: one element each.
                at(level, || unsafe {
                    binary(
                        Binary::Pow,
                        [1, 1],
                        &raw mut z,
                        Strided::scalar(&raw const x),
                        Strided::scalar(&raw const y),
                    );
                });
                let exact = f64::from(x).powf(f64::from(y));
                assert!(units(z, exact) < 1.0, "{x}^{y} is {z}, not {exact}");
                assert_eq!(z.is_nan(), exact.is_nan(), "{x}^{y}");
            }
        }
    }
}

#[test]
fn broadcast_strided_and_in_place_operands_agree_with_the_definition() {
    for [rows, cols] in [[1, 1], [1, 7], [3, 17], [5, 64], [2, 1000], [33, 65]] {
        let a: Vec<f32> = (0..2 * rows * cols).map(|i| i as f32).collect();
        let b: Vec<f32> = (0..rows.max(cols)).map(|i| 0.5 + i as f32).collect();
        for [row, col] in
            [[cols as isize, 1], [0, 1], [1, 0], [0, 0], [2 * cols as isize, 2], [1, rows as isize]]
        {
            for level in levels() {
                let mut y = vec![0f32; rows * cols];
                let x = Strided { ptr: a.as_ptr(), row, col };
                let bias = Strided { ptr: b.as_ptr(), row: 0, col: 1 };
                // SAFETY: the vectors cover these strides; the second call reads its own output.
                at(level, || unsafe {
                    binary(Binary::Add, [rows, cols], y.as_mut_ptr(), x, bias);
                    binary(Binary::Mul, [rows, cols], y.as_mut_ptr(), Strided::dense(y.as_ptr(), cols), bias);
                });
                for i in 0..rows {
                    for j in 0..cols {
                        let v = a[(i as isize * row + j as isize * col) as usize];
                        assert_eq!(y[i * cols + j], (v + b[j]) * b[j], "{rows}x{cols} [{row}, {col}]");
                    }
                }
            }
        }
    }
}
