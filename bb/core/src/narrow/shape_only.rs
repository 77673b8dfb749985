//! Determines which element types a whole-graph backend supports, from its declaration.
//!
//! Each call on a whole-graph backend may require a compilation, so no call is tried. Instead, the rules of narrowing are
//! applied to tensors that have a type and a shape but no elements.

use super::{NarrowTensor, NarrowedOn};
use crate::call::call_primitive;
use crate::ext::{ErasedError, ErasedTensor, Extended, Kernels};
use crate::{BackendAttrs, Error, Outputs, Tensor};
use bb_ir::op::{Family, OpSpec, Param, Primitive};
use bb_ir::proto::GraphProto;
use bb_ir::{DataType, DataTypes, Limits, Shape, TensorData, infer};
use smallvec::SmallVec;
use std::collections::HashMap;

/// A tensor without elements.
#[derive(Debug, Clone)]
struct Hollow {
    dtype: DataType,
    shape: Shape,
}

impl Tensor for Hollow {
    fn dtype(&self) -> DataType {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }
}

/// A backend that has these types and computes nothing.
struct Nothing(DataTypes);

impl Kernels for Nothing {
    fn primitive(
        &self,
        op: Primitive,
        inputs: &[Option<&ErasedTensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<ErasedTensor>, ErasedError> {
        let given: SmallVec<[(DataType, &[usize]); 4]> =
            inputs.iter().flatten().map(|x| (x.dtype(), x.shape())).collect();
        let results = match (op, params) {
            (Primitive::Constant, [Param::Data(data)]) => {
                vec![(data.dtype(), Shape::from_slice(data.shape()))]
            }
            _ => infer::primitive(op, &given, params).map_err(Error::from)?.into_iter().collect(),
        };
        Ok(results.into_iter().map(|(dtype, shape)| ErasedTensor::new(Hollow { dtype, shape })).collect())
    }

    fn native(
        &self,
        _: &'static OpSpec,
        _: &[Option<&ErasedTensor>],
        _: &[Param<'_>],
    ) -> Option<Result<Outputs<ErasedTensor>, ErasedError>> {
        None
    }

    fn to_host(&self, x: &ErasedTensor) -> Result<TensorData, ErasedError> {
        let zeros = TensorData::zeros(x.dtype(), x.shape(), Limits::default().tensor_bytes);
        Ok(zeros.map_err(Error::from)?)
    }

    fn types(&self) -> DataTypes {
        self.0
    }

    fn execute(
        &self,
        _: &GraphProto,
        _: HashMap<String, ErasedTensor>,
        _: BackendAttrs<'_>,
    ) -> Result<HashMap<String, ErasedTensor>, ErasedError> {
        Err(Error::excluded("no graph to run where nothing is computed").into())
    }
}

impl NarrowedOn<'_> {
    /// Returns an error if a call would be refused.
    ///
    /// # Errors
    ///
    /// [`NarrowError`](crate::NarrowError), for an operand or a parameter of a type that neither the backend nor the host can
    /// store.
    pub(crate) fn would_refuse(
        &self,
        op: &'static OpSpec,
        operands: &[Option<TensorData>],
        params: &[Param<'_>],
    ) -> Result<(), ErasedError> {
        let nothing = Nothing(self.holding().types);
        let on = NarrowedOn::borrowed(&nothing, self.holding());
        let bring = |x: &Option<TensorData>| x.as_ref().map(|x| on.bring(x)).transpose();
        let operands: Vec<Option<NarrowTensor>> =
            operands.iter().map(bring).collect::<Result<_, ErasedError>>()?;
        let operands: Vec<Option<&NarrowTensor>> = operands.iter().map(Option::as_ref).collect();
        match (op.family, Primitive::from_index(op.index)) {
            (Family::Primitive, Some(primitive)) => call_primitive(&on, primitive, &operands, params),
            _ => Extended::new(&on, &[]).call(op, &operands, params),
        }
        .map(drop)
    }
}
