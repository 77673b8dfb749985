//! Implements the engine interface for rten.

use crate::gaps::GAPS;
use crate::tensors::{RtenInput, TensorError, taken};
use bb::onnx::OnnxValue;
use bb::{BoxError, DataType, TensorData};
use bb_engines::{Engine, Gap, PortType, Signature};
use rten::{Model, ModelOptions, NodeId};

/// rten as an engine.
#[derive(Debug, Clone, Copy, Default)]
pub struct RtenEngine;

/// A loaded model.
pub struct RtenSession {
    model: Model,
    inputs: Vec<NodeId>,
    outputs: Vec<NodeId>,
}

impl Engine for RtenEngine {
    type Session = RtenSession;

    const NAME: &'static str = "rten";

    fn gaps(&self) -> &'static [Gap] {
        GAPS
    }

    fn passes(&self, ty: &PortType) -> bool {
        matches!(ty, PortType::Tensor(dtype) if self.holds(*dtype))
    }

    fn holds(&self, dtype: DataType) -> bool {
        use DataType::{Bool, F32, I8, I32, I64, U8};
        matches!(dtype, Bool | F32 | I8 | I32 | I64 | U8)
    }

    fn newest_opset(&self) -> i64 {
        // rten does not check opsets. Operators whose newer versions it computes wrongly are in the
        // table of gaps.
        i64::MAX
    }

    fn load(&self, model: Vec<u8>, signature: &Signature) -> Result<RtenSession, BoxError> {
        let model = ModelOptions::with_all_ops().load(model)?;
        let ids = |names: &[(String, PortType)]| {
            names.iter().map(|(name, _)| model.node_id(name)).collect::<Result<Vec<_>, _>>()
        };
        let (inputs, outputs) = (ids(&signature.inputs)?, ids(&signature.outputs)?);
        Ok(RtenSession { model, inputs, outputs })
    }

    fn run(
        &self,
        session: &RtenSession,
        signature: &Signature,
        inputs: &[OnnxValue<&TensorData>],
    ) -> Result<Vec<OnnxValue<TensorData>>, BoxError> {
        let lent = inputs.iter().map(operand).collect::<Result<Vec<_>, _>>()?;
        let mut given = Vec::with_capacity(lent.len());
        for (id, x) in session.inputs.iter().zip(&lent) {
            given.push((*id, x.view()?.into()));
        }
        let results = session.model.run(given, &session.outputs, None)?;
        let types = signature.outputs.iter().map(|(_, ty)| ty.dtype());
        let result = |(x, dtype)| taken(x, dtype).map(OnnxValue::Tensor);
        Ok(results.into_iter().zip(types).map(result).collect::<Result<_, _>>()?)
    }
}

/// Borrows an input, which is a tensor, because the engine passes no other values.
fn operand<'a>(x: &OnnxValue<&'a TensorData>) -> Result<RtenInput<'a>, TensorError> {
    match x {
        OnnxValue::Tensor(x) => RtenInput::new(x),
        other => Err(TensorError::NotTensor(other.kind())),
    }
}
