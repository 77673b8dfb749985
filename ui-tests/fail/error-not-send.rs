//! An error must be `Send`.

use std::rc::Rc;
use ui_tests::{Handle, Named};

#[derive(Debug)]
struct DeviceLost(Rc<str>);

impl std::fmt::Display for DeviceLost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DeviceLost {}

impl From<bb::Error> for DeviceLost {
    fn from(error: bb::Error) -> DeviceLost {
        DeviceLost(error.to_string().into())
    }
}

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
        Err(DeviceLost("lost".into()))
    }
}

fn main() {}
