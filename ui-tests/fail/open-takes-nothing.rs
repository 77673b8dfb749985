//! A constructor for options that does not take them.

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
