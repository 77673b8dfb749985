//! A constructor that takes an argument.

#[derive(bb::Backend)]
#[bb(new = Cpu::with_threads)]
struct Cpu;

ui_tests::backend!(Cpu);

impl Cpu {
    fn with_threads(_threads: usize) -> Cpu {
        Cpu
    }
}

fn main() {}
