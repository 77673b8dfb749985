//! Native methods of families that the derive does not name.

use ui_tests::Handle;

#[derive(bb::Backend, Default)]
#[bb(extensions(Scalar))]
struct Cpu;

ui_tests::backend!(Cpu);

#[bb::native]
impl bb::ext::Scalar for Cpu {}

#[bb::native]
impl bb::ext::Nn for Cpu {
    fn relu(&self, x: &Handle) -> Result<Handle, bb::Error> {
        Ok(x.clone())
    }
}

fn main() {}
