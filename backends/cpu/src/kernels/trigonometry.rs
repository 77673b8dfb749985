//! Trigonometric functions of `f32` and their inverses, without branches, so that loops over them are vectorised.
//!
//! The polynomials were fitted for the minimum relative error of the function.

use super::element_loop::Run;
use super::function::{functions, map};
use super::math::{polynomial, single::fma};
use super::op::Unary;
use std::f32::consts::{FRAC_2_PI, FRAC_PI_2, PI};

/// The maximum angle that is reduced in vectors. Beyond it, the multiple of `π / 2` has too many digits for exact
/// products with the parts of `π / 2`.
const NEAR: f32 = 131_072.0;

/// The second and the third term of `π / 2`, whose first term is [`FRAC_PI_2`].
const REST: [f32; 2] = [-4.371_139e-8, -1.715_124_5e-15];

/// An angle as a multiple of `π / 2` and the rest, which is a float and its remainder.
#[derive(Clone, Copy)]
struct Angle {
    quarters: u32,
    rest: f32,
    low: f32,
}

/// Reduces an angle whose absolute value is at most [`NEAR`].
#[inline(always)]
fn reduced<const FMA: bool>(x: f32) -> Angle {
    /// After adding this number, the low bits hold the nearest integer.
    const MAGIC: f32 = 12_582_912.0;
    let shifted = fma::<FMA>(x, FRAC_2_PI, MAGIC);
    let (n, quarters) = (shifted - MAGIC, shifted.to_bits());
    if FMA {
        // The first difference is exact. The second difference and the product are computed with their rounding errors.
        let first = n.mul_add(-FRAC_PI_2, x);
        let product = n * -REST[0];
        let rest = first + product;
        let added = rest - first;
        let lost = (first - (rest - added)) + (product - added);
        let low = n.mul_add(-REST[1], n.mul_add(-REST[0], -product) + lost);
        return Angle { quarters, rest, low };
    }
    /// The first 33 bits of `π / 2`, whose product with the multiple is exact, and the remainder.
    const QUARTER: [f64; 2] = [1.570_796_326_734_125_6, 6.077_100_506_506_192e-11];
    let n = f64::from(n);
    let wide = (f64::from(x) - n * QUARTER[0]) - n * QUARTER[1];
    let rest = wide as f32;
    Angle { quarters, rest, low: (wide - f64::from(rest)) as f32 }
}

impl Angle {
    /// Returns the sine of the rest, as a float and its remainder.
    #[inline(always)]
    fn sin<const FMA: bool>(self) -> [f32; 2] {
        const SIN: [f32; 3] = [-1.950_306_8e-4, 8.332_071e-3, -0.166_666_54];
        let Angle { rest: r, low, .. } = self;
        let square = r * r;
        let more = fma::<FMA>(r * square, polynomial::<FMA>(&SIN, square), low);
        let y = r + more;
        [y, (r - y) + more]
    }

    /// Returns the cosine of the rest, as a float and its remainder.
    #[inline(always)]
    fn cos<const FMA: bool>(self) -> [f32; 2] {
        const COS: [f32; 3] = [2.441_919_4e-5, -1.388_719_4e-3, 4.166_664e-2];
        let Angle { rest: r, low, .. } = self;
        let square = r * r;
        let half = 0.5 * square;
        let high = 1.0 - half;
        // The rounding error of the difference.
        let lost = (1.0 - high) - half;
        let tail = fma::<FMA>(-r, low, lost);
        let more = fma::<FMA>(square * square, polynomial::<FMA>(&COS, square), tail);
        let y = high + more;
        [y, (high - y) + more]
    }

    /// Returns the sine of the whole angle plus `quarters` times `π / 2`.
    #[inline(always)]
    fn wave<const FMA: bool>(self, quarters: u32) -> f32 {
        let quarters = self.quarters.wrapping_add(quarters);
        let ([sin, _], [cos, _]) = (self.sin::<FMA>(), self.cos::<FMA>());
        let y = if quarters & 1 == 0 { sin } else { cos };
        f32::from_bits(y.to_bits() ^ (quarters & 2) << 30)
    }

    /// Returns the tangent of the whole angle.
    #[inline(always)]
    fn tan<const FMA: bool>(self) -> f32 {
        let ([sin, sin_low], [cos, cos_low]) = (self.sin::<FMA>(), self.cos::<FMA>());
        let odd = self.quarters & 1 == 1;
        let (above, above_low) = if odd { (-cos, -cos_low) } else { (sin, sin_low) };
        let (below, below_low) = if odd { (sin, sin_low) } else { (cos, cos_low) };
        if FMA {
            let inverse = 1.0 / below;
            let y = above * inverse;
            // The remainder of the division.
            let left = (-y).mul_add(below_low, (-y).mul_add(below, above) + above_low);
            return left.mul_add(inverse, y);
        }
        let (above, below) =
            (f64::from(above) + f64::from(above_low), f64::from(below) + f64::from(below_low));
        (above / below) as f32
    }
}

/// Returns the inverse tangent.
#[inline(always)]
fn atan<const FMA: bool>(x: f32) -> f32 {
    const ATAN: [f32; 9] = [
        -1.793_593_9e-3,
        1.091_448_1e-2,
        -3.117_761_4e-2,
        5.795_736e-2,
        -8.403_437e-2,
        0.109_521_81,
        -0.142_642_41,
        0.199_985_49,
        -0.333_333,
    ];
    let a = x.abs();
    let inverse = a > 1.0;
    let t = if inverse { -1.0 / a } else { a };
    let square = t * t;
    let y = fma::<FMA>(t * square, polynomial::<FMA>(&ATAN, square), t);
    (if inverse { FRAC_PI_2 + (REST[0] + y) } else { y }).copysign(x)
}

/// Returns the inverse sine of `a` if `a` is at most one half, otherwise the inverse sine of `sqrt((1 - a) / 2)`, which
/// is half of `acos(a)`. The result is a float and a term to add to it. `a` is not negative.
#[inline(always)]
fn half_asin<const FMA: bool>(a: f32) -> [f32; 2] {
    const ASIN: [f32; 5] = [4.216_628_5e-2, 2.417_952_6e-2, 4.547_037_6e-2, 7.495_297_5e-2, 0.166_667_52];
    let square = if a > 0.5 { 0.5 - 0.5 * a } else { a * a };
    let s = if a > 0.5 { square.sqrt() } else { a };
    [s, s * square * polynomial::<FMA>(&ASIN, square)]
}

/// Returns the inverse sine.
#[inline(always)]
fn asin<const FMA: bool>(x: f32) -> f32 {
    let a = x.abs();
    let [s, more] = half_asin::<FMA>(a);
    let high = FRAC_PI_2 - 2.0 * s;
    // The rounding error of the difference.
    let lost = (FRAC_PI_2 - high) - 2.0 * s;
    let y = if a > 0.5 { high + (lost + fma::<FMA>(-2.0, more, REST[0])) } else { s + more };
    y.copysign(x)
}

/// Returns the inverse cosine.
#[inline(always)]
fn acos<const FMA: bool>(x: f32) -> f32 {
    let a = x.abs();
    let [s, more] = half_asin::<FMA>(a);
    let (s, more) = (s.copysign(x), more.copysign(x));
    // If `a` is above one half, the result is twice the sum, or `π` minus twice the sum if `x` is negative. Otherwise
    // it is `π / 2` minus the sum, with the sign of `x`.
    let far = a > 0.5;
    let (s, more) = if far { (2.0 * s, 2.0 * more) } else { (-s, -more) };
    let (base, rest) =
        if far { if x < 0.0 { (PI, 2.0 * REST[0]) } else { (0.0, 0.0) } } else { (FRAC_PI_2, REST[0]) };
    (base + s) + (more + rest)
}

const EVERY: Option<[f32; 2]> = None;
const ANGLES: Option<[f32; 2]> = Some([-NEAR, NEAR]);

functions! { f32;
    Sin<FMA, NEAR> ANGLES, far |x| libm::sin(f64::from(x)) as f32, |x| {
        let y = reduced::<FMA>(x).wave::<FMA>(0);
        // The reduction loses the sign of a zero, so zeros are returned unchanged.
        if x == 0.0 { x } else { y }
    };
    Cos<FMA, NEAR> ANGLES, far |x| libm::cos(f64::from(x)) as f32, |x| reduced::<FMA>(x).wave::<FMA>(1);
    Tan<FMA, NEAR> ANGLES, far |x| libm::tan(f64::from(x)) as f32, |x| {
        let y = reduced::<FMA>(x).tan::<FMA>();
        if x == 0.0 { x } else { y }
    };
    Asin<FMA, NEAR> EVERY, |x| asin::<FMA>(x);
    Acos<FMA, NEAR> EVERY, |x| acos::<FMA>(x);
    Atan<FMA, NEAR> EVERY, |x| atan::<FMA>(x);
}

/// Returns the loop that applies `op` to `f32` elements, or `None` if this file does not implement `op`.
pub(super) fn function(op: Unary) -> Option<Run<1>> {
    Some(match op {
        Unary::Sin => map::<f32, Sin>,
        Unary::Cos => map::<f32, Cos>,
        Unary::Tan => map::<f32, Tan>,
        Unary::Asin => map::<f32, Asin>,
        Unary::Acos => map::<f32, Acos>,
        Unary::Atan => map::<f32, Atan>,
        _ => return None,
    })
}
