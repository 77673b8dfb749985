//! Replaces the operators that quantisers write for a dynamically quantised product by one
//! [`dynamic_matmul`](crate::ext::Quant::dynamic_matmul). These are `DynamicQuantizeLinear`, `MatMulInteger`, `Cast`, and `Mul`
//! with the product of both scales. The results have the same bits.
//!
//! Products that share a quantised tensor are left unchanged, because the operation would quantise it once per product.

use super::quantised::{calls, insert, like, step};
use super::{Pass, PassOptions};
use crate::ext::QuantOp;
use crate::plan::program::Engine;
use crate::trace::{Step, StepId, StepOrigins, Trace, TraceValue, Uses};
use crate::{DataType, Error, Primitive};

pub(super) const PASS: Pass = Pass { name: "dynamic-products", engines: &[Engine::Interpreter], run };

fn run(trace: &mut Trace, options: PassOptions<'_>) -> Result<usize, Error> {
    if !options.natives.has(QuantOp::DynamicMatMul.spec()) {
        return Ok(0);
    }
    let uses = trace.uses()?;
    let mut found = Vec::new();
    for (id, _) in trace.steps.iter() {
        found.extend(Dynamic::of(trace, &uses, id)?.map(|dynamic| (id, dynamic)));
    }
    let mut count = 0;
    let mut edit = trace.edit();
    for (id, dynamic) in found {
        count += dynamic.steps.len();
        let mut origins = StepOrigins::new();
        for &step in &dynamic.steps {
            origins.extend(edit.trace().steps.get(step)?.origins.iter().copied());
        }
        let inputs = [Some(dynamic.x), Some(dynamic.w), Some(dynamic.scale), dynamic.zero, None];
        let new = step(QuantOp::DynamicMatMul.spec(), Box::default(), inputs, origins);
        let result = like(edit.trace(), dynamic.result, DataType::F32)?;
        let made = insert(&mut edit, id, new, result)?;
        edit.replace(dynamic.result, made)?;
        for step in dynamic.steps {
            edit.remove(step)?;
        }
    }
    edit.finish()?;
    Ok(count)
}

/// A matrix product whose left operand is quantised by its range.
struct Dynamic {
    x: TraceValue,
    w: TraceValue,
    scale: TraceValue,
    zero: Option<TraceValue>,
    result: TraceValue,
    /// The steps that the operation replaces, in order.
    steps: Vec<StepId>,
}

impl Dynamic {
    /// Matches the last step, which multiplies an integer product, as floats, by the product of both scales.
    fn of(trace: &Trace, uses: &Uses, id: StepId) -> Result<Option<Dynamic>, Error> {
        let step = trace.steps.get(id)?;
        let Some([a, b]) = factors(step) else { return Ok(None) };
        for (product, scales) in [(a, b), (b, a)] {
            let (Some(cast), Some(scaling)) = (only(uses, product, id)?, only(uses, scales, id)?) else {
                continue;
            };
            if let Some(mut dynamic) = Dynamic::scaled(trace, uses, cast, scaling)?
                && let &[result] = step.outputs.as_slice()
            {
                dynamic.result = result;
                dynamic.steps.push(id);
                return Ok(Some(dynamic));
            }
        }
        Ok(None)
    }

    fn scaled(
        trace: &Trace,
        uses: &Uses,
        cast: StepId,
        scaling: StepId,
    ) -> Result<Option<Dynamic>, Error> {
        let casting = trace.steps.get(cast)?;
        let (Some(Primitive::Cast), &[Some(sum)], &[result]) =
            (casting.operation.primitive(), casting.inputs.as_slice(), casting.outputs.as_slice())
        else {
            return Ok(None);
        };
        let Some(multiplying) = only(uses, sum, cast)? else { return Ok(None) };
        let product = trace.steps.get(multiplying)?;
        let &[Some(a), Some(w), Some(a_zero), zero] = product.inputs.as_slice() else { return Ok(None) };
        let wide = trace.values.get(result)?.dtype == DataType::F32;
        if !calls(product, QuantOp::MatMulInteger.spec()) || !wide {
            return Ok(None);
        }
        let Some(quantising) = only(uses, a, multiplying)? else { return Ok(None) };
        let quantised = trace.steps.get(quantising)?;
        let (&[Some(x)], &[own, own_scale, own_zero]) =
            (quantised.inputs.as_slice(), quantised.outputs.as_slice())
        else {
            return Ok(None);
        };
        let single = trace.values.get(x)?.dtype == DataType::F32;
        let alone = single
            && own == a
            && own_zero == a_zero
            && only(uses, own_zero, multiplying)? == Some(quantising)
            && only(uses, own_scale, scaling)? == Some(quantising);
        let Some([left, right]) = factors(trace.steps.get(scaling)?) else { return Ok(None) };
        let scale = match (left == own_scale, right == own_scale) {
            (true, false) => right,
            (false, true) => left,
            _ => return Ok(None),
        };
        // Kernels take one scale per column.
        if !calls(quantised, QuantOp::DynamicQuantizeLinear.spec()) || !alone || !is_row(trace, scale, result)? {
            return Ok(None);
        }
        let steps = vec![quantising, scaling, multiplying, cast];
        Ok(Some(Dynamic { x, w, scale, zero, result, steps }))
    }
}

/// Returns whether a scale has at most one dimension, so that it does not raise the rank of the product.
fn is_row(trace: &Trace, scale: TraceValue, product: TraceValue) -> Result<bool, Error> {
    let rank = trace.values.get(product)?.shape.len();
    Ok(trace.values.get(scale)?.shape.len() <= rank.min(1))
}

/// Returns the operands of a multiplication.
fn factors(step: &Step) -> Option<[TraceValue; 2]> {
    match (step.operation.primitive()?, step.inputs.as_slice()) {
        (Primitive::Mul, &[Some(a), Some(b)]) => Some([a, b]),
        _ => None,
    }
}

/// Returns the step that makes a value, if `reader` is the only reader of the value.
fn only(uses: &Uses, value: TraceValue, reader: StepId) -> Result<Option<StepId>, Error> {
    match uses.only_reader(value)? {
        Some(only) if only == reader => uses.maker(value),
        _ => Ok(None),
    }
}
