//! Type-erased access to a borrowed backend with its families.

use super::narrow_tensor::NarrowTensor;
use super::{ErasedError, ErasedTensor, Kernels, foreign, own};
use crate::contract::{FamilyTable, OpSet};
use crate::{Backend, BackendAttrs, CompletionHandle, ContractResponse, Outputs};
use bb_ir::op::{Family, OpSpec, Param, Primitive};
use bb_ir::proto::GraphProto;
use bb_ir::{DataTypes, TensorData};
use smallvec::SmallVec;
use std::any::TypeId;
use std::collections::HashMap;
use std::sync::Arc;

/// A borrowed backend with the families that it implements.
#[derive(Debug)]
pub struct WithFamilies<'a, B: Backend + ?Sized> {
    pub(crate) on: &'a B,
    pub(crate) tables: &'a [FamilyTable<B>],
}

impl<'a, B: Backend + ?Sized> WithFamilies<'a, B> {
    /// Pairs a backend with its families.
    pub const fn new(on: &'a B, tables: &'a [FamilyTable<B>]) -> Self {
        WithFamilies { on, tables }
    }
}

impl<B: Backend + ?Sized> WithFamilies<'_, B> {
    /// Restores the types of the operands, runs `call` on them, and erases the types of the results.
    fn call(
        &self,
        op: &'static str,
        inputs: &[Option<&ErasedTensor>],
        call: impl FnOnce(&[Option<&B::Tensor>]) -> Result<Outputs<B::Tensor>, B::Error>,
    ) -> Result<Outputs<ErasedTensor>, ErasedError> {
        let mut operands: SmallVec<[Option<&B::Tensor>; 4]> = SmallVec::with_capacity(inputs.len());
        for (index, x) in inputs.iter().enumerate() {
            operands.push(match x {
                None => None,
                Some(x) => Some(x.get().ok_or_else(|| foreign(op, index))?),
            });
        }
        let results = call(&operands).map_err(own::<B>)?;
        Ok(results.into_iter().map(ErasedTensor::new).collect())
    }
}

impl<B: Backend + ?Sized> Kernels for WithFamilies<'_, B> {
    fn primitive(
        &self,
        op: Primitive,
        inputs: &[Option<&ErasedTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<ErasedTensor>, ErasedError> {
        // Checks before each primitive whether the run must end, because a body may call thousands of primitives.
        crate::RunOptions::check_current()?;
        self.call(op.spec().method, inputs, |inputs| crate::call::call_primitive(self.on, op, inputs, params))
    }

    fn native(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<&ErasedTensor>],
        params: &[Param<'_>],
    ) -> Option<Result<Outputs<ErasedTensor>, ErasedError>> {
        let table = crate::contract::native_in(self.tables, op)?;
        Some(self.call(op.method, inputs, |inputs| table.call(self.on, op, inputs, params)))
    }

    fn to_host(&self, x: &ErasedTensor) -> Result<TensorData, ErasedError> {
        let typed = x.get().ok_or_else(|| foreign("to_host", 0))?;
        self.on.to_host(typed).map_err(own::<B>)
    }

    fn types(&self) -> DataTypes {
        self.on.types()
    }

    fn refuses_types(&self) -> bool {
        refuses_types(self.on)
    }

    fn natives(&self) -> Vec<(Family, OpSet)> {
        self.tables.iter().map(|table| (table.family(), table.native())).collect()
    }

    fn runs_whole_graphs(&self) -> bool {
        self.on.runs_whole_graphs()
    }

    fn runs_primitive(&self, op: Primitive) -> bool {
        self.on.runs_primitive(op)
    }

    fn execute(
        &self,
        graph: &GraphProto,
        inputs: HashMap<String, ErasedTensor>,
        attrs: BackendAttrs<'_>,
    ) -> Result<HashMap<String, ErasedTensor>, ErasedError> {
        let attrs = attrs.asked_of(self.on);
        let results = self.on.execute(graph, typed_inputs::<B>(inputs)?, attrs).map_err(own::<B>)?;
        Ok(erased_results::<B>(results))
    }

    /// Blocks until the answer arrives, because the backend is borrowed only for this call.
    fn dispatch(
        &self,
        graph: Arc<GraphProto>,
        inputs: HashMap<String, ErasedTensor>,
        attrs: BackendAttrs<'_>,
    ) -> ContractResponse<HashMap<String, ErasedTensor>, ErasedError> {
        let attrs = attrs.asked_of(self.on);
        ContractResponse::Now(typed_inputs::<B>(inputs).and_then(|inputs| {
            let answer = self.on.dispatch(graph, inputs, attrs, CompletionHandle::new());
            answer.wait().map(erased_results::<B>).map_err(own::<B>)
        }))
    }
}

/// Restores the types of a graph's inputs.
pub(super) fn typed_inputs<B: Backend + ?Sized>(
    inputs: HashMap<String, ErasedTensor>,
) -> Result<HashMap<String, B::Tensor>, ErasedError> {
    let typed = inputs.into_iter().enumerate().map(|(index, (name, x))| {
        let x: &B::Tensor = x.get().ok_or_else(|| foreign("execute", index))?;
        Ok((name, x.clone()))
    });
    typed.collect()
}

/// Erases the types of a graph's outputs.
pub(super) fn erased_results<B: Backend + ?Sized>(
    results: HashMap<String, B::Tensor>,
) -> HashMap<String, ErasedTensor> {
    results.into_iter().map(|(name, y)| (name, ErasedTensor::new(y))).collect()
}

/// Returns whether a backend refuses tensors of some element type. A wrapper that emulates the types that its inner
/// backend lacks refuses none, although its `types` returns the types of the inner backend.
pub(crate) fn refuses_types<B: Backend + ?Sized>(on: &B) -> bool {
    !on.types().is_all() && TypeId::of::<B::Tensor>() != TypeId::of::<NarrowTensor>()
}
