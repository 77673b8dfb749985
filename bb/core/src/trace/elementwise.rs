//! The element types of the results of element-wise operations.
//!
//! The result of an element-wise operation has the shape that its operands broadcast to. Its element type depends only on the operands'
//! element types and the parameters. So the body of a native operation is traced only for the first call with these types and
//! parameters.

use super::TracedTensor;
use crate::Tensor;
use bb_ir::DataType;
use bb_ir::op::{OpSpec, Param};
use smallvec::SmallVec;

/// The element types of a call's operands.
type OperandTypes = SmallVec<[Option<DataType>; 4]>;

#[derive(Debug)]
struct Known {
    spec: &'static OpSpec,
    operands: OperandTypes,
    params: Box<[Param<'static>]>,
    result: DataType,
}

/// The maximum number of calls that are stored, because each call is compared with all of them. A model may have thousands of calls
/// with different parameters.
const MOST: usize = 256;

/// The element types of the results of the first calls.
#[derive(Debug, Default)]
pub(super) struct ElementwiseTypes(Vec<Known>);

fn types(operands: &[Option<&TracedTensor>]) -> OperandTypes {
    operands.iter().map(|x| x.map(Tensor::dtype)).collect()
}

impl ElementwiseTypes {
    /// Returns the element type of a call's result, if a call like it was added.
    pub(super) fn find(
        &self,
        spec: &'static OpSpec,
        operands: &[Option<&TracedTensor>],
        params: &[Param<'_>],
    ) -> Option<DataType> {
        let operands = types(operands);
        let is_like = |known: &&Known| {
            std::ptr::eq(known.spec, spec)
                && known.operands == operands
                && known.params.len() == params.len()
                && known.params.iter().zip(params).all(|(own, other)| own.is_same(other))
        };
        self.0.iter().find(is_like).map(|known| known.result)
    }

    /// Adds the element type of a call's result, unless it is known already or there is no room.
    pub(super) fn add(
        &mut self,
        spec: &'static OpSpec,
        operands: &[Option<&TracedTensor>],
        params: &[Param<'_>],
        result: DataType,
    ) {
        if self.0.len() >= MOST || self.find(spec, operands, params).is_some() {
            return;
        }
        let params = params.iter().map(|param| param.clone().into_owned()).collect();
        self.0.push(Known { spec, operands: types(operands), params, result });
    }
}
