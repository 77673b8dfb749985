//! Rewrites a region so that its steps run with permuted dimensions.

use super::regions::{Facts, Region, made};
use super::weigh::{Entry, Exit, Turn};
use crate::plan::passes::permutation::Permutation;
use crate::plan::passes::quantised::{insert, step};
use crate::trace::{NewStep, NewValue, StepId, StepOrigins, TraceEdit, TraceValue};
use crate::{Error, Primitive};
use bb_ir::op::{Param, take};
use bb_ir::{Axis, Shape, infer};
use std::collections::HashMap;

/// Rewrites a region: each step reads operands with permuted dimensions, and computes a result with permuted dimensions.
/// Readers outside the region read a transpose of the result.
pub(super) fn region(
    edit: &mut TraceEdit<'_>,
    facts: &Facts,
    region: &Region,
    turn: &Turn,
) -> Result<(), Error> {
    let mut rewriting = Rewriting { edit, facts, region, turn, read: HashMap::new() };
    for &id in &region.steps {
        let inputs = rewriting.edit.trace().steps.get(id)?.inputs.clone();
        for operand in inputs.into_iter().flatten() {
            rewriting.enter(id, operand)?;
        }
        let moved = rewriting.step(id)?;
        rewriting.leave(id, moved)?;
    }
    rewriting.drop_transposes()
}

struct Rewriting<'r, 't> {
    edit: &'r mut TraceEdit<'t>,
    facts: &'r Facts,
    region: &'r Region,
    turn: &'r Turn,
    /// For each operand, the value that the new steps read instead.
    read: HashMap<TraceValue, TraceValue>,
}

impl Rewriting<'_, '_> {
    /// Creates the value that a step reads instead of an operand, unless it exists already.
    fn enter(&mut self, id: StepId, operand: TraceValue) -> Result<(), Error> {
        if self.read.contains_key(&operand) {
            return Ok(());
        }
        let origins = self.edit.trace().steps.get(id)?.origins.clone();
        let read = match self.turn.entry(self.edit.trace(), self.facts, self.region, operand)? {
            Entry::Value(value) => value,
            Entry::Permuted(value, perm) => self.transpose(id, value, &perm, origins)?,
            Entry::Raised(order, axes) if order.is_identity() => {
                self.unsqueeze(id, operand, axes, origins)?
            }
            Entry::Raised(order, axes) => {
                let ordered = self.transpose(id, operand, &order, origins.clone())?;
                self.unsqueeze(id, ordered, axes, origins)?
            }
        };
        self.read.insert(operand, read);
        Ok(())
    }

    /// Replaces a step of the region by a step with permuted dimensions, and returns the new result.
    fn step(&mut self, id: StepId) -> Result<TraceValue, Error> {
        let step = self.edit.trace().steps.get(id)?;
        let mut new = NewStep::like(step, step.inputs.iter().copied());
        for value in new.inputs.iter_mut().flatten() {
            let read = self.read.get(value).copied();
            *value = read.ok_or_else(|| Error::excluded("a region's steps to be in order"))?;
        }
        if step.operation.primitive() == Some(Primitive::Concat) {
            let axis = Axis::new(take::Int("concat", step.params.first())?, self.region.rank)?.get();
            let moved = self.turn.forth.entries().get(axis).map(|&axis| Param::Int(axis as i64));
            new.params = moved.into_iter().collect();
        }
        let result = made(self.edit.trace(), id)?;
        let info = self.edit.trace().values.get(result)?;
        let results = NewValue::shaped(info, self.turn.back.permuted(&info.shape)?);
        let moved = insert(self.edit, id, new, results)?;
        self.edit.remove(id)?;
        self.read.insert(result, moved);
        Ok(moved)
    }

    /// Lets the readers outside the region read the permuted result of a step, or a transpose of it.
    fn leave(&mut self, id: StepId, moved: TraceValue) -> Result<(), Error> {
        let facts = self.facts;
        let result = made(self.edit.trace(), id)?;
        let mut is_read = facts.uses.is_returned(result)?;
        for &reader in facts.uses.readers(result)? {
            match self.turn.exit(facts, self.region, reader)? {
                Exit::Inside => {}
                Exit::Reader => is_read = true,
                Exit::Back(transpose) => {
                    self.edit.replace(transpose.result, moved)?;
                    self.edit.remove(reader)?;
                }
                Exit::Permuted(transpose, perm) => {
                    let origins = self.edit.trace().steps.get(reader)?.origins.clone();
                    let permuted = self.transpose(reader, moved, &perm, origins)?;
                    self.edit.replace(transpose.result, permuted)?;
                    self.edit.remove(reader)?;
                }
            }
        }
        if is_read {
            let origins = self.edit.trace().steps.get(id)?.origins.clone();
            let back = self.transpose(id, moved, &self.turn.forth, origins)?;
            self.edit.replace(result, back)?;
        }
        Ok(())
    }

    /// Removes the transposes that only this region read, so that the next round does not count them.
    fn drop_transposes(&mut self) -> Result<(), Error> {
        for &operand in &self.region.operands {
            let transposed = self.facts.transposed(self.edit.trace(), self.region, operand)?;
            if let Some((id, _)) = transposed
                && self.facts.is_only_for(self.region, operand)?
            {
                self.edit.remove(id)?;
            }
        }
        Ok(())
    }

    fn transpose(
        &mut self,
        before: StepId,
        value: TraceValue,
        perm: &Permutation,
        origins: StepOrigins,
    ) -> Result<TraceValue, Error> {
        let info = self.edit.trace().values.get(value)?;
        let results = NewValue::shaped(info, perm.permuted(&info.shape)?);
        let new = step(Primitive::Transpose.spec(), perm.params(), [Some(value)], origins);
        insert(self.edit, before, new, results)
    }

    fn unsqueeze(
        &mut self,
        before: StepId,
        value: TraceValue,
        axes: Vec<i64>,
        origins: StepOrigins,
    ) -> Result<TraceValue, Error> {
        let info = self.edit.trace().values.get(value)?;
        let shape = infer::unsqueeze(&info.shape, &axes)?;
        let results = NewValue::shaped(info, Shape::from_slice(&shape));
        let params = Box::new([Param::Ints(axes.into())]);
        let new = step(Primitive::Unsqueeze.spec(), params, [Some(value)], origins);
        insert(self.edit, before, new, results)
    }
}
