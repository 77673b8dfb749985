//! Element-wise operators, comparisons, casts, constants and matrix products.

use super::rows::operators;
use bb_core::operator::{Call, OnnxValue, OpOutputs, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TraceStop, TracedTensor, Tracer};
use bb_core::{Error, Tensor};
use bb_ir::graph::Attribute;
use bb_ir::infer::rule::{NodeFacts, Types};
use bb_ir::op::RoundMode;
use bb_ir::{DataType, TensorData};

operators! {
    "" {
        Abs => Primitives(abs), infer: Primitive, becomes: Primitive::Abs, halves: Moves;
        Add: 1 => Primitives(legacy_add), 7 => Primitives(add), infer: Primitive, becomes: Primitive::Add, halves: Once;
        Cast: 1 => Primitives(cast_named), 6 => Primitives(cast), infer: Primitive, becomes: Primitive::Cast, halves: Moves;
        CastLike => Primitives(cast_like), infer: By(cast_like_types), halves: Moves;
        Constant => Primitives(constant), infer: Primitive, becomes: Primitive::Constant, halves: Moves;
        Div: 1 => Primitives(legacy_div), 7 => Primitives(div), infer: Primitive, becomes: Primitive::Div, halves: Once;
        Equal: 1 => Primitives(legacy_equal), 7 => Primitives(equal), infer: Primitive, becomes: Primitive::Equal, halves: Moves;
        Exp => Primitives(exp), infer: Primitive, becomes: Primitive::Exp, halves: Once;
        Greater: 1 => Primitives(legacy_greater), 7 => Primitives(greater), infer: Primitive, becomes: Primitive::Greater, halves: Moves;
        Identity: 1 => Primitives(identity), 14 => Items(identity_of_items; Same), infer: Primitive, becomes: Primitive::Identity, halves: Moves;
        Less: 1 => Primitives(legacy_less), 7 => Primitives(less), infer: Primitive, becomes: Primitive::Less, halves: Moves;
        Log => Primitives(log), infer: Primitive, becomes: Primitive::Log, halves: Once;
        MatMul => Primitives(matmul), infer: Primitive, becomes: Primitive::MatMul, halves: Once;
        Mul: 1 => Primitives(legacy_mul), 7 => Primitives(mul), infer: Primitive, becomes: Primitive::Mul, halves: Once;
        Neg => Primitives(neg), infer: Primitive, becomes: Primitive::Neg, halves: Moves;
        Pow: 1 => Primitives(legacy_pow), 7 => Primitives(pow), infer: Primitive, becomes: Primitive::Pow, halves: Once;
        Sqrt => Primitives(sqrt), infer: Primitive, becomes: Primitive::Sqrt, halves: Once;
        Sub: 1 => Primitives(legacy_sub), 7 => Primitives(sub), infer: Primitive, becomes: Primitive::Sub, halves: Once;
        Where => Primitives(select), infer: Primitive, becomes: Primitive::Where, halves: Moves;
    }
}

/// Declares operators that call one primitive with their operands.
macro_rules! direct {
    ($( $name:ident = $method:ident($($index:literal),+); )*) => {$(
        pub(super) fn $name(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
            Ok(one(on.$method($( call.input($index)? ),+)?))
        }
    )*};
}

direct! {
    abs = abs(0);
    add = add(0, 1);
    div = div(0, 1);
    equal = equal(0, 1);
    exp = exp(0);
    greater = greater(0, 1);
    identity = identity(0);
    less = less(0, 1);
    log = log(0);
    matmul = matmul(0, 1);
    mul = mul(0, 1);
    neg = neg(0);
    pow = pow(0, 1);
    select = r#where(0, 1, 2);
    sqrt = sqrt(0);
    sub = sub(0, 1);
}

/// `Identity` of any value, including sequences and optionals.
pub(super) fn identity_of_items(
    on: &Tracer,
    call: &Call<'_, OnnxValue<TracedTensor>>,
) -> Result<OpOutputs<OnnxValue<TracedTensor>>, TraceStop> {
    Ok(one(match call.optional(0) {
        Some(OnnxValue::Tensor(x)) => OnnxValue::Tensor(on.identity(x)?),
        Some(other) => other.clone(),
        None => OnnxValue::Absent,
    }))
}

/// Declares binary operators as they are in opsets below 7, with the attributes `broadcast` and `axis`.
macro_rules! legacy {
    ($( $name:ident = $method:ident; )*) => {$(
        pub(super) fn $name(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
            let b = legacy_operand(on, call)?;
            Ok(one(on.$method(call.input(0)?, &b)?))
        }
    )*};
}

pub(super) use legacy;

legacy! {
    legacy_add = add;
    legacy_div = div;
    legacy_equal = equal;
    legacy_greater = greater;
    legacy_less = less;
    legacy_mul = mul;
    legacy_pow = pow;
    legacy_sub = sub;
}

/// Returns the second operand, reshaped so that its dimensions align with the first operand's dimensions
/// from `axis` on.
///
/// Without `axis`, its dimensions align with the last ones, as in NumPy.
pub(super) fn legacy_operand(on: &Tracer, call: &Call<'_, TracedTensor>) -> Result<TracedTensor, TraceStop> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    if !call.flag("broadcast", false)? || !call.has("axis") {
        return Ok(b.clone());
    }
    let from = bb_ir::Axis::new(call.int("axis")?, a.rank().max(1)).map_err(Error::from)?.get();
    let trailing = a.rank().checked_sub(from + b.rank()).ok_or_else(|| {
        call.wrong("axis", format!("is {from}; {} dimensions from there exceed rank {}", b.rank(), a.rank()))
    })?;
    if trailing == 0 {
        return Ok(b.clone());
    }
    let axes: Vec<i64> = (b.rank()..b.rank() + trailing).map(|i| i as i64).collect();
    on.unsqueeze(b, &axes)
}

/// `Cast` from opset 6 on.
pub(super) fn cast(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let to = call.dtype("to")?.ok_or_else(|| call.wrong("to", "is missing; the operator needs it"))?;
    convert(on, call, to)
}

/// `Cast` of opset 1, whose attribute `to` is the name of a type.
pub(super) fn cast_named(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let word = call.text("to")?.unwrap_or_default();
    let to = match word {
        "FLOAT" => DataType::F32,
        "UINT8" => DataType::U8,
        "INT8" => DataType::I8,
        "UINT16" => DataType::U16,
        "INT16" => DataType::I16,
        "INT32" => DataType::I32,
        "INT64" => DataType::I64,
        "STRING" => DataType::String,
        "BOOL" => DataType::Bool,
        "FLOAT16" => DataType::F16,
        "DOUBLE" => DataType::F64,
        "UINT32" => DataType::U32,
        "UINT64" => DataType::U64,
        _ => return Err(call.wrong("to", format!("is `{word}`, which names no element type")).into()),
    };
    convert(on, call, to)
}

fn cast_like_types(at: NodeFacts<'_>) -> Option<Types> {
    at.one(at.dtype(1), at.same())
}

/// `CastLike`.
pub(super) fn cast_like(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    convert(on, call, call.input(1)?.dtype())
}

fn convert(on: &Tracer, call: &Call<'_, TracedTensor>, to: DataType) -> OpResult {
    let word = call.text_or("round_mode", "up")?;
    let round = RoundMode::from_name(word).ok_or_else(|| {
        call.wrong("round_mode", format!("is `{word}`, expected `up`, `down` or `nearest`"))
    })?;
    Ok(one(on.cast(call.input(0)?, to, call.flag("saturate", true)?, round)?))
}

/// `Constant`: exactly one attribute has the value.
pub(super) fn constant(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let given = VALUES.iter().filter_map(|name| Some((*name, call.attribute(name)?)));
    let mut values = given.filter_map(|(name, value)| held(name, value));
    match (values.next(), values.next()) {
        (Some(value), None) => Ok(one(on.constant(&value.map_err(Error::from)?)?)),
        (None, _) => Err(call.wrong("value", "is missing, in all its forms").into()),
        _ => Err(call.wrong("value", "is given in more than one form").into()),
    }
}

/// The attributes of `Constant` that can have the value.
const VALUES: [&str; 8] = [
    "sparse_value",
    "value",
    "value_float",
    "value_floats",
    "value_int",
    "value_ints",
    "value_string",
    "value_strings",
];

/// Returns the value in an attribute of `Constant`; `None` for any other attribute.
fn held(name: &str, value: &Attribute) -> Option<Result<TensorData, bb_ir::Error>> {
    Some(match (name, value) {
        ("value" | "sparse_value", Attribute::Tensor(v)) => Ok(v.clone()),
        ("value_float", Attribute::Float(v)) => Ok(TensorData::scalar(*v)),
        ("value_int", Attribute::Int(v)) => Ok(TensorData::scalar(*v)),
        ("value_floats", Attribute::Floats(v)) => TensorData::new(&[v.len()], v),
        ("value_ints", Attribute::Ints(v)) => TensorData::new(&[v.len()], v),
        ("value_string", Attribute::Text(v)) => TensorData::strings(&[], std::slice::from_ref(v)),
        ("value_strings", Attribute::Texts(v)) => TensorData::strings(&[v.len()], v),
        _ => return None,
    })
}
