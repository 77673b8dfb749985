//! Random operators, and dropout.
//!
//! With a `seed`, the results equal the ones that ONNX's evaluator, and so NumPy's `RandomState`, draws. Without a seed,
//! each run draws different numbers. The function that ONNX defines for `Bernoulli` is not used, because it draws 1
//! where it should draw 0.

use super::rows::operators;
use super::shape::number;
use bb_core::error::NodePart;
use bb_core::ext::{HostKernel, Mersenne, RandomNormalOptions, RandomUniformOptions, math};
use bb_core::operator::{Call, OpResult, one};
use bb_core::prelude::*;
use bb_core::trace::{TracedTensor, Tracer};
use bb_core::{DataType, Error, Tensor};
use bb_ir::convert::{Rounding, cast};
use bb_ir::graph::Dim;
use bb_ir::infer::rule::{self, NodeFacts, Types};
use bb_ir::op::{Param, take};
use bb_ir::pace::Pace;
use bb_ir::{TensorData, memory};
use smallvec::smallvec;

operators! {
    "" {
        Bernoulli => HostByDefault(bernoulli), infer: By(like_types), halves: Once;
        Dropout => HostByDefault(dropout), infer: By(dropout_types), halves: Once, ignores: { "ratio": "opsets 7 and 10 have no training, in which alone elements are dropped" };
        Multinomial => HostByDefault(multinomial), infer: By(multinomial_types), halves: Once;
        RandomNormal => HostByDefault(normal), infer: By(random_types), becomes: CreateOp::RandomNormal, halves: Once;
        RandomNormalLike => HostByDefault(normal_like), infer: By(like_types), halves: Once;
        RandomUniform => HostByDefault(uniform), infer: By(random_types), becomes: CreateOp::RandomUniform, halves: Once;
        RandomUniformLike => HostByDefault(uniform_like), infer: By(like_types), halves: Once;
    }
}

/// Reads the seed: an integer, or a float whose integral part is used. NaN means no seed.
fn seed<T>(call: &Call<'_, T>) -> Result<Option<i64>, Error> {
    use bb_ir::graph::Attribute;
    match call.attribute("seed") {
        Some(Attribute::Int(seed)) => Ok(Some(*seed)),
        _ if !call.has("seed") => Ok(None),
        _ => Ok(Some(call.float("seed")?).filter(|s| !s.is_nan()).map(|s| s as i64)),
    }
}

/// Reads the extents from the attribute `shape`.
fn extents<T>(call: &Call<'_, T>) -> Result<Vec<usize>, Error> {
    let list = call.ints("shape")?.ok_or_else(|| call.wrong("shape", "is missing; the operator needs it"))?;
    let sizes: Option<Vec<usize>> = list.iter().map(|&d| usize::try_from(d).ok()).collect();
    sizes.ok_or_else(|| call.wrong("shape", format!("is {list:?}; extents are not negative")))
}

fn random_types(at: NodeFacts<'_>) -> Option<Types> {
    let extents = at.ints("shape")?.iter().map(|&d| usize::try_from(d).ok()).collect::<Option<Vec<_>>>()?;
    at.one(at.type_attribute("dtype", Some(DataType::F32)), Some(rule::known(&extents)))
}

/// `RandomUniform`.
pub(super) fn uniform(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    uniform_of(on, call, &extents(call)?, DataType::F32)
}

/// Infers the type of the operators that draw numbers with the operand's shape: `dtype`, or else the operand's element
/// type.
fn like_types(at: NodeFacts<'_>) -> Option<Types> {
    at.one(at.type_attribute("dtype", at.dtype(0)), at.same())
}

/// `RandomUniformLike`.
pub(super) fn uniform_like(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    uniform_of(on, call, x.shape(), x.dtype())
}

fn uniform_of(on: &Tracer, call: &Call<'_, TracedTensor>, shape: &[usize], default: DataType) -> OpResult {
    let options = RandomUniformOptions {
        low: call.float_or("low", 0.0)?,
        high: call.float_or("high", 1.0)?,
        seed: seed(call)?,
        dtype: call.dtype("dtype")?.unwrap_or(default),
    };
    Ok(one(on.random_uniform(shape, options)?))
}

/// `RandomNormal`.
pub(super) fn normal(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    normal_of(on, call, &extents(call)?, DataType::F32)
}

/// `RandomNormalLike`.
pub(super) fn normal_like(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    normal_of(on, call, x.shape(), x.dtype())
}

fn normal_of(on: &Tracer, call: &Call<'_, TracedTensor>, shape: &[usize], default: DataType) -> OpResult {
    let options = RandomNormalOptions {
        mean: call.float_or("mean", 0.0)?,
        scale: call.float_or("scale", 1.0)?,
        seed: seed(call)?,
        dtype: call.dtype("dtype")?.unwrap_or(default),
    };
    Ok(one(on.random_normal(shape, options)?))
}

/// Declares host kernels that draw numbers and read an operand: one that differs at each run, and one that a seed fixes.
macro_rules! draws {
    ($($name:ident = $text:literal, $run:ident;)*) => {$(
        static $name: [HostKernel; 2] = [
            HostKernel { name: concat!("draw_", $text), random: true, run: $run },
            HostKernel { name: concat!("draw_seeded_", $text), random: false, run: $run },
        ];
    )*};
}

draws! {
    BERNOULLI = "bernoulli", flips;
    MULTINOMIAL = "multinomial", choices;
}

/// Draws on the host, with probabilities that the elements of an operand specify.
fn drawn(
    on: &Tracer,
    call: &Call<'_, TracedTensor>,
    [fresh, seeded]: &'static [HostKernel; 2],
    dtype: DataType,
    columns: Option<usize>,
) -> OpResult {
    let x = call.input(0)?;
    let seed = seed(call)?;
    let mut shape = bb_ir::Shape::from_slice(x.shape());
    if let (Some(columns), Some(last)) = (columns, shape.last_mut()) {
        *last = columns;
    }
    let params = [Param::OptInt(seed), Param::Type(dtype), Param::Extents(shape.as_slice().into())];
    let body = if seed.is_some() { seeded } else { fresh };
    let outputs = on.on_host(body, &[Some(x)], &params, &[(dtype, shape.clone())])?;
    Ok(outputs.into_iter().map(Some).collect())
}

/// Returns the arguments of a draw: the operand in `f64`, the generator, the type and the extents.
fn given(
    inputs: &[Option<&TensorData>],
    params: &[Param<'_>],
) -> Result<(TensorData, Mersenne, DataType, Vec<usize>), Error> {
    let x = inputs.first().copied().flatten();
    let x = x.ok_or(Error::Operand { op: "draw", index: 0, expected: "a tensor" })?;
    Ok((
        cast(x, DataType::F64, Rounding::default())?,
        Mersenne::of(take::OptInt("draw", params.first())?),
        take::Type("draw", params.get(1))?,
        take::Extents("draw", params.get(2))?.to_vec(),
    ))
}

/// `Bernoulli`: draws 1 with the probability in the operand, otherwise 0.
pub(super) fn bernoulli(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let dtype = call.dtype("dtype")?.unwrap_or(call.input(0)?.dtype());
    drawn(on, call, &BERNOULLI, dtype, None)
}

fn flips(inputs: &[Option<&TensorData>], params: &[Param<'_>]) -> Result<Vec<TensorData>, Error> {
    let (x, mut random, dtype, shape) = given(inputs, params)?;
    let flips = x.as_slice::<f64>()?.iter().map(|&p| u8::from(random.chance(p)));
    let flips = memory::collected("Bernoulli", flips)?;
    Ok(vec![cast(&TensorData::new(&shape, &flips)?, dtype, Rounding::default())?])
}

fn multinomial_types(at: NodeFacts<'_>) -> Option<Types> {
    let [batch, _] = at.dims(0)? else { return None };
    let count = usize::try_from(at.int("sample_size", 1)?).ok()?;
    at.one(at.type_attribute("dtype", Some(DataType::I32)), Some(vec![batch.clone(), Dim::Known(count)]))
}

/// `Multinomial`: draws class indices. The operand has the logarithms of the classes' weights.
pub(super) fn multinomial(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let count = call.int_or("sample_size", 1)?;
    let columns = usize::try_from(count).ok().filter(|&n| n < 1 << 28);
    let columns = columns.ok_or_else(|| call.wrong("sample_size", format!("is {count}")))?;
    let [_, classes] = call.input(0)?.shape() else {
        return Err(call.wrong(NodePart::Operand(0), "is no matrix").into());
    };
    if *classes == 0 {
        return Err(call.wrong(NodePart::Operand(0), "has no classes to draw from").into());
    }
    drawn(on, call, &MULTINOMIAL, call.dtype("dtype")?.unwrap_or(DataType::I32), Some(columns))
}

fn choices(inputs: &[Option<&TensorData>], params: &[Param<'_>]) -> Result<Vec<TensorData>, Error> {
    let (x, mut random, dtype, shape) = given(inputs, params)?;
    let classes = x.shape().last().copied().unwrap_or(1).max(1);
    let samples = shape.last().copied().unwrap_or(0);
    let count = bb_ir::element_count(&shape).unwrap_or(usize::MAX);
    let (mut chosen, mut pace): (Vec<i64>, _) = (memory::room("Multinomial", count)?, Pace::new());
    for row in x.as_slice::<f64>()?.chunks(classes) {
        // Weights relative to the greatest one do not overflow.
        pace.step(row.len());
        let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sums = row.iter().scan(0.0, |sum, &log| {
            *sum += (log - most).exp();
            Some(*sum)
        });
        let sums: Vec<f64> = memory::collected("Multinomial", sums)?;
        let total = sums.last().copied().unwrap_or(0.0);
        chosen.extend((0..samples).map(|_| {
            pace.step(4);
            let draw = random.unit() * total;
            sums.partition_point(|&sum| sum <= draw).min(classes - 1) as i64
        }));
    }
    Ok(vec![cast(&TensorData::new(&shape, &chosen)?, dtype, Rounding::default())?])
}

/// Infers the types of `Dropout`. Before opset 10, the mask has the operand's type.
fn dropout_types(at: NodeFacts<'_>) -> Option<Types> {
    let mask = if at.node.opset < 10 { at.dtype(0) } else { Some(DataType::Bool) };
    Some(vec![rule::tensor(at.dtype(0), at.same()), rule::tensor(mask, at.same())])
}

/// `Dropout`. At inference, it returns the operand and a mask that keeps all elements.
pub(super) fn dropout(on: &Tracer, call: &Call<'_, TracedTensor>) -> OpResult {
    let x = call.input(0)?;
    if call.opset() >= 12 {
        let seed = seed(call)?;
        let training =
            call.optional(2).map(|t| on.ints(t)).transpose()?.is_some_and(|t| t.iter().any(|&v| v != 0));
        let ratio = match call.optional(1) {
            Some(ratio) if training => number(on, ratio)?,
            _ => 0.5,
        };
        if training && ratio != 0.0 {
            return dropped(on, call, ratio, seed);
        }
    } else if call.opset() < 7 {
        let ratio = call.float_or("ratio", 0.5)?;
        if !call.flag("is_test", false)? {
            return dropped(on, call, ratio, None);
        }
    }
    let mask = if call.wants(1) {
        // Before opset 10 the mask has the operand's type.
        let dtype = if call.opset() < 10 { x.dtype() } else { DataType::Bool };
        Some(on.ones(x.shape(), dtype)?)
    } else {
        None
    };
    Ok(smallvec![Some(on.identity(x)?), mask])
}

/// `Dropout` in training.
fn dropped(on: &Tracer, call: &Call<'_, TracedTensor>, ratio: f64, seed: Option<i64>) -> OpResult {
    let x = call.input(0)?;
    let options = RandomUniformOptions { seed, dtype: DataType::F64, ..Default::default() };
    let draws = on.random_uniform(x.shape(), options)?;
    let kept = on.greater_or_equal(&draws, &on.scalar_like(&draws, ratio)?)?;
    // ONNX defines "output = scale * data * mask", so NaN and infinities that are dropped become NaN.
    let factors = math::to(on, &kept, x.dtype())?;
    let y = on.mul(&on.mul(x, &factors)?, &on.scalar_like(x, 1.0 / (1.0 - ratio))?)?;
    let mask = if call.opset() < 10 { factors } else { kept };
    Ok(smallvec![Some(y), Some(mask)])
}
