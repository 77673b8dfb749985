//! A constructor with options whose option is misspelt.

#[derive(bb::Backend)]
#[bb(opne = Cpu::open, options(threads))]
struct Cpu;

ui_tests::backend!(Cpu);

impl Cpu {
    fn open(_: &bb::OpenOptions) -> Cpu {
        Cpu
    }
}

fn main() {}
