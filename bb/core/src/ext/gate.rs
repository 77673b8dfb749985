//! GELU and Swish: products of a number `x` and a function of `x` that rises from 0 to 1.
//!
//! For negative numbers, the relative error of the function equals the error of an exponential, which grows with the error
//! of the exponent. Exponents are therefore computed as a number and its rounding error.

use super::math::{below, plus, polynomial, times};
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{DataType, Tensor};

/// Coefficients of `(1 + x) Q(x) exp(x² / 2)` as a polynomial in `(x - 4) / (x + 4)`, for `0 <= x <= 38.8`. `Q` is the
/// upper tail of the standard normal distribution.
const TAIL: [f64; 24] = [
    -7.71131430589437e-10,
    -1.5022760681889192e-09,
    6.206573361851706e-09,
    1.750419572148759e-08,
    -1.9909336028765965e-08,
    -1.107736521929307e-07,
    1.5352857119014216e-09,
    5.517931010531097e-07,
    4.043967205858493e-07,
    -2.6127924908359955e-06,
    -3.432143825193e-06,
    1.3626829522784746e-05,
    2.1250028893360233e-05,
    -8.78531749994349e-05,
    -9.443024930939809e-05,
    0.0006948971034087795,
    -0.0002856230985740798,
    -0.00500237859095407,
    0.017936097479715835,
    -0.032197837428089474,
    0.028600364053549487,
    0.013999634724425471,
    -0.0967034773265258,
    0.47205320650984467,
];

/// The same polynomial in `f32` precision, for `0 <= x <= 14.5`.
const TAIL_32: [f64; 11] = [
    -7.24717443105606e-05,
    -6.250991475493464e-05,
    0.0006921610375729074,
    -0.00030259752651467235,
    -0.0050036473789461956,
    0.017939997662605317,
    -0.03219744406357189,
    0.028599991042635563,
    0.01399960875627585,
    -0.09670346696717731,
    0.4720532067185305,
];

/// Returns a sum and its rounding error, for summands of any relative size.
///
/// Source: Knuth: The Art of Computer Programming, volume 2, 4.2.2.
pub(super) fn exact_sum(
    on: &Tracer,
    a: &TracedTensor,
    b: &TracedTensor,
) -> Result<[TracedTensor; 2], TraceStop> {
    let sum = on.add(a, b)?;
    let added = on.sub(&sum, a)?;
    let rest = on.add(&on.sub(a, &on.sub(&sum, &added)?)?, &on.sub(b, &added)?)?;
    Ok([sum, rest])
}

/// Returns a product and its rounding error. The factors must be small enough that the product does not overflow.
///
/// Source: Dekker: A floating-point technique for extending the available precision, 1971.
fn exact_product(on: &Tracer, a: &TracedTensor, b: &TracedTensor) -> Result<[TracedTensor; 2], TraceStop> {
    let halves = |x: &TracedTensor| -> Result<[TracedTensor; 2], TraceStop> {
        let wide = times(on, x, if x.dtype() == DataType::F64 { 134_217_729.0 } else { 4097.0 })?;
        let high = on.sub(&wide, &on.sub(&wide, x)?)?;
        Ok([high.clone(), on.sub(x, &high)?])
    };
    let product = on.mul(a, b)?;
    let ([a, a_low], [b, b_low]) = (halves(a)?, halves(b)?);
    let rest = on.sub(&on.mul(&a, &b)?, &product)?;
    let rest = on.add(&on.add(&rest, &on.mul(&a, &b_low)?)?, &on.mul(&a_low, &b)?)?;
    Ok([product, on.add(&rest, &on.mul(&a_low, &b_low)?)?])
}

/// Returns a constant and its rounding error in the element type of `x`. `rest` is the rounding error of `value` in
/// `f64`.
fn exact_constant(
    on: &Tracer,
    x: &TracedTensor,
    value: f64,
    rest: f64,
) -> Result<[TracedTensor; 2], TraceStop> {
    let lost = if x.dtype() == DataType::F64 { rest } else { value - f64::from(value as f32) };
    Ok([on.scalar_like(x, value)?, on.scalar_like(x, lost)?])
}

/// Multiplies `x` with the distribution function of the standard normal distribution: `x - x Q(x)`, or `x Q(|x|)` for
/// negative numbers, where this avoids cancellation.
pub(crate) fn times_normal(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    let (tail, most): (&[f64], f64) =
        if x.dtype() == DataType::F64 { (&TAIL, 38.8) } else { (&TAIL_32, 14.5) };
    let size = on.minimum(&on.abs(x)?, &on.scalar_like(x, most)?)?;
    // The square needs all digits, because its error is a relative error of the exponential.
    let [square, rest] = exact_product(on, &size, &size)?;
    let e = on.exp(&times(on, &square, -0.5)?)?;
    let place = on.div(&plus(on, &size, -4.0)?, &plus(on, &size, 4.0)?)?;
    let share = on.div(&polynomial(on, &place, tail)?, &plus(on, &size, 1.0)?)?;
    let share = on.sub(&share, &on.mul(&share, &times(on, &rest, 0.5)?)?)?;
    let lost = on.mul(&on.mul(&on.minimum(x, &on.scalar_like(x, most)?)?, &share)?, &e)?;
    // For `x = 0`, the difference of equal zeros would lose the sign of the zero.
    on.r#where(&on.greater(x, &on.scalar_like(x, 0.0)?)?, &on.sub(x, &lost)?, &lost)
}

/// Multiplies `x` with the logistic function of `2 sqrt(2 / π) (x + 0.044715 x³)`. The argument is computed with twice
/// the digits of the type, because its error is a relative error of the exponential.
pub(crate) fn times_tanh(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    let size = on.minimum(&on.abs(x)?, &on.scalar_like(x, 40.0)?)?;
    let [line, line_rest] = exact_constant(on, x, 1.5957691216057308, -9.96930880911092e-17)?;
    let [cube, cube_rest] = exact_constant(on, x, 0.07135481627260025, -6.175149918155315e-19)?;
    let [square, square_rest] = exact_product(on, &size, &size)?;
    let [cubed, rest] = exact_product(on, &square, &cube)?;
    let rest = on.add(&rest, &on.add(&on.mul(&square_rest, &cube)?, &on.mul(&square, &cube_rest)?)?)?;
    let [slope, lost] = exact_sum(on, &cubed, &line)?;
    let slope_rest = on.add(&on.add(&lost, &rest)?, &line_rest)?;
    let [argument, rest] = exact_product(on, &size, &slope)?;
    let rest = on.add(&rest, &on.mul(&size, &slope_rest)?)?;
    times_logistic(on, x, &below(on, x, 0.0)?, &argument, Some(&rest))
}

/// Multiplies `x` with the logistic function of `-size` where `negative`, and of `size` elsewhere. `rest` is the small
/// rounding error of `size`.
///
/// The exponential is applied as two factors, so that no digits are lost if the exponential is subnormal but the
/// product is not.
pub(crate) fn times_logistic(
    on: &Tracer,
    x: &TracedTensor,
    negative: &TracedTensor,
    size: &TracedTensor,
    rest: Option<&TracedTensor>,
) -> Result<TracedTensor, TraceStop> {
    let one = on.scalar_like(x, 1.0)?;
    let root = on.exp(&times(on, size, -0.5)?)?;
    let above = on.r#where(negative, &on.mul(x, &root)?, x)?;
    let quotient = on.div(&above, &plus(on, &on.exp(&on.neg(size)?)?, 1.0)?)?;
    let last = match rest {
        Some(rest) => on.sub(&root, &on.mul(&root, rest)?)?,
        None => root,
    };
    on.mul(&quotient, &on.r#where(negative, &last, &one)?)
}
