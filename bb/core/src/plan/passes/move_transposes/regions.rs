//! Finds the regions of a trace, and collects facts about the values at their borders.

use crate::plan::passes::permutation::Transpose;
use crate::trace::{Operation, Phase, Step, StepId, Table, TableIndex, Trace, TraceValue, Uses};
use crate::{Error, Primitive};
use bb_ir::op::Class;
use std::collections::{HashMap, HashSet};

/// The facts about a trace that one round uses.
pub(super) struct Facts {
    pub(super) uses: Uses,
    /// For each step, its permutation if it is a transpose other than the identity.
    transposes: Table<StepId, Option<Transpose>>,
    /// For each value, whether it is known before a run.
    constant: Table<TraceValue, bool>,
    /// For each step that commutes with permutations, the step that identifies its region.
    names: Table<StepId, Option<StepId>>,
}

/// Steps that all run with permuted dimensions, or all with the original ones.
pub(super) struct Region {
    name: StepId,
    /// The rank of all results.
    pub(super) rank: usize,
    /// The steps of the region, in order.
    pub(super) steps: Vec<StepId>,
    /// The values that the steps read but do not compute, without repetition.
    pub(super) operands: Vec<TraceValue>,
}

impl Facts {
    /// Finds the regions of a trace; `None` if it has no transposes.
    pub(super) fn of(trace: &Trace) -> Result<Option<Facts>, Error> {
        let mut transposes = Table::with(trace.steps.len(), || None);
        let mut any = false;
        for (id, step) in trace.steps.iter() {
            let transpose = Transpose::of(trace, step)?.filter(|transpose| !transpose.perm.is_identity());
            any |= transpose.is_some();
            transposes.set(id, transpose)?;
        }
        if !any {
            return Ok(None);
        }
        let names = Table::with(trace.steps.len(), || None);
        let mut facts = Facts { uses: trace.uses()?, transposes, constant: constants(trace)?, names };
        facts.join(trace)?;
        Ok(Some(facts))
    }

    /// Groups the steps into regions. Two steps are in one region if one reads the result of the other, or both read the same
    /// transposed value.
    fn join(&mut self, trace: &Trace) -> Result<(), Error> {
        // For each transposed value, the first step that reads it.
        let mut first: HashMap<TraceValue, StepId> = HashMap::new();
        for (id, step) in trace.steps.iter() {
            let Some(rank) = self.movable(trace, step)? else { continue };
            self.names.set(id, Some(id))?;
            for value in step.reads() {
                if trace.values.get(value)?.shape.len() != rank {
                    continue;
                }
                let Some(maker) = self.uses.maker(value)? else { continue };
                if self.names.get(maker)?.is_some() {
                    self.unite(id, maker)?;
                } else if self.transposes.get(maker)?.is_some() {
                    self.unite(id, *first.entry(value).or_insert(id))?;
                }
            }
        }
        // Each step points to an earlier step or to itself, and the earlier step already points to the first step of its
        // region.
        for (id, _) in trace.steps.iter() {
            if let Some(before) = *self.names.get(id)? {
                let name = *self.names.get(before)?;
                self.names.set(id, name)?;
            }
        }
        Ok(())
    }

    fn unite(&mut self, one: StepId, other: StepId) -> Result<(), Error> {
        let (one, other) = (self.first(one)?, self.first(other)?);
        self.names.set(one.max(other), Some(one.min(other)))
    }

    /// Finds the first step of the set that contains a step. Lets each step on the path point one step further, so that paths
    /// stay short.
    fn first(&mut self, mut id: StepId) -> Result<StepId, Error> {
        while let Some(next) = *self.names.get(id)?
            && next != id
        {
            let further = *self.names.get(next)?;
            self.names.set(id, further)?;
            id = next;
        }
        Ok(id)
    }

    /// Returns the rank of a step's result if permutations commute with the step and its result differs between runs.
    fn movable(&self, trace: &Trace, step: &Step) -> Result<Option<usize>, Error> {
        let (Operation::Row(spec), [result]) = (step.operation, step.outputs.as_slice()) else {
            return Ok(None);
        };
        let joins = step.operation.primitive() == Some(Primitive::Concat) && step.symbolic.is_none();
        if step.phase != Phase::EachRun || *self.constant.get(*result)? || !(joins || spec.class == Class::Elementwise) {
            return Ok(None);
        }
        Ok(Some(trace.values.get(*result)?.shape.len()))
    }

    /// Returns the regions that read a transposed value, in trace order.
    pub(super) fn regions(&self, trace: &Trace) -> Result<Vec<Region>, Error> {
        let mut members: Table<StepId, Vec<StepId>> = Table::with(trace.steps.len(), Vec::new);
        for (id, name) in self.names.iter() {
            if let Some(name) = *name {
                members.get_mut(name)?.push(id);
            }
        }
        let mut regions = Vec::new();
        for (position, steps) in members.into_entries().into_iter().enumerate() {
            if !steps.is_empty() {
                regions.extend(self.region(trace, StepId::at(position), steps)?);
            }
        }
        Ok(regions)
    }

    /// Returns the region of these steps, if it reads a transposed value.
    fn region(&self, trace: &Trace, name: StepId, steps: Vec<StepId>) -> Result<Option<Region>, Error> {
        let rank = trace.values.get(made(trace, name)?)?.shape.len();
        let mut region = Region { name, rank, steps, operands: Vec::new() };
        let mut seen = HashSet::new();
        let mut any = false;
        for &id in &region.steps {
            for value in trace.steps.get(id)?.reads() {
                if !self.is_made_in(&region, value)? && seen.insert(value) {
                    any |= self.transposed(trace, &region, value)?.is_some();
                    region.operands.push(value);
                }
            }
        }
        Ok(any.then_some(region))
    }

    /// Returns whether a step of the region computes a value.
    pub(super) fn is_made_in(&self, region: &Region, value: TraceValue) -> Result<bool, Error> {
        match self.uses.maker(value)? {
            Some(maker) => self.is_in(region, maker),
            None => Ok(false),
        }
    }

    /// Returns whether a step belongs to a region.
    pub(super) fn is_in(&self, region: &Region, step: StepId) -> Result<bool, Error> {
        Ok(*self.names.get(step)? == Some(region.name))
    }

    /// Returns whether a value is known before a run.
    pub(super) fn is_constant(&self, value: TraceValue) -> Result<bool, Error> {
        self.constant.get(value).copied()
    }

    /// Returns the transpose of a step, if it is one other than the identity.
    pub(super) fn transpose(&self, step: StepId) -> Result<Option<&Transpose>, Error> {
        self.transposes.get(step).map(Option::as_ref)
    }

    /// Returns the transpose that computes an operand of a region, unless the operand of the transpose is computed in the
    /// region.
    pub(super) fn transposed(
        &self,
        trace: &Trace,
        region: &Region,
        operand: TraceValue,
    ) -> Result<Option<(StepId, &Transpose)>, Error> {
        let Some(maker) = self.uses.maker(operand)? else { return Ok(None) };
        match self.transpose(maker)? {
            Some(transpose)
                if trace.values.get(operand)?.shape.len() == region.rank
                    && !self.is_made_in(region, transpose.operand)? =>
            {
                Ok(Some((maker, transpose)))
            }
            _ => Ok(None),
        }
    }

    /// Returns whether all readers of a value are in a region.
    pub(super) fn is_only_for(&self, region: &Region, value: TraceValue) -> Result<bool, Error> {
        for &reader in self.uses.readers(value)? {
            if !self.is_in(region, reader)? {
                return Ok(false);
            }
        }
        Ok(!self.uses.is_returned(value)?)
    }

    /// Returns the transposes whose results a region reads, and the transposes that read its results.
    pub(super) fn border(&self, trace: &Trace, region: &Region) -> Result<Vec<StepId>, Error> {
        let mut border = Vec::new();
        for &operand in &region.operands {
            border.extend(self.transposed(trace, region, operand)?.map(|(id, _)| id));
        }
        for &id in &region.steps {
            for &reader in self.uses.readers(made(trace, id)?)? {
                if self.transpose(reader)?.is_some() {
                    border.push(reader);
                }
            }
        }
        Ok(border)
    }
}

/// Returns the result of a step of a region.
pub(super) fn made(trace: &Trace, step: StepId) -> Result<TraceValue, Error> {
    let first = trace.steps.get(step)?.outputs.first().copied();
    first.ok_or_else(|| Error::excluded("a step of a region to have a result"))
}

/// Returns, for each value, whether it is known before a run, or will be once the steps that depend only on constants run once.
fn constants(trace: &Trace) -> Result<Table<TraceValue, bool>, Error> {
    let mut constant = trace.constant_values()?;
    for step in trace.steps.entries() {
        let mut all = !step.inputs.is_empty() && step.symbolic.is_none();
        all &= matches!(step.operation, Operation::Row(_));
        for value in step.reads() {
            all &= *constant.get(value)?;
        }
        for value in step.outputs.iter().filter(|_| all) {
            constant.set(*value, true)?;
        }
    }
    Ok(constant)
}
