//! A text as the error of a backend.

use bb::ir::op::Param;
use ui_tests::Handle;

struct Cpu;

impl Cpu {
    fn call(
        &self,
        _: bb::Primitive,
        _: &[Option<&Handle>],
        _: &[Param<'_>],
    ) -> Result<bb::Outputs<Handle>, String> {
        Err("no".to_owned())
    }
}

impl bb::Backend for Cpu {
    type Tensor = Handle;
    type Error = String;

    bb::forward_to_call!(Self::call);

    fn to_host(&self, _: &Handle) -> Result<bb::TensorData, String> {
        Err("no".to_owned())
    }
}

fn main() {}
