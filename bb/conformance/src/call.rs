//! A call of a primitive as data that can run on any backend.

use bb_core::{DataType, TensorData};
use bb_ir::infer;
use bb_ir::op::{Param, Primitive};

/// An operation with its operands and parameters.
#[derive(Debug, Clone)]
pub struct Call {
    /// The operation.
    pub op: Primitive,
    /// The operands.
    pub inputs: Vec<TensorData>,
    /// The parameters, in the order of the operation's entry in the op table.
    pub params: Vec<Param<'static>>,
}

impl Call {
    /// Infers the element types and shapes of the results.
    ///
    /// # Errors
    ///
    /// An error if the call is invalid.
    pub fn inferred(&self) -> Result<infer::Outputs, bb_ir::Error> {
        let inputs: Vec<_> = self.inputs.iter().map(|x| (x.dtype(), x.shape())).collect();
        infer::primitive(self.op, &inputs, &self.params)
    }

    /// Lists the element types of operands and results.
    pub(crate) fn types(&self) -> Vec<DataType> {
        let results = self.inferred().into_iter().flatten().map(|result| result.0);
        self.inputs.iter().map(TensorData::dtype).chain(results).collect()
    }
}
