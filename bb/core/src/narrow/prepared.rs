//! Prepared kernels of a backend that lacks element types.
//!
//! The backend prepares the steps that it runs in its own types. A primitive that computes with integers is not prepared,
//! because the ranges of the integers are known only when the step runs.

use super::natives::may_stand;
use super::{NarrowTensor, NarrowedOn, Range};
use crate::erased::range::only_moves;
use crate::error::WrongResult;
use crate::ext::{ErasedError, ErasedKernel, ErasedTensor};
use crate::{Error, Kernel, KernelOperand, KernelOperands, Outputs, PrepareStep, Tensor};
use bb_ir::infer;
use bb_ir::op::{OpSpec, Param, Primitive};
use bb_ir::{DataType, Shape};
use smallvec::SmallVec;
use std::sync::OnceLock;

/// A kernel of the backend that lacks types.
pub(super) struct NarrowKernel {
    kernel: ErasedKernel,
    spec: &'static OpSpec,
    params: Vec<Param<'static>>,
    /// The type of each result of a primitive; `None` for other operations.
    primitive: Option<DataType>,
    /// The types and shapes of the constant operands, which a run need not pass.
    constants: SmallVec<[Option<(DataType, Shape)>; 4]>,
    /// The result types of the operation's body. The first run computes them before the kernel takes the operands.
    declared: OnceLock<Option<SmallVec<[DataType; 2]>>>,
}

impl NarrowedOn<'_> {
    /// Prepares a step if the backend has the types of its operands and results.
    pub(super) fn prepare_own(
        &self,
        step: &PrepareStep<'_, NarrowTensor>,
    ) -> Result<Option<NarrowKernel>, ErasedError> {
        let types: SmallVec<[DataType; 4]> = step.operands().flatten().map(|x| x.dtype()).collect();
        let named = |p: &Param<'_>| !matches!(p, Param::Type(dtype) if self.holding().narrows(*dtype));
        if types.iter().any(|dtype| self.holding().narrows(*dtype)) || !step.params().iter().all(named) {
            return Ok(None);
        }
        let mut primitive = None;
        if let Some(op) = step.primitive() {
            let dtype = infer::dtype(op, &types, step.params()).map_err(Error::from)?;
            if !self.computes_without_ranges(op, &types, dtype) {
                return Ok(None);
            }
            primitive = Some(dtype);
        }
        let mut constants: SmallVec<[Option<ErasedTensor>; 4]> = SmallVec::new();
        for operand in 0..step.operands().len() {
            let constant = step.constant(operand);
            let own = constant.and_then(NarrowTensor::on_device).cloned();
            if own.is_none() && constant.is_some() {
                return Ok(None);
            }
            constants.push(own);
        }
        let own = step.with_constants(&constants);
        let Some(kernel) = self.device().prepare(&own)? else { return Ok(None) };
        step.note_asked_of(&own);
        let typed = |x: &NarrowTensor| (x.dtype(), Shape::from_slice(x.shape()));
        Ok(Some(NarrowKernel {
            kernel,
            spec: step.spec(),
            params: step.params().to_vec(),
            primitive,
            constants: (0..step.operands().len()).map(|at| step.constant(at).map(typed)).collect(),
            declared: OnceLock::new(),
        }))
    }

    /// Returns whether a primitive gives exact results without knowledge of the ranges of integers.
    fn computes_without_ranges(&self, op: Primitive, operands: &[DataType], result: DataType) -> bool {
        let has_range = |dtype: &DataType| Range::of(*dtype).is_some();
        let is_plain = result == DataType::Bool || !has_range(&result);
        is_plain && !self.holding().narrows(result) && (only_moves(op) || !operands.iter().any(has_range))
    }
}

impl NarrowKernel {
    /// Returns the result types of the operation's body.
    fn declared(&self, operands: &KernelOperands<'_, NarrowTensor>) -> Option<SmallVec<[DataType; 2]>> {
        let typed = (0..operands.len()).map(|at| match (operands.get(at), self.constants.get(at)) {
            (Some(x), _) => Some((x.dtype(), x.shape())),
            (None, Some(Some((dtype, shape)))) => Some((*dtype, &shape[..])),
            (None, _) => None,
        });
        let results = crate::ext::result_types(self.spec, typed, &self.params)?;
        Some(results.into_iter().map(|(dtype, _)| dtype).collect())
    }
}

impl<'a> Kernel<NarrowedOn<'a>> for NarrowKernel {
    fn run(
        &self,
        on: &NarrowedOn<'a>,
        operands: &mut KernelOperands<'_, NarrowTensor>,
    ) -> Result<Outputs<NarrowTensor>, ErasedError> {
        if self.primitive.is_none() && self.declared.get().is_none() {
            let _first = self.declared.set(self.declared(operands));
        }
        // Operands that the kernel may take are moved out, so that the kernel has the only handle and can reuse the memory.
        type Held = SmallVec<[Option<ErasedTensor>; 4]>;
        let (mut taken, mut shared) = (Held::new(), Held::new());
        for at in 0..operands.len() {
            let owned = operands.take(at).map(NarrowTensor::into_device);
            taken.push(owned.map(|x| x.or_else(|x| on.own_tensor(&x))).transpose()?);
            shared.push(operands.get(at).map(|x| on.own_tensor(x)).transpose()?);
        }
        let own = taken.into_iter().zip(&shared).map(|pair| match pair {
            (Some(x), _) => KernelOperand::Owned(x),
            (None, Some(x)) => KernelOperand::Shared(x),
            (None, None) => KernelOperand::Absent,
        });
        let results = on.device().run_prepared(&*self.kernel.kernel, &mut own.collect())?;
        let Some(dtype) = self.primitive else {
            let declared = if results.iter().any(may_stand) { self.declared.get() } else { None };
            return Ok(on.adopted(results, declared.and_then(Option::as_deref)));
        };
        match results.iter().enumerate().find(|(_, y)| y.dtype() != dtype) {
            Some((index, y)) => {
                let (op, got) = (self.spec.method, (y.dtype(), y.shape()));
                Err(WrongResult::of_type(op, index, dtype, got, on.device().maker_of(self.spec)).into())
            }
            None => Ok(results.into_iter().map(|y| NarrowTensor::device(dtype, y, None)).collect()),
        }
    }

    fn bytes(&self) -> usize {
        self.kernel.bytes
    }

    fn reads(&self, operand: usize) -> bool {
        self.kernel.reads.get(operand).copied().unwrap_or(true)
    }
}
