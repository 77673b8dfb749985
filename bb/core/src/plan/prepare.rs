//! Lets the backend prepare the steps of a plan while the plan is built.
//!
//! Kernels that other plans own are looked up first, so that constants that were needed only to prepare these kernels are not
//! uploaded.

use super::constants::{Making, Operands, Pool, Readers, Sources};
use super::guard::Guards;
use super::kernels::{HeldKernel, KernelKey, Kernels};
use super::lir::{Instruction, Operand, Plan};
use super::segment::SegmentTrace;
use super::target::Target;
use crate::contract::KnownExtents;
use crate::ext::{ErasedError, ErasedTensor};
use crate::trace::{Operation, Table, TableIndex, TraceValue};
use crate::{Error, PrepareOperand, PrepareStep, RunOptions};
use bb_ir::op::OpSpec;
use smallvec::SmallVec;
use std::sync::Arc;

/// The kernels of a plan that is being built, and the number of reads of each constant.
pub(super) struct Preparing<'a> {
    plan: &'a Plan,
    traced: &'a SegmentTrace,
    guards: &'a Guards,
    /// Whether the plan is valid for only one combination of extents.
    fixed: bool,
    pub(super) readers: Readers,
    pub(super) kernels: Kernels,
}

impl<'a> Preparing<'a> {
    /// Finds the kernels that other plans own, and counts the reads of the constants.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if the plan refers to a step or value that does not exist.
    pub(super) fn new(
        pool: &Pool,
        traced: &'a SegmentTrace,
        plan: &'a Plan,
        guards: &'a Guards,
        sources: &Sources,
    ) -> Result<Self, Error> {
        let readers = Table::with(traced.recorded.values.len(), || 0);
        let (fixed, kernels) = (guards.are_fixed(), Kernels::default());
        let mut preparing = Preparing { plan, traced, guards, fixed, readers, kernels };
        for (at, instruction) in plan.instructions.iter().enumerate() {
            RunOptions::check_current()?;
            if let Some(kernel) = preparing.known(pool, instruction, sources)? {
                preparing.kernels.add(at, kernel);
            }
            let kernel = preparing.kernels.of(at)?;
            for (position, &operand) in instruction.inputs.iter().enumerate() {
                if let Operand::Constant(constant) = operand
                    && kernel.is_none_or(|kernel| kernel.reads(position))
                {
                    *preparing.readers.get_mut(*plan.constants.get(constant)?)? += 1;
                }
            }
        }
        for output in &plan.outputs {
            if let Operand::Constant(constant) = output {
                *preparing.readers.get_mut(*plan.constants.get(*constant)?)? += 1;
            }
        }
        Ok(preparing)
    }

    /// Finds a kernel of another plan that serves an instruction.
    fn known(
        &self,
        pool: &Pool,
        instruction: &Instruction,
        sources: &Sources,
    ) -> Result<Option<Arc<HeldKernel>>, Error> {
        let Some(spec) = preparable(instruction) else { return Ok(None) };
        let step = self.step(spec, instruction, |_| None)?;
        Ok(pool.kernels.find(&self.key(instruction, sources)?, &step))
    }

    /// Lets the backend prepare the remaining steps, and releases the constants that their kernels do not read.
    ///
    /// # Errors
    ///
    /// The backend's own errors, with the name of the node.
    pub(super) fn prepare(
        &mut self,
        target: &dyn Target,
        making: &mut Making<'_>,
    ) -> Result<(), ErasedError> {
        for (at, instruction) in self.plan.instructions.iter().enumerate() {
            RunOptions::check_current()?;
            if self.kernels.of(at)?.is_none()
                && let Some(kernel) = self.prepared(target, instruction, making)?
            {
                self.release(instruction, &kernel, making)?;
                self.kernels.add(at, kernel);
            }
        }
        Ok(())
    }

    /// Lets the backend prepare a step, unless it has prepared an equal step for the same plan.
    fn prepared(
        &self,
        target: &dyn Target,
        instruction: &Instruction,
        making: &mut Making<'_>,
    ) -> Result<Option<Arc<HeldKernel>>, ErasedError> {
        let Some(spec) = preparable(instruction) else { return Ok(None) };
        let on = target.backend();
        let mut constants: Operands = SmallVec::new();
        for &operand in &instruction.inputs {
            constants.push(match operand {
                Operand::Constant(at) => Some(making.constant(&on, *self.plan.constants.get(at)?)?),
                Operand::Slot(_) | Operand::Input(_) | Operand::Absent => None,
            });
        }
        let constant = |position: usize| Some(&constants.get(position)?.as_ref()?.tensor);
        let step = self.step(spec, instruction, constant)?;
        let key = self.key(instruction, &making.sources)?;
        let kernels = &mut making.pool.kernels;
        match kernels.find(&key, &step) {
            Some(kernel) => Ok(Some(kernel)),
            None => kernels.prepare(target, key, &step).map_err(|error| {
                self.traced.node_of(instruction.step).name(&self.traced.resolved.graph, error)
            }),
        }
    }

    /// Releases the constant operands of an instruction that its kernel does not read.
    fn release(
        &mut self,
        instruction: &Instruction,
        kernel: &HeldKernel,
        making: &mut Making<'_>,
    ) -> Result<(), Error> {
        for (position, &operand) in instruction.inputs.iter().enumerate() {
            if let Operand::Constant(constant) = operand
                && !kernel.reads(position)
            {
                making.release(*self.plan.constants.get(constant)?, &mut self.readers)?;
            }
        }
        Ok(())
    }

    /// Returns the key of the kernels that can serve an instruction.
    fn key(&self, instruction: &Instruction, sources: &Sources) -> Result<KernelKey, Error> {
        let mut operands = SmallVec::new();
        for &operand in &instruction.inputs {
            operands.push(match operand {
                Operand::Constant(constant) => Some(sources.get(*self.plan.constants.get(constant)?)?),
                Operand::Slot(_) | Operand::Input(_) | Operand::Absent => None,
            });
        }
        Ok((instruction.operation, operands))
    }

    /// Describes an instruction; `constant` returns the available constant at an operand index.
    fn step<'s>(
        &'s self,
        spec: &'static OpSpec,
        instruction: &'s Instruction,
        constant: impl Fn(usize) -> Option<&'s ErasedTensor>,
    ) -> Result<PrepareStep<'s, ErasedTensor>, Error> {
        let step = self.traced.recorded.steps.get(instruction.step)?;
        let mut operands: SmallVec<[Option<PrepareOperand<'s, ErasedTensor>>; 4]> = SmallVec::new();
        for (position, (&value, &operand)) in step.inputs.iter().zip(&instruction.inputs).enumerate() {
            operands.push(match (value, constant(position)) {
                (None, _) => None,
                (Some(_), Some(x)) => Some(PrepareOperand::of_constant(x)),
                (Some(value), None) => {
                    let dtype = self.traced.recorded.values.get(value)?.dtype;
                    let extents = self.extents(value, operand)?;
                    Some(PrepareOperand::varying(dtype, extents, instruction.is_last_use(position)))
                }
            });
        }
        Ok(PrepareStep::new(spec, &instruction.params, operands))
    }

    /// Returns the extents of an operand that are known to be equal in all runs of the plan.
    fn extents(&self, value: TraceValue, operand: Operand) -> Result<KnownExtents, Error> {
        let info = self.traced.recorded.values.get(value)?;
        let input = match operand {
            Operand::Input(index) => self.guards.inputs.get(index.position()),
            _ => None,
        };
        let all = self.fixed || matches!(operand, Operand::Constant(_));
        let is_known =
            |axis: usize| all || !info.varying.has(axis) || input.is_some_and(|guard| guard.fixes(axis));
        Ok(info.shape.iter().enumerate().map(|(axis, &extent)| is_known(axis).then_some(extent)).collect())
    }
}

/// Returns the operation of an instruction that a backend may prepare. The instruction must not run on the host, and its
/// parameters must not differ between runs.
fn preparable(instruction: &Instruction) -> Option<&'static OpSpec> {
    match (instruction.operation, &instruction.symbolic) {
        (Operation::Row(spec), None) => Some(spec),
        (Operation::Row(_) | Operation::Host(_), _) => None,
    }
}
