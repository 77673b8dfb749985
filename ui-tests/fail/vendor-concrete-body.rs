//! A body for one backend instead of a body for all.

use ui_tests::{Handle, refuse};

struct Cpu;

fn negated(on: &Cpu, x: &Handle) -> Result<Handle, bb::Error> {
    bb::Backend::neg(on, x)
}

impl bb::Backend for Cpu {
    type Tensor = Handle;
    type Error = bb::Error;

    bb::forward_to_execute!(refuse);

    fn to_host(&self, _x: &Handle) -> Result<bb::TensorData, bb::Error> {
        ui_tests::no_elements()
    }
}

bb::vendor! {
    /// Operations.
    pub trait Acme(AcmeOp, AcmeCalls) in "com.acme" {
        /// Negates.
        Negated 1 = negated(x: Tensor) -> Tensor => body: negated;
    }
}

fn main() {}
