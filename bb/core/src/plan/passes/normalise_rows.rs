//! Replaces the steps of a layer normalisation, or of a normalisation by the root mean square, by one operation.
//!
//! ```text
//! mean = reduce_mean(x)      d = x - mean      square = d * d, or d to the power of 2      (without mean: d = x)
//! root = sqrt(reduce_mean(square) + epsilon)
//! y = d / root * scale + bias, where the quotient may be a product with the reciprocal
//! ```
//!
//! Models with `f16` or `bf16` may compute the quotient in `f32`, and convert it back before it is scaled.
//!
//! The operation computes the same formula, with the mean of the distances as a correction, and does not round intermediate
//! results. Its error is at most the error of the steps, and the last digits may differ.
//! [`PassSwitches::recognize`](crate::PassSwitches::recognize) switches the pass on for `f32`. For half floats the pass is
//! always on, because their squares overflow between steps, but not inside the operation.

use super::matching::{Compare, Matching};
use super::pattern::{Pattern, Recorder};
use super::recognized::{Call, find, has_call, replace_by_calls};
use super::{Pass, PassOptions};
use crate::ext::{Create, LlmOp, NnOp, Scalar};
use crate::plan::engine::Engine;
use crate::trace::{Trace, TraceStop, TracedTensor};
use crate::{Backend, DataType, Error, Primitive};
use bb_ir::op::{Param, RoundMode};

pub(super) const PASS: Pass = Pass { name: "normalise-rows", engines: &[Engine::Interpreter], run };

fn run(trace: &mut Trace, options: PassOptions<'_>) -> Result<usize, Error> {
    let native = [NnOp::LayerNormalization.spec(), LlmOp::RmsNormalization.spec()];
    if !native.iter().any(|spec| options.natives.has(spec)) || !has_call(trace, &[Primitive::Sqrt.spec()]) {
        return Ok(0);
    }
    let mut patterns = vec![normalization(true, false)?, normalization(false, false)?];
    if options.switches.recognize {
        patterns.extend([normalization(true, true)?, normalization(false, true)?]);
    }
    let distance = Pattern::of([DataType::F32], |on, [x]| distance(on, &x))?;
    let found = find(trace, options, &patterns, |matching, _| accepted(matching, &distance))?;
    replace_by_calls(trace, found)
}

fn mean(on: &Recorder, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    on.reduce_mean(x, &[-1], true)
}

fn distance(on: &Recorder, x: &TracedTensor) -> Result<TracedTensor, TraceStop> {
    on.sub(x, &mean(on, x)?)
}

/// Returns the pattern of a normalisation, with or without subtraction of the mean. If `converted`, the model has half floats
/// and computes the quotient in `f32`.
fn normalization(centred: bool, converted: bool) -> Result<Pattern, Error> {
    let outer = if converted { DataType::F16 } else { DataType::F32 };
    Pattern::of([outer, outer, outer, DataType::F32], |on, [x, scale, bias, epsilon]| {
        let cast = |x: &TracedTensor, to| match converted {
            true => on.cast(x, to, true, RoundMode::Up),
            false => Ok(x.clone()),
        };
        let x = cast(&x, DataType::F32)?;
        // PyTorch subtracts the mean once for the variance and once more for the quotient.
        let of = || if centred { distance(on, &x) } else { Ok(x.clone()) };
        let (d, dividend) = (of()?, of()?);
        let square = on.either([&on.mul(&d, &d)?, &on.pow(&d, &on.scalar_like(&d, 2.0)?)?]);
        let root = on.sqrt(&on.add(&mean(on, &square)?, &epsilon)?)?;
        let inverse = on.either([&on.reciprocal(&root)?, &on.div(&on.scalar_like(&root, 1.0)?, &root)?]);
        let quotient = on.either([&on.div(&dividend, &root)?, &on.mul(&inverse, &dividend)?]);
        let scaled = on.mul(&cast(&quotient, outer)?, &scale)?;
        Ok(if centred { on.either([&on.add(&scaled, &bias)?, &scaled]) } else { scaled })
    })
}

fn accepted(matching: &Matching<'_>, distance: &Pattern) -> Result<Option<Call>, Error> {
    let &Matching { view, result, .. } = matching;
    let [Some(x), Some(scale), bias, Some(epsilon)] = matching.operands() else { return Ok(None) };
    let of = view.trace.values.get(x)?;
    let rank = of.shape.len();
    let (Some(epsilon), Some(length)) = (view.number(epsilon)?, length(matching, rank)) else {
        return Ok(None);
    };
    let centred = matching.calling(Primitive::Sub.spec()).next().is_some();
    let spec = if centred { NnOp::LayerNormalization.spec() } else { LlmOp::RmsNormalization.spec() };
    // Between steps of half floats, a square may overflow. So the operation is correct where the steps are not.
    let is_half = matches!(of.dtype, DataType::F16 | DataType::BF16);
    let converted = matching.calling(Primitive::Cast.spec()).next().is_some();
    let replaceable = is_half || (!converted && of.dtype == DataType::F32 && view.options.switches.recognize);
    // An epsilon of higher rank would raise the rank of the result.
    if !replaceable || !view.options.natives.has(spec) || view.trace.values.get(result)?.shape != of.shape {
        return Ok(None);
    }
    let row = of.shape.get(rank.saturating_sub(length)..).unwrap_or_default();
    for value in [Some(scale), bias].into_iter().flatten() {
        if !view.data(value)?.is_some_and(|own| own.dtype() == of.dtype && own.shape() == row) {
            return Ok(None);
        }
    }
    // If `x` is itself a difference from its mean, this is a layer normalisation whose subtraction was not matched, so it stays
    // as it is.
    let compared = Matching::new(view, distance, Compare::Form(&[]), x);
    let is_distance = compared.first()?.is_some_and(|found| self::length(&found, rank) == Some(length));
    if is_distance && !centred && !converted {
        return Ok(None);
    }
    let params = Box::new([Param::Int(-(length as i64)), Param::Float(epsilon.into())]);
    let inputs = [Some(x), Some(scale), bias].into_iter().take(spec.inputs.len()).collect();
    Ok(Some(Call { spec, params, inputs }))
}

/// Returns the number of dimensions that each `ReduceMean` of the match reduces. Returns `None` unless all of them reduce the
/// same trailing dimensions of `rank` dimensions and keep these with extent 1.
fn length(matching: &Matching<'_>, rank: usize) -> Option<usize> {
    let mut length = None;
    for step in matching.calling(Primitive::ReduceMean.spec()) {
        let [Param::Ints(axes), Param::Bool(true)] = &*step.params else { return None };
        let mut axes: Vec<i64> =
            axes.iter().map(|&axis| if axis < 0 { axis + rank as i64 } else { axis }).collect();
        axes.sort_unstable();
        let first = rank.checked_sub(axes.len())?;
        let last = !axes.is_empty() && axes.iter().copied().eq(first as i64..rank as i64);
        if !last || length.is_some_and(|length| length != axes.len()) {
            return None;
        }
        length = Some(axes.len());
    }
    length
}
