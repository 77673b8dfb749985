//! A constructor that is called.

#[derive(bb::Backend)]
#[bb(new = Cpu::open())]
struct Cpu;

ui_tests::backend!(Cpu);

impl Cpu {
    pub fn open() -> Cpu {
        Cpu
    }
}

fn main() {}
