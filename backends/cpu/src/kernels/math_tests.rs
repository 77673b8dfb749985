#![expect(clippy::indexing_slicing, reason = "tests")]

use super::elementwise::{binary, unary};
use super::op::{Binary, Unary};
use crate::level::{at, levels};
use bb::{DataType, Element};

fn run<T: Element + Default>(op: Unary, x: &[T]) -> Vec<T> {
    let mut y = vec![T::default(); x.len()];
    let kernel = unary(op, T::DTYPE, false).expect("a function of floats");
    // SAFETY: both vectors have this length.
    unsafe { (kernel.run)(y.as_mut_ptr().cast(), [x.as_ptr().cast()], x.len()) };
    y
}

/// Returns the error in units in the last place of the exact result.
fn units(y: f32, exact: f64) -> f64 {
    let rounded = exact as f32;
    if y == rounded || (y.is_nan() && rounded.is_nan()) {
        return 0.0;
    }
    let unit = f64::from(f32::from_bits(rounded.abs().to_bits() + 1)) - f64::from(rounded.abs());
    if y.is_infinite() != rounded.is_infinite() {
        return f64::INFINITY;
    }
    (f64::from(y) - exact).abs() / unit
}

/// Returns floats with evenly spaced bit patterns: all signs and exponents, infinities, NaN and subnormal numbers.
fn patterns() -> Vec<f32> {
    (0..=u32::MAX)
        .step_by(6101)
        .map(f32::from_bits)
        .chain([0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN])
        .collect()
}

fn worst(op: Unary, exact: impl Fn(f64) -> f64) -> f64 {
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
    assert!(worst(Unary::Exp, f64::exp) < 1.1);
    assert!(worst(Unary::Log, f64::ln) < 1.1);
    assert!(worst(Unary::Sqrt, f64::sqrt) < 0.51);
    assert!(worst(Unary::Tanh, f64::tanh) < 2.1);
    assert!(worst(Unary::Sigmoid, |x| 1.0 / (1.0 + (-x).exp())) < 2.0);
    assert!(worst(Unary::Expm1, f64::exp_m1) < 2.5);
    assert!(worst(Unary::Log1p, f64::ln_1p) < 2.5);
    assert!(worst(Unary::Softplus, |x| x.max(0.0) + (-x.abs()).exp().ln_1p()) < 2.5);
    assert!(worst(Unary::Erf, libm::erf) < 1.3);
    let silu = |x: f64| if x < 0.0 { x * x.exp() / (1.0 + x.exp()) } else { x / (1.0 + (-x).exp()) };
    assert!(worst(Unary::Silu, silu) < 2.2);
    assert!(worst(Unary::Gelu, |x| 0.5 * x * libm::erfc(-x / 2f64.sqrt())) < 3.0);
    let tanh = |x: f64| {
        let t = 2.0 * (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
        if x == f64::NEG_INFINITY { f64::NAN } else { x / (1.0 + (-t).exp()) }
    };
    assert!(worst(Unary::GeluTanh, tanh) < 2.2);
}

#[test]
fn functions_of_angles_are_accurate_over_all_exponents() {
    assert!(worst(Unary::Sin, libm::sin) < 1.0);
    assert!(worst(Unary::Cos, libm::cos) < 1.0);
    assert!(worst(Unary::Tan, libm::tan) < 1.3);
    assert!(worst(Unary::Asin, libm::asin) < 1.3);
    assert!(worst(Unary::Acos, libm::acos) < 1.3);
    assert!(worst(Unary::Atan, libm::atan) < 1.7);
}

#[test]
fn hyperbolic_functions_are_accurate_over_all_exponents() {
    assert!(worst(Unary::Sinh, libm::sinh) < 1.2);
    assert!(worst(Unary::Cosh, libm::cosh) < 1.2);
    assert!(worst(Unary::Asinh, libm::asinh) < 0.6);
    assert!(worst(Unary::Acosh, |x| if x < 1.0 { f64::NAN } else { libm::acosh(x) }) < 0.6);
    assert!(worst(Unary::Atanh, libm::atanh) < 0.6);
}

#[test]
fn zeros_keep_their_signs() {
    use Unary::{Asin, Asinh, Atan, Atanh, Gelu, GeluTanh, Silu, Sin, Sinh, Tan};
    for level in levels() {
        for op in [Sin, Tan, Asin, Atan, Sinh, Asinh, Atanh, Silu, Gelu, GeluTanh] {
            let y = at(level, || run(op, &[0f32, -0.0]));
            assert_eq!(
                y.iter().map(|y| y.to_bits()).collect::<Vec<_>>(),
                [0, 1 << 31],
                "{op:?} at {level:?}"
            );
        }
    }
}

#[test]
fn angles_are_accurate_where_differences_cancel() {
    // Tests angles next to the multiples of `π / 2`, up to angles that are not computed in vectors.
    let next = |n: u32| {
        let x = (f64::from(n) * std::f64::consts::FRAC_PI_2) as f32;
        [x.next_down(), x, x.next_up(), -x]
    };
    let x: Vec<f32> = (1..90_000).flat_map(next).collect();
    for level in levels() {
        for (op, exact) in
            [(Unary::Sin, libm::sin as fn(f64) -> f64), (Unary::Cos, libm::cos), (Unary::Tan, libm::tan)]
        {
            let y = at(level, || run(op, &x));
            for (&x, &y) in x.iter().zip(&y) {
                let off = units(y, exact(f64::from(x)));
                assert!(off < 1.3, "{op:?}({x:e}) is {y:e}, {off} units off at {level:?}");
            }
        }
    }
}

/// Computes a function twice, the second time with every tenth argument replaced by `other`. Asserts that the values at
/// all other arguments stay the same.
fn others_stay<T: Element + Default>(op: Unary, x: &[T], other: T) {
    let beside: Vec<T> = x.iter().enumerate().map(|(i, &x)| if i % 10 == 0 { other } else { x }).collect();
    for level in levels() {
        let (y, z) = at(level, || (run(op, x), run(op, &beside)));
        let differs = (0..x.len()).find(|&i| i % 10 != 0 && y[i] != z[i]);
        assert_eq!(differs.map(|i| x[i]), None, "{op:?} at {level:?}");
    }
}

#[test]
fn values_do_not_depend_on_what_is_beside_them() {
    // A block is computed differently if all its arguments are within bounds. These arguments reach the bounds, and the
    // replaced arguments exceed them.
    for scale in [12.0, 87.0] {
        let x: Vec<f32> = (-9_999..9_999).map(|i| i as f32 * 1e-4 * scale).collect();
        use Unary::{Cosh, Exp, Gelu, GeluTanh, Sigmoid, Silu, Sin, Sinh, Softplus, Tan};
        for op in [Exp, Sigmoid, Silu, Softplus, Gelu, GeluTanh, Sin, Tan, Sinh, Cosh] {
            others_stay(op, &x, f32::NEG_INFINITY);
        }
    }
    let x: Vec<f64> = (-9_999..9_999).map(|i| f64::from(i) * 0.0708).collect();
    for op in [Unary::Exp, Unary::Sigmoid, Unary::Silu, Unary::Softplus, Unary::GeluTanh] {
        others_stay(op, &x, f64::NAN);
    }
}

#[test]
fn products_with_a_sigmoid_have_limits_in_double_precision() {
    let x =
        [f64::NEG_INFINITY, f64::MIN, -1e5, -5e-324, -0.0, 0.0, 5e-324, 40.0, 1e5, f64::MAX, f64::INFINITY];
    for level in levels() {
        for op in [Unary::Silu, Unary::GeluTanh] {
            let y = at(level, || run(op, &x));
            // Half of the smallest number is rounded to an even number of it, which is 0.
            let limits = [f64::NAN, -0.0, -0.0, -0.0, -0.0, 0.0, 0.0, 40.0, 1e5, f64::MAX, f64::INFINITY];
            for ((x, y), limit) in x.iter().zip(&y).zip(limits) {
                let same = y.to_bits() == limit.to_bits() || (y.is_nan() && limit.is_nan());
                assert!(same, "{op:?}({x:e}) is {y:e}, not {limit:e} at {level:?}");
            }
        }
    }
}

#[test]
fn values_do_not_depend_on_the_number_of_elements() {
    let x: Vec<f32> = (0..700).map(|i| (i * 7919 % 701) as f32 * 0.06 - 21.0).collect();
    for level in levels() {
        for op in [Unary::Gelu, Unary::GeluTanh, Unary::Silu, Unary::Tanh, Unary::Sigmoid] {
            let all = at(level, || run(op, &x));
            for n in [0, 1, 3, 4, 17, 64, 127, 128, 129, 255, 257, 300] {
                for first in [0, 5, 400] {
                    let part = at(level, || run(op, &x[first..first + n]));
                    assert_eq!(part, all[first..first + n], "{op:?} of {n} at {level:?}");
                }
            }
        }
    }
}

#[test]
fn double_precision_follows_the_standard_library() {
    let x: Vec<f64> = (-4000..4000)
        .map(|i| f64::from(i) * 0.1873)
        .chain([f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, 5e-320])
        .collect();
    for (op, exact) in
        [(Unary::Exp, f64::exp as fn(f64) -> f64), (Unary::Log, f64::ln), (Unary::Tanh, f64::tanh)]
    {
        for level in levels() {
            let y = at(level, || run(op, &x));
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
        let y = at(level, || run(Unary::Erf, &x));
        let z = at(level, || run(Unary::Erf, &wide));
        for ((&x, &y), &z) in wide.iter().zip(&y).zip(&z) {
            assert!(units(y, erf(x)) < 4.0, "erf({x}) is {y}");
            assert!((z - erf(x)).abs() < 1e-14, "erf({x}) is {z}, not {}", erf(x));
        }
    }
    assert!(run(Unary::Erf, &[f32::NAN])[0].is_nan());
    assert_eq!(run(Unary::Erf, &[f32::INFINITY, f32::NEG_INFINITY]), [1.0, -1.0]);
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
                let kernel = binary(Binary::Pow, DataType::F32, false).expect("floats have powers");
                // SAFETY: there is one element of each.
                at(level, || unsafe {
                    let operands = [(&raw const x).cast(), (&raw const y).cast()];
                    (kernel.run)((&raw mut z).cast(), operands, 1);
                });
                let exact = f64::from(x).powf(f64::from(y));
                assert!(units(z, exact) < 1.0, "{x}^{y} is {z}, not {exact}");
                assert_eq!(z.is_nan(), exact.is_nan(), "{x}^{y}");
            }
        }
    }
}
