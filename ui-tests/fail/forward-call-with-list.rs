//! `forward_to_call!` takes no list, and the path of the function has no parentheses.

use ui_tests::Handle;

struct Cpu;

impl bb::Backend for Cpu {
    type Tensor = Handle;
    type Error = bb::Error;

    bb::forward_to_call!(Self::call; add, sub);

    fn to_host(&self, _x: &Handle) -> Result<bb::TensorData, bb::Error> {
        ui_tests::no_elements()
    }
}

struct Gpu;

impl bb::Backend for Gpu {
    type Tensor = Handle;
    type Error = bb::Error;

    bb::forward_to_execute!(Self::run());

    fn to_host(&self, _x: &Handle) -> Result<bb::TensorData, bb::Error> {
        ui_tests::no_elements()
    }
}

fn main() {}
