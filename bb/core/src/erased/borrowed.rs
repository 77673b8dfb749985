//! Type-erased access to a borrowed backend with its families.

use super::{ErasedError, ErasedTensor, Kernels, foreign, own};
use crate::contract::{FamilyTable, OpSet, mapped};
use crate::{Backend, BackendAttrs, CompletionHandle, ContractResponse, Error, Outputs, ResultMaker, Tensor};
use bb_ir::op::{Family, OpSpec, Param, Primitive};
use bb_ir::proto::GraphProto;
use bb_ir::{DataTypes, TensorData};
use smallvec::SmallVec;
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
        if inputs.len() > FEW {
            let owned = typed_operands::<B::Tensor>(op, inputs)?;
            let operands: SmallVec<[Option<&B::Tensor>; 8]> = owned.iter().map(Option::as_ref).collect();
            return Ok(mapped(call(&operands).map_err(own::<B>)?, ErasedTensor::new));
        }
        let mut owned: [Option<B::Tensor>; FEW] = [const { None }; FEW];
        for (index, (place, x)) in owned.iter_mut().zip(inputs).enumerate() {
            if let Some(x) = x {
                *place = Some(x.get().ok_or_else(|| foreign(op, index))?);
            }
        }
        let operands = owned.each_ref().map(Option::as_ref);
        let operands = operands.get(..inputs.len()).unwrap_or_default();
        Ok(mapped(call(operands).map_err(own::<B>)?, ErasedTensor::new))
    }
}

/// The maximum number of operands that are restored without a vector. Almost every operation has at most this many.
const FEW: usize = 4;

/// Restores the types of operands.
///
/// # Errors
///
/// The error of [`foreign`].
pub(super) fn typed_operands<T: Tensor>(
    op: &'static str,
    inputs: &[Option<&ErasedTensor>],
) -> Result<SmallVec<[Option<T>; 4]>, Error> {
    let mut operands = SmallVec::with_capacity(inputs.len());
    for (index, x) in inputs.iter().enumerate() {
        operands.push(match x {
            None => None,
            Some(x) => Some(x.get().ok_or_else(|| foreign(op, index))?),
        });
    }
    Ok(operands)
}

impl<B: Backend + ?Sized> Kernels for WithFamilies<'_, B> {
    fn primitive(
        &self,
        op: Primitive,
        inputs: &[Option<&ErasedTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<ErasedTensor>, ErasedError> {
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
        let typed = x.get::<B::Tensor>().ok_or_else(|| foreign("to_host", 0))?;
        self.on.to_host(&typed).map_err(own::<B>)
    }

    fn types(&self) -> DataTypes {
        self.on.types()
    }

    fn refuses_types(&self) -> bool {
        !self.on.has_every_type()
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

    fn maker_of(&self, spec: &'static OpSpec) -> ResultMaker {
        self.on.maker_of(spec)
    }

    fn execute(
        &self,
        graph: &GraphProto,
        inputs: HashMap<String, ErasedTensor>,
        attrs: BackendAttrs<'_>,
    ) -> Result<HashMap<String, ErasedTensor>, ErasedError> {
        let attrs = attrs.asked_of(self.on);
        let results = self.on.execute(graph, typed_named(inputs)?, attrs).map_err(own::<B>)?;
        Ok(erased_named(results))
    }

    /// Blocks until the answer arrives, because the backend is borrowed only for this call.
    fn dispatch(
        &self,
        graph: Arc<GraphProto>,
        inputs: HashMap<String, ErasedTensor>,
        attrs: BackendAttrs<'_>,
    ) -> ContractResponse<HashMap<String, ErasedTensor>, ErasedError> {
        let attrs = attrs.asked_of(self.on);
        ContractResponse::Now(typed_named(inputs).map_err(ErasedError::from).and_then(|inputs| {
            let answer = self.on.dispatch(graph, inputs, attrs, CompletionHandle::new());
            answer.wait().map(erased_named).map_err(own::<B>)
        }))
    }
}

/// Restores the types of named tensors.
///
/// # Errors
///
/// The error of [`foreign`].
pub(crate) fn typed_named<T: Tensor>(
    tensors: HashMap<String, ErasedTensor>,
) -> Result<HashMap<String, T>, Error> {
    let typed = tensors
        .into_iter()
        .enumerate()
        .map(|(index, (name, x))| Ok((name, x.into_typed().ok_or_else(|| foreign("execute", index))?)));
    typed.collect()
}

/// Erases the types of named tensors.
pub(crate) fn erased_named<T: Tensor>(tensors: HashMap<String, T>) -> HashMap<String, ErasedTensor> {
    tensors.into_iter().map(|(name, y)| (name, ErasedTensor::new(y))).collect()
}
