//! The backend's error cannot hold an error of `bb`.

use ui_tests::{Handle, Named};

#[derive(Debug)]
struct DeviceLost;

impl std::fmt::Display for DeviceLost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("device lost")
    }
}

impl std::error::Error for DeviceLost {}

struct Cpu;

impl Cpu {
    fn run(
        &self,
        _graph: &bb::GraphProto,
        inputs: Named,
        _attrs: bb::BackendAttrs<'_>,
    ) -> Result<Named, DeviceLost> {
        Ok(inputs)
    }
}

impl bb::Backend for Cpu {
    type Tensor = Handle;
    type Error = DeviceLost;

    bb::forward_to_execute!(Self::run);

    fn to_host(&self, _x: &Handle) -> Result<bb::TensorData, DeviceLost> {
        Err(DeviceLost)
    }
}

fn main() {}
