//! A common option in quotes.

#[derive(bb::Backend)]
#[bb(open = Cpu::open, options("memory"))]
struct Cpu;

ui_tests::backend!(Cpu);

impl Cpu {
    fn open(_: &bb::OpenOptions) -> Cpu {
        Cpu
    }
}

fn main() {}
