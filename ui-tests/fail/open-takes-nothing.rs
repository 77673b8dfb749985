//! A constructor for options that takes no arguments.

#[derive(bb::Backend)]
#[bb(open = Cpu::open, options(threads))]
struct Cpu;

ui_tests::backend!(Cpu);

impl Cpu {
    fn open() -> Cpu {
        Cpu
    }
}

fn main() {}
