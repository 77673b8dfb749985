//! Tests functions of floats over their whole ranges against the standard library's functions in `f64`.
#![expect(clippy::unwrap_used, reason = "tests")]

use bb::ext::Scalar;
use bb::{Backend, TensorData};
use bb_wgpu::{Result, Tensor, Wgpu};

/// Returns points around zero, of every magnitude, and at the edges of ranges.
fn points() -> Vec<f32> {
    let mut points = vec![0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1.0, -1.0, 0.5, -0.5];
    points.extend((-400..=400).map(|i| i as f32 * 0.0517));
    points.extend((-37..=38).flat_map(|e| [1.7f32, -3.3].map(|m| m * 10f32.powi(e))));
    points.extend([88.7, 88.72, -87.3, -103.9, 89.4, -89.4, 3.5e4, 1e6, 16777216.0, 123_456_792.0]);
    points
}

fn check(name: &str, f: impl Fn(&Wgpu, &Tensor) -> Result<Tensor>, exact: impl Fn(f64) -> f64) {
    let on = Wgpu::first().unwrap();
    let x = points();
    let y = f(&on, &on.constant(&TensorData::new(&[x.len()], &x).unwrap()).unwrap()).unwrap();
    let y = on.to_host(&y).unwrap();
    for (&x, &y) in x.iter().zip(y.as_slice::<f32>().unwrap()) {
        let want = exact(f64::from(x)) as f32;
        let near = (f64::from(y) - f64::from(want)).abs()
            <= 8.0 * f64::from(f32::EPSILON) * f64::from(want.abs()) + 1e-37;
        assert!(
            y == want || (y.is_nan() && want.is_nan()) || near,
            "{name}({x:e}) is {y:e}, expected {want:e}"
        );
    }
}

#[test]
fn exponentials_and_logarithms() {
    check("exp", |on, x| on.exp(x), f64::exp);
    check("log", |on, x| on.log(x), f64::ln);
    check("expm1", |on, x| on.expm1(x), f64::exp_m1);
    check("log1p", |on, x| on.log1p(x), f64::ln_1p);
    check("sqrt", |on, x| on.sqrt(x), f64::sqrt);
    check(
        "softplus",
        |on, x| on.softplus(x),
        |x| if x.is_nan() { x } else { x.max(0.0) + (-x.abs()).exp().ln_1p() },
    );
    check("sigmoid", |on, x| on.sigmoid(x), |x| 1.0 / (1.0 + (-x).exp()));
}

#[test]
fn angles_of_any_size() {
    check("sin", |on, x| on.sin(x), f64::sin);
    check("cos", |on, x| on.cos(x), f64::cos);
    check("tan", |on, x| on.tan(x), f64::tan);
    check("asin", |on, x| on.asin(x), f64::asin);
    check("acos", |on, x| on.acos(x), f64::acos);
    check("atan", |on, x| on.atan(x), f64::atan);
}

#[test]
fn hyperbolic_functions() {
    check("sinh", |on, x| on.sinh(x), f64::sinh);
    check("cosh", |on, x| on.cosh(x), f64::cosh);
    check("tanh", |on, x| on.tanh(x), f64::tanh);
    check("asinh", |on, x| on.asinh(x), f64::asinh);
    check("acosh", |on, x| on.acosh(x), f64::acosh);
    check("atanh", |on, x| on.atanh(x), f64::atanh);
}

#[test]
fn rounding_and_signs() {
    check("floor", |on, x| on.floor(x), f64::floor);
    check("ceil", |on, x| on.ceil(x), f64::ceil);
    check("round", |on, x| on.round(x), f64::round_ties_even);
    check("trunc", |on, x| on.trunc(x), f64::trunc);
    check("reciprocal", |on, x| on.reciprocal(x), |x| 1.0 / x);
    check("sign", |on, x| on.sign(x), |x| if x == 0.0 || x.is_nan() { x } else { x.signum() });
}

/// Source: W. J. Cody's tables as in Abramowitz and Stegun, table 7.1.
#[test]
fn error_function() {
    let on = Wgpu::first().unwrap();
    let table = [
        (0.0f32, 0.0f64),
        (0.1, 0.112_462_916_0),
        (0.5, 0.520_499_877_8),
        (1.0, 0.842_700_792_9),
        (1.5, 0.966_105_146_5),
        (2.0, 0.995_322_265_0),
        (-1.0, -0.842_700_792_9),
        (5.0, 1.0),
        (f32::INFINITY, 1.0),
        (f32::NEG_INFINITY, -1.0),
    ];
    let x: Vec<f32> = table.iter().map(|(x, _)| *x).collect();
    let y = on.erf(&on.constant(&TensorData::new(&[x.len()], &x).unwrap()).unwrap()).unwrap();
    let y = on.to_host(&y).unwrap();
    for ((x, want), &y) in table.iter().zip(y.as_slice::<f32>().unwrap()) {
        assert!((f64::from(y) - want).abs() <= 2e-7, "erf({x}) is {y}, expected {want}");
    }
}

/// Every 16-bit pattern survives a cast to `f32` and back, and `f32` is rounded as the library `half` does.
#[test]
fn halves_round_as_they_should() {
    let on = Wgpu::first().unwrap();
    let all: Vec<half::f16> = (0..=u16::MAX).map(half::f16::from_bits).collect();
    let x = on.constant(&TensorData::new(&[all.len()], &all).unwrap()).unwrap();
    let wide = on.cast(&x, bb::DataType::F32, true, bb::RoundMode::Up).unwrap();
    let back = on.cast(&wide, bb::DataType::F16, true, bb::RoundMode::Up).unwrap();
    let back = on.to_host(&back).unwrap();
    for (before, after) in all.iter().zip(back.as_slice::<half::f16>().unwrap()) {
        // A driver may flush subnormal numbers to zero.
        let flushed = before.to_f32().abs() < half::f16::MIN_POSITIVE.to_f32() && after.to_f32() == 0.0;
        assert!(before == after || (before.is_nan() && after.is_nan()) || flushed, "{before:?}: {after:?}");
    }
    let floats: Vec<f32> = (0..100_000u32).map(|i| f32::from_bits(i.wrapping_mul(2_654_435_761))).collect();
    let x = on.constant(&TensorData::new(&[floats.len()], &floats).unwrap()).unwrap();
    for dtype in [bb::DataType::F16, bb::DataType::BF16] {
        let got = on.to_host(&on.cast(&x, dtype, true, bb::RoundMode::Up).unwrap()).unwrap();
        let want = bb::ir::convert::cast(&on.to_host(&x).unwrap(), dtype, Default::default()).unwrap();
        for ((x, got), want) in floats
            .iter()
            .zip(got.bytes().unwrap().as_chunks::<2>().0)
            .zip(want.bytes().unwrap().as_chunks::<2>().0)
        {
            // A driver may flush a subnormal operand, and NaNs may have other bits.
            assert!(
                x.is_nan() || x.is_subnormal() || got == want,
                "{dtype} of {x:e}: {got:x?}, expected {want:x?}"
            );
        }
    }
}
