//! Runs a plan: a loop over instructions, without names, hashes or protobuf.

use super::constants::{Natives, PlanConstants, call};
use super::failure::{Failure, Where};
use super::lir::{Instruction, Operand, Plan};
use super::origin::Origins;
use super::segment::SegmentTrace;
use super::watch::{Called, Site, Sites, Watch};
use crate::{Backend, Error};
use bb_ir::graph::Graph;
use smallvec::SmallVec;
use std::sync::{Arc, OnceLock};

/// A plan with its constants on a backend.
pub(crate) struct Prepared<T> {
    plan: Plan,
    constants: Vec<T>,
    /// The nodes that the instructions come from.
    origins: Origins,
    /// What a profile tells of the instructions, from the first run on that has one.
    sites: OnceLock<Arc<Sites>>,
}

impl<T: crate::Tensor> Prepared<T> {
    /// Plans a trace whose constants have been folded.
    pub(crate) fn new(trace: &SegmentTrace, constants: PlanConstants<T>) -> Prepared<T> {
        let plan = Plan::new(&trace.recorded, &trace.outputs, &constants.of_value);
        Prepared {
            plan,
            constants: constants.tensors,
            origins: trace.origins.clone(),
            sites: OnceLock::new(),
        }
    }

    /// Runs the plan, which was made of this graph.
    ///
    /// Each slot is emptied once its last reader has run, before the result is stored.
    pub(crate) fn run<B: Backend<Tensor = T> + ?Sized, N: Natives<B>, W: Watch>(
        &self,
        on: &B,
        natives: &N,
        inputs: &[&T],
        graph: &Graph,
        watch: &mut W,
    ) -> Result<Vec<T>, Failure<B::Error>> {
        let mut slots: Vec<Option<T>> = Vec::with_capacity(self.plan.slots);
        slots.resize_with(self.plan.slots, || None);
        let first = watch.plan(|| self.sites(graph));
        for (at, instruction) in self.plan.instructions.iter().enumerate() {
            let mut operands: SmallVec<[Option<&T>; 4]> = SmallVec::new();
            for &operand in &instruction.inputs {
                operands.push(self.operand(&slots, inputs, operand));
            }
            let since = watch.mark();
            let results = call(on, natives, instruction.callee, &operands, &instruction.params)
                .map_err(|error| Failure { at: self.node_of(instruction), error })?;
            watch.instruction(since, first + at, operands.iter().copied(), results.iter());
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
                    return Err(Failure { at: self.node_of(instruction), error: error.into() });
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
                    at: Where::Graph,
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

    fn node_of(&self, instruction: &Instruction) -> Where {
        self.origins.node_of(instruction.step).map_or(Where::Graph, Where::Node)
    }

    /// Says what each instruction is.
    fn sites(&self, graph: &Graph) -> Arc<Sites> {
        let site = |instruction: &Instruction| Site {
            node: self.origins.name_of(instruction.step, graph),
            last: None,
            called: Called::Operation(instruction.operation, instruction.params.clone()),
        };
        let sites = || Arc::new(Sites(self.plan.instructions.iter().map(site).collect()));
        self.sites.get_or_init(sites).clone()
    }
}
