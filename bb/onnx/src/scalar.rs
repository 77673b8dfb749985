//! Operators that compute each element separately.

use super::arithmetic::legacy_operand;
use super::normalize::channel_operand;
use super::rows::operators;
use bb_core::error::NodePart;
use bb_core::ext::math;
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{DataType, Tensor};

operators! {
    "" {
        Acos => Primitives(acos), infer: Same, becomes: ScalarOp::Acos, halves: Once;
        Acosh => Primitives(acosh), infer: Same, becomes: ScalarOp::Acosh, halves: Once;
        And: 1 => Primitives(legacy_and), 7 => Primitives(and), infer: Truth, becomes: ScalarOp::And, halves: Moves;
        Asin => Primitives(asin), infer: Same, becomes: ScalarOp::Asin, halves: Once;
        Asinh => Primitives(asinh), infer: Same, becomes: ScalarOp::Asinh, halves: Once;
        Atan => Primitives(atan), infer: Same, becomes: ScalarOp::Atan, halves: Once;
        Atanh => Primitives(atanh), infer: Same, becomes: ScalarOp::Atanh, halves: Once;
        BitShift => Primitives(bit_shift), infer: Broadcast, becomes: BitsOp::BitShift, halves: Moves;
        BitwiseAnd => HostByDefault(bitwise_and), infer: Broadcast, becomes: BitsOp::BitwiseAnd, halves: Moves;
        BitwiseNot => HostByDefault(bitwise_not), infer: Same, becomes: BitsOp::BitwiseNot, halves: Moves;
        BitwiseOr => HostByDefault(bitwise_or), infer: Broadcast, becomes: BitsOp::BitwiseOr, halves: Moves;
        BitwiseXor => HostByDefault(bitwise_xor), infer: Broadcast, becomes: BitsOp::BitwiseXor, halves: Moves;
        Ceil => Primitives(ceil), infer: Same, becomes: ScalarOp::Ceil, halves: Moves;
        Celu => Primitives(celu), infer: Same;
        Clip: 1 => Primitives(clip_by_attributes), 11 => Primitives(clip), infer: Same, becomes: NnOp::Clip, halves: Moves;
        Cos => Primitives(cos), infer: Same, becomes: ScalarOp::Cos, halves: Once;
        Cosh => Primitives(cosh), infer: Same, becomes: ScalarOp::Cosh, halves: Once;
        Elu => Primitives(elu), infer: Same, becomes: NnOp::Elu, halves: Once;
        Erf => Primitives(erf), infer: Same, becomes: ScalarOp::Erf, halves: Once;
        Floor => Primitives(floor), infer: Same, becomes: ScalarOp::Floor, halves: Moves;
        Gelu => Primitives(gelu), infer: Same, becomes: NnOp::Gelu, halves: Once;
        GreaterOrEqual => Primitives(greater_or_equal), infer: Truth, becomes: ScalarOp::GreaterOrEqual, halves: Moves;
        HardSigmoid => Primitives(hard_sigmoid), infer: Same, becomes: NnOp::HardSigmoid, halves: Once;
        HardSwish => Primitives(hard_swish), infer: Same;
        IsInf => Primitives(is_inf), infer: As(bb_ir::DataType::Bool), becomes: ScalarOp::IsInf, halves: Moves;
        IsNaN => Primitives(is_nan), infer: As(bb_ir::DataType::Bool), becomes: ScalarOp::IsNaN, halves: Moves;
        LeakyRelu => Primitives(leaky_relu), infer: Same, becomes: NnOp::LeakyRelu, halves: Once;
        LessOrEqual => Primitives(less_or_equal), infer: Truth, becomes: ScalarOp::LessOrEqual, halves: Moves;
        Max => Primitives(max), infer: Broadcast, halves: Moves;
        Mean => Primitives(mean), infer: Broadcast;
        Min => Primitives(min), infer: Broadcast, halves: Moves;
        Mish => Primitives(mish), infer: Same;
        Mod => HostByDefault(modulo), infer: Broadcast, halves: Once;
        Not => Primitives(not), infer: Same, becomes: ScalarOp::Not, halves: Moves;
        Or: 1 => Primitives(legacy_or), 7 => Primitives(or), infer: Truth, becomes: ScalarOp::Or, halves: Moves;
        PRelu => Primitives(prelu), infer: Same, halves: Once;
        Reciprocal => Primitives(reciprocal), infer: Same, becomes: ScalarOp::Reciprocal, halves: Once;
        Relu => Primitives(relu), infer: Same, becomes: NnOp::Relu, halves: Moves;
        Round => Primitives(round), infer: Same, becomes: ScalarOp::Round, halves: Moves;
        Selu => Primitives(selu), infer: Same;
        Shrink => Primitives(shrink), infer: Same;
        Sigmoid => Primitives(sigmoid), infer: Same, becomes: ScalarOp::Sigmoid, halves: Once;
        Sign => Primitives(sign), infer: Same, becomes: ScalarOp::Sign, halves: Moves;
        Sin => Primitives(sin), infer: Same, becomes: ScalarOp::Sin, halves: Once;
        Sinh => Primitives(sinh), infer: Same, becomes: ScalarOp::Sinh, halves: Once;
        Softplus => Primitives(softplus), infer: Same, becomes: ScalarOp::Softplus, halves: Once;
        Softsign => Primitives(softsign), infer: Same;
        Sum => Primitives(sum), infer: Broadcast, halves: Once;
        SwiGLU => Primitives(swiglu), infer: Same;
        Swish => Primitives(swish), infer: Same, becomes: NnOp::Swish, halves: Once;
        Tan => Primitives(tan), infer: Same, becomes: ScalarOp::Tan, halves: Once;
        Tanh => Primitives(tanh), infer: Same, becomes: ScalarOp::Tanh, halves: Once;
        ThresholdedRelu: 1 => Primitives(thresholded_relu), infer: Same, becomes: NnOp::ThresholdedRelu, halves: Once;
        Xor: 1 => Primitives(legacy_xor), 7 => Primitives(xor), infer: Truth, becomes: ScalarOp::Xor, halves: Moves;
    }
}

/// Declares operators that call one method with their operands.
macro_rules! direct {
    ($( $name:ident = $method:ident($($index:literal),+ $(; $($kind:ident $attribute:literal = $default:expr),+)?); )*) => {$(
        pub(super) fn $name(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
            Ok(one(on.$method($( call.input($index)? ),+ $($(, call.$kind($attribute, $default)?)+)?)?))
        }
    )*};
}

direct! {
    acos = acos(0);
    acosh = acosh(0);
    and = and(0, 1);
    asin = asin(0);
    asinh = asinh(0);
    atan = atan(0);
    atanh = atanh(0);
    bitwise_and = bitwise_and(0, 1);
    bitwise_not = bitwise_not(0);
    bitwise_or = bitwise_or(0, 1);
    bitwise_xor = bitwise_xor(0, 1);
    ceil = ceil(0);
    cos = cos(0);
    cosh = cosh(0);
    elu = elu(0; float_or "alpha" = 1.0);
    floor = floor(0);
    greater_or_equal = greater_or_equal(0, 1);
    hard_sigmoid = hard_sigmoid(0; float_or "alpha" = 0.2, float_or "beta" = 0.5);
    is_inf = is_inf(0; flag "detect_negative" = true, flag "detect_positive" = true);
    is_nan = is_nan(0);
    leaky_relu = leaky_relu(0; float_or "alpha" = 0.01);
    less_or_equal = less_or_equal(0, 1);
    modulo = modulo(0, 1; flag "fmod" = false);
    not = not(0);
    or = or(0, 1);
    reciprocal = reciprocal(0);
    relu = relu(0);
    round = round(0);
    sigmoid = sigmoid(0);
    sign = sign(0);
    sin = sin(0);
    sinh = sinh(0);
    softplus = softplus(0);
    swish = swish(0; float_or "alpha" = 1.0);
    tan = tan(0);
    tanh = tanh(0);
    xor = xor(0, 1);
}

super::arithmetic::legacy! {
    legacy_and = and;
    legacy_or = or;
    legacy_xor = xor;
}

/// Declares operators that combine a variable number of operands.
macro_rules! variadic {
    ($( $name:ident = $method:ident; )*) => {$(
        pub(super) fn $name(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
            let mut result = call.input(0)?.clone();
            for i in 1..call.len() {
                result = on.$method(&result, call.input(i)?)?;
            }
            Ok(one(if call.len() == 1 { on.identity(&result)? } else { result }))
        }
    )*};
}

variadic! {
    max = maximum;
    min = minimum;
}

/// `Sum`. More than two operands of 16-bit floats are added in `f32`.
pub(super) fn sum(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let dtype = call.input(0)?.dtype();
    let wide = |index: usize| -> Result<TracedTensor, TraceStop> {
        let x = call.input(index)?;
        if call.len() > 2 && x.dtype() == dtype { math::accumulated(on, x) } else { Ok(x.clone()) }
    };
    let mut total = wide(0)?;
    for i in 1..call.len() {
        total = on.add(&total, &wide(i)?)?;
    }
    let total = math::narrowed(on, total, dtype)?;
    Ok(one(if call.len() == 1 { on.identity(&total)? } else { total }))
}

/// `Mean`.
pub(super) fn mean(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let total = sum(on, call)?;
    let Some(total) = total.into_iter().next().flatten() else {
        return Err(call.wrong(NodePart::other("operands"), "are missing").into());
    };
    Ok(one(on.div(&total, &on.scalar_like(&total, call.len() as f64)?)?))
}

/// `Erf`. ONNX defines it for integers, too.
pub(super) fn erf(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    Ok(one(if x.dtype().is_float() {
        on.erf(x)?
    } else {
        math::widened(on, x, DataType::F32, |x| on.erf(x))?
    }))
}

/// `Gelu`.
pub(super) fn gelu(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let tanh = match call.text_or("approximate", "none")? {
        "none" => false,
        "tanh" => true,
        other => {
            return Err(call.wrong("approximate", format!("is `{other}`, expected `none` or `tanh`")).into());
        }
    };
    Ok(one(on.gelu(call.input(0)?, tanh)?))
}

/// `Clip` before opset 11, where the bounds are attributes.
pub(super) fn clip_by_attributes(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    let bound = |name| call.has(name).then(|| on.scalar_like(x, call.float(name)?)).transpose();
    let (min, max) = (bound("min")?, bound("max")?);
    Ok(one(on.clip(x, min.as_ref(), max.as_ref())?))
}

/// `Clip`.
pub(super) fn clip(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    Ok(one(on.clip(call.input(0)?, call.optional(1), call.optional(2))?))
}

/// `Celu`: `max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0)`.
pub(super) fn celu(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let alpha = call.float_or("alpha", 1.0)?;
    let f = |x: &TracedTensor| {
        let alpha = on.scalar_like(x, alpha)?;
        let curve = on.mul(&on.expm1(&on.div(x, &alpha)?)?, &alpha)?;
        on.r#where(&on.less(x, &on.scalar_like(x, 0.0)?)?, &curve, x)
    };
    Ok(one(math::widened(on, call.input(0)?, DataType::F32, f)?))
}

/// `Selu`. In opset 1, the default constants have fewer digits.
pub(super) fn selu(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let (alpha, gamma) =
        if call.opset() < 6 { (1.6732, 1.0507) } else { (1.673_263_192_176_818_8, 1.050_701_022_148_132_3) };
    let (alpha, gamma) = (call.float_or("alpha", alpha)?, call.float_or("gamma", gamma)?);
    let f = |x: &TracedTensor| on.mul(&on.elu(x, alpha)?, &on.scalar_like(x, gamma)?);
    Ok(one(math::widened(on, call.input(0)?, DataType::F32, f)?))
}

/// `HardSwish`: `x` times a function that rises linearly from 0 at -3 to 1 at 3.
pub(super) fn hard_swish(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let f = |x: &TracedTensor| on.mul(x, &on.hard_sigmoid(x, 1.0 / 6.0, 0.5)?);
    Ok(one(math::widened(on, call.input(0)?, DataType::F32, f)?))
}

/// `Mish`: `x * tanh(softplus(x))`. The hyperbolic tangent is expressed by exponentials of `-|x|`, so that there is no
/// cancellation. For negative `x`, one exponential is a factor of the result. It is applied as two square roots, so that
/// no digits are lost if the exponential is subnormal but the result is not.
pub(super) fn mish(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let f = |x: &TracedTensor| {
        let constant = |c| on.scalar_like(x, c);
        let size = on.abs(x)?;
        let e = on.exp(&on.neg(&size)?)?;
        let root = on.exp(&on.mul(&size, &constant(-0.5)?)?)?;
        let (twice, two) = (on.add(&e, &e)?, constant(2.0)?);
        // For negative `x`, the tangent is `e (e + 2) / (e (e + 2) + 2)`, otherwise `(1 + 2e) / (1 + 2e + 2e²)`.
        let (low, high) = (on.add(&e, &two)?, on.add(&twice, &constant(1.0)?)?);
        let low_sum = on.add(&on.mul(&e, &low)?, &two)?;
        let high_sum = on.add(&high, &on.mul(&twice, &e)?)?;
        let negative = on.less(x, &constant(0.0)?)?;
        let above = on.r#where(&negative, &on.mul(&on.mul(x, &root)?, &low)?, &on.mul(x, &high)?)?;
        let quotient = on.div(&above, &on.r#where(&negative, &low_sum, &high_sum)?)?;
        on.mul(&quotient, &on.r#where(&negative, &root, &constant(1.0)?)?)
    };
    Ok(one(math::widened(on, call.input(0)?, DataType::F32, f)?))
}

/// `PRelu`. Before opset 7, a vector of slopes has one slope per channel.
pub(super) fn prelu(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    let slope =
        if call.opset() < 7 { channel_operand(on, call.input(1)?, x)? } else { call.input(1)?.clone() };
    let negative = on.less(x, &on.scalar_like(x, 0.0)?)?;
    Ok(one(on.r#where(&negative, &on.mul(x, &slope)?, x)?))
}

/// `Shrink`: 0 for elements between `-lambd` and `lambd`; other elements move towards 0 by `bias`.
pub(super) fn shrink(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    let (lambda, bias) = (call.float_or("lambd", 0.5)?, call.float_or("bias", 0.0)?);
    let dtype = x.dtype();
    // Integers can be compared with a rounded bound: an integer is above 1.5 if it is above 1.
    let bounded = lambda >= 0.0 || (lambda.fract() == 0.0 && !dtype.is_unsigned_integer());
    let exact = bounded && bias.fract() == 0.0;
    if dtype.is_float() || exact {
        return Ok(one(shrunk(on, x, lambda, bias)?));
    }
    Ok(one(math::widened(on, x, DataType::F64, |x| shrunk(on, x, lambda, bias))?))
}

fn shrunk(on: &Tracer, x: &TracedTensor, lambda: f64, bias: f64) -> Result<TracedTensor, TraceStop> {
    let bias = on.scalar_like(x, bias)?;
    let upper = on.greater(x, &on.scalar_like(x, lambda)?)?;
    let inner = on.r#where(&upper, &on.sub(x, &bias)?, &on.scalar_like(x, 0.0)?)?;
    // No unsigned integer is below a negative threshold.
    if x.dtype().is_unsigned_integer() {
        return Ok(inner);
    }
    let lower = on.less(x, &on.scalar_like(x, -lambda)?)?;
    on.r#where(&lower, &on.add(x, &bias)?, &inner)
}

/// `Softsign`: `x / (1 + |x|)`.
pub(super) fn softsign(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let f = |x: &TracedTensor| on.div(x, &on.add(&on.abs(x)?, &on.scalar_like(x, 1.0)?)?);
    Ok(one(math::widened(on, call.input(0)?, DataType::F32, f)?))
}

/// `SwiGLU`: the swish of the first operand times the second operand.
pub(super) fn swiglu(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let (gate, x) = (call.input(0)?, call.input(1)?);
    if gate.shape() != x.shape() {
        let problem = format!("has the extents {:?}, expected {:?}", x.shape(), gate.shape());
        return Err(call.wrong(NodePart::Operand(1), problem).into());
    }
    Ok(one(on.mul(&on.swish(gate, call.float_or("alpha", 1.0)?)?, x)?))
}

/// `ThresholdedRelu`: `x` if it is above `alpha`, otherwise 0.
pub(super) fn thresholded_relu(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    Ok(one(on.thresholded_relu(call.input(0)?, call.float_or("alpha", 1.0)?)?))
}

/// `BitShift`.
pub(super) fn bit_shift(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let left = match call.text("direction")? {
        Some("LEFT") => true,
        Some("RIGHT") => false,
        other => {
            let problem = format!("is `{}`, expected `LEFT` or `RIGHT`", other.unwrap_or_default());
            return Err(call.wrong("direction", problem).into());
        }
    };
    Ok(one(on.bit_shift(call.input(0)?, call.input(1)?, left)?))
}
