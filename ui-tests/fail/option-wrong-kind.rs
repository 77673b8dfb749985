//! A name that is not a string.

#[derive(bb::Backend, Default)]
#[bb(name = 7)]
struct Cpu;

ui_tests::backend!(Cpu);

fn main() {}
