//! `#[bb::native]` on the contract.

use ui_tests::Handle;

struct Cpu;

#[bb::native]
impl bb::Backend for Cpu {
    type Tensor = Handle;
    type Error = bb::Error;

    bb::forward_to_execute!(ui_tests::refuse);

    fn to_host(&self, _x: &Handle) -> Result<bb::TensorData, bb::Error> {
        ui_tests::no_elements()
    }
}

fn main() {}
