//! A backend must be `Sync`, also if it is registered and forwards single operations.

use bb::ir::op::Param;
use std::cell::Cell;
use ui_tests::Handle;

#[derive(bb::Backend, Default)]
struct Cpu {
    _calls: Cell<u64>,
}

impl Cpu {
    fn call(
        &self,
        _: bb::Primitive,
        _: &[Option<&Handle>],
        _: &[Param<'_>],
    ) -> Result<bb::Outputs<Handle>, bb::Error> {
        Err(bb::Error::Abandoned)
    }
}

impl bb::Backend for Cpu {
    type Tensor = Handle;
    type Error = bb::Error;

    bb::forward_to_call!(Self::call);

    fn to_host(&self, _: &Handle) -> Result<bb::TensorData, bb::Error> {
        ui_tests::no_elements()
    }
}

fn main() {}
