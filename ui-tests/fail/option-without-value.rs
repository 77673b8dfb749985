//! An option without its value.

#[derive(bb::Backend, Default)]
#[bb(name)]
struct Cpu;

ui_tests::backend!(Cpu);

fn main() {}
