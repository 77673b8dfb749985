//! Methods that a macro generates, which the attribute cannot see.

use ui_tests::Handle;

struct Cpu;

ui_tests::backend!(Cpu);

macro_rules! relu {
    () => {
        fn relu(&self, x: &Handle) -> Result<Handle, bb::Error> {
            Ok(x.clone())
        }
    };
}

#[bb::native]
impl bb::ext::Nn for Cpu {
    relu!();
}

fn main() {}
