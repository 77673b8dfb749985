//! A backend with kernels whose error cannot hold an error of `bb`.

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
    fn run(&self, _: &bb::GraphProto, inputs: Named, _: bb::BackendAttrs<'_>) -> Result<Named, DeviceLost> {
        Ok(inputs)
    }
}

impl bb::Backend for Cpu {
    type Tensor = Handle;
    type Error = DeviceLost;

    ui_tests::forward_except_matmul!(Self::run);

    fn matmul(&self, a: &Handle, _: &Handle) -> Result<Handle, DeviceLost> {
        Ok(a.clone())
    }

    fn to_host(&self, _: &Handle) -> Result<bb::TensorData, DeviceLost> {
        Err(DeviceLost)
    }
}

fn main() {}
