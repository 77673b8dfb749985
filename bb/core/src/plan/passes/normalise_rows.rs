//! Replaces a layer normalisation that an exporter spelled out, or a normalisation by the root of the mean square, by one
//! operation.
//!
//! ```text
//! mean = reduce_mean(x)      d = x - mean      square = d * d, or d to the power of 2      (without mean: d = x)
//! root = sqrt(reduce_mean(square) + epsilon)
//! y = d / root * scale + bias, where the quotient may be a product with the reciprocal
//! ```
//!
//! Models of halves may compute the quotient in `f32`, and convert it back before it is scaled.
//!
//! The operation computes the same formula, with the mean of the distances as a correction, and does not round intermediate
//! results. Its error is at most the error of the steps, and the last digits may differ.
//! [`PassSwitches::recognize`](crate::PassSwitches::recognize) switches the pass on for `f32`. Halves need no switch, because
//! their squares overflow between steps and not within the operation.

use super::quantised::{calls, data};
use super::recognized::{is_closed, number, origins, replace};
use super::{Pass, PassOptions};
use crate::ext::{LlmOp, NnOp, ScalarOp};
use crate::plan::program::Engine;
use crate::trace::{NewStep, NewValue, Operation, Phase, Step, StepId, Trace, TraceValue, Uses};
use crate::{DataType, Error, Primitive};
use bb_ir::op::{OpSpec, Param};

pub(super) const PASS: Pass = Pass { name: "normalise-rows", engines: &[Engine::Interpreter], run };

fn run(trace: &mut Trace, options: PassOptions<'_>) -> Result<usize, Error> {
    let [layer, root] = [NnOp::LayerNormalization.spec(), LlmOp::RmsNormalization.spec()];
    let has = |centred| options.natives.has(if centred { layer } else { root });
    if !(has(true) || has(false)) {
        return Ok(0);
    }
    let uses = trace.uses()?;
    let mut found = Vec::new();
    for (id, _) in trace.steps.iter() {
        let matching = NormalizationMatch { trace, uses: &uses, options, steps: Vec::new() };
        found.extend(matching.rows(id)?.filter(|rows| has(rows.centred)));
    }
    let mut count = 0;
    let mut edit = trace.edit();
    for NormalizedRows { x, axis, epsilon, centred, scale, bias, last, steps } in found {
        count += steps.len();
        let origins = origins(edit.trace(), &steps)?;
        let &[result] = edit.trace().steps.get(last)?.outputs.as_slice() else { continue };
        let new = NewStep {
            operation: Operation::Row(if centred { layer } else { root }),
            params: Box::new([Param::Int(axis), Param::Float(epsilon)]),
            symbolic: None,
            inputs: [Some(x), Some(scale), bias].into_iter().take(if centred { 3 } else { 2 }).collect(),
            origins,
            phase: Phase::EachRun,
        };
        let results = [NewValue::like(edit.trace().values.get(result)?)];
        for made in edit.insert(last, new, results)? {
            replace(&mut edit, result, made, &steps)?;
        }
    }
    edit.finish()?;
    Ok(count)
}

/// A matched normalisation of rows.
struct NormalizedRows {
    x: TraceValue,
    /// The first dimension of a row, counted from the end.
    axis: i64,
    epsilon: f64,
    /// Whether the mean is subtracted.
    centred: bool,
    scale: TraceValue,
    bias: Option<TraceValue>,
    /// The step whose result is replaced.
    last: StepId,
    /// The steps that the operation replaces, in order.
    steps: Vec<StepId>,
}

/// The state of a match.
struct NormalizationMatch<'t> {
    trace: &'t Trace,
    uses: &'t Uses,
    options: PassOptions<'t>,
    steps: Vec<StepId>,
}

impl<'t> NormalizationMatch<'t> {
    /// Matches the steps around a root.
    fn rows(mut self, root: StepId) -> Result<Option<NormalizedRows>, Error> {
        let trace = self.trace;
        let step = trace.steps.get(root)?;
        if !calls(step, Primitive::Sqrt.spec()) {
            return Ok(None);
        }
        let (&[Some(shifted)], &[divisor]) = (step.inputs.as_slice(), step.outputs.as_slice()) else {
            return Ok(None);
        };
        self.steps.push(root);
        let Some((variance, epsilon)) = self.with_number(shifted, Primitive::Add)? else { return Ok(None) };
        let Some((square, length)) = self.mean(variance)? else { return Ok(None) };
        let Some(distance) = self.squared(square)? else { return Ok(None) };
        let centre = self.centred(distance, length)?;
        let x = centre.unwrap_or(distance);
        let Some(normal) = self.divided([distance, x], divisor, centre.is_some(), length)? else {
            return Ok(None);
        };
        let (x, normal) = self.converted(x, normal)?.unwrap_or((x, normal));
        let Some((scaled, scale, at)) = self.with_row(normal, Primitive::Mul, length)? else {
            return Ok(None);
        };
        let shifted = match centre {
            Some(_) => self.with_row(scaled, Primitive::Add, length)?,
            None => None,
        };
        let (last, bias) = shifted.map_or((at, None), |(_, bias, at)| (at, Some(bias)));
        self.steps.sort_unstable();
        self.steps.dedup();
        let (of, result) = (trace.values.get(x)?, trace.steps.get(last)?.outputs.first());
        let same = match result {
            // An epsilon with more dimensions would raise the rank of the result.
            Some(&result) => trace.values.get(result)?.shape == of.shape,
            None => false,
        };
        if !same || !self.may_replace(of.dtype) || !is_closed(trace, self.uses, &self.steps, last)? {
            return Ok(None);
        }
        let axis = -(length as i64);
        let centred = centre.is_some();
        Ok(Some(NormalizedRows { x, axis, epsilon: epsilon.into(), centred, scale, bias, last, steps: self.steps }))
    }

    /// Returns whether steps on these elements become one operation. Between steps of halves, a square may leave the range of
    /// halves. So the operation is right where the steps are not.
    fn may_replace(&self, dtype: DataType) -> bool {
        match dtype {
            DataType::F16 | DataType::BF16 => true,
            _ => dtype == DataType::F32 && self.options.switches.recognize,
        }
    }

    /// Returns the step that makes a value, if it calls this operation in each run.
    fn making(&self, value: TraceValue, spec: &'static OpSpec) -> Result<Option<(StepId, &'t Step)>, Error> {
        let Some(id) = self.uses.maker(value)? else { return Ok(None) };
        let step = self.trace.steps.get(id)?;
        Ok(calls(step, spec).then_some((id, step)))
    }

    /// Matches an operation on a value and a number.
    fn with_number(
        &mut self,
        value: TraceValue,
        op: Primitive,
    ) -> Result<Option<(TraceValue, f32)>, Error> {
        let Some((id, step)) = self.making(value, op.spec())? else { return Ok(None) };
        let &[Some(a), Some(b)] = step.inputs.as_slice() else { return Ok(None) };
        let number = |value| number(self.trace, self.options, value);
        let found = match (number(a)?, number(b)?) {
            (None, Some(number)) => (a, number),
            (Some(number), None) if op == Primitive::Add => (b, number),
            _ => return Ok(None),
        };
        self.steps.push(id);
        Ok(Some(found))
    }

    /// Matches a mean over the last dimensions, which it keeps. Returns its operand and the number of these dimensions.
    fn mean(&mut self, value: TraceValue) -> Result<Option<(TraceValue, usize)>, Error> {
        let Some((id, step)) = self.making(value, Primitive::ReduceMean.spec())? else { return Ok(None) };
        let (&[Some(x)], &[Param::Ints(ref axes), Param::Bool(true)]) = (step.inputs.as_slice(), &step.params[..])
        else {
            return Ok(None);
        };
        let rank = self.trace.values.get(x)?.shape.len();
        let mut axes: Vec<i64> =
            axes.iter().map(|&axis| if axis < 0 { axis + rank as i64 } else { axis }).collect();
        axes.sort_unstable();
        let first = rank.saturating_sub(axes.len()) as i64;
        let last = !axes.is_empty() && axes.iter().copied().eq(first..rank as i64);
        if !last || step.symbolic.is_some() {
            return Ok(None);
        }
        self.steps.push(id);
        Ok(Some((x, axes.len())))
    }

    /// Matches a square, and returns the value that is squared.
    fn squared(&mut self, square: TraceValue) -> Result<Option<TraceValue>, Error> {
        if let Some((of, 2.0)) = self.with_number(square, Primitive::Pow)? {
            return Ok(Some(of));
        }
        let Some((id, step)) = self.making(square, Primitive::Mul.spec())? else { return Ok(None) };
        let &[Some(a), Some(b)] = step.inputs.as_slice() else { return Ok(None) };
        self.steps.push(id);
        Ok((a == b).then_some(a))
    }

    /// Matches the distance from the mean over the last dimensions, and returns the value before the mean is subtracted.
    fn centred(&mut self, distance: TraceValue, length: usize) -> Result<Option<TraceValue>, Error> {
        let Some((id, step)) = self.making(distance, Primitive::Sub.spec())? else { return Ok(None) };
        let &[Some(x), Some(mean)] = step.inputs.as_slice() else { return Ok(None) };
        let known = self.steps.len();
        if self.mean(mean)? != Some((x, length)) {
            self.steps.truncate(known);
            return Ok(None);
        }
        self.steps.push(id);
        Ok(Some(x))
    }

    /// Finds the quotient of a distance and a divisor.
    fn divided(
        &mut self,
        [distance, x]: [TraceValue; 2],
        divisor: TraceValue,
        centred: bool,
        length: usize,
    ) -> Result<Option<TraceValue>, Error> {
        let Some(reader) = self.uses.only_reader(divisor)? else { return Ok(None) };
        let step = self.trace.steps.get(reader)?;
        let &[result] = step.outputs.as_slice() else { return Ok(None) };
        let (inputs, divides) = (step.inputs.as_slice(), calls(step, Primitive::Div.spec()));
        self.steps.push(reader);
        let numerator = |by: TraceValue| number(self.trace, self.options, by);
        let inverse = match *inputs {
            [Some(_)] => calls(step, ScalarOp::Reciprocal.spec()),
            [Some(one), Some(by)] if divides && by == divisor => numerator(one)? == Some(1.0),
            _ => false,
        };
        let (dividend, result) = if inverse {
            let Some(at) = self.uses.only_reader(result)? else { return Ok(None) };
            let step = self.trace.steps.get(at)?;
            let (&[Some(a), Some(b)], &[product]) = (step.inputs.as_slice(), step.outputs.as_slice()) else {
                return Ok(None);
            };
            if !calls(step, Primitive::Mul.spec()) || (a == result) == (b == result) {
                return Ok(None);
            }
            self.steps.push(at);
            (if a == result { b } else { a }, product)
        } else {
            match inputs {
                &[Some(dividend), Some(by)] if divides && by == divisor => (dividend, result),
                _ => return Ok(None),
            }
        };
        // PyTorch subtracts the mean once for the variance and once more for the quotient.
        let same = dividend == distance || (centred && self.centred(dividend, length)? == Some(x));
        Ok(same.then_some(result))
    }

    /// Finds the conversions of halves around `f32`. Returns the half that was converted to `x`, and the quotient after it is
    /// converted back.
    fn converted(
        &mut self,
        x: TraceValue,
        quotient: TraceValue,
    ) -> Result<Option<(TraceValue, TraceValue)>, Error> {
        let (Some((_, before)), Some(reader)) =
            (self.making(x, Primitive::Cast.spec())?, self.uses.only_reader(quotient)?)
        else {
            return Ok(None);
        };
        let behind = self.trace.steps.get(reader)?;
        let (&[Some(half)], &[result]) = (before.inputs.as_slice(), behind.outputs.as_slice()) else {
            return Ok(None);
        };
        let dtype = |value| Ok::<_, Error>(self.trace.values.get(value)?.dtype);
        let back = calls(behind, Primitive::Cast.spec())
            && dtype(result)? == dtype(half)?
            && matches!(dtype(half)?, DataType::F16 | DataType::BF16);
        if !self.options.switches.recognize || !back {
            return Ok(None);
        }
        self.steps.push(reader);
        Ok(Some((half, result)))
    }

    /// Finds the only reader of a value, if it applies an operation with a constant that has the extents of a row.
    fn with_row(
        &mut self,
        value: TraceValue,
        op: Primitive,
        length: usize,
    ) -> Result<Option<(TraceValue, TraceValue, StepId)>, Error> {
        let Some(reader) = self.uses.only_reader(value)? else { return Ok(None) };
        let step = self.trace.steps.get(reader)?;
        let (&[Some(a), Some(b)], &[result]) = (step.inputs.as_slice(), step.outputs.as_slice()) else {
            return Ok(None);
        };
        if !calls(step, op.spec()) || (a == value) == (b == value) {
            return Ok(None);
        }
        let by = if a == value { b } else { a };
        let info = self.trace.values.get(value)?;
        let (dtype, shape) = (info.dtype, &info.shape);
        let row = shape.get(shape.len().saturating_sub(length)..).unwrap_or_default();
        let fits = data(self.trace, self.options, by)?
            .is_some_and(|own| own.dtype() == dtype && own.shape() == row);
        if fits {
            self.steps.push(reader);
        }
        Ok(fits.then_some((result, by, reader)))
    }
}
