//! Calls on a borrowed backend that lacks element types. The callers have the backend itself and its own tensors, for example a
//! native method that calls the body of an operation.
//!
//! Operands and results are tensors of the backend. Intermediate values may have every element type.

use super::own::held_own;
use super::{Holding, NarrowTensor, NarrowedOn, Range};
use crate::Tensor;
use crate::contract::FamilyTable;
use crate::erased::{
    ErasedError, ErasedTensor, KeepsPlans, Kernels, RunsBodies, WithFamilies, erased_named, run_body,
    typed_named,
};
use crate::error::{Error, NarrowError};
use crate::{BackendAttrs, DataType, GraphProto, Outputs};
use bb_ir::op::{OpSpec, Param, Primitive};
use smallvec::SmallVec;
use std::collections::HashMap;

/// Operands of a call.
type Operands = SmallVec<[Option<NarrowTensor>; 4]>;

impl RunsBodies for dyn Kernels + '_ {
    fn run_body(
        &self,
        op: &'static OpSpec,
        inputs: &[Option<&ErasedTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<ErasedTensor>, ErasedError> {
        if self.refuses_types() {
            body(self, op, inputs, params)
        } else {
            crate::ext::body::run(self, op, inputs, params)
        }
    }

    fn run_narrowed(
        &self,
        op: Primitive,
        inputs: &[Option<ErasedTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<ErasedTensor>, ErasedError> {
        primitive(self, op, inputs, params)
    }
}

/// Runs the body of an operation. The body calls the native operations of the backend.
///
/// # Errors
///
/// The errors of the body and of the backend; [`NarrowError`] if no type of the backend holds a result.
fn body(
    on: &dyn Kernels,
    op: &'static OpSpec,
    inputs: &[Option<&ErasedTensor>],
    params: &[Param<'_>],
) -> Result<Outputs<ErasedTensor>, ErasedError> {
    let narrowed = NarrowedOn::borrowed(on, Holding { types: on.types(), floats: false });
    let operands: Operands =
        inputs.iter().map(|x| x.cloned().map(|x| NarrowTensor::device(x.dtype(), x, None))).collect();
    let operands: SmallVec<[Option<&NarrowTensor>; 4]> = operands.iter().map(Option::as_ref).collect();
    let table = |&(family, native)| {
        FamilyTable::new(family, native, |on: &NarrowedOn<'_>, op, inputs, params| {
            on.native(op, inputs, params)
        })
    };
    let tables: Vec<_> = on.natives().iter().map(table).collect();
    let results = run_body(&WithFamilies::new(&narrowed, &tables), op, &operands, params)?;
    narrowed.given_back(op, results)
}

/// Calls a primitive for a body that is written over the backend's own tensors.
///
/// On a backend that lacks `i64`, an `i32` tensor may represent an `i64` one, and the tensor does not show which. So arithmetic
/// that would leave `i32` is an error.
///
/// # Errors
///
/// The backend's errors; [`NarrowError`].
fn primitive(
    on: &dyn Kernels,
    op: Primitive,
    inputs: &[Option<ErasedTensor>],
    params: &[Param<'_>],
) -> Result<Outputs<ErasedTensor>, ErasedError> {
    use Primitive as P;
    let holding = Holding { types: on.types(), floats: false };
    let narrowed = NarrowedOn::borrowed(on, holding);
    let computes = matches!(
        op,
        P::Add
            | P::Sub
            | P::Mul
            | P::Div
            | P::Neg
            | P::Abs
            | P::Pow
            | P::MatMul
            | P::ReduceSum
            | P::ReduceMean
    );
    let stands = |x: ErasedTensor| {
        let own = x.dtype();
        let wide = computes && holding.narrows(DataType::I64) && holding.of(DataType::I64) == Some(own);
        NarrowTensor::device(if wide { DataType::I64 } else { own }, x, Range::of(own))
    };
    let operands: Operands = inputs.iter().map(|x| x.clone().map(stands)).collect();
    let operands: SmallVec<[Option<&NarrowTensor>; 4]> = operands.iter().map(Option::as_ref).collect();
    let results = narrowed.apply(op, &operands, params)?;
    narrowed.given_back(op.spec(), results)
}

/// Runs a graph whose inputs and outputs have types of the backend.
///
/// # Errors
///
/// The errors of the graph and of the backend; [`NarrowError`] if the backend lacks the type of an output.
pub(crate) fn execute_borrowed(
    on: &dyn Kernels,
    graph: &GraphProto,
    inputs: HashMap<String, ErasedTensor>,
    attrs: BackendAttrs<'_>,
) -> Result<HashMap<String, ErasedTensor>, ErasedError> {
    let narrowed = NarrowedOn::borrowed(on, Holding { types: on.types(), floats: false });
    let inputs = inputs.into_iter().map(|(name, x)| (name, NarrowedOn::adopt(x))).collect();
    let results = crate::plan::execute(&narrowed, graph, inputs, attrs)?;
    results.into_iter().map(|(name, y)| Ok((name, narrowed.own_tensor(&y)?))).collect()
}

/// Runs a graph whose inputs and outputs have types of the backend, with the plans that the backend's runtime keeps.
///
/// # Errors
///
/// As [`execute_borrowed`].
pub(crate) fn execute_kept(
    plans: &dyn KeepsPlans,
    graph: &GraphProto,
    inputs: HashMap<String, ErasedTensor>,
    attrs: BackendAttrs<'_>,
) -> Result<HashMap<String, ErasedTensor>, ErasedError> {
    let inputs = inputs.into_iter().map(|(name, x)| (name, NarrowedOn::adopt(x))).collect();
    let results: HashMap<String, NarrowTensor> =
        typed_named(plans.run(graph, erased_named(inputs), attrs)?)?;
    results.into_iter().map(|(name, y)| Ok((name, held_own(&y)?))).collect()
}

impl NarrowedOn<'_> {
    /// Converts results to tensors of the backend.
    fn given_back(
        &self,
        op: &'static OpSpec,
        results: Outputs<NarrowTensor>,
    ) -> Result<Outputs<ErasedTensor>, ErasedError> {
        let own = |y: NarrowTensor| {
            let dtype = y.dtype();
            y.on_device().cloned().ok_or_else(|| {
                ErasedError::from(Error::from(match self.holding().of(dtype) {
                    Some(held) => NarrowError::Exceeds { op: op.method, dtype, held },
                    None => NarrowError::Lacks { op: op.method, dtype },
                }))
            })
        };
        results.into_iter().map(own).collect()
    }
}
