//! Replaces steps that combine functions of the same bytes by one table look-up.
//!
//! A sum or product of two functions of a byte is itself a function of that byte, and so is a look-up in the result of a
//! look-up. The same operation computes the new table from the tables of its operands, once, when the plan is built. So the `x
//! * sigmoid(x)` of a quantised network becomes one look-up. All results are bit-identical.

use super::quantised::{all_bytes, are_bytes, calls, insert, list, look_up};
use super::{Pass, PassOptions};
use crate::Error;
use crate::ext::QuantOp;
use crate::plan::engine::Engine;
use crate::trace::{NewStep, StepId, Trace, TraceEdit, TraceValue};
use bb_ir::element_count;
use std::collections::HashMap;

pub(super) const PASS: Pass = Pass { name: "merge-lookups", engines: &[Engine::Interpreter], run };

fn run(trace: &mut Trace, options: PassOptions<'_>) -> Result<usize, Error> {
    if !options.natives.has(QuantOp::Lookup.spec()) {
        return Ok(0);
    }
    let ids: Vec<StepId> = trace.steps.iter().map(|(id, _)| id).collect();
    let mut merging = Merging { edit: trace.edit(), tables: HashMap::new() };
    let mut count = 0;
    for id in ids {
        count += usize::from(merging.merge(id)?);
    }
    merging.edit.finish()?;
    Ok(count)
}

/// A function of the bytes of a tensor.
#[derive(Debug, Clone, Copy)]
struct Function {
    x: TraceValue,
    /// The result for each byte; `None` if the function is the identity.
    table: Option<TraceValue>,
}

struct Merging<'t> {
    edit: TraceEdit<'t>,
    /// The results of look-ups, each with the function of bytes that computes it.
    tables: HashMap<TraceValue, Function>,
}

impl Merging<'_> {
    /// Returns a value as a function of bytes. A value that is not the result of a look-up is the identity function of its own
    /// bytes.
    fn function(&self, value: TraceValue) -> Function {
        self.tables.get(&value).copied().unwrap_or(Function { x: value, table: None })
    }

    /// Replaces a step whose operands are functions of the same bytes by a look-up. Returns whether the step was replaced.
    fn merge(&mut self, id: StepId) -> Result<bool, Error> {
        let step = self.edit.trace().steps.get(id)?;
        let &[result] = step.outputs.as_slice() else { return Ok(false) };
        match *step.inputs.as_slice() {
            [Some(x), Some(table)] if calls(step, QuantOp::Lookup.spec()) => {
                let of = self.function(x);
                if of.table.is_some() {
                    return self.replace(id, &[(0, of)], result);
                }
                self.tables.insert(result, Function { x, table: Some(table) });
                Ok(false)
            }
            [Some(a), _, _, Some(b), ..]
                if calls(step, QuantOp::QLinearAdd.spec()) || calls(step, QuantOp::QLinearMul.spec()) =>
            {
                let [a, b] = [a, b].map(|value| self.function(value));
                if a.x != b.x || !self.is_of_bytes_alone(id, a.x)? {
                    return Ok(false);
                }
                self.replace(id, &[(0, a), (3, b)], result)
            }
            _ => Ok(false),
        }
    }

    /// Returns whether the result depends only on bytes. Then scales and zero points have one element, are known when the plan
    /// is built, and do not raise the rank of the result.
    fn is_of_bytes_alone(&self, id: StepId, x: TraceValue) -> Result<bool, Error> {
        let trace = self.edit.trace();
        let rank = trace.values.get(x)?.shape.len();
        for (place, operand) in trace.steps.get(id)?.inputs.iter().enumerate() {
            if let (Some(value), false) = (operand, [0, 3].contains(&place)) {
                let info = trace.values.get(*value)?;
                let number = element_count(&info.shape) == Some(1) && info.shape.len() <= rank.min(1);
                if !number || !info.source.is_constant() {
                    return Ok(false);
                }
            }
        }
        Ok(are_bytes(trace.values.get(x)?.dtype) && !trace.values.get(x)?.source.is_constant())
    }

    /// Replaces a step by a look-up in a new table, which the same operation computes from the tables of its operands.
    fn replace(
        &mut self,
        id: StepId,
        operands: &[(usize, Function)],
        result: TraceValue,
    ) -> Result<bool, Error> {
        let Some(&(_, Function { x, .. })) = operands.first() else { return Ok(false) };
        let trace = self.edit.trace();
        let (of, to) = (trace.values.get(x)?.dtype, trace.values.get(result)?.dtype);
        let step = trace.steps.get(id)?;
        let origins = step.origins.clone();
        let mut new = NewStep::like(step, step.inputs.iter().copied());
        for &(place, function) in operands {
            let table = match function.table {
                Some(table) => table,
                None => self.edit.constant(all_bytes(of)?),
            };
            if let Some(operand) = new.inputs.get_mut(place) {
                *operand = Some(table);
            }
        }
        let table = insert(&mut self.edit, id, new, list(to, 256))?;
        let made = look_up(&mut self.edit, id, [x, table], origins)?;
        self.edit.replace(result, made)?;
        self.edit.remove(id)?;
        self.tables.insert(result, Function { x, table: Some(table) });
        Ok(true)
    }
}
