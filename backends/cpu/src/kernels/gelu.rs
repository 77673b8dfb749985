//! GELU, with the error function and with its approximation by `tanh`.
//!
//! For negative numbers, the result is a product with an exponential, whose exponent needs more digits than the type has.

use super::math::{double, polynomial, single};

/// Computes `x Φ(x)`, where `Φ` is the distribution function of the standard normal distribution. It computes
/// `|x| Φ(-|x|)`, which has no cancellation, as `exp(-x² / 2)` times a polynomial: in `|x|` below 2.5, and in
/// `1 / (1 + |x|)` from there to 16. Beyond 16, `Φ(-|x|)` is 0. Near arguments are those up to 12.
#[inline(always)]
pub(super) fn gelu_f32<const FMA: bool, const NEAR: bool>(x: f32) -> f32 {
    const BELOW: [f32; 12] = [
        -9.720_673e-7,
        4.239_832e-6,
        -1.252_480_7e-5,
        4.641_084e-5,
        -1.749_512_8e-4,
        6.060_595_7e-4,
        -1.980_307_3e-3,
        6.102_183_3e-3,
        -1.752_944_4e-2,
        4.632_280_6e-2,
        -0.110_491_88,
        0.230_760_32,
    ];
    const BEYOND: [f32; 8] = [
        9.658_114,
        -15.950_247,
        9.265_518,
        -1.043_987_3,
        -0.688_396_6,
        -0.405_870_36,
        2.423_174_3e-4,
        0.398_938_7,
    ];
    let a = x.abs();
    let a = if !NEAR && a > 16.0 { 16.0 } else { a };
    // The exponent needs all digits of the square, because its error is a relative error of the exponential.
    let square = a * a;
    let rest = if FMA {
        a.mul_add(a, -square)
    } else {
        let high = f32::from_bits(a.to_bits() & !0xfff);
        let low = a - high;
        ((high * high - square) + 2.0 * high * low) + low * low
    };
    let e = single::exponential::<FMA, NEAR>(-0.5 * square, -0.5 * rest);
    let below = a * polynomial::<FMA>(&BELOW, a - 1.25);
    let beyond = polynomial::<FMA>(&BEYOND, 1.0 / (1.0 + a));
    let factor = if a < 2.5 { below } else { beyond };
    let tail = single::fma::<FMA>(factor, e.less_one, factor) * e.first * e.second;
    let y = if x < 0.0 { -tail } else { x - tail };
    // The definition multiplies minus infinity by 0.
    if !NEAR && x == f32::NEG_INFINITY { f32::NAN } else { y }
}

/// Computes `x erfc(-x / sqrt 2) / 2`, which has no cancellation. The error of the rounded argument is corrected by the
/// derivative.
#[inline(always)]
pub(super) fn gelu_f64<const FMA: bool, const NEAR: bool>(x: f64) -> f64 {
    use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};
    /// What `FRAC_1_SQRT_2` lacks.
    const REST: f64 = -4.833646656726457e-17;
    let t = -x * FRAC_1_SQRT_2;
    let rest = -x.mul_add(FRAC_1_SQRT_2, t) - x * REST;
    let slope = FRAC_2_SQRT_PI * libm::exp(-t * t);
    let half = 0.5 * x;
    let correction = if t.is_finite() { half * (rest * -slope) } else { 0.0 };
    half.mul_add(libm::erfc(t), correction)
}

/// Computes GELU with `tanh`, in `f64`.
#[inline(always)]
pub(super) fn gelu_tanh_f32<const FMA: bool>(x: f32) -> f32 {
    gelu_tanh_f64::<FMA>(f64::from(x)) as f32
}

/// Computes `x sigmoid(2 sqrt(2 / π) (x + 0.044715 x³))`, which is GELU with `tanh`. The argument has twice the digits of
/// `f64`, because its error is a relative error of the exponential.
#[inline(always)]
pub(super) fn gelu_tanh_f64<const FMA: bool>(x: f64) -> f64 {
    /// `2 sqrt(2 / π)`, and 0.044715 times it, each with what the first number lacks.
    const LINE: [f64; 2] = [1.5957691216057308, -9.96930880911092e-17];
    const CUBE: [f64; 2] = [0.07135481627260025, -6.175149918155315e-19];
    let a = if x.abs() > 40.0 { 40.0 } else { x.abs() };
    let fma = double::fma::<FMA>;
    let product = |x: f64, y: f64| if FMA { (x * y, x.mul_add(y, -(x * y))) } else { exact_product(x, y) };
    let (square, square_rest) = product(a, a);
    let (cubed, cubed_rest) = product(square, CUBE[0]);
    let cubed_rest = cubed_rest + fma(square_rest, CUBE[0], square * CUBE[1]);
    let slope = LINE[0] + cubed;
    // The greater of the two summands comes first.
    let lost = if cubed < LINE[0] { (LINE[0] - slope) + cubed } else { (cubed - slope) + LINE[0] };
    let slope_rest = lost + LINE[1] + cubed_rest;
    let (argument, argument_rest) = product(a, slope);
    let argument_rest = fma(a, slope_rest, argument_rest);
    let e =
        double::exponential::<FMA, false>(if argument > 760.0 { -760.0 } else { -argument }, -argument_rest);
    let small = (1.0 + e.less_one) * e.first * e.second;
    let low = x < 0.0;
    let above = if low { fma(-a, e.less_one, -a) * e.first } else { x };
    let y = above / (1.0 + small) * if low { e.second } else { 1.0 };
    // The definition multiplies minus infinity by 0.
    if x == f64::NEG_INFINITY { f64::NAN } else { y }
}

/// Returns a product and what it rounds off.
///
/// Source: Dekker: A floating-point technique for extending the available precision, 1971.
#[inline(always)]
fn exact_product(x: f64, y: f64) -> (f64, f64) {
    let halves = |v: f64| {
        let wide = 134_217_729.0 * v;
        let high = wide - (wide - v);
        (high, v - high)
    };
    let ((a, b), (c, d)) = (halves(x), halves(y));
    let product = x * y;
    (product, ((a * c - product) + a * d + b * c) + b * d)
}
