//! A family's method with a wrong signature.

use ui_tests::Handle;

struct Cpu;

ui_tests::backend!(Cpu);

#[bb::native]
impl bb::ext::Nn for Cpu {
    fn softmax(&self, x: &Handle) -> Result<Handle, bb::Error> {
        Ok(x.clone())
    }
}

fn main() {}
