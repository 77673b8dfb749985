//! A family whose methods lack `#[bb::native]`, so that no plan would call them.

use ui_tests::Handle;

#[derive(bb::Backend, Default)]
#[bb(extensions(Nn))]
struct Cpu;

ui_tests::backend!(Cpu);

impl bb::ext::Nn for Cpu {
    fn relu(&self, x: &Handle) -> Result<Handle, bb::Error> {
        Ok(x.clone())
    }
}

fn main() {}
