//! Elementary functions without branches, so that loops over them are vectorised.
//!
//! Each function reduces its argument to a short interval. There, the error of a Taylor polynomial or of a fitted
//! polynomial is well below one unit in the last place. The tests state the measured errors.

use super::dispatch::{VectorLoop, dispatch};
use super::element_loop::{Run, slices};
use super::function::{functions, in_stages, map, one_by_one, staged};
use super::op::Unary;

macro_rules! elementary {
    ($module:ident, $t:ident, $unsigned:ident, mantissa $bits:literal, bias $bias:literal,
     magic $magic:literal, exp $low:literal $high:literal, normal $normal:literal, ln2 $ln2_high:expr, $ln2_low:expr,
     least $least:literal, tanh $tanh:ident $tanhs:ident, erf $erf:ident, gelu $gelu:ident, $gelu_tanh:ident,
     reduced [$($reduced:expr),*], atanh [$last:expr, $($atanh:expr),*]) => {
        pub(super) mod $module {
            use super::{Run, Unary, functions, in_stages, map, staged};

            /// After adding this number, the low bits hold the nearest integer.
            pub(super) const MAGIC: $t = $magic;

            #[inline(always)]
            pub(in crate::kernels) fn fma<const FMA: bool>(a: $t, b: $t, c: $t) -> $t {
                if FMA { a.mul_add(b, c) } else { a * b + c }
            }

            /// Evaluates a polynomial whose constant term comes first. Pairs the terms, and evaluates a polynomial in
            /// the square of `x` whose coefficients are the sums of the pairs. This halves the chain of dependent
            /// additions.
            #[inline(always)]
            pub(in crate::kernels) fn in_pairs<const FMA: bool>(coefficients: &[$t], x: $t) -> $t {
                let square = x * x;
                let pair = |&[low, high]: &[$t; 2]| fma::<FMA>(high, x, low);
                let (pairs, rest) = coefficients.as_chunks::<2>();
                let Some((last, before)) = pairs.split_last() else { return 0.0 };
                let greatest = match rest {
                    &[alone] => fma::<FMA>(alone, square, pair(last)),
                    _ => pair(last),
                };
                before.iter().rev().fold(greatest, |sum, next| fma::<FMA>(sum, square, pair(next)))
            }

            /// Returns 2 to the power `n`, where `shifted` is `n + MAGIC`. `n` is in the exponent range of normal
            /// numbers.
            #[inline(always)]
            fn power_of_two(shifted: $t) -> $t {
                // The shift drops all bits of `MAGIC`.
                $t::from_bits((shifted.to_bits() << $bits).wrapping_add($bias << $bits))
            }

            /// Returns `x` times 2 to the power `n`, where `shifted` is `n + MAGIC`. `x` and the product are normal
            /// numbers.
            #[inline(always)]
            fn scaled(x: $t, shifted: $t) -> $t {
                // The shift drops all bits of `MAGIC`, and the rest is added to the exponent.
                $t::from_bits(x.to_bits().wrapping_add(shifted.to_bits() << $bits))
            }

            /// Returns `n + MAGIC` and `exp(r) - 1`, where `x + low = n ln 2 + r` and `low` is a small part of the
            /// argument. The coefficients approximate `(exp(r) - 1 - r) / r^2`.
            #[inline(always)]
            fn reduced<const FMA: bool>(x: $t, low: $t) -> ($t, $t) {
                let shifted = fma::<FMA>(x, std::$t::consts::LOG2_E, MAGIC);
                let n = shifted - MAGIC;
                let r = fma::<FMA>(n, -$ln2_low, fma::<FMA>(n, -$ln2_high, x)) + low;
                let q = in_pairs::<FMA>(&[$($reduced),*], r);
                (shifted, fma::<FMA>(r * r, q, r))
            }

            /// The value of `low` for an argument without a small part. The compiler may remove the addition of -0.0,
            /// but not of 0.0.
            pub(in crate::kernels) const NONE: $t = -0.0;

            /// The maximum argument whose exponential is a normal number, like the powers of two next to it.
            pub(in crate::kernels) const NORMAL: $t = $normal;

            /// An exponential in the form `(1 + less_one) * first * second`, where `first` and `second` are powers of
            /// two. Neither power is as small as the product can be, so that a factor can be multiplied in before
            /// digits are lost.
            #[derive(Clone, Copy)]
            pub(in crate::kernels) struct Exponential {
                pub(in crate::kernels) less_one: $t,
                pub(in crate::kernels) first: $t,
                pub(in crate::kernels) second: $t,
            }

            impl Exponential {
                #[inline(always)]
                fn value(self) -> $t {
                    (1.0 + self.less_one) * self.first * self.second
                }
            }

            /// Returns `exp(x + low)`. With two powers of two, `x` may be as low as twice the argument whose
            /// exponential is the smallest number. If `NEAR`, one power suffices, and `x` is at most `NORMAL`.
            #[inline(always)]
            pub(in crate::kernels) fn exponential<const FMA: bool, const NEAR: bool>(x: $t, low: $t) -> Exponential {
                let (shifted, less_one) = reduced::<FMA>(x, low);
                if NEAR {
                    return Exponential { less_one, first: power_of_two(shifted), second: 1.0 };
                }
                let n = shifted - MAGIC;
                let half = fma::<FMA>(n, 0.5, MAGIC);
                let rest = (n - (half - MAGIC)) + MAGIC;
                Exponential { less_one, first: power_of_two(half), second: power_of_two(rest) }
            }

            #[inline(always)]
            pub(in crate::kernels) fn exp<const FMA: bool, const NEAR: bool>(x: $t) -> $t {
                if NEAR {
                    let (shifted, less_one) = reduced::<FMA>(x, NONE);
                    return scaled(1.0 + less_one, shifted);
                }
                // Comparisons with NaN are false, so NaN stays NaN.
                let x = if x < $low { $low } else { x };
                let x = if x > $high { $high } else { x };
                exponential::<FMA, false>(x, NONE).value()
            }

            /// Returns `exp(x) - 1` for arguments up to 40 in absolute value.
            #[inline(always)]
            pub(super) fn exp_m1<const FMA: bool>(x: $t) -> $t {
                let (shifted, p) = reduced::<FMA>(x, NONE);
                let scale = power_of_two(shifted);
                fma::<FMA>(scale, p, scale - 1.0)
            }

            #[inline(always)]
            pub(in crate::kernels) fn log<const FMA: bool>(x: $t) -> $t {
                const SQRT_HALF: $unsigned = std::$t::consts::FRAC_1_SQRT_2.to_bits();
                const UNIT: $t = ((1 as $unsigned) << ($bits + 1)) as $t;
                let tiny = x < $t::MIN_POSITIVE;
                let scaled = if tiny { x * UNIT } else { x };
                // The exponent for a mantissa in [sqrt 0.5, sqrt 2).
                let shifted = scaled.to_bits().wrapping_sub(SQRT_HALF).wrapping_add($bias << $bits);
                let exponent = $t::from_bits((shifted >> $bits).wrapping_add(MAGIC.to_bits())) - MAGIC - $bias as $t;
                let exponent = if tiny { exponent - ($bits + 1) as $t } else { exponent };
                let mantissa = (shifted & ((1 << $bits) - 1)).wrapping_add(SQRT_HALF);
                let f = $t::from_bits(mantissa) - 1.0;
                // log(1 + f) = 2 atanh s = f - f^2/2 + s (f^2/2 + R(s^2)).
                let s = f / (2.0 + f);
                let z = s * s;
                let mut q = 2.0 / $last;
                for c in [$($atanh),*] {
                    q = fma::<FMA>(q, z, 2.0 / c);
                }
                let square = 0.5 * f * f;
                let tail = fma::<FMA>(s, fma::<FMA>(z, q, square), exponent * $ln2_low);
                let y = fma::<FMA>(exponent, $ln2_high, f - (square - tail));
                let y = if x < 0.0 || x.is_nan() { $t::NAN } else { y };
                let y = if x == 0.0 { $t::NEG_INFINITY } else { y };
                if x == $t::INFINITY { x } else { y }
            }

            /// Returns `exp(x) - 1`.
            #[inline(always)]
            pub(in crate::kernels) fn expm1<const FMA: bool>(x: $t) -> $t {
                let near = if x < -40.0 { -40.0 } else { x };
                let near = exp_m1::<FMA>(if near > 40.0 { 40.0 } else { near });
                // For these arguments, subtracting 1 has no effect after rounding.
                let y = if x > 40.0 { exp::<FMA, false>(x) } else { near };
                // The sum would lose the sign of a zero, so zeros are returned unchanged.
                if x == 0.0 { x } else { y }
            }

            /// Returns `log(1 + x)`: the logarithm of the rounded sum, corrected for the rounding error.
            #[inline(always)]
            fn log1p<const FMA: bool>(x: $t) -> $t {
                let u = 1.0 + x;
                let rest = if x < 1.0 { x - (u - 1.0) } else { 1.0 - (u - x) };
                let y = log::<FMA>(u) + rest / u;
                let y = if x == -1.0 { $t::NEG_INFINITY } else { y };
                if x == 0.0 || x == $t::INFINITY { x } else { y }
            }

            #[inline(always)]
            pub(in crate::kernels) fn softplus<const FMA: bool, const NEAR: bool>(x: $t) -> $t {
                let above = if x > 0.0 { x } else { 0.0 };
                above + log1p::<FMA>(exp::<FMA, NEAR>(-x.abs()))
            }

            #[inline(always)]
            pub(in crate::kernels) fn tanh<const FMA: bool>(x: $t) -> $t {
                super::$tanh::<FMA>(x)
            }

            #[inline(always)]
            pub(in crate::kernels) fn sigmoid<const FMA: bool, const NEAR: bool>(x: $t) -> $t {
                let near = if !NEAR && x < -NORMAL { -NORMAL } else { x };
                let near = if !NEAR && near > NORMAL { NORMAL } else { near };
                let (shifted, less_one) = reduced::<FMA>(-near, NONE);
                let scale = power_of_two(shifted);
                // Computes `1 + exp(-x)` as `scale * (1 + less_one + 1 / scale)`, which has a smaller rounding error
                // than adding 1.
                let inverse = power_of_two(MAGIC - (shifted - MAGIC));
                let y = 1.0 / fma::<FMA>(scale, less_one + inverse, scale);
                // For these arguments, adding 1 to the exponential has no effect, so the result is `exp(x)`.
                if !NEAR && x < -NORMAL { exp::<FMA, false>(x) } else { y }
            }

            /// Returns `n + MAGIC` and `exp(r) - 1`, where `-(x + low) = n ln 2 + r` and `low` is a small part of the
            /// argument.
            #[inline(always)]
            pub(in crate::kernels) fn inverse_reduced<const FMA: bool>([x, low]: [$t; 2]) -> [$t; 2] {
                let (shifted, less_one) = reduced::<FMA>(-x, -low);
                [shifted, less_one]
            }

            /// Returns `x * sigmoid(t)` from [`inverse_reduced`] of `t`. `t` is at most [`ONE`], and so large that half of
            /// its power of two is a normal number.
            #[inline(always)]
            pub(in crate::kernels) fn times_sigmoid<const FMA: bool>(x: $t, [shifted, less_one]: [$t; 2]) -> $t {
                const UNIT: $unsigned = $bias << $bits;
                // Two powers of two. Their product may be too small for a normal number, but each of them is normal.
                let (power, half) = (shifted.to_bits() << $bits, (shifted.to_bits() >> 1) << $bits);
                let first = $t::from_bits(UNIT.wrapping_sub(half));
                let second = $t::from_bits(UNIT.wrapping_sub(power.wrapping_sub(half)));
                // With the power of two as a factor, the divisor is near 1.
                let factor = first * second;
                if !FMA {
                    return x / (1.0 + (less_one + factor)) * first * second;
                }
                // The rounding errors of both sums, which need the larger summand first, and of the quotient.
                let e = 1.0 + less_one;
                let (greater, lesser) = if factor > e { (factor, e) } else { (e, factor) };
                let divisor = greater + lesser;
                let rest = ((1.0 - e) + less_one) + ((greater - divisor) + lesser);
                let inverse = 1.0 / divisor;
                let y = x * inverse;
                let left = fma::<FMA>(-y, rest, fma::<FMA>(-y, divisor, x));
                let y = fma::<FMA>(left, inverse, y);
                // The result has the sign of `x`, which the sum with a positive zero loses.
                (y * first * second).copysign(x)
            }

            /// An argument whose sigmoid is 1.
            pub(in crate::kernels) const ONE: $t = 45.0;

            /// Writes `x * sigmoid(t)`, where `first` and `middle` compute [`inverse_reduced`] of `t` from `x`. The value
            /// at `least` and below is 0.
            #[inline(always)]
            pub(in crate::kernels) fn gated<const FMA: bool>(
                out: &mut [$t],
                x: &[$t],
                least: $t,
                first: impl Fn($t) -> [$t; 2],
                middle: impl Fn([$t; 2]) -> [$t; 2],
            ) {
                let own = |x| if x < least { least } else { x };
                in_stages(out, x, |x| first(own(x)), middle, |x, sigmoid| {
                    let y = times_sigmoid::<FMA>(own(x), sigmoid);
                    // The definition multiplies minus infinity by 0, which is NaN.
                    let y = if x == $t::NEG_INFINITY { $t::NAN } else { y };
                    if x == $t::INFINITY { x } else { y }
                });
            }

            /// Writes `x * sigmoid(x)`.
            #[inline(always)]
            fn silu<const FMA: bool>(out: &mut [$t], x: &[$t]) {
                let reduced = |x| inverse_reduced::<FMA>([if x > ONE { ONE } else { x }, -NONE]);
                gated::<FMA>(out, x, $least, reduced, |reduced| reduced);
            }

            const EVERY: Option<[$t; 2]> = None;
            const BOTH: Option<[$t; 2]> = Some([-NORMAL, NORMAL]);

            functions! { $t;
                Sqrt<FMA, NEAR> EVERY, |x| x.sqrt();
                Exp<FMA, NEAR> BOTH, |x| exp::<FMA, NEAR>(x);
                Log<FMA, NEAR> EVERY, |x| log::<FMA>(x);
                Expm1<FMA, NEAR> EVERY, |x| expm1::<FMA>(x);
                Log1p<FMA, NEAR> EVERY, |x| log1p::<FMA>(x);
                Softplus<FMA, NEAR> BOTH, |x| softplus::<FMA, NEAR>(x);
                Sigmoid<FMA, NEAR> BOTH, |x| sigmoid::<FMA, NEAR>(x);
                Erf<FMA, NEAR> EVERY, |x| super::$erf::<FMA>(x);
            }

            staged! { $t;
                Tanh<FMA> |out, x| super::$tanhs::<FMA>(out, x);
                Silu<FMA> |out, x| silu::<FMA>(out, x);
                Gelu<FMA> |out, x| crate::kernels::gelu::$gelu::<FMA>(out, x);
                GeluTanh<FMA> |out, x| crate::kernels::gelu::$gelu_tanh::<FMA>(out, x);
            }

            /// Returns the loop of an operation that is one of these functions, or `None` for other operations.
            pub(in crate::kernels) fn function(op: Unary) -> Option<Run<1>> {
                Some(match op {
                    Unary::Sqrt => map::<$t, Sqrt>,
                    Unary::Exp => map::<$t, Exp>,
                    Unary::Log => map::<$t, Log>,
                    Unary::Tanh => map::<$t, Tanh>,
                    Unary::Sigmoid => map::<$t, Sigmoid>,
                    Unary::Erf => map::<$t, Erf>,
                    Unary::Gelu => map::<$t, Gelu>,
                    Unary::GeluTanh => map::<$t, GeluTanh>,
                    Unary::Silu => map::<$t, Silu>,
                    Unary::Expm1 => map::<$t, Expm1>,
                    Unary::Log1p => map::<$t, Log1p>,
                    Unary::Softplus => map::<$t, Softplus>,
                    _ => return None,
                })
            }
        }
    };
}

elementary!(single, f32, u32, mantissa 23, bias 127, magic 12_582_912.0, exp -104.0 89.0, normal 87.0,
    ln2 0.693_145_75, 1.428_606_8e-6, least -120.0, tanh tanh_f32 tanhs_f32, erf erf_f32, gelu gelu_f32, gelu_tanh_f32,
    reduced [0.499_999_94, 0.166_665_21, 0.041_668_266, 0.008_368_674, 0.001_382_063_4], atanh [9.0, 7.0, 5.0, 3.0]);

elementary!(double, f64, u64, mantissa 52, bias 1023, magic 6_755_399_441_055_744.0, exp -746.0 710.0, normal 708.0,
    ln2 0.6931471805592082, 7.371002565167799e-13, least -800.0, tanh tanh_f64 tanhs_f64, erf erf_f64, gelu gelu_f64, gelu_tanh_f64,
    reduced [1.0 / 2.0, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0, 1.0 / 5040.0, 1.0 / 40320.0, 1.0 / 362880.0, 1.0 / 3628800.0, 1.0 / 39916800.0, 1.0 / 479001600.0, 1.0 / 6227020800.0], atanh [23.0, 21.0, 19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0]);

/// Evaluates a polynomial whose leading coefficient comes first.
#[inline(always)]
pub(super) fn polynomial<const FMA: bool>(coefficients: &[f32], x: f32) -> f32 {
    let Some((&first, rest)) = coefficients.split_first() else { return 0.0 };
    rest.iter().fold(first, |sum, &c| single::fma::<FMA>(sum, x, c))
}

/// Returns `exp(scale * x)` for moderate arguments, with an error of some units in the last place. This is accurate
/// enough for a term that is added to a larger number. The result for NaN may be a number. The coefficients of
/// `exp(scale * r)` are for `r` up to half of `ln 2 / scale`.
#[inline(always)]
fn rough_exp<const FMA: bool>(x: f32, scale: f32, coefficients: [f32; 6]) -> f32 {
    use std::f32::consts::{LN_2, LOG2_E};
    let shifted = single::fma::<FMA>(x, scale * LOG2_E, single::MAGIC);
    let r = single::fma::<FMA>(shifted - single::MAGIC, -LN_2 / scale, x);
    let near_one = single::in_pairs::<FMA>(&coefficients, r);
    // The shift drops all bits of `MAGIC`, and the rest is added to the exponent.
    f32::from_bits(near_one.to_bits().wrapping_add(shifted.to_bits() << 23))
}

/// A polynomial that was fitted to the exponential, with a relative error of `2^-23` from `-ln 2 / 2` to `ln 2 / 2`.
const ROUGH_EXP: [f32; 6] = [1.0, 0.999_999_7, 0.499_991_33, 0.166_676_55, 0.041_900_236, 0.008_289_888];

/// Computes the hyperbolic tangent. Below 0.625, evaluates a polynomial in `x * x` that was fitted to
/// `(tanh(x) / x - 1) / x^2`. From 0.625, computes `1 - 2 / (1 + exp(2 x))`.
#[inline(always)]
fn tanh_f32<const FMA: bool>(x: f32) -> f32 {
    tanh_from::<FMA>(x, doubled_exp::<FMA>(x))
}

/// Returns `exp(2 |x|)` as [`tanh_f32`] needs it.
#[inline(always)]
fn doubled_exp<const FMA: bool>(x: f32) -> f32 {
    const DOUBLED: [f32; 6] = {
        let [a, b, c, d, e, f] = ROUGH_EXP;
        [a, 2.0 * b, 4.0 * c, 8.0 * d, 16.0 * e, 32.0 * f]
    };
    rough_exp::<FMA>(if x.abs() > 10.0 { 10.0 } else { x.abs() }, 2.0, DOUBLED)
}

/// Returns the hyperbolic tangent from [`doubled_exp`].
#[inline(always)]
fn tanh_from<const FMA: bool>(x: f32, exponential: f32) -> f32 {
    const SMALL: [f32; 5] = [-0.333_332_84, 0.133_314_91, -0.053_743_497, 0.020_650_588, -0.005_717_045];
    let (a, square) = (x.abs(), x * x);
    let small = single::fma::<FMA>(a * square, single::in_pairs::<FMA>(&SMALL, square), a);
    let large = 1.0 - 2.0 / (1.0 + exponential);
    (if a >= 0.625 { large } else { small }).copysign(x)
}

/// Writes the hyperbolic tangents.
#[inline(always)]
fn tanhs_f32<const FMA: bool>(out: &mut [f32], x: &[f32]) {
    in_stages(
        out,
        x,
        |x| [doubled_exp::<FMA>(x), 0.0],
        |large| large,
        |x, [large, _]| tanh_from::<FMA>(x, large),
    );
}

#[inline(always)]
fn tanhs_f64<const FMA: bool>(out: &mut [f64], x: &[f64]) {
    one_by_one(out, x, tanh_f64::<FMA>);
}

/// Computes the hyperbolic tangent as a quotient of exponentials.
#[inline(always)]
fn tanh_f64<const FMA: bool>(x: f64) -> f64 {
    let a = x.abs();
    let a = if a > 20.0 { 20.0 } else { a };
    let e = double::exp_m1::<FMA>(2.0 * a);
    let d = e + 2.0;
    // The rounding error of the sum matters only if the result is not almost 1.
    let rest = (2.0 - d) + e;
    let y = e / d;
    // `1 / (e + 2)` is `(1 - y) / 2`.
    let y = if e < 2.0 { double::fma::<FMA>(-0.5 * y, rest * (1.0 - y), y) } else { y };
    y.copysign(x)
}

/// Computes the error function. Below 1, evaluates a polynomial in `x * x` that was fitted to `erf(x) / x - 1`. From 1,
/// computes `1 - exp(p(x))`, where `p` was fitted to the logarithm of `1 - erf(x)` up to 4.
#[inline(always)]
fn erf_f32<const FMA: bool>(x: f32) -> f32 {
    const SMALL: [f32; 7] = [
        0.128_379_17,
        -0.376_126_26,
        0.112_835_854,
        -0.026_853_813,
        0.005_188_327_7,
        -0.000_801_019_37,
        7.853_861_5e-5,
    ];
    const LARGE: [f32; 8] = [
        -2.169_760_2e-5,
        0.000_441_472_48,
        -0.004_205_283_7,
        0.025_210_338,
        -0.108_422_09,
        -0.633_216_4,
        -1.129_580_3,
        0.000_188_467_28,
    ];
    let a = x.abs();
    let a = if a > 4.0 { 4.0 } else { a };
    let small = single::fma::<FMA>(a, single::in_pairs::<FMA>(&SMALL, a * a), a);
    // Evaluating this polynomial with `in_pairs` would have too large a rounding error.
    let large = 1.0 - rough_exp::<FMA>(polynomial::<FMA>(&LARGE, a), 1.0, ROUGH_EXP);
    (if a >= 1.0 { large } else { small }).copysign(x)
}

#[inline(always)]
fn erf_f64<const FMA: bool>(x: f64) -> f64 {
    libm::erf(x)
}

/// Returns `x` to the power `y` in single precision, computed in double precision.
#[inline(always)]
pub(super) fn pow<const FMA: bool>(x: f32, y: f32) -> f32 {
    let (a, e) = (f64::from(x.abs()), f64::from(y));
    let r = double::exp::<FMA, false>(e * double::log::<FMA>(a)) as f32;
    let integer = y.trunc() == y;
    let half = 0.5 * y;
    let odd = integer && half.trunc() != half;
    let r = if odd && x.is_sign_negative() { -r } else { r };
    let r = if x < 0.0 && x.is_finite() && !integer { f32::NAN } else { r };
    if y == 0.0 || x == 1.0 || (x == -1.0 && y.is_infinite()) { 1.0 } else { r }
}

struct Powers<'a> {
    out: &'a mut [f32],
    x: &'a [f32],
    y: &'a [f32],
}

impl VectorLoop for Powers<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for ((out, &x), &y) in self.out.iter_mut().zip(self.x).zip(self.y) {
            *out = pow::<FMA>(x, y);
        }
    }
}

/// Writes `x` to the power `y` for each pair of elements.
///
/// # Safety
///
/// Same as for [`Run`].
pub(super) unsafe fn powers(out: *mut u8, operands: [*const u8; 2], n: usize) {
    // SAFETY: this function has the same contract.
    let (out, [x, y]) = unsafe { slices::<f32, f32, 2>(out, operands, n) };
    dispatch(Powers { out, x, y });
}
