//! Bodies of the element-wise functions that are not primitives.
//!
//! Each function has an error of a few units in the last place over its whole range; NaN and infinities follow IEEE
//! 754. 16-bit floats are computed in `f32`. Functions of angles are computed in `f64` for all types, because reducing
//! angles to one period needs the digits. If the backend has no `f64`, they are computed in `f32`, with numbers split
//! into more parts. The polynomials are Chebyshev interpolants, leading coefficient first. The error of each polynomial
//! is below one unit in the last place of `f64`, or of `f32` where noted.

use super::{angle, types};
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{DataType, Tensor};
use bb_ir::op::RoundMode;

/// Casts with ONNX's default rounding and saturation.
pub fn to(on: &Tracer, x: &TracedTensor, dtype: DataType) -> Result<TracedTensor, TraceStop> {
    if x.dtype() == dtype { on.identity(x) } else { on.cast(x, dtype, true, RoundMode::Up) }
}

/// Returns the type of the indices that bodies create: `i64`, or `i32` on a backend that lacks `i64`.
pub(crate) fn index(on: &Tracer) -> DataType {
    if on.types().has(DataType::I64) || !on.types().has(DataType::I32) {
        DataType::I64
    } else {
        DataType::I32
    }
}

/// Returns a float type that can represent the values of both types.
pub fn common(a: DataType, b: DataType) -> DataType {
    match (a, b) {
        _ if a == b => a,
        (DataType::F64, _) | (_, DataType::F64) => DataType::F64,
        _ => DataType::F32,
    }
}

/// Casts storage types to a float type that backends compute in.
pub fn numeric(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    if x.dtype().is_compute() { Ok(x.clone()) } else { to(on, x, DataType::F32) }
}

/// Computes `f` in the type `wide`, or in the operand's type if that is wider. On a backend without `f64`, `f` is
/// computed in `f32`.
pub fn widened(
    on: &Tracer,
    x: &TracedTensor,
    wide: DataType,
    f: impl FnOnce(&TracedTensor) -> Result<TracedTensor, TraceStop>,
) -> Result<TracedTensor, TraceStop> {
    let dtype = x.dtype();
    let wide = if dtype.is_float() && !on.types().has(wide) { DataType::F32 } else { wide };
    if dtype == wide || dtype == DataType::F64 {
        return f(x);
    }
    to(on, &f(&to(on, x, wide)?)?, dtype)
}

/// Computes a function of floats, like [`widened`].
///
/// # Errors
///
/// [`bb_ir::Error::ElementType`] if the elements are not floats.
pub(crate) fn floats(
    on: &Tracer,
    op: &'static str,
    x: &TracedTensor,
    wide: DataType,
    f: impl FnOnce(&TracedTensor) -> Result<TracedTensor, TraceStop>,
) -> Result<TracedTensor, TraceStop> {
    types::take(op, x, types::FLOATS)?;
    widened(on, x, wide, f)
}

/// Computes a function in `f32` for 16-bit floats, and rounds the result once. For other types, computes it directly.
pub(crate) fn once(
    on: &Tracer,
    x: &TracedTensor,
    f: impl FnOnce(&TracedTensor) -> Result<TracedTensor, TraceStop>,
) -> Result<TracedTensor, TraceStop> {
    if is_half(x.dtype()) { widened(on, x, DataType::F32, f) } else { f(x) }
}

/// Returns whether an element type is a 16-bit float.
pub fn is_half(dtype: DataType) -> bool {
    matches!(dtype, DataType::F16 | DataType::BF16)
}

/// Converts the operand to its accumulation type: `f32` for 16-bit floats.
pub fn accumulated(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    if is_half(x.dtype()) { to(on, x, DataType::F32) } else { Ok(x.clone()) }
}

/// Casts `y` to `dtype`, without an operation if it already has this type.
pub fn narrowed(on: &Tracer, y: TracedTensor, dtype: DataType) -> Result<TracedTensor, TraceStop> {
    if y.dtype() == dtype { Ok(y) } else { to(on, &y, dtype) }
}

/// Evaluates a polynomial, the leading coefficient first.
pub(super) fn polynomial(
    on: &Tracer,
    x: &TracedTensor,
    coefficients: &[f64],
) -> Result<TracedTensor, TraceStop> {
    let (first, rest) = coefficients.split_first().unwrap_or((&0.0, &[]));
    let mut sum = on.scalar_like(x, *first)?;
    for c in rest {
        sum = on.add(&on.mul(&sum, x)?, &on.scalar_like(x, *c)?)?;
    }
    Ok(sum)
}

/// Makes a function odd: returns `-y` where `x` is negative, `x` itself where it is zero (to keep its sign), and `y`
/// elsewhere.
fn signed(on: &Tracer, x: &TracedTensor, y: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    let zero = on.scalar_like(x, 0.0)?;
    let y = on.r#where(&on.less(x, &zero)?, &on.neg(y)?, y)?;
    on.r#where(&on.equal(x, &zero)?, x, &y)
}

pub fn times(on: &Tracer, x: &TracedTensor, c: f64) -> Result<TracedTensor, TraceStop> {
    on.mul(x, &on.scalar_like(x, c)?)
}

pub fn plus(on: &Tracer, x: &TracedTensor, c: f64) -> Result<TracedTensor, TraceStop> {
    on.add(x, &on.scalar_like(x, c)?)
}

pub(crate) fn below(on: &Tracer, x: &TracedTensor, c: f64) -> Result<TracedTensor, TraceStop> {
    on.less(x, &on.scalar_like(x, c)?)
}

/// The body of [`Scalar::expm1`](super::Scalar::expm1).
///
/// It computes `(u - 1) * x / log(u)` with `u = exp(x)`. The rounding error of `u` occurs in the numerator and in the
/// denominator, so it cancels. Source: Kahan, in Higham: Accuracy and Stability of Numerical Algorithms, 1.14.1.
pub fn expm1(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    floats(on, "expm1", x, DataType::F32, |x| {
        let one = on.scalar_like(x, 1.0)?;
        let u = on.exp(x)?;
        let less_one = on.sub(&u, &one)?;
        let near = on.div(&on.mul(&less_one, x)?, &on.log(&u)?)?;
        let near = on.r#where(&on.equal(&u, &one)?, x, &near)?;
        on.r#where(&on.less(&on.abs(x)?, &one)?, &near, &less_one)
    })
}

/// The body of [`Scalar::log1p`](super::Scalar::log1p); see [`expm1`].
pub fn log1p(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    floats(on, "log1p", x, DataType::F32, |x| {
        let one = on.scalar_like(x, 1.0)?;
        let u = on.add(x, &one)?;
        let log = on.log(&u)?;
        let near = on.mul(&log, &on.div(x, &on.sub(&u, &one)?)?)?;
        let near = on.r#where(&on.equal(&u, &one)?, x, &near)?;
        on.r#where(&on.less(x, &one)?, &near, &log)
    })
}

/// The body of [`Scalar::sigmoid`](super::Scalar::sigmoid). It computes `exp(-|x|)`, which never overflows.
pub fn sigmoid(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    floats(on, "sigmoid", x, DataType::F32, |x| {
        let one = on.scalar_like(x, 1.0)?;
        let e = on.exp(&on.neg(&on.abs(x)?)?)?;
        let upper = on.r#where(&below(on, x, 0.0)?, &e, &one)?;
        on.div(&upper, &on.add(&e, &one)?)
    })
}

/// The body of [`Scalar::softplus`](super::Scalar::softplus).
pub fn softplus(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    floats(on, "softplus", x, DataType::F32, |x| {
        let positive = on.maximum(x, &on.scalar_like(x, 0.0)?)?;
        on.add(&positive, &on.log1p(&on.exp(&on.neg(&on.abs(x)?)?)?)?)
    })
}

/// The body of [`Scalar::tanh`](super::Scalar::tanh): `-t / (t + 2)` with `t = exp(-2|x|) - 1`.
pub fn tanh(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    floats(on, "tanh", x, DataType::F32, |x| {
        let t = on.expm1(&times(on, &on.abs(x)?, -2.0)?)?;
        signed(on, x, &on.div(&on.neg(&t)?, &plus(on, &t, 2.0)?)?)
    })
}

/// The body of [`Scalar::sinh`](super::Scalar::sinh).
pub fn sinh(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    floats(on, "sinh", x, DataType::F32, |x| {
        let size = on.abs(x)?;
        let t = on.expm1(&size)?;
        let near = times(on, &on.add(&t, &on.div(&t, &plus(on, &t, 1.0)?)?)?, 0.5)?;
        let far = half_exponential(on, &size)?;
        signed(on, x, &on.r#where(&below(on, &size, 20.0)?, &near, &far)?)
    })
}

/// The body of [`Scalar::cosh`](super::Scalar::cosh).
pub fn cosh(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    floats(on, "cosh", x, DataType::F32, |x| {
        let size = on.abs(x)?;
        on.add(&half_exponential(on, &size)?, &times(on, &on.exp(&on.neg(&size)?)?, 0.5)?)
    })
}

/// Returns `exp(x) / 2`, without an overflow of `exp(x)` itself.
fn half_exponential(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    let root = on.exp(&times(on, x, 0.5)?)?;
    on.mul(&times(on, &root, 0.5)?, &root)
}

/// The body of [`Scalar::asinh`](super::Scalar::asinh): `log1p(|x| + x² / (1 + sqrt(x² + 1)))`.
pub fn asinh(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    floats(on, "asinh", x, DataType::F32, |x| {
        let size = on.abs(x)?;
        let square = on.mul(x, x)?;
        let root = plus(on, &on.sqrt(&plus(on, &square, 1.0)?)?, 1.0)?;
        let near = on.log1p(&on.add(&size, &on.div(&square, &root)?)?)?;
        let far = plus(on, &on.log(&size)?, std::f64::consts::LN_2)?;
        signed(on, x, &on.r#where(&below(on, &size, 1e8)?, &near, &far)?)
    })
}

/// The body of [`Scalar::acosh`](super::Scalar::acosh): `log1p(t + sqrt(2t + t²))` with `t = x - 1`.
pub fn acosh(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    floats(on, "acosh", x, DataType::F32, |x| {
        let t = plus(on, x, -1.0)?;
        // The square root of the product would not be NaN for `x` below -1, but the result must be.
        let root = on.mul(&on.sqrt(&t)?, &on.sqrt(&plus(on, &t, 2.0)?)?)?;
        let near = on.log1p(&on.add(&t, &root)?)?;
        let far = plus(on, &on.log(x)?, std::f64::consts::LN_2)?;
        on.r#where(&on.greater(x, &on.scalar_like(x, 1e8)?)?, &far, &near)
    })
}

/// The body of [`Scalar::atanh`](super::Scalar::atanh): `log1p(2x / (1 - x)) / 2`.
pub fn atanh(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    floats(on, "atanh", x, DataType::F32, |x| {
        let size = on.abs(x)?;
        let ratio = on.div(&times(on, &size, 2.0)?, &on.sub(&on.scalar_like(x, 1.0)?, &size)?)?;
        signed(on, x, &times(on, &on.log1p(&ratio)?, 0.5)?)
    })
}

/// Coefficients of `erf(x) / x` as a polynomial in `x²`, for `|x| < 1`.
const ERF_NEAR: [f64; 12] = [
    -7.795898827002142e-10,
    1.3720064546777686e-08,
    -1.6208483801871705e-07,
    1.6447424703317362e-06,
    -1.492473690741966e-05,
    0.00012055294904839707,
    -0.0008548325975389692,
    0.0052239776071164225,
    -0.02686617064323777,
    0.11283791670945006,
    -0.37612638903183543,
    std::f64::consts::FRAC_2_SQRT_PI,
];

/// The same polynomial in `f32` precision.
const ERF_NEAR_32: [f64; 7] = [
    7.875875062685488e-05,
    -0.000801686428716587,
    0.005189087423433974,
    -0.026854212010626412,
    0.11283594715160218,
    -0.37612626666720334,
    1.1283791658483509,
];

/// Coefficients of `exp(x²) erfc(x)` as a polynomial in `2 / (2 + x)`, for `1 <= x <= 6`. Beyond 6, `erf` rounds to 1.
const ERFC: [f64; 17] = [
    -0.07440021243346044,
    0.5535022023245029,
    -1.8535316382081848,
    3.6426059404027527,
    -4.583844406614994,
    3.799359906028882,
    -2.1298439188930316,
    0.9210072415249974,
    -0.3377317752090611,
    0.0031605924750990814,
    -0.011294696331083888,
    0.08342915067749279,
    0.17661452876291867,
    0.24676994208173553,
    0.28210194185256204,
    0.28209433744603646,
    1.273194538411999e-08,
];

/// The same polynomial in `f32` precision, for `1 <= x <= 4`.
const ERFC_32: [f64; 7] = [
    -0.05363042807694806,
    -0.05706519996389612,
    0.40349505334132824,
    0.1014954124429318,
    0.3307571337028597,
    0.273634340084396,
    0.0006051183909673801,
];

/// The body of [`Scalar::erf`](super::Scalar::erf).
pub fn erf(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    floats(on, "erf", x, DataType::F32, |x| {
        let (near, far): (&[f64], &[f64]) =
            if x.dtype() == DataType::F64 { (&ERF_NEAR, &ERFC) } else { (&ERF_NEAR_32, &ERFC_32) };
        let size = on.abs(x)?;
        let square = on.mul(x, x)?;
        let near = on.mul(x, &polynomial(on, &square, near)?)?;
        let t = on.div(&on.scalar_like(x, 2.0)?, &plus(on, &size, 2.0)?)?;
        let rest = on.mul(&on.exp(&on.neg(&square)?)?, &polynomial(on, &t, far)?)?;
        let far = signed(on, x, &on.sub(&on.scalar_like(x, 1.0)?, &rest)?)?;
        on.r#where(&below(on, &size, 1.0)?, &near, &far)
    })
}

/// Coefficients of `sin(x) / x` as a polynomial in `x²`, for `|x| <= π/2`.
const SIN: [f64; 10] = [
    -7.982518961783833e-18,
    2.8102145350022103e-15,
    -7.647127739966418e-13,
    1.6059043206300948e-10,
    -2.5052108378602197e-08,
    2.755731922394071e-06,
    -0.0001984126984126967,
    0.008333333333333333,
    -0.16666666666666666,
    1.0,
];

/// Returns `sin(x + offset π)`, for an `offset` of 0 or 0.5.
fn sine(
    on: &Tracer,
    op: &'static str,
    x: &TracedTensor,
    offset: f64,
    from: DataType,
) -> Result<TracedTensor, TraceStop> {
    floats(on, op, x, DataType::F64, |x| {
        let (angle, turns) = angle::nearest(on, x, from, offset)?;
        let sin = on.mul(&angle, &polynomial(on, &on.mul(&angle, &angle)?, &SIN)?)?;
        let halved = times(on, &turns, 0.5)?;
        let even = on.equal(&halved, &on.trunc(&halved)?)?;
        let sin = on.r#where(&even, &sin, &on.neg(&sin)?)?;
        if offset != 0.0 {
            return Ok(sin);
        }
        // The reduction of an angle loses the sign of a zero.
        on.r#where(&on.equal(x, &on.scalar_like(x, 0.0)?)?, x, &sin)
    })
}

/// The body of [`Scalar::sin`](super::Scalar::sin).
pub fn sin(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    sine(on, "sin", x, 0.0, x.dtype())
}

/// The body of [`Scalar::cos`](super::Scalar::cos).
pub fn cos(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    sine(on, "cos", x, 0.5, x.dtype())
}

/// The body of [`Scalar::tan`](super::Scalar::tan).
pub fn tan(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    let from = x.dtype();
    floats(on, "tan", x, DataType::F64, |x| {
        on.div(&sine(on, "tan", x, 0.0, from)?, &sine(on, "tan", x, 0.5, from)?)
    })
}

/// Coefficients of `atan(x) / x` as a polynomial in `x²`, for `|x| <= tan(π/8)`.
const ATAN: [f64; 13] = [
    0.015113765096600925,
    -0.03338782450121195,
    0.04499500728984032,
    -0.05217312574061591,
    0.05876834004614161,
    -0.06666205259976526,
    0.07692281099937744,
    -0.09090908059031191,
    0.11111111085322109,
    -0.1428571428532971,
    0.19999999999997015,
    -0.33333333333333326,
    1.0,
];

/// The body of [`Scalar::atan`](super::Scalar::atan).
pub fn atan(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    use std::f64::consts::{FRAC_PI_2, FRAC_PI_4};
    floats(on, "atan", x, DataType::F64, |x| {
        let size = on.abs(x)?;
        let one = on.scalar_like(x, 1.0)?;
        let beyond = on.greater(&size, &one)?;
        // The reciprocal reduces `|x|` to `0..=1`. A rotation by -π/4 then reduces it to `|t| <= tan(π/8)`.
        let y = on.r#where(&beyond, &on.div(&one, &size)?, &size)?;
        let turned = on.greater(&y, &on.scalar_like(x, std::f64::consts::SQRT_2 - 1.0)?)?;
        let back = on.div(&on.sub(&y, &one)?, &on.add(&y, &one)?)?;
        let t = on.r#where(&turned, &back, &y)?;
        let angle = on.mul(&t, &polynomial(on, &on.mul(&t, &t)?, &ATAN)?)?;
        let angle = on.r#where(&turned, &plus(on, &angle, FRAC_PI_4)?, &angle)?;
        let angle = on.r#where(&beyond, &on.sub(&on.scalar_like(x, FRAC_PI_2)?, &angle)?, &angle)?;
        signed(on, x, &angle)
    })
}

/// Coefficients of `asin(x) / x` as a polynomial in `x²`, for `|x| <= 1/2`.
const ASIN: [f64; 13] = [
    0.03187962140081284,
    -0.016187392271599134,
    0.019513468251252167,
    0.0065293020047365695,
    0.012170138592391726,
    0.01388484282640208,
    0.01735977964134998,
    0.022371749733164054,
    0.03038195969768514,
    0.044642856805998936,
    0.07500000000385201,
    0.16666666666664942,
    1.0,
];

/// Returns `asin|x|` where `|x| <= 1/2`, and `asin(sqrt((1 - |x|) / 2))` elsewhere. Also returns where `|x| > 1/2`.
fn arc(on: &Tracer, x: &TracedTensor) -> Result<(TracedTensor, TracedTensor), TraceStop> {
    let size = on.abs(x)?;
    let far = on.greater(&size, &on.scalar_like(x, 0.5)?)?;
    let root = on.sqrt(&times(on, &on.sub(&on.scalar_like(x, 1.0)?, &size)?, 0.5)?)?;
    let t = on.r#where(&far, &root, &size)?;
    Ok((on.mul(&t, &polynomial(on, &on.mul(&t, &t)?, &ASIN)?)?, far))
}

/// The body of [`Scalar::asin`](super::Scalar::asin).
pub fn asin(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    floats(on, "asin", x, DataType::F64, |x| {
        let (angle, far) = arc(on, x)?;
        let turned = on.sub(&on.scalar_like(x, std::f64::consts::FRAC_PI_2)?, &times(on, &angle, 2.0)?)?;
        signed(on, x, &on.r#where(&far, &turned, &angle)?)
    })
}

/// The body of [`Scalar::acos`](super::Scalar::acos).
pub fn acos(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    use std::f64::consts::{FRAC_PI_2, PI};
    floats(on, "acos", x, DataType::F64, |x| {
        let (angle, far) = arc(on, x)?;
        let twice = times(on, &angle, 2.0)?;
        let mirrored = on.sub(&on.scalar_like(x, PI)?, &twice)?;
        let outer = on.r#where(&below(on, x, 0.0)?, &mirrored, &twice)?;
        let inner = on.sub(&on.scalar_like(x, FRAC_PI_2)?, &signed(on, x, &angle)?)?;
        on.r#where(&far, &outer, &inner)
    })
}
