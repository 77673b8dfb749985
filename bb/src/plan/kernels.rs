//! Kernels that a backend prepared for steps of plans.
//!
//! Like constants, they are shared by the plans of a program, which hold them, while the pool only knows which there are. A
//! kernel serves every step that calls the same with the same constants and agrees in what its preparation asked.

use super::constants::{Constants, SourceId};
use crate::contract::AskedOperand;
use crate::trace::{Operation, Table, TableIndex, indices};
use crate::{Backend, DataType, Error, Kernel, PrepareStep, Tensor};
use bb_ir::Shape;
use bb_ir::op::Param;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

indices! {
    /// A kernel of a plan.
    PlanKernel = "kernel of the plan";
}

/// A kernel that plans hold.
pub(crate) struct HeldKernel<B: Backend + ?Sized> {
    pub(crate) kernel: Box<dyn Kernel<B>>,
    /// The bytes that it takes, the constants that it reads left out.
    pub(crate) bytes: usize,
    /// Of each operand, whether runs give it to the kernel if it is a constant.
    reads: SmallVec<[bool; 4]>,
    /// The element types and extents of the constants.
    constants: SmallVec<[Option<(DataType, Shape)>; 4]>,
}

impl<B: Backend + ?Sized> HeldKernel<B> {
    fn new(kernel: Box<dyn Kernel<B>>, step: &PrepareStep<'_, B::Tensor>) -> HeldKernel<B> {
        let operands = 0..step.operands().len();
        let reads = operands.clone().map(|operand| kernel.reads(operand)).collect();
        let constant = |operand| {
            let x: &B::Tensor = step.constant(operand)?;
            Some((x.dtype(), Shape::from_slice(x.shape())))
        };
        HeldKernel { bytes: kernel.bytes(), reads, constants: operands.map(constant).collect(), kernel }
    }

    /// Returns the element type and the extents of a constant operand.
    pub(crate) fn constant(&self, operand: usize) -> Option<(DataType, &[usize])> {
        self.constants.get(operand)?.as_ref().map(|(dtype, shape)| (*dtype, shape.as_slice()))
    }

    /// Tells whether runs give a constant operand to the kernel.
    #[inline]
    pub(crate) fn reads(&self, operand: usize) -> bool {
        self.reads.get(operand) == Some(&true)
    }
}

/// The kernels of a plan.
pub(crate) struct Kernels<B: Backend + ?Sized> {
    /// Of each instruction, its kernel; empty if no instruction has one.
    of: Vec<Option<PlanKernel>>,
    held: Table<PlanKernel, Arc<HeldKernel<B>>>,
}

impl<B: Backend + ?Sized> Default for Kernels<B> {
    fn default() -> Self {
        Kernels { of: Vec::new(), held: Table::default() }
    }
}

impl<B: Backend + ?Sized> Kernels<B> {
    /// Returns the kernel of an instruction.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if it is not there.
    #[inline]
    pub(crate) fn of(&self, instruction: usize) -> Result<Option<&HeldKernel<B>>, Error> {
        match self.of.get(instruction) {
            Some(Some(kernel)) => Ok(Some(self.held.get(*kernel)?)),
            Some(None) | None => Ok(None),
        }
    }

    /// Adds the kernel of an instruction. Instructions that run the same kernel share it.
    pub(super) fn add(&mut self, instruction: usize, kernel: Arc<HeldKernel<B>>) {
        let known = self.held.entries().position(|held| Arc::ptr_eq(held, &kernel));
        let index = known.map_or_else(|| self.held.push(kernel), PlanKernel::at);
        if self.of.len() <= instruction {
            self.of.resize(instruction + 1, None);
        }
        if let Some(place) = self.of.get_mut(instruction) {
            *place = Some(index);
        }
    }

    /// Iterates over the kernels, each once.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Arc<HeldKernel<B>>> {
        self.held.entries()
    }
}

/// What a plan needs of a backend to run: its constants there, and its kernels.
pub(crate) struct Material<B: Backend + ?Sized> {
    pub(crate) constants: Constants<B::Tensor>,
    pub(crate) kernels: Kernels<B>,
}

/// An operation and the sources of its operands, `None` where one differs between runs.
pub(super) type KernelKey = (Operation, SmallVec<[Option<SourceId>; 4]>);

/// A kernel, as far as a plan holds it, and which steps of its key it serves.
struct Pooled<B: Backend + ?Sized> {
    params: Box<[Param<'static>]>,
    asked: SmallVec<[Option<AskedOperand>; 4]>,
    kernel: Weak<HeldKernel<B>>,
}

/// The kernels of a program.
pub(super) struct KernelPool<B: Backend + ?Sized>(HashMap<KernelKey, Vec<Pooled<B>>>);

impl<B: Backend + ?Sized> Default for KernelPool<B> {
    fn default() -> Self {
        KernelPool(HashMap::new())
    }
}

impl<B: Backend + ?Sized> KernelPool<B> {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Finds a kernel that serves a step. The step need not have its constants: those of the key stand for them.
    pub(super) fn find(
        &self,
        key: &KernelKey,
        step: &PrepareStep<'_, B::Tensor>,
    ) -> Option<Arc<HeldKernel<B>>> {
        let serves = |pooled: &&Pooled<B>| *pooled.params == *step.params() && step.agrees(&pooled.asked);
        let mut pooled = self.0.get(key)?.iter().filter(serves);
        pooled.find_map(|pooled| pooled.kernel.upgrade())
    }

    /// Asks the backend for a kernel, and keeps it for as long as a plan holds it.
    ///
    /// # Errors
    ///
    /// The backend's own.
    pub(super) fn prepare(
        &mut self,
        on: &B,
        key: KernelKey,
        step: &PrepareStep<'_, B::Tensor>,
    ) -> Result<Option<Arc<HeldKernel<B>>>, B::Error> {
        let Some(kernel) = on.prepare(step)? else { return Ok(None) };
        let held = Arc::new(HeldKernel::new(kernel, step));
        let of_key = self.0.entry(key).or_default();
        of_key.retain(|pooled| pooled.kernel.strong_count() > 0);
        of_key.push(Pooled {
            params: step.params().into(),
            asked: step.asked(),
            kernel: Arc::downgrade(&held),
        });
        Ok(Some(held))
    }

    /// Forgets the kernels that no plan holds, and returns the sources of those that one holds.
    pub(super) fn forget(&mut self) -> impl Iterator<Item = SourceId> {
        self.0.retain(|_, of_key| {
            of_key.retain(|pooled| pooled.kernel.strong_count() > 0);
            !of_key.is_empty()
        });
        self.0.keys().flat_map(|(_, operands)| operands.iter().flatten().copied())
    }
}
