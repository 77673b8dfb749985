//! Exports a backend that supports only `f32`, `i32` and `bool` as a plugin of ONNX Runtime.
//!
//!     cargo build -p bb-ort-plugin --example few

use bb::ir::op::Param;
use bb::{Backend, DataTypes, Outputs, Primitive, TensorData};
use bb_tests::few::Few;

/// A new type around [`Few`] that derives `bb::Backend`, because `export!` requires the derive and `Few` does not have
/// it.
#[derive(Debug, bb::Backend)]
#[bb(name = "few")]
pub struct Least(Few);

impl Default for Least {
    fn default() -> Least {
        Least(Few::least())
    }
}

impl Least {
    fn call(
        &self,
        op: Primitive,
        inputs: &[Option<&<Few as Backend>::Tensor>],
        params: &[Param<'_>],
    ) -> Result<Outputs<<Few as Backend>::Tensor>, <Few as Backend>::Error> {
        bb::call_primitive(&self.0, op, inputs, params)
    }
}

impl Backend for Least {
    type Tensor = <Few as Backend>::Tensor;
    type Error = <Few as Backend>::Error;

    bb::forward_to_call!(Self::call);

    fn to_host(&self, x: &Self::Tensor) -> Result<TensorData, Self::Error> {
        self.0.to_host(x)
    }

    fn types(&self) -> DataTypes {
        self.0.types()
    }
}

bb_ort_plugin::export!(Least);
