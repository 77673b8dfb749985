//! Runs a plan: a loop over instructions, without names, hashes or protobuf.

use super::constants::{Natives, PlanConstants, call};
use super::lir::{Instruction, Operand, Plan};
use super::stage::StageTrace;
use crate::{Backend, Error};
use smallvec::SmallVec;

/// A plan with its constants on a backend.
pub(crate) struct Prepared<T> {
    plan: Plan,
    constants: Vec<T>,
    /// For each traced node, the number of steps before it.
    origins: Vec<(u32, u32)>,
}

/// A failure, and the node of the graph in which it happened.
pub(crate) struct Failure<E> {
    pub(crate) node: Option<usize>,
    pub(crate) error: E,
}

impl<T: crate::Tensor> Prepared<T> {
    /// Plans a trace whose constants have been folded.
    pub(crate) fn new(trace: &StageTrace, constants: PlanConstants<T>) -> Prepared<T> {
        let plan = Plan::new(&trace.recorded, &trace.outputs, &constants.of_value);
        Prepared { plan, constants: constants.tensors, origins: trace.origins.clone() }
    }

    /// Runs the plan.
    ///
    /// Each slot is emptied once its last reader has run, before the result is stored.
    pub(crate) fn run<B: Backend<Tensor = T> + ?Sized, N: Natives<B>>(
        &self,
        on: &B,
        natives: &N,
        inputs: &[&T],
    ) -> Result<Vec<T>, Failure<B::Error>> {
        let mut slots: Vec<Option<T>> = Vec::with_capacity(self.plan.slots);
        slots.resize_with(self.plan.slots, || None);
        for instruction in &self.plan.instructions {
            let mut operands: SmallVec<[Option<&T>; 4]> = SmallVec::new();
            for &operand in &instruction.inputs {
                operands.push(self.operand(&slots, inputs, operand));
            }
            let results = call(on, natives, instruction.callee, &operands, &instruction.params)
                .map_err(|error| Failure { node: self.node_of(instruction), error })?;
            drop(operands);
            for &slot in &instruction.frees {
                if let Some(place) = slots.get_mut(slot as usize) {
                    *place = None;
                }
            }
            let got = results.len();
            let mut results = results.into_iter();
            for slot in &instruction.outputs {
                let Some(result) = results.next() else {
                    let op = instruction.operation.name().to_owned();
                    let error = Error::Results { op, expected: instruction.outputs.len(), got };
                    return Err(Failure { node: self.node_of(instruction), error: error.into() });
                };
                if let Some(place) = slot.and_then(|s| slots.get_mut(s as usize)) {
                    *place = Some(result);
                }
            }
        }
        self.plan
            .outputs
            .iter()
            .map(|&operand| {
                self.operand(&slots, inputs, operand).cloned().ok_or_else(|| Failure {
                    node: None,
                    error: Error::Operand { op: "output", index: 0, expected: "a tensor" }.into(),
                })
            })
            .collect()
    }

    #[inline]
    fn operand<'a>(&'a self, slots: &'a [Option<T>], inputs: &[&'a T], operand: Operand) -> Option<&'a T> {
        match operand {
            Operand::Slot(i) => slots.get(i as usize).and_then(Option::as_ref),
            Operand::Input(i) => inputs.get(i as usize).copied(),
            Operand::Constant(i) => self.constants.get(i as usize),
            Operand::Absent => None,
        }
    }

    fn node_of(&self, instruction: &Instruction) -> Option<usize> {
        let after = self.origins.partition_point(|(first, _)| *first <= instruction.step);
        let (_, node) = after.checked_sub(1).and_then(|i| self.origins.get(i))?;
        Some(*node as usize)
    }
}
