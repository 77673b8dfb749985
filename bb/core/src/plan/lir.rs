//! The instructions of a plan: numbered slots, decoded parameters, and last uses of operands.
//!
//! [`Plan::new`] builds the plan from a trace. Nothing rewrites the plan afterwards. Steps whose results are not read are
//! omitted.

use super::guard::SymbolPlaces;
use super::params::RuntimeParams;
use crate::ext::HostKernel;
use crate::trace::{
    InputIndex, LastRead, Liveness, Operation, OriginId, Step, StepId, StepOrigins, Table, TableIndex, Trace,
    TraceValue, ValueSource, held, indices,
};
use crate::{Error, RunOptions};
use bb_ir::op::{OpSpec, Param, Primitive};
use smallvec::SmallVec;
use std::collections::HashMap;

indices! {
    /// A slot of a plan.
    pub(crate) SlotId = "slot of the plan";
    /// A constant of a plan.
    pub(crate) PlanConstant = "constant of the plan";
}

/// The location of an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operand {
    /// A slot that an earlier instruction filled.
    Slot(SlotId),
    /// An input of the plan.
    Input(InputIndex),
    /// A constant of the plan.
    Constant(PlanConstant),
    /// The operand is omitted.
    Absent,
}

/// The target of an instruction's call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Callee {
    /// A primitive.
    Primitive(Primitive),
    /// An operation of an extension family.
    Extension(&'static OpSpec),
    /// A computation on host tensors.
    Host(&'static HostKernel),
}

/// One instruction.
#[derive(Debug)]
pub(crate) struct Instruction {
    pub(crate) callee: Callee,
    pub(crate) operation: Operation,
    pub(crate) params: Box<[Param<'static>]>,
    /// The parameters that depend on the extents of inputs.
    pub(crate) symbolic: Option<Box<RuntimeParams>>,
    pub(crate) inputs: SmallVec<[Operand; 3]>,
    /// The slots of the results; `None` for a result that is not read.
    pub(crate) outputs: SmallVec<[Option<SlotId>; 1]>,
    /// The slots that are free after the operands have been read.
    pub(crate) frees: SmallVec<[SlotId; 2]>,
    /// For each operand, whether this instruction is the last one that reads the operand, and reads it only once.
    pub(crate) last_uses: SmallVec<[bool; 4]>,
    /// The nodes that the instruction comes from.
    pub(crate) origins: StepOrigins,
    /// The step of the trace that the instruction was built from.
    pub(crate) step: StepId,
    /// Whether each node of this instruction has more instructions after this one.
    pub(crate) is_inside: bool,
}

impl Instruction {
    /// Returns whether this instruction is the last one that reads the operand at an index, and no other operand is in the same
    /// slot.
    #[inline]
    pub(crate) fn is_last_use(&self, position: usize) -> bool {
        self.last_uses.get(position) == Some(&true)
    }
}

/// A plan: instructions over slots.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) instructions: Vec<Instruction>,
    pub(crate) slots: usize,
    pub(crate) outputs: Vec<Operand>,
    /// The constants, as values of the trace.
    pub(crate) constants: Table<PlanConstant, TraceValue>,
    /// The total bytes of all results, if they are equal in all runs.
    pub(crate) bytes: Option<usize>,
}

impl Plan {
    /// Builds the instructions of the steps that run in each run, and assigns slots and last uses to them. If `fixed`, the
    /// extents of inputs are equal in all runs.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if the trace refers to a step or value that does not exist.
    pub(crate) fn new(trace: &Trace, fixed: bool) -> Result<Plan, Error> {
        let liveness = Liveness::of_runs(trace)?;
        let mut places = ValueLocations::new(trace)?;
        let mut instructions = Vec::with_capacity(trace.steps.len());
        let mut bytes = fixed.then_some(0usize);
        let symbols = SymbolPlaces::new(&trace.symbols);
        let mut last_of: HashMap<OriginId, StepId> = HashMap::new();
        for (at, step) in trace.steps.iter() {
            last_of.extend(step.origins.iter().map(|origin| (*origin, at)));
        }
        // For each slot, the instruction that read it last, and the number of reads by that instruction.
        let mut reads: Table<SlotId, (Option<StepId>, usize)> = Table::default();
        for (at, step) in trace.steps.iter() {
            RunOptions::check_current()?;
            if !liveness.is_live(at)? {
                continue;
            }
            let mut inputs: SmallVec<[Operand; 3]> = SmallVec::new();
            for input in &step.inputs {
                inputs.push(match input {
                    Some(value) => places.operand(trace, *value)?,
                    None => Operand::Absent,
                });
            }
            let mut frees: SmallVec<[SlotId; 2]> = SmallVec::new();
            for (value, operand) in step.inputs.iter().zip(&inputs) {
                let (Some(value), Operand::Slot(slot)) = (value, operand) else { continue };
                let (last, count) = reads.get_mut(*slot)?;
                *count = if *last == Some(at) { *count + 1 } else { 1 };
                *last = Some(at);
                if *count == 1 && liveness.last(*value)? == LastRead::At(at) {
                    frees.push(*slot);
                }
            }
            let mut last_uses: SmallVec<[bool; 4]> = SmallVec::new();
            for (value, operand) in step.inputs.iter().zip(&inputs) {
                last_uses.push(match (value, operand) {
                    (Some(value), Operand::Slot(slot)) => {
                        reads.get(*slot)?.1 == 1 && liveness.last(*value)? == LastRead::At(at)
                    }
                    _ => false,
                });
            }
            places.free.extend(frees.iter().rev());
            let mut outputs: SmallVec<[Option<SlotId>; 1]> = SmallVec::new();
            for value in &step.outputs {
                let read = liveness.is_read(*value)?;
                outputs.push(if read { Some(places.fill(*value)?) } else { None });
                let made = trace.values.get(*value)?.bytes();
                bytes = bytes.and_then(|all| all.checked_add(made));
            }
            while reads.len() < places.slots {
                reads.push((None, 0));
            }
            instructions.push(Instruction {
                callee: callee(step),
                operation: step.operation,
                params: step.params.clone(),
                symbolic: match &step.symbolic {
                    Some(params) => Some(Box::new(RuntimeParams::new(params, &symbols)?)),
                    None => None,
                },
                inputs,
                outputs,
                frees,
                last_uses,
                origins: step.origins.clone(),
                step: at,
                is_inside: step
                    .origins
                    .iter()
                    .all(|origin| last_of.get(origin).is_some_and(|&last| last > at)),
            });
        }
        let mut outputs = Vec::with_capacity(trace.outputs.len());
        for value in &trace.outputs {
            outputs.push(places.operand(trace, *value)?);
        }
        let ValueLocations { slots, constants, .. } = places;
        Ok(Plan { instructions, slots, outputs, constants, bytes })
    }
}

/// The locations of values while a plan is built.
struct ValueLocations {
    slot_of: Table<TraceValue, Option<SlotId>>,
    /// The free slots.
    free: Vec<SlotId>,
    /// The number of slots.
    slots: usize,
    /// The values that are known before a run.
    is_constant: Table<TraceValue, bool>,
    constant_of: Table<TraceValue, Option<PlanConstant>>,
    constants: Table<PlanConstant, TraceValue>,
}

impl ValueLocations {
    fn new(trace: &Trace) -> Result<ValueLocations, Error> {
        let values = trace.values.len();
        Ok(ValueLocations {
            slot_of: Table::with(values, || None),
            free: Vec::new(),
            slots: 0,
            is_constant: trace.constant_values()?,
            constant_of: Table::with(values, || None),
            constants: Table::default(),
        })
    }

    /// Assigns a slot to a value.
    fn fill(&mut self, value: TraceValue) -> Result<SlotId, Error> {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots += 1;
            SlotId::at(self.slots - 1)
        });
        self.slot_of.set(value, Some(slot))?;
        Ok(slot)
    }

    /// Finds the location of a value.
    fn operand(&mut self, trace: &Trace, value: TraceValue) -> Result<Operand, Error> {
        if *self.is_constant.get(value)? {
            let known = *self.constant_of.get(value)?;
            let constant = known.unwrap_or_else(|| self.constants.push(value));
            self.constant_of.set(value, Some(constant))?;
            return Ok(Operand::Constant(constant));
        }
        match trace.values.get(value)?.source {
            ValueSource::Input(index) => Ok(Operand::Input(index)),
            _ => Ok(Operand::Slot(held(*self.slot_of.get(value)?, value)?)),
        }
    }
}

/// Returns the target of a step's call.
pub(crate) fn callee(step: &Step) -> Callee {
    match (step.operation, step.operation.primitive()) {
        (Operation::Host(body), _) => Callee::Host(body),
        (Operation::Row(_), Some(primitive)) => Callee::Primitive(primitive),
        (Operation::Row(spec), None) => Callee::Extension(spec),
    }
}
