//! Calls native operations of a backend that lacks element types.

use super::{NarrowTensor, NarrowedOn, Range};
use crate::ext::{ErasedError, ErasedTensor, Extended, ImageOp, IndexOp, NnOp};
use crate::{Outputs, Tensor};
use bb_ir::DataType;
use bb_ir::op::{Family, OpSpec, Param};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The key of a call: everything that determines the types of an operation's results.
type Call = (Family, u16, SmallVec<[Option<DataType>; 4]>, SmallVec<[DataType; 1]>);

/// The result types that the definitions of operations state, for calls where the backend's tensors have other types.
#[derive(Debug, Default)]
pub(super) struct Declared(Mutex<HashMap<Call, SmallVec<[DataType; 2]>>>);

impl Declared {
    /// Returns the result types of an operation, as its body states them; `None` if they are known only after the body has run.
    fn of(
        &self,
        spec: &'static OpSpec,
        inputs: &[Option<&NarrowTensor>],
        params: &[Param<'_>],
    ) -> Option<SmallVec<[DataType; 2]>> {
        let types = inputs.iter().map(|x| x.map(|x| x.dtype())).collect();
        let named =
            params.iter().filter_map(|p| if let Param::Type(dtype) = p { Some(*dtype) } else { None });
        let call = (spec.family, spec.index, types, named.collect());
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(types) = known.get(&call) {
            return Some(types.clone());
        }
        let operands = inputs.iter().map(|x| x.map(|x| (x.dtype(), x.shape())));
        let results = crate::ext::result_types(spec, operands, params)?;
        let types: SmallVec<[DataType; 2]> = results.into_iter().map(|(dtype, _)| dtype).collect();
        known.insert(call, types.clone());
        Some(types)
    }
}

impl NarrowedOn<'_> {
    /// Calls a native operation of the backend, or runs the operation's body.
    ///
    /// The backend is called only with tensors of types that it has, because the semantics of its kernel are unknown for
    /// integers stored in another type. Indices are an exception: the operation's table entry says `i64`, and a backend without
    /// `i64` takes and returns them in the storage type of `i64`.
    ///
    /// # Errors
    ///
    /// The backend's own errors; the errors of the body.
    pub(crate) fn native(
        &self,
        spec: &'static OpSpec,
        inputs: &[Option<&NarrowTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<NarrowTensor>, ErasedError> {
        let direct = |(at, x): (usize, &Option<&NarrowTensor>)| {
            let Some(x) = x else { return true };
            x.on_device().is_some() && (!self.holding().narrows(x.dtype()) || is_index(spec, at))
        };
        let named = |p: &Param<'_>| !matches!(p, Param::Type(dtype) if self.holding().narrows(*dtype));
        if !inputs.iter().enumerate().all(direct) || !params.iter().all(named) {
            return self.body(spec, inputs, params);
        }
        let operands: SmallVec<[Option<&ErasedTensor>; 4]> =
            inputs.iter().map(|x| x.and_then(NarrowTensor::on_device)).collect();
        let Some(results) = self.device().native(spec, &operands, params) else {
            return self.body(spec, inputs, params);
        };
        let results = results?;
        let types = if results.iter().any(may_stand) { self.declared.of(spec, inputs, params) } else { None };
        Ok(self.adopted(results, types.as_deref()))
    }

    /// Converts the results of a native operation to tensors of the adapter. `declared` has the result types of the operation's
    /// body, if they are known.
    pub(super) fn adopted(
        &self,
        results: Outputs<ErasedTensor>,
        declared: Option<&[DataType]>,
    ) -> Outputs<NarrowTensor> {
        let mut outputs = Outputs::with_capacity(results.len());
        for (at, y) in results.into_iter().enumerate() {
            let own = y.dtype();
            let dtype = declared.and_then(|types| types.get(at).copied()).unwrap_or(own);
            let holds = self.holding().of(dtype) == Some(own);
            outputs.push(NarrowTensor::device(if holds { dtype } else { own }, y, Range::of(own)));
        }
        outputs
    }

    fn body(
        &self,
        spec: &'static OpSpec,
        inputs: &[Option<&NarrowTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<NarrowTensor>, ErasedError> {
        Extended::new(self, &[]).call(spec, inputs, params)
    }
}

/// Returns whether a result may store elements of another integer type.
pub(super) fn may_stand(x: &ErasedTensor) -> bool {
    Range::of(x.dtype()).is_some() && x.dtype() != DataType::Bool
}

/// Returns whether an operand contains only indices, which a kernel reads and does not return.
fn is_index(spec: &OpSpec, operand: usize) -> bool {
    const GATHER_ELEMENTS: u16 = NnOp::GatherElements as u16;
    const GATHER_ND: u16 = NnOp::GatherNd as u16;
    const SCATTER_ELEMENTS: u16 = IndexOp::ScatterElements as u16;
    const SCATTER_ND: u16 = IndexOp::ScatterNd as u16;
    const MAX_UNPOOL: u16 = ImageOp::MaxUnpool as u16;
    const ROI_ALIGN: u16 = ImageOp::RoiAlign as u16;
    match (spec.family, spec.index) {
        (Family::Nn, GATHER_ELEMENTS | GATHER_ND) => operand == 1,
        (Family::Index, SCATTER_ELEMENTS | SCATTER_ND) => operand == 1,
        (Family::Image, MAX_UNPOOL) => operand == 1,
        (Family::Image, ROI_ALIGN) => operand == 2,
        _ => false,
    }
}
