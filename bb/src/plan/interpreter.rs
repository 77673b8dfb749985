//! Runs a plan: a loop over instructions, without names, hashes or protobuf.

use super::constants::{Constants, Natives, call};
use super::failure::{Failure, Where};
use super::lir::{Callee, Instruction, Operand, Plan, SlotId};
use super::origin::Origins;
use super::run_state::{Ledger, RunState};
use super::watch::{Called, Site, Sites, Watch};
use crate::ext::host;
use crate::trace::{Table, TableIndex, held};
use crate::{Backend, Error, Outputs};
use bb_ir::TensorData;
use bb_ir::graph::Graph;
use smallvec::SmallVec;
use std::sync::{Arc, OnceLock};

/// A plan with its constants on a backend.
pub(crate) struct Prepared<T> {
    plan: Plan,
    constants: Constants<T>,
    /// The nodes that the instructions come from.
    origins: Origins,
    /// What a profile tells of the instructions, from the first run on that has one.
    sites: OnceLock<Arc<Sites>>,
}

impl<T> Prepared<T> {
    /// Puts a plan together with its constants on the backend.
    pub(crate) fn new(plan: Plan, constants: Constants<T>, origins: Origins) -> Prepared<T> {
        Prepared { plan, constants, origins, sites: OnceLock::new() }
    }

    /// Returns the constants.
    pub(crate) fn constants(&self) -> &Constants<T> {
        &self.constants
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
        state: &mut RunState,
        watch: &mut W,
    ) -> Result<Vec<T>, Failure<B::Error>>
    where
        T: crate::Tensor,
    {
        let mut slots: Table<SlotId, Option<T>> = Table::with(self.plan.slots, || None);
        // A plan whose results fit all together needs no counting.
        let counted = !self.plan.bytes.is_some_and(|bytes| state.ledger.has_room(bytes));
        let mut sizes: Option<Table<SlotId, usize>> = counted.then(|| Table::with(self.plan.slots, || 0));
        let first = watch.plan(|| self.sites(graph));
        let first = first.map_err(|error| Failure { at: Where::Graph, error: error.into() })?;
        for (at, instruction) in self.plan.instructions.iter().enumerate() {
            let ran = self.execute(on, natives, inputs, instruction, &slots, first + at, state, watch);
            let results = ran.map_err(|error| Failure { at: self.node_of(instruction), error })?;
            let stored = self.store(instruction, results, &mut slots, sizes.as_mut(), &mut state.ledger);
            stored.map_err(|error| Failure { at: self.node_of(instruction), error: error.into() })?;
        }
        let mut outputs = Vec::with_capacity(self.plan.outputs.len());
        for &operand in &self.plan.outputs {
            let output = self.operand(&slots, inputs, operand);
            let output = output.and_then(|x| x.ok_or_else(|| Error::excluded("a plan's output to be given")));
            outputs.push(output.map_err(|error| Failure { at: Where::Graph, error: error.into() })?.clone());
        }
        Ok(outputs)
    }

    /// Runs one instruction.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "a part of the loop in `run`, apart for its `?`")]
    fn execute<B: Backend<Tensor = T> + ?Sized, N: Natives<B>, W: Watch>(
        &self,
        on: &B,
        natives: &N,
        inputs: &[&T],
        instruction: &Instruction,
        slots: &Table<SlotId, Option<T>>,
        site: usize,
        state: &mut RunState,
        watch: &mut W,
    ) -> Result<Outputs<T>, B::Error>
    where
        T: crate::Tensor,
    {
        state.go_on()?;
        let mut operands: SmallVec<[Option<&T>; 4]> = SmallVec::new();
        for &operand in &instruction.inputs {
            operands.push(self.operand(slots, inputs, operand)?);
        }
        let since = watch.mark();
        let results = match (&instruction.symbolic, instruction.callee) {
            (None, Callee::Host(body)) => {
                let check = |results: &[TensorData]| state.ledger.host(results);
                host::run_checked(on, body, &operands, &instruction.params, check)?
            }
            (None, callee) => call(on, natives, callee, &operands, &instruction.params)?,
            (Some(symbolic), callee) => {
                let params = symbolic.of(&instruction.params, inputs)?;
                call(on, natives, callee, &operands, &params)?
            }
        };
        watch.instruction(since, site, operands.iter().copied(), results.iter());
        Ok(results)
    }

    /// Empties the slots that nothing reads any more, and stores the results. `sizes` has the bytes in each slot, if they are
    /// counted.
    #[inline]
    fn store(
        &self,
        instruction: &Instruction,
        results: Outputs<T>,
        slots: &mut Table<SlotId, Option<T>>,
        mut sizes: Option<&mut Table<SlotId, usize>>,
        ledger: &mut Ledger,
    ) -> Result<(), Error>
    where
        T: crate::Tensor,
    {
        let mut made: SmallVec<[usize; 1]> = SmallVec::new();
        if let Some(sizes) = sizes.as_deref_mut() {
            for result in &results {
                made.push(ledger.result(result)?);
            }
            for &slot in &instruction.frees {
                ledger.free(std::mem::take(sizes.get_mut(slot)?));
            }
        }
        for &slot in &instruction.frees {
            slots.set(slot, None)?;
        }
        let got = results.len();
        let mut results = results.into_iter();
        let mut made = made.into_iter();
        for slot in &instruction.outputs {
            let Some(result) = results.next() else {
                let op = instruction.operation.name().to_owned();
                return Err(Error::Results { op, expected: instruction.outputs.len(), got });
            };
            let bytes = made.next().unwrap_or(0);
            match (slot, sizes.as_deref_mut()) {
                (Some(slot), Some(sizes)) => sizes.set(*slot, bytes)?,
                (None, Some(_)) => ledger.free(bytes),
                (_, None) => {}
            }
            if let Some(slot) = slot {
                slots.set(*slot, Some(result))?;
            }
        }
        Ok(())
    }

    #[inline]
    fn operand<'a>(
        &'a self,
        slots: &'a Table<SlotId, Option<T>>,
        inputs: &[&'a T],
        operand: Operand,
    ) -> Result<Option<&'a T>, Error> {
        Ok(match operand {
            Operand::Slot(slot) => Some(held(slots.get(slot)?.as_ref(), slot)?),
            Operand::Input(index) => Some(held(inputs.get(index.position()).copied(), index)?),
            Operand::Constant(constant) => Some(&self.constants.get(constant)?.tensor),
            Operand::Absent => None,
        })
    }

    fn node_of(&self, instruction: &Instruction) -> Where {
        Where::of(&self.origins, [&instruction.origins])
    }

    /// Says what each instruction is.
    fn sites(&self, graph: &Graph) -> Result<Arc<Sites>, Error> {
        if let Some(sites) = self.sites.get() {
            return Ok(sites.clone());
        }
        let mut sites = Vec::with_capacity(self.plan.instructions.len());
        for instruction in &self.plan.instructions {
            sites.push(Site {
                nodes: self.origins.names_of([&instruction.origins], graph)?,
                called: Called::Operation(instruction.operation, instruction.params.clone()),
            });
        }
        Ok(self.sites.get_or_init(|| Arc::new(Sites(sites))).clone())
    }
}
