//! A constructor that does not exist.

#[derive(bb::Backend)]
#[bb(new = Cpu::open)]
struct Cpu;

ui_tests::backend!(Cpu);

fn main() {}
