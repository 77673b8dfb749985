//! A method that the family does not have.

use ui_tests::Handle;

struct Cpu;

ui_tests::backend!(Cpu);

#[bb::native]
impl bb::ext::Nn for Cpu {
    fn rely(&self, x: &Handle) -> Result<Handle, bb::Error> {
        Ok(x.clone())
    }
}

fn main() {}
