//! An option that nobody can give.

#[derive(bb::Backend)]
#[bb(open = Cpu::open, options(treads))]
struct Cpu;

ui_tests::backend!(Cpu);

impl Cpu {
    fn open(_: &bb::OpenOptions) -> Cpu {
        Cpu
    }
}

fn main() {}
