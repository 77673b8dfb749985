//! Two constructors.

#[derive(bb::Backend)]
#[bb(new = Cpu::new, open = Cpu::open, options(threads))]
struct Cpu;

ui_tests::backend!(Cpu);

impl Cpu {
    fn new() -> Cpu {
        Cpu
    }

    fn open(_: &bb::OpenOptions) -> Cpu {
        Cpu
    }
}

fn main() {}
