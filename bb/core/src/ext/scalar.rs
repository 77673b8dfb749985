//! `Scalar`: element-wise functions.
//!
//! The bodies of functions that are not primitives are in `math.rs`.

use super::{HostKernel, math, types};
pub use crate::family::scalar::*;
use crate::prelude::*;
use crate::trace::{TraceStop, TracedTensor, Tracer};
use crate::{DataType, Tensor};
use bb_ir::{TensorData, memory};

pub use super::fused::{Function, Line, fused, lines};
pub use math::{
    acos, acosh, asin, asinh, atan, atanh, cos, cosh, erf, expm1, log1p, sigmoid, sin, sinh, softplus, tan,
    tanh,
};

bb_ir::for_each_scalar!(crate::ext::bodies::bodies, Scalar, ScalarOp, scalar);

/// The body of [`Scalar::maximum`].
pub fn maximum(on: &Tracer, a: &TracedTensor, b: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    // If one operand is NaN, the comparison is false and `a` is selected.
    let larger = on.r#where(&on.less(a, b)?, b, a)?;
    nan_wins(on, b, larger)
}

/// The body of [`Scalar::minimum`].
pub fn minimum(on: &Tracer, a: &TracedTensor, b: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    let smaller = on.r#where(&on.greater(a, b)?, b, a)?;
    nan_wins(on, b, smaller)
}

/// Returns `b` where `b` is NaN, and `chosen` elsewhere.
fn nan_wins(on: &Tracer, b: &TracedTensor, chosen: TracedTensor) -> Result<TracedTensor, TraceStop> {
    if !crate::Tensor::dtype(b).is_float() {
        return Ok(chosen);
    }
    on.r#where(&on.equal(b, b)?, &chosen, b)
}

/// The body of [`Scalar::and`].
pub fn and(on: &Tracer, a: &TracedTensor, b: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    types::take("and", a, types::TRUTH)?;
    types::take("and", b, types::TRUTH)?;
    on.r#where(a, b, &on.scalar_like(b, 0.0)?)
}

/// The body of [`Scalar::or`].
pub fn or(on: &Tracer, a: &TracedTensor, b: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    types::take("or", a, types::TRUTH)?;
    types::take("or", b, types::TRUTH)?;
    on.r#where(a, &on.scalar_like(b, 1.0)?, b)
}

/// The body of [`Scalar::xor`].
pub fn xor(on: &Tracer, a: &TracedTensor, b: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    types::take("xor", a, types::TRUTH)?;
    types::take("xor", b, types::TRUTH)?;
    on.not(&on.equal(a, b)?)
}

/// The body of [`Scalar::not`].
pub fn not(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    types::take("not", x, types::TRUTH)?;
    on.equal(x, &on.scalar_like(x, 0.0)?)
}

/// The body of [`Scalar::greater_or_equal`].
pub fn greater_or_equal(on: &Tracer, a: &TracedTensor, b: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    on.or(&on.greater(a, b)?, &on.equal(a, b)?)
}

/// The body of [`Scalar::less_or_equal`].
pub fn less_or_equal(on: &Tracer, a: &TracedTensor, b: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    on.or(&on.less(a, b)?, &on.equal(a, b)?)
}

/// The body of [`Scalar::is_nan`].
pub fn is_nan(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    types::take("is_nan", x, types::ALL_FLOATS)?;
    let x = math::numeric(on, x)?;
    on.not(&on.equal(&x, &x)?)
}

/// The body of [`Scalar::is_inf`].
pub fn is_inf(
    on: &Tracer,
    x: &TracedTensor,
    negative: bool,
    positive: bool,
) -> Result<TracedTensor, TraceStop> {
    types::take("is_inf", x, types::ALL_FLOATS)?;
    let x = math::numeric(on, x)?;
    let infinity = on.scalar_like(&x, f64::INFINITY)?;
    match (negative, positive) {
        (true, true) => on.equal(&on.abs(&x)?, &infinity),
        (false, true) => on.equal(&x, &infinity),
        (true, false) => on.equal(&x, &on.neg(&infinity)?),
        // No element is greater than itself, so the result is false everywhere.
        (false, false) => on.greater(&x, &x),
    }
}

/// The body of [`Scalar::reciprocal`].
pub fn reciprocal(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    types::take("reciprocal", x, types::FLOATS)?;
    on.div(&on.scalar_like(x, 1.0)?, x)
}

/// The body of [`Scalar::sign`].
pub fn sign(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    types::take("sign", x, types::NUMBERS)?;
    let zero = on.scalar_like(x, 0.0)?;
    let positive = on.r#where(&on.greater(x, &zero)?, &on.scalar_like(x, 1.0)?, x)?;
    if crate::Tensor::dtype(x).is_unsigned_integer() {
        return Ok(positive);
    }
    on.r#where(&on.less(x, &zero)?, &on.scalar_like(x, -1.0)?, &positive)
}

/// The body of [`Scalar::trunc`]. It casts to an integer and back, if the integer type can represent the value.
pub fn trunc(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    types::take("trunc", x, types::NUMBERS)?;
    let dtype = crate::Tensor::dtype(x);
    if !dtype.is_float() {
        return on.identity(x);
    }
    let integer = if dtype == DataType::F64 { DataType::I64 } else { math::index(on) };
    // From 2^53 on every float is an integer, and from 2^24 on every float of at most 32 bits. The maximum of `f16` is
    // lower.
    let limit = match (dtype, integer) {
        (DataType::F16, _) => 65504.0,
        (_, DataType::I64) => 9_007_199_254_740_992.0,
        _ => 16_777_216.0,
    };
    let whole = math::to(on, &math::to(on, x, integer)?, dtype)?;
    // The product of `x` and zero keeps the sign of a zero.
    let zero = on.scalar_like(x, 0.0)?;
    let whole = on.r#where(&on.equal(&whole, &zero)?, &on.mul(x, &zero)?, &whole)?;
    on.r#where(&on.less(&on.abs(x)?, &on.scalar_like(x, limit)?)?, &whole, x)
}

/// The body of [`Scalar::floor`].
pub fn floor(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    types::take("floor", x, types::FLOATS)?;
    let whole = on.trunc(x)?;
    let below = on.sub(&whole, &on.scalar_like(x, 1.0)?)?;
    on.r#where(&on.greater(&whole, x)?, &below, &whole)
}

/// The body of [`Scalar::ceil`].
pub fn ceil(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    types::take("ceil", x, types::FLOATS)?;
    let whole = on.trunc(x)?;
    let above = on.add(&whole, &on.scalar_like(x, 1.0)?)?;
    on.r#where(&on.less(&whole, x)?, &above, &whole)
}

/// The body of [`Scalar::round`].
pub fn round(on: &Tracer, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    types::take("round", x, types::FLOATS)?;
    let whole = on.trunc(x)?;
    // The difference is exact, and so is half of the integer.
    let distance = on.abs(&on.sub(x, &whole)?)?;
    let half = on.scalar_like(x, 0.5)?;
    let halved = on.mul(&whole, &half)?;
    let odd = on.not(&on.equal(&halved, &on.trunc(&halved)?)?)?;
    let away = on.or(&on.greater(&distance, &half)?, &on.and(&on.equal(&distance, &half)?, &odd)?)?;
    on.r#where(&away, &on.add(&whole, &on.sign(x)?)?, &whole)
}

/// The body of [`Scalar::modulo`]. For integers it is built from primitives. The remainder of floats must be exact, but
/// rounding operations lose digits if the quotient has more digits than a float. So the host computes it.
pub fn modulo(
    on: &Tracer,
    a: &TracedTensor,
    b: &TracedTensor,
    fmod: bool,
) -> Result<TracedTensor, TraceStop> {
    types::take("modulo", a, types::NUMBERS)?;
    let dtype = a.dtype();
    let rest = match (dtype.is_float(), fmod) {
        (true, true) => float_remainder(on, a, b)?,
        // For floats, ONNX defines only the remainder with the sign of the dividend.
        (true, false) => on.modulo(a, b, true)?,
        (false, _) => on.sub(a, &on.mul(&on.div(a, b)?, b)?)?,
    };
    if fmod || dtype.is_unsigned_integer() {
        return Ok(rest);
    }
    let zero = on.scalar_like(a, 0.0)?;
    let differs = on.xor(&on.less(&rest, &zero)?, &on.less(b, &zero)?)?;
    let uneven = on.not(&on.equal(&rest, &zero)?)?;
    on.r#where(&on.and(&uneven, &differs)?, &on.add(&rest, b)?, &rest)
}

static FLOAT_REMAINDER: HostKernel = HostKernel {
    name: "float_remainder",
    random: false,
    run: |inputs, _| {
        let [a, b] = super::host::operands("float_remainder", inputs)?;
        fn rests<T: bb_ir::Element + std::ops::Rem<Output = T>>(
            a: &TensorData,
            b: &TensorData,
        ) -> Result<TensorData, bb_ir::Error> {
            let pairs = a.as_slice::<T>()?.iter().zip(b.as_slice::<T>()?);
            let rests: Vec<T> = memory::collected("float_remainder", pairs.map(|(x, y)| *x % *y))?;
            TensorData::new(a.shape(), &rests)
        }
        Ok(vec![if a.dtype() == DataType::F64 { rests::<f64>(a, b)? } else { rests::<f32>(a, b)? }])
    },
};

/// Returns the remainder with the sign of the dividend. It has no more digits than the operands, so the cast back to a
/// narrower type is exact.
fn float_remainder(on: &Tracer, a: &TracedTensor, b: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    let shape = bb_ir::infer::broadcast("mod", &[a.shape(), b.shape()]).map_err(crate::Error::from)?;
    let dtype = if a.dtype() == DataType::F64 { DataType::F64 } else { DataType::F32 };
    let wide = |x: &TracedTensor| on.expand(&math::to(on, x, dtype)?, &shape);
    let (x, y) = (wide(a)?, wide(b)?);
    let results = [(dtype, shape)];
    let mut rests = on.on_host(&FLOAT_REMAINDER, &[Some(&x), Some(&y)], &[], &results)?.into_iter();
    let missing = || crate::Error::from(bb_ir::Error::Arity { op: "mod", expected: "1 result", got: 0 });
    math::to(on, &rests.next().ok_or_else(missing)?, a.dtype())
}
