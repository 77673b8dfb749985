//! The list of instructions that a plan is: numbered slots, decoded parameters, last uses.
//!
//! Made from a trace by [`Plan::new`]; nothing rewrites it afterwards. Steps whose results nobody reads are
//! left out.

use crate::Error;
use crate::ext::HostKernel;
use crate::trace::{
    InputIndex, LastRead, Liveness, Operation, Step, StepId, StepOrigins, Table, Trace, TraceValue,
    ValueSource, held, indices,
};
use bb_ir::op::{Family, Param, Primitive};
use smallvec::SmallVec;

indices! {
    /// A slot of a plan.
    SlotId = "slot of the plan";
    /// A constant of a plan.
    PlanConstant = "constant of the plan";
}

/// Where an instruction finds an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operand {
    /// A slot that an earlier instruction filled.
    Slot(SlotId),
    /// An input of the plan.
    Input(InputIndex),
    /// A constant of the plan.
    Constant(PlanConstant),
    /// Left out.
    Absent,
}

/// What an instruction calls.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Callee {
    /// A primitive.
    Primitive(Primitive),
    /// An operation of an extension family, by its table index.
    Extension(Family, u16),
    /// A computation on host tensors.
    Host(&'static HostKernel),
}

/// One instruction.
#[derive(Debug)]
pub(crate) struct Instruction {
    pub(crate) callee: Callee,
    pub(crate) operation: Operation,
    pub(crate) params: Box<[Param<'static>]>,
    pub(crate) inputs: SmallVec<[Operand; 3]>,
    /// The slots of the results; `None` where nobody reads one.
    pub(crate) outputs: SmallVec<[Option<SlotId>; 1]>,
    /// The slots that hold nothing of use once the operands have been read.
    pub(crate) frees: SmallVec<[SlotId; 2]>,
    /// The nodes that this comes from.
    pub(crate) origins: StepOrigins,
    /// The step of the trace that this was.
    pub(crate) step: StepId,
}

/// A plan: instructions over slots.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) instructions: Vec<Instruction>,
    pub(crate) slots: usize,
    pub(crate) outputs: Vec<Operand>,
}

/// Says of each value of a trace whether it is known before the plan runs, as which constant.
pub(crate) type Constants = Table<TraceValue, Option<PlanConstant>>;

impl Plan {
    /// Assigns slots and last uses. `constants` names the values that the caller has folded; the steps that made
    /// them are left out.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if the trace refers to what does not exist.
    pub(crate) fn new(recorded: &Trace, constants: &Constants) -> Result<Plan, Error> {
        let is_open = |v: &TraceValue| constants.get(*v).is_ok_and(Option::is_none);
        let steps = recorded.steps.iter().rev();
        let steps = steps.map(|(id, step)| (id, step.outputs.iter().copied().filter(is_open), step.reads()));
        let (values, outputs) = (recorded.values.len(), recorded.outputs.iter().copied());
        let liveness = Liveness::backwards(values, recorded.steps.len(), outputs, steps)?;
        let mut slots = Slots { slot_of: Table::with(values, || None), free: Vec::new(), made: 0 };
        let mut instructions = Vec::with_capacity(recorded.steps.len());
        for (at, step) in recorded.steps.iter() {
            if !liveness.is_live(at)? {
                continue;
            }
            let mut inputs: SmallVec<[Operand; 3]> = SmallVec::new();
            for input in &step.inputs {
                inputs.push(match input {
                    Some(value) => slots.operand(recorded, constants, *value)?,
                    None => Operand::Absent,
                });
            }
            let mut frees: SmallVec<[SlotId; 2]> = SmallVec::new();
            for (value, operand) in step.inputs.iter().zip(&inputs) {
                if let (Some(value), Operand::Slot(slot)) = (value, operand)
                    && liveness.last(*value)? == LastRead::At(at)
                    && !frees.contains(slot)
                {
                    frees.push(*slot);
                }
            }
            slots.free.extend(frees.iter().rev());
            let mut outputs: SmallVec<[Option<SlotId>; 1]> = SmallVec::new();
            for value in &step.outputs {
                let read = liveness.is_read(*value)?;
                outputs.push(if read { Some(slots.fill(*value)?) } else { None });
            }
            instructions.push(Instruction {
                callee: callee(step),
                operation: step.operation,
                params: step.params.clone(),
                inputs,
                outputs,
                frees,
                origins: step.origins.clone(),
                step: at,
            });
        }
        let mut outputs = Vec::with_capacity(recorded.outputs.len());
        for value in &recorded.outputs {
            outputs.push(slots.operand(recorded, constants, *value)?);
        }
        Ok(Plan { instructions, slots: slots.made, outputs })
    }
}

/// The slots of a plan under construction.
struct Slots {
    slot_of: Table<TraceValue, Option<SlotId>>,
    /// The slots that can be used again.
    free: Vec<SlotId>,
    /// How many slots there are.
    made: usize,
}

impl Slots {
    /// Gives a value a slot.
    fn fill(&mut self, value: TraceValue) -> Result<SlotId, Error> {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.made += 1;
            crate::trace::TableIndex::at(self.made - 1)
        });
        self.slot_of.set(value, Some(slot))?;
        Ok(slot)
    }

    /// Finds where a value is.
    fn operand(&self, recorded: &Trace, constants: &Constants, value: TraceValue) -> Result<Operand, Error> {
        if let Some(constant) = constants.get(value)? {
            return Ok(Operand::Constant(*constant));
        }
        match recorded.values.get(value)?.source {
            ValueSource::Input(index) => Ok(Operand::Input(index)),
            _ => Ok(Operand::Slot(held(*self.slot_of.get(value)?, value)?)),
        }
    }
}

/// Decodes what a step calls.
pub(crate) fn callee(step: &Step) -> Callee {
    let spec = match step.operation {
        Operation::Host(body) => return Callee::Host(body),
        Operation::Row(spec) => spec,
    };
    match (spec.family, Primitive::from_index(spec.index)) {
        (Family::Primitive, Some(primitive)) => Callee::Primitive(primitive),
        (family, _) => Callee::Extension(family, spec.index),
    }
}
