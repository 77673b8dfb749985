//! Prepared kernels: implementations of steps that a backend may build before a plan runs.
//!
//! Preparing a step packs its constants, chooses their layout and chooses an algorithm once; each run calls the
//! [`Kernel`] instead of the operation. This is optional: the default of [`Backend::prepare`] returns `None`.

use super::{Backend, Outputs, Tensor};
use crate::Error;
use bb_ir::DataType;
use bb_ir::op::{Family, OpSpec, Param, Primitive};
use smallvec::SmallVec;
use std::cell::Cell;

/// The extents of an operand before a run. An extent is `None` if it is not known.
pub(crate) type KnownExtents = SmallVec<[Option<usize>; 4]>;

/// A step of a plan before the plan runs: its operation and the known properties of its operands.
///
/// The plan records which properties of the operands [`Backend::prepare`] queries. A kernel is reused for steps of
/// other plans that call the same operation with the same constants and element types, and whose queried properties are
/// equal. So a kernel that packs a weight and never queries the extents of the other operand is built once for all
/// extents.
#[derive(Debug)]
pub struct PrepareStep<'a, T> {
    spec: &'static OpSpec,
    params: &'a [Param<'static>],
    operands: SmallVec<[Option<PrepareOperand<'a, T>>; 4]>,
}

impl<'a, T: Tensor> PrepareStep<'a, T> {
    /// Describes a step; an omitted operand is `None`. Plans and tests of backends call this.
    pub fn new(
        spec: &'static OpSpec,
        params: &'a [Param<'static>],
        operands: impl IntoIterator<Item = Option<PrepareOperand<'a, T>>>,
    ) -> Self {
        PrepareStep { spec, params, operands: operands.into_iter().collect() }
    }

    /// Returns the table row of the operation.
    pub fn spec(&self) -> &'static OpSpec {
        self.spec
    }

    /// Returns the primitive; `None` if the operation is not a primitive.
    pub fn primitive(&self) -> Option<Primitive> {
        if self.spec.family == Family::Primitive { Primitive::from_index(self.spec.index) } else { None }
    }

    /// Returns the parameters, in the order of the table row. They are the same in all runs.
    pub fn params(&self) -> &'a [Param<'static>] {
        self.params
    }

    /// Returns an operand; `None` if it is omitted.
    pub fn operand(&self, index: usize) -> Option<&PrepareOperand<'a, T>> {
        self.operands.get(index)?.as_ref()
    }

    /// Returns an operand that is the same in all runs; `None` if it is omitted or differs between runs.
    pub fn constant(&self, index: usize) -> Option<&'a T> {
        self.operand(index)?.constant()
    }

    /// Iterates over the operands.
    pub fn operands(&self) -> impl ExactSizeIterator<Item = Option<&PrepareOperand<'a, T>>> {
        self.operands.iter().map(Option::as_ref)
    }

    /// Returns the step with its constants replaced and without recorded queries. `constants` has the replacement for each
    /// operand that is constant.
    pub(crate) fn with_constants<'c, U: Tensor>(&self, constants: &'c [Option<U>]) -> PrepareStep<'c, U>
    where
        'a: 'c,
    {
        let operand = |(operand, constant): (&Option<PrepareOperand<'a, T>>, &'c Option<U>)| {
            operand.as_ref().map(|operand| {
                let PrepareOperand { dtype, ref extents, last_use, .. } = *operand;
                let varying = PrepareOperand::varying(dtype, extents.iter().copied(), last_use);
                PrepareOperand { constant: constant.as_ref(), ..varying }
            })
        };
        let operands = self.operands.iter().zip(constants).map(operand).collect();
        PrepareStep { spec: self.spec, params: self.params, operands }
    }

    /// Records the properties that were queried of another step's operands as queried of this step's operands.
    pub(crate) fn note_asked_of<U>(&self, other: &PrepareStep<'_, U>) {
        for (own, asked) in self.operands.iter().flatten().zip(other.operands.iter().flatten()) {
            own.asked_extents.set(own.asked_extents.get() || asked.asked_extents.get());
            own.asked_last_use.set(own.asked_last_use.get() || asked.asked_last_use.get());
        }
    }

    /// Returns the properties that were queried of the operands.
    pub(crate) fn asked(&self) -> SmallVec<[Option<AskedOperand>; 4]> {
        self.operands.iter().map(|operand| operand.as_ref().map(PrepareOperand::asked)).collect()
    }

    /// Returns whether the operands have the same properties as another step's operands. `asked` contains the element types and
    /// the ranks of that step's operands, and the other properties that were queried.
    pub(crate) fn agrees(&self, asked: &[Option<AskedOperand>]) -> bool {
        self.operands.len() == asked.len()
            && self.operands.iter().zip(asked).all(|pair| match pair {
                (None, None) => true,
                (Some(operand), Some(asked)) => operand.agrees(asked),
                (None, Some(_)) | (Some(_), None) => false,
            })
    }
}

/// The properties of an operand that are known before a plan runs.
#[derive(Debug)]
pub struct PrepareOperand<'a, T> {
    dtype: DataType,
    extents: KnownExtents,
    constant: Option<&'a T>,
    last_use: bool,
    asked_extents: Cell<bool>,
    asked_last_use: Cell<bool>,
}

impl<'a, T: Tensor> PrepareOperand<'a, T> {
    /// Describes an operand whose tensor differs between runs. An extent is `None` if it may differ between runs.
    /// `last_use` says whether runs pass ownership of the operand to the kernel.
    pub fn varying(
        dtype: DataType,
        extents: impl IntoIterator<Item = Option<usize>>,
        last_use: bool,
    ) -> PrepareOperand<'a, T> {
        PrepareOperand {
            dtype,
            extents: extents.into_iter().collect(),
            constant: None,
            last_use,
            asked_extents: Cell::new(false),
            asked_last_use: Cell::new(false),
        }
    }

    /// Describes an operand that is the same tensor in all runs.
    pub fn of_constant(x: &'a T) -> PrepareOperand<'a, T> {
        let extents = x.shape().iter().copied().map(Some);
        PrepareOperand { constant: Some(x), ..PrepareOperand::varying(x.dtype(), extents, false) }
    }

    /// Returns the element type, which is the same in all runs.
    pub fn dtype(&self) -> DataType {
        self.dtype
    }

    /// Returns the extents, outermost first. An extent is `None` if it may differ between runs.
    ///
    /// A kernel whose preparation queries the extents of an operand is not reused for a step with other known extents.
    pub fn extents(&self) -> &[Option<usize>] {
        self.asked_extents.set(true);
        &self.extents
    }

    /// Returns the rank, which is the same in all runs.
    pub fn rank(&self) -> usize {
        self.extents.len()
    }

    /// Returns the tensor, if it is the same in all runs.
    pub fn constant(&self) -> Option<&'a T> {
        self.constant
    }

    /// Returns whether runs pass ownership of the operand to the kernel, because the step is the last that reads it:
    /// see [`KernelOperands::take`].
    pub fn is_last_use(&self) -> bool {
        self.asked_last_use.set(true);
        self.last_use
    }

    fn asked(&self) -> AskedOperand {
        AskedOperand {
            dtype: self.dtype,
            rank: self.rank(),
            extents: self.asked_extents.get().then(|| self.extents.clone()),
            last_use: self.asked_last_use.get().then_some(self.last_use),
        }
    }

    fn agrees(&self, asked: &AskedOperand) -> bool {
        self.dtype == asked.dtype
            && self.rank() == asked.rank
            && asked.extents.as_ref().is_none_or(|extents| *extents == self.extents)
            && asked.last_use.is_none_or(|last_use| last_use == self.last_use)
    }
}

/// The properties of an operand that a kernel's preparation queried, with their values.
#[derive(Debug)]
pub(crate) struct AskedOperand {
    dtype: DataType,
    rank: usize,
    extents: Option<KnownExtents>,
    last_use: Option<bool>,
}

/// A step that a backend has prepared. All threads that run a plan share it.
pub trait Kernel<B: Backend + ?Sized>: Send + Sync {
    /// Runs the step.
    ///
    /// The operands have the element types and ranks of the prepared step, and the extents that were known at
    /// preparation. The results must equal the results of the operation that the kernel replaces.
    ///
    /// # Errors
    ///
    /// The errors of the operation.
    fn run(
        &self,
        on: &B,
        operands: &mut KernelOperands<'_, B::Tensor>,
    ) -> Result<Outputs<B::Tensor>, B::Error>;

    /// Returns the memory of the kernel, excluding the constants that it [`reads`](Self::reads).
    ///
    /// Units: bytes. They count towards [`CompileOptions::plan_bytes`](crate::CompileOptions::plan_bytes).
    fn bytes(&self) -> usize;

    /// Returns whether runs need the constant operand with this index. The plan releases constants that are not needed,
    /// unless something else reads them, and does not pass them to [`run`](Self::run).
    ///
    /// By default no constant is needed.
    fn reads(&self, operand: usize) -> bool {
        let _none = operand;
        false
    }
}

/// An operand that a run passes to a kernel.
#[derive(Debug)]
pub enum KernelOperand<'a, T> {
    /// The operand is omitted, was taken, or is a constant that the kernel does not [`read`](Kernel::reads).
    Absent,
    /// The operand has other readers too: later steps, the caller or other runs.
    Shared(&'a T),
    /// The kernel may take the operand, because the plan does not read it again.
    Owned(T),
}

/// The operands of one run of a kernel, in the order of the operation's table row.
#[derive(Debug)]
pub struct KernelOperands<'a, T>(SmallVec<[KernelOperand<'a, T>; 4]>);

impl<'a, T> FromIterator<KernelOperand<'a, T>> for KernelOperands<'a, T> {
    fn from_iter<I: IntoIterator<Item = KernelOperand<'a, T>>>(operands: I) -> Self {
        KernelOperands(operands.into_iter().collect())
    }
}

impl<'a, T> From<SmallVec<[KernelOperand<'a, T>; 4]>> for KernelOperands<'a, T> {
    fn from(operands: SmallVec<[KernelOperand<'a, T>; 4]>) -> Self {
        KernelOperands(operands)
    }
}

impl<T> KernelOperands<'_, T> {
    /// Returns an operand; `None` if it is absent.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        match self.0.get(index)? {
            KernelOperand::Absent => None,
            KernelOperand::Shared(x) => Some(x),
            KernelOperand::Owned(x) => Some(x),
        }
    }

    /// Returns an operand that the operation requires; `op` is its name, for the error.
    ///
    /// # Errors
    ///
    /// [`Error::Operand`] if it is absent.
    #[inline]
    pub fn required(&self, op: &'static str, index: usize) -> Result<&T, Error> {
        self.get(index).ok_or(Error::Operand { op, index, expected: "a tensor" })
    }

    /// Takes ownership of an operand if no one else in the plan reads it: the step is its last reader in the run, it
    /// occurs only once among the step's operands, and it is not an input, a constant or an output of the plan.
    /// Otherwise returns `None`, and the operand stays available through [`get`](Self::get).
    ///
    /// The elements may still be shared, for example with a view of them. A kernel that writes into them must check
    /// with the tensor itself that no other handle shares them.
    #[inline]
    pub fn take(&mut self, index: usize) -> Option<T> {
        let operand = self.0.get_mut(index)?;
        match std::mem::replace(operand, KernelOperand::Absent) {
            KernelOperand::Owned(x) => Some(x),
            other => {
                *operand = other;
                None
            }
        }
    }

    /// Returns the number of operands, including absent ones.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the operation has no operands.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
