//! Kernels that a backend prepared for steps of plans.
//!
//! The plans of a program share kernels, like constants: plans own them, and the pool has weak references. A kernel serves
//! every step that calls the same operation with the same constants and has the same properties that were queried when the
//! kernel was prepared.

use super::constants::{Constants, SourceId};
use super::target::{MadeKernel, Target};
use crate::contract::{AskedOperand, contained_in};
use crate::ext::{ErasedError, ErasedTensor};
use crate::trace::{Operation, Table, indices};
use crate::{DataType, Error, PrepareStep, Tensor};
use bb_ir::Shape;
use bb_ir::op::Param;
use smallvec::SmallVec;
use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

indices! {
    /// A kernel of a plan.
    pub(crate) PlanKernel = "kernel of the plan";
}

/// A kernel that plans own.
pub(crate) struct HeldKernel {
    /// The kernel, in the type that its [`Target`] expects.
    pub(crate) kernel: Box<dyn Any + Send + Sync>,
    /// The bytes that it takes, without the constants that it reads.
    pub(crate) bytes: usize,
    /// For each constant operand, whether runs must pass it to the kernel.
    reads: SmallVec<[bool; 4]>,
    /// The element types and shapes of the constants.
    constants: SmallVec<[Option<(DataType, Shape)>; 4]>,
}

impl HeldKernel {
    fn new(made: MadeKernel, step: &PrepareStep<'_, ErasedTensor>) -> HeldKernel {
        let constant = |operand| {
            let x: &ErasedTensor = step.constant(operand)?;
            Some((x.dtype(), Shape::from_slice(x.shape())))
        };
        let constants = (0..step.operands().len()).map(constant).collect();
        HeldKernel { kernel: made.kernel, bytes: made.bytes, reads: made.reads, constants }
    }

    /// Returns the element type and the shape of a constant operand.
    pub(crate) fn constant(&self, operand: usize) -> Option<(DataType, &[usize])> {
        self.constants.get(operand)?.as_ref().map(|(dtype, shape)| (*dtype, shape.as_slice()))
    }

    /// Returns whether runs must pass a constant operand to the kernel.
    #[inline]
    pub(crate) fn reads(&self, operand: usize) -> bool {
        self.reads.get(operand) == Some(&true)
    }
}

/// The kernels of a plan.
#[derive(Default)]
pub(crate) struct Kernels {
    /// The kernel of each instruction; empty if no instruction has one.
    of: Vec<Option<PlanKernel>>,
    held: Table<PlanKernel, Arc<HeldKernel>>,
    /// The kernels by address.
    known: HashMap<usize, PlanKernel>,
}

impl Kernels {
    /// Returns the index of an instruction's kernel.
    #[inline]
    pub(crate) fn number(&self, instruction: usize) -> Option<PlanKernel> {
        self.of.get(instruction).copied().flatten()
    }

    /// Returns the kernel with an index.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if the kernel does not exist.
    #[inline]
    pub(crate) fn get(&self, kernel: PlanKernel) -> Result<&HeldKernel, Error> {
        Ok(self.held.get(kernel)?)
    }

    /// Returns the kernel of an instruction.
    ///
    /// # Errors
    ///
    /// [`Error::Internal`] if the kernel does not exist.
    pub(crate) fn of(&self, instruction: usize) -> Result<Option<&HeldKernel>, Error> {
        self.number(instruction).map(|kernel| self.get(kernel)).transpose()
    }

    /// Adds the kernel of an instruction. Instructions that run the same kernel share it.
    pub(super) fn add(&mut self, instruction: usize, kernel: Arc<HeldKernel>) {
        let address = Arc::as_ptr(&kernel).addr();
        let index = *self.known.entry(address).or_insert_with(|| self.held.push(kernel));
        if self.of.len() <= instruction {
            self.of.resize(instruction + 1, None);
        }
        if let Some(place) = self.of.get_mut(instruction) {
            *place = Some(index);
        }
    }

    /// Iterates over the distinct kernels.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Arc<HeldKernel>> {
        self.held.entries()
    }
}

/// The constants and kernels of a plan on its backend.
pub(crate) struct Material {
    pub(crate) constants: Constants,
    pub(crate) kernels: Kernels,
}

/// An operation and the sources of its operands, `None` for an operand that differs between runs.
pub(super) type KernelKey = (Operation, SmallVec<[Option<SourceId>; 4]>);

/// A weak reference to a kernel, with the parameters and operand properties of the steps that it serves.
struct Pooled {
    params: Box<[Param<'static>]>,
    asked: SmallVec<[Option<AskedOperand>; 4]>,
    kernel: Weak<HeldKernel>,
}

/// The kernels of a program. The kernels of a key are sorted by age, oldest first.
#[derive(Default)]
pub(super) struct KernelPool(HashMap<KernelKey, Vec<Pooled>>);

/// The maximum number of kernels of one key that are compared with a step, the latest first. If only an older kernel would
/// serve the step, a new kernel is prepared.
const MOST_COMPARED: usize = 256;

impl KernelPool {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Finds a kernel that serves a step. The constants of the step need not be uploaded, because the key identifies them.
    pub(super) fn find(
        &self,
        key: &KernelKey,
        step: &PrepareStep<'_, ErasedTensor>,
    ) -> Option<Arc<HeldKernel>> {
        let serves = |pooled: &&Pooled| *pooled.params == *step.params() && step.agrees(&pooled.asked);
        let mut pooled = self.0.get(key)?.iter().rev().take(MOST_COMPARED).filter(serves);
        pooled.find_map(|pooled| pooled.kernel.upgrade())
    }

    /// Lets the backend prepare a kernel, and stores a weak reference to it.
    ///
    /// # Errors
    ///
    /// The backend's own errors.
    pub(super) fn prepare(
        &mut self,
        target: &dyn Target,
        key: KernelKey,
        step: &PrepareStep<'_, ErasedTensor>,
    ) -> Result<Option<Arc<HeldKernel>>, ErasedError> {
        let Some(mut made) = contained_in(|| Some(step.spec().method), || target.prepare(step))? else {
            return Ok(None);
        };
        let asked = std::mem::take(&mut made.asked);
        let held = Arc::new(HeldKernel::new(made, step));
        let of_key = self.0.entry(key).or_default();
        // Dead kernels are removed before the list grows, so that each kernel is visited only a few times.
        if of_key.len() == of_key.capacity() {
            of_key.retain(|pooled| pooled.kernel.strong_count() > 0);
        }
        of_key.push(Pooled { params: step.params().into(), asked, kernel: Arc::downgrade(&held) });
        Ok(Some(held))
    }

    /// Removes the kernels that no plan owns, and returns the sources of the others.
    pub(super) fn forget(&mut self) -> impl Iterator<Item = SourceId> {
        self.0.retain(|_, of_key| {
            of_key.retain(|pooled| pooled.kernel.strong_count() > 0);
            !of_key.is_empty()
        });
        self.0.keys().flat_map(|(_, operands)| operands.iter().flatten().copied())
    }
}
