//! `#[bb::native]` with an option that it does not have.

use ui_tests::Handle;

struct Cpu;

ui_tests::backend!(Cpu);

#[bb::native(relu)]
impl bb::ext::Nn for Cpu {
    fn relu(&self, x: &Handle) -> Result<Handle, bb::Error> {
        Ok(x.clone())
    }
}

fn main() {}
