//! Misspelt options of the derive, of its `options(…)` and of `#[bb::native]`.

use ui_tests::Handle;

#[derive(bb::Backend)]
#[bb(nmae = "cpu", open = Cpu::open, options(thread), extensions(Nn))]
struct Cpu;

ui_tests::backend!(Cpu);

impl Cpu {
    fn open(_: &bb::OpenOptions) -> Cpu {
        Cpu
    }
}

#[bb::native(opertions = NnOp)]
impl bb::ext::Nn for Cpu {
    fn relu(&self, x: &Handle) -> Result<Handle, bb::Error> {
        Ok(x.clone())
    }
}

fn main() {}
