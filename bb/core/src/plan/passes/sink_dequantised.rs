//! Moves bytes instead of the floats that they represent: `dequantize_linear` moves behind steps that only move elements.
//!
//! Quantised models have a `DequantizeLinear` before each operator, even before operators that move elements (`Reshape`,
//! `Transpose`, `Slice`, `Gather`, `Concat`). With one scale for all elements, the moved bytes represent the moved numbers, and
//! a byte is a quarter of the size of a float. Behind these steps, `dequantize_linear` meets the `quantize_linear` that
//! follows, and both are removed (`tabulate.rs`). The results are bit-identical.
//!
//! If the tensors of a `Concat` have different scales, and its result is quantised, `quantize_linear` moves before the `Concat`
//! instead.

use super::permutation::Transpose;
use super::quantised::{Dequantized, Grid, Quantized, calls, insert, like};
use super::view::View;
use super::{Pass, PassOptions};
use crate::ext::{CreateOp, QuantOp};
use crate::plan::engine::Engine;
use crate::trace::{NewStep, NewValue, Phase, Step, StepId, Trace, TraceEdit, TraceValue, Uses};
use crate::{DataType, Error, Primitive};
use smallvec::SmallVec;
use std::collections::HashMap;

pub(super) const PASS: Pass = Pass { name: "sink-dequantised", engines: &[Engine::Interpreter], run };

fn run(trace: &mut Trace, options: PassOptions<'_>) -> Result<usize, Error> {
    let uses = trace.uses()?;
    let ids: Vec<StepId> = trace.steps.iter().map(|(id, _)| id).collect();
    let mut sinking = Sinking { edit: trace.edit(), uses, options, sunk: HashMap::new() };
    let mut count = 0;
    for id in ids {
        if sinking.edit.trace().steps.get(id)?.phase != Phase::EachRun {
            continue;
        }
        if sinking.sink(id)? || sinking.hoist(id)? {
            count += 1;
        }
    }
    sinking.edit.finish()?;
    Ok(count)
}

struct Sinking<'t, 'o> {
    edit: TraceEdit<'t>,
    uses: Uses,
    options: PassOptions<'o>,
    /// For each result of a step that now moves bytes, its dequantisation.
    sunk: HashMap<TraceValue, Dequantized>,
}

/// The maximum number of steps to look ahead for steps that quantise.
const AHEAD: usize = 8;

/// Returns the number of operands, from the first one on, that a step moves; `None` if it does not only move elements.
fn moved(step: &Step) -> Option<usize> {
    if calls(step, CreateOp::Expand.spec()) {
        return Some(1);
    }
    match step.operation.primitive()? {
        Primitive::Reshape
        | Primitive::Transpose
        | Primitive::Squeeze
        | Primitive::Unsqueeze
        | Primitive::Slice
        | Primitive::Split
        | Primitive::Gather => Some(1),
        Primitive::Concat => Some(step.inputs.len()),
        _ => None,
    }
}

impl Sinking<'_, '_> {
    fn view(&self) -> View<'_> {
        View { trace: self.edit.trace(), uses: &self.uses, options: self.options }
    }

    fn dequantized(&self, value: TraceValue) -> Result<Option<Dequantized>, Error> {
        match self.sunk.get(&value) {
            Some(sunk) => Ok(Some(sunk.clone())),
            None => Dequantized::making(self.view(), value),
        }
    }

    /// Lets a step move the bytes that its operands are dequantised from. Returns whether it was replaced.
    fn sink(&mut self, id: StepId) -> Result<bool, Error> {
        let trace = self.edit.trace();
        let step = trace.steps.get(id)?;
        let Some(moved) = moved(step) else { return Ok(false) };
        let operands: SmallVec<[TraceValue; 3]> = step.inputs.iter().take(moved).flatten().copied().collect();
        let mut common: Option<(Dequantized, Grid)> = None;
        let mut inputs = step.inputs.clone();
        for (operand, input) in operands.iter().zip(&mut inputs) {
            let Some(of) = self.dequantized(*operand)? else { return Ok(false) };
            let Some(grid) = of.grid(self.view())? else { return self.turn(id) };
            if common.as_ref().is_some_and(|(_, common)| *common != grid) {
                return Ok(false);
            }
            *input = Some(of.x);
            common.get_or_insert((of, grid));
        }
        let Some((of, grid)) = common else { return Ok(false) };
        if !self.pays(id, &operands)? {
            return Ok(false);
        }
        let new = NewStep::like(step, inputs);
        self.replace(id, new, &of, grid.dtype)?;
        Ok(true)
    }

    /// Transposes bytes that have several scales along one dimension, as weights have. Returns whether the step was replaced.
    fn turn(&mut self, id: StepId) -> Result<bool, Error> {
        let trace = self.edit.trace();
        let step = trace.steps.get(id)?;
        let Some(transpose) = Transpose::of(trace, step)? else { return Ok(false) };
        let Some(of) = self.dequantized(transpose.operand)? else { return Ok(false) };
        if !self.pays(id, &[transpose.operand])? {
            return Ok(false);
        }
        let mut turned: SmallVec<[_; 2]> = SmallVec::new();
        for value in [Some(of.scale), of.zero].into_iter().flatten() {
            let Some(data) = self.view().data(value)? else { return Ok(false) };
            let missing = transpose.perm.entries().len().saturating_sub(data.shape().len());
            let shape: Vec<usize> =
                std::iter::repeat_n(1, missing).chain(data.shape().iter().copied()).collect();
            // The shape of the scales can be permuted only if at most one extent differs from 1, because then their order stays
            // the same.
            if shape.iter().filter(|&&extent| extent != 1).count() > 1 {
                return Ok(false);
            }
            turned.push(data.reshaped(&transpose.perm.permuted::<_, Vec<usize>>(&shape)?)?);
        }
        let new = NewStep::like(step, [Some(of.x)]);
        let dtype = trace.values.get(of.x)?.dtype;
        let mut turned =
            turned.into_iter().map(|data| self.edit.constant(data)).collect::<Vec<_>>().into_iter();
        let scale = turned.next().unwrap_or(of.scale);
        let of = Dequantized { scale, zero: turned.next(), ..of };
        self.replace(id, new, &of, dtype)?;
        Ok(true)
    }

    /// Replaces a step that moves floats by a step that moves bytes, and inserts a dequantisation of its results.
    fn replace(&mut self, id: StepId, new: NewStep, of: &Dequantized, dtype: DataType) -> Result<(), Error> {
        let outputs = self.edit.trace().steps.get(id)?.outputs.clone();
        let mut results: SmallVec<[NewValue; 2]> = SmallVec::new();
        for &output in &outputs {
            results.push(like(self.edit.trace(), output, dtype)?);
        }
        let moved = self.edit.insert(id, new, results)?;
        for (output, x) in outputs.into_iter().zip(moved) {
            let result = NewValue::like(self.edit.trace().values.get(output)?);
            let floats = insert(&mut self.edit, id, of.with(x), result)?;
            self.edit.replace(output, floats)?;
            self.sunk.insert(output, Dequantized { x, ..of.clone() });
        }
        self.edit.remove(id)
    }

    /// Returns whether moving bytes pays off: the floats are not needed before the step, or not behind it.
    fn pays(&self, id: StepId, operands: &[TraceValue]) -> Result<bool, Error> {
        let step = self.edit.trace().steps.get(id)?;
        // For `Expand`, floats before the step count as needed, because there are fewer of them than behind the step.
        let mut before = calls(step, CreateOp::Expand.spec());
        for &operand in operands {
            before |= self.uses.only_reader(operand)? != Some(id);
        }
        if !before {
            return Ok(true);
        }
        for &output in &step.outputs {
            if !self.is_quantised(output, AHEAD)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns whether all readers of a value quantise it, directly or after moving it.
    fn is_quantised(&self, value: TraceValue, ahead: usize) -> Result<bool, Error> {
        let trace = self.edit.trace();
        if self.uses.is_returned(value)? {
            return Ok(false);
        }
        for &reader in self.uses.readers(value)? {
            let step = trace.steps.get(reader)?;
            let moves = ahead > 0 && moved(step) == Some(1) && step.inputs.first() == Some(&Some(value));
            let [further] = step.outputs.as_slice() else { return Ok(false) };
            if Quantized::of(self.view(), step)?.is_none()
                && !(moves && self.is_quantised(*further, ahead - 1)?)
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Quantises the operands of a `concat` instead of its result, if one of them comes from bytes.
    fn hoist(&mut self, id: StepId) -> Result<bool, Error> {
        let trace = self.edit.trace();
        let step = trace.steps.get(id)?;
        let (Some(Primitive::Concat), &[result]) = (step.operation.primitive(), step.outputs.as_slice())
        else {
            return Ok(false);
        };
        let Some(reader) = self.uses.only_reader(result)? else { return Ok(false) };
        let Some(to) = Quantized::of(self.view(), trace.steps.get(reader)?)? else {
            return Ok(false);
        };
        let operands: SmallVec<[TraceValue; 3]> = step.inputs.iter().flatten().copied().collect();
        let mut any = false;
        for &operand in &operands {
            any |= match self.dequantized(operand)? {
                Some(of) => of.grid(self.view())?.is_some(),
                None => false,
            };
        }
        if !any {
            return Ok(false);
        }
        let params = trace.steps.get(reader)?.params.clone();
        let origins = trace.steps.get(reader)?.origins.clone();
        let mut new = NewStep::like(step, []);
        for operand in operands {
            let inputs = [Some(operand), Some(to.scale), to.zero];
            let part = like(self.edit.trace(), operand, to.grid.dtype)?;
            let quantize = super::quantised::step(
                QuantOp::QuantizeLinear.spec(),
                params.clone(),
                inputs,
                origins.clone(),
            );
            new.inputs.push(Some(insert(&mut self.edit, id, quantize, part)?));
        }
        let joined = like(self.edit.trace(), to.result, to.grid.dtype)?;
        let joined = insert(&mut self.edit, id, new, joined)?;
        self.edit.replace(to.result, joined)?;
        self.edit.remove(id)?;
        self.edit.remove(reader)?;
        Ok(true)
    }
}
