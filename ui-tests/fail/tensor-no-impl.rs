//! The tensor type does not implement `bb::Tensor`.

use std::collections::HashMap;

struct Cpu;

impl Cpu {
    fn run(
        &self,
        _graph: &bb::GraphProto,
        inputs: HashMap<String, Vec<f32>>,
        _attrs: bb::BackendAttrs<'_>,
    ) -> Result<HashMap<String, Vec<f32>>, bb::Error> {
        Ok(inputs)
    }
}

impl bb::Backend for Cpu {
    type Tensor = Vec<f32>;
    type Error = bb::Error;

    bb::forward_to_execute!(Self::run);

    fn to_host(&self, _x: &Vec<f32>) -> Result<bb::TensorData, bb::Error> {
        ui_tests::no_elements()
    }
}

fn main() {}
