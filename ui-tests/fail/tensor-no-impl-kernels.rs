//! A backend with a method for each operation whose tensor is no tensor.

use bb::ir::op::Param;

#[derive(Default, bb::Backend)]
struct Cpu;

impl Cpu {
    fn call(
        &self,
        _: bb::Primitive,
        _: &[Option<&Vec<f32>>],
        _: &[Param<'_>],
    ) -> Result<bb::Outputs<Vec<f32>>, bb::Error> {
        Err(bb::Error::Abandoned)
    }
}

impl bb::Backend for Cpu {
    type Tensor = Vec<f32>;
    type Error = bb::Error;

    bb::forward_to_call!(Self::call);

    fn to_host(&self, _: &Self::Tensor) -> Result<bb::TensorData, Self::Error> {
        ui_tests::no_elements()
    }
}

fn main() {}
