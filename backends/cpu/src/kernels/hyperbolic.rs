//! Hyperbolic functions of `f32` and their inverses, without branches, so that loops over them are vectorised.
//!
//! The inverses are logarithms whose arguments need more digits than an `f32` has, so they are computed in `f64`.

use super::element_loop::Run;
use super::function::{functions, map};
use super::math::single::{NONE, NORMAL, exponential, fma};
use super::math::{double, polynomial};
use super::op::Unary;

/// Returns `exp(a) / 2` as a number and its remainder, and `exp(-a) / 2`. `a` is not negative, and at most [`NORMAL`].
#[inline(always)]
fn halves<const FMA: bool>(a: f32) -> [f32; 3] {
    let e = exponential::<FMA, true>(a, NONE);
    let (one_more, power) = (1.0 + e.less_one, 0.5 * e.first);
    let lost = (1.0 - one_more) + e.less_one;
    // The power of two is between 1 and the largest normal number.
    [power * one_more, power * lost, 0.25 / (power * one_more)]
}

#[inline(always)]
fn sinh<const FMA: bool>(x: f32) -> f32 {
    const SINH: [f32; 4] = [2.816_951_3e-6, 1.983_616e-4, 8.333_35e-3, 0.166_666_67];
    let a = x.abs();
    let square = a * a;
    let near = fma::<FMA>(a * square, polynomial::<FMA>(&SINH, square), a);
    let [half, lost, inverse] = halves::<FMA>(a);
    (if a < 1.0 { near } else { half + (lost - inverse) }).copysign(x)
}

#[inline(always)]
fn cosh<const FMA: bool>(x: f32) -> f32 {
    let [half, lost, inverse] = halves::<FMA>(x.abs());
    half + (lost + inverse)
}

/// Returns the logarithm of a number that is not subnormal, with at least the precision of an `f32`.
#[inline(always)]
fn log<const FMA: bool>(x: f64) -> f64 {
    const SQRT_HALF: u64 = std::f64::consts::FRAC_1_SQRT_2.to_bits();
    /// After adding this number, the low bits hold an integer.
    const MAGIC: f64 = 6_755_399_441_055_744.0;
    const BIAS: u64 = 1023;
    // The exponent for a mantissa between `sqrt 0.5` and `sqrt 2`.
    let shifted = x.to_bits().wrapping_sub(SQRT_HALF).wrapping_add(BIAS << 52);
    let exponent = f64::from_bits((shifted >> 52).wrapping_add(MAGIC.to_bits())) - MAGIC - BIAS as f64;
    let f = f64::from_bits((shifted & ((1 << 52) - 1)).wrapping_add(SQRT_HALF)) - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let mut q = 2.0 / 11.0;
    for c in [9.0, 7.0, 5.0, 3.0] {
        q = double::fma::<FMA>(q, z, 2.0 / c);
    }
    let y = double::fma::<FMA>(s * z, q, 2.0 * s);
    let y = double::fma::<FMA>(exponent, std::f64::consts::LN_2, y);
    let y = if x >= 0.0 { y } else { f64::NAN };
    if x == f64::INFINITY { x } else { y }
}

/// For absolute values below this bound, `asinh` and `atanh` are computed as sums of two terms.
const SMALL: f64 = 0.01;

#[inline(always)]
fn asinh<const FMA: bool>(x: f32) -> f32 {
    let a = f64::from(x.abs());
    let square = a * a;
    let small = double::fma::<FMA>(a * square, -1.0 / 6.0, a);
    let y = if a < SMALL { small } else { log::<FMA>(a + (square + 1.0).sqrt()) };
    (y as f32).copysign(x)
}

#[inline(always)]
fn acosh<const FMA: bool>(x: f32) -> f32 {
    let wide = f64::from(x);
    let y = log::<FMA>(wide + double::fma::<FMA>(wide, wide, -1.0).sqrt()) as f32;
    // The square root does not depend on the sign of `x`, so negative arguments are checked here.
    if x >= 1.0 { y } else { f32::NAN }
}

#[inline(always)]
fn atanh<const FMA: bool>(x: f32) -> f32 {
    let a = f64::from(x.abs());
    let small = double::fma::<FMA>(a * a * a, 1.0 / 3.0, a);
    let y = if a < SMALL { small } else { 0.5 * log::<FMA>((1.0 + a) / (1.0 - a)) };
    (y as f32).copysign(x)
}

const EVERY: Option<[f32; 2]> = None;
const BOTH: Option<[f32; 2]> = Some([-NORMAL, NORMAL]);

functions! { f32;
    Sinh<FMA, NEAR> BOTH, far |x| libm::sinh(f64::from(x)) as f32, |x| sinh::<FMA>(x);
    Cosh<FMA, NEAR> BOTH, far |x| libm::cosh(f64::from(x)) as f32, |x| cosh::<FMA>(x);
    Asinh<FMA, NEAR> EVERY, |x| asinh::<FMA>(x);
    Acosh<FMA, NEAR> EVERY, |x| acosh::<FMA>(x);
    Atanh<FMA, NEAR> EVERY, |x| atanh::<FMA>(x);
}

/// Returns the loop that applies `op` to `f32` elements, or `None` if this file does not implement `op`.
pub(super) fn function(op: Unary) -> Option<Run<1>> {
    Some(match op {
        Unary::Sinh => map::<f32, Sinh>,
        Unary::Cosh => map::<f32, Cosh>,
        Unary::Asinh => map::<f32, Asinh>,
        Unary::Acosh => map::<f32, Acosh>,
        Unary::Atanh => map::<f32, Atanh>,
        _ => return None,
    })
}
