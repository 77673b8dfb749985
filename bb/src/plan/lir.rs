//! The list of instructions that a plan is: numbered slots, decoded parameters, last uses.
//!
//! Made from a trace by [`Plan::new`]; nothing rewrites it afterwards. Steps whose results nobody reads are
//! left out.

use crate::ext::HostKernel;
use crate::trace::{Operation, Source, Step, Trace, ValueNo};
use bb_ir::op::{Family, Param, Primitive};
use smallvec::SmallVec;

/// Where an instruction finds an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operand {
    /// A slot that an earlier instruction filled.
    Slot(u32),
    /// An input of the plan.
    Input(u32),
    /// A constant of the plan.
    Constant(u32),
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
    pub(crate) outputs: SmallVec<[Option<u32>; 1]>,
    /// The slots that hold nothing of use once the operands have been read.
    pub(crate) frees: SmallVec<[u32; 2]>,
    /// The step of the trace that this was.
    pub(crate) step: u32,
}

/// A plan: instructions over slots.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) instructions: Vec<Instruction>,
    pub(crate) slots: usize,
    pub(crate) outputs: Vec<Operand>,
}

/// Says of each value of a trace whether it is known before the plan runs, as which constant.
pub(crate) type Constants = Vec<Option<u32>>;

impl Plan {
    /// Assigns slots and last uses. `constants` names the values that the caller has folded; the steps that made
    /// them are left out.
    pub(crate) fn new(recorded: &Trace, outputs: &[ValueNo], constants: &Constants) -> Plan {
        let values = recorded.values.len();
        let constant = |v: ValueNo| constants.get(v as usize).copied().flatten();
        // Backwards: which steps matter, and the last step that reads each value.
        let mut last: Vec<u32> = vec![NEVER; values];
        let mut keep = vec![false; recorded.steps.len()];
        for &output in outputs {
            mark(&mut last, output, ALWAYS);
        }
        for (at, step) in recorded.steps.iter().enumerate().rev() {
            let wanted = step.outputs.iter().any(|&v| at_of(&last, v) != NEVER && constant(v).is_none());
            if !wanted {
                continue;
            }
            if let Some(k) = keep.get_mut(at) {
                *k = true;
            }
            for &input in step.inputs.iter().flatten() {
                if at_of(&last, input) == NEVER {
                    mark(&mut last, input, at as u32);
                }
            }
        }
        // Forwards: a slot for each result, reused after its last reader.
        let mut slot_of: Vec<u32> = vec![NEVER; values];
        let mut free: Vec<u32> = Vec::new();
        let mut slots = 0u32;
        let operand = |slot_of: &[u32], v: ValueNo| match constant(v) {
            Some(c) => Operand::Constant(c),
            None => match recorded.values.get(v as usize).map(|value| value.source) {
                Some(Source::Input(i)) => Operand::Input(i),
                _ => Operand::Slot(at_of(slot_of, v)),
            },
        };
        let mut instructions = Vec::with_capacity(recorded.steps.len());
        for (at, step) in recorded.steps.iter().enumerate().filter(|(at, _)| keep.get(*at) == Some(&true)) {
            let inputs =
                step.inputs.iter().map(|v| v.map_or(Operand::Absent, |v| operand(&slot_of, v))).collect();
            let mut frees: SmallVec<[u32; 2]> = SmallVec::new();
            for &v in step.inputs.iter().flatten() {
                let slot = at_of(&slot_of, v);
                if at_of(&last, v) == at as u32 && slot != NEVER && !frees.contains(&slot) {
                    frees.push(slot);
                }
            }
            free.extend(frees.iter().rev());
            let outputs = step
                .outputs
                .iter()
                .map(|&v| {
                    if at_of(&last, v) == NEVER {
                        return None;
                    }
                    let slot = free.pop().unwrap_or_else(|| {
                        slots += 1;
                        slots - 1
                    });
                    mark(&mut slot_of, v, slot);
                    Some(slot)
                })
                .collect();
            instructions.push(Instruction {
                callee: callee(step),
                operation: step.operation,
                params: step.params.clone(),
                inputs,
                outputs,
                frees,
                step: at as u32,
            });
        }
        let outputs = outputs.iter().map(|&v| operand(&slot_of, v)).collect();
        Plan { instructions, slots: slots as usize, outputs }
    }
}

/// No step reads the value, or it has no slot.
const NEVER: u32 = u32::MAX;
/// The plan returns the value.
const ALWAYS: u32 = u32::MAX - 1;

fn at_of(table: &[u32], value: ValueNo) -> u32 {
    table.get(value as usize).copied().unwrap_or(NEVER)
}

fn mark(table: &mut [u32], value: ValueNo, to: u32) {
    if let Some(place) = table.get_mut(value as usize) {
        *place = to;
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
