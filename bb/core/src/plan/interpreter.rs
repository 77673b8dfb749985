//! Runs a plan: a loop over instructions, without names, hashes or protobuf.

use super::claims::Claims;
use super::constants::call;
use super::failure::{Failure, Where};
use super::kernels::{HeldKernel, Material, PlanKernel};
use super::lir::{Callee, Instruction, Operand, Plan, PlanConstant, SlotId};
use super::origin::Origins;
use super::run_state::{Ledger, RunState};
use super::watch::{Called, Site, Sites, Watch, type_of};
use crate::contract::{contained_in, inside};
use crate::ext::{ErasedTensor, FamilyTable, foreign, host};
use crate::trace::{Table, TableIndex, held};
use crate::{Backend, Error, Kernel, KernelOperand, KernelOperands, Outputs, Tensor};
use bb_ir::TensorData;
use bb_ir::graph::Graph;
use bb_ir::op::Param;
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The results that later instructions will read.
type Slots<T> = Table<SlotId, Option<T>>;

/// A kernel of the type `Self`, on a backend `B`.
pub(crate) trait RunKernel<B: Backend + ?Sized> {
    /// Runs the kernel: [`Kernel::run`].
    fn run_kernel(
        &self,
        on: &B,
        operands: &mut KernelOperands<'_, B::Tensor>,
    ) -> Result<Outputs<B::Tensor>, B::Error>;
}

impl<B: Backend + ?Sized> RunKernel<B> for dyn Kernel<B> {
    #[inline]
    fn run_kernel(
        &self,
        on: &B,
        operands: &mut KernelOperands<'_, B::Tensor>,
    ) -> Result<Outputs<B::Tensor>, B::Error> {
        self.run(on, operands)
    }
}

/// The kernel type of plans without prepared kernels; it has no values.
pub(crate) enum Unprepared {}

impl<B: Backend + ?Sized> RunKernel<B> for Unprepared {
    fn run_kernel(
        &self,
        _on: &B,
        _operands: &mut KernelOperands<'_, B::Tensor>,
    ) -> Result<Outputs<B::Tensor>, B::Error> {
        match *self {}
    }
}

/// A plan with its constants and kernels on a backend with tensors `T` and kernels `K`.
pub(crate) struct Prepared<T, K: ?Sized> {
    plan: Plan,
    constants: Table<PlanConstant, Option<T>>,
    kernels: Table<PlanKernel, Arc<K>>,
    /// The nodes that the instructions come from.
    origins: Origins,
    /// The known types of the results.
    claims: Claims,
    /// The profiler's description of the instructions, computed in the first profiled run.
    sites: OnceLock<Arc<Sites>>,
    /// Tables of empty slots that later runs reuse, at most one for each run that was active at the same time.
    spare: Mutex<Vec<Slots<T>>>,
}

/// The context of a run.
struct On<'a, B: Backend + ?Sized> {
    backend: &'a B,
    natives: &'a [FamilyTable<B>],
    /// The constants and kernels that the plan was built with.
    material: &'a Material,
}

/// The results of a plan. Up to four of them need no allocation.
pub(crate) type PlanOutputs<T> = SmallVec<[T; 4]>;

impl<T: Tensor, K: ?Sized + 'static> Prepared<T, K> {
    /// Combines a plan with its constants and kernels; `tensor` converts an erased tensor to a `T`.
    ///
    /// # Errors
    ///
    /// [`Error::Operand`] if a constant is not a `T`; [`Error::Internal`] if a kernel is not a `K`.
    pub(super) fn new(
        plan: Plan,
        material: &Material,
        origins: Origins,
        claims: Claims,
        tensor: impl Fn(&ErasedTensor) -> Option<T>,
    ) -> Result<Prepared<T, K>, Error> {
        let mut constants = Table::default();
        for constant in material.constants.entries() {
            constants.push(match constant {
                Some(held) => Some(tensor(&held.tensor).ok_or_else(|| foreign("constant", 0))?),
                None => None,
            });
        }
        let mut kernels = Table::default();
        for held in material.kernels.entries() {
            let kernel = held.kernel.downcast_ref::<Arc<K>>();
            kernels.push(kernel.ok_or_else(|| Error::excluded("a kernel of the plan's backend"))?.clone());
        }
        let (sites, spare) = (OnceLock::new(), Mutex::default());
        Ok(Prepared { plan, constants, kernels, origins, claims, sites, spare })
    }

    /// Runs the plan, which was built for this graph.
    ///
    /// Before the result of an instruction is stored, the slots that no later instruction reads are emptied.
    #[expect(clippy::too_many_arguments, reason = "all that a run needs")]
    pub(crate) fn run<B, W: Watch>(
        &self,
        on: &B,
        natives: &[FamilyTable<B>],
        material: &Material,
        inputs: &[&T],
        graph: &Graph,
        state: &mut RunState,
        watch: &mut W,
    ) -> Result<PlanOutputs<T>, Failure<B::Error>>
    where
        B: Backend<Tensor = T> + ?Sized,
        K: RunKernel<B>,
    {
        let on = &On { backend: on, natives, material };
        let mut slots = self.slots();
        // If the results of all instructions fit into the budget together, their bytes need not be counted.
        let counted = !self.plan.bytes.is_some_and(|bytes| state.ledger.has_room(bytes));
        let mut sizes: Option<Table<SlotId, usize>> = counted.then(|| Table::with(self.plan.slots, || 0));
        let first = watch.plan(|| self.sites(graph));
        let first = first.map_err(|error| Failure { at: Where::Graph, error: error.into() })?;
        let running = Cell::new(0);
        let op = || self.plan.instructions.get(running.get()).map(|running| running.operation.name());
        let ran: Result<(), B::Error> = contained_in(op, || {
            for (at, instruction) in self.plan.instructions.iter().enumerate() {
                running.set(at);
                let results = self.execute(on, inputs, at, instruction, &mut slots, first, state, watch)?;
                if !self.claims.holds_one(at, &results) {
                    self.claims.check(at, instruction, &results, |spec| on.backend.maker_of(spec))?;
                }
                self.store(instruction, results, &mut slots, sizes.as_mut(), &mut state.ledger)?;
            }
            Ok(())
        });
        ran.map_err(|error| Failure { at: self.node_of(running.get()), error })?;
        let mut outputs = PlanOutputs::with_capacity(self.plan.outputs.len());
        for &operand in &self.plan.outputs {
            let output = self.operand(&slots, inputs, operand);
            let output = output.and_then(|x| x.ok_or_else(|| Error::excluded("a plan's output to be given")));
            outputs.push(output.map_err(|error| Failure { at: Where::Graph, error: error.into() })?.clone());
        }
        self.keep(slots);
        Ok(outputs)
    }

    /// Returns a table of empty slots, reused if possible.
    fn slots(&self) -> Slots<T> {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        spare.unwrap_or_else(|| Table::with(self.plan.slots, || None))
    }

    /// Empties the slots, which may still contain outputs, and keeps the table for reuse. The table of a failed run is dropped
    /// instead.
    fn keep(&self, mut slots: Slots<T>) {
        slots.iter_mut().for_each(|(_, slot)| *slot = None);
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).push(slots);
    }

    /// Runs one instruction.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "a part of the loop in `run`, apart for its `?`")]
    fn execute<B, W: Watch>(
        &self,
        on: &On<'_, B>,
        inputs: &[&T],
        at: usize,
        instruction: &Instruction,
        slots: &mut Slots<T>,
        first: usize,
        state: &mut RunState,
        watch: &mut W,
    ) -> Result<Outputs<T>, B::Error>
    where
        B: Backend<Tensor = T> + ?Sized,
        K: RunKernel<B>,
    {
        state.go_on()?;
        if let Some(kernel) = on.material.kernels.number(at) {
            return self.execute_prepared(on, kernel, inputs, instruction, slots, first + at, watch);
        }
        let mut operands: SmallVec<[Option<&T>; 4]> = SmallVec::new();
        for &operand in &instruction.inputs {
            operands.push(self.operand(slots, inputs, operand)?);
        }
        let seen = watch.operands(operands.iter().map(|x| x.map(type_of)));
        let since = watch.mark();
        let results = match (&instruction.symbolic, instruction.callee) {
            (None, Callee::Host(body)) => {
                let check = |results: &[TensorData]| state.ledger.host(results);
                host::run_checked(on.backend, body, &operands, &instruction.params, check)?
            }
            (symbolic, callee) => {
                let made;
                let params: &[Param<'_>] = match symbolic {
                    None => &instruction.params,
                    Some(symbolic) => {
                        made = symbolic.of(&instruction.params, inputs)?;
                        &made
                    }
                };
                let call = || call(on.backend, on.natives, callee, &operands, params);
                if instruction.is_inside { inside(call)? } else { call()? }
            }
        };
        watch.instruction(since, first + at, seen, results.iter());
        Ok(results)
    }

    /// Runs the kernel that was prepared for an instruction. Operands without later readers are moved to the kernel.
    #[expect(clippy::too_many_arguments, reason = "a part of `execute`")]
    fn execute_prepared<B, W: Watch>(
        &self,
        on: &On<'_, B>,
        kernel: PlanKernel,
        inputs: &[&T],
        instruction: &Instruction,
        slots: &mut Slots<T>,
        site: usize,
        watch: &mut W,
    ) -> Result<Outputs<T>, B::Error>
    where
        B: Backend<Tensor = T> + ?Sized,
        K: RunKernel<B>,
    {
        let (kernel, held): (&K, &HeldKernel) = (self.kernels.get(kernel)?, on.material.kernels.get(kernel)?);
        let mut owned: SmallVec<[Option<T>; 4]> = SmallVec::new();
        for (position, &operand) in instruction.inputs.iter().enumerate() {
            owned.push(match operand {
                Operand::Slot(slot) if instruction.is_last_use(position) => slots.get_mut(slot)?.take(),
                _ => None,
            });
        }
        let mut operands: SmallVec<[KernelOperand<'_, T>; 4]> = SmallVec::new();
        for (position, (&operand, owned)) in instruction.inputs.iter().zip(owned).enumerate() {
            let released = matches!(operand, Operand::Constant(_)) && !held.reads(position);
            operands.push(match owned {
                Some(x) => KernelOperand::Owned(x),
                None if released => KernelOperand::Absent,
                None => {
                    self.operand(slots, inputs, operand)?.map_or(KernelOperand::Absent, KernelOperand::Shared)
                }
            });
        }
        let mut operands = KernelOperands::from(operands);
        let seen = watch.operands(
            (0..operands.len())
                .map(|position| operands.get(position).map(type_of).or_else(|| held.constant(position))),
        );
        let since = watch.mark();
        let results = kernel.run_kernel(on.backend, &mut operands)?;
        watch.instruction(since, site, seen, results.iter());
        Ok(results)
    }

    /// Empties the slots that no later instruction reads, and stores the results. `sizes` has the bytes in each slot, if they
    /// are counted.
    #[inline]
    fn store(
        &self,
        instruction: &Instruction,
        results: Outputs<T>,
        slots: &mut Slots<T>,
        mut sizes: Option<&mut Table<SlotId, usize>>,
        ledger: &mut Ledger,
    ) -> Result<(), Error> {
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
        slots: &'a Slots<T>,
        inputs: &[&'a T],
        operand: Operand,
    ) -> Result<Option<&'a T>, Error> {
        Ok(match operand {
            Operand::Slot(slot) => Some(held(slots.get(slot)?.as_ref(), slot)?),
            Operand::Input(index) => Some(held(inputs.get(index.position()).copied(), index)?),
            Operand::Constant(constant) => Some(held(self.constants.get(constant)?.as_ref(), constant)?),
            Operand::Absent => None,
        })
    }

    /// Finds the nodes that the instruction at an index comes from.
    #[cold]
    fn node_of(&self, at: usize) -> Where {
        let instruction = self.plan.instructions.get(at);
        Where::of(&self.origins, instruction.map(|instruction| &instruction.origins))
    }

    /// Describes each instruction for the profiler.
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
