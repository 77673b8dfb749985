//! An unknown option of `options(…)`.

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
