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

    bb::forward_to_execute!(Self::run; sub, mul, div, neg, abs, sqrt, pow, exp, log, matmul, reduce_sum, reduce_mean,
        reduce_max, reduce_min, reshape, transpose, concat, slice, split, squeeze, unsqueeze, identity, cast, equal,
        greater, less, constant, gather);

    fn add(&self, a: &Handle, _: &Handle) -> Result<Handle, DeviceLost> {
        Ok(a.clone())
    }

    fn r#where(&self, _: &Handle, x: &Handle, _: &Handle) -> Result<Handle, DeviceLost> {
        Ok(x.clone())
    }

    fn to_host(&self, _: &Handle) -> Result<bb::TensorData, DeviceLost> {
        Err(DeviceLost)
    }
}

fn main() {}
