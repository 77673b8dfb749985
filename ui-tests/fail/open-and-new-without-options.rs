//! Two constructors, and no list of options.

#[derive(bb::Backend)]
#[bb(new = Cpu::new, open = Cpu::open)]
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
