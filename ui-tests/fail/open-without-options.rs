//! A constructor that takes options, without a list of these options.

#[derive(bb::Backend)]
#[bb(open = Cpu::open)]
struct Cpu;

ui_tests::backend!(Cpu);

impl Cpu {
    fn open(_: &bb::OpenOptions) -> Cpu {
        Cpu
    }
}

fn main() {}
