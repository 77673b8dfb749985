//! `#[bb::native]` on an inherent `impl`.

use ui_tests::Handle;

struct Cpu;

ui_tests::backend!(Cpu);

#[bb::native]
impl Cpu {
    fn relu(&self, x: &Handle) -> Result<Handle, bb::Error> {
        Ok(x.clone())
    }
}

fn main() {}
