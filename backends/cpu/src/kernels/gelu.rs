//! GELU, exact with the error function, or approximated with `tanh`.
//!
//! For negative numbers, the result is a product with an exponential, whose exponent needs more digits than the type
//! has.

use super::function::{Function, apply, in_stages, one_by_one};
use super::math::{double, polynomial, single};

/// Writes `x Φ(x)`, where `Φ` is the distribution function of the standard normal distribution. Computes
/// `|x| Φ(-|x|)`, which has no cancellation, as `exp(-x² / 2)` times a polynomial: a polynomial in `|x|` if `|x|` is
/// below 2.5, and in `1 / (1 + |x|)` if it is up to 16. Beyond 16, `Φ(-|x|)` is 0.
#[inline(always)]
pub(super) fn gelu_f32<const FMA: bool>(out: &mut [f32], x: &[f32]) {
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
        0.398_938_7,
        2.423_174_3e-4,
        -0.405_870_36,
        -0.688_396_6,
        -1.043_987_3,
        9.265_518,
        -15.950_247,
        9.658_114,
    ];
    /// A number and its reciprocal, which together change nothing. The exponential times the number is a normal number.
    const MORE: f32 = 18_446_744_073_709_551_616.0;
    const LESS: f32 = 1.0 / MORE;
    one_by_one(out, x, |x| {
        let a = if x.abs() > 16.0 { 16.0 } else { x.abs() };
        // The exponent needs all digits of the square, because its absolute error is a relative error of the exponential.
        let (square, rest) = product_f32::<FMA>(a, a);
        let [shifted, less_one] = single::inverse_reduced::<FMA>([0.5 * square, 0.5 * rest]);
        let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(MORE.to_bits()));
        let below = a * polynomial::<FMA>(&BELOW, a - 1.25);
        let beyond = single::in_pairs::<FMA>(&BEYOND, 1.0 / (1.0 + a));
        let factor = if a < 2.5 { below } else { beyond };
        let tail = single::fma::<FMA>(factor, less_one, factor) * power * LESS;
        let y = if x < 0.0 { -tail } else { x - tail };
        // The definition multiplies minus infinity by 0.
        if x == f32::NEG_INFINITY { f32::NAN } else { y }
    });
}

/// Computes `x erfc(-x / sqrt 2) / 2`, which has no cancellation. Corrects the rounding error of the argument with the
/// derivative.
#[inline(always)]
pub(super) fn gelu_f64<const FMA: bool>(out: &mut [f64], x: &[f64]) {
    one_by_one(out, x, exact_f64);
}

fn exact_f64(x: f64) -> f64 {
    use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};
    /// The difference between `1 / sqrt 2` and `FRAC_1_SQRT_2`.
    const REST: f64 = -4.833646656726457e-17;
    let t = -x * FRAC_1_SQRT_2;
    let rest = -x.mul_add(FRAC_1_SQRT_2, t) - x * REST;
    let slope = FRAC_2_SQRT_PI * libm::exp(-t * t);
    let half = 0.5 * x;
    let correction = if t.is_finite() { half * (rest * -slope) } else { 0.0 };
    half.mul_add(libm::erfc(t), correction)
}

/// Defines GELU with `tanh`: `x sigmoid(2 sqrt(2 / π) (x + 0.044715 x³))`. The argument of the sigmoid has twice the
/// digits of the type, because its absolute error is a relative error of the exponential.
macro_rules! with_tanh {
    ($name:ident, $t:ident, $module:ident, $product:ident, from $least:literal to $most:literal, line $line:expr, cube $cube:expr) => {
        #[inline(always)]
        pub(super) fn $name<const FMA: bool>(out: &mut [$t], x: &[$t]) {
            /// `2 sqrt(2 / π)`, and 0.044715 times this number. Each is stored as a float and the remainder. The first
            /// float of the line is short, so that its difference to a slope is exact.
            const LINE: [$t; 2] = $line;
            const CUBE: [$t; 2] = $cube;
            let fma = $module::fma::<FMA>;
            let argument = |x| {
                // Beyond this bound the sigmoid is 1.
                let x = if x > $most { $most } else { x };
                let (square, square_rest) = $product::<FMA>(x, x);
                let (slope, lost) = if FMA {
                    let slope = fma(square, CUBE[0], LINE[0]);
                    (slope, fma(square, CUBE[0], LINE[0] - slope))
                } else {
                    let (cubed, cubed_rest) = $product::<FMA>(square, CUBE[0]);
                    let slope = cubed + LINE[0];
                    (slope, (cubed - (slope - LINE[0])) + cubed_rest)
                };
                let slope_rest = fma(square_rest, CUBE[0], fma(square, CUBE[1], lost)) + LINE[1];
                let (argument, argument_rest) = $product::<FMA>(x, slope);
                [argument, fma(x, slope_rest, argument_rest)]
            };
            $module::gated::<FMA>(out, x, $least, argument, $module::inverse_reduced::<FMA>);
        }
    };
}

with_tanh!(gelu_tanh_f32, f32, single, product_f32, from -11.2 to 6.0, line [1.595_771_8, -2.667_945_1e-6],
    cube [7.135_481_4e-2, 2.398_832_5e-9]);
with_tanh!(gelu_tanh_f64, f64, double, product_f64, from -22.5 to 8.0, line [1.5957691216057412, -1.053578951956758e-14],
    cube [0.07135481627260025, -6.175149918155315e-19]);

/// `x * sigmoid(alpha * x)` of `f32`.
#[derive(Debug, Clone, Copy)]
struct Swish {
    alpha: f32,
}

impl Function<f32> for Swish {
    const APART: bool = true;

    #[inline(always)]
    fn bounds(self) -> Option<[f32; 2]> {
        // Products of larger numbers could overflow before they are multiplied by the power of two.
        let most = (single::NORMAL / self.alpha.abs()).min(1e38);
        Some([-most, most])
    }

    #[inline(always)]
    fn each<const FMA: bool, const NEAR: bool>(self, out: &mut [f32], x: &[f32]) {
        let reduced = |x| {
            let (t, rest) = product_f32::<FMA>(x, self.alpha);
            single::inverse_reduced::<FMA>([if t > single::ONE { single::ONE } else { t }, rest])
        };
        in_stages(out, x, reduced, |reduced| reduced, single::times_sigmoid::<FMA>);
    }

    fn far(self, x: f32) -> f32 {
        let t = f64::from(x) * f64::from(self.alpha);
        // The definition multiplies an infinity by 0, which is NaN.
        (f64::from(x) * (1.0 / (1.0 + libm::exp(-t)))) as f32
    }
}

/// Writes `x * sigmoid(alpha * x)` for each element.
pub(crate) fn swish(out: &mut [f32], x: &[f32], alpha: f32) {
    apply(Swish { alpha }, out, x);
}

/// Returns a rounded product and its rounding error, the exact product less the rounded one.
#[inline(always)]
fn product_f32<const FMA: bool>(x: f32, y: f32) -> (f32, f32) {
    let product = x * y;
    if FMA {
        return (product, x.mul_add(y, -product));
    }
    (product, (f64::from(x) * f64::from(y) - f64::from(product)) as f32)
}

/// Returns a rounded product and its rounding error, the exact product less the rounded one.
///
/// Source: Dekker: A floating-point technique for extending the available precision, 1971.
#[inline(always)]
fn product_f64<const FMA: bool>(x: f64, y: f64) -> (f64, f64) {
    if FMA {
        return (x * y, x.mul_add(y, -(x * y)));
    }
    let halves = |v: f64| {
        let wide = 134_217_729.0 * v;
        let high = wide - (wide - v);
        (high, v - high)
    };
    let ((a, b), (c, d)) = (halves(x), halves(y));
    let product = x * y;
    (product, ((a * c - product) + a * d + b * c) + b * d)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::{at, levels};

    #[test]
    fn swish_is_accurate_for_every_factor() {
        let special = [0.0, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, 1e-40];
        let patterns = (0..=u32::MAX).step_by(1_000_003).map(f32::from_bits);
        let x: Vec<f32> = patterns.chain((-999..999).map(|i| i as f32 * 0.1)).chain(special).collect();
        for alpha in [1.702f32, 1.0, -0.5, 0.0, 1e-38, 30.0, f32::INFINITY, f32::NAN] {
            for level in levels() {
                let mut y = vec![0f32; x.len()];
                at(level, || swish(&mut y, &x, alpha));
                for (&x, &y) in x.iter().zip(&y) {
                    let (wide, t) = (f64::from(x), f64::from(x) * f64::from(alpha));
                    let exact = wide / (1.0 + (-t).exp());
                    // The definition multiplies an infinity by 0, which is NaN.
                    let exact = if (-t).exp().is_infinite() { wide * 0.0 } else { exact };
                    let rounded = exact as f32;
                    let unit = f64::from(rounded.abs().next_up()) - f64::from(rounded.abs());
                    let same = y.to_bits() == rounded.to_bits() || (y.is_nan() && rounded.is_nan());
                    let off = (f64::from(y) - exact).abs() / unit;
                    assert!(
                        same || off < 2.1,
                        "swish({x:e}, {alpha}) is {y:e}, expected {exact:e} at {level:?}"
                    );
                }
            }
        }
    }
}
